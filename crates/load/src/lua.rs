//! Scripts in Lua with sysbench's interface.
//!
//! Each worker has a Lua state, and no lock is shared by them: a state is created and used on one thread. The
//! interface is `prelude.lua`, which calls the functions in `calls.rs` by their addresses, so that `LuaJIT`
//! compiles them into its traces. Servers are behind the trait `Server`.

mod bound;
mod calls;
pub(crate) mod commands;
pub(crate) mod context;
mod laws;
mod link;
mod machine;
mod marks;
pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod rows;
pub(crate) mod server;
pub(crate) mod state;
pub(crate) mod worker;
