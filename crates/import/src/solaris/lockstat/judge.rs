//! Cost of the locks.

use crate::error::Note;

use super::{Class, Counts, Event, Lock, Percent, Run, Section, Unit};
use record::missing::{Maybe, Missing};
use std::collections::HashMap;

/// Facts about the machine that the text does not contain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Number of CPUs.
    pub cpus: Option<u32>,
    /// Seconds that lockstat watched, for forms without a title.
    pub elapsed_s: Option<f64>,
    /// Duration of one iteration of the spin loop on that machine, for dialects that count iterations.
    pub spin_ns: Option<f64>,
}

/// Costs of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged<'r> {
    /// Seconds that lockstat watched.
    pub elapsed_s: Maybe<f64>,
    /// Costs of the run's rows, in the order read.
    pub verdicts: Vec<Verdict<'r>>,
    /// Share of the machine that all spinning took.
    pub total: Maybe<f64>,
    /// Whether `total` is a lower bound: rows are missing, rates were truncated to whole numbers, or records
    /// were lost.
    pub lower_bound: bool,
}

/// Cost of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<'r> {
    /// Section of the row.
    pub section: &'r Section,
    /// The row.
    pub lock: &'r Lock,
    /// Cost of the row.
    pub merits: Merits,
}

/// Cost of a row or a group of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Merits {
    /// Seconds per second: the mean number of threads that were spinning, waiting or holding.
    pub threads: Maybe<f64>,
    /// Share of all CPUs that it took, in `[0, 1]` if the log is consistent. Only spinning takes CPU.
    pub cpu_util_ratio: Maybe<f64>,
}

/// Computes the cost of every row of `run`, and their sum.
pub fn judge<'r>(run: &'r Run, machine: &Machine) -> Judged<'r> {
    let elapsed_s = run.elapsed_s.or(machine.elapsed_s).filter(|&s| s > 0.0);
    let elapsed_s = elapsed_s.ok_or_else(|| match run.elapsed_s {
        Some(_) => Missing::because("the log has an elapsed time of 0"),
        None => Missing::because("this output form lacks the elapsed time: give --elapsed SECONDS"),
    });
    let verdicts: Vec<Verdict<'_>> = run
        .sections
        .iter()
        .flat_map(|section| section.locks.iter().map(move |lock| (section, lock)))
        .map(|(section, lock)| Verdict { section, lock, merits: merits(section, lock, &elapsed_s, machine) })
        .collect();
    let rates = |section: &Section| section.counts == Counts::PerSecond;
    let spinning = || run.sections.iter().filter(|section| section.event.class.is_cpu());
    Judged {
        total: total(run, &verdicts),
        lower_bound: !run.lost.is_empty()
            || spinning().any(|section| rates(section) || section.cut().is_some()),
        elapsed_s,
        verdicts,
    }
}

/// Maximum CPU-util that rounding explains.
pub(crate) const UTIL_MAX: f64 = 1.01;
/// More threads than any kernel of these tools ran.
pub(crate) const THREADS_MAX: f64 = 4_194_304.0;

impl Judged<'_> {
    /// Returns contradictions, each with its line: more CPU time than the CPUs have, more threads than fit,
    /// more events in the rows than in their title.
    pub fn impossible(&self, machine: &Machine) -> Vec<Note> {
        let of_row = |verdict: &Verdict<'_>| {
            let Merits { threads, cpu_util_ratio } = &verdict.merits;
            let text = match (cpu_util_ratio, threads) {
                (Ok(util), _) if *util > UTIL_MAX => util_sentence(*util, machine),
                (_, Ok(threads)) if *threads > THREADS_MAX => {
                    format!("{threads:.3e} threads at once: the time, the count or the elapsed time is wrong")
                }
                _ => return None,
            };
            Some(Note { line: verdict.lock.line, text })
        };
        let sections = self.verdicts.chunk_by(|a, b| std::ptr::eq(a.section, b.section));
        let mut found: Vec<Note> = sections
            .flat_map(|rows| rows[0].section.surplus().into_iter().chain(rows.iter().filter_map(of_row)))
            .collect();
        let line = self.verdicts.first().map_or(1, |verdict| verdict.section.line);
        if let Some(total) = self.total.as_ref().ok().filter(|total| found.is_empty() && **total > UTIL_MAX) {
            found.push(Note { line, text: format!("in all, {}", util_sentence(*total, machine)) });
        }
        found
    }
}

fn util_sentence(util: f64, machine: &Machine) -> String {
    let cpus = machine.cpus.unwrap_or(0);
    format!(
        "CPU-util {util:.3} exceeds all {cpus} CPUs: the number of CPUs (-n) or the elapsed time is wrong"
    )
}

fn merits(section: &Section, lock: &Lock, elapsed_s: &Maybe<f64>, machine: &Machine) -> Merits {
    let threads = threads(section, lock, elapsed_s, machine);
    let cpu_util_ratio = match section.event.class {
        Class::Spin | Class::Thread => threads.clone().and_then(|threads| match machine.cpus {
            Some(cpus) if cpus > 0 => Ok(threads / f64::from(cpus)),
            _ => Err(Missing::because("the number of CPUs is not known: give -n NCPU")),
        }),
        Class::Block => Err(Missing::because("blocked: waiting, not CPU")),
        Class::Hold => Err(Missing::because("held: not spent on waiting")),
        Class::Interrupt | Class::Error | Class::Other => Err(Missing::because("no time spent on a lock")),
    };
    Merits { threads, cpu_util_ratio }
}

fn threads(section: &Section, lock: &Lock, elapsed_s: &Maybe<f64>, machine: &Machine) -> Maybe<f64> {
    let ns_per_unit = match (section.unit, machine.spin_ns) {
        (Unit::Nsec | Unit::NsecAssumed, _) => 1.0,
        (Unit::Spins, Some(spin_ns)) => spin_ns,
        (Unit::Spins, None) => {
            return Err(Missing::because(
                "the log counts turns of the spin loop, not time; --spin-ns NS sets the time of one turn",
            ));
        }
        (Unit::Untimed, _) => return Err(Missing::because("no time was measured")),
    };
    let mean_ns = lock.mean_time().ok_or_else(|| Missing::because("no time was measured"))? * ns_per_unit;
    match section.counts {
        Counts::PerSecond => Ok(lock.count as f64 * mean_ns / 1e9),
        Counts::Events => {
            let total = lock.total_time(section.counts).unwrap_or(0.0) * ns_per_unit;
            elapsed_s.as_ref().map(|s| total / (s * 1e9)).map_err(Clone::clone)
        }
    }
}

fn total(run: &Run, verdicts: &[Verdict<'_>]) -> Maybe<f64> {
    let spinning = || run.sections.iter().filter(|section| section.event.class.is_cpu());
    if spinning().next().is_none() {
        return Err(Missing::because("no lock was spun on, or spinning was not watched"));
    }
    if spinning().any(|section| section.percent == Percent::Generated) {
        return Err(Missing::because("rows overlap (-g charges an event to every function on its stack)"));
    }
    if spinning().any(|section| section.locks.is_empty()) {
        return Err(Missing::because("a kind of spinning is counted but no lock is listed (-D 0)"));
    }
    let spun = verdicts.iter().filter(|verdict| verdict.section.event.class.is_cpu());
    spun.map(|verdict| verdict.merits.cpu_util_ratio.clone()).sum()
}

/// Attribute by which rows are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The lock.
    Lock,
    /// The caller.
    Caller,
    /// The kind of event.
    Kind,
}

/// Rows of one kind of event with the same lock, caller or kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'r> {
    /// Kind of the events.
    pub event: &'r Event,
    /// Common attribute: the lock, the caller or the kind's name.
    pub name: &'r str,
    /// Events, or events per second.
    pub count: u64,
    /// Total cost; missing if the cost of any row is missing.
    pub merits: Merits,
}

impl Group<'_> {
    /// Returns the unit of `count`. The group must belong to `run`.
    pub fn counts(&self, run: &Run) -> Counts {
        let section = run.sections.iter().find(|section| section.event == *self.event);
        section.map_or(Counts::Events, |section| section.counts)
    }
}

/// Groups rows within their kind of event, in the order of their first rows.
///
/// With [`By::Kind`], a section without rows (`-D 0`) becomes a group that has the count of the title.
pub fn group<'r>(run: &'r Run, judged: &Judged<'r>, by: By) -> Vec<Group<'r>> {
    let mut groups: Vec<Group<'r>> = Vec::new();
    let mut index: HashMap<(&str, &str), usize> = HashMap::new();
    for verdict in &judged.verdicts {
        let event = &verdict.section.event;
        let name = match by {
            By::Lock => verdict.lock.lock.as_str(),
            By::Caller => verdict.lock.caller.as_str(),
            By::Kind => &event.name,
        };
        let Some(&at) = index.get(&(&*event.name, name)) else {
            index.insert((&event.name, name), groups.len());
            groups.push(Group { event, name, count: verdict.lock.count, merits: verdict.merits.clone() });
            continue;
        };
        let group = &mut groups[at];
        group.count = group.count.saturating_add(verdict.lock.count);
        add(&mut group.merits.threads, &verdict.merits.threads);
        add(&mut group.merits.cpu_util_ratio, &verdict.merits.cpu_util_ratio);
    }
    if by == By::Kind {
        overrule(run, &mut groups);
    }
    groups
}

fn add(sum: &mut Maybe<f64>, more: &Maybe<f64>) {
    if let Ok(known) = sum {
        match more {
            Ok(more) => *known += more,
            Err(missing) => *sum = Err(missing.clone()),
        }
    }
}

/// Replaces the counts of whole kinds by those of the titles: rows may be truncated, or overlap.
fn overrule<'r>(run: &'r Run, groups: &mut Vec<Group<'r>>) {
    for section in &run.sections {
        let missing = |reason: &str| {
            let missing = Missing::because(reason);
            Merits { threads: Err(missing.clone()), cpu_util_ratio: Err(missing) }
        };
        let Some(group) = groups.iter_mut().find(|group| group.event == &section.event) else {
            groups.push(Group {
                event: &section.event,
                name: &section.event.name,
                count: section.events.unwrap_or(0),
                merits: missing("no lock is listed"),
            });
            continue;
        };
        if let Some(events) = section.events.filter(|_| section.counts == Counts::Events) {
            group.count = events;
        }
        if section.percent == Percent::Generated {
            group.merits = missing("rows overlap (-g)");
        }
    }
}
