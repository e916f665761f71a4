//! Builds the tables that a workload needs, or finds that they exist.
//!
//! A table is usable if it has its rows and its index. Any other table may be left from an interrupted build,
//! or may hold data of the user's. The program cannot tell, so it replaces the table only if the user says
//! so.

use std::ops::ControlFlow;

use record::load::{DataCheck, LoadSettings, PreparePolicy, Workload};

use crate::control::progress::Event;
use crate::driver::Driver;
use crate::error::LoadError;
use crate::workload::tables::{Cleaned, Prepared, Store, TableState, data_set_error};

mod table;
mod together;

use table::build_one;

/// The advice on how to replace a table, which never happens without a request.
const ANEW: &str =
    "rebuild it with `bakeoff prepare --from-scratch` or --prepare always, in case its build was interrupted";

/// Provides the data set, by the policy. Missing tables are built in parallel, one for each thread, if the
/// target allows it.
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
        let failed = |failure| data_set_error(settings, format!("checking sbtest{table}"), failure);
        let found = store.find(table, settings.check).map_err(failed)?;
        if must_build(settings, table, found)? {
            missing.push((table, found != TableState::Nothing));
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

fn must_build(settings: &LoadSettings, table: u32, found: TableState) -> Result<bool, LoadError> {
    let wanted = settings.oltp.rows;
    let problem = match (settings.prepare, found) {
        (PreparePolicy::Always, _) | (PreparePolicy::Auto, TableState::Nothing) => return Ok(true),
        (_, TableState::Table { rows, has_index: true }) if rows == wanted => return Ok(false),
        // For a load that only adds rows, a table may already have more rows than wanted.
        (_, TableState::Table { rows, has_index: true })
            if rows > wanted && matches!(settings.workload, Workload::OltpInsert | Workload::BulkInsert) =>
        {
            return Ok(false);
        }
        // Deleting continues from the last run, if the user says that this is meant.
        (PreparePolicy::Never, TableState::Table { .. }) if settings.workload == Workload::OltpDelete => {
            return Ok(false);
        }
        // A part of a larger table is another data set than a table of that size, but the user may choose it.
        (PreparePolicy::Never, TableState::Table { rows, .. }) if rows >= wanted => return Ok(false),
        (PreparePolicy::Never, TableState::Nothing) => {
            format!(
                "table sbtest{table} does not exist: build the data set with `bakeoff prepare` or `--prepare auto`"
            )
        }
        (PreparePolicy::Auto, TableState::Table { rows, .. }) if rows > wanted => format!(
            "sbtest{table} has {rows} rows, more than the requested {wanted}: use --rows {rows}, replace the table \
             with --prepare always, or use part of it with --prepare never"
        ),
        (PreparePolicy::Auto, TableState::Table { rows, .. }) if rows == wanted => {
            format!("sbtest{table} has no index on k: {ANEW}, or use it as it is with --prepare never")
        }
        (_, TableState::Table { rows: 0, .. }) => format!("sbtest{table} has 0 of {wanted} rows: {ANEW}"),
        (_, TableState::Table { rows, .. }) => {
            format!("sbtest{table} has {rows} of {wanted} rows: use --rows {rows}, or {ANEW}")
        }
    };
    Err(LoadError::NoDataSet { target: settings.target.clone(), problem })
}
