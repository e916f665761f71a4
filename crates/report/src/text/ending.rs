//! The last lines of a result: where it is stored, and its answer.

use std::collections::BTreeSet;
use std::io::{self, Write};

use analysis::Machine;
use record::bakeoff::{Attempt, Bakeoff, TrialState};
use record::load::{LoadRecord, LoadSettings, Loop};
use record::printable::printable;
use record::run::RunState;
use record::verdict::{Check, Validity};

use super::{Style, Tint, labelled, tinted};
use crate::number::{percent, rate, span};
use crate::words::plural;

/// Minimum share of the CPUs' time that a hypervisor must have taken to be named as the cause.
///
/// Measured on a machine with 2 CPUs, `null:` at 500/s: with 0.1 to 0.3 % stolen the p99 of lateness was 50
/// to 90 us, with 9 to 13 % stolen it was 5 to 16 ms.
const STOLEN_MIN: f64 = 0.005;
/// Share of its events below which a load is behind for another reason than single delays.
const FAR_BEHIND: f64 = 0.9;
/// Share of the CPUs' time from which on they were full.
const FULL: f64 = 0.9;

/// Writes the name of an archived result, and the command that makes its page.
pub(super) fn stored(out: &mut dyn Write, name: Option<&str>, page: &str, style: Style) -> io::Result<()> {
    let Some(name) = name else { return Ok(()) };
    // The command is copied from the terminal: it stays on one line.
    let text = format!(" stored as {name}   bakeoff report {name} -o {page}");
    writeln!(out, "{}", tinted(&text, Tint::Quiet, style))
}

/// Writes the answer as one line, however narrow the terminal: scripts and people read the last line.
///
/// The word before the first colon is colored.
pub(super) fn answer(out: &mut dyn Write, text: &str, style: Style) -> io::Result<()> {
    let (word, rest) = text.split_once(':').map_or(("", text), |(word, _)| (word, &text[word.len()..]));
    let tint = match word {
        "VALID" => Tint::Good,
        "INVALID" | "FAILED" => Tint::Bad,
        "INTERRUPTED" | "DEGRADED" => Tint::Doubt,
        // The answer is a sentence.
        _ => return writeln!(out, "{}", tinted(text, Tint::Strong, style)),
    };
    writeln!(out, "{}{}", tinted(word, tint, style), printable(rest))
}

/// The answer of an experiment: `answer` if every round is valid.
pub(super) fn of_experiment(bakeoff: &Bakeoff, answer: &str) -> String {
    let header = &bakeoff.header;
    match header.state {
        RunState::Sealed => match fallen(bakeoff) {
            Some((n, why)) => {
                let of = bakeoff.trials.len();
                format!("INVALID: {n} of {} were lost, the first: {why}; the others: {answer}", trials(of))
            }
            None => format!("VALID: {answer}"),
        },
        RunState::Invalid => format!("INVALID: {}", nothing_valid(bakeoff)),
        RunState::Failed => format!("FAILED: {}", nothing_valid(bakeoff)),
        RunState::Interrupted | RunState::Running | RunState::Abandoned => {
            let reason = header.reason.as_deref();
            format!("INTERRUPTED: {}; so far {answer}", reason.unwrap_or("not all rounds were measured"))
        }
    }
}

fn trials(n: usize) -> String {
    plural(n, "trial")
}

/// The reason that a bake-off without a valid trial has no result.
pub(super) fn nothing_valid(bakeoff: &Bakeoff) -> String {
    let all = trials(bakeoff.trials.len());
    if let Some((_, why)) = fallen(bakeoff) {
        return format!("0 of {all} valid, at least 1 needed; the first: {why}");
    }
    let reason = bakeoff.header.reason.as_deref();
    reason.unwrap_or("the archive does not name the reason").to_owned()
}

/// Number of trials that were measured and are not valid, and the reason of the first; `None` without one.
fn fallen(bakeoff: &Bakeoff) -> Option<(usize, String)> {
    let sealed: BTreeSet<u32> = bakeoff.sealed().map(|(trial, _)| trial.index).collect();
    let is_fallen = |a: &&Attempt| {
        matches!(a.state, TrialState::Invalid | TrialState::Failed) && !sealed.contains(&a.trial)
    };
    let fallen: Vec<&Attempt> = bakeoff.attempts.iter().filter(is_fallen).collect();
    let trials: BTreeSet<u32> = fallen.iter().map(|attempt| attempt.trial).collect();
    let first = fallen.first()?;
    let of_load = first.run.as_ref().and_then(|run| {
        let load = run.load.as_ref()?;
        let machine = analysis::machine(load, &run.cpu);
        Some(with_mend(load.verdict.failures().next()?, (load, &machine), Written::Plan))
    });
    let why = of_load.or_else(|| first.reason.clone());
    Some((trials.len(), why.unwrap_or_else(|| "the archive does not name the reason".to_owned())))
}

/// Writes the reasons that the answer of a load has no room for, each with what would mend it.
pub(super) fn other_failures(
    out: &mut dyn Write,
    record: &LoadRecord,
    machine: &Machine,
    style: Style,
) -> io::Result<()> {
    let answered = match record.verdict.state {
        Validity::Valid | Validity::Interrupted => 0,
        Validity::Invalid => 1,
        // The answer has all losses.
        Validity::Degraded => return Ok(()),
    };
    for check in record.verdict.failures().skip(answered) {
        labelled(
            out,
            (" also", Some(Tint::Bad)),
            &with_mend(check, (record, machine), Written::CommandLine),
            11,
            style,
        )?;
    }
    Ok(())
}

/// The answer of a load in one sentence.
pub(super) fn of_load(record: &LoadRecord, machine: &Machine) -> String {
    match (record.verdict.state, record.verdict.failures().next()) {
        (Validity::Interrupted, _) => interrupted(record),
        (Validity::Invalid, Some(check)) => {
            format!("INVALID: {}", with_mend(check, (record, machine), Written::CommandLine))
        }
        (Validity::Invalid, None) => "INVALID: the record does not name the check that failed".to_owned(),
        (Validity::Degraded, _) => {
            let lost = record.verdict.degraded().unwrap_or_default();
            format!("DEGRADED: {lost}; the numbers cover only the events that are known")
        }
        (Validity::Valid, _) => format!("VALID: {}", achievement(record)),
    }
}

fn interrupted(record: &LoadRecord) -> String {
    let measured_s = record.measured.as_secs_f64();
    if record.counts.planned == 0 {
        return "INTERRUPTED: before any event was measured".to_owned();
    }
    let of = match record.settings.events_max {
        Some(_) => String::new(),
        None => format!(" of {}", span(record.settings.time.as_secs_f64())),
    };
    format!("INTERRUPTED: after {}{of}; the numbers cover only that part", span(measured_s))
}

fn achievement(record: &LoadRecord) -> String {
    let s = &record.settings;
    let who = subject(s);
    match &s.pace {
        Loop::Open(open) if open.arrivals.say_their_rate() || !record.rate_changes.is_empty() => {
            let offered = crate::json::offered_per_s(record).unwrap_or(record.achieved_per_s);
            format!("{who} kept up with {}/s on average", rate(offered))
        }
        Loop::Open(open) => {
            // Chance and whole events move the rate: the verdict is about the one that was offered.
            let offered = crate::json::offered_per_s(record).unwrap_or(open.per_s);
            if (offered / open.per_s - 1.0).abs() <= 0.01 {
                format!("{who} kept up with {}/s", asked(open.per_s))
            } else {
                format!(
                    "{who} kept up with {}/s, offered for a rate of {}/s",
                    rate(offered),
                    asked(open.per_s)
                )
            }
        }
        Loop::Closed { .. } => {
            let connections = plural(s.connections_in_all() as usize, "connection");
            let did = crate::json::achieved_per_s(record)
                .map_or_else(|_| "no event".to_owned(), |per_s| format!("{}/s", rate(per_s)));
            format!("{who} did {did} for {connections} in a closed loop")
        }
    }
}

/// A rate as a user writes it: `500`, not `500.00`.
fn asked(per_s: f64) -> String {
    let text = rate(per_s);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Name of the thing that was loaded: an embedded database or a command is not a server.
fn subject(settings: &LoadSettings) -> &'static str {
    match settings.target.scheme() {
        "null" => "the generator",
        "exec" => "the command",
        "sqlite" => "SQLite",
        _ => "the server",
    }
}

/// Place of the settings of a load, which must be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    CommandLine,
    Plan,
}

fn with_mend(check: &Check, (record, machine): (&LoadRecord, &Machine), written: Written) -> String {
    let text = check.text.trim_end_matches('.').to_owned();
    let mend = hypervisor(check, record, machine).or_else(|| mend(check, record, written));
    let all = mend.map_or_else(|| text.clone(), |mend| format!("{text}; mend: {mend}"));
    match written {
        Written::CommandLine => all,
        // Most keys of a plan have the names of the options.
        Written::Plan => {
            let all = all.replace("--warmup", "phases.warm-up.min").replace("--time", "phases.measure.time");
            all.replace(" --", " ")
        }
    }
}

/// The mend of a check of times if a hypervisor took CPU time: no option brings that back, so it is named
/// before any other mend. But it is not why a server falls far behind the rate, nor alone to blame on a
/// machine that others keep busy.
fn hypervisor(check: &Check, record: &LoadRecord, machine: &Machine) -> Option<String> {
    const OF_TIME: [&str; 5] =
        ["client-paused", "client-starvation", "lateness", "achieved-rate", "littles-law"];
    let stolen = machine.stolen_ratio.clone().ok().filter(|ratio| *ratio >= STOLEN_MIN)?;
    let is_far_behind = (record.counts.done as f64) < FAR_BEHIND * record.counts.planned as f64;
    let is_of_time = OF_TIME.contains(&check.name) && !(check.name == "achieved-rate" && is_far_behind);
    is_of_time.then(|| {
        let stolen = percent(stolen);
        if let Some(busy) = machine.busy_ratio.clone().ok().filter(|ratio| *ratio >= FULL) {
            let busy = percent(busy);
            return format!(
                "an idle machine: its CPUs were {busy} busy, and the hypervisor took {stolen} of their time (steal)"
            );
        }
        format!("another machine, or run again later: the hypervisor took {stolen} of the CPUs' time (steal)")
    })
}

/// The change that would make a check pass; `None` if the check's own text names it.
fn mend(check: &Check, record: &LoadRecord, written: Written) -> Option<String> {
    let s = &record.settings;
    let mend = match check.name {
        "counts-balance" => "report it as a defect of bakeoff, with the file of --log",
        "connected" => "raise the server's connection limit, or use fewer connections",
        "server-away" => "the server's log says why it was away; run again when it stays up",
        "hosts" => "start the hosts that did nothing, or leave them out of the target",
        "errors" if record.error_samples.is_empty() => "--max-errors allows more",
        "errors" => "remove the cause of the error above, or allow more with --max-errors",
        "throttled" => "raise the CPU quota of the control group (cpu.max), or run outside it",
        "client-paused" => "do not suspend the generator (SIGSTOP, freezer), and give it enough CPU time",
        "client-starvation" => {
            let fewer = if s.threads > 1 { "fewer --threads, " } else { "" };
            let place =
                if subject(s) == "the server" { "the server on another machine" } else { "an idle machine" };
            return Some(format!("{fewer}a lower --rate, or {place}"));
        }
        "client-cpu" if !check.text.contains("more CPUs") => "more --threads, or a lower --rate",
        "lateness" if s.pace.as_open().is_some_and(|open| open.fifo) => {
            "an idle machine; `bakeoff doctor` says what delays its timers"
        }
        "lateness" => "an idle machine, or --fifo; `bakeoff doctor` says what delays its timers",
        "achieved-rate" => return Some(rate_mend(check, record, written)),
        "events" if !check.text.contains("use more") => "more --events, or a longer --time",
        "phase-length" if !check.text.contains("use a") => "a --time longer than one event",
        "stuck" if check.text.contains("reconnecting") => {
            "find in the server's log why it drops connections or does not answer"
        }
        "stuck" => "find in the server's log why it does not answer, or set a longer --drain or a --timeout",
        "threads-ended" => "a script whose `event` returns nothing",
        "bulk-rows" => "a longer phase, or a script that sends its rows in its events",
        "thread-done" => "a server that stays up until the script's threads have ended",
        "cache-steady" => "a longer --warmup",
        "littles-law" => "a longer --time, on an idle machine",
        "mix" => "a longer --time; if it fails again, report it as a defect of bakeoff",
        _ => return None,
    };
    Some(mend.to_owned())
}

/// The rate that was achieved is an upper bound of the rate that this many connections can keep, unless
/// outages or errors took the rest. If a backlog of the warm-up raised it to the rate that failed, the bound
/// is the rate that was kept: of the events that were due in the phase, those that count as done.
fn rate_mend(check: &Check, record: &LoadRecord, written: Written) -> String {
    let lost = record.counts.planned.saturating_sub(record.counts.done);
    if record.counts.failed * 2 >= lost.max(1) {
        return "remove the cause of the errors above: these events failed".to_owned();
    }
    if record.outages.iter().any(|outage| outage.from_s + outage.for_s > 0.0) {
        return "a server that stays up: it was away (see the outage above), and its log says why".to_owned();
    }
    let offered_per_s = record.counts.planned as f64 / record.measured.as_secs_f64().max(f64::MIN_POSITIVE);
    let bound_per_s = if record.achieved_per_s < offered_per_s {
        record.achieved_per_s
    } else {
        check.found * offered_per_s
    };
    let below = if bound_per_s > 0.0 {
        format!("a --rate below {}", rate(bound_per_s))
    } else {
        "a lower --rate".to_owned()
    };
    match written {
        Written::CommandLine => {
            format!("{below}, more --threads, or --search to find the highest rate that it keeps")
        }
        Written::Plan => format!("{below}, or more --threads"),
    }
}
