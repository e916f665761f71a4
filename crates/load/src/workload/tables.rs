//! Interface to the data set of a workload: tables of rows, or keys in a cache.

use std::ops::ControlFlow;

use record::load::{DataCheck, LoadSettings, OltpSettings};
use record::verdict::Check;

use super::rows::{C_LENGTH, Digits, PAD_LENGTH, RowPicker};
use crate::connection::{Failure, FailureClass};
use crate::control::progress::Event;
use crate::error::LoadError;
use crate::schedule::random::Random;

/// The tables of a target.
pub(crate) trait Store {
    /// State of table `sbtest<table>`.
    ///
    /// - `depth`: [`DataCheck::Full`] counts the rows; any other depth reads only the first and the last row,
    ///   which needs a page or two, and assumes that the rows in between exist.
    fn find(&mut self, table: u32, depth: DataCheck) -> Result<TableState, Failure>;

    /// Builds the table from scratch: rows, then index. Calls `on_rows` from time to time to ask whether to
    /// continue.
    ///
    /// A stopped build leaves no table. After a killed build, [`Store::find`] must be able to distinguish the
    /// remains from a complete table.
    fn build(
        &mut self,
        table: u32,
        rows: &mut RowGenerator,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure>;

    /// Removes the table; false if it did not exist.
    fn remove(&mut self, table: u32) -> Result<bool, Failure>;
}

/// A cache that is filled and brought to its steady state before a load.
pub(crate) trait Cache {
    /// Fills the cache according to the policy and waits until it is steady; returns counts and checks.
    fn ensure(
        &mut self,
        settings: &LoadSettings,
        is_stopped: &dyn Fn() -> bool,
        on_event: &dyn Fn(Event),
    ) -> Result<(Prepared, Vec<Check>), LoadError>;

    /// Removes its keys.
    fn remove(&mut self, settings: &LoadSettings) -> Result<Cleaned, LoadError>;
}

/// Number of rows of a table without gaps in its ids, from its first and last id; 0 if it is empty.
///
/// A table with a first id other than 1 lacks at least the rows before it.
pub(crate) fn rows_between(first: Option<u64>, last: Option<u64>) -> u64 {
    first.zip(last).map_or(0, |(first, last)| last.saturating_add(1).saturating_sub(first.max(1)))
}

/// State of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableState {
    Nothing,
    Table { rows: u64, has_index: bool },
}

/// The rows of one table in the order of their id, generated on demand.
#[derive(Debug)]
pub(crate) struct RowGenerator {
    next_id: u64,
    last_id: u64,
    seed: u64,
    table: u32,
    keys: RowPicker,
    c: Digits<C_LENGTH>,
    pad: Digits<PAD_LENGTH>,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableRow<'a> {
    pub(crate) id: u64,
    pub(crate) k: u64,
    pub(crate) c: &'a str,
    pub(crate) pad: &'a str,
}

impl RowGenerator {
    pub(crate) fn new(oltp: &OltpSettings, table: u32, seed: u64) -> Self {
        let keys = RowPicker::new(oltp.distribution, oltp.rows);
        let (c, pad) = (Digits::new(), Digits::new());
        Self { next_id: 1, last_id: oltp.rows, seed: seed ^ DATA_SALT, table, keys, c, pad }
    }

    /// Generates the next row; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<TableRow<'_>> {
        let id = self.next_id;
        if id > self.last_id {
            return None;
        }
        self.next_id += 1;
        let mut random = Random::of(self.seed, (u64::from(self.table) << 40) ^ id);
        let k = self.keys.pick(&mut random);
        Some(TableRow { id, k, c: self.c.draw(&mut random), pad: self.pad.draw(&mut random) })
    }

    /// Number of rows generated so far.
    pub(crate) fn made(&self) -> u64 {
        self.next_id - 1
    }
}

/// Result of preparing a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Number of tables that were already complete.
    pub found: u32,
    /// Number of tables that were built.
    pub built: u32,
    /// Number of rows per table.
    pub rows: u64,
}

/// Result of cleaning up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// Number of tables that were removed.
    pub removed: u32,
}

/// Separates the random stream that fills tables from the one that reads them.
const DATA_SALT: u64 = 0x0064_6174_6173_6574;

/// Maps a failure while a data set is built or removed to an error.
pub(crate) fn data_set_error(settings: &LoadSettings, doing: String, failure: Failure) -> LoadError {
    let target = settings.target.clone();
    match failure.class {
        FailureClass::Configuration => {
            LoadError::Refused { target, text: format!("{doing}: {}", failure.text) }
        }
        FailureClass::Machine => LoadError::Machine { target, text: format!("{doing}: {}", failure.text) },
        _ => LoadError::DataSet { target, doing, text: failure.text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_known_by_the_first_and_the_last_number() {
        assert_eq!(rows_between(None, None), 0);
        assert_eq!(rows_between(Some(1), Some(1_000)), 1_000);
        assert_eq!(rows_between(Some(11), Some(1_000)), 990);
        assert_eq!(rows_between(Some(0), Some(u64::MAX >> 1)), u64::MAX >> 1);
    }
}
