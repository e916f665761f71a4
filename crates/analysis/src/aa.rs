//! Rate of false verdicts of the rule that judges, among configurations that are equal.

use statrs::function::beta::beta_reg;

use record::bakeoff::Metric;

use crate::chance::SplitMix;
use crate::judge::{Member, Rules, Verdict, judge};

/// False verdicts among families without a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FalseVerdicts {
    /// Number of families judged.
    pub families: u32,
    /// Number of families with at least one verdict *better* or *worse*.
    pub wrong: u32,
    /// 95 % interval of the rate (Clopper and Pearson).
    pub interval: (f64, f64),
    /// Promised rate.
    pub limit: f64,
}

impl FalseVerdicts {
    /// Counts `wrong` of `families`; `families` is at least 1.
    pub fn new(families: u32, wrong: u32, limit: f64) -> Self {
        Self { families, wrong, interval: binomial_interval(wrong, families, 0.95), limit }
    }

    /// Observed rate.
    pub fn rate(&self) -> f64 {
        f64::from(self.wrong) / f64::from(self.families)
    }

    /// Whether the rate is above the limit for certain: the whole interval is.
    pub fn is_broken(&self) -> bool {
        self.interval.0 > self.limit
    }
}

/// Judges families of equal configurations: 6 to 10 blocks, one to six configurations against a reference,
/// noise of 0.5 to 20 % that is normal or has a heavy tail, and a machine that drifts between blocks.
///
/// - `families`: at least 1.
pub fn simulate(families: u32, rules: Rules) -> FalseVerdicts {
    let mut chance = SplitMix(rules.seed);
    let is_wrong = |_: &u32| {
        let family = family(&mut chance);
        judge(&family, rules).iter().any(|j| matches!(j.verdict, Verdict::Better | Verdict::Worse))
    };
    let wrong = (0..families).filter(is_wrong).count();
    FalseVerdicts::new(families, u32::try_from(wrong).unwrap_or(u32::MAX), rules.alpha)
}

fn family(chance: &mut SplitMix) -> Vec<Member> {
    let (blocks, others) = (6 + chance.next() % 5, 1 + chance.next() % 6);
    let uniform = (chance.next() >> 11) as f64 / (1_u64 << 53) as f64;
    let sd = 0.005 * 40.0_f64.powf(uniform);
    let heavy = chance.next().is_multiple_of(2);
    let value = |drift: f64, chance: &mut SplitMix| {
        let noise = chance.normal();
        let tail = if heavy && chance.next().is_multiple_of(8) { 4.0 } else { 1.0 };
        drift + sd * noise * tail
    };
    let mut log_ratios = vec![Vec::new(); usize::try_from(others).unwrap_or(1)];
    let mut drift = 0.0;
    for _ in 0..blocks {
        drift += sd * chance.normal();
        let reference = value(drift, chance);
        for of_pair in &mut log_ratios {
            of_pair.push(value(drift, chance) - reference);
        }
    }
    log_ratios.iter().map(|d| Member::exact(Metric::Throughput, d)).collect()
}

/// Interval of a rate by Clopper and Pearson, *Biometrika* 26 (1934), 404-413.
fn binomial_interval(wrong: u32, of: u32, confidence: f64) -> (f64, f64) {
    assert!(of > 0 && wrong <= of, "{wrong} of {of} is no rate");
    let tail = (1.0 - confidence) / 2.0;
    let (k, n) = (f64::from(wrong), f64::from(of));
    let solved = |share: f64, at: &dyn Fn(f64) -> f64| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if at(middle) < share { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    };
    let low = if wrong == 0 { 0.0 } else { solved(tail, &|p| beta_reg(k, n - k + 1.0, p)) };
    let high = if wrong == of { 1.0 } else { solved(1.0 - tail, &|p| beta_reg(k + 1.0, n - k, p)) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_configurations_rarely_get_a_verdict() {
        let found = simulate(1_000, Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1 });
        assert_eq!(found.families, 1_000);
        assert!(found.wrong > 0 && found.wrong <= 64 && !found.is_broken(), "{found:?}");
        assert!(FalseVerdicts::new(100, 30, 0.05).is_broken());
    }

    #[test]
    fn intervals_are_those_of_statsmodels() {
        // statsmodels 0.15: proportion_confint(k, n, 0.05, method="beta")
        for (wrong, of, low, high) in KNOWN {
            let found = binomial_interval(wrong, of, 0.95);
            assert!(
                (found.0 - low).abs() < 1e-9 && (found.1 - high).abs() < 1e-9,
                "{wrong} of {of}: {found:?}"
            );
        }
    }

    const KNOWN: [(u32, u32, f64, f64); 4] = [
        (0, 40, 0.0, 0.088_097_302_878_802_4),
        (3, 100, 0.006_229_971_538_306_395, 0.085_176_052_974_280_03),
        (40, 40, 0.911_902_697_121_197_6, 1.0),
        (52, 1_000, 0.039_076_534_943_980_49, 0.067_635_014_050_507_3),
    ];
}
