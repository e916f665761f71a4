//! Documents for programs. Their form is a promise: `schema` names it, names carry units, and a value that we lack is
//! `null` with its reason in `missing`, never 0.

mod bakeoff;
mod cpu;
mod load;
mod locks;
mod object;
mod prove;
mod runs;

pub use bakeoff::{compare, run};
pub use cpu::cpu;
pub(crate) use load::offered_per_s;
pub use load::{load, progress};
pub use locks::locks;
pub use prove::prove;
pub use runs::{listed, recorded, runs};
