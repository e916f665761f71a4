//! Which options belong to which kind of target: the command line and plans refuse what could only be ignored.

use crate::target::Target;

/// A kind of target, by what its events are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Transactions.
    Database,
    /// Reading and writing values.
    Cache,
    /// Requests of HTTP.
    Web,
    /// Runs of a command.
    Command,
    /// Nothing.
    Nothing,
}

impl Family {
    /// The family of a target; `None` for a scheme that nobody knows.
    pub fn of(target: &Target) -> Option<Self> {
        match target.scheme() {
            "sqlite" | "mysql" | "postgres" => Some(Self::Database),
            "memcached" | "memcaches" | "memcached+unix" | "redis" | "rediss" | "redis+unix" => {
                Some(Self::Cache)
            }
            "http" | "https" => Some(Self::Web),
            "exec" => Some(Self::Command),
            "null" => Some(Self::Nothing),
            _ => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Database => "databases (sqlite:, mysql:, postgres:)",
            Self::Cache => "caches (memcached:, redis:)",
            Self::Web => "web servers (http:, https:)",
            Self::Command => "commands (exec:)",
            Self::Nothing => "null:",
        }
    }
}

use Family::{Cache, Command, Database, Web};

/// Each option that does not belong to all targets, in the words of the command line.
pub const BELONGS: &[(&str, &[Family])] = &[
    ("script", &[Database]),
    ("define", &[Database]),
    ("tables", &[Database]),
    ("rows", &[Database]),
    ("point-selects", &[Database]),
    ("range-size", &[Database]),
    ("range-selects", &[Database]),
    ("index-updates", &[Database]),
    ("non-index-updates", &[Database]),
    ("delete-inserts", &[Database]),
    ("random-points", &[Database]),
    ("number-of-ranges", &[Database]),
    ("delta", &[Database]),
    ("bulk-rows", &[Database]),
    ("distribution", &[Database]),
    ("skip-trx", &[Database]),
    ("prepared", &[Database]),
    ("prepare", &[Database, Cache]),
    ("check", &[Database]),
    ("answer-max", &[Database, Cache, Web]),
    ("keys", &[Cache]),
    ("sizes", &[Cache]),
    ("mix", &[Cache]),
    ("key-distribution", &[Cache]),
    ("pipeline", &[Cache]),
    ("multi-get", &[Cache]),
    ("ttl", &[Cache]),
    ("command", &[Cache]),
    ("verify", &[Cache, Web]),
    ("connections", &[Database, Cache, Web]),
    ("method", &[Web]),
    ("header", &[Web]),
    ("body", &[Web]),
    ("expect-status", &[Web]),
    ("requests", &[Web]),
    ("http-version", &[Web]),
    ("streams", &[Web]),
    ("ca", &[Web]),
    ("insecure", &[Web]),
    ("cert", &[Web]),
    ("key", &[Web]),
    ("unix-socket", &[Web]),
    ("timeout", &[Web]),
    ("cookies", &[Web]),
    ("data", &[Cache, Web]),
    ("env", &[Command]),
    ("expect-exit", &[Command]),
];

/// Those that say what the workloads of sysbench do, and so say nothing beside a script.
const NOT_WITH_SCRIPT: [&str; 14] = [
    "tables",
    "rows",
    "point-selects",
    "range-size",
    "range-selects",
    "index-updates",
    "non-index-updates",
    "delete-inserts",
    "random-points",
    "number-of-ranges",
    "delta",
    "bulk-rows",
    "distribution",
    "skip-trx",
];
/// Those that say something of TLS.
const ONLY_SECURE: [&str; 4] = ["ca", "insecure", "cert", "key"];
/// Those that say nothing without the other.
const PAIRS: [(&str, &str); 2] = [("cert", "key"), ("key", "cert")];
/// Those that say what the key-value workload does, and so say nothing beside commands.
const NOT_WITH_COMMAND: [&str; 8] =
    ["keys", "sizes", "mix", "key-distribution", "multi-get", "ttl", "verify", "prepare"];
/// Those that a file of requests says itself.
const NOT_WITH_REQUESTS: [&str; 4] = ["method", "header", "body", "expect-status"];

/// The first option that was given and could only be ignored, and why.
///
/// - `is_given`: whether an option was, by its name in [`BELONGS`].
pub fn stranger(target: &Target, is_given: impl Fn(&str) -> bool) -> Option<(&'static str, String)> {
    let family = Family::of(target)?;
    let given = BELONGS.iter().filter(|(name, _)| is_given(name));
    for (name, families) in given {
        if !families.contains(&family) {
            let owners: Vec<&str> = families.iter().map(|f| f.words()).collect();
            return Some((*name, format!("is for {}, not for {}:", owners.join(" and "), target.scheme())));
        }
    }
    let first = |names: &[&'static str]| names.iter().copied().find(|name| is_given(name));
    if target.scheme() == "http"
        && let Some(name) = first(&ONLY_SECURE)
    {
        return Some((name, "is for https:, not for http:".to_owned()));
    }
    if let Some((name, other)) = PAIRS.iter().find(|(name, other)| is_given(name) && !is_given(other)) {
        return Some((*name, format!("needs `{other}`: a client's certificate is two files")));
    }
    if is_given("script")
        && let Some(name) = first(&NOT_WITH_SCRIPT)
    {
        return Some((name, "says nothing to a script, which says all that it does".to_owned()));
    }
    if family == Cache && is_given("data") && !is_given("command") {
        return Some(("data", "needs a command in which its values stand".to_owned()));
    }
    if is_given("command") {
        if target.scheme().starts_with("memcache") {
            return Some(("command", format!("is for Redis (redis:), not for {}:", target.scheme())));
        }
        if let Some(name) = first(&NOT_WITH_COMMAND) {
            return Some((name, "says nothing beside a command, which says all that it does".to_owned()));
        }
    }
    if is_given("requests")
        && let Some(name) = first(&NOT_WITH_REQUESTS)
    {
        return Some((name, "says nothing beside a file of requests, which says it for each".to_owned()));
    }
    if family == Web && is_given("verify") && !is_given("requests") {
        let why = "needs a file of requests that says what their answers must be";
        return Some(("verify", why.to_owned()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_only_be_ignored_is_refused_with_whom_it_is_for() {
        for (target, given, refused) in [
            ("null:", &["verify"][..], Some("verify")),
            ("http://h/", &["env"], Some("env")),
            ("sqlite:/x", &["keys"], Some("keys")),
            ("memcached://h", &["rows"], Some("rows")),
            ("exec:true", &["connections"], Some("connections")),
            ("http://h/", &["ca"], Some("ca")),
            ("http://h/", &["key", "cert"], Some("cert")),
            ("https://h/", &["key"], Some("key")),
            ("https://h/", &["key", "cert", "timeout", "unix-socket", "cookies"], None),
            ("redis://h", &["timeout"], Some("timeout")),
            ("http://h/", &["verify"], Some("verify")),
            ("http://h/", &["requests", "method"], Some("method")),
            ("mysql://h/d", &["script", "rows"], Some("rows")),
            ("mysql://h/d", &["script", "define", "prepared"], None),
            ("https://h/", &["ca", "requests", "verify", "connections"], None),
            ("redis://h", &["keys", "mix", "verify", "prepare"], None),
            ("redis://h", &["command", "pipeline", "connections"], None),
            ("redis://h", &["command", "data"], None),
            ("redis://h", &["data"], Some("data")),
            ("redis://h", &["command", "keys"], Some("keys")),
            ("memcached://h", &["command"], Some("command")),
            ("http://h/", &["command"], Some("command")),
            ("exec:true", &["env", "expect-exit"], None),
            ("unknown:", &["keys"], None),
        ] {
            let found = stranger(&Target::new(target), |name| given.contains(&name));
            assert_eq!(found.as_ref().map(|(name, _)| *name), refused, "{target} {given:?}: {found:?}");
        }
        let (_, why) = stranger(&Target::new("null:"), |name| name == "keys").unwrap();
        assert_eq!(why, "is for caches (memcached:, redis:), not for null:");
    }
}
