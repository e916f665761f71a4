//! Builds the tables that a workload needs, or finds that they are there.
//!
//! A table is usable when it holds its rows and its index. One that holds something else may be what an interrupted
//! build left, or what somebody wants to keep: nobody can tell, so it is replaced only where the user says so.

use std::ops::ControlFlow;

use record::load::{DataCheck, LoadSettings, OltpSettings, PreparePolicy, Workload};
use record::verdict::Check;

use crate::Event;
use crate::driver::{Driver, Failure, FailureClass};
use crate::error::LoadError;
use crate::schedule::random::Random;
use crate::workload::rows::{C_LENGTH, Digits, PAD_LENGTH, RowPicker};

mod together;

/// Tells the chance that fills tables from that which reads them.
const DATA_SALT: u64 = 0x0064_6174_6173_6574;

/// How a table is replaced: never unasked.
const ANEW: &str =
    "replace it, as after an interrupted build, with `bakeoff prepare --from-scratch` or --prepare always";

/// Where the tables of a target are.
pub(crate) trait Store {
    /// What there is of table `sbtest<table>`.
    ///
    /// - `depth`: [`DataCheck::Full`] counts the rows; any other looks at the first and the last one, which touches a page
    ///   or two, and takes the rows in between for granted.
    fn find(&mut self, table: u32, depth: DataCheck) -> Result<Found, Failure>;

    /// Builds the table from nothing: rows, then index. Asks `on_rows` now and then whether to go on.
    ///
    /// A build that is told to stop leaves no table; what one that was killed leaves, [`Store::find`] must be able to
    /// tell from a whole table.
    fn build(
        &mut self,
        table: u32,
        rows: &mut Rows,
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
pub(crate) enum Found {
    Nothing,
    Table { rows: u64, has_index: bool },
}

/// The rows of one table in the order of their id, made on the way.
#[derive(Debug)]
pub(crate) struct Rows {
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
pub(crate) struct Row<'a> {
    pub(crate) id: u64,
    pub(crate) k: u64,
    pub(crate) c: &'a str,
    pub(crate) pad: &'a str,
}

impl Rows {
    fn new(oltp: &OltpSettings, table: u32, seed: u64) -> Self {
        let keys = RowPicker::new(oltp.distribution, oltp.rows);
        let (c, pad) = (Digits::new(), Digits::new());
        Self { next_id: 1, last_id: oltp.rows, seed: seed ^ DATA_SALT, table, keys, c, pad }
    }

    /// The next row; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<Row<'_>> {
        let id = self.next_id;
        if id > self.last_id {
            return None;
        }
        self.next_id += 1;
        let mut random = Random::of(self.seed, (u64::from(self.table) << 40) ^ id);
        let k = self.keys.pick(&mut random);
        Some(Row { id, k, c: self.c.draw(&mut random), pad: self.pad.draw(&mut random) })
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

/// Sees to it that the data set is there, by the policy. Missing tables are built at the same time, as many as there are
/// threads, if the target allows it.
pub(crate) fn ensure(
    store: &mut dyn Store,
    driver: &dyn Driver,
    settings: &LoadSettings,
    is_stopped: &dyn Fn() -> bool,
    on_event: &dyn Fn(Event),
) -> Result<Prepared, LoadError> {
    let oltp = &settings.oltp;
    let mut prepared = Prepared { found: 0, built: 0, rows: oltp.rows };
    if settings.check == DataCheck::None && settings.prepare != PreparePolicy::Always {
        return Ok(prepared);
    }
    let mut missing = Vec::new();
    for table in 1..=oltp.tables {
        let failed = |failure| data_set_error(settings, format!("looking at sbtest{table}"), failure);
        let found = store.find(table, settings.check).map_err(failed)?;
        if must_build(settings, table, found)? {
            missing.push((table, found != Found::Nothing));
        } else {
            prepared.found += 1;
        }
    }
    let builders = together::builders(settings, driver, missing.len());
    let built = if builders > 1 {
        together::build_all(settings, driver, &missing, builders, is_stopped, on_event)?
    } else {
        let mut build = |(table, is_there): &(u32, bool)| {
            build_one(store, settings, *table, *is_there, is_stopped, on_event)
        };
        let mut built = ControlFlow::Continue(());
        for table in &missing {
            built = build(table)?;
            if built.is_break() {
                break;
            }
        }
        built
    };
    if built.is_break() {
        return Err(LoadError::Interrupted);
    }
    prepared.built = u32::try_from(missing.len()).expect("as many as there are tables at most");
    Ok(prepared)
}

/// Builds a table, in place of what `is_there`.
fn build_one(
    store: &mut dyn Store,
    settings: &LoadSettings,
    table: u32,
    is_there: bool,
    is_stopped: &dyn Fn() -> bool,
    on_event: &dyn Fn(Event),
) -> Result<ControlFlow<()>, LoadError> {
    let failed = |doing: &str, failure| data_set_error(settings, format!("{doing} sbtest{table}"), failure);
    if is_there {
        store.remove(table).map_err(|f| failed("replacing", f))?;
    }
    let mut rows = Rows::new(&settings.oltp, table, settings.seed);
    let mut on_rows = |rows_done| {
        on_event(Event::Preparing {
            table: format!("sbtest{table}"),
            unit: "rows",
            rows_done,
            rows: settings.oltp.rows,
        });
        if is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.build(table, &mut rows, &mut on_rows).map_err(|f| failed("building", f))
}

/// Removes the tables.
pub(crate) fn remove(store: &mut dyn Store, settings: &LoadSettings) -> Result<Cleaned, LoadError> {
    let mut removed = 0;
    for table in 1..=settings.oltp.tables {
        let was_there = store.remove(table);
        let was_there =
            was_there.map_err(|f| data_set_error(settings, format!("removing sbtest{table}"), f))?;
        removed += u32::from(was_there);
    }
    Ok(Cleaned { removed })
}

fn must_build(settings: &LoadSettings, table: u32, found: Found) -> Result<bool, LoadError> {
    let wanted = settings.oltp.rows;
    let problem = match (settings.prepare, found) {
        (PreparePolicy::Always, _) | (PreparePolicy::Auto, Found::Nothing) => return Ok(true),
        (_, Found::Table { rows, has_index: true }) if rows == wanted => return Ok(false),
        // A table that only grows is as good for growing on.
        (_, Found::Table { rows, has_index: true })
            if rows > wanted && matches!(settings.workload, Workload::OltpInsert | Workload::BulkInsert) =>
        {
            return Ok(false);
        }
        // Deleting goes on where it ended, where the user says that this is meant.
        (PreparePolicy::Never, Found::Table { .. }) if settings.workload == Workload::OltpDelete => {
            return Ok(false);
        }
        // A smaller part of a larger table is another data set than a table of that size, but the user's to choose.
        (PreparePolicy::Never, Found::Table { rows, .. }) if rows >= wanted => return Ok(false),
        (PreparePolicy::Never, Found::Nothing) => {
            format!(
                "there is no table sbtest{table}: build the data set with `bakeoff prepare` or `--prepare auto`"
            )
        }
        (PreparePolicy::Auto, Found::Table { rows, .. }) if rows > wanted => format!(
            "sbtest{table} holds {rows} rows, more than the {wanted} asked for: ask for --rows {rows}, or replace it \
             with --prepare always, or use part of it with --prepare never"
        ),
        (PreparePolicy::Auto, Found::Table { rows, .. }) if rows == wanted => {
            format!("sbtest{table} has no index on k: {ANEW}, or use it as it is with --prepare never")
        }
        (_, Found::Table { rows: 0, .. }) => format!("sbtest{table} holds 0 of {wanted} rows: {ANEW}"),
        (_, Found::Table { rows, .. }) => {
            format!("sbtest{table} holds {rows} of {wanted} rows: ask for --rows {rows}, or {ANEW}")
        }
    };
    Err(LoadError::NoDataSet { target: settings.target.clone(), problem })
}

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
