//! The keys of `[load]`.

use record::load::{DataCheck, Distribution, OltpMix, Schedule, Workload};
use record::requests::{HttpSettings, HttpVersion, KvSettings};

use super::{ANY_TIME, DATA, Key, Kind, Need, Placeholders, WITHOUT_IT_NONE, key};

fn workloads() -> Vec<&'static str> {
    // A script is a key of its own.
    Workload::ALL.iter().filter(|w| **w != Workload::Script).map(|w| w.word()).collect()
}
fn distributions() -> Vec<&'static str> {
    Distribution::NAMES.to_vec()
}
fn checks() -> Vec<&'static str> {
    DataCheck::ALL.iter().map(|c| c.word()).collect()
}
fn schedules() -> Vec<&'static str> {
    Schedule::ALL.iter().map(|s| s.word()).collect()
}
fn http_versions() -> Vec<&'static str> {
    HttpVersion::ALL.iter().map(|v| v.word()).collect()
}

pub(super) const KEYS: &[Key] = &[
    key(
        "target",
        Kind::Text,
        Need::Required,
        "\"sqlite:{scratch}/bench.db\"",
        "where the load goes",
    )
    .with(Placeholders::Any),
    key(
        "workload",
        Kind::Word(workloads),
        Need::Optional("native for exec:, http: and null:, kv for caches, else oltp-read-write"),
        "\"oltp-read-write\"",
        "what an event does",
    )
    .with(Placeholders::Any),
    key("tables", Kind::Integer { min: 1, max: 10_000 }, Need::Default("1"), "4", "tables of the data set")
        .with(DATA),
    key(
        "rows",
        Kind::Integer { min: 1, max: 2_147_483_647 },
        Need::Default("10000"),
        "100000",
        "rows in each table",
    )
    .with(DATA),
    key(
        "point_selects",
        Kind::Integer { min: 0, max: 100_000 },
        Need::Default("10"),
        "10",
        "point selects in a transaction",
    )
    .with(Placeholders::Any),
    key(
        "range_size",
        Kind::Integer { min: 1, max: 2_147_483_647 },
        Need::Default("100"),
        "100",
        "rows that a range query covers",
    )
    .with(Placeholders::Any),
    key("range_selects", Kind::Bool, Need::Optional("true"), "false", "whether a transaction has the four range queries")
        .with(Placeholders::Any),
    key("index_updates", Kind::Integer { min: 0, max: 100_000 }, Need::Optional("1"), "2", "updates of the indexed column in a transaction")
        .with(Placeholders::Any),
    key("non_index_updates", Kind::Integer { min: 0, max: 100_000 }, Need::Optional("1"), "2", "updates of another column in a transaction")
        .with(Placeholders::Any),
    key("delete_inserts", Kind::Integer { min: 0, max: 100_000 }, Need::Optional("1"), "2", "rows that a transaction deletes and inserts again")
        .with(Placeholders::Any),
    key(
        "random_points",
        Kind::Integer { min: 1, max: OltpMix::POINTS_MAX as i64 },
        Need::Optional("10"),
        "20",
        "values that a statement of select-random-points asks for",
    )
    .with(Placeholders::Any),
    key(
        "number_of_ranges",
        Kind::Integer { min: 1, max: OltpMix::POINTS_MAX as i64 },
        Need::Optional("10"),
        "20",
        "ranges that a statement of select-random-ranges counts",
    )
    .with(Placeholders::Any),
    key(
        "delta",
        Kind::Integer { min: 0, max: 1_000_000 },
        Need::Optional("5"),
        "100",
        "how far the end of such a range is from its beginning",
    )
    .with(Placeholders::Any),
    key(
        "bulk_rows",
        Kind::Integer { min: 1, max: OltpMix::BULK_ROWS_MAX as i64 },
        Need::Optional("100"),
        "1000",
        "rows that a statement of bulk-insert adds",
    )
    .with(Placeholders::Any),
    key(
        "distribution",
        Kind::Word(distributions),
        Need::Default("\"special\""),
        "\"uniform\"",
        "how rows are chosen",
    )
    .with(Placeholders::Any),
    key("skip_trx", Kind::Bool, Need::Default("false"), "true", "leave out BEGIN and COMMIT")
        .with(Placeholders::Any),
    key("prepared", Kind::Bool, Need::Default("true"), "false", "prepare statements on the server")
        .with(Placeholders::Any),
    key(
        "script",
        Kind::Text,
        Need::Optional("what `workload` says"),
        "'''SELECT c FROM sbtest1 WHERE id = 1;'''",
        "the statements that an event does, as `--script` has them in a file (docs/scripts.md); databases only",
    ),
    key(
        "define",
        Kind::Form("variables such as \"scale=10, users=5\""),
        WITHOUT_IT_NONE,
        "\"scale={scale}\"",
        "variables of the script, separated by commas",
    )
    .with(Placeholders::Any),
    key(
        "keys",
        Kind::Integer { min: 1, max: 9_999_999_999 },
        Need::Optional("10000"),
        "100000",
        "keys of a cache",
    )
    .with(DATA),
    key(
        "sizes",
        Kind::Form("classes of lengths with weights, such as \"4-100:60,1024-2048:30,5120-20480:10\""),
        Need::Optional("4-100:60,1024-2048:30,5120-20480:10"),
        "\"1024:1\"",
        "lengths of its values in bytes, with weights; each key has its own",
    )
    .with(DATA),
    key(
        "mix",
        Kind::Form("weights such as \"get=90,set=10\""),
        Need::Optional("get=90,set=10"),
        "\"get=50,set=50\"",
        "what events do to it",
    )
    .with(Placeholders::Any),
    key(
        "key_distribution",
        Kind::Word(distributions),
        Need::Optional("zipfian"),
        "\"uniform\"",
        "how its keys are chosen",
    )
    .with(Placeholders::Any),
    key(
        "pipeline",
        Kind::Integer { min: 1, max: KvSettings::PIPELINE_MAX as i64 },
        Need::Optional("1"),
        "16",
        "requests that a connection to a cache may have in flight at a time",
    )
    .with(Placeholders::Any),
    key(
        "multi_get",
        Kind::Integer { min: 1, max: KvSettings::MULTI_GET_MAX as i64 },
        Need::Optional("1"),
        "10",
        "keys of a cache that an event reads with one request",
    )
    .with(Placeholders::Any),
    key(
        "ttl",
        Kind::Form("whole seconds such as \"60s\", at most 30 days"),
        Need::Optional("none"),
        "\"60s\"",
        "how long values live that are written to a cache",
    )
    .with(DATA),
    key(
        "command",
        Kind::Texts,
        WITHOUT_IT_NONE,
        "[\"GET ${random(1, 1000)}@9\", \"INCR n\"]",
        "commands for Redis in place of reading and writing values, with weights; an event sends one",
    ),
    key(
        "verify",
        Kind::Bool,
        Need::Optional("false"),
        "true",
        "compare everything that is read with what must be there; caches, and web servers with `requests`",
    )
    .with(Placeholders::Any),
    key(
        "method",
        Kind::Form("one word such as \"GET\""),
        Need::Optional("GET"),
        "\"POST\"",
        "method of a web request",
    )
    .with(Placeholders::Any),
    key("header", Kind::Texts, WITHOUT_IT_NONE, "[\"Accept: text/html\"]", "headers of a web request"),
    key("body", Kind::Text, WITHOUT_IT_NONE, "\"item=1\"", "body of a web request; a brace is written twice")
        .with(Placeholders::Any),
    key(
        "expect_status",
        Kind::Integer { min: 100, max: 599 },
        Need::Optional("any below 400"),
        "204",
        "the status that a web request must end with",
    )
    .with(Placeholders::Any),
    key(
        "requests",
        Kind::Text,
        Need::Optional("the one that the target names"),
        "\"{scratch}/requests.toml\"",
        "a file of web requests with weights; its path is relative to where `run` is started",
    )
    .with(Placeholders::Any),
    key(
        "http_version",
        Kind::Word(http_versions),
        Need::Optional("any"),
        "\"1.1\"",
        "version of HTTP; any is HTTP/2 where an https: server has it, else HTTP/1.1",
    )
    .with(Placeholders::Any),
    key(
        "ca",
        Kind::Text,
        Need::Optional("what this machine trusts"),
        "\"{scratch}/certificate.pem\"",
        "trust the certificates in this file (PEM); https: only",
    )
    .with(Placeholders::Any),
    key("insecure", Kind::Bool, Need::Optional("false"), "true", "trust any certificate; https: only")
        .with(Placeholders::Any),
    key(
        "cert",
        Kind::Text,
        WITHOUT_IT_NONE,
        "\"{scratch}/client.pem\"",
        "the client's own certificate (PEM), beside `key`; https: only",
    )
    .with(Placeholders::Any),
    key(
        "key",
        Kind::Text,
        WITHOUT_IT_NONE,
        "\"{scratch}/client-key.pem\"",
        "the private key of `cert` (PEM)",
    )
    .with(Placeholders::Any),
    key(
        "unix_socket",
        Kind::Text,
        Need::Optional("the target's host and port"),
        "\"{scratch}/web.sock\"",
        "connect to this socket; web servers only",
    )
    .with(Placeholders::Any),
    key(
        "timeout",
        ANY_TIME,
        Need::Optional("none"),
        "\"500ms\"",
        "give up a web request without a whole answer after this time; it is a `timeout` error",
    )
    .with(Placeholders::Any),
    key(
        "cookies",
        Kind::Bool,
        Need::Optional("false"),
        "true",
        "each connection to a web server sends the cookies that it was given",
    )
    .with(Placeholders::Any),
    key(
        "streams",
        Kind::Integer { min: 1, max: HttpSettings::STREAMS_MAX as i64 },
        Need::Optional("1"),
        "10",
        "requests that a connection of HTTP/2 may have in flight at a time",
    )
    .with(Placeholders::Any),
    key(
        "data",
        Kind::Text,
        WITHOUT_IT_NONE,
        "\"{scratch}/users.csv\"",
        "a file of rows (CSV with a line of names, or JSON lines) whose values stand in web requests and `command` as `${name}`",
    )
    .with(Placeholders::Any),
    key(
        "env",
        Kind::Texts,
        WITHOUT_IT_NONE,
        "[\"LC_ALL=C\"]",
        "variables of the environment of an `exec:` command",
    ),
    key(
        "expect_exit",
        Kind::Integer { min: 0, max: 255 },
        Need::Optional("0"),
        "1",
        "the exit status that an `exec:` command must end with",
    )
    .with(Placeholders::Any),
    key(
        "threads",
        Kind::Integer { min: 1, max: 65_536 },
        Need::Default("1"),
        "\"{threads}\"",
        "workers, each with a connection of its own",
    )
    .with(Placeholders::Any),
    key(
        "connections",
        Kind::Integer { min: 1, max: 1_000_000 },
        Need::Optional("one for each of the threads"),
        "1000",
        "connections of all workers together, in event loops; not with sqlite:, exec: and null:",
    )
    .with(Placeholders::Any),
    key(
        "rate",
        Kind::Rate,
        Need::Default("\"max\""),
        "500",
        "\"max\": closed loop, as fast as it goes; events per second over all threads; shares of the capacity \
         found first, or the highest rate that keeps a promise (both are read, and refused at `run` in this \
         version)",
    )
    .with(Placeholders::Any),
    key(
        "arrivals",
        Kind::Form(
            "\"jitter\", \"period\", \"poisson\"; or, saying their rates themselves, \"ramp:100-1000\", \
             \"step:100@10s,200\", \"burst:50-2000@1s/10s\" or \"sine:100-500@60s\"",
        ),
        Need::Default("\"jitter\""),
        "\"poisson\"",
        "how due times are spread",
    )
    .with(Placeholders::Any),
    key(
        "jitter",
        Kind::Percent { max_ratio: 1.0 },
        Need::Default("\"10%\""),
        "\"10%\"",
        "with jitter arrivals, how far an event moves: a share of a thread's period",
    )
    .with(Placeholders::Any),
    key(
        "schedule",
        Kind::Word(schedules),
        Need::Default("\"shared\""),
        "\"own\"",
        "who takes the next event: any free worker, or its owner",
    )
    .with(Placeholders::Any),
    key(
        "late",
        Kind::Form("\"queue\", \"drop\", \"skip=\" and a duration, or \"pace=\" and a speed such as \"pace=2x\""),
        Need::Default("\"queue\""),
        "\"skip=100ms\"",
        "what happens to a late event: it starts at once, is given up, is given up when later than that, or waits for its turn",
    )
    .with(Placeholders::Any),
    key(
        "think",
        Kind::Form("a duration, or \"exp:\" and a duration"),
        Need::Optional("0"),
        "\"exp:10ms\"",
        "in a closed loop, how long a worker rests after each event",
    )
    .with(Placeholders::Any),
    key(
        "ramp_up",
        ANY_TIME,
        Need::Optional("0"),
        "\"5s\"",
        "the load rises from nothing over this time, before the warm-up; nothing of it counts",
    )
    .with(Placeholders::Any),
    key(
        "ramp_down",
        ANY_TIME,
        Need::Optional("0"),
        "\"5s\"",
        "the load falls to nothing over this time, after the measured phase; nothing of it counts",
    )
    .with(Placeholders::Any),
    key(
        "spin_us",
        Kind::Integer { min: 0, max: 1_000_000 },
        Need::Optional("0"),
        "60",
        "workers spin this many microseconds before a due time; in a closed loop of connections, before they sleep",
    )
    .with(Placeholders::Any),
    key(
        "spin_budget",
        Kind::Percent { max_ratio: 1.0 },
        Need::Optional("5%"),
        "\"0%\"",
        "share of a CPU that workers may spin, so as to be on time, after they were woken early",
    )
    .with(Placeholders::Any),
    key("fifo", Kind::Bool, Need::Optional("false"), "true", "workers run at real-time priority")
        .with(Placeholders::Any),
    key(
        "keep_awake",
        Kind::Bool,
        Need::Optional("false"),
        "true",
        "keep every CPU from falling asleep by a thread at idle priority",
    )
    .with(Placeholders::Any),
    key(
        "retry",
        Kind::Integer { min: 0, max: 1_000 },
        Need::Default("3"),
        "3",
        "tries after the first for an event that failed in a way that may pass",
    )
    .with(Placeholders::Any),
    key(
        "drain",
        ANY_TIME,
        Need::Default("\"5s\""),
        "\"5s\"",
        "how long what is in flight at the planned end may take",
    )
    .with(Placeholders::Any),
    key(
        "check",
        Kind::Word(checks),
        Need::Optional("quick"),
        "\"full\"",
        "how closely an existing data set is looked at before each load: quick looks at the first and last row and the \
         index of each table, full counts every row, none looks at nothing",
    )
    .with(Placeholders::Any),
    key(
        "answer_max",
        Kind::Form("a size such as \"64MiB\", at least 64KiB"),
        Need::Optional("64MiB"),
        "\"256MiB\"",
        "the longest message, row or value that is accepted from a server; a longer one breaks the connection",
    )
    .with(Placeholders::Any),
    key(
        "connects_at_once",
        Kind::Integer { min: 1, max: 65_536 },
        Need::Default("32"),
        "32",
        "connections opened at a time",
    )
    .with(Placeholders::Any),
    key(
        "max_errors",
        Kind::Percent { max_ratio: 1.0 },
        Need::Default("\"1%\""),
        "\"0%\"",
        "share of events that may fail in a valid run",
    )
    .with(Placeholders::Any),
];
