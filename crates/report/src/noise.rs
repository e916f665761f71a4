//! Where the noise comes from, in words: for a terminal and for the page.

use analysis::noise::{Design, Noise, OfIo, Subject};
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
    let of = match noise.of {
        Subject::Throughput => "throughput",
        Subject::Latency => "the mean latency",
    };
    format!(
        "{of} of one trial of {} varies by {} (standard deviation, {} trials)",
        span(noise.trial_s),
        percent(noise.variance.sqrt().exp_m1()),
        noise.trials
    )
}

/// Designs with an interval as narrow as `half_width`, of phases of several lengths.
pub(crate) fn designs(noise: &Noise, half_width: f64, alpha: f64) -> Vec<Design> {
    LENGTHS.iter().filter_map(|factor| noise.design(noise.trial_s * factor, half_width, alpha)).collect()
}

/// A sentence on each: `10 blocks of 8 s`.
pub(crate) fn design(design: &Design) -> String {
    format!(
        "{} blocks with phases of {}: +-{} %",
        design.blocks,
        span(design.trial_s),
        significant(design.half_width * 100.0)
    )
}

/// Cost of a design: what a pilot measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Setup, start, prepare, warm-ups and stop of one series.
    pub of_series_s: f64,
    /// Configurations in a block.
    pub configurations: u32,
    /// Trials of a block: all configurations together, which may have different numbers of cells.
    pub trials: u32,
}

impl Cost {
    /// Duration of a bake-off of this design.
    pub fn of(&self, design: &Design) -> f64 {
        let series_s = f64::from(self.configurations) * self.of_series_s;
        f64::from(design.blocks) * (series_s + f64::from(self.trials) * design.trial_s)
    }

    pub(crate) fn told(&self, design: &Design) -> String {
        long_span(self.of(design))
    }
}
