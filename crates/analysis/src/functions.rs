//! The functions behind a difference between two configurations of a bake-off.
//!
//! Trials of different throughput have profiles of different sizes, so the time of a function is divided by
//! the events of its trial. The difference in a block is a share of the reference's time of an event in that
//! block: the differences of all functions add up to the change of the whole time, and what slows both sides
//! of a block down cancels. The unit of replication is the block, never the sample: a thousand samples of one
//! server do not show how servers vary.

use std::collections::{BTreeMap, HashMap};

use record::bakeoff::{Bakeoff, Factor, Levels, Metric, Trial};
use record::missing::{Maybe, Missing};
use record::profile::{OTHER_STACKS, ProfileKind, RunProfile};
use record::quantity::plural;
use record::resources::UsedBy;
use record::run::{Run, RunId};

use crate::cell::{Seen, combinations, seen};
use crate::contest::{after, unevenly_redone};
use crate::judge::{Estimate, Judged, Member, Rules, Verdict, judge};
use crate::metric::counted_per_s;
use crate::sequential::Dropped;
use crate::student::t_above;
use crate::value::check_span;

/// Least share of the time of an event, of both sides together, of a function that is compared.
pub const SHARE_MIN: f64 = 0.005;
/// Least number of samples of a function that is compared, per trial on average: below, blocks may agree by
/// chance.
pub const SAMPLES_MIN: f64 = 5.0;
/// Most times that are held at once: one for each function of each trial.
const TIMES_MAX: usize = 2_000_000;
/// Most bytes of the names of all functions.
const NAMES_BYTES_MAX: usize = 16 << 20;
/// Judges shares of the reference's time: in points, less is better. Nothing else of the metric is used.
const SHARES: Metric = Metric::LockCpu;
/// Both tails of the interval of a share.
const SHARE_TAILS: f64 = 0.05;

/// Profiles of the trials of a bake-off: times by function, in bounded memory.
#[derive(Debug, Default)]
pub struct TrialProfiles {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    name_bytes: usize,
    taken: Vec<Taken>,
    /// Number of times in `taken`.
    times: usize,
    too_many: bool,
    left_out: BTreeMap<String, usize>,
}

/// Time of one function in one profile.
#[derive(Debug, Clone, Copy, Default)]
struct Time {
    ns: u64,
    count: u64,
}

/// One profile, function by function.
#[derive(Debug)]
struct Taken {
    trial: u32,
    run: RunId,
    kind: ProfileKind,
    of: UsedBy,
    events: f64,
    /// Times, ordered by the number of the function's name.
    functions: Vec<(usize, Time)>,
    whole: Time,
    /// Time of the stacks that are stored as one sum: it may be of any function.
    summed_ns: u64,
    /// Lost samples or switches, relative to those that came.
    lost_ratio: f64,
    lost: u64,
    unnamed_ns: u64,
    without_callers_ns: u64,
}

impl TrialProfiles {
    /// Adds a profile of a sealed trial.
    pub fn add(&mut self, trial: &Trial, run: &Run, taken: &RunProfile) {
        if self.too_many {
            return;
        }
        match events(run, taken) {
            Err(why) => self.leave_out(why.reason),
            Ok(events) => {
                let taken = self.taken_of(trial, run, taken, events);
                self.times += taken.functions.len();
                self.taken.push(taken);
            }
        }
        let why = if self.times > TIMES_MAX {
            format!("all trials together have more than {TIMES_MAX} functions")
        } else if self.name_bytes > NAMES_BYTES_MAX {
            format!("the names of all functions have more than {NAMES_BYTES_MAX} bytes")
        } else {
            return;
        };
        // A part of the trials would be a selection.
        *self = Self { too_many: true, left_out: [(why, 1)].into(), ..Self::default() };
    }

    /// Counts a trial with a profile that cannot be compared.
    pub fn leave_out(&mut self, why: impl Into<String>) {
        *self.left_out.entry(why.into()).or_default() += 1;
    }

    fn taken_of(&mut self, trial: &Trial, run: &Run, taken: &RunProfile, events: f64) -> Taken {
        let RunProfile { of, profile, .. } = taken;
        let mut functions: BTreeMap<usize, Time> = BTreeMap::new();
        let mut summed_ns = 0;
        for stack in &profile.stacks {
            let name = stack.frames.last().map_or("[no stack]", String::as_str);
            if name == OTHER_STACKS {
                summed_ns += stack.ns;
                continue;
            }
            let time = functions.entry(self.number(name)).or_default();
            time.ns += stack.ns;
            time.count += stack.count;
        }
        let whole = Time { ns: profile.total_ns(), count: profile.count() };
        let lost: u64 = profile.lost.values().fold(0, |sum, n| sum.saturating_add(*n));
        // Samples are lost on all CPUs, those of other processes and of idle CPUs included.
        let came = match &profile.period_ns {
            Ok(period_ns) => {
                let all = profile.elapsed_ns as f64 * profile.cpus as f64 / (*period_ns).max(1) as f64;
                (all - lost as f64).max(whole.count as f64)
            }
            Err(_) => whole.count as f64,
        };
        Taken {
            trial: trial.index,
            run: run.header.id,
            kind: profile.kind,
            of: *of,
            events,
            functions: functions.into_iter().collect(),
            whole,
            summed_ns,
            lost_ratio: lost as f64 / came.max(1.0),
            lost,
            unnamed_ns: profile.doubts.unnamed_ns,
            without_callers_ns: profile.doubts.without_callers_ns,
        }
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.name_bytes += name.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    /// Compares the profiles of every configuration with those of the reference, in each condition.
    ///
    /// All functions of all these comparisons form one family, separate from that of the metrics.
    ///
    /// - `no_claim`: whether every verdict is withheld.
    pub(crate) fn compared(
        &self,
        bakeoff: &Bakeoff,
        reference: &Levels,
        (rules, no_claim): (Rules, bool),
        dropped: &[Dropped],
    ) -> Profiled {
        let drafts = self.drafts(bakeoff, reference, dropped);
        let members: Vec<Member> = drafts.iter().flat_map(Draft::members).collect();
        let family = members.len();
        let mut judged = judge(&members, rules).into_iter();
        let pairs = drafts.into_iter().map(|draft| {
            let mut functions = draft.finished(&self.names, &mut judged);
            if no_claim {
                functions.withhold();
            }
            functions
        });
        Profiled { pairs: pairs.collect(), family, left_out: self.left_out.clone() }
    }

    fn drafts<'a>(&'a self, bakeoff: &'a Bakeoff, reference: &Levels, dropped: &[Dropped]) -> Vec<Draft<'a>> {
        let (compared, conditions): (Vec<&Factor>, Vec<&Factor>) =
            bakeoff.factors.iter().partition(|f| f.reference.is_some());
        let [compared, conditions] = [compared, conditions].map(|f| combinations(bakeoff, &f));
        let seen = seen(bakeoff);
        let mut drafts = Vec::new();
        for kind in ProfileKind::ALL {
            let cells = self.by_cell(bakeoff, *kind);
            for levels in &conditions {
                for a in compared.iter().filter(|a| *a != reference) {
                    let sides = [a, reference].map(|side| {
                        let cell: Levels =
                            side.iter().chain(levels).map(|(k, v)| (k.clone(), v.clone())).collect();
                        let taken = cells.get(&cell).cloned().unwrap_or_default();
                        Some(Side { taken, seen: seen.get(&cell)? })
                    });
                    let [Some(one), Some(other)] = sides else { continue };
                    if one.taken.is_empty() && other.taken.is_empty() {
                        continue;
                    }
                    let names = [a, reference, levels].map(Levels::clone);
                    let dropped = dropped.iter().find(|of| of.arm == *a).map(|of| of.after_block);
                    drafts.push(Draft::of(*kind, names, &[one, other], dropped));
                }
            }
        }
        drafts
    }

    /// Profiles of one kind, by cell and block.
    fn by_cell<'a>(&'a self, bakeoff: &'a Bakeoff, kind: ProfileKind) -> BTreeMap<&'a Levels, ByBlock<'a>> {
        let trials: HashMap<u32, &Trial> = bakeoff.trials.iter().map(|trial| (trial.index, trial)).collect();
        let mut found: BTreeMap<&Levels, ByBlock<'_>> = BTreeMap::new();
        for taken in self.taken.iter().filter(|taken| taken.kind == kind) {
            let Some(trial) = trials.get(&taken.trial) else { continue };
            found.entry(&trial.levels).or_default().insert(trial.block, taken);
        }
        found
    }
}

/// Events of the trial that the profile is divided by.
fn events(run: &Run, taken: &RunProfile) -> Maybe<f64> {
    let load = run.load.as_ref().ok_or_else(|| Missing::because("the run generated no load"))?;
    // The length differs from trial to trial; one reason stands for all.
    check_span("the profile", taken.profile.seconds(), load)
        .map_err(|_| Missing::because("it is longer or shorter than the measured phase"))?;
    let per_s = counted_per_s(run, load).unwrap_or(load.achieved_per_s);
    let events = per_s * load.measured.as_secs_f64();
    if !(events.is_finite() && events > 0.0) {
        return Err(Missing::because("no event was done"));
    }
    if taken.profile.total_ns() == 0 {
        return Err(Missing::because("it has no samples"));
    }
    Ok(events)
}

impl Taken {
    fn time(&self, function: usize) -> Time {
        let at = self.functions.binary_search_by_key(&function, |(number, _)| *number);
        at.map_or(Time::default(), |at| self.functions[at].1)
    }

    fn ns_per_event(&self, function: Option<usize>) -> f64 {
        function.map_or(self.whole, |function| self.time(function)).ns as f64 / self.events
    }

    /// Lower and upper bound of the time of an event in a function; `None`: in all functions.
    fn bounds(&self, function: Option<usize>) -> (f64, f64) {
        let low = self.ns_per_event(function);
        let hidden_ns = if function.is_some() { self.summed_ns } else { 0 };
        (low, low * (1.0 + self.lost_ratio) + hidden_ns as f64 / self.events)
    }
}

/// Profiles of one cell, by block.
type ByBlock<'a> = BTreeMap<u32, &'a Taken>;

/// One side of a comparison.
struct Side<'a, 's> {
    taken: ByBlock<'a>,
    seen: &'s Seen<'a>,
}

impl Side<'_, '_> {
    /// Blocks in which the other side has a profile, and this one ended without.
    fn lost(&self, other: &Self, until: u32) -> usize {
        let has_ended = |block: &u32| {
            self.seen.fell_out.contains(block)
                || self.seen.sealed.iter().any(|(trial, _)| trial.block == *block)
        };
        other
            .taken
            .range(..=until)
            .filter(|(block, _)| !self.taken.contains_key(block) && has_ended(block))
            .count()
    }
}

/// One configuration against the reference, before judgement.
struct Draft<'a> {
    kind: ProfileKind,
    /// Configuration, reference and condition.
    levels: [Levels; 3],
    /// Profiles of both sides, block by block.
    blocks: Vec<[&'a Taken; 2]>,
    refused: Option<Missing>,
    /// Functions that are large enough to be compared.
    tested: Vec<usize>,
}

impl<'a> Draft<'a> {
    /// - `dropped`: the last block that counts, if the configuration was dropped.
    fn of(kind: ProfileKind, levels: [Levels; 3], sides: &[Side<'a, '_>; 2], dropped: Option<u32>) -> Self {
        let [a, b] = sides;
        let until = dropped.unwrap_or(u32::MAX);
        let both = |(block, a_taken): (&u32, &&'a Taken)| Some([*a_taken, *b.taken.get(block)?]);
        let blocks: Vec<[&Taken; 2]> = a.taken.range(..=until).filter_map(both).collect();
        let redone = |side: &Side<'_, '_>| side.seen.redone.len();
        let all = |side: &Side<'_, '_>| side.seen.redone.union(&side.seen.abandoned).count();
        let uneven = || match [b.lost(a, until), a.lost(b, until)] {
            [0, 0] => unevenly_redone((redone(a), redone(b)), (all(a), all(b))),
            [only_a, only_b] => Some(Missing::because(format!(
                "unevenly lost profiles: in {} only the configuration has one, in {} only the reference; the remaining \
                 blocks may be biased",
                plural(only_a as u64, "block"),
                plural(only_b as u64, "block")
            ))),
        };
        let mixed = || {
            let mut all = blocks.iter().flatten().map(|taken| taken.of);
            let first = all.next()?;
            all.any(|of| of != first).then(|| {
                Missing::because(
                    "some profiles are of the server's processes, others of all threads of the machine",
                )
            })
        };
        let refused = dropped.map(after).or_else(uneven).or_else(mixed);
        let tested = tested(kind, &blocks);
        Self { kind, levels, blocks, refused, tested }
    }

    /// All functions together, then each function.
    fn subjects(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        std::iter::once(None).chain(self.tested.iter().copied().map(Some))
    }

    fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.subjects().map(|subject| Member {
            metric: SHARES,
            log_ratios: self.blocks.iter().map(|sides| difference(sides, subject)).collect(),
            against: None,
            refused: self.refused.clone(),
        })
    }

    /// - `judged`: takes as many as there are [`Self::members`].
    fn finished(self, names: &[String], judged: &mut impl Iterator<Item = Judged>) -> Functions {
        let mut results: Vec<FunctionDifference> = Vec::new();
        for (subject, judged) in self.subjects().zip(judged) {
            let name = subject.map_or(String::new(), |function| names[function].clone());
            results.push(self.result(subject, name, judged));
        }
        let whole = results.remove(0);
        results.sort_by(|x, y| {
            y.difference_ratio.abs().total_cmp(&x.difference_ratio.abs()).then_with(|| x.name.cmp(&y.name))
        });
        let sides = [0, 1].map(|side| self.facts(side));
        let of = self.blocks.first().map_or(UsedBy::Machine, |sides| sides[0].of);
        let [a, b, levels] = self.levels;
        let blocks = self.blocks.len();
        Functions {
            kind: self.kind,
            of,
            a,
            b,
            levels,
            blocks,
            whole,
            functions: results,
            sides,
            refused: self.refused,
        }
    }

    fn result(&self, subject: Option<usize>, name: String, judged: Judged) -> FunctionDifference {
        let n = self.blocks.len().max(1) as f64;
        let mean = |of: &dyn Fn(&[&Taken; 2]) -> f64| self.blocks.iter().map(of).sum::<f64>() / n;
        let middle = |sides: &[&Taken; 2]| {
            let (low, high) = difference(sides, subject);
            low.midpoint(high)
        };
        let count = |taken: &Taken| subject.map_or(taken.whole, |function| taken.time(function)).count;
        FunctionDifference {
            name,
            ns_per_event: [0, 1].map(|side| mean(&|sides| sides[side].ns_per_event(subject))),
            share: [0, 1].map(|side| {
                let of =
                    |sides: &[&Taken; 2]| sides[side].ns_per_event(subject) / sides[side].ns_per_event(None);
                Share::of(&self.blocks.iter().map(of).collect::<Vec<f64>>())
            }),
            samples: [0, 1].map(|side| self.blocks.iter().map(|sides| count(sides[side])).sum()),
            difference_ratio: mean(&middle),
            estimate: judged.estimate,
            verdict: judged.verdict,
        }
    }

    fn facts(&self, side: usize) -> SideFacts {
        let taken = || self.blocks.iter().map(move |sides| sides[side]);
        let whole_ns = taken().map(|taken| taken.whole.ns as f64).sum::<f64>().max(1.0);
        let share = |of: fn(&Taken) -> u64| taken().map(|taken| of(taken) as f64).sum::<f64>() / whole_ns;
        SideFacts {
            runs: taken().map(|taken| taken.run).collect(),
            events: taken().map(|taken| taken.events).sum(),
            samples: taken().map(|taken| taken.whole.count).sum(),
            lost: taken().map(|taken| taken.lost).sum(),
            summed_ratio: share(|taken| taken.summed_ns),
            unnamed_ratio: share(|taken| taken.unnamed_ns),
            without_callers_ratio: share(|taken| taken.without_callers_ns),
        }
    }
}

/// Functions that are large enough on both sides together, by number.
fn tested(kind: ProfileKind, blocks: &[[&Taken; 2]]) -> Vec<usize> {
    let mut sums: BTreeMap<usize, (f64, u64)> = BTreeMap::new();
    let mut whole_ns = 0.0;
    for taken in blocks.iter().flatten() {
        whole_ns += taken.ns_per_event(None);
        for (function, time) in &taken.functions {
            let (ns, count) = sums.entry(*function).or_default();
            *ns += time.ns as f64 / taken.events;
            *count += time.count;
        }
    }
    let samples_min = match kind {
        ProfileKind::OnCpu => SAMPLES_MIN * 2.0 * blocks.len() as f64,
        ProfileKind::OffCpu => 0.0,
    };
    let is_large =
        |(_, (ns, count)): &(usize, (f64, u64))| *ns >= SHARE_MIN * whole_ns && *count as f64 >= samples_min;
    sums.into_iter().filter(is_large).map(|(function, _)| function).collect()
}

/// Bounds of the difference in one block, as a share of the reference's time of an event.
fn difference([a, b]: &[&Taken; 2], function: Option<usize>) -> (f64, f64) {
    let (a, whole, b) = (a.bounds(function), b.bounds(None), b.bounds(function));
    let (low, high) = (a.0 - b.1, a.1 - b.0);
    (low / if low < 0.0 { whole.0 } else { whole.1 }, high / if high < 0.0 { whole.1 } else { whole.0 })
}

/// Comparisons of all profiles of a bake-off.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiled {
    /// Every configuration against the reference, in each condition and for each kind of profile.
    pub pairs: Vec<Functions>,
    /// Number of comparisons of functions that are judged together.
    pub family: usize,
    /// Profiles that are left out: their number, by reason.
    pub left_out: BTreeMap<String, usize>,
}

impl Profiled {
    /// The pairs with the largest differences, on-CPU first; of those with a clear difference, if there are
    /// any.
    pub fn most_different(&self) -> Vec<usize> {
        let rank = |i: &usize| {
            let pair = &self.pairs[*i];
            let largest = pair.functions.first().map_or(0.0, |f| f.difference_ratio.abs());
            (pair.kind == ProfileKind::OffCpu, pair.clear().next().is_none(), -largest)
        };
        let mut order: Vec<usize> = (0..self.pairs.len()).filter(|i| self.pairs[*i].blocks > 0).collect();
        order.sort_by(|x, y| {
            let (x, y) = (rank(x), rank(y));
            (x.0, x.1).cmp(&(y.0, y.1)).then(x.2.total_cmp(&y.2))
        });
        order
    }
}

/// One configuration against the reference under one condition, function by function.
#[derive(Debug, Clone, PartialEq)]
pub struct Functions {
    /// Kind of time.
    pub kind: ProfileKind,
    /// Processes that were profiled.
    pub of: UsedBy,
    /// Compared factors of the configuration.
    pub a: Levels,
    /// Compared factors of the reference.
    pub b: Levels,
    /// The condition.
    pub levels: Levels,
    /// Blocks with profiles of both sides.
    pub blocks: usize,
    /// All functions together.
    pub whole: FunctionDifference,
    /// Functions with at least [`SHARE_MIN`] of the time of an event; the largest difference first.
    pub functions: Vec<FunctionDifference>,
    /// Facts of the configuration's profiles, then of the reference's.
    pub sides: [SideFacts; 2],
    /// Reason why no function is claimed to differ.
    pub refused: Option<Missing>,
}

impl Functions {
    /// Functions with clearly more or clearly less time than the reference.
    pub fn clear(&self) -> impl Iterator<Item = &FunctionDifference> {
        self.functions.iter().filter(|f| f.is_clear())
    }

    fn withhold(&mut self) {
        for one in self.functions.iter_mut().chain([&mut self.whole]) {
            one.verdict = Verdict::Inconclusive;
        }
    }
}

/// One function in the profiles of both sides: the configuration first, then the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDifference {
    /// Name; empty for all functions together.
    pub name: String,
    /// CPU time, or time off the CPU, of an event in the function itself: the mean over the blocks.
    pub ns_per_event: [f64; 2],
    /// Share of the time of an event.
    pub share: [Share; 2],
    /// Samples, or waits, in all blocks.
    pub samples: [u64; 2],
    /// Mean over the blocks of the difference of the times, as a share of the reference's time of an event.
    pub difference_ratio: f64,
    /// The same with its intervals: each of its ratios is e to the difference.
    pub estimate: Maybe<Estimate>,
    /// *Better* is clearly less time, *worse* clearly more: beyond the region of practical equivalence.
    pub verdict: Verdict,
}

impl FunctionDifference {
    /// Whether it has clearly more or clearly less time.
    pub fn is_clear(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
}

/// Share of a function in the time of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Mean over the blocks.
    pub ratio: f64,
    /// Half width of its 95 % interval over the blocks; `None` with fewer than two.
    pub half: Option<f64>,
}

impl Share {
    fn of(shares: &[f64]) -> Self {
        let n = shares.len() as f64;
        let ratio = shares.iter().sum::<f64>() / n.max(1.0);
        let half = (shares.len() > 1).then(|| {
            let variance = shares.iter().map(|share| (share - ratio).powi(2)).sum::<f64>() / (n - 1.0);
            t_above(SHARE_TAILS / 2.0, n - 1.0) * (variance / n).sqrt()
        });
        Self { ratio, half }
    }
}

/// Profiles of one side of a comparison, together.
#[derive(Debug, Clone, PartialEq)]
pub struct SideFacts {
    /// Runs with the profiles.
    pub runs: Vec<RunId>,
    /// Events that the times are divided by.
    pub events: f64,
    /// Samples, or waits.
    pub samples: u64,
    /// Lost samples or switches, on all CPUs.
    pub lost: u64,
    /// Share of the time in stacks that are stored as one sum.
    pub summed_ratio: f64,
    /// Share of the time in code without symbols.
    pub unnamed_ratio: f64,
    /// Share of the time without callers.
    pub without_callers_ratio: f64,
}
