//! Parsers for the text output of other tools.
//!
//! Performance logs of twenty years are plain text: mpstat, lockstat, plockstat and `vmstat -s` of Solaris,
//! illumos, FreeBSD and Linux. Each parser reads its input once, line by line, in constant memory, and passes
//! on each result as soon as it is complete. A parser neither guesses nor drops lines silently: a line is
//! data, is reported as a [`Note`], or ends the import with an [`ImportError`] that names the line, the
//! column and the expected text.
//!
//! [`render`] prints each import as a table, as CSV and as JSON.

pub mod access_log;
mod error;
mod fields;
pub mod history;
mod lines;
pub mod render;
pub mod series;
pub mod solaris;
pub mod table;
pub mod timeline;
pub mod vmstat_s;
pub mod watch;
mod when;

pub use error::{ImportError, Note, Place, Tool};
pub use lines::Input;
pub use when::{When, Zone};
