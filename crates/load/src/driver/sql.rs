//! SQL targets.

pub(crate) mod broken;
pub(crate) mod mysql;
pub(crate) mod postgres;
mod session;
pub(crate) mod sqlite;
