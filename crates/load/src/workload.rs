//! What an event does: its statements, keys, rows and values. No module here knows a server or a socket.

pub(crate) mod kv;
pub(crate) mod oltp;
pub(crate) mod rows;
pub(crate) mod script;
pub(crate) mod sql;
pub(crate) mod statement;
pub(crate) mod tables;
pub(crate) mod values;
