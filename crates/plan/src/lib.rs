//! Turns a plan, a TOML file that defines a bake-off, into an ordered list of trials.
//!
//! Pure: text in, values out. It uses no file, no clock and no unseeded randomness: the order of the trials
//! follows from the plan's seed, so anyone with the plan can reproduce it. A plan is read in two steps:
//! *parsed* (`file`: every key is declared in `keys` and holds a value of its kind) and *checked* (`check`:
//! the parts are consistent). Both collect all problems instead of stopping at the first.
//!
//! # Example
//!
//! ```
//! # use bakeoff_plan as plan;
//! let text = r#"
//! schema = 1
//! title = "Nothing, fast and faster"
//! [factors.threads]
//! values = [1, 2]
//! level = "sub-plot"
//! [design]
//! blocks = 6
//! [load]
//! target = "null:"
//! threads = "{threads}"
//! [phases]
//! measure = { time = "1s" }
//! "#;
//! let plan = plan::read(text, "nothing.toml").expect("the plan is sound");
//! assert_eq!(plan.trials().len(), 12);
//! ```

mod admission;
mod check;
mod command_lines;
mod error;
mod estimate;
mod experiment;
mod feasibility;
mod file;
pub mod init;
mod keys;
pub mod like;
mod listing;
mod load;
mod matrix;
mod order;
mod parsed;
mod phases;
mod places;
mod plan;
mod quoting;
mod reader;
mod reference;
mod scale;
mod schema;
mod secret;
mod server;
mod sha256;
mod slices;
mod sweep;
mod template;
mod value;

pub use admission::{Admission, Otherwise};
pub use command_lines::{Around, CommandLine, CommandLines, Expanded, NotCommands, Parameter, Shell};
pub use error::{PlanErrors, Position, Problem, ProblemKind};
pub use estimate::Estimate;
pub use experiment::{Experiment, NotAnExperiment};
pub use feasibility::{Feasibility, JudgedMetric};
pub use listing::listing;
pub use order::shuffled;
pub use phases::{Prepare, ServerValues, Step, Warmup};
pub use plan::{Build, Note, Plan, RateToFind, TurnOrder};
pub use reader::Resolved;
pub use reference::documentation;
pub use scale::{Bind, Machine, ScalePlan, copies_up_to};
pub use schema::json_schema;
pub use secret::Reference;
pub use server::{
    AddressSpace, ClientCpus, Command, HugePages, MemoryLayout, Ready, Scheduler, ServerSpec, StopSignal,
};
pub use sha256::sha256;
pub use slices::Slices;
pub use sweep::{Data, How, SIZE_MAX, SweepPlan};

/// Parses and checks a plan.
///
/// - `text`: the TOML.
/// - `name`: name of the plan in messages, usually its path.
///
/// # Errors
///
/// All problems of the plan, each with its line and column; for invalid TOML, only its syntax errors.
pub fn read(text: &str, name: &str) -> Result<Plan, PlanErrors> {
    let lines = error::Lines::of(text);
    let (parsed, mut problems) = file::read(text, &lines);
    let plan = parsed.and_then(|parsed| check::check(parsed, text, name, &mut problems));
    match plan {
        Some(plan) if problems.is_empty() => Ok(plan),
        _ => Err(PlanErrors::new(name, problems)),
    }
}
