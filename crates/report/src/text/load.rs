//! A load at a terminal: a line per interval while it runs, and its result.

use std::fmt::Write as _;
use std::io::{self, Write};

use analysis::Machine;
use record::histogram::{CensoredHistogram, Histogram, QUANTILES, Summary};
use record::load::{LoadRecord, LoadSettings, Loop, OpenLoop, Outage, Phase, Progress, RateChange, Think};
use record::missing::Maybe;
use record::replay::Replay;

use super::table::{Align, Table};
use super::{Detail, Style, Tint, ending, folded, labelled, paragraph, tinted};
use crate::number::{count, latency, percent, rate, span};
use crate::words::{counted, plural};

/// The heads of [`progress_line`].
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn progress_header(out: &mut dyn Write, style: Style) -> io::Result<()> {
    let heads = ["time", "offered/s", "achieved/s", "backlog", "p50", "p99", "max", "errors"];
    progress_row(out, &heads.map(str::to_owned), "", style)
}

/// Writes one interval of a running load on one line: time, offered and achieved rate, backlog, latency,
/// errors.
///
/// Latency is response time; in a closed loop it is service time. The line's end marks warm-up and outages;
/// on a narrow terminal, brackets around the time mark warm-up.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn progress_line(out: &mut dyn Write, progress: &Progress, style: Style) -> io::Result<()> {
    let summary = progress.latency.summary();
    let cell = |line| summary.as_ref().map_or("-".to_owned(), |summary| latency_cell(summary, line));
    let cells = [
        moment(progress),
        progress.offered_per_s.as_ref().map_or("-".to_owned(), |r| rate(*r)),
        rate(progress.achieved_per_s),
        count(progress.backlog),
        cell("p50"),
        cell("p99"),
        cell("max"),
        count(progress.errors),
    ];
    let note = match (progress.outage, progress.phase) {
        (true, _) => OUTAGE,
        (false, Phase::Measure) => "",
        (false, phase) => phase.word(),
    };
    progress_row(out, &cells, note, style)
}

/// End of an interval, with decimals if the interval is short.
fn moment(progress: &Progress) -> String {
    let digits = if progress.interval_s < 0.995 { 2 } else { 0 };
    format!("{:.*}s", digits, progress.t_s)
}

/// A change of the rate in words.
pub fn rate_change(change: &RateChange) -> String {
    let (from, to) = (rate(change.from_per_s), rate(change.per_s));
    let at = if change.at_s < 0.0 {
        format!("{} before the measured phase", span(-change.at_s))
    } else {
        format!("{} into the measured phase", span(change.at_s))
    };
    format!("changed from {from}/s to {to}/s, {at}")
}

/// Mark of a line while the server is unreachable; on a narrow terminal it replaces p99.
const OUTAGE: &str = "OUTAGE";
/// Index of p99 in [`QUANTILES`].
pub(crate) const P99: usize = 3;
const _: () = assert!(QUANTILES[P99].1 > 0.989 && QUANTILES[P99].1 < 0.991);

/// Writes one row with fixed widths, so that lines align; a narrow terminal drops p50 and max, then offered.
fn progress_row(out: &mut dyn Write, cells: &[String; 8], note: &str, style: Style) -> io::Result<()> {
    const WIDTHS: [usize; 8] = [5, 9, 10, 7, 7, 7, 7, 6];
    let shown: &[usize] = match style.width {
        74.. => &[0, 1, 2, 3, 4, 5, 6, 7],
        56.. => &[0, 1, 2, 3, 5, 7],
        _ => &[0, 2, 3, 5, 7],
    };
    let narrow = style.width < 56;
    let cell = |i: usize| match (i, note) {
        (0, note) if narrow && !note.is_empty() && note != OUTAGE => format!("({})", cells[0]),
        (5, OUTAGE) if narrow => OUTAGE.to_owned(),
        _ => cells[i].clone(),
    };
    let line: Vec<String> = shown.iter().map(|i| format!("{:>1$}", cell(*i), WIDTHS[*i])).collect();
    let line = line.join(" ");
    let room = style.width.saturating_sub(line.chars().count() + 1);
    if note.is_empty() || room < note.len() {
        return writeln!(out, "{}", line.trim_end());
    }
    let tint = if note == OUTAGE { Tint::Bad } else { Tint::Quiet };
    writeln!(out, "{line} {}", tinted(note, tint, style))
}

/// Writes the result of a load; the last line is its answer.
///
/// - `name`: short name of the run in the archive, `None` if it is not stored.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn load_record(
    out: &mut dyn Write,
    record: &LoadRecord,
    machine: &Machine,
    name: Option<&str>,
    (detail, style): (Detail, Style),
) -> io::Result<()> {
    match detail {
        Detail::Brief => brief(out, record, machine, style)?,
        Detail::Full => full(out, record, machine, style)?,
    }
    ending::other_failures(out, record, machine, style)?;
    ending::stored(out, name, "load.html", style)?;
    ending::answer(out, &ending::of_load(record, machine), style)
}

/// The numbers that decide whether a load is good, on one screen.
fn brief(out: &mut dyn Write, record: &LoadRecord, machine: &Machine, style: Style) -> io::Result<()> {
    brief_events(out, record, style)?;
    for (label, latency, note) in [
        (" response", record.response_summary(), "(due to end)"),
        (" service", Ok(record.service_summary()), "(start to end)"),
    ] {
        let text = match latency {
            Ok(Some(summary)) => brief_latency(&summary, note),
            Ok(None) => "no event ended".to_owned(),
            Err(missing) => format!("unknown: {missing}"),
        };
        labelled(out, (label, None), &text, BRIEF, style)?;
    }
    if is_marked(record) {
        labelled(out, ("", None), GENERATOR_MADE, BRIEF, style)?;
    }
    let outcomes: Vec<String> =
        record.outcomes.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
    if !outcomes.is_empty() {
        labelled(out, (" outcomes", None), &outcomes.join(", "), BRIEF, style)?;
    }
    for change in &record.rate_changes {
        labelled(out, (" rate", None), &rate_change(change), BRIEF, style)?;
    }
    if record.errors.all() > 0 || !record.hosts.is_empty() || !record.outages.is_empty() {
        troubles(out, record, (1, BRIEF), style)?;
    }
    super::agents::agents(out, &record.agents, (1, BRIEF), style)?;
    super::probe::probe(out, record.probe.as_ref(), (1, BRIEF), style)?;
    let client = match &record.client {
        Ok(cost) => {
            let us = (cost.user_us_per_event + cost.system_us_per_event) * record.counts.done as f64;
            let ratio = us / 1e6 / record.measured.as_secs_f64().max(f64::MIN_POSITIVE);
            format!("{} of a CPU", percent(ratio))
        }
        Err(missing) => format!("unknown: {missing}"),
    };
    labelled(
        out,
        (" client", None),
        &format!("{client}; machine {}", busy(machine, record.measured.as_secs_f64())),
        BRIEF,
        style,
    )?;
    saturated(out, machine, (1, BRIEF), style)
}

/// Column of the text in the short form.
const BRIEF: usize = 11;
/// Explains the mark of percentiles that are not the target's.
const GENERATOR_MADE: &str = "<= marks a latency that is mostly the generator's own delay, or of which that part is unknown: the server's part \
     is shorter. ~ marks one that unfinished events could raise as well.";
/// Lateness of the generator that is counted event by event.
const LATE_NS: u64 = 1_000_000;

/// Whether a printed latency may have that mark.
fn is_marked(record: &LoadRecord) -> bool {
    !record.generator_made.is_empty()
        || !record.service_generator_made.is_empty()
        || record.operations.values().any(|operation| !operation.generator_made.is_empty())
}

fn brief_events(out: &mut dyn Write, record: &LoadRecord, style: Style) -> io::Result<()> {
    let c = record.counts;
    let offered =
        crate::json::offered_per_s(record).map_or(String::new(), |r| format!("offered {}/s, ", rate(r)));
    let mut text = format!(
        "{offered}{}; {}, {} failed",
        crate::json::achieved_per_s(record)
            .map_or_else(|missing| format!("no rate: {missing}"), |r| format!("done {}/s", rate(r))),
        counted(c.planned, "event"),
        count(c.failed)
    );
    for (n, word) in [(c.skipped, "skipped"), (c.unfinished, "unfinished"), (c.retries, "retried")] {
        if n > 0 {
            let _ = write!(text, ", {} {word}", count(n));
        }
    }
    if let Ok(lateness) = &record.lateness {
        let late = lateness.count() - lateness.count_at_or_below(LATE_NS);
        let _ = write!(text, ", {} with a lateness over {}", count(late), latency(LATE_NS as f64));
    }
    folded(out, " ", &text, 1, style)
}

fn brief_latency(summary: &Summary, note: &str) -> String {
    // A percentile and its value stay on one line: the wrap keeps such blanks.
    let value = |line| format!("{}\u{a0}{}", on_paper(line), latency_cell(summary, line));
    format!("{} {note}", ["p50", "p99", "p99_9", "max"].map(value).join(", "))
}

fn full(out: &mut dyn Write, record: &LoadRecord, machine: &Machine, style: Style) -> io::Result<()> {
    what(out, record, style)?;
    rates_and_events(out, record, style)?;
    writeln!(out)?;
    latencies(out, record, style)?;
    if !record.operations.is_empty() {
        writeln!(out)?;
        operations(out, record, style)?;
    }
    writeln!(out)?;
    troubles(out, record, (0, 10), style)?;
    super::agents::agents(out, &record.agents, (0, 10), style)?;
    super::probe::probe(out, record.probe.as_ref(), (0, 10), style)?;
    costs(out, record, machine, style)?;
    checks(out, record, style)
}

fn what(out: &mut dyn Write, record: &LoadRecord, style: Style) -> io::Result<()> {
    let s = &record.settings;
    let pace = match &s.pace {
        Loop::Open(OpenLoop { per_s, arrivals, schedule, late, .. }) => {
            let (rate, schedule) = (rate(*per_s), schedule.word());
            if arrivals.say_their_rate() {
                format!("{arrivals}, mean {rate}/s, {schedule} schedule, late: {late}")
            } else {
                format!("{rate}/s, {arrivals}, {schedule} schedule, late: {late}")
            }
        }
        Loop::Closed { think: Think::None } => "closed loop".to_owned(),
        Loop::Closed { think } => format!("closed loop, think time {think}"),
    };
    labelled(out, ("target", None), &format!("{} {}", s.target, s.workload.word()), 10, style)?;
    if let Ok(version) = &record.server_version {
        labelled(out, ("server", None), version, 10, style)?;
    }
    if let Some(Replay { log, speed, requests, left_out, .. }) = &s.http.replay {
        let text = format!(
            "{} of {log} at {speed} times its speed, {} left out",
            counted(*requests, "request"),
            counted(*left_out, "line")
        );
        labelled(out, ("replay", None), &text, 10, style)?;
    }
    let threads = plural(s.threads as usize, "thread");
    let connections = match s.connections_in_all() {
        n if n == s.threads => String::new(),
        n => format!(", {}", plural(n as usize, "connection")),
    };
    labelled(out, ("load", None), &format!("{threads}{connections}, {pace}{}", on_time(s)), 10, style)?;
    // A single connection, or a target that needs none, has nothing to report.
    match record
        .connect
        .as_ref()
        .ok()
        .and_then(Histogram::summary)
        .filter(|s| s.count > 1 && s.max_ns >= 1_000)
    {
        Some(s) => {
            let (mean, max) = (latency(s.mean_ns), latency(s.max_ns as f64));
            let text = format!("{} made, mean {mean}, max {max}", count(s.count));
            labelled(out, ("connect", None), &text, 10, style)
        }
        None => Ok(()),
    }
}

/// Settings that keep the generator on time.
fn on_time(s: &LoadSettings) -> String {
    let client = s.client;
    let spin =
        (!client.spin.is_zero()).then(|| format!(", spins the last {}", span(client.spin.as_secs_f64())));
    let is_fifo = s.pace.as_open().is_some_and(|open| open.fifo);
    let fifo = is_fifo.then(|| ", at real-time priority".to_owned());
    let awake = client.keep_awake.then(|| ", CPUs kept awake".to_owned());
    [spin, fifo, awake].into_iter().flatten().collect()
}

fn rates_and_events(out: &mut dyn Write, record: &LoadRecord, style: Style) -> io::Result<()> {
    let measured_s = record.measured.as_secs_f64();
    let offered =
        crate::json::offered_per_s(record).map_or(String::new(), |r| format!("offered {}/s, ", rate(r)));
    let achieved = match crate::json::achieved_per_s(record) {
        Ok(per_s) => format!("{offered}achieved {}/s over {}", rate(per_s), span(measured_s)),
        Err(missing) => format!("none: {missing}, in {}", span(measured_s)),
    };
    labelled(out, ("rate", None), &achieved, 10, style)?;
    let c = record.counts;
    let events = format!(
        "{} planned = {} done + {} failed + {} skipped + {} unfinished; {}",
        count(c.planned),
        count(c.done),
        count(c.failed),
        count(c.skipped),
        count(c.unfinished),
        match c.retries {
            1 => "1 retry".to_owned(),
            n => format!("{} retries", count(n)),
        }
    );
    labelled(out, ("events", None), &events, 10, style)?;
    if !record.outcomes.is_empty() {
        let outcomes: Vec<String> =
            record.outcomes.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
        labelled(out, ("outcomes", None), &outcomes.join(", "), 10, style)?;
    }
    if record.found_no_worker > 0 {
        let text = format!("{} found no worker free when due", counted(record.found_no_worker, "event"));
        labelled(out, ("waiting", None), &text, 10, style)?;
    }
    for change in &record.rate_changes {
        labelled(out, ("rate", None), &rate_change(change), 10, style)?;
    }
    if record.backlog_after_warmup > 0 {
        let text = format!("{} at the end of warm-up", counted(record.backlog_after_warmup, "event"));
        labelled(out, ("backlog", None), &text, 10, style)?;
    }
    Ok(())
}

/// Writes percentiles down and kinds of latency across, so that compared values are side by side.
fn latencies(out: &mut dyn Write, record: &LoadRecord, style: Style) -> io::Result<()> {
    let kinds: [(&str, Maybe<Option<Summary>>, u8); 4] = [
        ("response", record.response_summary(), 0),
        ("service", Ok(record.service_summary()), 0),
        ("wait", record.wait.as_ref().map(CensoredHistogram::summary).map_err(Clone::clone), 1),
        ("lateness", record.lateness.as_ref().map(Histogram::summary).map_err(Clone::clone), 1),
    ];
    let columns: Vec<(&str, Summary, u8)> = kinds
        .into_iter()
        .filter_map(|(name, summary, expendable)| Some((name, summary.ok()??, expendable)))
        .collect();
    let head = Table::default().column("latency", Align::Left, 0);
    let mut table =
        columns.iter().fold(head, |t, (name, _, expendable)| t.column(*name, Align::Right, *expendable));
    for line in latency_lines() {
        let values = columns.iter().map(|(_, summary, _)| (latency_cell(summary, line), None));
        table.row(std::iter::once((on_paper(line), None)).chain(values).collect());
    }
    table.write(out, style)?;
    if is_marked(record) {
        paragraph(out, GENERATOR_MADE, 0, style)?;
    }
    if let Err(missing) = &record.response {
        paragraph(out, &format!("No response time: {missing}."), 0, style)?;
    }
    Ok(())
}

fn latency_lines() -> impl Iterator<Item = &'static str> {
    ["min", "mean"].into_iter().chain(QUANTILES.iter().map(|(name, _)| *name)).chain(["max"])
}

/// A quantile's name in reports: `p99_9` in files is `p99.9`.
pub(crate) fn on_paper(quantile: &str) -> String {
    quantile.replace('_', ".")
}

/// The value in row `line` of a table of latencies: `min`, `mean`, `max` or one of [`QUANTILES`].
pub(crate) fn latency_cell(summary: &Summary, line: &str) -> String {
    let ns = match line {
        "min" => summary.min_ns as f64,
        "mean" => summary.mean_ns,
        "max" => summary.max_ns as f64,
        name => {
            let place = QUANTILES.iter().position(|(n, _)| *n == name);
            match summary.quantile_ns(place.expect("the lines are made from the same list")) {
                Some(ns) => ns as f64,
                None => return "-".to_owned(),
            }
        }
    };
    format!("{}{}", summary.bound(line).mark(), latency(ns))
}

fn operations(out: &mut dyn Write, record: &LoadRecord, style: Style) -> io::Result<()> {
    let mut table = Table::default()
        .column("operation", Align::Left, 0)
        .column("count", Align::Right, 1)
        .column("mean", Align::Right, 3)
        .column("p50", Align::Right, 0)
        .column("p99", Align::Right, 0)
        .column("max", Align::Right, 2);
    for (name, operation) in &record.operations {
        let summary = operation.summary();
        let cell = |line| summary.as_ref().map_or("-".to_owned(), |summary| latency_cell(summary, line));
        let cells = [
            name.clone(),
            count(operation.service.known.count()),
            cell("mean"),
            cell("p50"),
            cell("p99"),
            cell("max"),
        ];
        table.row(cells.into_iter().map(|c| (c, None)).collect());
    }
    table.write(out, style)
}

/// Writes errors, hosts and outages, with labels and texts in these columns.
fn troubles(
    out: &mut dyn Write,
    record: &LoadRecord,
    (left, indent): (usize, usize),
    style: Style,
) -> io::Result<()> {
    let left = |label: &str| format!("{:left$}{label}", "");
    let e = record.errors;
    let classes = [
        ("transient", e.transient),
        ("connection", e.connection),
        ("application", e.application),
        ("wrong answer", e.verify),
        ("time-out", e.timeout),
    ];
    let told: Vec<String> =
        classes.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{} {name}", count(*n))).collect();
    let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
    labelled(out, (&left("errors"), None), &told, indent, style)?;
    for sample in &record.error_samples {
        labelled(out, ("", None), sample, indent, style)?;
    }
    for h in &record.hosts {
        let errors = h.errors.all();
        let text = format!(
            "{}: {}, {} done, {} failed, {}",
            h.host,
            counted(h.connections.into(), "connection"),
            count(h.done),
            count(h.failed),
            counted(errors, "error")
        );
        let tint = if h.done == 0 || errors > 0 { Some(Tint::Bad) } else { None };
        labelled(out, (&left("host"), tint), &text, indent, style)?;
    }
    let (shown, rest) = longest_outages(record);
    for o in shown {
        let end = if o.ended { "" } else { ", not over at the end" };
        let from = span(o.from_s);
        let of = record.host_of(o).map_or_else(String::new, |host| format!("{host} "));
        let affected = counted(o.affected, "event");
        let text = format!("{of}from {from} for {}, {affected} affected{end}", span(o.for_s));
        labelled(out, (&left("outage"), Some(Tint::Bad)), &text, indent, style)?;
    }
    if let Some(rest) = rest {
        labelled(out, (&left("outage"), Some(Tint::Bad)), &rest, indent, style)?;
    }
    Ok(())
}

/// Outages that are listed one by one.
const OUTAGES_SHOWN: usize = 5;

/// The longest outages, in order of time, and the others in a sentence.
pub(crate) fn longest_outages(record: &LoadRecord) -> (Vec<&Outage>, Option<String>) {
    let mut longest_first: Vec<&Outage> = record.outages.iter().collect();
    longest_first.sort_by(|a, b| b.for_s.total_cmp(&a.for_s));
    let others = longest_first.split_off(longest_first.len().min(OUTAGES_SHOWN));
    let mut shown = longest_first;
    shown.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    let rest = others.first().map(|longest| {
        let all_s: f64 = others.iter().map(|o| o.for_s).sum();
        let affected: u64 = others.iter().map(|o| o.affected).sum();
        let unlisted = record.unlisted_outages;
        let unlisted = if unlisted.count > 0 {
            format!(
                "; and {} shorter and older ones, {} together",
                count(unlisted.count),
                span(unlisted.for_s)
            )
        } else {
            String::new()
        };
        format!(
            "{} more, none longer than {}, {} together, {} affected{unlisted}",
            count(others.len() as u64),
            span(longest.for_s),
            span(all_s),
            counted(affected, "event")
        )
    });
    (shown, rest)
}

fn costs(out: &mut dyn Write, record: &LoadRecord, machine: &Machine, style: Style) -> io::Result<()> {
    let client = match &record.client {
        Ok(c) => {
            let waited = c.run_queue_wait_us_per_event.as_ref().ok();
            let waited = waited.map_or(String::new(), |us| format!(", {us:.1} us waiting for a CPU"));
            format!(
                "{:.1} us user + {:.1} us system CPU, {:.2} switches{waited} per event",
                c.user_us_per_event, c.system_us_per_event, c.switches_per_event
            )
        }
        Err(missing) => format!("unknown: {missing}"),
    };
    labelled(out, ("client", None), &client, 10, style)?;
    if let Some(early) = record.client.as_ref().ok().and_then(|c| c.wake_up) {
        let lead = span(early.lead.as_secs_f64());
        let text =
            format!("woken {lead} early, {} of a CPU spun until the due times", percent(early.spun_ratio));
        labelled(out, ("", None), &text, 10, style)?;
    }
    if let Some(cpu) = record.client.as_ref().ok().and_then(|c| c.keep_awake_cpu) {
        let text = format!(
            "{} of CPU at idle priority kept the CPUs awake: counted as the machine's, not the client's",
            span(cpu.as_secs_f64())
        );
        labelled(out, ("awake", None), &text, 10, style)?;
    }
    labelled(out, ("machine", None), &busy(machine, record.measured.as_secs_f64()), 10, style)?;
    saturated(out, machine, (0, 10), style)
}

/// `9.0 % busy (by bpf), 1.2 % unaccounted by /proc/stat, 3.1 % stolen by the hypervisor`.
fn busy(machine: &Machine, measured_s: f64) -> String {
    // Two ticks of a CPU, one at each end: a smaller value may be rounding.
    let least = 0.02 / measured_s;
    let beside = |ratio: &Maybe<f64>, what: &str| match ratio {
        Ok(ratio) if ratio.abs() > least => format!(", {} {what}", percent(*ratio)),
        _ => String::new(),
    };
    match (&machine.busy_ratio, &machine.rung) {
        (Ok(busy), Ok(rung)) => {
            let unaccounted = beside(&machine.unaccounted_ratio, "unaccounted by /proc/stat");
            let stolen = beside(&machine.stolen_ratio, "stolen by the hypervisor");
            format!("{} busy (by {}){unaccounted}{stolen}", percent(*busy), rung.word())
        }
        (Err(missing), _) | (_, Err(missing)) => format!("unknown: {missing}"),
    }
}

/// Writes the CPUs that were full, with label and text in these columns.
fn saturated(
    out: &mut dyn Write,
    machine: &Machine,
    (left, indent): (usize, usize),
    style: Style,
) -> io::Result<()> {
    let Some(full) = machine.saturated_cpus.as_ref().ok().filter(|full| !full.is_empty()) else {
        return Ok(());
    };
    let cpus: Vec<String> = full.iter().map(|c| format!("CPU {c}")).collect();
    let label = format!("{:left$}full", "");
    labelled(out, (&label, Some(Tint::Bad)), &cpus.join(", "), indent, style)
}

fn checks(out: &mut dyn Write, record: &LoadRecord, style: Style) -> io::Result<()> {
    writeln!(out, "checks")?;
    for check in &record.verdict.checks {
        let label = match (check.ok, check.is_judged()) {
            (true, true) => ("  ok", Some(Tint::Good)),
            (true, false) => ("  -", None),
            (false, _) => ("  FAIL", Some(Tint::Bad)),
        };
        labelled(out, label, &format!("{}: {}", check.name, check.text), 8, style)?;
    }
    Ok(())
}
