//! pgbench: `pgbench [OPTIONS] [DATABASE]`.
//!
//! # Source
//!
//! PostgreSQL documentation, pgbench.

use std::time::Duration;

use super::address::{self, path_of, query};
use super::draft::{Draft, Given, encoded, seconds, times};
use super::error::LikeError;
use super::options::{Spec, Style, scan, specs};
use super::shell::Said;
use super::translation::RemarkKind;

const OPTIONS: &[Spec] = specs! {
    Value: ["client" "c"] ["jobs" "j"] ["time" "T"] ["transactions" "t"] ["rate" "R"] ["latency-limit" "L"]
        ["file" "f"] ["builtin" "b"] ["protocol" "M"] ["scale" "s"] ["define" "D"] ["progress" "P"]
        ["host" "h"] ["port" "p"] ["username" "U"] ["dbname" "d"] ["max-tries"] ["random-seed"] ["sampling-rate"]
        ["aggregate-interval"] ["log-prefix"] ["fillfactor" "F"] ["init-steps" "I"] ["tablespace"]
        ["index-tablespace"] ["partitions"] ["partition-method"];
    Nothing: ["select-only" "S"] ["skip-some-updates" "N"] ["connect" "C"] ["log" "l"] ["no-vacuum" "n"]
        ["vacuum-all" "v"] ["report-per-command" "r"] ["report-latencies"] ["initialize" "i"] ["quiet" "q"]
        ["progress-timestamp"] ["failures-detailed"] ["verbose-errors"] ["exit-on-abort"] ["debug"]
        ["foreign-keys"] ["unlogged-tables"] ["continue-on-error"];
};

/// Options that concern only what pgbench prints or writes.
const LEFT_OUT: &[&str] = &[
    "sampling-rate",
    "aggregate-interval",
    "log-prefix",
    "report-per-command",
    "report-latencies",
    "quiet",
    "progress-timestamp",
    "failures-detailed",
    "verbose-errors",
    "debug",
    "continue-on-error",
];

/// Options of `pgbench -i`.
const OF_INIT: &[&str] = &[
    "fillfactor",
    "init-steps",
    "tablespace",
    "index-tablespace",
    "partitions",
    "partition-method",
    "foreign-keys",
    "unlogged-tables",
];

/// Translates the words after `pgbench`.
pub(super) fn translate(said: &Said, draft: &mut Draft) -> Result<(), LikeError> {
    let items = scan(draft.tool(), &said.words, OPTIONS, Style::Getopt)?;
    let given = Given::new(&items, draft.tool());
    if given.has("initialize") {
        return Err(LikeError::NotALoad {
            tool: "pgbench",
            what: "`-i` (building its tables)".to_owned(),
            instead: "run it with pgbench itself: bakeoff's scripts then use these tables",
        });
    }
    target(said, &given, draft)?;
    scripts(&given, draft)?;
    let clients = given.count("client")?.unwrap_or(1);
    draft.put("connections", clients);
    draft.put("threads", given.count("jobs")?.unwrap_or(1).min(clients));
    let rate = given.rate("rate")?;
    if let Some(per_s) = rate {
        draft.put("rate", per_s);
        draft.put("arrivals", "poisson");
    }
    late(&given, draft, rate.is_some())?;
    length(&given, draft, clients)?;
    match given.value("protocol").unwrap_or("simple") {
        "simple" => draft.put("prepared", "no"),
        "prepared" => draft.put("prepared", "yes"),
        _ => {
            let text = "bakeoff prepares statements once (--prepared yes) or sends them as text (no)";
            given.remark(draft, RemarkKind::Missing, &["protocol"], text);
        }
    }
    let tries = given.whole("max-tries")?.unwrap_or(1);
    if tries == 0 {
        given.remark(draft, RemarkKind::Differs, &["max-tries"], "bakeoff tries at most 1,001 times");
    }
    draft.put("retry", if tries == 0 { 1_000 } else { tries - 1 });
    if let Some(s) = given.count("progress")? {
        draft.put("interval", format!("{s}s"));
    }
    seed(&given, draft);
    rest(&given, draft);
    Ok(())
}

fn rest(given: &Given<'_>, draft: &mut Draft) {
    given.remark(draft, RemarkKind::LeftOut, LEFT_OUT, "");
    given.remark(
        draft,
        RemarkKind::LeftOut,
        &["log"],
        "--log FILE.parquet writes a row for each transaction",
    );
    given.remark(
        draft,
        RemarkKind::Missing,
        &["connect"],
        "bakeoff keeps its connections open for the whole load",
    );
    given.remark(draft, RemarkKind::Missing, &["vacuum-all"], "run VACUUM before the load");
    given.remark(draft, RemarkKind::Differs, &["exit-on-abort"], "bakeoff goes on after errors");
    if !given.has("continue-on-error") {
        let text = "a client of pgbench ends at an error that it does not retry; bakeoff counts the error and goes on";
        draft.differs("errors", text);
    }
    given.remark(draft, RemarkKind::LeftOut, OF_INIT, "it concerns `pgbench -i` only");
    if !given.has("no-vacuum") && !given.has("file") {
        draft.differs(
            "VACUUM",
            "pgbench vacuums its tables and empties pgbench_history first; bakeoff does not",
        );
    }
    given.remark_unknown(draft);
}

/// The server, from options, from variables before the command, or from libpq's defaults.
fn target(said: &Said, given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    if let Some((_, written)) = given.last("dbname").filter(|(name, _)| name.starts_with('-')) {
        let problem = "expected a database; before version 17, -d is --debug: leave it out";
        return Err(draft.malformed(format!("{written}: {problem}")));
    }
    if let Some(word) = given.words().nth(1) {
        return Err(draft.malformed(format!("`{word}`: expected one database")));
    }
    settings_of_libpq(said, draft);
    let name = given.words().next().or_else(|| given.value("dbname"));
    if let Some(url) =
        name.and_then(|n| n.strip_prefix("postgresql://").or_else(|| n.strip_prefix("postgres://")))
    {
        return url_target(url, said, given, draft);
    }
    // A connection string: `host=h dbname=d`.
    let pairs = name.filter(|name| name.contains('=')).unwrap_or_default();
    let pairs: Vec<(&str, &str)> = pairs.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
    for (name, _) in &pairs {
        if !IN_STRING.contains(name) {
            draft.missing(name, "bakeoff does not know this keyword");
        }
    }
    let pair = |wanted: &str| {
        let found = pairs.iter().rev().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| value.trim_matches('\''))
    };
    let of = |name: &str, option: &str, variable: &str| {
        pair(name).or_else(|| given.value(option)).or_else(|| said.variable(variable)).map(str::to_owned)
    };
    let host = of("host", "host", "PGHOST").filter(|host| !host.is_empty());
    let user = of("user", "username", "PGUSER");
    let port = of("port", "port", "PGPORT");
    if let Some(port) = &port {
        address::port(draft, port)?;
    }
    let database = pair("dbname").or(name.filter(|_| pairs.is_empty())).map(str::to_owned);
    let database =
        database.or_else(|| said.variable("PGDATABASE").map(str::to_owned)).or_else(|| user.clone());
    let password = pair("password").or_else(|| said.variable("PGPASSWORD")).map(str::to_owned);
    let host = host.unwrap_or_else(|| usual_host(draft).to_owned());
    if user.is_none() || database.is_none() {
        draft.differs("user", USUAL_USER);
    }
    let mode = pair("sslmode").map(|mode| ("sslmode", mode)).or_else(|| mode_of_variable(said));
    address::tls_of_libpq(draft, &host, mode);
    let host = address::host(&host);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let login = address::login(user.as_deref(), password.as_deref());
    let parameter = |(name, variable): &(&str, &str)| {
        Some(format!("{name}={}", path_of(pair(name).or_else(|| said.variable(variable))?)))
    };
    let parameters: Vec<String> = PARAMETERS.iter().filter_map(parameter).collect();
    let database = database.map(|name| encoded(&name)).unwrap_or_default();
    draft.target(format!("postgres://{login}{host}{port}/{database}{}", query(&parameters)));
    Ok(())
}

const USUAL_USER: &str = "without a user or database, libpq uses the operating system's user name";

/// The host if none is named, with a remark.
fn usual_host(draft: &mut Draft) -> &'static str {
    let text = "libpq uses its built-in socket folder; this target names Debian's, /var/run/postgresql";
    draft.differs("host", text);
    "/var/run/postgresql"
}

/// The server of a URL. The options and the variables apply to the parts that the URL lacks.
fn url_target(url: &str, said: &Said, given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    // The login ends where `Target` masks it.
    let authority_end = url.find(['/', '?']).unwrap_or(url.len());
    let at = url[..authority_end].rfind('@').or_else(|| url.rfind('@'));
    let (login, rest) = at.map_or(("", url), |at| (&url[..at], &url[at + 1..]));
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parameters: Vec<String> =
        parameters.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
    let (host, database) = place.split_once('/').unwrap_or((place, ""));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (host, port) = match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => (&host[..at], &host[at + 1..]),
        _ => (host, ""),
    };
    if host.contains(',') {
        draft.missing(host, "libpq takes the first of several hosts that answers; name one");
    }
    // A part of the URL, or the option or variable, if no parameter of the URL has it.
    let part = |part: &str, parameter: &str, option: &str, variable: &str| {
        let has_parameter = parameters.iter().any(|pair| pair.split('=').next() == Some(parameter));
        let other =
            || given.value(option).or_else(|| said.variable(variable)).filter(|text| !text.is_empty());
        if part.is_empty() && !has_parameter { (true, other()) } else { (false, None) }
    };
    let user = match part(user, "user", "username", "PGUSER") {
        (true, other) => other.map(encoded),
        _ => Some(user.to_owned()),
    };
    let password = match part(password, "password", "", "PGPASSWORD") {
        (true, other) => other.map(encoded),
        _ => Some(password.to_owned()).filter(|password| !password.is_empty()),
    };
    let host = match part(host, "host", "host", "PGHOST") {
        (true, other) => address::host(other.unwrap_or_else(|| usual_host(draft))),
        _ => host.to_owned(),
    };
    let other_port = part(port, "port", "port", "PGPORT").1;
    if let Some(port) = other_port {
        address::port(draft, port)?;
    }
    let database = match part(database, "dbname", "", "PGDATABASE") {
        (true, other) => other.map(encoded).or_else(|| user.clone()),
        _ => Some(database.to_owned()),
    };
    if user.is_none() || database.is_none() {
        draft.differs("user", USUAL_USER);
    }
    let at = if user.is_some() || password.is_some() { "@" } else { "" };
    let password = password.map(|password| format!(":{password}")).unwrap_or_default();
    let login = format!("{}{password}{at}", user.unwrap_or_default());
    let port = match (port, other_port) {
        ("", Some(other)) if host.is_empty() => {
            parameters.push(format!("port={other}"));
            String::new()
        }
        ("", None) => String::new(),
        (port, other) => format!(":{}", other.unwrap_or(port)),
    };
    let place = format!("{login}{host}{port}/{}", database.unwrap_or_default());
    tls_of_url(&format!("{place}{}", query(&parameters)), said, draft);
    for (name, variable) in PARAMETERS {
        let has = parameters.iter().any(|pair| pair.split('=').next() == Some(name));
        if let Some(value) = said.variable(variable).filter(|_| !has) {
            parameters.push(format!("{name}={}", path_of(value)));
        }
    }
    draft.target(format!("postgres://{place}{}", query(&parameters)));
    Ok(())
}

/// Remarks on TLS of a URL: its host and its mode may be parameters.
fn tls_of_url(url: &str, said: &Said, draft: &mut Draft) {
    let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
    let parameter = |wanted: &str| {
        let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
    };
    let authority = place.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty());
    // Without a host, libpq uses its socket.
    let host = host.or_else(|| parameter("host")).unwrap_or("/");
    let mode = parameter("sslmode").map(|mode| ("sslmode", mode)).or_else(|| mode_of_variable(said));
    address::tls_of_libpq(draft, host, mode);
}

/// The mode of TLS in the variable of libpq.
fn mode_of_variable(said: &Said) -> Option<(&'static str, &str)> {
    said.variable("PGSSLMODE").map(|mode| ("PGSSLMODE", mode))
}

/// Keywords of a connection string that become parts of the target, or change nothing.
const IN_STRING: [&str; 14] = [
    "host",
    "port",
    "user",
    "dbname",
    "password",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "options",
    "application_name",
    "fallback_application_name",
    "connect_timeout",
    "passfile",
];

/// Keywords of libpq that are parameters of the target, and their variables.
const PARAMETERS: [(&str, &str); 5] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("options", "PGOPTIONS"),
];

/// Remarks on the variables of libpq that may change the session and have no equal.
fn settings_of_libpq(said: &Said, draft: &mut Draft) {
    const USED: [&str; 5] = ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD"];
    const IDLE: [&str; 3] = ["PGAPPNAME", "PGCONNECT_TIMEOUT", "PGPASSFILE"];
    let is_known = |name: &str| {
        USED.contains(&name)
            || IDLE.contains(&name)
            || PARAMETERS.iter().any(|(_, variable)| *variable == name)
    };
    for (name, _) in said.variables.iter().filter(|(name, _)| name.starts_with("PG") && !is_known(name)) {
        draft.missing(name, "bakeoff does not know this variable of libpq");
    }
}

/// Scripts of the user or of pgbench, and their variables.
fn scripts(given: &Given<'_>, draft: &mut Draft) -> Result<(), LikeError> {
    let mut has_builtin = false;
    for (name, _) in given.all("builtin") {
        let (name, weight) = name.split_once('@').map_or((name, None), |(name, weight)| (name, Some(weight)));
        let known = SCRIPTS.iter().filter(|(known, _)| known.starts_with(name)).collect::<Vec<_>>();
        let [(known, _)] = known[..] else {
            let problem = "expected tpcb-like, simple-update or select-only";
            return Err(draft.malformed(format!("-b {name}: {problem}")));
        };
        let weight = weight.map(|weight| format!("@{weight}")).unwrap_or_default();
        draft.put("script", format!("{BUILTIN}{known}{weight}"));
        has_builtin = true;
    }
    for (option, known) in [("select-only", "select-only"), ("skip-some-updates", "simple-update")] {
        if given.has(option) {
            draft.put("script", format!("{BUILTIN}{known}"));
            has_builtin = true;
        }
    }
    for (file, written) in given.all("file") {
        if file == "-" {
            draft.missing(written, "write the script into a file");
        }
        draft.put("script", file);
    }
    if !has_builtin && !given.has("file") {
        draft.put("script", format!("{BUILTIN}tpcb-like"));
        has_builtin = true;
    }
    match given.count("scale")? {
        Some(_) if has_builtin => {
            let text = "pgbench ignores it beside its own scripts, and so does bakeoff: both use the number of rows \
                 in pgbench_branches";
            given.remark(draft, RemarkKind::LeftOut, &["scale"], text);
        }
        Some(scale) => draft.put("define", format!("scale={scale}")),
        None => {}
    }
    for (define, _) in given.all("define") {
        draft.put("define", define);
    }
    Ok(())
}

/// Transactions that are later than the limit.
fn late(given: &Given<'_>, draft: &mut Draft, is_open: bool) -> Result<(), LikeError> {
    let ms = |text: &str| text.parse().ok().and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok());
    let Some(limit) = given.read("latency-limit", "milliseconds", ms)? else { return Ok(()) };
    if is_open {
        draft.put("late", format!("skip={}", record::quantity::written_duration(limit)));
    } else {
        let text = "without -R, pgbench only counts late transactions; see the percentiles";
        given.remark(draft, RemarkKind::LeftOut, &["latency-limit"], text);
    }
    Ok(())
}

/// Length of the load: a time, or a number of transactions of each client.
fn length(given: &Given<'_>, draft: &mut Draft, clients: u64) -> Result<(), LikeError> {
    if let Some(time) = given.read("time", "seconds from 1", |text| seconds(text).filter(|t| !t.is_zero()))? {
        draft.duration("time", time);
        draft.warms_up();
        return Ok(());
    }
    // Each client does 10 transactions by default.
    let events = times(draft, given.count("transactions")?.unwrap_or(10), clients)?;
    draft.put("events", events);
    draft.put("warmup", "0s");
    draft.differs("-t", "bakeoff's connections share the events; in pgbench each client has its own number");
    Ok(())
}

fn seed(given: &Given<'_>, draft: &mut Draft) {
    match given.last("random-seed") {
        Some(("time" | "rand", written)) => draft.has_fixed_seed(written),
        Some((seed, _)) => draft.put("seed", seed),
        None => draft.has_fixed_seed("--random-seed"),
    }
}

/// Prefix of the names of pgbench's scripts.
const BUILTIN: &str = "builtin-";

/// Parts of pgbench's scripts, in the words of its manual.
macro_rules! part {
    (draw_account) => {
        "\\set aid random(1, 100000 * :scale)\n"
    };
    (draw_others) => {
        "\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)\n"
    };
    (read) => {
        "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
    };
    (change) => {
        "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
    };
    (change_others) => {
        "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n"
    };
    (write) => {
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n"
    };
}

/// pgbench's scripts by name.
const SCRIPTS: [(&str, &str); 3] = [
    (
        "tpcb-like",
        concat!(
            part!(draw_account),
            part!(draw_others),
            "BEGIN;\n",
            part!(change),
            part!(read),
            part!(change_others),
            part!(write),
            "END;\n"
        ),
    ),
    (
        "simple-update",
        concat!(
            part!(draw_account),
            part!(draw_others),
            "BEGIN;\n",
            part!(change),
            part!(read),
            part!(write),
            "END;\n"
        ),
    ),
    ("select-only", concat!(part!(draw_account), part!(read))),
];

/// Text of one of pgbench's scripts, by `builtin-NAME`.
pub fn script(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix(BUILTIN)?;
    SCRIPTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
