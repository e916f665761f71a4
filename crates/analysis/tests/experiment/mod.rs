//! Synthetic experiments.

use std::time::Duration;

use record::bakeoff::{Attempt, Bakeoff, Factor, Judge, Levels, Page, Trial, TrialState};
use record::clock::WallAnchor;
use record::cpu::CpuInterval;
use record::environment::Environment;
use record::run::{Run, RunHeader, RunId, RunKind};
use record::series::Sample;

const ANCHOR: WallAnchor = WallAnchor { monotonic_ns: 0, unix_ns: 1_795_254_723_250_000_000 };

fn header(kind: RunKind) -> RunHeader {
    RunHeader {
        id: RunId::new(ANCHOR, 1),
        tool_version: "0".into(),
        ..RunHeader::running(kind, ANCHOR, "a synthetic machine".into(), "bakeoff".into()).ended(None)
    }
}

/// Samples of a trial, and CPU use during it.
pub(crate) type Measured = (Vec<Sample>, Vec<CpuInterval>);

/// Every cell once in each round, from 1 on; each is sealed with the samples that `measure` yields for a
/// round.
pub(crate) fn experiment(
    kind: RunKind,
    factors: Vec<Factor>,
    rounds: u32,
    cells: &[Levels],
    mut measure: impl FnMut(u32, &Levels) -> Measured,
) -> Bakeoff {
    let (mut trials, mut attempts) = (Vec::new(), Vec::new());
    for block in 1..=rounds {
        for (levels, position) in cells.iter().zip(1..) {
            let index = u32::try_from(trials.len()).expect("a few");
            trials.push(Trial { index, block, series: block, position, levels: levels.clone() });
            let (series, cpu) = measure(block, levels);
            let run = Run { cpu, series, ..Run::unmeasured(header(kind), Environment::default()) };
            attempts.push(Attempt { trial: index, state: TrialState::Sealed, reason: None, run: Some(run) });
        }
    }
    Bakeoff {
        header: header(kind),
        question: String::new(),
        exploratory: false,
        factors,
        blocks: rounds,
        seed: 1,
        trials,
        attempts,
        judge: Judge {
            rope_ratio: 0.01,
            alpha: 0.05,
            family: String::new(),
            metrics: Vec::new(),
            gates: Vec::new(),
            sequential: false,
        },
        page: Page::default(),
        measure: Duration::from_secs(1),
        warmup: Duration::ZERO,
        environment: Environment::default(),
        plan_text: String::new(),
        plan_sha256: String::new(),
    }
}
