//! The data set of a workload as a driver keeps it: tables of rows, or keys in a cache.

use std::ops::ControlFlow;

use record::load::{DataCheck, LoadSettings, OltpSettings};
use record::verdict::Check;

use super::rows::{C_LENGTH, Digits, PAD_LENGTH, RowPicker};
use crate::connection::{Failure, FailureClass};
use crate::control::progress::Event;
use crate::error::LoadError;
use crate::schedule::random::Random;

/// Where the tables of a target are.
pub(crate) trait Store {
    /// What there is of table `sbtest<table>`.
    ///
    /// - `depth`: [`DataCheck::Full`] counts the rows; any other looks at the first and the last one, which touches a page
    ///   or two, and takes the rows in between for granted.
    fn find(&mut self, table: u32, depth: DataCheck) -> Result<TableState, Failure>;

    /// Builds the table from nothing: rows, then index. Asks `on_rows` now and then whether to go on.
    ///
    /// A build that is told to stop leaves no table; what one that was killed leaves, [`Store::find`] must be able to
    /// tell from a whole table.
    fn build(
        &mut self,
        table: u32,
        rows: &mut RowGenerator,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure>;

    /// Removes the table; false where there was none.
    fn remove(&mut self, table: u32) -> Result<bool, Failure>;
}

/// A cache that is filled, and used until it does alike: before a load, not in it.
pub(crate) trait Cache {
    /// Fills it by the policy, lets it settle, and says what came of that.
    fn ensure(
        &mut self,
        settings: &LoadSettings,
        is_stopped: &dyn Fn() -> bool,
        on_event: &dyn Fn(Event),
    ) -> Result<(Prepared, Vec<Check>), LoadError>;

    /// Removes its keys.
    fn remove(&mut self, settings: &LoadSettings) -> Result<Cleaned, LoadError>;
}

/// The rows of a table that is numbered without gaps, by its first and its last number; 0 if it has none.
///
/// A table that begins with another number than 1 lacks rows: as many as stand before its first one, at least.
pub(crate) fn rows_between(first: Option<u64>, last: Option<u64>) -> u64 {
    first.zip(last).map_or(0, |(first, last)| last.saturating_add(1).saturating_sub(first.max(1)))
}

/// What there is of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableState {
    Nothing,
    Table { rows: u64, has_index: bool },
}

/// The rows of one table in the order of their id, made on the way.
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

    /// The next row; `None` after the last.
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

    /// Rows made so far.
    pub(crate) fn made(&self) -> u64 {
        self.next_id - 1
    }
}

/// What preparing did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Tables that were found whole.
    pub found: u32,
    /// Tables that were built.
    pub built: u32,
    /// Rows in each.
    pub rows: u64,
}

/// What cleaning up did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// Tables that were removed.
    pub removed: u32,
}

/// Tells the chance that fills tables from that which reads them.
const DATA_SALT: u64 = 0x0064_6174_6173_6574;

/// What a failure while a data set is built or removed means for the user.
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
