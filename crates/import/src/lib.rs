//! What other tools printed, made exact.
//!
//! Twenty years of performance cases are kept as text: mpstat, lockstat, plockstat and `vmstat -s` of Solaris, illumos,
//! FreeBSD and Linux. Each parser here reads its input once, line by line, in constant memory, and hands on what it
//! finds as it finds it. Nothing is guessed and nothing is dropped in silence: a line is data, is reported as a
//! [`Note`], or ends the import with an [`ImportError`] that names the line, the column and what was expected there.
//!
//! [`render`] prints each import as a table for people, as CSV and as JSON.

mod error;
mod fields;
mod lines;
pub mod render;
pub mod series;
pub mod solaris;
pub mod timeline;
pub mod vmstat_s;
pub mod watch;
mod when;

pub use error::{ImportError, Note, Place, Tool};
pub use lines::Input;
pub use when::{When, Zone};
