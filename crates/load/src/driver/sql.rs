//! SQL targets.

pub(crate) mod broken;
pub(crate) mod mysql;
pub(crate) mod postgres;
#[cfg(feature = "lua")]
pub(super) mod scripted;
mod session;
pub(crate) mod sqlite;

/// Failure of a build without Lua.
#[cfg(not(feature = "lua"))]
pub(crate) fn without_lua() -> crate::connection::Failure {
    let text = "this build does not support Lua scripts: build it with the feature `lua`";
    crate::connection::Failure::new(crate::connection::FailureClass::Configuration, text)
}
