//! Settings of a load: one row for each, with its accepted values and its default.
//!
//! The command line and plans take bounds and defaults from here and only translate the name: `point_selects`
//! is the option `--point-selects` and the key `load.point_selects`. Rules between settings are in
//! [`super::rules`].

use std::time::Duration;

use super::choices::{DataCheck, Distribution, HttpVersion, PreparePolicy, Schedule, Workload};
use super::family::Family::{self, Cache, Command, Database, Web};
use crate::quantity;

/// One setting of a load.
#[derive(Debug)]
pub struct Setting {
    /// Name: lower case with underscores.
    pub name: &'static str,
    /// Kinds of target that it applies to; empty: all.
    pub families: &'static [Family],
    /// Accepted values.
    pub values: Values,
    /// Value if the setting is absent, as text; `None` if absence has a meaning, such as no timeout.
    pub default: Option<&'static str>,
}

/// Accepted values of a setting. Bounds are inclusive.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// A whole number.
    Whole {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A percentage from 0.
    Percent {
        /// Largest value, as a ratio.
        max_ratio: f64,
    },
    /// A duration.
    Duration {
        /// Shortest duration.
        min: Duration,
    },
    /// A size.
    Bytes {
        /// Smallest size.
        min: u64,
    },
    /// Events per second, over 0.
    Rate {
        /// Highest rate.
        max_per_s: f64,
    },
    /// On or off.
    Switch,
    /// One of a set of words.
    Word(fn() -> Vec<&'static str>),
    /// Text with at least one character that is not a blank.
    Text,
    /// Any text.
    AnyText,
    /// Any number of texts.
    Texts,
    /// Any number of texts of a form; the form's parser is next to the type of the value.
    Forms(&'static str, fn(&str) -> bool),
    /// Text of a form; the form's parser is next to the type of the value.
    Form(&'static str),
}

use Values::{AnyText, Bytes, Form, Forms, Percent, Rate, Switch, Text, Texts, Whole, Word};

const ALL_TARGETS: &[Family] = &[];
const DATABASES: &[Family] = &[Database];
const CACHES: &[Family] = &[Cache];
const WEB: &[Family] = &[Web];
const COMMANDS: &[Family] = &[Command];
const SERVERS: &[Family] = &[Database, Cache, Web];

const ANY_TIME: Values = Values::Duration { min: Duration::ZERO };
const OVER_ZERO: Values = Values::Duration { min: Duration::from_nanos(1) };
/// Shortest interval, and so the shortest phase that has intervals.
const AN_INTERVAL: Values = Values::Duration { min: Duration::from_millis(100) };

/// Row numbers are signed 32-bit integers in sysbench's tables.
const ROWS_MAX: u64 = 2_147_483_647;
/// Each statement of a transaction needs space for its timestamps, allocated before the load.
const STATEMENTS_MAX: u64 = 100_000;
const NONE: Option<&str> = None;

/// Highest rate. A clock cannot be read much faster.
pub const RATE_MAX_PER_S: f64 = 10_000_000.0;

/// Defines a constant for each row, and all of them in [`ALL`].
macro_rules! settings {
    ($($id:ident: $name:literal, $families:expr, $values:expr, $default:expr;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub const $id: Setting =
                Setting { name: $name, families: $families, values: $values, default: $default };
        )*
        /// All settings.
        pub const ALL: &[&Setting] = &[$(&$id),*];
    };
}

settings! {
    WORKLOAD: "workload", ALL_TARGETS, Word(workloads), NONE;
    SCRIPT: "script", DATABASES, Text, NONE;
    DEFINE: "define", DATABASES, Form("variables such as \"scale=10, users=5\""), NONE;
    TABLES: "tables", DATABASES, Whole { min: 1, max: 10_000 }, Some("1");
    ROWS: "rows", DATABASES, Whole { min: 1, max: ROWS_MAX }, Some("10000");
    POINT_SELECTS: "point_selects", DATABASES, Whole { min: 0, max: STATEMENTS_MAX }, Some("10");
    RANGE_SIZE: "range_size", DATABASES, Whole { min: 1, max: ROWS_MAX }, Some("100");
    RANGE_SELECTS: "range_selects", DATABASES, Switch, Some("true");
    INDEX_UPDATES: "index_updates", DATABASES, Whole { min: 0, max: STATEMENTS_MAX }, Some("1");
    NON_INDEX_UPDATES: "non_index_updates", DATABASES, Whole { min: 0, max: STATEMENTS_MAX }, Some("1");
    DELETE_INSERTS: "delete_inserts", DATABASES, Whole { min: 0, max: STATEMENTS_MAX }, Some("1");
    RANDOM_POINTS: "random_points", DATABASES, Whole { min: 1, max: 100 }, Some("10");
    NUMBER_OF_RANGES: "number_of_ranges", DATABASES, Whole { min: 1, max: 100 }, Some("10");
    DELTA: "delta", DATABASES, Whole { min: 0, max: 1_000_000 }, Some("5");
    BULK_ROWS: "bulk_rows", DATABASES, Whole { min: 1, max: 1_000 }, Some("100");
    DISTRIBUTION: "distribution", DATABASES, Word(distributions), Some("special");
    SKIP_TRX: "skip_trx", DATABASES, Switch, Some("false");
    PREPARED: "prepared", DATABASES, Switch, Some("true");
    PREPARE: "prepare", &[Database, Cache], Word(prepare_policies), Some("auto");
    CHECK: "check", DATABASES, Word(checks), Some("quick");
    // No server sends more than the minimum in a login.
    ANSWER_MAX: "answer_max", SERVERS, Bytes { min: 64 << 10 }, Some("64MiB");
    KEYS: "keys", CACHES, Whole { min: 1, max: 9_999_999_999 }, Some("10000");
    // A web site's cache: locks and results of queries, thumbnails and rows, fragments of pages.
    SIZES: "sizes", CACHES, Form("size classes with weights, such as \"4-100:60,1024-2048:30,5120-20480:10\""), Some("4-100:60,1024-2048:30,5120-20480:10");
    MIX: "mix", CACHES, Form("weights such as \"get=90,set=10\""), Some("get=90,set=10");
    KEY_DISTRIBUTION: "key_distribution", CACHES, Word(distributions), Some("zipfian");
    // No server reads more requests from a connection at once.
    PIPELINE: "pipeline", CACHES, Whole { min: 1, max: 1_024 }, Some("1");
    MULTI_GET: "multi_get", CACHES, Whole { min: 1, max: 1_000 }, Some("1");
    TTL: "ttl", CACHES, Form("whole seconds such as \"60s\", at most 30 days"), NONE;
    COMMAND: "command", CACHES, Texts, NONE;
    VERIFY: "verify", &[Cache, Web], Switch, Some("false");
    METHOD: "method", WEB, Form("one word such as \"GET\""), Some("GET");
    HEADER: "header", WEB, Forms("\"NAME: VALUE\"", is_header), NONE;
    BODY: "body", WEB, AnyText, NONE;
    EXPECT_STATUS: "expect_status", WEB, Whole { min: 100, max: 599 }, NONE;
    REQUESTS: "requests", WEB, Text, NONE;
    HTTP_VERSION: "http_version", WEB, Word(http_versions), Some("any");
    STREAMS: "streams", WEB, Whole { min: 1, max: 1_000 }, Some("1");
    CA: "ca", WEB, Text, NONE;
    INSECURE: "insecure", WEB, Switch, Some("false");
    CERT: "cert", WEB, Text, NONE;
    KEY: "key", WEB, Text, NONE;
    UNIX_SOCKET: "unix_socket", WEB, Text, NONE;
    TIMEOUT: "timeout", WEB, OVER_ZERO, NONE;
    COOKIES: "cookies", WEB, Switch, Some("false");
    DATA: "data", &[Cache, Web], Text, NONE;
    ENV: "env", COMMANDS, Forms("\"NAME=VALUE\"", is_variable), NONE;
    EXPECT_EXIT: "expect_exit", COMMANDS, Whole { min: 0, max: 255 }, Some("0");
    THREADS: "threads", ALL_TARGETS, Whole { min: 1, max: 65_536 }, Some("1");
    CONNECTIONS: "connections", SERVERS, Whole { min: 1, max: 1_000_000 }, NONE;
    RATE: "rate", ALL_TARGETS, Rate { max_per_s: RATE_MAX_PER_S }, NONE;
    ARRIVALS: "arrivals", ALL_TARGETS, Form("\"jitter\", \"period\", \"poisson\"; or, with their own rates, \"ramp:100-1000\", \"step:100@10s,200\", \"burst:50-2000@1s/10s\" or \"sine:100-500@60s\""), Some("jitter");
    JITTER: "jitter", ALL_TARGETS, Percent { max_ratio: 1.0 }, Some("10%");
    SCHEDULE: "schedule", ALL_TARGETS, Word(schedules), Some("shared");
    LATE: "late", ALL_TARGETS, Form("\"queue\", \"drop\", \"skip=DURATION\" or a speed such as \"pace=2x\""), Some("queue");
    THINK: "think", ALL_TARGETS, Form("a duration or \"exp:DURATION\""), Some("0");
    SPIN_US: "spin_us", ALL_TARGETS, Whole { min: 0, max: 1_000_000 }, Some("0");
    SPIN_BUDGET: "spin_budget", ALL_TARGETS, Percent { max_ratio: 1.0 }, Some("5%");
    FIFO: "fifo", ALL_TARGETS, Switch, Some("false");
    KEEP_AWAKE: "keep_awake", ALL_TARGETS, Switch, Some("false");
    RETRY: "retry", ALL_TARGETS, Whole { min: 0, max: 1_000 }, Some("3");
    DRAIN: "drain", ALL_TARGETS, ANY_TIME, Some("5s");
    CONNECTS_AT_ONCE: "connects_at_once", ALL_TARGETS, Whole { min: 1, max: 65_536 }, Some("32");
    MAX_ERRORS: "max_errors", ALL_TARGETS, Percent { max_ratio: 1.0 }, Some("1%");
    // TOML has signed integers, and a seed must fit into a plan.
    SEED: "seed", ALL_TARGETS, Whole { min: 0, max: i64::MAX as u64 }, Some("1");
    RAMP_UP: "ramp_up", ALL_TARGETS, ANY_TIME, Some("0");
    RAMP_DOWN: "ramp_down", ALL_TARGETS, ANY_TIME, Some("0");
    WARMUP: "warmup", ALL_TARGETS, ANY_TIME, Some("1s");
    TIME: "time", ALL_TARGETS, AN_INTERVAL, Some("10s");
    EVENTS: "events", ALL_TARGETS, Whole { min: 1, max: i64::MAX as u64 }, NONE;
    INTERVAL: "interval", ALL_TARGETS, AN_INTERVAL, Some("1s");
}

/// Default of [`WARMUP`] in a plan, which starts a fresh server for each series.
pub const WARMUP_OF_A_TRIAL: &str = "5s";

/// Words of the setting `workload`; a script is a separate setting.
fn workloads() -> Vec<&'static str> {
    Workload::ALL.iter().filter(|w| **w != Workload::Script).map(|w| w.word()).collect()
}

fn distributions() -> Vec<&'static str> {
    Distribution::NAMES.to_vec()
}

fn prepare_policies() -> Vec<&'static str> {
    PreparePolicy::ALL.iter().map(|p| p.word()).collect()
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

/// Whether a text is `Name: value`, one line of a request header.
fn is_header(text: &str) -> bool {
    let has_name = text.split_once(':').is_some_and(|(name, _)| !name.trim().is_empty());
    has_name && !text.contains(['\r', '\n'])
}

/// Whether a text is `NAME=value`, an environment variable.
fn is_variable(text: &str) -> bool {
    let has_name = text.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    has_name && !text.contains('\0')
}

impl Setting {
    /// Setting with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|setting| setting.name == name)
    }

    /// Default, as text.
    ///
    /// # Panics
    ///
    /// If the setting has no default.
    pub const fn default_text(&self) -> &'static str {
        match self.default {
            Some(text) => text,
            None => panic!("this setting has no default"),
        }
    }

    /// Default of a whole number, of a percentage in percent, or of a size in its unit.
    pub const fn default_number(&self) -> u64 {
        let digits = self.default_text().as_bytes();
        let (mut at, mut number) = (0, 0);
        while at < digits.len() && digits[at].is_ascii_digit() {
            number = 10 * number + (digits[at] - b'0') as u64;
            at += 1;
        }
        assert!(at > 0, "this default is not a number");
        number
    }

    /// Default of a whole number that fits 32 bits.
    pub const fn default_u32(&self) -> u32 {
        small(self.default_number())
    }

    /// Default of a percentage, as a ratio.
    pub const fn default_ratio(&self) -> f64 {
        self.default_number() as f64 / 100.0
    }

    /// Default of a duration.
    pub fn default_duration(&self) -> Duration {
        quantity::duration(self.default_text()).expect("the defaults of durations are durations")
    }

    /// Whether a switch is on by default.
    pub const fn is_on(&self) -> bool {
        matches!(self.default_text().as_bytes(), b"true")
    }

    /// Largest whole number, if it fits 32 bits.
    pub const fn max_u32(&self) -> u32 {
        match self.values {
            Whole { max, .. } => small(max),
            _ => panic!("this setting is not a whole number"),
        }
    }

    /// Whether a whole number is within the bounds.
    pub fn takes_number(&self, number: u64) -> bool {
        matches!(self.values, Whole { min, max } if (min..=max).contains(&number))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked above the cast")]
const fn small(number: u64) -> u32 {
    assert!(number <= u32::MAX as u64, "this number needs more than 32 bits");
    number as u32
}

impl Values {
    /// Whether a text is within the bounds or one of the words; the form of a text is left to its parser.
    pub fn takes(&self, text: &str) -> bool {
        match *self {
            Whole { min, max } => text.parse::<u64>().is_ok_and(|n| (min..=max).contains(&n)),
            Percent { max_ratio } => quantity::ratio(text).is_ok_and(|ratio| ratio <= max_ratio),
            Values::Duration { min } => quantity::duration(text).is_ok_and(|time| time >= min),
            Bytes { min } => quantity::bytes(text).is_ok_and(|bytes| bytes >= min),
            Rate { max_per_s } => quantity::rate_per_s(text).is_ok_and(|per_s| per_s <= max_per_s),
            Switch => matches!(text, "true" | "false"),
            Word(words) => words().contains(&text),
            Text => !text.trim().is_empty(),
            Forms(_, is_one) => is_one(text),
            AnyText | Texts | Form(_) => true,
        }
    }

    /// Accepted values, as a clause after "expected".
    pub fn expected(&self) -> String {
        match *self {
            Whole { min, max } if min == max => format!("{min}"),
            Whole { min, max } if max >= i64::MAX.unsigned_abs() => format!("a whole number from {min}"),
            Whole { min, max } => format!("a whole number from {min} to {max}"),
            Percent { max_ratio } => {
                format!("a percentage such as \"1%\", at most {}%", max_ratio * 100.0)
            }
            Values::Duration { min } => {
                let bound = match min {
                    Duration::ZERO => String::new(),
                    min if min == Duration::from_nanos(1) => ", over 0".to_owned(),
                    min => format!(", at least {min:?}"),
                };
                format!("a duration such as \"10ms\", \"5s\" or \"2m\"{bound}")
            }
            Bytes { min } => format!("a size such as \"64MiB\", at least {}KiB", min >> 10),
            Rate { max_per_s } => {
                format!("events per second such as 500 or \"30/m\", over 0 and at most {max_per_s}")
            }
            Switch => "true or false".into(),
            Word(words) => {
                let words: Vec<_> = words().iter().map(|word| format!("\"{word}\"")).collect();
                let one_of = if words.len() == 1 { "" } else { "one of " };
                format!("{one_of}{}", words.join(", "))
            }
            Text => "a non-empty string".into(),
            AnyText => "a string".into(),
            Texts => "a list of strings".into(),
            Form(sentence) => sentence.into(),
            Forms(example, _) => format!("strings such as {example}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_setting() {
        for setting in ALL {
            if let Some(default) = setting.default {
                assert!(setting.values.takes(default), "{}: {default}", setting.name);
            }
        }
        assert!(TIME.values.takes(WARMUP_OF_A_TRIAL));
    }

    #[test]
    fn every_name_is_one_settings() {
        for (number, setting) in ALL.iter().enumerate() {
            let is_plain = setting.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(is_plain && ALL[..number].iter().all(|s| s.name != setting.name), "{}", setting.name);
        }
    }

    #[test]
    fn numbers_of_defaults_are_read_at_compile_time() {
        const { assert!(ROWS.default_number() == 10_000 && RANDOM_POINTS.max_u32() == 100) };
        assert!((JITTER.default_ratio() - 0.1).abs() < f64::EPSILON);
        assert!(PREPARED.is_on() && !FIFO.is_on());
    }
}
