//! Every key that a plan can have: its kind, what happens without it, an example, its meaning.
//!
//! One declaration, four uses: the reader takes kinds and defaults from here, messages say from here what was
//! expected, the JSON Schema is written from here, and a test holds `docs/plans.md` against it.

mod design;
mod kind;
mod load;
mod place;

use std::time::Duration;

use record::bakeoff::Metric;
use record::load::settings::{self, Values};

use self::kind::{
    ANY_TIME, BOOL, RUN_RETRIES, SERVER, TEXT, TEXTS, WITHOUT_IT_NONE, at_least, form, key, whole, word,
};
pub(crate) use self::kind::{Key, Kind, Need, Placeholders};

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

fn metrics() -> Vec<&'static str> {
    Metric::of_plans().map(Metric::word).collect()
}
fn signals() -> Vec<&'static str> {
    vec!["SIGTERM", "SIGINT", "SIGQUIT"]
}
fn address_spaces() -> Vec<&'static str> {
    vec!["random", "fixed"]
}
fn huge_pages() -> Vec<&'static str> {
    vec!["system", "never"]
}
fn warmup_judges() -> Vec<&'static str> {
    vec!["throughput", "p99", "cpu-per-event", "rss"]
}
fn instruments() -> Vec<&'static str> {
    vec!["cpu", "io", "nic", "locks", "ulocks", "memory", "power", "profile", "off-cpu"]
}
fn tunings() -> Vec<&'static str> {
    vec!["base", "peak"]
}

/// The tables, in the order in which a plan is best read.
pub(crate) const TABLES: &[Table] = &[
    Table {
        path: "",
        need: Need::Required,
        meaning: "title and question of the bake-off",
        keys: &[
            key("schema", whole(1, 1), Need::Required, "1", "version of the plan format"),
            key("title", TEXT, Need::Required, "\"Journal modes of SQLite\"", "a one-line title"),
            key(
                "question",
                TEXT,
                WITHOUT_IT_NONE,
                "\"Is wal faster than delete?\"",
                "the question that the bake-off is to answer, in the author's words",
            ),
        ],
    },
    Table {
        path: "factors.*",
        need: Need::Optional("one configuration"),
        meaning: "a factor, which the plan varies; other keys use its value as `{name}`",
        keys: design::FACTOR,
    },
    Table {
        path: "design",
        need: Need::Required,
        meaning: "number and order of the trials",
        keys: design::DESIGN,
    },
    Table {
        path: "build",
        need: Need::Optional("nothing is built"),
        meaning: "a command that builds what is compared, once for each content, before the first trial; other \
             keys use the folder of its output as `{build}`",
        keys: design::BUILD,
    },
    Table {
        path: "admission",
        need: Need::Optional("each trial begins at once; a machine that is not quiet is a note"),
        meaning: "conditions under which a trial begins: no more than `busy`, no swapping, no CPU slowed down by \
             heat, and the governor of the first trial",
        keys: design::ADMISSION,
    },
    Table {
        path: "load",
        need: Need::Required,
        meaning: "the load and its target; the keys are named like the options of `bakeoff load`",
        keys: load::KEYS,
    },
    Table {
        path: "fleet",
        need: Need::Optional("this machine generates the load"),
        meaning: "agents that generate the load together: those of the NATS server in `$NATS_URL`, or else agents \
             that bakeoff starts on this machine, to try it",
        keys: &[
            key(
                "agents",
                whole(1, 1_000),
                Need::Required,
                "8",
                "number of agents; each has its share of the events and threads of every cell",
            ),
            key(
                "on_loss",
                word(|| vec!["invalid", "degraded"]),
                Need::Default("\"invalid\""),
                "\"degraded\"",
                "a trial that loses an agent or intervals is INVALID, or is shown with its losses and not judged",
            ),
            key(
                "place",
                TEXTS,
                Need::Optional("any agents"),
                "[\"rack=a\"]",
                "labels of the agents that are taken: `NAME=VALUE` as in `bakeoff agent --label`, all of them",
            ),
            key(
                "observers",
                whole(0, 100),
                Need::Default("0"),
                "1",
                "number of agents that observe their machine, such as the server's: `bakeoff agent --role observe`",
            ),
            key(
                "probe",
                Kind::Between { above: 0.0, below: 100_001.0 },
                Need::Optional("no probe"),
                "20",
                "events per second of a latency probe apart from the load: `bakeoff agent --role probe`",
            ),
        ],
    },
    Table {
        path: "client",
        need: Need::Optional("the threads of the load may use all CPUs"),
        meaning: "where the threads of the load run",
        keys: place::CLIENT,
    },
    Table {
        path: "server",
        need: Need::Optional("the target needs no server, or bakeoff does not start it"),
        meaning: "the server under test: started for each series, stopped after it",
        keys: &[
            key(
                "command",
                form("a program and its arguments, with balanced quotes"),
                Need::Required,
                "\"mariadbd --no-defaults --datadir={scratch}/data --socket={scratch}/mysql.sock\"",
                "the program and its arguments; no shell reads them: blanks separate words, quotes join them",
            )
            .with(SERVER),
            key(
                "ready",
                form(
                    "\"socket:PATH\", \"tcp:HOST:PORT\", or a command that succeeds when the server is ready",
                ),
                Need::Required,
                "\"socket:{scratch}/mysql.sock\"",
                "how bakeoff detects that the server accepts connections; `sh` runs a command",
            )
            .with(SERVER),
            key(
                "ready_timeout",
                at_least(Duration::from_millis(1)),
                Need::Default("\"1m\""),
                "\"1m\"",
                "time limit for readiness; a server that exceeds it has failed",
            ),
            key(
                "stop",
                word(signals),
                Need::Default("\"SIGTERM\""),
                "\"SIGTERM\"",
                "the signal that stops the server",
            ),
            key(
                "stop_timeout",
                ANY_TIME,
                Need::Default("\"1m\""),
                "\"30s\"",
                "time limit for stopping; bakeoff then kills the server's process group",
            ),
            place::INSTANCES,
            place::CPUS,
            place::MEM,
            place::SCHEDULER,
            place::NICE,
            key(
                "address_space",
                word(address_spaces),
                Need::Default("\"random\""),
                "\"fixed\"",
                "addresses of the server's code, stack and heap: random for each process, as the system has it, or the \
                 same for each start of the same program",
            ),
            key(
                "huge_pages",
                word(huge_pages),
                Need::Default("\"system\""),
                "\"never\"",
                "transparent huge pages of the server: by the system's setting, or none; pages that a program asks \
                 for by mmap are not affected",
            ),
            key(
                "cpu_max",
                Kind::Between { above: 0.01, below: 4_097.0 },
                Need::Optional("no quota"),
                "1.5",
                "CPU quota in CPUs, set on the control group that the server, setup and prepare share",
            ),
            key(
                "memory_max",
                Kind::Value(Values::Bytes { min: 1 << 20 }),
                Need::Optional("no limit"),
                "\"512MiB\"",
                "memory limit of the same control group, including the page cache: above it the kernel \
                 reclaims memory, then kills processes",
            ),
            key(
                "user",
                TEXT,
                Need::Optional(
                    "the user who starts bakeoff; if that is root, an unprivileged user id \
                     chosen for the run",
                ),
                "\"postgres\"",
                "user name or id that runs the server and the plan's commands; use \"root\" only if nothing \
                 else works",
            ),
            key(
                "inherit_env",
                BOOL,
                Need::Default("false"),
                "true",
                "pass bakeoff's whole environment to the server and the plan's commands; otherwise they get \
                 only PATH, HOME, LANG, TMPDIR, a BAKEOFF_ variable for each factor, and the variables of \
                 `env`",
            ),
            key(
                "env",
                Kind::Table { or: &[] },
                WITHOUT_IT_NONE,
                "{ TZ = \"UTC\", jemalloc = { LD_PRELOAD = \"libjemalloc.so.2\" } }",
                "environment variables of the server: a string applies to every configuration; a table named \
                 after a value of a whole-plot factor (or `factor=value`) applies to the configurations \
                 with that value",
            )
            .with(SERVER),
            key(
                "files",
                Kind::Table { or: &[] },
                WITHOUT_IT_NONE,
                "{ \"my.cnf\" = \"[mysqld]\\ninnodb_buffer_pool_size={pool}\\n\" }",
                "configuration files, as file name and text, that bakeoff writes into `{scratch}` before \
                 setup; write a brace twice; the page shows the differences between configurations",
            )
            .with(SERVER),
        ],
    },
    Table {
        path: "phases",
        need: Need::Required,
        meaning: "phases of a series and of a trial",
        keys: &[
            key(
                "setup",
                Kind::Table { or: &[] },
                WITHOUT_IT_NONE,
                "{ run = \"mkdir {scratch}/data\", timeout = \"5m\" }",
                "a command that runs before the server starts",
            ),
            key(
                "prepare",
                Kind::Table { or: &["builtin", "none"] },
                Need::Default("\"builtin\""),
                "\"builtin\"",
                "what builds the data set when the server is ready: the load engine (builtin), nothing \
                 (none), or a command",
            ),
            key(
                "warm-up",
                Kind::Table { or: &[] },
                Need::Optional("5s"),
                "{ min = \"30s\" }",
                "load before each measured phase; its events do not count",
            ),
            key(
                "measure",
                Kind::Table { or: &[] },
                Need::Required,
                "{ time = \"60s\", interval = \"1s\" }",
                "the measured phase",
            ),
            key(
                "verify",
                Kind::Table { or: &[] },
                WITHOUT_IT_NONE,
                "{ run = \"./rows-are-whole {scratch}\" }",
                "a command that runs after each measured phase; if it fails, the trial is INVALID",
            ),
            key("cooldown", ANY_TIME, Need::Default("\"0s\""), "\"10s\"", "pause after each measured phase"),
        ],
    },
    Table {
        path: "phases.setup",
        need: Need::Optional("no setup"),
        meaning: "a command that runs before the server starts",
        keys: RUN,
    },
    Table {
        path: "phases.prepare",
        need: Need::Optional("builtin"),
        meaning: "a command that builds the data set when the server is ready",
        keys: RUN,
    },
    Table {
        path: "phases.verify",
        need: Need::Optional("no check besides those of bakeoff"),
        meaning: "a command that checks, after each measured phase, that the data set is whole and the \
             configuration is the planned one; if it fails, the trial is INVALID, and the reason has the last lines \
             of its output",
        keys: &[
            key("run", TEXT, Need::Required, "\"./rows-are-whole {scratch}\"", "the command, run by `sh`")
                .with(Placeholders::Any),
            RUN_TIMEOUT,
            RUN_RETRIES,
        ],
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
                "minimum length; without `judge`, the exact length; with it, at least 75 s if `max` allows",
            ),
            key(
                "max",
                ANY_TIME,
                Need::Optional("same as `min`"),
                "\"20m\"",
                "longest wait for a steady state; a trial that is not steady by then is INVALID, reason \
                 `not-steady`",
            ),
            key(
                "judge",
                Kind::Words(warmup_judges),
                WITHOUT_IT_NONE,
                "[\"throughput\", \"p99\"]",
                "metrics that must be steady before measurement starts, compared in batches of 1.25 s or of a \
                 48th of `max`; a p99 takes up to four batches, which need at least 100 events",
            ),
        ],
    },
    Table {
        path: "phases.measure",
        need: Need::Required,
        meaning: "the measured phase; its length is fixed in advance",
        keys: &[
            key(
                "time",
                Kind::Value(settings::TIME.values),
                Need::Required,
                "\"60s\"",
                "length of the measured phase",
            ),
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
        meaning: "instruments that observe the machine during the load",
        keys: &[
            key(
                "instruments",
                Kind::Words(instruments),
                Need::Default("[\"cpu\"]"),
                "[\"cpu\", \"io\"]",
                "the instruments; each of them includes cpu",
            ),
            key(
                "control_arm",
                BOOL,
                Need::Default("false"),
                "true",
                "measure one of every two consecutive blocks, chosen at random, without instruments, to \
                 show what they cost",
            ),
        ],
    },
    Table {
        path: "values.*",
        need: WITHOUT_IT_NONE,
        meaning: "a number per trial other than a time, such as a compressed size; its name ends in its \
             unit (`reduction_pct`, `size_bytes`), and the page plots it against throughput; or the \
             server's own numbers over time",
        keys: &[
            key(
                "run",
                TEXT,
                Need::Required,
                "\"stat -c %s {scratch}/data\"",
                "a command that `sh` runs after the measured phase; its last line of output must be the \
                 number, otherwise the trial fails",
            )
            .with(Placeholders::Any),
            key(
                "when",
                word(|| vec!["end", "interval", "settings"]),
                Need::Default("\"end\""),
                "\"interval\"",
                "\"interval\": the command runs at the end of each interval of the measured phase, outside \
                 the server's control group, and prints one number per line: a name, then a colon, an equal \
                 sign or a blank, then the number, as `SHOW GLOBAL STATUS`, `INFO` and `stats` do; each \
                 name becomes a series. \"settings\": it runs before the warm-up and after the measured \
                 phase, and prints the server's settings, one name and value per line; if a setting \
                 changed, the trial is INVALID; the page shows the differences between configurations",
            ),
            key(
                "keep",
                TEXTS,
                Need::Optional("all, up to 1,000"),
                "[\"Threads_running\", \"Innodb_rows_read\"]",
                "the names to store; with `when = \"interval\"` or `\"settings\"` only",
            ),
            RUN_TIMEOUT,
            RUN_RETRIES,
        ],
    },
    Table {
        path: "judge",
        need: Need::Optional("the defaults"),
        meaning: "how the page compares configurations",
        keys: &[
            key(
                "rope",
                Kind::Value(Values::Percent { max_ratio: 0.5 }),
                Need::Default("\"1%\""),
                "\"1%\"",
                "smaller relative differences count as equal",
            ),
            key(
                "alpha",
                Kind::Between { above: 0.0, below: 0.5 },
                Need::Default("0.05"),
                "0.05",
                "accepted family-wise rate of false alarms",
            ),
            key(
                "family",
                TEXT,
                Need::Optional("every configuration against the reference at each sub-plot cell"),
                "\"allocator vs reference at each threads\"",
                "the comparisons that share alpha; if set, it must name the comparisons that the plan makes",
            ),
            key(
                "adjust",
                word(|| vec!["holm"]),
                Need::Default("\"holm\""),
                "\"holm\"",
                "how the comparisons share alpha",
            ),
            key(
                "metrics",
                Kind::Words(metrics),
                Need::Optional(
                    "those that the phases always allow: throughput, unless the rate is fixed; p99, if the \
                     rate is fixed and yields 10,000 events per trial; cpu-per-event, with a [server] or an \
                     exec: target",
                ),
                "[\"throughput\", \"p99\"]",
                "the metrics to judge; `plan check` lists those that the plan cannot judge, with the reason",
            ),
        ],
    },
    Table {
        path: "gate[]",
        need: WITHOUT_IT_NONE,
        meaning: "a condition for exit code 0; `run --gate` adds more",
        keys: &[
            key("metric", word(metrics), Need::Required, "\"p99\"", "the metric of the condition"),
            key(
                "rule",
                form("\"not worse than reference by N%\", \"<= AMOUNT\", or \">= AMOUNT\""),
                Need::Required,
                "\"not worse than reference by 5%\"",
                "condition for every configuration at every sub-plot cell; an amount (`20ms`, `10000/s`, \
                 `64KiB`, `2%`, `0.5J`, in the metric's unit) also applies to the reference",
            ),
            key(
                "on_inconclusive",
                word(|| vec!["fail", "pass", "inconclusive"]),
                Need::Default("\"inconclusive\""),
                "\"fail\"",
                "the gate's result if a comparison is inconclusive; `inconclusive` exits with code 4; \
                 `pass` needs values: where a measurement is missing, the gate stays inconclusive",
            ),
        ],
    },
    Table {
        path: "report",
        need: Need::Optional("the defaults"),
        meaning: "the author's part of the page",
        keys: &[
            key(
                "form",
                word(|| vec!["bestperf"]),
                Need::Default("\"bestperf\""),
                "\"bestperf\"",
                "form of the page",
            ),
            key("sponsor", TEXT, WITHOUT_IT_NONE, "\"Example Lab\"", "who ran and paid for the measurement"),
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
    "time limit; bakeoff then kills the command's process group, and the command has failed",
);
