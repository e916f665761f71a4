//! Classes of the server's errors, with advice.

use std::fmt::Write as _;

use super::answer::Broken;
use crate::connection::{Failure, FailureClass};
use crate::net::too_long_text;
use crate::workload::oltp;

pub(super) fn broken_failure(broken: Broken) -> Failure {
    match broken {
        Broken::Lost(failure) => failure,
        Broken::Refused { code, mut message, .. } => {
            let code = code.as_str();
            let (class, advice) = class_of(code);
            let advice = if code == NO_SUCH_TABLE { oltp::advice_on_missing(&message) } else { advice };
            // The text begins with the server's message. Writing to a string cannot fail.
            let _ = write!(message, " (SQLSTATE {code}){advice}");
            Failure::new(class, message)
        }
        Broken::Garbled(what) => Failure::new(FailureClass::Connection, what),
        Broken::TooLong { bytes, bytes_max } => {
            Failure::new(FailureClass::Connection, too_long_text(bytes, bytes_max))
        }
    }
}

/// `undefined_table`.
pub(super) const NO_SUCH_TABLE: &str = "42P01";

/// The class of a server's error, and advice for errors of the configuration.
///
/// # Source
///
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
pub(super) fn class_of(code: &str) -> (FailureClass, &'static str) {
    use FailureClass::{Application, Configuration, Connection, Transient};
    match code {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => (Transient, ""),
        // Too many connections; shutdown, crash, cannot connect now, idle session timeouts.
        "53300" | "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => (Connection, ""),
        "3D000" | "57P04" => (Configuration, ": create that database first, or name another in the target"),
        "42501" => (Configuration, ": grant this user the privileges that the workload needs"),
        // Syntax, and names or types that do not exist.
        "42601" | "42703" | "42883" | "42704" | "42P02" | "42P18" | "3F000" | "42804" | "42702"
        | NO_SUCH_TABLE => (Configuration, ""),
        _ if code.starts_with("08") => (Connection, ""),
        _ if code.starts_with("28") => {
            (Configuration, ": check the user and the password in the target, and pg_hba.conf")
        }
        _ => (Application, ""),
    }
}
