//! A profile at a terminal, with a line for each function; and the comparison of two profiles.

use std::io::{self, Write};

use analysis::profile::FunctionChange;
use record::profile::{OTHER_STACKS, Profile, ProfileFilter, ProfileKind, RunProfile, ThreadState};
use record::resources::UsedBy;

use super::table::{Align, Table};
use super::{Style, Tint, paragraph};
use crate::number::{count, latency, percent, percent_digits, significant, span};
use crate::words::counted;

/// Writes a profile as a table of functions, by self time, and the limits of the profile.
///
/// - `top`: number of lines; one more line sums the rest.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn profile(out: &mut dyn Write, profile: &Profile, top: usize, style: Style) -> io::Result<()> {
    paragraph(out, &title(profile), 2, style)?;
    let functions = profile.functions();
    let total_ns = profile.total_ns();
    if total_ns > 0 {
        let bound = bound(profile);
        let mut table = Table::default()
            .column("self %", Align::Right, 0)
            .column("self", Align::Right, 2)
            .column("total %", Align::Right, 1)
            .column("total", Align::Right, 3)
            .column("function", Align::Elastic, 0);
        let share = |ns: u64| percent_digits(ns as f64 / total_ns as f64);
        let time = |ns: u64| format!("{bound}{}", latency(ns as f64));
        for f in functions.iter().take(top) {
            let cells =
                [share(f.self_ns), time(f.self_ns), share(f.total_ns), time(f.total_ns), f.name.clone()];
            table.row(cells.map(|cell| (cell, None)).to_vec());
        }
        let rest = functions.get(top..).unwrap_or_default();
        if !rest.is_empty() {
            let rest_ns = rest.iter().map(|f| f.self_ns).sum();
            let words = format!("{} more functions", count(rest.len() as u64));
            let cells = [share(rest_ns), time(rest_ns), String::new(), String::new(), words];
            table.row(cells.map(|cell| (cell, Some(Tint::Quiet))).to_vec());
        }
        table.write(out, style)?;
    }
    for line in caveats(profile).into_iter().chain([cost(profile)]) {
        paragraph(out, &line, 2, style)?;
    }
    Ok(())
}

/// `>=` if something was lost.
pub(crate) fn bound(profile: &Profile) -> &'static str {
    if profile.lost.is_empty() { "" } else { ">=" }
}

fn title(profile: &Profile) -> String {
    let of = match &profile.only {
        Ok(only) if *only != ProfileFilter::default() => format!(" of {only}"),
        Ok(_) | Err(_) => String::new(),
    };
    title_of(profile, &of)
}

/// Length, subject and sums of a run's profile.
pub(crate) fn run_title(taken: &RunProfile) -> String {
    title_of(&taken.profile, &format!(" of {}", subject(taken.of)))
}

/// The processes of a run's profile.
pub(crate) fn subject(of: UsedBy) -> &'static str {
    match of {
        UsedBy::Server => "the server's processes",
        UsedBy::Machine => "all threads of the machine",
    }
}

/// - `of`: the profiled threads, after a blank.
fn title_of(profile: &Profile, of: &str) -> String {
    let seconds = profile.seconds();
    let cpus = if profile.cpus == 1 { "CPU" } else { "CPUs" };
    let (bound, total_ns) = (bound(profile), profile.total_ns());
    match profile.kind {
        ProfileKind::OnCpu => {
            let rate = profile
                .period_ns
                .as_ref()
                .map_or(String::new(), |ns| format!(" at {:.0} Hz", 1e9 / (*ns).max(1) as f64));
            format!(
                "on-CPU time{of} over {seconds:.3} s on {} {cpus}{rate}: {bound}{} samples, {bound}{} CPUs in use",
                profile.cpus,
                count(profile.count()),
                significant(total_ns as f64 * 1e-9 / seconds.max(1e-9))
            )
        }
        ProfileKind::OffCpu => {
            let still = match profile.still_off {
                0 => String::new(),
                n => format!("; {} of them had not ended", count(n)),
            };
            format!(
                "off-CPU time{of} over {seconds:.3} s on {} {cpus}: {bound}{} began{still}; threads were blocked for \
                 {bound}{} and waited for a CPU or for their quota for {bound}{}",
                profile.cpus,
                counted(profile.count(), "wait"),
                span(profile.ns_of(ThreadState::Blocked) as f64 * 1e-9),
                span(profile.ns_of(ThreadState::Runnable) as f64 * 1e-9)
            )
        }
    }
}

/// Limits of a run's profile, one sentence each.
pub(crate) fn run_caveats(taken: &RunProfile) -> Vec<String> {
    let summed = (taken.summed_stacks > 0).then(|| {
        let stacks = counted(taken.summed_stacks, "stack");
        format!("{stacks} with the least time are stored as one sum, `{OTHER_STACKS}`")
    });
    caveats(&taken.profile).into_iter().chain(summed).collect()
}

/// Limits of the numbers, one sentence each.
fn caveats(profile: &Profile) -> Vec<String> {
    let total_ns = profile.total_ns().max(1) as f64;
    let d = &profile.doubts;
    let share = |ns: u64, what: &str| {
        (ns > 0).then(|| format!("{} of the time {what}", percent(ns as f64 / total_ns)))
    };
    let mut lines: Vec<String> = [
        share(
            d.without_callers_ns,
            "has no callers: its code keeps no frame pointers (build with -fno-omit-frame-pointer)",
        ),
        share(d.unnamed_ns, "is in code without symbols"),
        share(d.ended_ns, "is of processes that ended before their functions could be named"),
        share(d.truncated_ns, "has stacks deeper than 127 functions, whose outermost are missing"),
        share(d.without_stack_ns, "has no stack: there was no room for it, or its context switch was missed"),
    ]
    .into_iter()
    .flatten()
    .collect();
    lines.extend(profile.notes.iter().cloned());
    if !profile.lost.is_empty() {
        let lost: Vec<String> = profile.lost.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
        lines.push(format!("lost: {}; times are lower bounds", lost.join(", ")));
    }
    lines
}

/// Cost of profiling.
pub(crate) fn cost(profile: &Profile) -> String {
    match &profile.cost {
        Ok(cost) => format!(
            "watching cost {} for each of {} {}, {} of one CPU; naming functions took {} of CPU time",
            latency(cost.ns_per_event),
            count(cost.events),
            match profile.kind {
                ProfileKind::OnCpu => "samples",
                ProfileKind::OffCpu => "switches",
            },
            percent(cost.kernel_s / profile.seconds().max(1e-9)),
            latency(cost.reader_s * 1e9)
        ),
        Err(why) => format!("watching cost in the kernel unknown ({why})"),
    }
}

/// Sentence on two profiles that are not of the same threads; `None` if they are, or if one does not say.
pub(crate) fn filters_differ([before, after]: [&Profile; 2]) -> Option<String> {
    let (a, b) = (before.only.as_ref().ok()?, after.only.as_ref().ok()?);
    (a != b).then(|| format!("A is of {a}, B is of {b}: the shares are of the time of different threads"))
}

/// Writes two profiles, function by function, the largest differences first.
///
/// - `top`: number of lines.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn profile_changes(
    out: &mut dyn Write,
    [before, after]: [&Profile; 2],
    changes: &[FunctionChange],
    top: usize,
    style: Style,
) -> io::Result<()> {
    for (name, profile) in [("A", before), ("B", after)] {
        paragraph(out, &format!("{name}: {}", title(profile)), 3, style)?;
    }
    let mut table = Table::default()
        .column("A self %", Align::Right, 0)
        .column("B self %", Align::Right, 0)
        .column("difference", Align::Right, 0)
        .column("A total %", Align::Right, 2)
        .column("B total %", Align::Right, 1)
        .column("function", Align::Elastic, 0);
    for c in changes.iter().take(top) {
        let margin =
            c.margin_ratio.as_ref().map_or(String::new(), |margin| format!(" +-{}", percent_digits(*margin)));
        let tint = (c.is_within_margin() == Ok(true)).then_some(Tint::Quiet);
        let cells = [
            percent_digits(c.self_ratio[0]),
            percent_digits(c.self_ratio[1]),
            format!("{:+.1}{margin}", c.difference() * 100.0),
            percent_digits(c.total_ratio[0]),
            percent_digits(c.total_ratio[1]),
            c.name.clone(),
        ];
        table.row(cells.map(|cell| (cell, tint)).to_vec());
    }
    if !changes.is_empty() {
        table.write(out, style)?;
    }
    let rest = changes.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let most = rest[0].difference().abs() * 100.0;
        paragraph(
            out,
            &format!("{} more functions differ by at most {most:.1} points", count(rest.len() as u64)),
            2,
            style,
        )?;
    }
    for (name, profile) in [("A", before), ("B", after)] {
        for line in caveats(profile) {
            paragraph(out, &format!("{name}: {line}"), 3, style)?;
        }
    }
    if let Some(line) = filters_differ([before, after]) {
        paragraph(out, &line, 2, style)?;
    }
    let note = match after.kind {
        ProfileKind::OnCpu => {
            "+- is the error of sampling alone (95 %); one run against one does not show how much runs vary"
        }
        ProfileKind::OffCpu => "one run against one does not show how much runs vary",
    };
    paragraph(out, note, 2, style)
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;
    use record::profile::{ProfileCost, ProfileDoubts, ProfileStack};

    use super::*;

    fn sample() -> Profile {
        let stack = |name: &str, count: u64| ProfileStack {
            comm: "app".to_owned(),
            state: ThreadState::Running,
            frames: vec!["main".to_owned(), name.to_owned()],
            count,
            ns: count * 1_003_009,
        };
        Profile {
            only: Ok(ProfileFilter::default()),
            kind: ProfileKind::OnCpu,
            elapsed_ns: 2_000_000_000,
            cpus: 2,
            period_ns: Ok(1_003_009),
            idle_samples: Ok(988),
            stacks: vec![stack("seventy", 1_400), stack("twenty", 400), stack("ten", 200)],
            still_off: 0,
            doubts: ProfileDoubts { without_callers_ns: 200 * 1_003_009, ..ProfileDoubts::default() },
            notes: Vec::new(),
            lost: [].into(),
            cost: Ok(ProfileCost { ns_per_event: 2_100.0, events: 3_988, kernel_s: 0.0084, reader_s: 0.03 }),
        }
    }

    fn text(p: &Profile, top: usize) -> String {
        let mut out = Vec::new();
        profile(&mut out, p, top, Style::PIPE).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn shares_are_of_the_time_of_all_stacks() {
        insta::assert_snapshot!(text(&sample(), 2), @r"
    on-CPU time over 2.000 s on 2 CPUs at 997 Hz: 2,000 samples, 1.00 CPUs in use
    self %    self  total %   total  function
      70.0  1.40 s     70.0  1.40 s  seventy
      20.0  401 ms     20.0  401 ms  twenty
      10.0  201 ms                   2 more functions
    10.0 % of the time has no callers: its code keeps no frame pointers (build with -fno-omit-frame-pointer)
    watching cost 2.10 us for each of 3,988 samples, 0.4 % of one CPU; naming functions took 30.0 ms of CPU time
    ");
    }

    #[test]
    fn what_was_lost_makes_times_lower_bounds() {
        let mut lossy = sample();
        lossy.lost = [("samples-that-did-not-come".to_owned(), 12)].into();
        let text = text(&lossy, 9);
        assert!(
            text.contains(">=2,000 samples") && text.contains("lost: 12 samples-that-did-not-come"),
            "{text}"
        );
    }

    #[test]
    fn a_profile_of_nothing_has_no_table() {
        let nothing = Profile { stacks: Vec::new(), cost: Err(Missing::because("closed")), ..sample() };
        let text = text(&nothing, 9);
        assert!(
            !text.contains("self %") && text.contains("0 samples") && text.contains("unknown (closed)"),
            "{text}"
        );
    }

    #[test]
    fn a_comparison_prints_the_doubts_of_each_side_and_that_they_are_of_different_threads() {
        let only = ProfileFilter { pid: Some(7), ..ProfileFilter::default() };
        let doubtful = Profile {
            only: Ok(only),
            lost: [("no-room".to_owned(), 3)].into(),
            notes: vec!["CPU 1 came online".to_owned()],
            ..sample()
        };
        let mut out = Vec::new();
        profile_changes(&mut out, [&sample(), &doubtful], &[], 9, Style::PIPE).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    A: on-CPU time over 2.000 s on 2 CPUs at 997 Hz: 2,000 samples, 1.00 CPUs in use
    B: on-CPU time of process 7 over 2.000 s on 2 CPUs at 997 Hz: >=2,000 samples, >=1.00 CPUs in use
    A: 10.0 % of the time has no callers: its code keeps no frame pointers (build with -fno-omit-frame-pointer)
    B: 10.0 % of the time has no callers: its code keeps no frame pointers (build with -fno-omit-frame-pointer)
    B: CPU 1 came online
    B: lost: 3 no-room; times are lower bounds
    A is of all threads, B is of process 7: the shares are of the time of different threads
    +- is the error of sampling alone (95 %); one run against one does not show how much runs vary
    ");
    }
}
