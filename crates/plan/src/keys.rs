//! Every key that a plan can have: its kind, what happens without it, an example, its meaning.
//!
//! One declaration, four uses: the reader takes kinds and defaults from here, messages say from here what was
//! expected, the JSON Schema is written from here, and a test holds `docs/plans.md` against it.

mod kind;
mod load;

use std::time::Duration;

use record::bakeoff::{Metric, Plot};
use record::load::settings::{self, Values};

pub(crate) use self::kind::{Key, Kind, Need, Placeholders};
use self::kind::{WITHOUT_IT_NONE, key};

/// A table of a plan.
#[derive(Debug)]
pub(crate) struct Table {
    /// `load`, `factors.*` (one for each name), `gate[]` (any number); empty: the top of the file.
    pub(crate) path: &'static str,
    pub(crate) need: Need,
    pub(crate) meaning: &'static str,
    pub(crate) keys: &'static [Key],
}

/// The declaration of a table.
pub(crate) fn table(path: &str) -> &'static Table {
    TABLES.iter().find(|t| t.path == path).expect("callers name tables that are declared below")
}

const TEXT: Kind = Kind::Value(Values::Text);
const TEXTS: Kind = Kind::Value(Values::Texts);
const BOOL: Kind = Kind::Value(Values::Switch);
const ANY_TIME: Kind = at_least(Duration::ZERO);
const SERVER: Placeholders = Placeholders::WholePlot { because: "one server stands for the whole series" };

const fn whole(min: u64, max: u64) -> Kind {
    Kind::Value(Values::Whole { min, max })
}

const fn at_least(min: Duration) -> Kind {
    Kind::Value(Values::Duration { min })
}

const fn form(expected: &'static str) -> Kind {
    Kind::Value(Values::Form(expected))
}

const fn word(words: fn() -> Vec<&'static str>) -> Kind {
    Kind::Value(Values::Word(words))
}

fn plots() -> Vec<&'static str> {
    Plot::ALL.iter().map(|p| p.word()).collect()
}
fn metrics() -> Vec<&'static str> {
    Metric::OF_LOADS.iter().map(|m| m.word()).collect()
}
fn signals() -> Vec<&'static str> {
    vec!["SIGTERM", "SIGINT", "SIGQUIT"]
}
fn warmup_judges() -> Vec<&'static str> {
    vec!["throughput", "p99", "cpu-per-event", "rss"]
}
fn instruments() -> Vec<&'static str> {
    vec!["cpu", "io", "nic", "locks", "ulocks", "memory", "power"]
}
fn tunings() -> Vec<&'static str> {
    vec!["base", "peak"]
}

/// The tables, in the order in which a plan is best read.
pub(crate) const TABLES: &[Table] = &[
    Table {
        path: "",
        need: Need::Required,
        meaning: "what the bake-off is about",
        keys: &[
            key("schema", whole(1, 1), Need::Required, "1", "version of this form"),
            key("title", TEXT, Need::Required, "\"Journal modes of SQLite\"", "a line for people"),
            key(
                "question",
                TEXT,
                WITHOUT_IT_NONE,
                "\"Is wal faster than delete?\"",
                "what the bake-off is to answer, in the author's words",
            ),
        ],
    },
    Table {
        path: "factors.*",
        need: Need::Optional("one configuration"),
        meaning: "something that is varied on purpose; its name is used as `{name}`",
        keys: &[
            key("values", Kind::Levels, Need::Required, "[\"delete\", \"wal\"]", "its values, each once"),
            key(
                "reference",
                Kind::Scalar,
                Need::Optional("of a whole-plot factor with one value, that value; with more, it must be there"),
                "\"delete\"",
                "the value that the others are compared with; whole-plot factors only",
            ),
            key(
                "level",
                word(plots),
                Need::Required,
                "\"whole-plot\"",
                "whether a change needs a fresh, rebuilt, warmed server (whole-plot), or goes on within one (sub-plot)",
            ),
        ],
    },
    Table {
        path: "design",
        need: Need::Required,
        meaning: "how often, and in which order",
        keys: &[
            key(
                "blocks",
                whole(1, 1_000),
                Need::Required,
                "6",
                "blocks; a block is one series of every configuration, in random order",
            ),
            key(
                "seed",
                Kind::Value(settings::SEED.values),
                Need::Setting { default: settings::SEED.default_text(), is_listed: true },
                "20261121",
                "what the order, and everything random in the load, follows from",
            ),
            key(
                "time_budget",
                at_least(Duration::from_millis(1)),
                Need::Optional("any time"),
                "\"14h\"",
                "the plan is refused if warm-up, measuring and cool-down alone take longer; from the first series on, setup, start and \
                 prepare count too, and `run` says if it will not hold",
            ),
        ],
    },
    Table {
        path: "load",
        need: Need::Required,
        meaning: "what is offered, to whom; the same words as the options of `bakeoff load`",
        keys: load::KEYS,
    },
    Table {
        path: "server",
        need: Need::Optional("the target needs no server, or it is somebody else's"),
        meaning: "the server under test: started for each series, stopped after it",
        keys: &[
            key(
                "command",
                form("a program and its arguments, with quotes in pairs"),
                Need::Required,
                "\"mariadbd --no-defaults --datadir={scratch}/data --socket={scratch}/mysql.sock\"",
                "the program and its arguments; no shell: words are split at blanks, quotes hold them together",
            )
            .with(SERVER),
            key(
                "ready",
                form("\"socket:PATH\", \"tcp:HOST:PORT\", or a command that succeeds when the server is ready"),
                Need::Required,
                "\"socket:{scratch}/mysql.sock\"",
                "how to tell that it takes connections; a command is run by `sh`",
            )
            .with(SERVER),
            key(
                "ready_timeout",
                at_least(Duration::from_millis(1)),
                Need::Default("\"1m\""),
                "\"1m\"",
                "not ready by then, the server has failed",
            ),
            key(
                "stop",
                word(signals),
                Need::Default("\"SIGTERM\""),
                "\"SIGTERM\"",
                "the signal that asks it to end",
            ),
            key(
                "stop_timeout",
                ANY_TIME,
                Need::Default("\"1m\""),
                "\"30s\"",
                "not ended by then, its process group is killed",
            ),
            key(
                "instances",
                whole(1, 4_096),
                Need::Default("1"),
                "1",
                "copies, each bound to its own CPUs, with a folder and a setup of its own; `{instance}` is 1, 2, ..., and \
                 `{scratch}` the folder of each; the load drives all of them, and its result is also given for each",
            ),
            key(
                "cpus",
                TEXTS,
                Need::Optional("all CPUs that there are"),
                "[\"0-3\"]",
                "the CPUs of each instance: lists such as \"0\", \"0-3\" or \"0,2,8-11\"",
            ),
            key(
                "scheduler",
                form("\"other\", \"batch\", \"fifo:PRIORITY\" or \"rr:PRIORITY\" with a priority from 1 to 99"),
                Need::Default("\"other\""),
                "\"fifo:10\"",
                "the scheduling class it is started in",
            ),
            key(
                "nice",
                Kind::Between { above: -21.0, below: 20.0 },
                Need::Default("0"),
                "5",
                "its nice value; a negative one needs root",
            ),
            key(
                "cpu_max",
                Kind::Between { above: 0.01, below: 4_097.0 },
                Need::Optional("no quota"),
                "1.5",
                "CPUs' worth of time that the server's processes, and setup and prepare, may use together: a quota of their \
                 control group",
            ),
            key(
                "memory_max",
                Kind::Value(Values::Bytes { min: 1 << 20 }),
                Need::Optional("no limit"),
                "\"512MiB\"",
                "memory that they may use together, file cache included: beyond it the kernel reclaims, and then kills",
            ),
            key(
                "user",
                TEXT,
                Need::Optional("the user who starts the bake-off; for root, an unprivileged user made for the run"),
                "\"postgres\"",
                "the account of the server and of the plan's commands: a name or a number; \"root\" only where nothing \
                 else works",
            ),
            key(
                "inherit_env",
                BOOL,
                Need::Default("false"),
                "true",
                "hand the whole environment of `bakeoff` to the server and the plan's commands; otherwise they get \
                 PATH, HOME, LANG, TMPDIR, a BAKEOFF_ variable for each factor, and what `env` names",
            ),
            key(
                "env",
                Kind::Table { or: &[] },
                WITHOUT_IT_NONE,
                "{ TZ = \"UTC\", jemalloc = { LD_PRELOAD = \"libjemalloc.so.2\" } }",
                "environment of the server: a text is for every configuration; a table is named for a value of a \
                 whole-plot factor (or `factor=value`) and is for the configurations with that value",
            )
            .with(SERVER),
            key(
                "files",
                Kind::Table { or: &[] },
                WITHOUT_IT_NONE,
                "{ \"my.cnf\" = \"[mysqld]\\ninnodb_buffer_pool_size={pool}\\n\" }",
                "configuration files that are written into `{scratch}` before setup: the text by the file's name; a brace is \
                 written twice; what differs between configurations stands on the page",
            )
            .with(SERVER),
        ],
    },
    Table {
        path: "phases",
        need: Need::Required,
        meaning: "the life of a series and of a trial",
        keys: &[
            key(
                "setup",
                Kind::Table { or: &[] },
                WITHOUT_IT_NONE,
                "{ run = \"mkdir {scratch}/data\", timeout = \"5m\" }",
                "a command before the server starts",
            ),
            key(
                "prepare",
                Kind::Table { or: &["builtin", "none"] },
                Need::Default("\"builtin\""),
                "\"builtin\"",
                "how the data set is built, once the server is ready: by the load engine, not at all, or by a command",
            ),
            key(
                "warm-up",
                Kind::Table { or: &[] },
                Need::Optional("5s"),
                "{ min = \"30s\" }",
                "load before each measured phase; nothing of it counts",
            ),
            key(
                "measure",
                Kind::Table { or: &[] },
                Need::Required,
                "{ time = \"60s\", interval = \"1s\" }",
                "the measured phase",
            ),
            key("cooldown", ANY_TIME, Need::Default("\"0s\""), "\"10s\"", "rest after each measured phase"),
        ],
    },
    Table {
        path: "phases.setup",
        need: Need::Optional("no setup"),
        meaning: "a command before the server starts",
        keys: RUN,
    },
    Table {
        path: "phases.prepare",
        need: Need::Optional("builtin"),
        meaning: "a command that builds the data set, once the server is ready",
        keys: RUN,
    },
    Table {
        path: "phases.warm-up",
        need: Need::Optional("5s"),
        meaning: "load before each measured phase",
        keys: &[
            key(
                "min",
                Kind::Value(settings::WARMUP.values),
                Need::Setting { default: settings::WARMUP_OF_A_TRIAL, is_listed: true },
                "\"30s\"",
                "its least length; without `judge`, its length",
            ),
            key(
                "max",
                ANY_TIME,
                Need::Optional("no longer than `min`"),
                "\"20m\"",
                "how long to wait for a steady state; a trial that is not steady by then is INVALID, reason `not-steady`",
            ),
            key(
                "judge",
                Kind::Words(warmup_judges),
                WITHOUT_IT_NONE,
                "[\"throughput\", \"p99\"]",
                "what must be steady, in batches of 5 s or of a twentieth of `max`, before a trial is measured",
            ),
        ],
    },
    Table {
        path: "phases.measure",
        need: Need::Required,
        meaning: "the measured phase: its length is fixed before anybody looks",
        keys: &[
            key("time", Kind::Value(settings::TIME.values), Need::Required, "\"60s\"", "its length"),
            key(
                "interval",
                Kind::Value(settings::INTERVAL.values),
                Need::Setting { default: settings::INTERVAL.default_text(), is_listed: true },
                "\"1s\"",
                "length of a reported interval",
            ),
        ],
    },
    Table {
        path: "observe",
        need: Need::Optional("cpu"),
        meaning: "which instruments watch the machine beside the load",
        keys: &[
            key(
                "instruments",
                Kind::Words(instruments),
                Need::Default("[\"cpu\"]"),
                "[\"cpu\", \"io\"]",
                "the instruments; any of them includes cpu",
            ),
            key(
                "control_arm",
                BOOL,
                Need::Default("false"),
                "true",
                "one of each two consecutive blocks, drawn by the seed, is measured without instruments: what they cost",
            ),
        ],
    },
    Table {
        path: "values.*",
        need: WITHOUT_IT_NONE,
        meaning: "a number of each trial that is no time, such as how small a file became; its name ends in its unit \
                  (`reduction_pct`, `size_bytes`), and the page sets it against throughput; or the server's own numbers \
                  over time",
        keys: &[
            key(
                "run",
                TEXT,
                Need::Required,
                "\"stat -c %s {scratch}/data\"",
                "a command after the measured phase, run by `sh`; the last line it prints is the number, and without one \
                 the trial has failed",
            )
            .with(Placeholders::Any),
            key(
                "when",
                word(|| vec!["end", "interval", "settings"]),
                Need::Default("\"end\""),
                "\"interval\"",
                "\"interval\": it runs at the end of each interval of the measured phase, outside of the server's control group, \
                 and prints a line for each number: a name, a colon, an equal sign or a blank, and the number, as `SHOW \
                 GLOBAL STATUS`, `INFO` and `stats` do; each becomes a series. \"settings\": it runs before the warm-up and after \
                 the measured phase, and prints the server's settings, a name and a value a line; a trial in which one \
                 changed is INVALID, and the page shows what differs between configurations",
            ),
            key(
                "keep",
                TEXTS,
                Need::Optional("all, up to 1,000"),
                "[\"Threads_running\", \"Innodb_rows_read\"]",
                "the names that are stored; with `when = \"interval\"` or `\"settings\"` only",
            ),
            RUN_TIMEOUT,
            RUN_RETRIES,
        ],
    },
    Table {
        path: "judge",
        need: Need::Optional("the defaults"),
        meaning: "how configurations are compared",
        keys: &[
            key(
                "rope",
                Kind::Value(Values::Percent { max_ratio: 0.5 }),
                Need::Default("\"1%\""),
                "\"1%\"",
                "a difference inside this share is no difference",
            ),
            key(
                "alpha",
                Kind::Between { above: 0.0, below: 0.5 },
                Need::Default("0.05"),
                "0.05",
                "the family-wise rate of false alarms that is accepted",
            ),
            key(
                "family",
                TEXT,
                Need::Optional("every configuration against the reference at each sub-plot cell"),
                "\"allocator vs reference at each threads\"",
                "the comparisons that share alpha; where it is written, it must be what is done",
            ),
            key(
                "adjust",
                word(|| vec!["holm"]),
                Need::Default("\"holm\""),
                "\"holm\"",
                "how the family shares alpha",
            ),
            key(
                "metrics",
                Kind::Words(metrics),
                Need::Optional(
                    "those that the phases hold for sure: throughput, unless the rate is given; p99, if the rate is given and \
                     yields 10,000 events a trial; cpu-per-event, with a [server] or a target exec:",
                ),
                "[\"throughput\", \"p99\"]",
                "what is judged; `plan check` says which of them the phases cannot hold",
            ),
        ],
    },
    Table {
        path: "gate[]",
        need: WITHOUT_IT_NONE,
        meaning: "a condition for exit code 0; `run --gate` adds more",
        keys: &[
            key("metric", word(metrics), Need::Required, "\"p99\"", "what is judged"),
            key(
                "rule",
                form("\"not worse than reference by N%\", \"<= AMOUNT\", or \">= AMOUNT\""),
                Need::Required,
                "\"not worse than reference by 5%\"",
                "what must hold for every configuration at every sub-plot cell; an amount (`20ms`, `10000/s`, `64KiB`, `2%`, \
                 `0.5J`, as the metric has) also for the reference",
            ),
            key(
                "on_inconclusive",
                word(|| vec!["fail", "pass", "inconclusive"]),
                Need::Default("\"inconclusive\""),
                "\"fail\"",
                "what an inconclusive comparison does to the gate; `inconclusive` ends with code 4",
            ),
        ],
    },
    Table {
        path: "report",
        need: Need::Optional("the defaults"),
        meaning: "what the author wants on the page",
        keys: &[
            key("form", word(|| vec!["bestperf"]), Need::Default("\"bestperf\""), "\"bestperf\"", "its form"),
            key("sponsor", TEXT, WITHOUT_IT_NONE, "\"Example Lab\"", "who ran and paid"),
            key("tuning", word(tunings), WITHOUT_IT_NONE, "\"base\"", "base (as delivered) or peak (tuned)"),
            key(
                "notes",
                TEXT,
                WITHOUT_IT_NONE,
                "\"key-points.md\"",
                "a Markdown file with the author's key points; its path is relative to the plan's folder",
            ),
        ],
    },
];

const RUN: &[Key] = &[
    key("run", TEXT, Need::Required, "\"mkdir {scratch}/data\"", "the command, run by `sh`").with(SERVER),
    RUN_TIMEOUT,
    RUN_RETRIES,
];
const RUN_TIMEOUT: Key = key(
    "timeout",
    at_least(Duration::from_millis(1)),
    Need::Default("\"5m\""),
    "\"5m\"",
    "not ended by then, its process group is killed and it has failed",
);
const RUN_RETRIES: Key = key("retries", whole(0, 100), Need::Default("0"), "2", "tries after the first");
