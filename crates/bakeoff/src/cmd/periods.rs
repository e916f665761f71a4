//! `bakeoff periods`: cycles in a file of values, or in the numbers of a run.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::path::Path;

use analysis::cycles::cycles_by_the_clock;
use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use record::nearest::did_you_mean;
use report::text::Cells;

use crate::cmd::{Global, print_json, runs};
use crate::confine::Reader;
use crate::exit::{EndsWith as _, Exit};
use crate::{screen, text_file};

/// Find cycles in time: every minute, every day at nine, every week
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A CSV file with a column `time`, `-` for standard input, or a run of the archive
    #[arg(value_name = "FILE.csv|RUN")]
    source: String,

    /// The metric, if there are several
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,

    /// Accepted probability of a false cycle
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = super::aa::probability)]
    alpha: f64,

    /// Time zone of daily and weekly cycles, such as Europe/Berlin; by default that of this machine
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Also report which sandbox features this kernel lacks
    #[arg(short, long)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff periods latency.csv                      time,value; or time and a column for each metric
  bakeoff periods latency.csv --metric p99 --zone Europe/Berlin
  bakeoff periods latest --metric throughput       the intervals of a load

A cycle needs three repetitions in the data. Autocorrelated noise is not a cycle.";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    global.confine(Reader::default().reads_named(), "periods", args.verbose)?;
    let (zone, zone_name) = zone(args.zone.as_deref())?;
    let (series, cells) = read(&args.source, &zone, global)?;
    let (metric, points) = chosen(series, args)?;
    let offset_s = |at_s: f64| offset_s(&zone, at_s);
    let found = cycles_by_the_clock(&points, args.alpha, &offset_s);
    if global.json {
        print_json(out, &report::json::periods(&metric, &zone_name, cells, &found))?;
    } else {
        report::text::periods(out, (&metric, &zone_name), (args.alpha, cells), &found, screen::style())?;
    }
    Ok(Exit::Good)
}

/// The zone of that name, or this machine's, and its name.
pub(crate) fn zone(name: Option<&str>) -> anyhow::Result<(TimeZone, String)> {
    let Some(name) = name else {
        let zone = TimeZone::system();
        let name = zone.iana_name().unwrap_or("local time").to_owned();
        return Ok((zone, name));
    };
    let found = TimeZone::get(name);
    let found = found.map_err(|_| {
        format!("--zone: there is no time zone `{name}`: expected a name such as Europe/Berlin or UTC")
    });
    Ok((found.ends_with(Exit::Usage)?, name.to_owned()))
}

/// Seconds that clocks in the zone are ahead of universal time.
fn offset_s(zone: &TimeZone, at_s: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
    let at = Timestamp::from_second(at_s as i64);
    at.map_or(0.0, |at| f64::from(zone.to_offset(at).seconds()))
}

type Series = BTreeMap<String, Vec<(f64, f64)>>;

/// The series of a file or of a run, and what the cells of the file lacked.
fn read(source: &str, zone: &TimeZone, global: &Global) -> anyhow::Result<(Series, Cells)> {
    let path = Path::new(source);
    if source == "-" || path.is_file() {
        return of_table(&text(source)?, source, zone);
    }
    // The name of a run has none of these characters.
    if source.contains(['/', '.']) {
        return Err(Exit::Usage.with(format!("there is no file {source}")));
    }
    let archive = global.archive().with_context(|| format!("{source} is not a file; looking for a run"))?;
    let id = runs::find(&archive, source)?;
    if archive.is_bakeoff(id) {
        return Err(
            Exit::Usage.with(format!("{id} is a bake-off: name one of its runs (`bakeoff runs list --all`)"))
        );
    }
    let run = archive.run(id)?;
    if let Some(why) = run.unread_series() {
        return Err(Exit::CannotHere.with(format!("{id}: its numbers over time cannot be read: {why}")));
    }
    Ok((analysis::over_time(&run), Cells::default()))
}

/// Text of a file, or of standard input.
pub(crate) fn text(source: &str) -> anyhow::Result<String> {
    let read = if source == "-" {
        let mut text = String::new();
        let max = text_file::DOCUMENT_BYTES_MAX;
        io::stdin().take(max + 1).read_to_string(&mut text).and_then(|bytes| {
            let why = || format!("it has more than {max} bytes, the limit for this kind of file");
            if bytes as u64 > max { Err(io::Error::other(why())) } else { Ok(text) }
        })
    } else {
        text_file::read(source.as_ref(), text_file::DOCUMENT_BYTES_MAX)
    };
    read.with_context(|| format!("reading {source}"))
}

fn of_table(text: &str, name: &str, zone: &TimeZone) -> anyhow::Result<(Series, Cells)> {
    let read = import::table::read(text, zone);
    let read = read.map_err(|error| format!("{name}:{error}")).ends_with(Exit::Usage)?;
    let mut by_unit: BTreeMap<String, BTreeMap<String, Vec<(f64, f64)>>> = BTreeMap::new();
    for entry in read.entries {
        let name = [Some(entry.metric), entry.subject, entry.host].into_iter().flatten().collect::<Vec<_>>();
        let of_name = by_unit.entry(name.join(" ")).or_default();
        of_name.entry(entry.unit).or_default().push((entry.at_unix_ns as f64 * 1e-9, entry.value));
    }
    let mut series = Series::new();
    for (name, units) in by_unit {
        let is_one = units.len() == 1;
        let full =
            |unit: &str| if is_one { name.clone() } else { format!("{name} {unit}").trim_end().to_owned() };
        series.extend(units.into_iter().map(|(unit, points)| (full(&unit), points)));
    }
    Ok((series, Cells { missing: read.missing, in_repeated_hour: read.in_repeated_hour }))
}

/// Most metrics that a message names.
const NAMED_MAX: usize = 20;

fn chosen(mut series: Series, args: &Args) -> anyhow::Result<(String, Vec<(f64, f64)>)> {
    if let Some(found) = args.metric.as_ref().and_then(|name| series.remove_entry(name)) {
        return Ok(found);
    }
    let names: Vec<&str> = series.keys().map(String::as_str).collect();
    match (&args.metric, names.len()) {
        (_, 0) => Err(Exit::Usage.with(format!("{} has no time series", args.source))),
        (None, 1) => Ok(series.pop_first().expect("there is one")),
        (None, _) => Err(Exit::Usage.with(format!("--metric NAME is needed: one of {}", listed(&names)))),
        (Some(asked), _) => {
            let of_it = format!("{asked} ");
            let such: Vec<&str> = names.iter().copied().filter(|name| name.starts_with(&of_it)).collect();
            let only = if such.is_empty() { listed(&names) } else { listed_each(&such) };
            let meant = did_you_mean(asked, names.iter().copied());
            Err(Exit::Usage.with(format!("--metric: there is no `{asked}`, only {only}{meant}")))
        }
    }
}

/// The metrics for a message; of those that differ in their labels, the common word and their number.
fn listed(names: &[&str]) -> String {
    if names.len() <= NAMED_MAX {
        return listed_each(names);
    }
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        kinds.entry(name.split(' ').next().unwrap_or(name)).or_default().push(name);
    }
    // Those of a load are the ones to ask for.
    let mut kinds: Vec<(&str, Vec<&str>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(kind, _)| !matches!(*kind, "throughput" | "p99"));
    let told = |(kind, names): &(&str, Vec<&str>)| match &names[..] {
        [one] => format!("`{one}`"),
        several => format!("`{kind} ...` ({} such)", several.len()),
    };
    cut(kinds.iter().map(told))
}

fn listed_each(names: &[&str]) -> String {
    cut(names.iter().map(|name| format!("`{name}`")))
}

fn cut(mut told: impl ExactSizeIterator<Item = String>) -> String {
    let first: Vec<String> = told.by_ref().take(NAMED_MAX).collect();
    let rest = told.len();
    let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    first.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_metrics_are_listed_by_kind_and_few_one_by_one() {
        assert_eq!(listed(&["a", "b x=1"]), "`a`, `b x=1`");
        let cpus: Vec<String> = (0..200).map(|cpu| format!("busy cpu={cpu}")).collect();
        let mut names: Vec<&str> = cpus.iter().map(String::as_str).collect();
        names.extend(["p99", "throughput"]);
        assert_eq!(listed(&names), "`p99`, `throughput`, `busy ...` (200 such)");
        let many: Vec<String> = (0..30).map(|i| format!("m{i:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(listed(&many).ends_with("`m19` and 10 more"), "{}", listed(&many));
    }
}
