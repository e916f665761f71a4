//! The page of a single load run.

use analysis::machine;
use record::command::{CommandEnd, CpuSplit, Recorded};
use record::cpu::CpuSample;
use record::histogram::{Bound, Histogram, QUANTILES, Summary};
use record::load::{LoadRecord, Outage};
use record::missing::Maybe;
use record::run::{Run, RunState};
use record::verdict::Validity;

use super::configuration::of_load;
use super::disclosure::disclosure;
use super::figures::percentile;
use super::over_time::over_time;
use super::proofs::proofs;
use super::{Block, Figure, Page, Section, Table, Tone, Words};
use crate::chart::{Kind, Line, Lines, Point, lines};
use crate::identity::OWN_HOST;
use crate::number::{count, date_time, latency, percent, rate, span};
use crate::text::{P99, Style, cited, latency_cell, on_paper, probe_in_words};
use crate::words::{counted, plural};

/// Lays out the page; a run without a load gets the page of its recorded series.
pub fn load(run: &Run) -> Page {
    let header = &run.header;
    let byline = vec![
        format!("as of {}", date_time(header.anchor.unix_ns)),
        format!("run {}", header.id),
        format!("state: {}", header.state.word()),
    ];
    let Some(record) = &run.load else {
        return if let Some(recorded) = &run.recorded {
            recorded_page(run, recorded, byline)
        } else if run.proofs.is_empty() {
            without_load(run, byline)
        } else {
            proofs(run, byline, closing(run, None))
        };
    };
    let (word, tone) = match record.verdict.state {
        Validity::Valid => ("valid", Tone::Good),
        Validity::Invalid => ("INVALID", Tone::Bad),
        Validity::Degraded => ("degraded", Tone::Doubt),
        Validity::Interrupted => ("interrupted", Tone::Doubt),
    };
    let mut caveats: Vec<String> =
        record.verdict.failures().skip(1).map(|c| format!("{}: {}", c.name, c.text)).collect();
    let courses: Vec<Block> = over_time(record).into_iter().map(Block::Figure).collect();
    let courses =
        (!courses.is_empty()).then_some(Section { id: "charts", title: "Over time", blocks: courses });
    caveats.push("A single run has no interval between runs, so it supports no comparison.".into());
    Page {
        title: header.title.clone(),
        question: searched(run),
        standing: Words::toned(word, tone),
        claim: match record.verdict.failures().next() {
            Some(check) => format!("{}; {}", check.text, claim(record)),
            None => claim(record),
        },
        lead: lead(record),
        caveats,
        byline,
        sections: courses
            .into_iter()
            .chain(super::instruments::sections(run))
            .chain(super::instruments::of_observers(run))
            .chain(super::series::section(&analysis::series(run), Some(own_host(run))))
            .collect(),
        folded: super::profiles::folded(run)
            .into_iter()
            .chain([
                latencies(record).folded("every percentile, every operation"),
                events(record).folded("planned, done, failed, skipped, unfinished, errors"),
                machine_section(run, record).folded("how busy it was, and the generator's own cost"),
                checks(record).folded(plural(record.verdict.checks.len(), "check")),
                closing(run, Some(record)).folded(CLOSING),
            ])
            .collect(),
    }
}

/// The machine of the run, as its series name it.
fn own_host(run: &Run) -> &str {
    run.environment.fact("host.name").unwrap_or(OWN_HOST)
}

/// Contents of a run's closing section.
const CLOSING: &str = "the command that repeats it, settings, versions, the machine";

/// The percentiles that matter most, and their spectrum.
fn lead(record: &LoadRecord) -> Vec<Block> {
    let (kinds, table) = percentiles(record);
    let mut brief = Table::new("Latency", &["", "#p50", "#p99", "#p99.9", "#max"]);
    for (name, _, summary) in kinds.iter().filter(|(name, ..)| matches!(*name, "response" | "service")) {
        let cell =
            |line| -> Words { summary.as_ref().map_or("-".to_owned(), |s| latency_cell(s, line)).into() };
        let from = if *name == "response" { "response (due to end)" } else { "service (start to end)" };
        brief.row(vec![from.into(), cell("p50"), cell("p99"), cell("p99_9"), cell("max")]);
    }
    [Block::Table(brief)].into_iter().chain(spectrum(&kinds, table).map(Block::Figure)).collect()
}

/// The search that this run belongs to, and the answer of the search if this run ended it.
fn searched(run: &Run) -> String {
    let labels = &run.header.labels;
    match (labels.get("search"), labels.get("search-answer")) {
        (_, Some(answer)) => format!("The search that this run ended found: {answer}."),
        (Some(first), None) => {
            let promise = labels.get("search-promise").map(|promise| format!(" for {promise}"));
            format!("One try of the search{} that began with run {first}.", promise.unwrap_or_default())
        }
        (None, None) => String::new(),
    }
}

/// The page of a run without a load: text of other tools, or instruments around a command.
fn without_load(run: &Run, byline: Vec<String>) -> Page {
    let header = &run.header;
    let (word, tone) = match header.state {
        RunState::Sealed => (header.kind.word(), Tone::Even),
        RunState::Invalid => ("INVALID", Tone::Bad),
        state => (state.word(), Tone::Doubt),
    };
    let recorded = analysis::series(run);
    let mut sections = super::instruments::sections(run);
    sections.extend(super::series::section(&recorded, None));
    Page {
        title: header.title.clone(),
        question: String::new(),
        standing: Words::toned(word, tone),
        claim: super::series::claim(&recorded.series),
        lead: Vec::new(),
        caveats: header.reason.iter().cloned().collect(),
        byline,
        sections,
        folded: super::profiles::folded(run)
            .into_iter()
            .chain([closing(run, None).folded(CLOSING)])
            .collect(),
    }
}

/// CPU time of a command, from three sources.
fn took(recorded: &Recorded) -> Table {
    let end = match recorded.end {
        CommandEnd::Code(code) => format!("exit code {code}"),
        CommandEnd::Signal(signal) => format!("signal {signal}"),
        CommandEnd::NoCommand => "a time span, not a command".to_owned(),
    };
    let seconds = |ns: Maybe<u64>| {
        ns.map_or_else(|why| format!("unknown: {why}"), |ns| format!("{:.3} s", ns as f64 * 1e-9))
    };
    let wall = recorded.window.as_ref().map(|w| w.until_ns - w.from_ns).map_err(Clone::clone);
    let rusage = recorded.by_rusage.clone().map(CpuSplit::sum_ns);
    let mut table = Table::new("The command and everything that it started", &["what", "value"]);
    for (name, value) in [
        ("end", end),
        ("wall", seconds(wall)),
        ("CPU time by events", seconds(recorded.by_events_ns.clone())),
        ("interrupts while it ran", seconds(recorded.interrupted_ns.clone())),
        ("CPU time by /proc, of waited-for processes", seconds(recorded.by_proc_ns.clone())),
        ("CPU time by rusage, of waited-for processes", seconds(rusage)),
    ] {
        table.row(vec![name.into(), value.into()]);
    }
    table
}

/// The page of a command with instruments around it.
fn recorded_page(run: &Run, recorded: &Recorded, byline: Vec<String>) -> Page {
    let mut text = Vec::new();
    crate::text::command(&mut text, recorded, Style::PIPE).expect("memory takes all that is written to it");
    let cpu_time = match &recorded.by_events_ns {
        Ok(ns) => format!("{} of CPU time by events; ", span(*ns as f64 * 1e-9)),
        Err(_) => String::new(),
    };
    let busy = recorded.window.as_ref().map_err(Clone::clone).and_then(|w| w.mean(CpuSample::busy_ratio));
    let busy = busy.map_or("unknown".to_owned(), percent);
    let text = String::from_utf8_lossy(&text).into_owned();
    let lead = vec![
        Block::Table(took(recorded)),
        Block::Code { title: "The same with the machine over exactly that window".into(), text },
    ];
    let mut sections = super::instruments::sections(run);
    sections.extend(super::series::section(&analysis::series(run), None));
    Page {
        title: run.header.title.clone(),
        question: String::new(),
        standing: Words::from("recorded"),
        claim: format!("{cpu_time}the machine was {busy} busy over exactly that window."),
        lead,
        caveats: run.header.reason.iter().cloned().collect(),
        byline,
        sections,
        folded: super::profiles::folded(run)
            .into_iter()
            .chain([closing(run, None).folded(CLOSING)])
            .collect(),
    }
}

fn claim(record: &LoadRecord) -> String {
    let offered =
        crate::json::offered_per_s(record).map_or(String::new(), |r| format!(" of {}/s offered", rate(r)));
    let (what, summary) = match record.response_summary() {
        Ok(summary) => ("response", summary),
        Err(_) => ("service", record.service_summary()),
    };
    let slow = match summary {
        Some(s) => {
            // If the sample does not hold that percentile, its maximum is printed as a bound.
            let (name, ns) = s.quantile_ns(P99).map_or(("max", s.max_ns), |ns| ("p99", ns));
            let bound = match s.bound(name) {
                Bound::Lower => "at least ",
                // Most of it may be the generator's own lateness.
                Bound::Upper if name != "max" => "at most ",
                Bound::Neither => "about ",
                Bound::Exact | Bound::Upper => "",
            };
            let at = if name == "max" { "at most" } else { "at p99" };
            format!("{what} time {bound}{} {at}", latency(ns as f64))
        }
        None => format!("no {what} time"),
    };
    let achieved = match crate::json::achieved_per_s(record) {
        Ok(per_s) => format!("{}/s achieved{offered}", rate(per_s)),
        Err(missing) => format!("No rate ({missing})"),
    };
    format!("{achieved} over {}; {slow}.", span(record.measured.as_secs_f64()))
}

fn events(record: &LoadRecord) -> Section {
    let c = record.counts;
    let mut table = Table::new("Outcomes of the events", &["fate", "#events"]);
    for (name, n) in [
        ("planned", c.planned),
        ("done", c.done),
        ("failed", c.failed),
        ("skipped", c.skipped),
        ("unfinished", c.unfinished),
        ("retries (tries beyond the first)", c.retries),
        ("backlog at the end of warm-up", record.backlog_after_warmup),
    ] {
        table.row(vec![name.into(), count(n).into()]);
    }
    for (name, n) in &record.outcomes {
        table.row(vec![format!("of those done: {name}").into(), count(*n).into()]);
    }
    let e = record.errors;
    let mut blocks = vec![Block::Table(table)];
    let mut errors = Table::new("Tries that failed", &["class", "#tries"]);
    for (name, n) in [
        ("transient", e.transient),
        ("connection", e.connection),
        ("application", e.application),
        ("wrong answer", e.verify),
        ("time-out", e.timeout),
    ] {
        errors.row(vec![name.into(), count(n).into()]);
    }
    blocks.push(Block::Table(errors));
    if !record.hosts.is_empty() {
        let columns = ["host", "#connections", "#done", "#failed", "#tries that failed"];
        let mut hosts = Table::new("Hosts", &columns);
        for h in &record.hosts {
            let numbers = [h.connections.into(), h.done, h.failed, h.errors.all()];
            let mut cells = vec![h.host.clone().into()];
            cells.extend(numbers.map(|n| count(n).into()));
            hosts.row(cells);
        }
        blocks.push(Block::Table(hosts));
    }
    if !record.error_samples.is_empty() {
        blocks.push(Block::List(record.error_samples.clone()));
    }
    let changes: Vec<String> = record
        .rate_changes
        .iter()
        .map(|change| format!("The rate was {}", crate::text::rate_change(change)))
        .collect();
    if !changes.is_empty() {
        blocks.push(Block::List(changes));
    }
    let outages = outages(record);
    if !outages.is_empty() {
        blocks.push(Block::List(outages));
    }
    Section { id: "events", title: "Events", blocks }
}

/// The longest outages, and a line for the rest.
fn outages(record: &LoadRecord) -> Vec<String> {
    let (shown, rest) = crate::text::longest_outages(record);
    let line = |o: &Outage| {
        let end = if o.ended { "" } else { "; not over at the end" };
        let of = record.host_of(o).map_or_else(String::new, |host| format!(" of {host}"));
        format!(
            "Outage{of} from {} for {}: {} affected{end}",
            span(o.from_s),
            span(o.for_s),
            counted(o.affected, "event")
        )
    };
    shown.into_iter().map(line).chain(rest.map(|rest| format!("Outages: {rest}"))).collect()
}

/// A kind of latency with its distribution.
type Kinds = Vec<(&'static str, Histogram, Option<Summary>)>;

/// Every kind of latency that the run has, and the table of their percentiles.
fn percentiles(record: &LoadRecord) -> (Kinds, Table) {
    let response = record.response.as_ref().ok();
    let kinds: Kinds = [
        ("response", response.map(|r| (r.merged(), record.response_summary().ok().flatten()))),
        ("service", Some((record.service.merged(), record.service_summary()))),
        ("wait", record.wait.as_ref().ok().map(|h| (h.merged(), h.summary()))),
        ("lateness", record.lateness.as_ref().ok().map(|h| (h.clone(), h.summary()))),
    ]
    .into_iter()
    .filter_map(|(name, found)| found.map(|(h, s)| (name, h, s)))
    .collect();
    let heads: Vec<String> = std::iter::once("percentile".to_owned())
        .chain(kinds.iter().map(|(name, ..)| format!("#{name}")))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("Latency", &heads);
    for line in QUANTILES.iter().map(|(name, _)| *name).chain(["max"]) {
        let cells = kinds.iter().map(|(_, _, summary)| -> Words {
            summary.as_ref().map_or("-".to_owned(), |s| latency_cell(s, line)).into()
        });
        table.row(std::iter::once(on_paper(line).into()).chain(cells).collect());
    }
    (kinds, table)
}

fn latencies(record: &LoadRecord) -> Section {
    let mut blocks = vec![Block::Table(percentiles(record).1)];
    if let Err(missing) = &record.response {
        blocks.push(Block::Text(format!("No response time: {missing}.")));
    }
    if !record.operations.is_empty() {
        blocks.push(Block::Table(operations(record)));
    }
    if let Some(probe) = &record.probe {
        blocks.push(Block::Text(format!("The probe, apart from the load: {}.", probe_in_words(probe).0)));
        blocks.extend(probe.record.as_ref().ok().map(|of| Block::Table(percentiles(of).1)));
    }
    Section { id: "latency", title: "All percentiles", blocks }
}

fn spectrum(kinds: &[(&str, Histogram, Option<Summary>)], data: Table) -> Option<Figure> {
    let line = |(name, histogram, _): &(&str, Histogram, Option<Summary>)| {
        let events = histogram.count() as f64;
        // Even steps on the axis, up to the last one with an event above it.
        let places = (0_u32..).map(|i| 2.0 * 10.0_f64.powf(f64::from(i) / 8.0)).take_while(|x| *x <= events);
        let points: Vec<Point> = places
            .filter_map(|x| {
                let ns = histogram.quantile_ns(1.0 - 1.0 / x)?;
                Some(Point { x, y: ns as f64 * 1e-9, interval: None, dots: Vec::new() })
            })
            .collect();
        Line { name: (*name).to_owned(), points, banded: true, joined: true, gaps: Vec::new() }
    };
    let drawn: Vec<Line> = kinds.iter().map(line).filter(|l| !l.points.is_empty()).collect();
    let deepest = drawn.iter().flat_map(|l| &l.points).map(|p| p.x).reduce(f64::max)?;
    let ticks = [0.5, 0.9, 0.99, 0.999, 0.999_9, 0.999_99, 0.999_999];
    let drawing = lines(&Lines {
        x_title: "percentile",
        y_title: "latency",
        x_kind: Kind::Log,
        x_range: None,
        y_kind: Kind::Log,
        x_ticks: ticks
            .iter()
            .map(|q| (1.0 / (1.0 - q), percentile(*q)))
            .filter(|(x, _)| *x <= deepest)
            .collect(),
        y_label: super::figures::tick_seconds,
        series: drawn,
    });
    Some(Figure {
        title: "Latency at every percentile".into(),
        caption:
            "Response time counts from when an event was due, service time from when it started; where they \
                  part, events waited."
                .into(),
        description:
            "Latency rises to the right, from the median to the rarest events; the numbers are in the table."
                .into(),
        drawing,
        data,
    })
}

fn operations(record: &LoadRecord) -> Table {
    let mut table = Table::new(
        "Operations inside the events: service time",
        &["operation", "#count", "#p50", "#p99", "#max"],
    );
    for (name, operation) in &record.operations {
        let summary = operation.summary();
        let cell =
            |line| -> Words { summary.as_ref().map_or("-".to_owned(), |s| latency_cell(s, line)).into() };
        let done = count(operation.service.known.count());
        table.row(vec![name.clone().into(), done.into(), cell("p50"), cell("p99"), cell("max")]);
    }
    table
}

fn machine_section(run: &Run, record: &LoadRecord) -> Section {
    let machine = machine(record, &run.cpu);
    let ratio = |r: &record::missing::Maybe<f64>| {
        r.as_ref().map_or_else(|m| format!("unknown: {m}"), |r| percent(*r))
    };
    let mut table = Table::new("The machine over the measured phase", &["what", "value"]);
    table.row(vec!["busy".into(), ratio(&machine.busy_ratio).into()]);
    table.row(vec!["not booked by /proc/stat".into(), ratio(&machine.unaccounted_ratio).into()]);
    table.row(vec!["stolen by the hypervisor".into(), ratio(&machine.stolen_ratio).into()]);
    table.row(vec![
        "watched by".into(),
        machine.rung.map_or_else(|m| format!("unknown: {m}"), |r| r.word().to_owned()).into(),
    ]);
    let saturated = match machine.saturated_cpus {
        Ok(cpus) if cpus.is_empty() => Words::from("none"),
        Ok(cpus) => Words::toned(cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", "), Tone::Bad),
        Err(missing) => format!("unknown: {missing}").into(),
    };
    table.row(vec!["saturated CPUs".into(), saturated]);
    let client = match &record.client {
        Ok(c) => format!(
            "{:.1} us user + {:.1} us system CPU and {:.2} switches per event",
            c.user_us_per_event, c.system_us_per_event, c.switches_per_event
        ),
        Err(missing) => format!("unknown: {missing}"),
    };
    table.row(vec!["the generator's own cost".into(), client.into()]);
    Section { id: "machine", title: "Machine", blocks: vec![Block::Table(table)] }
}

fn checks(record: &LoadRecord) -> Section {
    let mut table = Table::new("Is the run valid?", &["check", "result", "what was found"]);
    for check in &record.verdict.checks {
        let result = if check.ok { Words::toned("ok", Tone::Good) } else { Words::toned("FAIL", Tone::Bad) };
        table.row(vec![check.name.into(), result, check.text.clone().into()]);
    }
    Section { id: "checks", title: "Checks", blocks: vec![Block::Table(table)] }
}

fn closing(run: &Run, record: Option<&LoadRecord>) -> Section {
    let asked = record.map_or_else(Vec::new, |record| {
        let server = record.server_version.clone().unwrap_or_else(|m| format!("unknown: {m}"));
        [("server", server)].into_iter().chain(of_load(record)).collect()
    });
    let calibration = Block::List(cited(&run.environment.calibration));
    disclosure(&run.header, &run.environment, asked, vec![calibration])
}
