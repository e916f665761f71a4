//! Pairs of cells that a bake-off compares, before judgement.

use record::bakeoff::{Bakeoff, Factor, Levels, Metric};
use record::missing::{Maybe, Missing};
use record::run::RunState;

use crate::cell::{Cell, InBlock, REDONE_MORE_MAX, combinations};
use crate::judge::{Judged, Member, Rules, judge};
use crate::metric::Value;
use crate::slope::Slopes;

/// A comparison that the plan asks for and that no run can answer.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Compared factors of the configuration.
    pub a: Levels,
    /// The condition.
    pub levels: Levels,
    /// The metric.
    pub metric: Metric,
    /// Reason that the comparison is left out.
    pub why: Missing,
}

/// Whether every trial has ended. The verdict waits for that: a bake-off that stops at a pleasing
/// result finds false differences.
pub(crate) fn is_over(state: RunState) -> bool {
    matches!(state, RunState::Sealed | RunState::Invalid | RunState::Failed)
}

/// The comparisons in these fields: those that can be judged, and the others.
pub(crate) fn contests<'a>(
    fields: impl Iterator<Item = Field<'a>>,
    reference: &Levels,
) -> (Vec<Contest>, Vec<LeftOut>) {
    let (mut contests, mut left_out) = (Vec::new(), Vec::new());
    for contest in fields.flat_map(|field| field.contests(reference)) {
        match contest {
            Ok(contest) => contests.push(contest),
            Err(out) => left_out.push(out),
        }
    }
    (contests, left_out)
}

/// Judges these comparisons as one family.
pub(crate) fn judged(contests: Vec<Contest>, rules: Rules) -> Vec<(Contest, Judged)> {
    let members: Vec<Member> = contests.iter().map(Contest::member).collect();
    let judged = judge(&members, rules);
    contests.into_iter().zip(judged).collect()
}

/// The cells of one metric, with the conditions and configurations to compare.
pub(crate) struct Field<'a> {
    pub(crate) metric: Metric,
    pub(crate) cells: Vec<&'a Cell>,
    pub(crate) conditions: Vec<Levels>,
    pub(crate) compared: Vec<Levels>,
    /// Whether the values are slopes over the rates.
    pub(crate) is_slopes: bool,
}

impl<'a> Field<'a> {
    pub(crate) fn of(
        metric: Metric,
        cells: &'a [Cell],
        slopes: Option<&'a Slopes>,
        bakeoff: &Bakeoff,
        (conditions, compared): (&[&Factor], &[&Factor]),
    ) -> Self {
        let slopes = slopes.filter(|_| metric == Metric::CpuPerEvent);
        let conditions: Vec<&Factor> = conditions
            .iter()
            .copied()
            .filter(|f| slopes.is_none_or(|slopes| f.name != slopes.rate_factor()))
            .collect();
        let cells = match slopes {
            Some(slopes) => slopes.cells().iter().collect(),
            None => cells.iter().filter(|c| c.metric == metric).collect(),
        };
        let (conditions, compared) = (combinations(bakeoff, &conditions), combinations(bakeoff, compared));
        Self { metric, cells, conditions, compared, is_slopes: slopes.is_some() }
    }

    /// The cell of a side in a condition; `None` if the design has none. A cell with further factors, which
    /// exist below this side only, is another one.
    pub(crate) fn cell(&self, side: &Levels, condition: &Levels) -> Option<&'a Cell> {
        let is_it = |c: &&&Cell| {
            c.levels.len() == side.len() + condition.len()
                && side.iter().chain(condition).all(|(k, v)| c.levels.get(k) == Some(v))
        };
        self.cells.iter().find(is_it).copied()
    }

    /// Trials of each of two sides that failed or were abandoned before one was sealed, over the conditions
    /// that both have: with more conditions, one side would have more failures. Summed, because a rare
    /// failure may be seldom in each condition; abandoned ones count, because a crash of the machine leaves
    /// no failure.
    ///
    /// - `until`: the last block that counts.
    fn redone(&self, a: &Levels, b: &Levels, until: u32) -> (usize, usize) {
        let of = |cell: &Cell| cell.redone.union(&cell.abandoned).filter(|block| **block <= until).count();
        self.both(a, b).fold((0, 0), |sum, (a, b)| (sum.0 + of(a), sum.1 + of(b)))
    }

    /// The cells of two sides, for each condition that both have.
    fn both(&self, a: &Levels, b: &Levels) -> impl Iterator<Item = (&'a Cell, &'a Cell)> {
        self.conditions.iter().filter_map(|c| self.cell(a, c).zip(self.cell(b, c)))
    }

    /// Whether the blocks up to this one, in which both sides lost no trial, have no more repeated trials of
    /// one side than a verdict allows.
    pub(crate) fn is_even(&self, a: &Levels, reference: &Levels, until: u32) -> bool {
        let total = self.redone(a, reference, until);
        let redone = |cell: &Cell| cell.redone.range(..=until).count();
        self.both(a, reference).all(|(a, b)| unevenly_redone((redone(a), redone(b)), total).is_none())
    }

    pub(crate) fn contests(&self, reference: &Levels) -> Vec<Result<Contest, LeftOut>> {
        let mut contests = Vec::new();
        for condition in &self.conditions {
            for a in self.compared.iter().filter(|a| *a != reference) {
                let sides = self.cell(a, condition).zip(self.cell(reference, condition));
                let Some((one, other)) = sides else { continue };
                let redone = self.redone(a, reference, u32::MAX);
                contests.push(match one.unable().or(other.unable()) {
                    None => Ok(Contest::of(one, other, a.clone(), condition.clone(), redone)),
                    Some(why) => Err(LeftOut {
                        a: a.clone(),
                        levels: condition.clone(),
                        metric: self.metric,
                        why: why.clone(),
                    }),
                });
            }
        }
        contests
    }
}

/// A pair before judgement.
#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) a: Levels,
    pub(crate) levels: Levels,
    pub(crate) metric: Metric,
    pub(crate) blocks: Vec<(u32, Value, Value)>,
    pub(crate) uneven: Option<Missing>,
    /// The block after which the configuration was dropped.
    pub(crate) dropped: Option<u32>,
}

/// Below this p of the sign test, the trials of one side fail more often, whatever the condition.
const REDONE_P_MIN: f64 = 0.05;

/// Two-sided p of the binomial test: each of `a + b` failures hits side A with this chance. The sum over all
/// outcomes that are at most as likely.
///
/// - `chance`: in (0, 1); of sides with equally many trials a half.
fn p_of_shares(a: usize, b: usize, chance: f64) -> f64 {
    let n = a + b;
    let (ln_a, ln_b) = (chance.ln(), (-chance).ln_1p());
    let mut ln_ways = 0.0_f64;
    let mut all = Vec::with_capacity(n + 1);
    for i in 0..=n {
        all.push((ln_ways + i as f64 * ln_a + (n - i) as f64 * ln_b).exp());
        ln_ways += ((n - i) as f64 / (i + 1) as f64).ln();
    }
    // Equal ones differ by rounding.
    let most = all[a] * (1.0 + 1e-9);
    all.into_iter().filter(|p| *p <= most).sum::<f64>().min(1.0)
}

/// Whether the trials of one of two sides failed more often than chance explains.
///
/// - `failed`, `trials`: of A and of B.
pub(crate) fn fail_unevenly(failed: (usize, usize), trials: (usize, usize)) -> bool {
    let chance = trials.0 as f64 / (trials.0 + trials.1) as f64;
    trials.0 > 0 && trials.1 > 0 && p_of_shares(failed.0, failed.1, chance) <= REDONE_P_MIN
}

/// Reason to refuse a verdict because the trials of one side were repeated more often.
///
/// - `here`, `total`: repeated trials of either side in the condition, and those over all conditions, with
///   the abandoned ones.
pub(crate) fn unevenly_redone(here: (usize, usize), total: (usize, usize)) -> Option<Missing> {
    if here.0.abs_diff(here.1) > REDONE_MORE_MAX {
        return Some(Missing::because(format!(
            "unevenly repeated trials: in {} the configuration's failed first, in {} the reference's; \
             the values may be biased",
            blocks_word(here.0),
            blocks_word(here.1)
        )));
    }
    (p_of_shares(total.0, total.1, 0.5) <= REDONE_P_MIN).then(|| {
        Missing::because(format!(
            "unevenly repeated trials, over all conditions: {} of the configuration failed or were \
             abandoned first, {} of the reference",
            total.0, total.1
        ))
    })
}

impl Contest {
    /// - `redone`: trials of either side, over all conditions, that failed or were abandoned before one was
    ///   sealed.
    fn of(a: &Cell, b: &Cell, side: Levels, levels: Levels, redone: (usize, usize)) -> Self {
        let mut blocks = Vec::new();
        let (mut lost_by_a, mut lost_by_b) = (0, 0);
        let mut named = None;
        for block in a.blocks().union(&b.blocks()) {
            match (a.in_block(*block), b.in_block(*block)) {
                (InBlock::Known(a), InBlock::Known(b)) => blocks.push((*block, a.clone(), b.clone())),
                (InBlock::FellOut, InBlock::Known(_)) => {
                    lost_by_a += 1;
                    named = named.or_else(|| Some((*block, a.unjudged_in(*block)?)));
                }
                (InBlock::Known(_), InBlock::FellOut) => {
                    lost_by_b += 1;
                    named = named.or_else(|| Some((*block, b.unjudged_in(*block)?)));
                }
                _ => {}
            }
        }
        let uneven = if lost_by_a + lost_by_b > 0 {
            Some(Missing::because(format!(
                "unevenly lost trials: in {} only the configuration's, in {} only the reference's{}; the \
                 remaining blocks may be biased",
                blocks_word(lost_by_a),
                blocks_word(lost_by_b),
                named.map_or_else(String::new, |(block, why)| format!(" (block {block}: {})", why.reason))
            )))
        } else {
            unevenly_redone((a.redone.len(), b.redone.len()), redone)
        };
        Self { a: side, levels, metric: a.metric, blocks, uneven, dropped: None }
    }

    /// Lower and upper bound of each block's log ratio.
    pub(crate) fn log_ratios(&self) -> Vec<(f64, f64)> {
        self.blocks.iter().map(|(_, a, b)| ((a.low / b.high).ln(), (a.high / b.low).ln())).collect()
    }

    fn member(&self) -> Member {
        Member {
            metric: self.metric,
            log_ratios: self.log_ratios(),
            against: None,
            refused: self.uneven.clone().or_else(|| self.dropped.map(after)),
        }
    }

    /// Drops the configuration after a block: later blocks do not count. Those before are even.
    pub(crate) fn drop_after(&mut self, block: u32) {
        self.blocks.retain(|(number, ..)| *number <= block);
        (self.dropped, self.uneven) = (Some(block), None);
    }

    pub(crate) fn means(&self) -> Maybe<(f64, f64)> {
        if self.blocks.is_empty() {
            return Err(Missing::because("no block has both sides"));
        }
        let mean = |of: &dyn Fn(&(u32, Value, Value)) -> f64| {
            (self.blocks.iter().map(|b| of(b).ln()).sum::<f64>() / self.blocks.len() as f64).exp()
        };
        Ok((mean(&|(_, a, _)| a.middle().unwrap_or(a.low)), mean(&|(_, _, b)| b.middle().unwrap_or(b.low))))
    }
}

/// Reason that a dropped configuration has no result at the end.
pub(crate) fn after(block: u32) -> Missing {
    Missing::because(format!("the configuration was dropped after block {block}: it is beaten"))
}

fn blocks_word(n: usize) -> String {
    if n == 1 { "1 block".to_owned() } else { format!("{n} blocks") }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Computed by hand: 2 of the 2^6 outcomes, and (1/3)^3.
    #[test]
    fn failures_are_shared_as_the_trials_are() {
        assert!((p_of_shares(6, 0, 0.5) - 0.031_25).abs() < 1e-12);
        assert!((p_of_shares(0, 6, 0.5) - 0.031_25).abs() < 1e-12);
        assert!((p_of_shares(3, 3, 0.5) - 1.0).abs() < 1e-12 && (p_of_shares(0, 0, 0.5) - 1.0).abs() < 1e-12);
        assert!((p_of_shares(3, 0, 1.0 / 3.0) - 1.0 / 27.0).abs() < 1e-12);
        assert!(fail_unevenly((0, 6), (36, 36)) && !fail_unevenly((2, 6), (36, 36)));
        // Three times the trials have three times the failures.
        assert!(!fail_unevenly((2, 8), (36, 108)) && !fail_unevenly((0, 6), (0, 36)));
    }
}
