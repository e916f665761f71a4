//! Settings of `[load]` as written; they are those of `bakeoff load`.

mod cell;
mod rules;
mod values;

use std::time::Duration;

use record::arrivals::Arrivals;
use record::load::{DataCheck, Distribution, LatePolicy, Schedule, ScriptFile, Think, Workload};
use record::quantity;
use record::requests::{HttpVersion, SizeClass};
use record::search::Promise;
use toml::de::DeValue;

pub(crate) use self::cell::{PhaseSettings, instance_folder};
use self::values::{Rate, arrivals, bytes, defines, late_policy, method, mix, rate, sizes, think, ttl};
use crate::error::{Located, Position};
use crate::reader::{Reader, Section};
use crate::secret::{self, Reference};
use crate::template::{AnyTemplated, Templated};
use crate::value::{boolean, duration, percent, text, whole};

/// Offered rate, as written.
#[derive(Debug, Clone)]
pub(crate) enum ParsedRate {
    Plain(Templated<Rate>),
    /// Shares of the capacity, which is found first: the values of a sub-plot factor.
    Shares(Located<Vec<String>>),
    /// The highest rate that keeps a promise, which is found first.
    Promise(Promise),
}

/// Name of the factor for shares of the capacity.
pub(crate) const RATE: &str = "rate";

/// Declares the keys that may differ from trial to trial: name, type, parser.
macro_rules! load_keys {
    ($($name:ident: $type:ty = $read:expr;)*) => {
        /// Keys of a load that are given or have a default.
        #[derive(Debug, Clone)]
        pub(crate) struct LoadKeys {
            $(pub(crate) $name: Option<Templated<$type>>,)*
            pub(crate) rate: Option<ParsedRate>,
            /// Statements, or the path of a script in Lua.
            pub(crate) script: Option<Located<String>>,
            /// The script in Lua and its modules, once it was read.
            pub(crate) script_files: Vec<ScriptFile>,
            pub(crate) header: Option<Located<Vec<String>>>,
            pub(crate) env: Option<Located<Vec<String>>>,
            pub(crate) command: Option<Located<Vec<String>>>,
        }

        impl LoadKeys {
            pub(crate) fn read<'a>(reader: &mut Reader<'a>, section: &mut Section<'a>) -> Self {
                Self {
                    $($name: reader.template(section, stringify!($name), $read),)*
                    rate: rate_written(reader, section),
                    script: reader.take(section, "script", text),
                    script_files: Vec::new(),
                    header: reader.list(section, "header"),
                    env: reader.list(section, "env"),
                    command: reader.list(section, "command"),
                }
            }

            /// Replaces secrets in every text with placeholders, and in the lists.
            pub(crate) fn reveal(&mut self, value: &dyn Fn(&Reference) -> String) {
                $(if let Some(templated) = &mut self.$name { templated.template.reveal(value); })*
                for list in [&mut self.header, &mut self.env, &mut self.command].into_iter().flatten() {
                    for entry in &mut list.value {
                        *entry = secret::replaced(entry, value);
                    }
                }
            }

            /// All values that may have placeholders.
            pub(crate) fn templates(&self) -> Vec<&dyn AnyTemplated> {
                let all = [$(self.$name.as_ref().map(|t| t as &dyn AnyTemplated),)*];
                let rate = match &self.rate {
                    Some(ParsedRate::Plain(rate)) => Some(rate as &dyn AnyTemplated),
                    _ => None,
                };
                all.into_iter().flatten().chain(rate).collect()
            }
        }
    };
}

load_keys! {
    target: String = text;
    workload: Workload = Workload::from_word;
    tables: u32 = whole;
    rows: u64 = whole;
    point_selects: u32 = whole;
    range_size: u64 = whole;
    range_selects: bool = boolean;
    index_updates: u32 = whole;
    non_index_updates: u32 = whole;
    delete_inserts: u32 = whole;
    random_points: u32 = whole;
    number_of_ranges: u32 = whole;
    delta: u32 = whole;
    bulk_rows: u32 = whole;
    distribution: Distribution = Distribution::named;
    skip_trx: bool = boolean;
    prepared: bool = boolean;
    define: Vec<(String, String)> = defines;
    keys: u64 = whole;
    sizes: Vec<SizeClass> = sizes;
    mix: f64 = mix;
    key_distribution: Distribution = Distribution::named;
    pipeline: u32 = whole;
    multi_get: u32 = whole;
    ttl: Duration = ttl;
    verify: bool = boolean;
    method: String = method;
    body: String = text;
    expect_status: u16 = whole;
    requests: String = text;
    http_version: HttpVersion = HttpVersion::from_word;
    ca: String = text;
    insecure: bool = boolean;
    cert: String = text;
    key: String = text;
    unix_socket: String = text;
    timeout: Duration = duration;
    cookies: bool = boolean;
    data: String = text;
    streams: u32 = whole;
    expect_exit: u8 = whole;
    check: DataCheck = DataCheck::from_word;
    answer_max: u64 = bytes;
    threads: u32 = whole;
    connections: u32 = whole;
    arrivals: Arrivals = arrivals;
    jitter: f64 = percent;
    schedule: Schedule = Schedule::from_word;
    late: LatePolicy = late_policy;
    think: Think = think;
    ramp_up: Duration = duration;
    ramp_down: Duration = duration;
    spin_us: u64 = whole;
    spin_budget: f64 = percent;
    fifo: bool = boolean;
    keep_awake: bool = boolean;
    retry: u32 = whole;
    drain: Duration = duration;
    connects_at_once: u32 = whole;
    max_errors: f64 = percent;
}

fn rate_written<'a>(reader: &mut Reader<'a>, section: &mut Section<'a>) -> Option<ParsedRate> {
    let found = reader.find(section, "rate")?;
    match &found.value {
        DeValue::Array(shares) => {
            let share = |v: &DeValue<'_>| {
                v.as_str().filter(|t| quantity::ratio(t).is_ok_and(|share| share > 0.0)).map(str::to_owned)
            };
            let shares: Option<Vec<String>> = shares.iter().map(|s| share(s.get_ref())).collect();
            let Some(value) = shares.filter(|shares| !shares.is_empty()) else {
                reader.bad_found(&found);
                return None;
            };
            Some(ParsedRate::Shares(Located { value, position: found.position }))
        }
        DeValue::Table(promise) => {
            let slo = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let text = value.get_ref().as_str().filter(|_| *key.get_ref() == "slo")?;
                Promise::parse(text).ok()
            };
            let promises: Option<Vec<Promise>> = promise.iter().map(slo).collect();
            let Some(promise) = promises.and_then(|mut all| all.pop()) else {
                reader.bad_found(&found);
                return None;
            };
            Some(ParsedRate::Promise(promise))
        }
        _ => reader.templated(found, rate).map(ParsedRate::Plain),
    }
}

impl LoadKeys {
    /// The keys, if those without a default are given.
    pub(crate) fn whole(self) -> Option<Self> {
        let is_whole = self.target.is_some() && self.rate.is_some();
        is_whole.then_some(self)
    }

    /// Path of the script in Lua, as written.
    pub(crate) fn script_path(&self) -> Option<&str> {
        let path = self.script.as_ref()?.value.trim();
        (values::script_file(path).is_lua() && !path.contains('\n')).then_some(path)
    }

    /// Secrets that the load refers to.
    pub(crate) fn secrets(&self) -> Vec<Reference> {
        let lists = self.header.iter().chain(&self.env).chain(&self.command).flat_map(|list| &list.value);
        let of_lists = lists.flat_map(|entry| secret::references(entry)).map(|(_, reference)| reference);
        self.templates().into_iter().flat_map(AnyTemplated::secrets).cloned().chain(of_lists).collect()
    }

    /// Position of a setting; `None` if the plan does not give it.
    fn position_of(&self, name: &str) -> Option<Position> {
        match name {
            "script" => return self.script.as_ref().map(|w| w.position),
            "header" => return self.header.as_ref().map(|w| w.position),
            "env" => return self.env.as_ref().map(|w| w.position),
            "command" => return self.command.as_ref().map(|w| w.position),
            _ => {}
        }
        let path = format!("load.{name}");
        let is_given = |t: &&dyn AnyTemplated| t.path() == path && !t.is_default();
        self.templates().into_iter().find(is_given).map(AnyTemplated::position)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use record::load::{Loop, OpenLoop};

    use super::*;
    use crate::Plan;

    fn read(load: &str) -> Result<Plan, String> {
        let text = format!(
            "schema = 1\ntitle = \"t\"\n[factors.rate]\nvalues = [\"max\", \"500\"]\nlevel = \"sub-plot\"\n[design]\n\
             blocks = 1\n[load]\ntarget = \"null:\"\n{load}\n[phases]\nmeasure = {{ time = \"2s\" }}\n"
        );
        crate::read(&text, "t.toml").map_err(|errors| errors.to_string())
    }

    /// Loops of all trials, closed ones first.
    fn loops(load: &str) -> Vec<Loop> {
        let plan = read(load).unwrap();
        let trials = plan.trials();
        let mut loops: Vec<Loop> =
            trials.iter().map(|trial| plan.load_settings(trial, Path::new("/scratch")).pace).collect();
        loops.sort_by(|a, b| a.per_s().unwrap_or(0.0).total_cmp(&b.per_s().unwrap_or(0.0)));
        loops
    }

    #[test]
    fn settings_of_open_loops_apply_to_the_levels_with_a_rate() {
        let found =
            loops("rate = \"{rate}\"\narrivals = \"poisson\"\nschedule = \"own\"\nspin_budget = \"1%\"");
        let open = OpenLoop {
            arrivals: Arrivals::Poisson,
            schedule: Schedule::Own,
            spin_budget_ratio: 0.01,
            ..OpenLoop::plain(500.0)
        };
        assert_eq!(found, [Loop::CLOSED, Loop::Open(open)]);
        let jitter = loops("rate = 500\njitter = \"20%\"");
        assert_eq!(jitter[0].as_open().unwrap().arrivals, Arrivals::Jitter { ratio: 0.2 });
        assert_eq!(loops("arrivals = \"ramp:100-300\"")[0].per_s(), Some(200.0));
        let rests = Loop::Closed { think: Think::Constant(Duration::from_millis(10)) };
        assert_eq!(loops("think = \"10ms\"")[0], rests);
    }

    #[test]
    fn a_loop_that_contradicts_itself_is_refused() {
        for (load, says) in [
            ("rate = 9\narrivals = \"ramp:1-9\"", "`load.arrivals` cannot be combined with `rate`"),
            ("rate = 9\narrivals = \"poisson\"\njitter = \"5%\"", "`load.jitter` cannot be combined"),
            ("rate = 9\nthink = \"1s\"", "`load.think`"),
            ("rate = \"{rate}\"\nthink = \"1s\"", "cannot be combined with `rate`"),
            ("fifo = true", "`load.fifo`"),
            ("spin_us = 9", "`load.spin_us` needs `rate` or `connections`"),
            ("arrivals = \"poisson\"", "`load.arrivals`"),
            ("jitter = \"5%\"", "`load.jitter`"),
            ("schedule = \"own\"", "`load.schedule`"),
            ("late = \"drop\"", "`load.late` needs `rate`"),
            ("rate = \"max\"\nspin_budget = \"1%\"", "`load.spin_budget`"),
        ] {
            let error = read(load).unwrap_err();
            assert!(error.contains(says), "{load}: {error}");
        }
    }
}
