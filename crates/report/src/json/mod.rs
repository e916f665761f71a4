//! Documents for programs. Their form is a promise: `schema` names it, names carry units, and a missing value
//! is `null` with its reason in `missing`, never 0.

mod aa;
mod bakeoff;
mod block_io;
mod command;
mod commands;
mod cpu;
mod gates;
mod history;
mod hosts;
mod load;
mod locks;
mod memory;
mod nic;
mod object;
mod periods;
mod profile;
mod prove;
mod runs;
mod scale;
mod search;
mod sides;
mod sweep;
mod throttled;

pub use aa::aa;
pub use bakeoff::{compare, run};
pub use block_io::io;
pub use command::command;
pub use commands::commands;
pub use cpu::{cgroups, cpu, energy, interrupts, tasks, waits};
pub use history::history;
pub use hosts::{host, hosts};
pub(crate) use load::offered_per_s;
pub use load::{load, progress};
pub use locks::{locks, user_locks};
pub use memory::memory;
pub use nic::{nic, nic_list};
pub use periods::periods;
pub use profile::{NotAProfile, profile, profile_changes, read_profile};
pub use prove::prove;
pub use runs::{listed, recorded, runs};
pub use scale::scale;
pub use search::search;
pub use sides::sides;
pub use sweep::sweep;
