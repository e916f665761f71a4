//! Pages and documents for the server: what the other commands print.

use archive::{Archive, ArchiveError};
use record::run::RunId;
use report::Form;
use report::text::Detail;
use serde_json::Value;
use serve::{Histories, HistoryWanted, PrintError, Printer};

use crate::cmd::history::{self, RULES, Select};
use crate::cmd::report::{Made, made};
use crate::cmd::{Global, compare, runs};

/// Prints as the commands of this program do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own;

impl Printer for Own {
    fn page(&self, archive: &Archive, id: RunId) -> Result<String, PrintError> {
        made(archive, &[id], Made { identify: false, force: false, form: Form::Html }).map_err(of)
    }

    fn document(&self, archive: &Archive, id: RunId) -> Result<Value, PrintError> {
        let mut text = Vec::new();
        let global = Global::new(Some(archive.dir().to_owned()), true);
        runs::show_in(archive, id, Detail::Brief, &global, &mut text).map_err(of)?;
        serde_json::from_slice(&text).map_err(|e| PrintError::Unfit { why: e.to_string() })
    }

    fn compare(&self, archive: &Archive, ids: &[RunId]) -> Result<Value, PrintError> {
        compare::document(archive, ids).map_err(of)
    }

    fn history(&self, archive: &Archive, wanted: &HistoryWanted) -> Result<Histories, PrintError> {
        let select = Select {
            metric: wanted.metric.clone(),
            of: wanted.of.clone(),
            labels: wanted.labels.clone(),
            ..Select::default()
        };
        // A run that does not read is in the server's list of damage.
        let told = history::told(archive, &select, RULES, wanted.runs_max, &mut |_| {}).map_err(of)?;
        let global = Global::new(Some(archive.dir().to_owned()), false);
        let name = |id: RunId| global.short_name(id);
        let page = report::page::history(&told.histories, &told.none, &name);
        Ok(Histories {
            document: report::json::history(&told.histories, RULES.alpha, &told.left_out),
            page: report::render(&page, Form::Html),
        })
    }
}

fn of(error: anyhow::Error) -> PrintError {
    match error.downcast::<ArchiveError>() {
        Ok(error) => error.into(),
        Err(other) => PrintError::Unfit { why: format!("{other:#}") },
    }
}
