//! What every driver must get right, checked against the real thing: one line in the table below a driver.
//!
//! A driver's file here says how to start its other side, and what can be done to it ([`subject::Subject`]); the checks
//! are the same for all. What a subject cannot have done to it (nobody can crash `null:`) is left out of its checks.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

#[path = "../support/mod.rs"]
mod support;

mod checks;
mod subject;

mod exec;
mod mysql;
mod null;
mod postgres;
mod sqlite;

/// One test a driver: all checks, one after the other, on one other side.
macro_rules! conform {
    ($($driver:ident)*) => {$(
        #[test]
        fn $driver() {
            // One that is not installed has said so.
            if let Some(mut subject) = $driver::start() {
                $crate::checks::all(&mut subject);
            }
        }
    )*};
}

mod drivers {
    use super::{exec, mysql, null, postgres, sqlite};

    conform! { exec mysql null postgres sqlite }
}
