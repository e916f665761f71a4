//! A plan, a TOML file that says everything about a bake-off, becomes an ordered list of trials.
//!
//! Pure: text in, values out. No file, no clock, no chance: the order of the trials follows from the plan's seed, so
//! that everybody who has the plan can draw it again. A plan is read in two steps: *as written* (`file`: every key is
//! one that `keys` declares and holds a value of its kind) and *as meant* (`check`: the parts fit together). Both
//! collect every problem instead of stopping at the first.
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

mod check;
mod error;
mod estimate;
mod experiment;
mod file;
mod held;
mod keys;
mod listing;
mod load;
mod matrix;
mod meant;
mod order;
mod quoting;
mod reader;
mod reference;
mod scale;
mod schema;
mod secret;
mod sweep;
mod template;
mod value;
mod written;

pub use check::sha256;
pub use error::{Place, PlanErrors, Problem, ProblemKind};
pub use estimate::Estimate;
pub use experiment::{Experiment, NotAnExperiment};
pub use held::{Held, Holds};
pub use listing::listing;
pub use meant::{
    Command, Gate, GateRule, Note, OnInconclusive, Plan, Prepare, Ready, Resolved, Scheduler, ServerSpec,
    Step, StopSignal, Warmup,
};
pub use reference::documentation;
pub use scale::{Bind, Machine, ScalePlan, copies_up_to};
pub use schema::json_schema;
pub use secret::Reference;
pub use sweep::{Data, How, SIZE_MAX, SweepPlan};

/// Reads a plan and checks it.
///
/// - `text`: the TOML.
/// - `name`: what the plan is called in messages, usually the path it was read from.
///
/// # Errors
///
/// Every problem that the plan has, each with its line and column; where the TOML itself is broken, only what is wrong
/// with that.
pub fn read(text: &str, name: &str) -> Result<Plan, PlanErrors> {
    let lines = error::Lines::of(text);
    let (written, mut problems) = file::read(text, &lines);
    let plan = written.and_then(|written| check::check(written, text, name, &mut problems));
    match plan {
        Some(plan) if problems.is_empty() => Ok(plan),
        _ => Err(PlanErrors::new(name, problems)),
    }
}
