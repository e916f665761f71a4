//! Workloads: the statements, keys, rows and values of events. No module here uses a server or a socket.

pub(crate) mod kv;
pub(crate) mod oltp;
pub(crate) mod rows;
pub(crate) mod script;
pub(crate) mod sql;
pub(crate) mod statement;
pub(crate) mod tables;
pub(crate) mod values;
