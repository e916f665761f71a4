//! Builds the tables that a workload needs, or finds that they are there.
//!
//! A table is usable when it holds its rows and its index. One that holds something else may be what an interrupted
//! build left, or what somebody wants to keep: nobody can tell, so it is replaced only where the user says so.

use std::ops::ControlFlow;

use record::load::{LoadSettings, OltpSettings, PreparePolicy, Workload};
use record::verdict::Check;

use crate::Event;
use crate::driver::{Failure, FailureClass};
use crate::error::LoadError;
use crate::random::Random;
use crate::rows::{C_LENGTH, Digits, PAD_LENGTH, RowPicker};

/// Tells the chance that fills tables from that which reads them.
const DATA_SALT: u64 = 0x0064_6174_6173_6574;

/// How a table is replaced: never unasked.
const ANEW: &str =
    "replace it, as after an interrupted build, with `bakeoff prepare --from-scratch` or --prepare always";

/// Where the tables of a target are.
pub(crate) trait Store {
    /// What there is of table `sbtest<table>`.
    fn find(&mut self, table: u32) -> Result<Found, Failure>;

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

/// Sees to it that the data set is there, by the policy.
pub(crate) fn ensure(
    store: &mut dyn Store,
    settings: &LoadSettings,
    is_stopped: &dyn Fn() -> bool,
    on_event: &dyn Fn(Event),
) -> Result<Prepared, LoadError> {
    let oltp = &settings.oltp;
    let mut prepared = Prepared { found: 0, built: 0, rows: oltp.rows };
    for table in 1..=oltp.tables {
        let failed =
            |doing: &str, failure| data_set_error(settings, format!("{doing} sbtest{table}"), failure);
        let found = store.find(table).map_err(|f| failed("looking at", f))?;
        if !must_build(settings, table, found)? {
            prepared.found += 1;
            continue;
        }
        if found != Found::Nothing {
            store.remove(table).map_err(|f| failed("replacing", f))?;
        }
        let mut rows = Rows::new(oltp, table, settings.seed);
        let mut on_rows = |rows_done| {
            on_event(Event::Preparing {
                table: format!("sbtest{table}"),
                unit: "rows",
                rows_done,
                rows: oltp.rows,
            });
            if is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let built = store.build(table, &mut rows, &mut on_rows).map_err(|f| failed("building", f))?;
        if built.is_break() {
            return Err(LoadError::Interrupted);
        }
        prepared.built += 1;
    }
    Ok(prepared)
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
            if rows > wanted && settings.workload == Workload::OltpInsert =>
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
