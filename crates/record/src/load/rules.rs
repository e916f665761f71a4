//! Rules between settings of a load: the targets that a setting applies to, and the settings that it needs or
//! excludes.
//!
//! The command line, plans and the engine share one wording; each provides its notation of setting names. A
//! setting that would have no effect is refused.

use std::fmt::Write as _;

use super::choices::Workload;
pub use super::family::Family;
use super::family::Family::{Cache, Database, Web};
use super::settings::{self, Setting};
use crate::target::Target;

/// Rule between settings.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Limited settings.
    pub settings: &'static [&'static str],
    /// Only kind of target to which the rule applies; `None`: all.
    pub family: Option<Family>,
    /// Relation to other settings.
    pub relation: Relation,
    /// Reason, as a clause.
    pub because: &'static str,
}

/// Relation of a setting to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// At least one of these must be given too.
    Needs(&'static [&'static str]),
    /// Exclusion of this setting.
    Excludes(&'static str),
    /// Lower bound, the value of this setting.
    AtLeast(&'static str),
}

use Relation::{AtLeast, Excludes, Needs};

/// Rules that depend on which settings are given, not on their values. The first broken rule is reported.
pub const RULES: &[Rule] = &[
    Rule {
        settings: &["define"],
        family: None,
        relation: Needs(&["script"]),
        because: "only scripts have variables",
    },
    Rule {
        settings: &["cert"],
        family: None,
        relation: Needs(&["key"]),
        because: "a client certificate needs both files",
    },
    Rule {
        settings: &["key"],
        family: None,
        relation: Needs(&["cert"]),
        because: "a client certificate needs both files",
    },
    Rule {
        settings: &["ca"],
        family: None,
        relation: Excludes("insecure"),
        because: "one trusts only some certificates, the other trusts all",
    },
    Rule {
        settings: &[
            "workload",
            "tables",
            "rows",
            "point_selects",
            "range_size",
            "range_selects",
            "index_updates",
            "non_index_updates",
            "delete_inserts",
            "random_points",
            "number_of_ranges",
            "delta",
            "bulk_rows",
            "distribution",
            "skip_trx",
        ],
        family: None,
        relation: Excludes("script"),
        because: "a script defines the whole event",
    },
    Rule {
        settings: &["data"],
        family: Some(Cache),
        relation: Needs(&["command"]),
        because: "only commands can use its values",
    },
    Rule {
        settings: &[
            "workload",
            "keys",
            "sizes",
            "mix",
            "key_distribution",
            "multi_get",
            "ttl",
            "verify",
            "prepare",
        ],
        family: Some(Cache),
        relation: Excludes("command"),
        because: "a command defines the whole event",
    },
    Rule {
        settings: &["method", "header", "body", "expect_status"],
        family: None,
        relation: Excludes("requests"),
        because: "the requests file defines it for each request",
    },
    Rule {
        settings: &["verify"],
        family: Some(Web),
        relation: Needs(&["requests"]),
        because: "the requests file defines the expected answers",
    },
    Rule {
        settings: &["ramp_down"],
        family: None,
        relation: Excludes("events"),
        because: "the load ends after the last event",
    },
];

/// Settings that only an open loop has.
pub const OPEN_LOOP: Rule = Rule {
    settings: &["arrivals", "jitter", "schedule", "late", "fifo", "spin_budget"],
    family: None,
    relation: Needs(&["rate"]),
    because: "without a rate the loop is closed, and no event has a due time",
};
/// Two sources of the rate.
pub const TWO_RATES: Rule = Rule {
    settings: &["arrivals"],
    family: None,
    relation: Excludes("rate"),
    because: "these arrivals define their own rates",
};
/// Jitter of arrivals without jitter.
pub const NO_JITTER: Rule = Rule {
    settings: &["jitter"],
    family: None,
    relation: Excludes("arrivals"),
    because: "it applies only to jitter arrivals",
};
/// Think time between events that have due times.
pub const THINK_TIME: Rule = Rule {
    settings: &["think"],
    family: None,
    relation: Excludes("rate"),
    because: "with a rate, the schedule determines when events start",
};
/// Spinning with nothing to wait for.
pub const SPIN: Rule = Rule {
    settings: &["spin_us"],
    family: None,
    relation: Needs(&["rate", "connections"]),
    because: "workers spin before a due time, or while they wait for answers on many connections",
};
/// A thread without a connection.
pub const A_CONNECTION_EACH: Rule = Rule {
    settings: &["connections"],
    family: None,
    relation: AtLeast("threads"),
    because: "each thread needs a connection",
};
/// Streams of a protocol without streams.
pub const STREAMS: Rule = Rule {
    settings: &["streams"],
    family: Some(Web),
    relation: Needs(&["http_version"]),
    because: "only HTTP/2 has streams; use an https: target, or version 2",
};

/// Rules that depend on values: of the loop, of the connections, of the protocol.
pub const VALUE_RULES: &[&Rule] =
    &[&OPEN_LOOP, &TWO_RATES, &NO_JITTER, &THINK_TIME, &SPIN, &A_CONNECTION_EACH, &STREAMS];

/// Setting that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the setting.
    pub setting: &'static str,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    Target { families: &'static [Family], scheme: String },
    Scheme { needed: &'static str, scheme: String },
    Rule(&'static Rule),
}

impl Violation {
    /// Violation of a rule that depends on values.
    pub fn of(setting: &'static str, rule: &'static Rule) -> Self {
        assert!(rule.settings.contains(&setting), "the rule limits {setting}");
        Self { setting, reason: Reason::Rule(rule) }
    }

    /// Reason for the refusal, as a clause after the setting's name.
    ///
    /// - `written`: the caller's notation of a setting name.
    pub fn why(&self, written: impl Fn(&str) -> String) -> String {
        match &self.reason {
            Reason::Target { families, scheme } => {
                // SQLite has a thread for each connection.
                let words = |family: &Family| match family {
                    Database if self.setting == "connections" => "database servers (mysql:, postgres:)",
                    family => family.words(),
                };
                let owners: Vec<_> = families.iter().map(words).collect();
                format!("is for {}, not for {scheme}:", owners.join(" and "))
            }
            Reason::Scheme { needed, scheme } => format!("is for {needed}, not for {scheme}:"),
            Reason::Rule(rule) => {
                let mut text = match rule.relation {
                    Needs(one_of) => {
                        let one_of: Vec<_> = one_of.iter().map(|name| written(name)).collect();
                        format!("needs {}", one_of.join(" or "))
                    }
                    Excludes(other) => format!("cannot be combined with {}", written(other)),
                    AtLeast(other) => format!("must be at least {}", written(other)),
                };
                // Writing into memory does not fail.
                let _ = write!(text, ": {}", rule.because);
                text
            }
        }
    }
}

/// Default workload.
///
/// - `is_given`: whether the user set a setting, by its name.
pub fn default_workload(target: &Target, is_given: impl Fn(&str) -> bool) -> Workload {
    match Family::of(target) {
        _ if is_given("script") => Workload::Script,
        Some(Family::Database) => Workload::OltpReadWrite,
        Some(Cache) if !is_given("command") => Workload::Kv,
        _ => Workload::Native,
    }
}

/// First given setting that would have no effect, or contradicts another.
///
/// - `is_given`: whether the user set a setting, by its name.
pub fn violation(target: &Target, is_given: impl Fn(&str) -> bool) -> Option<Violation> {
    let family = Family::of(target)?;
    of_target(target, family, &is_given).or_else(|| {
        let broken = |rule: &'static Rule| {
            let setting = *rule.settings.iter().find(|name| is_given(name))?;
            let is_broken = rule.family.is_none_or(|f| f == family)
                && match rule.relation {
                    Needs(one_of) => !one_of.iter().any(|name| is_given(name)),
                    Excludes(other) => is_given(other),
                    AtLeast(_) => false,
                };
            is_broken.then(|| Violation::of(setting, rule))
        };
        RULES.iter().find_map(broken)
    })
}

/// First setting that is for other targets.
fn of_target(target: &Target, family: Family, is_given: &impl Fn(&str) -> bool) -> Option<Violation> {
    let given = |setting: &&&'static Setting| is_given(setting.name);
    let is_foreign = |s: &&&'static Setting| !s.families.is_empty() && !s.families.contains(&family);
    let scheme = target.scheme();
    if let Some(setting) = settings::ALL.iter().filter(given).find(is_foreign) {
        let reason = Reason::Target { families: setting.families, scheme: scheme.to_owned() };
        return Some(Violation { setting: setting.name, reason });
    }
    let (names, needed): (&[&'static str], _) = match scheme {
        "http" => (&["ca", "insecure", "cert", "key"], "https:"),
        _ if scheme.starts_with("memcache") => (&["command"], "Redis (redis:)"),
        _ => return None,
    };
    let setting = *names.iter().find(|name| is_given(name))?;
    Some(Violation { setting, reason: Reason::Scheme { needed, scheme: scheme.to_owned() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_without_effect_is_refused() {
        for (target, given, refused) in [
            ("null:", &["verify"][..], Some("verify")),
            ("http://h/", &["env"], Some("env")),
            ("sqlite:/x", &["keys"], Some("keys")),
            ("memcached://h", &["rows"], Some("rows")),
            ("exec:true", &["connections"], Some("connections")),
            ("http://h/", &["ca"], Some("ca")),
            ("http://h/", &["key", "cert"], Some("cert")),
            ("https://h/", &["key"], Some("key")),
            ("https://h/", &["ca", "insecure"], Some("ca")),
            ("https://h/", &["key", "cert", "timeout", "unix_socket", "cookies"], None),
            ("redis://h", &["timeout"], Some("timeout")),
            ("http://h/", &["verify"], Some("verify")),
            ("http://h/", &["requests", "method"], Some("method")),
            ("mysql://h/d", &["script", "rows"], Some("rows")),
            ("mysql://h/d", &["script", "workload"], Some("workload")),
            ("mysql://h/d", &["script", "define", "prepared"], None),
            ("mysql://h/d", &["define"], Some("define")),
            ("https://h/", &["ca", "requests", "verify", "connections"], None),
            ("redis://h", &["keys", "mix", "verify", "prepare"], None),
            ("redis://h", &["command", "pipeline", "connections"], None),
            ("redis://h", &["command", "data"], None),
            ("redis://h", &["data"], Some("data")),
            ("redis://h", &["command", "keys"], Some("keys")),
            ("memcached://h", &["command"], Some("command")),
            ("http://h/", &["command"], Some("command")),
            ("exec:true", &["env", "expect_exit"], None),
            ("null:", &["ramp_down", "events"], Some("ramp_down")),
            ("unknown:", &["keys"], None),
        ] {
            let found = violation(&Target::new(target), |name| given.contains(&name));
            assert_eq!(found.as_ref().map(|v| v.setting), refused, "{target} {given:?}: {found:?}");
        }
    }

    #[test]
    fn a_violation_names_settings_as_its_reader_writes_them() {
        let why = |target, given: &[&str]| {
            let found = violation(&Target::new(target), |name| given.contains(&name)).unwrap();
            found.why(|name| format!("--{name}"))
        };
        let connections = why("exec:true", &["connections"]);
        assert!(connections.starts_with("is for database servers (mysql:, postgres:) and "), "{connections}");
        assert_eq!(why("null:", &["keys"]), "is for caches (memcached:, redis:), not for null:");
        assert_eq!(why("mysql://h", &["define"]), "needs --script: only scripts have variables");
        let rows = why("mysql://h", &["rows", "script"]);
        assert_eq!(rows, "cannot be combined with --script: a script defines the whole event");
    }

    #[test]
    fn rules_are_about_settings() {
        for rule in RULES.iter().chain(VALUE_RULES.iter().copied()) {
            let others = match rule.relation {
                Needs(one_of) => one_of.to_vec(),
                Excludes(other) | AtLeast(other) => vec![other],
            };
            for name in rule.settings.iter().copied().chain(others) {
                assert!(Setting::named(name).is_some(), "{name}");
            }
        }
    }
}
