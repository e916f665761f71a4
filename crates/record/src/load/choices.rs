//! Settings of a load with a fixed set of values.

use std::fmt;

use crate::run::words;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// The mixed transaction: point selects, ranges, updates, delete and insert.
    OltpReadWrite,
    /// The reading part of the mixed transaction.
    OltpReadOnly,
    /// The writing part of the mixed transaction.
    OltpWriteOnly,
    /// One row by primary key, no transaction.
    OltpPointSelect,
    /// One new row, numbered by the database, no transaction.
    OltpInsert,
    /// One row deleted by primary key, no transaction.
    OltpDelete,
    /// One row's indexed column updated, no transaction.
    OltpUpdateIndex,
    /// One row's other column updated, no transaction.
    OltpUpdateNonIndex,
    /// Several new rows with one statement, numbered by the database, no transaction.
    BulkInsert,
    /// Rows by values of the indexed column, one statement, no transaction.
    SelectRandomPoints,
    /// A count of rows by ranges of the indexed column, one statement, no transaction.
    SelectRandomRanges,
    /// A script of SQL statements.
    Script,
    /// Reading and writing values of a cache.
    Kv,
    /// Event that the target defines: one run of the command, one request, or nothing.
    Native,
}

words!(Workload {
    OltpReadWrite = "oltp-read-write",
    OltpReadOnly = "oltp-read-only",
    OltpWriteOnly = "oltp-write-only",
    OltpPointSelect = "oltp-point-select",
    OltpInsert = "oltp-insert",
    OltpDelete = "oltp-delete",
    OltpUpdateIndex = "oltp-update-index",
    OltpUpdateNonIndex = "oltp-update-non-index",
    BulkInsert = "bulk-insert",
    SelectRandomPoints = "select-random-points",
    SelectRandomRanges = "select-random-ranges",
    Script = "script",
    Kv = "kv",
    Native = "native",
});

/// Distribution of row numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Equal probability.
    Uniform,
    /// Zipf's law.
    Zipfian {
        /// The exponent.
        exponent: f64,
    },
    /// sysbench's own distribution: a share of the draws falls into a small part in the middle.
    Special,
    /// Pareto's law.
    Pareto {
        /// The shape.
        h: f64,
    },
}

impl Distribution {
    /// Names, as in sysbench.
    pub const NAMES: [&str; 4] = ["uniform", "zipfian", "special", "pareto"];

    /// Distribution of a name, with sysbench's parameters; `None` for any other word.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "zipfian" => Some(Self::Zipfian { exponent: 0.8 }),
            "special" => Some(Self::Special),
            "pareto" => Some(Self::Pareto { h: 0.2 }),
            _ => None,
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipfian { .. } => "zipfian",
            Self::Special => "special",
            Self::Pareto { .. } => "pareto",
        })
    }
}

/// Policy for missing data before the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparePolicy {
    /// Build missing data.
    Auto,
    /// Always build all data.
    Always,
    /// Build nothing: missing data is an error.
    Never,
}

words!(PreparePolicy { Auto = "auto", Always = "always", Never = "never" });

/// Check of an existing data set before the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataCheck {
    /// Check first and last row and the index of each table, a page or two; does not detect missing rows in
    /// between.
    Quick,
    /// Count every row.
    Full,
    /// Check nothing.
    None,
}

words!(DataCheck { Quick = "quick", Full = "full", None = "none" });

/// Rule by which a worker takes the next due event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Any free worker.
    Shared,
    /// Thread i of n owns events i, i + n, ..., as in the steady-rate patch.
    Own,
}

words!(Schedule { Shared = "shared", Own = "own" });

/// Version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/2 over TLS if the server supports it, else HTTP/1.1.
    Any,
    /// HTTP/1.1.
    One,
    /// HTTP/2; without TLS, by prior knowledge.
    Two,
}

words!(HttpVersion { Any = "any", One = "1.1", Two = "2" });
