//! A command with instruments around it, at a terminal.

use std::io::{self, Write};

use record::command::{CommandEnd, CpuSplit, Recorded};
use record::missing::Maybe;

use super::{Style, cpu_interval, labelled, paragraph};
use crate::number::{percent, span};

/// Writes the command's exit status, its CPU time from three sources, and the machine over the same window.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn command(out: &mut dyn Write, recorded: &Recorded, style: Style) -> io::Result<()> {
    const INDENT: usize = 11;
    let end = match recorded.end {
        CommandEnd::Code(code) => Some(format!("exit code {code}")),
        CommandEnd::Signal(signal) => Some(format!("ended by signal {signal}")),
        CommandEnd::NoCommand => None,
    };
    if let Some(end) = &end {
        labelled(out, ("command", None), end, INDENT, style)?;
    }
    let wall_s = recorded.window.as_ref().ok().map(record::cpu::CpuInterval::seconds);
    if let Some(wall_s) = wall_s {
        labelled(out, ("wall", None), &format!("{wall_s:.3} s ({})", span(wall_s)), INDENT, style)?;
    }
    if end.is_some() {
        let seconds = |ns: &Maybe<u64>| match ns {
            Ok(ns) => format!("{:.3} s", *ns as f64 * 1e-9),
            Err(why) => format!("missing ({why})"),
        };
        let mode = |s: &CpuSplit| {
            let [user, system] = [s.user_ns, s.system_ns].map(|ns| ns as f64 * 1e-9);
            format!(" (user {user:.3} s, system {system:.3} s)")
        };
        let rusage = recorded.by_rusage.as_ref().map(|s| s.sum_ns()).map_err(Clone::clone);
        let split = recorded.by_rusage.as_ref().map_or(String::new(), mode);
        labelled(out, ("CPU time", None), "of the command and everything that it started:", INDENT, style)?;
        labelled(out, ("  events", None), &seconds(&recorded.by_events_ns), INDENT, style)?;
        labelled(out, ("  interrupts", None), &interrupts(recorded), INDENT + 2, style)?;
        let known = |ns: &Maybe<u64>| if ns.is_ok() { WAITED_FOR } else { "" };
        let proc = format!("{}{}", seconds(&recorded.by_proc_ns), known(&recorded.by_proc_ns));
        labelled(out, ("  /proc", None), &proc, INDENT, style)?;
        let rusage = format!("{}{split}{}", seconds(&rusage), known(&rusage));
        labelled(out, ("  rusage", None), &rusage, INDENT, style)?;
        if let (Ok(events), Some(wall_s)) = (&recorded.by_events_ns, wall_s) {
            let cpus = *events as f64 * 1e-9 / wall_s;
            labelled(out, ("  used", None), &format!("{cpus:.2} CPUs on average"), INDENT, style)?;
        }
        if let Some(text) = difference(recorded) {
            paragraph(out, &text, 2, style)?;
        }
    }
    writeln!(out)?;
    match &recorded.window {
        Ok(window) => {
            let busy = match window.mean(record::cpu::CpuSample::busy_ratio) {
                Ok(busy) => percent(busy),
                Err(why) => {
                    let text =
                        format!("How busy the machine was over exactly that window is unknown: {why}.");
                    return paragraph(out, &text, 2, style);
                }
            };
            paragraph(out, &format!("The machine over exactly that window: {busy} busy."), 2, style)?;
            cpu_interval(out, window, window.from_ns, style)
        }
        Err(why) => paragraph(out, &format!("The machine over that window: missing ({why})"), 2, style),
    }
}

/// Interrupt time while the command had a CPU.
fn interrupts(recorded: &Recorded) -> String {
    match &recorded.interrupted_ns {
        Ok(ns) => {
            format!("{:.3} s while it ran: counted by /proc and rusage, not by events", *ns as f64 * 1e-9)
        }
        Err(why) => format!("missing ({why})"),
    }
}

/// Words for the processes that `/proc` and rusage miss.
const WAITED_FOR: &str = ", without processes that no parent waited for";

/// Says where the sources disagree by more than their errors.
fn difference(recorded: &Recorded) -> Option<String> {
    let rusage = recorded.by_rusage.as_ref().ok()?.sum_ns();
    let is_much = |ns: u64, of: u64| ns > NOTED_NS && ns > of / 100;
    let s = |ns: u64| ns as f64 * 1e-9;
    let mut told = Vec::new();
    if let Ok(events) = &recorded.by_events_ns {
        // Interrupts are part of the parent's account, not of the events.
        let most = events + recorded.interrupted_ns.as_ref().copied().unwrap_or(0);
        let (more_ns, less_ns) = (events.saturating_sub(rusage), rusage.saturating_sub(most));
        if is_much(more_ns, *events) {
            told.push(format!(
                "Events show {:.3} s more than rusage: rusage and the /proc column lack processes that no \
                 parent waited for or that still run.",
                s(more_ns)
            ));
        } else if is_much(less_ns, rusage) {
            told.push(format!(
                "rusage shows {:.3} s more than events and interrupts together: events may be missing, or \
                 the kernel's accounting is coarse.",
                s(less_ns)
            ));
        }
    }
    if let Ok(proc) = &recorded.by_proc_ns {
        let apart_ns = proc.abs_diff(rusage);
        if is_much(apart_ns, rusage) {
            told.push(format!("/proc and rusage differ by {:.3} s, more than their ticks.", s(apart_ns)));
        }
    }
    (!told.is_empty()).then(|| told.join(" "))
}

/// Smallest difference that is explained: a few ticks.
const NOTED_NS: u64 = 30_000_000;

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;

    fn told(events_ns: u64, interrupted_ns: u64, proc_ns: u64, rusage_ns: u64) -> String {
        let recorded = Recorded {
            end: CommandEnd::Code(0),
            window: Err(Missing::because("not watched")),
            by_events_ns: Ok(events_ns),
            interrupted_ns: Ok(interrupted_ns),
            by_proc_ns: Ok(proc_ns),
            by_rusage: Ok(CpuSplit { user_ns: rusage_ns, system_ns: 0 }),
        };
        let mut text = Vec::new();
        command(&mut text, &recorded, Style::PIPE).expect("memory takes it");
        String::from_utf8(text).expect("text").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sources_that_disagree_are_told_and_what_they_miss() {
        const MS: u64 = 1_000_000;
        let orphans = told(339 * MS, 0, 0, 3 * MS);
        assert!(orphans.contains("Events show 0.336 s more"), "{orphans}");
        assert!(
            orphans.contains(
                "rusage 0.003 s (user 0.003 s, system 0.000 s), without processes that no parent waited for"
            ),
            "{orphans}"
        );
        assert!(orphans.contains("/proc 0.000 s, without processes that no parent waited for"), "{orphans}");
        let lost = told(100 * MS, 50 * MS, 390 * MS, 400 * MS);
        assert!(lost.contains("0.250 s more than events and interrupts together"), "{lost}");
        let ticks = told(400 * MS, 0, 100 * MS, 400 * MS);
        assert!(ticks.contains("/proc and rusage differ by 0.300 s"), "{ticks}");
        let alike = told(395 * MS, 5 * MS, 390 * MS, 400 * MS);
        assert!(
            ["Events show", "differ by", "more than"].iter().all(|words| !alike.contains(words)),
            "{alike}"
        );
    }
}
