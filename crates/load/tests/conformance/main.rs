//! Conformance of every driver, checked against the real server: one line in the table below for each driver.
//!
//! A driver's file here starts its server, and declares what can be done to it ([`subject::Subject`]); the
//! checks are the same for all. A check that is impossible for a subject (`null:` cannot crash) is left out.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

#[path = "../support/mod.rs"]
mod support;

mod checks;
mod silent;
mod subject;

mod exec;
mod filled;
mod http;
mod loops;
mod memcached;
mod mysql;
mod null;
mod postgres;
mod redis;
mod sqlite;

/// The same servers, with many connections on each thread.
mod http_loops {
    pub(crate) fn start() -> Option<impl crate::subject::Subject> {
        crate::http::start().map(crate::loops::Loops)
    }
}
mod https {
    pub(crate) use crate::http::start_secured as start;
}
mod https_loops {
    pub(crate) fn start() -> Option<impl crate::subject::Subject> {
        crate::http::start_secured().map(crate::loops::Loops)
    }
}
mod memcached_loops {
    pub(crate) fn start() -> Option<impl crate::subject::Subject> {
        crate::memcached::start().map(crate::loops::Loops)
    }
}
mod mysql_loops {
    pub(crate) fn start() -> Option<impl crate::subject::Subject> {
        crate::mysql::start().map(crate::loops::Loops)
    }
}
mod postgres_loops {
    pub(crate) fn start() -> Option<impl crate::subject::Subject> {
        crate::postgres::start().map(crate::loops::Loops)
    }
}
mod redis_loops {
    pub(crate) fn start() -> Option<impl crate::subject::Subject> {
        crate::redis::start().map(crate::loops::Loops)
    }
}

/// One test for each driver: all checks, one after another, on one server.
macro_rules! conform {
    ($($driver:ident)*) => {$(
        #[test]
        fn $driver() {
            // A server that is not installed has printed so.
            if let Some(mut subject) = $driver::start() {
                $crate::checks::all(&mut subject);
            }
        }
    )*};
}

mod drivers {
    use super::{
        exec, http, http_loops, https, https_loops, memcached, memcached_loops, mysql, mysql_loops, null,
        postgres, postgres_loops, redis, redis_loops, sqlite,
    };

    conform! {
        exec http http_loops https https_loops memcached memcached_loops mysql mysql_loops null postgres
        postgres_loops redis redis_loops sqlite
    }
}
