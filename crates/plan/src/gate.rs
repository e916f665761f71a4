//! Gates: conditions for exit code 0.

use record::bakeoff::Metric;

/// A condition for a good end.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// What is judged.
    pub metric: Metric,
    /// What must hold.
    pub rule: GateRule,
    /// What an inconclusive comparison does to it.
    pub on_inconclusive: OnInconclusive,
}

/// What a gate asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GateRule {
    /// Every configuration is at most this share worse than the reference.
    NotWorseBy {
        /// The share, in (0, 1).
        ratio: f64,
    },
}

/// What an inconclusive comparison does to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInconclusive {
    /// The gate is missed.
    Fail,
    /// The gate holds.
    Pass,
}

impl OnInconclusive {
    /// Reads `fail`, `pass`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "fail" => Some(Self::Fail),
            "pass" => Some(Self::Pass),
            _ => None,
        }
    }
}

impl GateRule {
    /// Reads `not worse than reference by 5%`.
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
