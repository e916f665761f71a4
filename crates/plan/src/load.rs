//! `[load]`: the same words as the options of `bakeoff load`, as written and as meant.

use std::path::Path;
use std::time::Duration;

use record::arrivals::Arrivals;
use record::bakeoff::Levels;
use record::belongs;
use record::load::{
    ClientSettings, DataCheck, Distribution, LatePolicy, LoadSettings, OltpMix, OltpSettings, PreparePolicy,
    Schedule, ScriptFile, ScriptSettings, Think, Workload,
};
use record::loops::{AskedLoop, Refused};
use record::quantity;
use record::requests::{
    CacheCommand, ClientFiles, ExecSettings, HttpSettings, HttpVersion, KvSettings, SizeClass,
};
use record::target::Target;
use toml::de::DeValue;

use crate::error::{Place, Problem, ProblemKind};
use crate::reader::{Reader, Section};
use crate::secret::{self, Reference};
use crate::template::{AnyTemplated, Templated};
use crate::value::{boolean, duration, percent, text, whole};
use crate::written::Written;

/// Events per second, or `None` for a closed loop: `max`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) Option<f64>);

/// How much is offered, as written.
#[derive(Debug, Clone)]
pub(crate) enum RateWritten {
    Plain(Templated<Rate>),
    Shares(Place),
    Promise(Place),
}

/// The keys that may differ from trial to trial: their names, what they hold, how that is read.
macro_rules! load_keys {
    ($($name:ident: $type:ty = $read:expr;)*) => {
        /// The keys of a load, as far as they are written or have a default.
        #[derive(Debug, Clone)]
        pub(crate) struct LoadKeys {
            $(pub(crate) $name: Option<Templated<$type>>,)*
            pub(crate) rate: Option<RateWritten>,
            /// One script, whole.
            pub(crate) script: Option<Written<String>>,
            pub(crate) header: Option<Written<Vec<String>>>,
            pub(crate) env: Option<Written<Vec<String>>>,
            pub(crate) command: Option<Written<Vec<String>>>,
        }

        impl LoadKeys {
            pub(crate) fn read<'a>(reader: &mut Reader<'a>, section: &mut Section<'a>) -> Self {
                Self {
                    $($name: reader.template(section, stringify!($name), $read),)*
                    rate: rate_written(reader, section),
                    script: reader.take(section, "script", text),
                    header: reader.list(section, "header"),
                    env: reader.list(section, "env"),
                    command: reader.list(section, "command"),
                }
            }

            /// Every text with placeholders, and the lists without, to put secrets into.
            pub(crate) fn reveal(&mut self, value: &dyn Fn(&Reference) -> String) {
                $(if let Some(templated) = &mut self.$name { templated.template.reveal(value); })*
                for list in [&mut self.header, &mut self.env, &mut self.command].into_iter().flatten() {
                    for entry in &mut list.value {
                        *entry = secret::replaced(entry, value);
                    }
                }
            }

            /// Every value that may have placeholders.
            pub(crate) fn templates(&self) -> Vec<&dyn AnyTemplated> {
                let all = [$(self.$name.as_ref().map(|t| t as &dyn AnyTemplated),)*];
                let rate = match &self.rate {
                    Some(RateWritten::Plain(rate)) => Some(rate as &dyn AnyTemplated),
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
    timeout: Duration = over_zero;
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

fn rate_written<'a>(reader: &mut Reader<'a>, section: &mut Section<'a>) -> Option<RateWritten> {
    let found = reader.find(section, "rate")?;
    match &found.value {
        DeValue::Array(shares) => {
            let share = |v: &DeValue<'_>| v.as_str().is_some_and(|t| quantity::ratio(t).is_ok());
            if shares.is_empty() || !shares.iter().all(|s| share(s.get_ref())) {
                reader.bad_found(&found);
                return None;
            }
            Some(RateWritten::Shares(found.place))
        }
        DeValue::Table(promise) => {
            let slo = promise.iter().all(|(k, v)| k.get_ref() == "slo" && v.get_ref().is_str());
            if promise.is_empty() || !slo {
                reader.bad_found(&found);
                return None;
            }
            Some(RateWritten::Promise(found.place))
        }
        _ => reader.templated(found, rate).map(RateWritten::Plain),
    }
}

/// What of a trial's load does not stand in `[load]`.
pub(crate) struct Beside {
    pub(crate) prepare: PreparePolicy,
    pub(crate) warmup: Duration,
    pub(crate) time: Duration,
    pub(crate) interval: Duration,
    pub(crate) seed: u64,
}

impl LoadKeys {
    /// The keys, if all that must be there are.
    pub(crate) fn whole(self) -> Option<Self> {
        let is_whole = self.target.is_some() && self.rate.is_some();
        is_whole.then_some(self)
    }

    pub(crate) fn target_of(&self, levels: &Levels, scratch: &Path) -> Target {
        Target::new(Cell { levels, scratch: &text_of(scratch) }.of(self.target.as_ref()))
    }

    /// Everything resolved for one cell.
    pub(crate) fn settings(&self, levels: &Levels, scratch: &Path, beside: &Beside) -> LoadSettings {
        let scratch = text_of(scratch);
        let cell = Cell { levels, scratch: &scratch };
        let target = Target::new(cell.of(self.target.as_ref()));
        let Some(RateWritten::Plain(rate)) = &self.rate else {
            panic!("a plan with anything unbuilt is not run")
        };
        let asked = self.asked(&cell, rate);
        LoadSettings {
            workload: self.workload_of(&cell, &target),
            target,
            oltp: OltpSettings {
                tables: cell.of(self.tables.as_ref()),
                rows: cell.of(self.rows.as_ref()),
                point_selects: cell.of(self.point_selects.as_ref()),
                range_size: cell.of(self.range_size.as_ref()),
                mix: self.oltp_mix(&cell),
                distribution: cell.of(self.distribution.as_ref()),
                skip_transaction: cell.of(self.skip_trx.as_ref()),
                prepared: cell.of(self.prepared.as_ref()),
            },
            scripts: ScriptSettings {
                files: self.script.iter().map(script_file).collect(),
                defines: cell.or(self.define.as_ref(), Vec::new()),
            },
            kv: self.kv(&cell),
            http: self.http(&cell),
            exec: ExecSettings {
                environment: self.env.iter().flat_map(|env| &env.value).filter_map(|e| variable(e)).collect(),
                expected_status: cell.or(self.expect_exit.as_ref(), 0),
            },
            verify: cell.or(self.verify.as_ref(), false),
            prepare: beside.prepare,
            check: cell.or(self.check.as_ref(), DataCheck::Quick),
            answer_bytes_max: cell.or(self.answer_max.as_ref(), LoadSettings::ANSWER_BYTES_MAX),
            threads: cell.of(self.threads.as_ref()),
            connections: self.connections.as_ref().map(|c| cell.of(Some(c))),
            pace: asked.resolved(beside.time).expect("the plan was checked"),
            warmup: beside.warmup,
            time: beside.time,
            events_max: None,
            interval: beside.interval,
            retries_max: cell.of(self.retry.as_ref()),
            drain: cell.of(self.drain.as_ref()),
            seed: beside.seed,
            connects_at_once: cell.of(self.connects_at_once.as_ref()),
            errors_ratio_max: cell.of(self.max_errors.as_ref()),
            ramp_up: cell.or(self.ramp_up.as_ref(), Duration::ZERO),
            ramp_down: cell.or(self.ramp_down.as_ref(), Duration::ZERO),
            client: ClientSettings {
                spin: Duration::from_micros(cell.or(self.spin_us.as_ref(), 0)),
                keep_awake: cell.or(self.keep_awake.as_ref(), false),
            },
        }
    }

    /// What is asked of the loop of a cell.
    ///
    /// Where the rate varies, what only open loops have is for the cells that have one; where it never does, it could only
    /// be ignored, and counts as asked for.
    fn asked(&self, cell: &Cell<'_>, rate: &Templated<Rate>) -> AskedLoop {
        let Rate(per_s) = cell.of(Some(rate));
        let arrivals = self.arrivals.as_ref().map(|arrivals| cell.of(Some(arrivals)));
        let is_open = per_s.is_some() || arrivals.as_ref().is_some_and(Arrivals::say_their_rate);
        let is_never_open = !is_open && rate.template.is("max");
        let counts = |is_default: bool| is_open || (is_never_open && !is_default);
        let jitters = matches!(arrivals, None | Some(Arrivals::Jitter { .. }));
        AskedLoop {
            per_s,
            arrivals: arrivals.filter(|_| self.arrivals.as_ref().is_some_and(|a| counts(a.is_default()))),
            jitter_ratio: cell
                .some(self.jitter.as_ref().filter(|jitter| jitters && counts(jitter.is_default()))),
            schedule: cell.some(self.schedule.as_ref().filter(|schedule| counts(schedule.is_default()))),
            late: cell.some(self.late.as_ref().filter(|late| counts(late.is_default()))),
            spin_budget_ratio: cell
                .some(self.spin_budget.as_ref().filter(|budget| counts(budget.is_default()))),
            fifo: cell.or(self.fifo.as_ref(), false),
            think: cell.some(self.think.as_ref()),
        }
    }

    fn workload_of(&self, cell: &Cell<'_>, target: &Target) -> Workload {
        let by_target = match (belongs::Family::of(target), &self.script) {
            (_, Some(_)) => Workload::Script,
            (Some(belongs::Family::Cache), None) if self.command.is_some() => Workload::Native,
            (Some(belongs::Family::Cache), None) => Workload::Kv,
            (Some(belongs::Family::Database) | None, None) => Workload::OltpReadWrite,
            (Some(_), None) => Workload::Native,
        };
        cell.or(self.workload.as_ref(), by_target)
    }

    fn oltp_mix(&self, cell: &Cell<'_>) -> OltpMix {
        let usual = OltpMix::USUAL;
        OltpMix {
            range_selects: cell.or(self.range_selects.as_ref(), usual.range_selects),
            index_updates: cell.or(self.index_updates.as_ref(), usual.index_updates),
            non_index_updates: cell.or(self.non_index_updates.as_ref(), usual.non_index_updates),
            delete_inserts: cell.or(self.delete_inserts.as_ref(), usual.delete_inserts),
            random_points: cell.or(self.random_points.as_ref(), usual.random_points),
            number_of_ranges: cell.or(self.number_of_ranges.as_ref(), usual.number_of_ranges),
            delta: cell.or(self.delta.as_ref(), usual.delta),
            bulk_rows: cell.or(self.bulk_rows.as_ref(), usual.bulk_rows),
        }
    }

    fn kv(&self, cell: &Cell<'_>) -> KvSettings {
        let usual = KvSettings::usual();
        KvSettings {
            keys: cell.or(self.keys.as_ref(), usual.keys),
            get_ratio: cell.or(self.mix.as_ref(), usual.get_ratio),
            sizes: cell.or(self.sizes.as_ref(), usual.sizes),
            distribution: cell.or(self.key_distribution.as_ref(), usual.distribution),
            pipeline: cell.or(self.pipeline.as_ref(), usual.pipeline),
            multi_get: cell.or(self.multi_get.as_ref(), usual.multi_get),
            ttl: self.ttl.as_ref().map(|ttl| cell.of(Some(ttl))),
            commands: self
                .command
                .iter()
                .flat_map(|list| &list.value)
                .map(|c| CacheCommand::parse(c))
                .collect(),
        }
    }

    fn http(&self, cell: &Cell<'_>) -> HttpSettings {
        let plain = HttpSettings::plain();
        HttpSettings {
            method: cell.or(self.method.as_ref(), plain.method),
            headers: self.header.as_ref().map(|h| h.value.clone()).unwrap_or_default(),
            body: cell.or(self.body.as_ref(), plain.body),
            expected_status: self.expect_status.as_ref().map(|s| cell.of(Some(s))),
            requests: self.requests.as_ref().map(|r| cell.of(Some(r))),
            version: cell.or(self.http_version.as_ref(), plain.version),
            ca: self.ca.as_ref().map(|c| cell.of(Some(c))),
            insecure: cell.or(self.insecure.as_ref(), plain.insecure),
            identity: self
                .cert
                .as_ref()
                .zip(self.key.as_ref())
                .map(|(cert, key)| ClientFiles { cert: cell.of(Some(cert)), key: cell.of(Some(key)) }),
            unix_socket: self.unix_socket.as_ref().map(|path| cell.of(Some(path))),
            timeout: self.timeout.as_ref().map(|timeout| cell.of(Some(timeout))),
            cookies: cell.or(self.cookies.as_ref(), plain.cookies),
            data: self.data.as_ref().map(|file| cell.of(Some(file))),
            streams: cell.or(self.streams.as_ref(), plain.streams),
        }
    }

    /// The secrets that it refers to.
    pub(crate) fn secrets(&self) -> Vec<Reference> {
        let lists = self.header.iter().chain(&self.env).chain(&self.command).flat_map(|list| &list.value);
        let of_lists = lists.flat_map(|entry| secret::references(entry)).map(|(_, reference)| reference);
        self.templates().into_iter().flat_map(AnyTemplated::secrets).cloned().chain(of_lists).collect()
    }

    /// What does not go together in one cell. Only where every value is one of its kind.
    pub(crate) fn conflict(&self, levels: &Levels) -> Option<Problem> {
        let cell = Cell { levels, scratch: "/scratch" };
        let Some(RateWritten::Plain(rate)) = &self.rate else { return None };
        let target = Target::new(cell.of(Some(self.target.as_ref()?)));
        if let Some((option, why)) = belongs::stranger(&target, |option| self.place_of(option).is_some()) {
            let key = option.replace('-', "_");
            let place = self.place_of(option)?;
            let kind = ProblemKind::DoesNotBelong { key: format!("load.{key}"), why };
            return Some(Problem { place, kind });
        }
        for entry in self.header.iter().flat_map(|header| &header.value) {
            if entry.split_once(':').is_none_or(|(name, _)| name.trim().is_empty()) {
                return Some(wrong(
                    "header",
                    self.header.as_ref()?.place,
                    format!("\"{entry}\""),
                    "\"NAME: VALUE\"",
                ));
            }
        }
        for entry in self.env.iter().flat_map(|env| &env.value) {
            if variable(entry).is_none() {
                return Some(wrong(
                    "env",
                    self.env.as_ref()?.place,
                    format!("\"{entry}\""),
                    "\"NAME=VALUE\"",
                ));
            }
        }
        if let (Some(_), Some(workload)) = (&self.script, &self.workload) {
            let found = format!("\"{}\"", cell.of(Some(workload)).word());
            return Some(wrong("workload", workload.place, found, "no `workload` beside a `script`"));
        }
        if let (Some(_), Some(workload)) = (&self.command, &self.workload) {
            let found = format!("\"{}\"", cell.of(Some(workload)).word());
            return Some(wrong("workload", workload.place, found, "no `workload` beside a `command`"));
        }
        match self.asked(&cell, rate).resolved(ANY_SPAN) {
            Err(refused) => return self.refused(&cell, &refused),
            Ok(pace) => {
                // Nothing is due in a closed loop; but one of many connections has answers to look for.
                let connections = self.connections.as_ref().map(|connections| cell.of(Some(connections)));
                let may_spin = pace.may_spin(connections);
                if let Some(spin) = self.spin_us.as_ref().filter(|spin| !may_spin && cell.of(Some(*spin)) > 0)
                {
                    let expected = "a `rate` or `connections` beside it";
                    return Some(wrong("spin_us", spin.place, cell.of(Some(spin)).to_string(), expected));
                }
            }
        }
        let threads = cell.of(Some(self.threads.as_ref()?));
        let few = |connections: &&Templated<u32>| cell.of(Some(*connections)) < threads;
        if let Some(connections) = self.connections.as_ref().filter(few) {
            let found = cell.of(Some(connections)).to_string();
            return Some(wrong(
                "connections",
                connections.place,
                found,
                "at least one for each of the `threads`",
            ));
        }
        None
    }

    /// Why the loop of a cell cannot be had, and where that is written.
    fn refused(&self, cell: &Cell<'_>, refused: &Refused) -> Option<Problem> {
        let (option, found, expected) = match refused {
            Refused::TwoRates(arrivals) => {
                ("arrivals", format!("\"{arrivals}\""), "no `rate` beside arrivals that say their rates")
            }
            Refused::NoJitter(_) => ("jitter", cell.of(self.jitter.as_ref()).to_string(), "jitter arrivals"),
            Refused::ThinksBesideRate(think) => ("think", think.to_string(), "no `rate` beside it"),
            Refused::NeedsRate(option) => (*option, self.said(cell, option), "a `rate` beside it"),
        };
        Some(wrong(&option.replace('-', "_"), self.place_of(option)?, found, expected))
    }

    /// The value of an option that only open loops have.
    fn said(&self, cell: &Cell<'_>, option: &str) -> String {
        let percent = |ratio: f64| format!("\"{}%\"", 100.0 * ratio);
        match option {
            "arrivals" => format!("\"{}\"", cell.of(self.arrivals.as_ref())),
            "jitter" => percent(cell.of(self.jitter.as_ref())),
            "schedule" => format!("\"{}\"", cell.of(self.schedule.as_ref()).word()),
            "late" => format!("\"{}\"", cell.of(self.late.as_ref())),
            "spin-budget" => percent(cell.of(self.spin_budget.as_ref())),
            _ => "true".to_owned(),
        }
    }

    /// Where an option that does not belong to all targets is written.
    fn place_of(&self, option: &str) -> Option<Place> {
        match option {
            "script" => return self.script.as_ref().map(|w| w.place),
            "header" => return self.header.as_ref().map(|w| w.place),
            "env" => return self.env.as_ref().map(|w| w.place),
            "command" => return self.command.as_ref().map(|w| w.place),
            _ => {}
        }
        let path = format!("load.{}", option.replace('-', "_"));
        // What is there by default was not asked for.
        let written = |t: &&dyn AnyTemplated| t.path() == path && !t.is_default();
        self.templates().into_iter().find(written).map(AnyTemplated::place)
    }
}

/// Whether settings go together does not depend on the length of the phase.
const ANY_SPAN: Duration = Duration::from_secs(1);

/// A value that does not go together with others.
fn wrong(key: &str, place: Place, found: String, expected: &str) -> Problem {
    let kind = ProblemKind::BadValue { key: format!("load.{key}"), found, expected: expected.into() };
    Problem { place, kind }
}

/// One cell: what placeholders stand for.
struct Cell<'a> {
    levels: &'a Levels,
    scratch: &'a str,
}

impl Cell<'_> {
    /// A value that is written or has a default.
    fn of<T>(&self, value: Option<&Templated<T>>) -> T {
        value.expect("checked to be there").of(self.levels, self.scratch)
    }

    fn some<T>(&self, value: Option<&Templated<T>>) -> Option<T> {
        value.map(|value| value.of(self.levels, self.scratch))
    }

    fn or<T>(&self, value: Option<&Templated<T>>, absent: T) -> T {
        value.map_or(absent, |value| value.of(self.levels, self.scratch))
    }
}

/// A time-out of no length would give up every request.
fn over_zero(text: &str) -> Option<Duration> {
    duration(text).filter(|span| !span.is_zero())
}

fn ttl(text: &str) -> Option<Duration> {
    duration(text).filter(|ttl| KvSettings::is_ttl(*ttl))
}

fn script_file(text: &Written<String>) -> ScriptFile {
    ScriptFile { name: "script".to_owned(), weight: 1, text: text.value.clone() }
}

fn text_of(scratch: &Path) -> String {
    scratch.to_str().expect("the runner's scratch folders are UTF-8").to_owned()
}

fn rate(text: &str) -> Option<Rate> {
    if text == "max" {
        Some(Rate(None))
    } else {
        quantity::rate_per_s(text).ok().map(|per_s| Rate(Some(per_s)))
    }
}

/// Reads `64MiB`.
fn bytes(text: &str) -> Option<u64> {
    quantity::bytes(text).ok().filter(|bytes| *bytes >= LoadSettings::ANSWER_BYTES_MIN)
}

/// A plan has no files beside it.
fn arrivals(text: &str) -> Option<Arrivals> {
    Arrivals::parse(text).ok().filter(|arrivals| !matches!(arrivals, Arrivals::File(_)))
}

/// Reads `queue`, `skip=100ms`, `drop`, `pace=2x`.
fn late_policy(text: &str) -> Option<LatePolicy> {
    LatePolicy::parse(text).ok()
}

fn think(text: &str) -> Option<Think> {
    Think::parse(text).ok()
}

fn sizes(text: &str) -> Option<Vec<SizeClass>> {
    KvSettings::parse_sizes(text).ok()
}

fn mix(text: &str) -> Option<f64> {
    KvSettings::parse_mix(text).ok()
}

fn method(text: &str) -> Option<String> {
    let is_word = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
    is_word.then(|| text.to_ascii_uppercase())
}

/// Reads `scale=10, users=5`.
fn defines(text: &str) -> Option<Vec<(String, String)>> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let define = |part: &str| {
        let (name, value) = part.trim().split_once('=')?;
        is_name(name).then(|| (name.to_owned(), value.to_owned()))
    };
    text.split(',').map(define).collect()
}

fn variable(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let is_good = !name.is_empty() && !text.contains('\0');
    is_good.then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
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

    /// The loops of all trials, closed ones first.
    fn loops(load: &str) -> Vec<Loop> {
        let plan = read(load).unwrap();
        let trials = plan.trials();
        let mut loops: Vec<Loop> =
            trials.iter().map(|trial| plan.load_settings(trial, Path::new("/scratch")).pace).collect();
        loops.sort_by(|a, b| a.per_s().unwrap_or(0.0).total_cmp(&b.per_s().unwrap_or(0.0)));
        loops
    }

    #[test]
    fn what_only_open_loops_have_is_for_the_levels_with_a_rate() {
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
    fn what_no_loop_has_together_is_refused_where_it_stands() {
        for (load, says) in [
            ("rate = 9\narrivals = \"ramp:1-9\"", "no `rate` beside arrivals that say their rates"),
            ("rate = 9\nthink = \"1s\"", "`load.think`"),
            ("rate = \"{rate}\"\nthink = \"1s\"", "no `rate` beside it"),
            ("fifo = true", "`load.fifo`"),
            ("spin_us = 9", "a `rate` or `connections` beside it"),
            ("arrivals = \"poisson\"", "`load.arrivals`"),
            ("jitter = \"5%\"", "`load.jitter`"),
            ("schedule = \"own\"", "`load.schedule`"),
            ("late = \"drop\"", "\"drop\""),
            ("rate = \"max\"\nspin_budget = \"1%\"", "`load.spin_budget`"),
        ] {
            let error = read(load).unwrap_err();
            assert!(error.contains(says), "{load}: {error}");
        }
    }
}
