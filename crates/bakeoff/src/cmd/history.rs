//! `bakeoff history`: a metric over the runs of the archive, and the moments at which it changed.

mod import;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use analysis::Rules;
use analysis::history::{
    History, Observations, Observed, histories, of_bakeoff, of_comparison, of_import, of_run,
};
use anyhow::Context as _;
use archive::{Archive, ArchiveError, Filter, Listed, PartOf, whole_file};
use record::quantity::{plural, ratio};
use record::run::{RunId, RunKind, RunState};

use crate::cmd::report::form_of;
use crate::cmd::{Global, print_json};
use crate::confine::Reader;
use crate::exit::Exit;
use crate::moment;
use crate::screen::{self, Screen};

/// Show a metric over all runs: where it changed, by how much, and what else changed there
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    judge: Judge,

    /// Write a page with a figure for each metric to this file: .html or .md
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print one row for each run as comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Also report which sandbox features this kernel lacks
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Import(import::Args),
}

/// Values of the history.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Select {
    /// Metric, such as throughput, p99 or cpu-per-event, or one of an imported file; by default all
    pub(crate) metric: Option<String>,

    /// Only runs with this label
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    pub(crate) labels: Vec<String>,

    /// Only runs with this text in their target, workload, title or benchmark
    #[arg(long, value_name = "TEXT")]
    pub(crate) of: Option<String>,

    /// Only runs since this time: a date such as 2026-11-21, a time such as 2026-11-21T09:52:00Z, or a
    /// duration before now such as 30d
    #[arg(long = "since", value_name = "TIME", value_parser = moment::since)]
    pub(crate) since_unix_ns: Option<u64>,

    /// Compare runs even if their host names differ: for containers with a new name in each run
    #[arg(long)]
    pub(crate) any_host: bool,
}

/// The defaults of [`Judge`].
#[cfg(feature = "serve")]
pub(crate) const RULES: Rules = Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 };

/// Rules by which a change counts.
#[derive(Debug, clap::Args)]
struct Judge {
    /// Smaller changes do not count
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = ratio)]
    rope: f64,

    /// Accepted probability of a false change, for each stretch of runs without a break
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = super::aa::probability)]
    alpha: f64,

    /// Random seed of the permutations
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff history                                  every metric of every target
  bakeoff history p99 --label branch=main --since 90d
  bakeoff history p99 --since 2026-11-01
  bakeoff history import nightly.csv               time, and a column for each metric
  bakeoff history import hyperfine.json --at 2026-11-21T03:00:00Z

Runs that are INVALID or failed are left out. A change of the machine or of its kernel is a
break: runs before and after it are not compared. Loads with other settings are other series.";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if let Some(What::Import(import)) = &args.what {
        return import::run(import, args.verbose, global, out);
    }
    let form = args.output.as_deref().map(form_of).transpose()?;
    global.confine(Reader::default().writes_file(args.output.as_deref()), "history", args.verbose)?;
    let archive = global.archive()?;
    let rules = Rules { rope_ratio: args.judge.rope, alpha: args.judge.alpha, seed: args.judge.seed };
    let mut say = |line: &str| Screen::new().line(&format!("bakeoff history: {line}"));
    let Told { histories, left_out, none } = told(&archive, &args.select, rules, usize::MAX, &mut say)?;
    let name = |id: RunId| global.short_name(id);
    if let (Some(path), Some(form)) = (&args.output, form) {
        let page = report::render(&report::page::history(&histories, &none, &name), form);
        whole_file::write(path, page.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        Screen::new().line(&format!("wrote {}", path.display()));
    }
    if args.csv {
        report::csv::history(out, &histories)?;
    } else if global.json {
        print_json(out, &report::json::history(&histories, args.judge.alpha, &left_out))?;
    } else {
        let words = (args.judge.alpha, none.as_str());
        report::text::history(out, &histories, &left_out, words, &name, screen::style())?;
    }
    Ok(Exit::Good)
}

/// Histories, and the metrics of runs without a value: metric, reason, number of runs.
pub(crate) struct Told {
    pub(crate) histories: Vec<History>,
    pub(crate) left_out: Vec<(String, String, usize)>,
    /// Answer if no value is left: names the filter that excluded all of them.
    pub(crate) none: String,
}

/// Reads the histories of an archive.
///
/// - `runs_max`: most runs that are read, the newest ones.
/// - `say`: gets a line for each run that does not read.
pub(crate) fn told(
    archive: &Archive,
    select: &Select,
    rules: Rules,
    runs_max: usize,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Told> {
    let mut found = Found::default();
    found.read(archive, select, runs_max, say)?;
    let none = if found.observed.is_empty() { none(archive, select, runs_max)? } else { String::new() };
    let left_out = found.left_out.into_iter().map(|((metric, _), (why, runs))| (metric, why, runs)).collect();
    Ok(Told { histories: histories(found.observed, rules), left_out, none })
}

/// Reason that a selection is empty.
fn none(archive: &Archive, select: &Select, runs_max: usize) -> anyhow::Result<String> {
    let mut all = Found::default();
    // The caller has reported the runs that do not read.
    all.read(archive, &Select::default(), runs_max, &mut |_| {})?;
    let metrics: BTreeSet<&str> = all.observed.iter().map(|one| one.key.metric.as_str()).collect();
    let has = |metric: &str| select.metric.as_deref().is_none_or(|asked| asked == metric);
    let values = all.observed.iter().filter(|one| has(&one.key.metric)).count();
    Ok(match &select.metric {
        _ if metrics.is_empty() => "no run has a metric that can be compared".to_owned(),
        Some(metric) if values == 0 => {
            let known = metrics.into_iter().collect::<Vec<_>>().join(", ");
            format!("no run has the metric {metric}; the metrics are: {known}")
        }
        metric => {
            let of = metric.as_ref().map_or(String::new(), |metric| format!(" of {metric}"));
            let filters = select.filters();
            let leave = if filters.len() == 1 { "leaves" } else { "leave" };
            let values = plural(u64::try_from(values).unwrap_or(u64::MAX), "value");
            format!("{} {leave} none of {values}{of}", filters.join(" and "))
        }
    })
}

impl Select {
    /// Options that leave out runs.
    fn filters(&self) -> Vec<&'static str> {
        let given = [
            ("--label", !self.labels.is_empty()),
            ("--of", self.of.is_some()),
            ("--since", self.since_unix_ns.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option).collect()
    }
}

/// Values of the archive, and what has none.
#[derive(Debug, Default)]
struct Found {
    observed: Vec<Observed>,
    /// The first reason and the number of runs, by metric and reason; reasons that differ in numbers are one.
    left_out: BTreeMap<(String, String), (String, usize)>,
}

impl Found {
    fn read(
        &mut self,
        archive: &Archive,
        select: &Select,
        runs_max: usize,
        say: &mut dyn FnMut(&str),
    ) -> anyhow::Result<()> {
        let label = |text: &String| match text.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (text.clone(), None),
        };
        let filter = Filter {
            labels: select.labels.iter().map(label).collect(),
            part_of: PartOf::Nothing,
            ..Filter::default()
        };
        let from_unix_ns = select.since_unix_ns.unwrap_or(0);
        let mut imports = Vec::new();
        let listed = archive.list(&filter)?;
        for listed in listed.iter().take(runs_max).rev() {
            let is_import = listed.header.kind == RunKind::Import;
            if !is_import && listed.header.anchor.unix_ns < from_unix_ns {
                continue;
            }
            match observations(archive, listed) {
                Ok(found) if is_import => {
                    let order = (found.imported_unix_ns, listed.header.id);
                    imports.push((order, self.chosen(found, listed, select, from_unix_ns)));
                }
                Ok(found) => {
                    let chosen = self.chosen(found, listed, select, from_unix_ns);
                    self.observed.extend(chosen);
                }
                Err(error) => say(&format!("{} is left out: {error}", listed.header.id)),
            }
        }
        // Of two imports of one value, the newer counts.
        imports.sort_by_key(|(order, _)| *order);
        self.observed.extend(imports.into_iter().flat_map(|(_, observed)| observed));
        Ok(())
    }

    /// The values that the user asked for.
    fn chosen(
        &mut self,
        found: Observations,
        listed: &Listed,
        select: &Select,
        from_unix_ns: u64,
    ) -> Vec<Observed> {
        let is_asked = |metric: &str| {
            select.metric.as_deref().is_none_or(|asked| asked == metric || metric == "every metric")
        };
        for (metric, why) in found.left_out.into_iter().filter(|(metric, _)| is_asked(metric)) {
            let kind = why.reason.replace(|c: char| c.is_ascii_digit(), "");
            self.left_out.entry((metric, kind)).or_insert((why.reason, 0)).1 += 1;
        }
        if !matches!(listed.header.state, RunState::Sealed) {
            return Vec::new();
        }
        let is_of = |subject: &str| {
            select.of.as_ref().is_none_or(|of| subject.to_lowercase().contains(&of.to_lowercase()))
        };
        let asked = found.observed.into_iter().filter(|o| is_asked(&o.key.metric) && is_of(&o.key.subject));
        let asked = asked.filter(|o| o.point.at_unix_ns >= from_unix_ns);
        asked
            .map(|mut observed| {
                if select.any_host {
                    "any machine".clone_into(&mut observed.key.host);
                }
                observed
            })
            .collect()
    }
}

/// Values of a run, a bake-off or an import; of one that is not fit for comparison, the reason.
fn observations(archive: &Archive, listed: &Listed) -> Result<Observations, ArchiveError> {
    let header = &listed.header;
    if header.state != RunState::Sealed {
        return Ok(Observations::unfit(header));
    }
    Ok(match header.kind {
        RunKind::Load | RunKind::Record => of_run(&archive.run_summary(header.id)?),
        RunKind::Bakeoff => of_bakeoff(&archive.bakeoff_summary(header.id)?),
        RunKind::Import => of_import(&archive.run(header.id)?),
        RunKind::Compare => of_comparison(&archive.run(header.id)?),
        RunKind::Scale | RunKind::Dder | RunKind::Prove => Observations::default(),
    })
}
