//! Classes of the server's errors, with advice.

use std::fmt::Write as _;

use super::answer::Broken;
use crate::connection::{Failure, FailureClass};
use crate::net::too_long_text;
use crate::workload::oltp;

pub(super) fn broken_failure(broken: Broken) -> Failure {
    match broken {
        Broken::Lost(failure) => failure,
        Broken::Refused { code, message, .. } => refused(code, message),
        Broken::Garbled(what) => Failure::new(FailureClass::Connection, what),
        Broken::TooLong { bytes, bytes_max } => {
            Failure::new(FailureClass::Connection, too_long_text(bytes, bytes_max))
        }
    }
}

/// - `message`: the server's, with which the failure's text begins.
fn refused(code: u16, mut message: String) -> Failure {
    let (class, advice) = class_of(code);
    let advice = if code == NO_SUCH_TABLE { oltp::advice_on_missing(&message) } else { advice };
    // Writing to a string cannot fail.
    let _ = write!(message, " (error {code}){advice}");
    Failure::new(class, message)
}

/// `ER_NO_SUCH_TABLE`.
pub(super) const NO_SUCH_TABLE: u16 = 1146;

/// The class of a server's error, and advice for errors of the configuration.
///
/// # Source
///
/// <https://mariadb.com/kb/en/mariadb-error-codes/>
pub(super) fn class_of(code: u16) -> (FailureClass, &'static str) {
    use FailureClass::{Application, Configuration, Connection, Transient};
    match code {
        // Lock wait timeout, deadlock, row changed since it was read, NOWAIT.
        1205 | 1213 | 1020 | 3572 => (Transient, ""),
        // Too many connections, server shutdown, connection killed or aborted, network errors.
        1040 | 1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1203 | 1226 | 1927 | 2006 | 2013 => {
            (Connection, "")
        }
        1045 | 1698 => (Configuration, ": check the user and the password in the target"),
        1044 | 1142 => (Configuration, ": grant this user the privileges that the workload needs"),
        1049 => (Configuration, ": create that database first, or name another in the target"),
        // Syntax, unknown columns, functions and tables.
        1064 | 1054 | 1305 | NO_SUCH_TABLE => (Configuration, ""),
        1130 => (Configuration, ": allow this host to connect"),
        1461 => {
            (Configuration, ": use --prepared no, fewer threads or fewer tables, or raise the server's limit")
        }
        _ => (Application, ""),
    }
}
