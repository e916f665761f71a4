//! The keys of `[load]`: the settings of a load. [`record::load::settings`] has their names, values and
//! defaults.

use record::load::settings::{self, Setting, Values};

use super::kind::{DATA, Key, Kind, Need, Placeholders, WITHOUT_IT_NONE, key};

/// The key of a setting. Placeholders of any factor may stand in it, unless it is a list.
const fn setting(setting: &'static Setting, example: &'static str, meaning: &'static str) -> Key {
    let need = match setting.default {
        Some(default) => Need::Setting { default, is_listed: false },
        None => WITHOUT_IT_NONE,
    };
    let placeholders = match setting.values {
        Values::Texts | Values::Forms(..) => Placeholders::None,
        _ => Placeholders::Any,
    };
    Key { placeholders, ..key(setting.name, Kind::Value(setting.values), need, example, meaning) }
}

/// The key of a setting with a default that `plan explain` and the JSON Schema show too.
const fn listed(setting: &'static Setting, example: &'static str, meaning: &'static str) -> Key {
    let need = Need::Setting { default: setting.default_text(), is_listed: true };
    Key { need, ..self::setting(setting, example, meaning) }
}

impl Key {
    /// Sets the meaning of an absent key, as a sentence.
    const fn absent(self, sentence: &'static str) -> Self {
        Self { need: Need::Optional(sentence), ..self }
    }
}

pub(super) const KEYS: &[Key] = &[
    key(
        "target",
        Kind::Value(Values::Text),
        Need::Required,
        "\"sqlite:{scratch}/bench.db\"",
        "where the load goes",
    )
    .with(Placeholders::Any),
    setting(&settings::WORKLOAD, "\"oltp-read-write\"", "what an event does")
        .absent("native for exec:, http: and null:, kv for caches, else oltp-read-write"),
    listed(&settings::TABLES, "4", "tables of the data set").with(DATA),
    listed(&settings::ROWS, "100000", "rows in each table").with(DATA),
    listed(&settings::POINT_SELECTS, "10", "point selects in a transaction"),
    listed(&settings::RANGE_SIZE, "100", "rows that a range query covers"),
    setting(&settings::RANGE_SELECTS, "false", "whether a transaction has the four range queries"),
    setting(&settings::INDEX_UPDATES, "2", "updates of the indexed column in a transaction"),
    setting(&settings::NON_INDEX_UPDATES, "2", "updates of another column in a transaction"),
    setting(&settings::DELETE_INSERTS, "2", "rows that a transaction deletes and inserts again"),
    setting(&settings::RANDOM_POINTS, "20", "values per statement of select-random-points"),
    setting(&settings::NUMBER_OF_RANGES, "20", "ranges per statement of select-random-ranges"),
    setting(&settings::DELTA, "100", "distance from the start to the end of such a range"),
    setting(&settings::BULK_ROWS, "1000", "rows per statement of bulk-insert"),
    listed(&settings::DISTRIBUTION, "\"uniform\"", "how rows are chosen"),
    listed(&settings::SKIP_TRX, "true", "leave out BEGIN and COMMIT"),
    listed(&settings::PREPARED, "false", "prepare statements on the server"),
    setting(
        &settings::SCRIPT,
        "'''SELECT c FROM sbtest1 WHERE id = 1;'''",
        "the statements of an event, as \
         in a file for `--script`, or the path of a Lua script, relative to the plan's folder \
         (docs/scripts.md); databases only",
    )
    .absent("the statements of `workload`")
    .with(Placeholders::None),
    setting(
        &settings::DEFINE,
        "\"scale={scale}\"",
        "variables of the script, or options of a Lua script, separated by commas",
    ),
    setting(&settings::KEYS, "100000", "number of keys in the cache").with(DATA),
    setting(
        &settings::SIZES,
        "\"1024:1\"",
        "lengths of the cache's values in bytes, with weights; each key has a fixed length",
    )
    .with(DATA),
    setting(&settings::MIX, "\"get=50,set=50\"", "operations on the cache, with weights"),
    setting(&settings::KEY_DISTRIBUTION, "\"uniform\"", "how the cache's keys are chosen"),
    setting(&settings::PIPELINE, "16", "requests in flight per connection to a cache"),
    setting(&settings::MULTI_GET, "10", "keys that an event reads from a cache with one request"),
    setting(&settings::TTL, "\"60s\"", "time to live of values written to a cache").with(DATA),
    setting(
        &settings::COMMAND,
        "[\"GET ${random(1, 1000)}@9\", \"INCR n\"]",
        "Redis commands with weights, instead of reads and writes of values; each event sends one",
    ),
    setting(
        &settings::VERIFY,
        "true",
        "compare all data that is read with the expected data; caches, and web servers with `requests`",
    ),
    setting(&settings::METHOD, "\"POST\"", "method of a web request"),
    setting(&settings::HEADER, "[\"Accept: text/html\"]", "headers of a web request"),
    setting(&settings::BODY, "\"item=1\"", "body of a web request; write a brace twice"),
    setting(&settings::EXPECT_STATUS, "204", "the status that a web request must return")
        .absent("any below 400"),
    setting(
        &settings::REQUESTS,
        "\"{scratch}/requests.toml\"",
        "a file of web requests with weights; its path is relative to the folder in which `run` is started",
    )
    .absent("the file that the target names"),
    setting(
        &settings::HTTP_VERSION,
        "\"1.1\"",
        "version of HTTP; any is HTTP/2 if an https: server supports it, else HTTP/1.1",
    ),
    setting(
        &settings::CA,
        "\"{scratch}/certificate.pem\"",
        "trust the certificates in this file (PEM); https: only",
    )
    .absent("this machine's trusted certificates"),
    setting(&settings::INSECURE, "true", "trust any certificate; https: only"),
    setting(
        &settings::CERT,
        "\"{scratch}/client.pem\"",
        "the client's certificate (PEM), together with `key`; https: only",
    ),
    setting(&settings::KEY, "\"{scratch}/client-key.pem\"", "the private key of `cert` (PEM)"),
    setting(&settings::UNIX_SOCKET, "\"{scratch}/web.sock\"", "connect to this socket; web servers only")
        .absent("the target's host and port"),
    setting(
        &settings::TIMEOUT,
        "\"500ms\"",
        "time limit for the complete answer to a web request; beyond it the request is a `timeout` error",
    ),
    setting(
        &settings::COOKIES,
        "true",
        "each connection to a web server sends back the cookies that it received",
    ),
    setting(&settings::STREAMS, "10", "requests in flight per HTTP/2 connection"),
    setting(
        &settings::DATA,
        "\"{scratch}/users.csv\"",
        "a file of rows (CSV with a header line, or JSON \
         lines); web requests and `command` use its values as `${name}`",
    ),
    setting(&settings::ENV, "[\"LC_ALL=C\"]", "environment variables of an `exec:` command"),
    setting(&settings::EXPECT_EXIT, "1", "the exit status that an `exec:` command must end with"),
    listed(&settings::THREADS, "\"{threads}\"", "workers, each with its own connection"),
    setting(
        &settings::CONNECTIONS,
        "1000",
        "connections of all workers together, in event loops; not with sqlite:, exec: and null:",
    )
    .absent("one per thread"),
    key(
        "rate",
        Kind::Rate,
        Need::Default("\"max\""),
        "500",
        "\"max\": closed loop, as fast as possible; \
         events per second over all threads; shares of the capacity, which bakeoff first measures with a \
         closed loop on the reference, as a sub-plot factor `rate`; or the highest rate at which the \
         reference keeps a promise, which bakeoff first searches for",
    )
    .with(Placeholders::Any),
    listed(&settings::ARRIVALS, "\"poisson\"", "distribution of the due times"),
    listed(
        &settings::JITTER,
        "\"10%\"",
        "with jitter arrivals, the largest shift of an event, as a share of a thread's period",
    ),
    listed(
        &settings::SCHEDULE,
        "\"own\"",
        "which worker takes the next event: any free one (shared), or the one that owns it (own)",
    ),
    listed(
        &settings::LATE,
        "\"skip=100ms\"",
        "what happens to a late event: it starts at once (queue), is \
         dropped (drop), is dropped if it is later than a limit (skip), or starts at a limited catch-up \
         rate (pace)",
    ),
    setting(&settings::THINK, "\"exp:10ms\"", "in a closed loop, a worker's pause after each event"),
    setting(
        &settings::RAMP_UP,
        "\"5s\"",
        "the load rises from zero over this time, before the warm-up; its events do not count",
    ),
    setting(
        &settings::RAMP_DOWN,
        "\"5s\"",
        "the load falls to zero over this time, after the measured phase; its events do not count",
    ),
    setting(
        &settings::SPIN_US,
        "60",
        "workers spin for this many microseconds before a due time; in a \
         closed loop of connections, before they sleep",
    ),
    setting(
        &settings::SPIN_BUDGET,
        "\"0%\"",
        "share of a CPU that workers may spend spinning until the due time after an early wake-up",
    ),
    setting(&settings::FIFO, "true", "workers run at real-time priority"),
    setting(&settings::KEEP_AWAKE, "true", "keep every CPU awake with a thread at idle priority"),
    listed(&settings::RETRY, "3", "retries of an event after a transient error"),
    listed(&settings::DRAIN, "\"5s\"", "time limit for requests in flight at the planned end"),
    setting(
        &settings::CHECK,
        "\"full\"",
        "check of an existing data set before each load: quick checks the \
         first and last row and the index of each table, full counts every row, none checks nothing",
    ),
    setting(
        &settings::ANSWER_MAX,
        "\"256MiB\"",
        "the longest message, row or value that bakeoff accepts \
         from a server; a longer one breaks the connection",
    ),
    listed(&settings::CONNECTS_AT_ONCE, "32", "connections opened at the same time"),
    listed(&settings::MAX_ERRORS, "\"0%\"", "share of events that may fail in a valid run"),
];
