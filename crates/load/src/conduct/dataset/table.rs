//! Builds one table.

use std::ops::ControlFlow;

use record::load::LoadSettings;

use crate::control::progress::Event;
use crate::error::LoadError;
use crate::workload::tables::{RowGenerator, Store, data_set_error};

/// Builds a table, and replaces an existing one if `is_there`.
pub(super) fn build_one(
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
    let mut rows = RowGenerator::new(&settings.oltp, table, settings.seed);
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
