//! Statistics on values in memory. Pure: no files, clocks, threads or randomness that is not passed in.
//!
//! [`compare`] computes the verdicts of a bake-off; [`commands`] and [`sides`] compute those of `bakeoff
//! compare`, for programs and for archived runs. All share the rule in `judge`, with two tests: `sign_flip`
//! for blocks and `permutation` for independent samples. `docs/statistics.md` explains the method. The unit
//! of replication is the block: differences between configurations are judged over blocks, in each of which
//! every configuration had a fresh server, never over seconds or requests of one run.

pub mod aa;
mod bakeoff;
mod bootstrap;
mod cell;
mod chance;
pub mod change_point;
pub mod commands;
pub mod concurrency;
mod contest;
pub mod cycles;
mod fallen_out;
pub mod families;
pub mod functions;
mod gate;
pub mod growth;
pub mod history;
mod holm;
pub mod intervals;
mod judge;
pub mod knee;
mod machine;
mod mean;
pub mod memory_trends;
mod metric;
pub mod noise;
pub mod observing;
mod over_time;
mod paired;
pub mod period;
mod permutation;
pub mod placement;
pub mod power;
pub mod profile;
pub mod resources;
mod robust;
pub mod scale;
pub mod sequential;
mod series;
pub mod sides;
mod sign_flip;
#[cfg(test)]
mod simulated;
mod slope;
mod spectrum;
pub mod stack_sums;
pub mod steady;
mod student;
pub mod sweep;
pub mod trend;
pub mod usl;
mod value;

pub use bakeoff::{Comparisons, Pair, compare};
pub use cell::{BlockValue, Cell, CellSummary};
pub use contest::LeftOut;
pub use fallen_out::FallenOut;
pub use gate::{GateComparison, GateOutcome, GateResult, Replicate, limit as limit_of_gate};
pub use holm::holm;
pub use judge::{Estimate, Judged, Member, Rules, Verdict, is_answered, judge};
pub use machine::{Machine, machine, machine_between};
pub use metric::{Value, value};
pub use over_time::over_time;
pub use paired::{Paired, hodges_lehmann};
pub use series::{AllSeries, SERIES_MAX, Series, series};
pub use sign_flip::{EXACT_BLOCKS_MAX, SignFlip, sign_flip};
pub use slope::Slope;
pub use spectrum::{Spectrum, SpectrumPoint, spectrum};
