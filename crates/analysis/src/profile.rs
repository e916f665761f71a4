//! Comparison of two profiles, function by function.

use std::collections::{BTreeSet, HashMap};

use record::missing::{Maybe, Missing};
use record::profile::{FunctionTime, Profile, ProfileKind};

/// Half width of a 95 % interval in standard errors.
const SIDES_95: f64 = 1.959_964;

/// One function in two profiles; shares are of the time of all stacks of each.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionChange {
    /// Name of the function.
    pub name: String,
    /// Share in which the function was innermost, in each profile.
    pub self_ratio: [f64; 2],
    /// Share in which the function was on the stack, in each profile.
    pub total_ratio: [f64; 2],
    /// Half width of a 95 % interval of the difference of `self_ratio`, by the sampling error alone. Missing
    /// off-CPU: times are measured there, and two profiles do not show their variation from run to run.
    pub margin_ratio: Maybe<f64>,
}

impl FunctionChange {
    /// The second share minus the first.
    pub fn difference(&self) -> f64 {
        self.self_ratio[1] - self.self_ratio[0]
    }

    /// Whether the sampling error alone could explain the difference.
    ///
    /// # Errors
    ///
    /// [`Self::margin_ratio`] is missing.
    pub fn is_within_margin(&self) -> Maybe<bool> {
        self.margin_ratio.as_ref().map(|margin| self.difference().abs() <= *margin).map_err(Clone::clone)
    }
}

/// Every function of either profile, the largest differences first.
///
/// # Panics
///
/// If one profile is on-CPU and the other off-CPU.
pub fn function_changes(before: &Profile, after: &Profile) -> Vec<FunctionChange> {
    assert_eq!(before.kind, after.kind, "on-CPU and off-CPU time have nothing in common");
    let times = [before, after].map(by_name);
    let names: BTreeSet<&String> = times.iter().flat_map(HashMap::keys).collect();
    let totals = [before, after].map(|p| p.total_ns().max(1) as f64);
    let counts = [before, after].map(|p| p.count().max(1) as f64);
    let ratio = |name: &String, ns: fn(&FunctionTime) -> u64| -> [f64; 2] {
        std::array::from_fn(|i| times[i].get(name).map_or(0.0, |time| ns(time) as f64 / totals[i]))
    };
    let change = |name: &String| {
        let self_ratio = ratio(name, |time| time.self_ns);
        let margin_ratio = match before.kind {
            ProfileKind::OnCpu => Ok(margin(self_ratio, counts)),
            ProfileKind::OffCpu => Err(Missing::because("times off the CPU are measured, not sampled")),
        };
        FunctionChange {
            name: name.clone(),
            self_ratio,
            total_ratio: ratio(name, |t| t.total_ns),
            margin_ratio,
        }
    };
    let mut changes: Vec<FunctionChange> = names.into_iter().map(change).collect();
    changes.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    changes
}

fn by_name(profile: &Profile) -> HashMap<String, FunctionTime> {
    profile.functions().into_iter().map(|time| (time.name.clone(), time)).collect()
}

/// Half width of the interval of the difference of two independent shares. One extra sample of either kind
/// keeps the error above 0 (Agresti and Caffo, 2000).
fn margin(ratios: [f64; 2], counts: [f64; 2]) -> f64 {
    let variance = |i: usize| {
        let n = counts[i] + 2.0;
        let p = (ratios[i] * counts[i] + 1.0) / n;
        p * (1.0 - p) / n
    };
    SIDES_95 * (variance(0) + variance(1)).sqrt()
}

#[cfg(test)]
mod tests {
    use record::profile::{ProfileDoubts, ProfileFilter, ProfileStack, ThreadState};

    use super::*;

    fn profile(functions: &[(&str, u64)]) -> Profile {
        let stack = |(name, count): &(&str, u64)| ProfileStack {
            comm: "app".to_owned(),
            state: ThreadState::Running,
            frames: vec!["main".to_owned(), (*name).to_owned()],
            count: *count,
            ns: count * 1_000_000,
        };
        Profile {
            kind: ProfileKind::OnCpu,
            only: Ok(ProfileFilter::default()),
            elapsed_ns: 1,
            cpus: 1,
            period_ns: Ok(1_000_000),
            idle_samples: Ok(0),
            stacks: functions.iter().map(stack).collect(),
            still_off: 0,
            doubts: ProfileDoubts::default(),
            notes: Vec::new(),
            lost: [].into(),
            cost: Err(Missing::because("not measured")),
        }
    }

    #[test]
    fn what_grew_in_share_comes_first_whatever_the_lengths_of_the_profiles() {
        let before = profile(&[("parse", 500), ("sort", 500)]);
        let after = profile(&[("parse", 7_000), ("sort", 2_000), ("hash", 1_000)]);
        let changes = function_changes(&before, &after);
        let found: Vec<(&str, f64)> = changes.iter().map(|c| (c.name.as_str(), c.difference())).collect();
        assert_eq!(found[0].0, "sort");
        assert!((found[0].1 + 0.3).abs() < 1e-9 && (found[1].1 - 0.2).abs() < 1e-9, "{found:?}");
        assert_eq!(changes[0].is_within_margin(), Ok(false));
        let main = changes.iter().find(|c| c.name == "main").unwrap();
        assert!((main.total_ratio[0] - 1.0).abs() < 1e-9 && main.self_ratio[0] == 0.0);
        // 0.5 of 1,000 against 0.2 of 10,000: 1.96 * sqrt(0.25 / 1000 + 0.16 / 10000).
        let margin = changes[0].margin_ratio.clone().unwrap();
        assert!((margin - 0.032).abs() < 0.000_5, "{margin}");
    }

    #[test]
    fn a_handful_of_samples_tells_nothing_apart() {
        let changes = function_changes(&profile(&[("a", 2), ("b", 1)]), &profile(&[("a", 1), ("b", 2)]));
        assert!(changes.iter().all(|c| c.is_within_margin() == Ok(true)), "{changes:?}");
        let nothing = function_changes(&profile(&[]), &profile(&[]));
        assert_eq!(nothing, []);
    }
}
