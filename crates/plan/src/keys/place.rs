//! Keys that say where threads run and where memory lies.

use super::kind::{BOOL, Key, Need, TEXTS, form, key};

/// Memory nodes of the server.
pub(super) const MEM: Key = key(
    "mem",
    TEXTS,
    Need::Optional("all memory nodes"),
    "[\"0\"]",
    "the memory nodes of each instance: lists such as \"0\" or \"0-1\"; its memory comes from these alone",
);

/// Placement of the load's threads.
pub(super) const CLIENT: &[Key] = &[
    key(
        "cpus",
        form("a list of CPUs such as \"0\", \"0-3\" or \"0,2,8-11\""),
        Need::Required,
        "\"1\"",
        "the CPUs of the threads that generate the load",
    ),
    key(
        "pin",
        BOOL,
        Need::Default("false"),
        "true",
        "bind each thread to one of these CPUs, in turn, instead of to all of them",
    ),
];
