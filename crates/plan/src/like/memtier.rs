//! `memtier_benchmark`: connections to Redis or memcached, on threads.
//!
//! # Source
//!
//! `memtier_benchmark --help` and its man page.

use super::address::{self, path_of, query};
use super::draft::{Draft, Given, literal, seconds, times};
use super::error::LikeError;
use super::options::{Item, Spec, Style, scan, specs};
use super::shell::Said;
use super::translation::RemarkKind;

const OPTIONS: &[Spec] = specs! {
    Value: ["server" "s" "host" "h"] ["port" "p"] ["unix-socket" "S"] ["protocol" "P"] ["uri" "u"]
        ["authenticate" "a"] ["select-db"] ["cert"] ["key"] ["cacert"] ["sni"] ["tls-protocols"]
        ["threads" "t"] ["clients" "c"] ["requests" "n"] ["test-time"] ["run-count" "x"] ["ratio"] ["pipeline"]
        ["rate-limiting"] ["reconnect-interval"] ["multi-key-get"] ["data-size" "d"] ["data-size-range"]
        ["data-size-list"] ["data-size-pattern"] ["data-offset"] ["expiry-range"] ["data-import"] ["key-prefix"]
        ["key-minimum"] ["key-maximum"] ["key-pattern"] ["key-stddev"] ["key-median"] ["key-zipf-exp"]
        ["command"] ["command-ratio"] ["command-key-pattern"] ["wait-ratio"] ["num-slaves"] ["wait-timeout"]
        ["out-file" "o"] ["json-out-file"] ["hdr-file-prefix"] ["client-stats"] ["print-percentiles"]
        ["monitor-input"] ["monitor-pattern"] ["scan-incremental-max-iterations"] ["connection-timeout"]
        ["thread-conn-start-min-jitter-micros"] ["thread-conn-start-max-jitter-micros"] ["statsd-host"]
        ["statsd-port"] ["statsd-prefix"] ["statsd-run-label"] ["graphite-port"] ["max-reconnect-attempts"]
        ["reconnect-backoff-factor"];
    Nothing: ["tls"] ["tls-skip-verify"] ["ipv4" "4"] ["ipv6" "6"] ["cluster-mode"] ["random-data" "R"]
        ["data-verify"] ["verify-only"] ["generate-keys"] ["no-expiry"] ["distinct-client-seed"] ["randomize"]
        ["debug" "D"] ["show-config"] ["hide-histogram"] ["print-all-runs"] ["reconnect-on-error"]
        ["command-stats-breakdown"] ["help"] ["version" "v"];
};

/// Options that concern only what memtier prints or writes.
const LEFT_OUT: &[&str] = &[
    "out-file",
    "json-out-file",
    "hdr-file-prefix",
    "client-stats",
    "print-percentiles",
    "statsd-host",
    "statsd-port",
    "statsd-prefix",
    "statsd-run-label",
    "graphite-port",
    "debug",
    "show-config",
    "hide-histogram",
    "print-all-runs",
    "command-stats-breakdown",
    "random-data",
    "distinct-client-seed",
    "randomize",
    "reconnect-on-error",
    "max-reconnect-attempts",
    "reconnect-backoff-factor",
    "connection-timeout",
    "help",
    "version",
    "sni",
];

/// Options of which bakeoff has no equal.
const MISSING: &[&str] = &[
    "cluster-mode",
    "reconnect-interval",
    "data-offset",
    "data-import",
    "verify-only",
    "generate-keys",
    "no-expiry",
    "wait-ratio",
    "num-slaves",
    "wait-timeout",
    "key-stddev",
    "key-median",
    "key-zipf-exp",
    "monitor-input",
    "monitor-pattern",
    "scan-incremental-max-iterations",
    "tls-protocols",
    "thread-conn-start-min-jitter-micros",
    "thread-conn-start-max-jitter-micros",
];

/// Translates the words after `memtier_benchmark`.
pub(super) fn translate(said: &Said, draft: &mut Draft) -> Result<(), LikeError> {
    let items = scan(draft.tool(), &said.words, OPTIONS, Style::Getopt)?;
    let given = Given::new(&items, draft.tool());
    target(&given, draft)?;
    given.remark_unknown(draft);
    given.remark(draft, RemarkKind::Missing, MISSING, "");
    given.remark(draft, RemarkKind::LeftOut, LEFT_OUT, "");
    given.remark(
        draft,
        RemarkKind::LeftOut,
        &["ipv4", "ipv6"],
        "the address of the host selects IPv4 or IPv6",
    );
    if given.has("command") {
        commands(&given, draft)?;
    } else if fills(&given)? {
        draft.verb(["prepare"]);
        draft.differs(
            "--key-pattern",
            "a load that writes every key once only fills the cache, as `prepare` does",
        );
        fill(&given, draft)?;
        return values(&given, draft);
    } else {
        keys(&given, draft)?;
    }
    pace(&given, draft)
}

/// Whether the line writes each key once, in order, and reads nothing.
fn fills(given: &Given<'_>) -> Result<bool, LikeError> {
    let (set, get) = ratio(given)?;
    let in_order =
        given.value("key-pattern").is_some_and(|pattern| matches!(pattern.as_bytes(), [b'P' | b'S', ..]));
    Ok(get == 0 && set > 0 && in_order && given.value("requests") == Some("allkeys"))
}

/// Options that `prepare` has in no form.
fn fill(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let text = "`prepare` writes values that do not expire";
    given.remark(draft, RemarkKind::Missing, &["expiry-range"], text);
    if given.count("run-count")?.is_some_and(|n| n > 1) {
        given.remark(draft, RemarkKind::Missing, &["run-count"], "`prepare` fills the cache once");
    }
    let text = "`prepare` writes as fast as it can";
    given.remark(draft, RemarkKind::Differs, &["rate-limiting"], text);
    let text = "`prepare` has its own number of connections and of requests on the way";
    given.remark(draft, RemarkKind::LeftOut, &["threads", "clients", "pipeline"], text);
    given.remark(draft, RemarkKind::LeftOut, &["test-time"], "`prepare` ends when each key is written");
    given.remark(draft, RemarkKind::LeftOut, &["data-verify"], "`prepare` reads nothing");
    Ok(())
}

fn target(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let protocol = given.value("protocol").unwrap_or("redis");
    let is_secure = given.has("tls");
    let mut parameters = Vec::new();
    let scheme = match protocol {
        "redis" | "resp2" | "resp3" => {
            parameters.extend(protocol.strip_prefix("resp").map(|version| format!("resp={version}")));
            if is_secure { "rediss" } else { "redis" }
        }
        "memcache_text" => {
            if is_secure {
                "memcaches"
            } else {
                "memcached"
            }
        }
        "memcache_binary" => {
            let text = "bakeoff uses memcached's text protocol, since the binary one is obsolete";
            given.remark(draft, RemarkKind::Missing, &["protocol"], text);
            if is_secure { "memcaches" } else { "memcached" }
        }
        other => {
            return Err(draft.malformed(format!("-P {other}: expected redis, resp2, resp3 or memcache_text")));
        }
    };
    if given.has("tls-skip-verify") && is_secure {
        parameters.push("tls=require".to_owned());
    }
    for (option, name) in [("cacert", "ca"), ("cert", "cert"), ("key", "key")] {
        if let Some(path) = given.value(option) {
            parameters.push(format!("{name}={}", path_of(path)));
        }
    }
    if let Some(uri) = given.value("uri") {
        let query = query(&parameters);
        draft.target(format!("{uri}{}", if uri.contains('?') { query.replacen('?', "&", 1) } else { query }));
        return Ok(());
    }
    let is_redis = scheme.starts_with("redis");
    let db = given.whole("select-db")?.filter(|db| *db > 0 && is_redis);
    if let Some(path) = given.value("unix-socket") {
        parameters.extend(db.map(|db| format!("db={db}")));
        draft.target(format!(
            "{}+unix:{path}{}",
            if is_redis { "redis" } else { "memcached" },
            query(&parameters)
        ));
        return Ok(());
    }
    // memtier's port is that of Redis for both.
    let port = given.value("port").map_or(Ok(6379), |text| address::port(draft, text))?;
    let host = address::host(given.value("server").unwrap_or("localhost"));
    let login = given.value("authenticate").map_or_else(String::new, |text| match text.split_once(':') {
        Some((user, password)) => address::login(Some(user), Some(password)),
        None => address::login(None, Some(text)),
    });
    let db = db.map(|db| format!("/{db}")).unwrap_or_default();
    draft.target(format!("{scheme}://{login}{host}:{port}{db}{}", query(&parameters)));
    Ok(())
}

/// Weights of writes and reads.
fn ratio(given: &Given<'_>) -> Result<(u64, u64), LikeError> {
    let both = |text: &str| {
        let (set, get) = text.split_once(':')?;
        Some((set.parse().ok()?, get.parse().ok()?)).filter(|(set, get): &(u64, u64)| set.max(get) > &0)
    };
    Ok(given.read("ratio", "SET:GET, such as 1:10", both)?.unwrap_or((1, 10)))
}

/// Options of keys, values and their mix.
fn keys(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let (set, get) = ratio(given)?;
    values(given, draft)?;
    draft.put("mix", format!("get={get},set={set}"));
    if get > 0 && set > 0 {
        let text = "memtier's connections repeat one sequence, the writes and then the reads; bakeoff draws each \
             operation at random, in this ratio";
        draft.differs("--ratio", text);
    }
    let pattern = given.value("key-pattern").unwrap_or("R:R");
    let (of_set, of_get) = pattern.split_once(':').unwrap_or((pattern, pattern));
    let used: Vec<&str> =
        [(set, of_set), (get, of_get)].iter().filter(|(n, _)| *n > 0).map(|(_, law)| *law).collect();
    match used[..] {
        ["R"] | ["R", "R"] => draft.put("key-distribution", "uniform"),
        ["Z"] | ["Z", "Z"] => {
            draft.put("key-distribution", "zipfian");
            draft.differs("--key-pattern", "bakeoff's exponent is 0.8; memtier's is --key-zipf-exp");
        }
        _ => {
            let text = "all events use the same --key-distribution: uniform, zipfian, special or pareto";
            given.remark(draft, RemarkKind::Missing, &["key-pattern"], text);
        }
    }
    if let Some(n) = given.whole("multi-key-get")?.filter(|n| *n > 0) {
        draft.put("multi-get", n);
    }
    if let Some((range, written)) = given.last("expiry-range") {
        match range.split_once('-') {
            Some((from, to)) if from == to && from.parse().is_ok_and(|s: u64| s > 0) => {
                draft.put("ttl", format!("{from}s"));
            }
            _ => draft.missing(written, "every value has the same time to live (--ttl)"),
        }
    }
    if given.has("data-verify") {
        draft.flag("verify");
    }
    draft.put("prepare", "never");
    draft.differs(
        "filling",
        "like memtier, bakeoff does not fill the cache first: reads of keys that were never written are \
         misses",
    );
    Ok(())
}

/// Number of keys and lengths of values.
fn values(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let first = given.whole("key-minimum")?.unwrap_or(0);
    let last = given.whole("key-maximum")?.unwrap_or(10_000_000);
    let keys = last.checked_sub(first).and_then(|n| n.checked_add(1));
    let keys = keys.ok_or_else(|| draft.malformed("--key-minimum exceeds --key-maximum"))?;
    draft.put("keys", keys);
    let text = "bakeoff chooses the names of the keys, of 18 bytes; memtier's are a prefix and a number without \
         zeros before it, by default of 9 to 16 bytes";
    draft.differs("keys", text);
    given.remark(
        draft,
        RemarkKind::Differs,
        &["key-prefix", "key-minimum"],
        "it changes no key of bakeoff's",
    );
    let sizes = match (given.value("data-size-list"), given.value("data-size-range")) {
        (Some(list), _) => {
            let class = |class: &str| class.split_once(':').map(|(n, weight)| format!("{n}-{n}:{weight}"));
            list.split(',').map(class).collect::<Option<Vec<_>>>().map(|all| all.join(","))
        }
        (None, Some(range)) => range.split_once('-').map(|(from, to)| format!("{from}-{to}:1")),
        (None, None) => {
            let n = given.whole("data-size")?.unwrap_or(32);
            Some(format!("{n}-{n}:1"))
        }
    };
    let sizes = sizes.ok_or_else(|| draft.malformed("sizes: expected MIN-MAX or SIZE:WEIGHT,SIZE:WEIGHT"))?;
    if let Err(problem) = record::requests::KvSettings::parse_sizes(&sizes) {
        draft.missing("--data-size", &problem);
    } else {
        draft.put("sizes", sizes);
    }
    given.remark(
        draft,
        RemarkKind::Differs,
        &["data-size-pattern"],
        "bakeoff gives each key's value a random length",
    );
    Ok(())
}

/// Arbitrary commands, with memtier's placeholders.
fn commands(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let (first, last) =
        (given.whole("key-minimum")?.unwrap_or(0), given.whole("key-maximum")?.unwrap_or(10_000_000));
    let bytes = given.whole("data-size")?.unwrap_or(32);
    let prefix = given.value("key-prefix").unwrap_or("memtier-");
    let weighted = weighted(given);
    if weighted.len() > 1 {
        let text = "memtier's connections repeat one sequence of the commands; bakeoff draws each one at random, in \
             this ratio";
        draft.differs("--command-ratio", text);
    }
    for (command, written, weight) in weighted {
        if command.contains("__monitor") {
            draft.missing(written, "bakeoff does not read the output of MONITOR");
        }
        let command = literal(command).replace("__key__", &format!("{prefix}${{random({first}, {last})}}"));
        if command.contains("__data__") {
            let text = "bakeoff sends the same text for __data__ each time; memtier varies it";
            let text_of_list = "for __data__, bakeoff has one length: give it with --data-size";
            let lengths = ["data-size-range", "data-size-list"];
            given.remark(draft, RemarkKind::Missing, &lengths, text_of_list);
            if bytes > 4_096 {
                draft.missing("__data__", "too long for the command line");
            } else {
                draft.differs("__data__", text);
            }
        }
        let data = "x".repeat(usize::try_from(bytes.min(4_096)).unwrap_or(0));
        draft.put("command", format!("{}@{weight}", command.replace("__data__", &data)));
    }
    if given.all("command-key-pattern").any(|(pattern, _)| pattern != "R") {
        let text = "keys are drawn uniformly; write ${random_zipfian(...)} or ${random_gaussian(...)} into --command";
        given.remark(draft, RemarkKind::Missing, &["command-key-pattern"], text);
    }
    Ok(())
}

/// Commands, their written forms, and the ratio that follows each.
fn weighted<'a>(given: &Given<'a>) -> Vec<(&'a str, &'a str, &'a str)> {
    let mut commands = Vec::new();
    for item in given.items() {
        match item {
            Item::Option { name: "command", written, value } => {
                commands.push((value.as_str(), written.as_str(), "1"));
            }
            Item::Option { name: "command-ratio", value, .. } => {
                if let Some((_, _, weight)) = commands.last_mut() {
                    *weight = value;
                }
            }
            _ => {}
        }
    }
    commands
}

fn pace(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let threads = given.count("threads")?.unwrap_or(4);
    let connections = times(draft, given.count("clients")?.unwrap_or(50), threads)?;
    draft.put("connections", connections);
    draft.put("threads", threads);
    draft.put("retry", 0);
    if let Some(n) = given.count("pipeline")?.filter(|n| *n > 1) {
        draft.put("pipeline", n);
    }
    if let Some(per_s) = given.count("rate-limiting")? {
        draft.put("rate", times(draft, per_s, connections)?);
        draft.put("arrivals", "period");
        let text = "memtier limits each connection, in bursts of 20 ms or more; bakeoff spreads the total \
             rate evenly";
        draft.differs("--rate-limiting", text);
    }
    if let Some(time) = given.read("test-time", "seconds", seconds)?.filter(|time| !time.is_zero()) {
        draft.duration("time", time);
        draft.warms_up();
    } else {
        let requests = match given.value("requests") {
            Some("allkeys") => {
                draft.missing("-n allkeys", "give the number of events");
                1
            }
            _ => given.count("requests")?.unwrap_or(10_000),
        };
        draft.put("events", times(draft, requests, connections)?);
        draft.put("warmup", "0s");
        draft.differs(
            "-n",
            "bakeoff's connections share the events; in memtier each client has its own number",
        );
    }
    if given.count("run-count")?.is_some_and(|n| n > 1) {
        given.remark(draft, RemarkKind::Missing, &["run-count"], "repeat the load, or write a plan");
    }
    Ok(())
}
