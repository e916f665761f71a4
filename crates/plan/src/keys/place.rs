//! Keys that say how many instances run, where their threads run and where their memory lies.

use super::kind::{BOOL, Key, Kind, Need, SERVER, form, key, whole};

/// Number of instances of the server.
pub(super) const INSTANCES: Key = key(
    "instances",
    whole(1, 4_096),
    Need::Default("1"),
    "\"{caches}\"",
    "number of server instances, each with its own CPUs, folder and setup; `{instance}` is 1, 2, ..., and \
     `{scratch}` is the instance's folder; the load drives all instances, and its result is also given for each",
)
.with(SERVER);

/// CPUs of the server.
pub(super) const CPUS: Key = key(
    "cpus",
    Kind::Places { of: "CPUs" },
    Need::Optional("all CPUs"),
    "[\"0-3\"]",
    "the CPUs of each instance; as a text, one list whose CPUs are dealt out in order, and with fewer CPUs than \
     instances, equal numbers of instances share one",
)
.with(SERVER);

/// Memory nodes of the server.
pub(super) const MEM: Key = key(
    "mem",
    Kind::Places { of: "nodes" },
    Need::Optional("all memory nodes"),
    "[\"0\"]",
    "the memory nodes of each instance, written like `cpus`; its memory comes from these alone",
)
.with(SERVER);

/// Scheduling class of the server.
pub(super) const SCHEDULER: Key = key(
    "scheduler",
    form("\"other\", \"batch\", \"fifo:PRIORITY\" or \"rr:PRIORITY\" with a priority from 1 to 99"),
    Need::Default("\"other\""),
    "\"fifo:10\"",
    "scheduling class of the server",
)
.with(SERVER);

/// Nice value of the server.
pub(super) const NICE: Key = key(
    "nice",
    Kind::Between { above: -21.0, below: 20.0 },
    Need::Default("0"),
    "5",
    "nice value of the server; negative values need root",
)
.with(SERVER);

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
