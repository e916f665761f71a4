//! Settings of a load that are one of some words.

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
    /// What the target itself is: one run of the command, one request, or nothing at all.
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

/// The distribution of row numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// All rows alike.
    Uniform,
    /// Zipf's law.
    Zipfian {
        /// The exponent.
        exponent: f64,
    },
    /// sysbench's own: a share of the draws falls into a small part in the middle.
    Special,
    /// Pareto's law.
    Pareto {
        /// The shape.
        h: f64,
    },
}

impl Distribution {
    /// The names, as users know them from sysbench.
    pub const NAMES: [&str; 4] = ["uniform", "zipfian", "special", "pareto"];

    /// The distribution of a name, with sysbench's own parameters; `None` for any other word.
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

/// The policy for missing data before the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparePolicy {
    /// Where it is missing.
    Auto,
    /// In any case, from scratch.
    Always,
    /// Not at all: missing data is an error.
    Never,
}

words!(PreparePolicy { Auto = "auto", Always = "always", Never = "never" });

/// The check of an existing data set before the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataCheck {
    /// First and last row and the index of each table: a page or two. Rows that are missing in between are not seen.
    Quick,
    /// Every row is counted.
    Full,
    /// Not at all: the data set is taken for granted.
    None,
}

words!(DataCheck { Quick = "quick", Full = "full", None = "none" });

/// The worker that takes the next due event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Any free worker.
    Shared,
    /// Thread i of n owns events i, i + n, ...: the steady-rate patch's form.
    Own,
}

words!(Schedule { Shared = "shared", Own = "own" });

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpVersion {
    /// HTTP/2 where TLS is spoken and the server has it, else HTTP/1.1.
    Any,
    /// HTTP/1.1.
    One,
    /// HTTP/2; without TLS, both sides know that it is.
    Two,
}

words!(HttpVersion { Any = "any", One = "1.1", Two = "2" });
