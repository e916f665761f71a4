//! Where the noise comes from, in words: for a terminal and for the page.

use analysis::noise::{Design, Goal, Noise, OfIo, Subject};
use analysis::power::POWER;
use record::missing::Maybe;

use crate::number::{long_span, percent, significant, span};

/// Factors by which phases are made shorter or longer.
const LENGTHS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];

/// Lines of a table: a part, its share of the variance, and its cause.
pub(crate) fn parts(noise: &Noise) -> Vec<[String; 3]> {
    let share =
        |variance: f64| if noise.variance > 0.0 { percent(variance / noise.variance) } else { "0 %".into() };
    let mut lines = Vec::new();
    match &noise.between_series {
        Ok(series) => {
            lines.push([
                "between series".into(),
                share(*series),
                "each has a fresh server and data set".into(),
            ]);
            lines.push([
                "between trials".into(),
                share(noise.between_trials),
                "within one series: differences from moment to moment".into(),
            ]);
        }
        Err(_) => lines.push([
            "between series".into(),
            share(noise.between_trials),
            "each has a fresh server and data set, at another moment".into(),
        ]),
    }
    lines.push([
        "within trials".into(),
        share(noise.within),
        "chance, which longer phases average out".into(),
    ]);
    let of_within = |name: &str, ratio: &Maybe<f64>| {
        ratio.as_ref().map_or_else(
            |why| [format!("- {name}"), "unknown".into(), why.reason.clone()],
            |ratio| [format!("- {name}"), percent(*ratio), "of the variation within trials".into()],
        )
    };
    lines.push(of_within("stolen time", &noise.steal_ratio));
    lines.push(of_within("placement", &noise.placement_ratio));
    lines.push(match &noise.io {
        Ok(io) => ["- I/O".into(), percent(io.ratio), format!("of it; {}", io_evidence(io))],
        Err(why) => ["- I/O".into(), "unknown".into(), why.reason.clone()],
    });
    lines
}

/// `correlation -0.62, time per block request`.
fn io_evidence(io: &OfIo) -> String {
    format!("correlation {:+.2}, {}", io.correlation, io.by.word())
}

/// Sources of the noise: name, share of all of it, and evidence.
pub(crate) fn sources(noise: &Noise) -> Vec<(&'static str, Maybe<f64>, String)> {
    let share = |variance: f64| if noise.variance > 0.0 { variance / noise.variance } else { 0.0 };
    let within = share(noise.within);
    let of_trials = || format!("variance of {} trials about their cells and blocks", noise.trials);
    let by = |ratio: &Maybe<f64>| ratio.clone().map(|ratio| ratio * within);
    vec![
        ("series", noise.between_series.clone().map(share), of_trials()),
        ("trials", Ok(share(noise.between_trials)), of_trials()),
        ("within-trials", Ok(within), "variance between the intervals of a trial".to_owned()),
        ("stolen-time", by(&noise.steal_ratio), "regression of intervals on stolen time".to_owned()),
        (
            "placement",
            by(&noise.placement_ratio),
            "regression of intervals on uneven use of the CPUs".to_owned(),
        ),
        (
            "io",
            by(&noise.io.clone().map(|io| io.ratio)),
            noise.io.as_ref().map(io_evidence).unwrap_or_default(),
        ),
    ]
}

/// `throughput of one trial of 4 s varies by 5.1 % (standard deviation, 12 trials)`.
pub(crate) fn head(noise: &Noise) -> String {
    let of = subject(noise);
    format!(
        "{of} of one trial of {} varies by {} (standard deviation, {} trials)",
        span(noise.trial_s),
        percent(noise.variance.sqrt().exp_m1()),
        noise.trials
    )
}

fn subject(noise: &Noise) -> &'static str {
    match noise.of {
        Subject::Throughput => "throughput",
        Subject::Latency => "the mean latency",
    }
}

/// Designs that find a difference, of phases of several lengths.
pub(crate) fn designs(noise: &Noise, goal: &Goal) -> Vec<Design> {
    LENGTHS.iter().filter_map(|factor| noise.design(noise.trial_s * factor, goal)).collect()
}

/// `10 blocks with phases of 8 s (a single interval: +-0.9 %)`.
pub(crate) fn design(design: &Design) -> String {
    format!(
        "{} blocks with phases of {} (a single interval: +-{} %)",
        design.blocks,
        span(design.trial_s),
        significant(design.half_width * 100.0)
    )
}

/// `a difference of 1 % beyond the ROPE with a power of 80 %, as one of 3 comparisons that share alpha =
/// 0.05`.
pub(crate) fn aim(goal: &Goal) -> String {
    let comparisons = goal.comparisons.max(1);
    let family = if comparisons == 1 {
        format!("as the only comparison, with alpha = {}", goal.alpha)
    } else {
        format!("as one of {comparisons} comparisons that share alpha = {}", goal.alpha)
    };
    format!(
        "a difference of {} beyond the ROPE with a power of {:.0} %, {family}",
        percent(goal.beyond),
        POWER * 100.0
    )
}

/// Limits of all designs.
pub(crate) fn not_counted(noise: &Noise) -> String {
    let of = subject(noise);
    format!(
        "not counted: metrics other than {of} (a p99 usually varies more), noise that only some configurations \
         have, and trials that are lost"
    )
}

/// A plan, as far as its noise decides what it finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Number of blocks.
    pub blocks: u32,
    /// Length of a measured phase.
    pub trial_s: f64,
    /// Difference to find, and the family.
    pub goal: Goal,
}

/// Cost of a design: what a pilot measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Setup, start, prepare, warm-ups and stop of one series. Judged warm-ups count at their least length.
    pub of_series_s: f64,
    /// Configurations in a block.
    pub configurations: u32,
    /// Trials of a block: all configurations together, which may have different numbers of cells.
    pub trials: u32,
    /// Longest judged warm-up of a trial less the least one; 0 if warm-ups are not judged.
    pub warm_up_more_s: f64,
}

impl Cost {
    /// Least duration of a bake-off of this design.
    pub fn of(&self, design: &Design) -> f64 {
        let series_s = f64::from(self.configurations) * self.of_series_s;
        f64::from(design.blocks) * (series_s + f64::from(self.trials) * design.trial_s)
    }

    /// Duration if every judged warm-up is as long as the plan allows.
    pub fn at_most(&self, design: &Design) -> f64 {
        self.of(design) + f64::from(design.blocks) * f64::from(self.trials) * self.warm_up_more_s
    }

    pub(crate) fn told(&self, design: &Design) -> String {
        let least = long_span(self.of(design));
        if self.warm_up_more_s > 0.0 {
            format!("{least}, up to {} with the longest warm-ups", long_span(self.at_most(design)))
        } else {
            least
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judged_warm_up_counts_at_its_least_and_at_its_longest() {
        let design = Design { trial_s: 60.0, blocks: 10, half_width: 0.01 };
        let cost = Cost { of_series_s: 100.0, configurations: 2, trials: 6, warm_up_more_s: 0.0 };
        // 10 blocks of 2 series of 100 s and 6 trials of 60 s.
        assert!((cost.of(&design) - 5_600.0).abs() < 1e-9);
        assert!(!cost.told(&design).contains("up to"), "{}", cost.told(&design));
        let judged = Cost { warm_up_more_s: 600.0, ..cost };
        assert!((judged.at_most(&design) - 41_600.0).abs() < 1e-9);
        assert!(judged.told(&design).contains(", up to "), "{}", judged.told(&design));
    }

    #[test]
    fn a_goal_names_its_family_and_its_power() {
        let goal = Goal { beyond: 0.01, comparisons: 3, alpha: 0.05 };
        let family = "with a power of 80 %, as one of 3 comparisons that share alpha = 0.05";
        assert_eq!(aim(&goal), format!("a difference of {} beyond the ROPE {family}", percent(0.01)));
        assert!(aim(&Goal { comparisons: 0, ..goal }).contains("as the only comparison"));
    }
}
