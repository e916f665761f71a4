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
    key("target", Kind::Value(Values::Text), Need::Required, "\"sqlite:{scratch}/bench.db\"", "where the load goes").with(Placeholders::Any),
    setting(&settings::WORKLOAD, "\"oltp-read-write\"", "what an event does").absent("native for exec:, http: and null:, kv for caches, else oltp-read-write"),
    listed(&settings::TABLES, "4", "tables of the data set").with(DATA),
    listed(&settings::ROWS, "100000", "rows in each table").with(DATA),
    listed(&settings::POINT_SELECTS, "10", "point selects in a transaction"),
    listed(&settings::RANGE_SIZE, "100", "rows that a range query covers"),
    setting(&settings::RANGE_SELECTS, "false", "whether a transaction has the four range queries"),
    setting(&settings::INDEX_UPDATES, "2", "updates of the indexed column in a transaction"),
    setting(&settings::NON_INDEX_UPDATES, "2", "updates of another column in a transaction"),
    setting(&settings::DELETE_INSERTS, "2", "rows that a transaction deletes and inserts again"),
    setting(&settings::RANDOM_POINTS, "20", "values that a statement of select-random-points asks for"),
    setting(&settings::NUMBER_OF_RANGES, "20", "ranges that a statement of select-random-ranges counts"),
    setting(&settings::DELTA, "100", "how far the end of such a range is from its beginning"),
    setting(&settings::BULK_ROWS, "1000", "rows that a statement of bulk-insert adds"),
    listed(&settings::DISTRIBUTION, "\"uniform\"", "how rows are chosen"),
    listed(&settings::SKIP_TRX, "true", "leave out BEGIN and COMMIT"),
    listed(&settings::PREPARED, "false", "prepare statements on the server"),
    setting(&settings::SCRIPT, "'''SELECT c FROM sbtest1 WHERE id = 1;'''", "the statements that an event does, as `--script` has them in a file, or the path of a script in Lua, relative to the plan's folder (docs/scripts.md); databases only").absent("what `workload` says").with(Placeholders::None),
    setting(&settings::DEFINE, "\"scale={scale}\"", "variables of the script, or options of a script in Lua, separated by commas"),
    setting(&settings::KEYS, "100000", "keys of a cache").with(DATA),
    setting(&settings::SIZES, "\"1024:1\"", "lengths of its values in bytes, with weights; each key has its own").with(DATA),
    setting(&settings::MIX, "\"get=50,set=50\"", "what events do to it"),
    setting(&settings::KEY_DISTRIBUTION, "\"uniform\"", "how its keys are chosen"),
    setting(&settings::PIPELINE, "16", "requests that a connection to a cache may have in flight at a time"),
    setting(&settings::MULTI_GET, "10", "keys of a cache that an event reads with one request"),
    setting(&settings::TTL, "\"60s\"", "how long values live that are written to a cache").with(DATA),
    setting(&settings::COMMAND, "[\"GET ${random(1, 1000)}@9\", \"INCR n\"]", "commands for Redis in place of reading and writing values, with weights; an event sends one"),
    setting(&settings::VERIFY, "true", "compare everything that is read with what must be there; caches, and web servers with `requests`"),
    setting(&settings::METHOD, "\"POST\"", "method of a web request"),
    setting(&settings::HEADER, "[\"Accept: text/html\"]", "headers of a web request"),
    setting(&settings::BODY, "\"item=1\"", "body of a web request; a brace is written twice"),
    setting(&settings::EXPECT_STATUS, "204", "the status that a web request must end with").absent("any below 400"),
    setting(&settings::REQUESTS, "\"{scratch}/requests.toml\"", "a file of web requests with weights; its path is relative to where `run` is started").absent("the one that the target names"),
    setting(&settings::HTTP_VERSION, "\"1.1\"", "version of HTTP; any is HTTP/2 where an https: server has it, else HTTP/1.1"),
    setting(&settings::CA, "\"{scratch}/certificate.pem\"", "trust the certificates in this file (PEM); https: only").absent("what this machine trusts"),
    setting(&settings::INSECURE, "true", "trust any certificate; https: only"),
    setting(&settings::CERT, "\"{scratch}/client.pem\"", "the client's own certificate (PEM), beside `key`; https: only"),
    setting(&settings::KEY, "\"{scratch}/client-key.pem\"", "the private key of `cert` (PEM)"),
    setting(&settings::UNIX_SOCKET, "\"{scratch}/web.sock\"", "connect to this socket; web servers only").absent("the target's host and port"),
    setting(&settings::TIMEOUT, "\"500ms\"", "give up a web request without a whole answer after this time; it is a `timeout` error"),
    setting(&settings::COOKIES, "true", "each connection to a web server sends the cookies that it was given"),
    setting(&settings::STREAMS, "10", "requests that a connection of HTTP/2 may have in flight at a time"),
    setting(&settings::DATA, "\"{scratch}/users.csv\"", "a file of rows (CSV with a line of names, or JSON lines) whose values stand in web requests and `command` as `${name}`"),
    setting(&settings::ENV, "[\"LC_ALL=C\"]", "variables of the environment of an `exec:` command"),
    setting(&settings::EXPECT_EXIT, "1", "the exit status that an `exec:` command must end with"),
    listed(&settings::THREADS, "\"{threads}\"", "workers, each with a connection of its own"),
    setting(&settings::CONNECTIONS, "1000", "connections of all workers together, in event loops; not with sqlite:, exec: and null:").absent("one for each of the threads"),
    key("rate", Kind::Rate, Need::Default("\"max\""), "500", "\"max\": closed loop, as fast as it goes; events per second over all threads; shares of the capacity, which a closed \
         loop on the reference finds first, as a sub-plot factor `rate`; or the highest rate that keeps a promise on the \
         reference, found first by a search").with(Placeholders::Any),
    listed(&settings::ARRIVALS, "\"poisson\"", "how due times are spread"),
    listed(&settings::JITTER, "\"10%\"", "with jitter arrivals, how far an event moves: a share of a thread's period"),
    listed(&settings::SCHEDULE, "\"own\"", "who takes the next event: any free worker, or its owner"),
    listed(&settings::LATE, "\"skip=100ms\"", "what happens to a late event: it starts at once, is given up, is given up when later than that, or waits for its turn"),
    setting(&settings::THINK, "\"exp:10ms\"", "in a closed loop, how long a worker rests after each event"),
    setting(&settings::RAMP_UP, "\"5s\"", "the load rises from nothing over this time, before the warm-up; nothing of it counts"),
    setting(&settings::RAMP_DOWN, "\"5s\"", "the load falls to nothing over this time, after the measured phase; nothing of it counts"),
    setting(&settings::SPIN_US, "60", "workers spin this many microseconds before a due time; in a closed loop of connections, before they sleep"),
    setting(&settings::SPIN_BUDGET, "\"0%\"", "share of a CPU that workers may spin, so as to be on time, after they were woken early"),
    setting(&settings::FIFO, "true", "workers run at real-time priority"),
    setting(&settings::KEEP_AWAKE, "true", "keep every CPU from falling asleep by a thread at idle priority"),
    listed(&settings::RETRY, "3", "tries after the first for an event that failed in a way that may pass"),
    listed(&settings::DRAIN, "\"5s\"", "how long what is in flight at the planned end may take"),
    setting(&settings::CHECK, "\"full\"", "how closely an existing data set is looked at before each load: quick looks at the first and last row and the \
         index of each table, full counts every row, none looks at nothing"),
    setting(&settings::ANSWER_MAX, "\"256MiB\"", "the longest message, row or value that is accepted from a server; a longer one breaks the connection"),
    listed(&settings::CONNECTS_AT_ONCE, "32", "connections opened at a time"),
    listed(&settings::MAX_ERRORS, "\"0%\"", "share of events that may fail in a valid run"),
];
