//! An import in the archive: a run with its time series, next to measured runs.

use std::fs::{self, File};
use std::path::PathBuf;

use import::When;
use import::series::Stamp;
use record::clock::WallAnchor;
use record::environment::Environment;
use record::run::{Run, RunHeader, RunKind};
use record::series::Sample;

use crate::cmd::import::source;
use crate::cmd::{Global, command_line};
use crate::exit::Exit;

/// Most values of an import that is kept: some 200 MB.
const KEPT_MAX: usize = 1_000_000;

/// Whether and how an import is kept.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct KeepOptions {
    /// Store the import in the archive, as a run with time series
    #[arg(long)]
    keep: bool,

    /// With --keep: one-line description of the run
    #[arg(long, value_name = "TEXT", requires = "keep")]
    title: Option<String>,

    /// With --keep: label to find the run by; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_value, requires = "keep")]
    labels: Vec<(String, String)>,

    /// With --keep: machine that the text comes from; by default unknown
    #[arg(long, value_name = "NAME", requires = "keep")]
    host: Option<String>,
}

/// An imported run under construction.
pub(super) struct ImportedRun {
    options: KeepOptions,
    tool: &'static str,
    host: String,
    series: Vec<Sample>,
    /// Number of series samples before the last addition.
    before_last: usize,
    /// The log's first date, and its moment if its zone is known.
    first: Option<(When, Option<i64>)>,
    /// Whether the additions have dates; `None` before the first.
    has_dates: Option<bool>,
    /// Reason that the run is not fit for comparison.
    invalid: Option<String>,
    /// Reason that the run cannot be archived.
    refused: Option<String>,
}

impl KeepOptions {
    /// Whether the user asked to archive the import.
    pub(super) fn asked(&self) -> bool {
        self.keep
    }

    /// Begins a run, if the import is to be archived.
    pub(super) fn begin(&self, tool: &'static str) -> Option<ImportedRun> {
        self.keep.then(|| ImportedRun {
            options: self.clone(),
            tool,
            host: self.host.clone().unwrap_or_else(|| "unknown".into()),
            series: Vec::new(),
            before_last: 0,
            first: None,
            has_dates: None,
            invalid: None,
            refused: None,
        })
    }
}

impl ImportedRun {
    /// Sets the first date of the log and its time `unix_s`, unless they are set.
    pub(super) fn begins_at(&mut self, at: &When, unix_s: Option<i64>) {
        self.first.get_or_insert_with(|| (at.clone(), unix_s));
    }

    /// Milliseconds from the log's first date to the time `unix_s`.
    pub(super) fn since_first_ms(&mut self, at: &When, unix_s: i64) -> i64 {
        self.begins_at(at, Some(unix_s));
        let first_s = self.first.as_ref().and_then(|(_, first_s)| *first_s).unwrap_or(unix_s);
        (unix_s - first_s) * 1000
    }

    /// Whether the next addition has a date although the earlier ones have none, or the reverse.
    pub(super) fn is_other_than_before(&mut self, has_date: bool) -> bool {
        *self.has_dates.get_or_insert(has_date) != has_date
    }

    /// Adds the samples that `add` makes for the time `t_ms`.
    pub(super) fn add(&mut self, t_ms: i64, add: impl FnOnce(Stamp<'_>, &mut Vec<Sample>)) {
        self.before_last = self.series.len();
        add(Stamp { t_ms, host: &self.host }, &mut self.series);
        if self.series.len() > KEPT_MAX {
            self.refuse(format!(
                "it has more than {KEPT_MAX} values, the limit of --keep: import a part of it"
            ));
            self.series.clear();
            self.before_last = 0;
        }
    }

    /// Removes the last addition: its complete version follows.
    pub(super) fn take_back(&mut self) {
        self.series.truncate(self.before_last);
    }

    /// Marks the run as not fit for comparison.
    pub(super) fn taint(&mut self, reason: String) {
        self.invalid.get_or_insert(reason);
    }

    /// Marks the run as impossible to archive.
    pub(super) fn refuse(&mut self, reason: impl Into<String>) {
        self.refused.get_or_insert(reason.into());
    }

    /// Writes the run, with the text of each regular file; a pipe cannot be read twice.
    pub(super) fn seal(self, files: &[PathBuf], global: &Global) -> anyhow::Result<()> {
        let name = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ");
        if let Some(reason) = self.refused {
            return Err(Exit::Usage.with(format!("{name}: {reason}")));
        }
        if self.series.is_empty() {
            let hint =
                if self.tool == "mpstat" { " (a sample since boot is stored only with --boot)" } else { "" };
            let text = format!("{name}: it has no time series to store{hint}");
            return Err(Exit::Usage.with(text));
        }
        let archive = global.archive_for_writing()?;
        let anchor = match &self.first {
            Some((at, unix_s)) => {
                let unix_s = unix_s.and_then(|s| u64::try_from(s).ok()).unwrap_or(at.clock_seconds());
                WallAnchor { monotonic_ns: 0, unix_ns: unix_s * 1_000_000_000 }
            }
            None => WallAnchor::now(),
        };
        let title = self.options.title.unwrap_or_else(|| format!("{} of {name}", self.tool));
        let labels = self.options.labels.into_iter().collect();
        let begun = RunHeader::running(RunKind::Import, anchor, title, command_line(None));
        let header = RunHeader { labels, ..begun };
        let id = header.id;
        let mut writer = archive.begin(&header)?;
        for (number, file) in (1..).zip(files) {
            if !fs::metadata(file).is_ok_and(|file| file.is_file()) {
                source::tell(&format!(
                    "the text of {} is not stored: it is not a regular file",
                    file.display()
                ));
                continue;
            }
            let stored = if files.len() == 1 { String::new() } else { format!("-{number}") };
            writer.add_file(&format!("{}{stored}.txt", self.tool), &mut File::open(file)?)?;
        }
        // The log describes another machine: the facts of this one do not apply.
        let facts =
            [("import.tool", self.tool.to_owned()), ("import.source", name), ("import.host", self.host)];
        let environment = Environment {
            facts: facts.map(|(name, fact)| (name.into(), Ok(fact))).into(),
            calibration: Vec::new(),
        };
        let run = Run { series: self.series, ..Run::unmeasured(header.ended(self.invalid), environment) };
        let folder = writer.seal(&run)?;
        source::tell(&format!("stored as {id} in {}", folder.display()));
        Ok(())
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}
