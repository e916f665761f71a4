//! Gates: conditions for exit code 0.

use record::bakeoff::Metric;

/// Condition for exit code 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Judged metric.
    pub metric: Metric,
    /// Condition.
    pub rule: GateRule,
    /// Effect of an inconclusive comparison.
    pub on_inconclusive: OnInconclusive,
}

/// Condition of a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GateRule {
    /// Every configuration is worse than the reference by at most this share.
    NotWorseBy {
        /// Share, in (0, 1).
        ratio: f64,
    },
}

/// Effect of an inconclusive comparison on a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInconclusive {
    /// The gate is missed.
    Fail,
    /// The gate holds.
    Pass,
}

impl OnInconclusive {
    /// Parses `fail`, `pass`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "fail" => Some(Self::Fail),
            "pass" => Some(Self::Pass),
            _ => None,
        }
    }
}

impl GateRule {
    /// Parses `not worse than reference by 5%`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let share = text.strip_prefix("not worse than reference by ")?;
        let ratio = record::quantity::ratio(share).ok().filter(|r| 0.0 < *r && *r < 1.0)?;
        Some(Self::NotWorseBy { ratio })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_sentence_with_a_percentage() {
        assert_eq!(
            GateRule::read("not worse than reference by 5%"),
            Some(GateRule::NotWorseBy { ratio: 0.05 })
        );
        assert_eq!(GateRule::read("better by 5%"), None);
    }
}
