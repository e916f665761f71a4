//! Offers load at a steady rate and records latency.
//!
//! The schedule ([`pace`]) determines when each event is due; it is a pure function, independent of the
//! server. Workers, a thread and a connection each, take events and do them: in an open loop when they are
//! due, in a closed loop as soon as the last one ends. Each event gets four stamps of `CLOCK_MONOTONIC`:
//! *due*, *claim* (a worker was free and took it), *start* (its first byte is about to be sent) and *end*.
//! They yield
//!
//! - wait = max(0, claim - due), the wait for a worker;
//! - lateness = start - max(due, claim), caused by the generator;
//! - service = end - start, retries included;
//! - response = end - due = wait + lateness + service, exactly.
//!
//! Between the intended start and the recorded latency of an event that succeeds, our code allocates nothing,
//! takes no lock and writes no log, whether the target is a database or `null:`. `exec:` starts a process,
//! which is part of the service time. A failed try carries its message in a string, and a lost connection is
//! recorded under a lock.
//!
//! The module `counting` has the one rule of which events count. An event of the measured phase that has not
//! ended counts as unfinished, with its duration so far: nothing is ever dropped, and `planned = done +
//! failed + skipped + unfinished` is asserted at the end of every run.

mod conduct;
mod connection;
mod control;
mod driver;
mod engine;
mod error;
mod judge;
#[cfg(feature = "lua")]
mod lua;
mod measure;
mod net;
mod schedule;
mod scripts;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use record::clock::Monotonic;
use record::load::rules::{self, Family};
use record::load::settings::{self, Setting};
use record::load::{
    Arrivals, Distribution, LatePolicy, LoadRecord, LoadSettings, Loop, OpenLoop, PreparePolicy, ScriptFile,
    Think, Workload,
};
use record::nearest::nearest;
use record::quantity::DURATION_MAX;
use record::target::Target;

pub use conduct::Attachments;
pub use control::bound::ThreadCpus;
pub use control::progress::Event;
pub use control::start_line::{FirstStart, StartLine};
pub use control::stop::{Stop, StopLevel};
pub use control::turns::Turns;
pub use control::{Control, ControlError};
use driver::Scheme;
pub use driver::dd;
pub use driver::exec::words_of as exec_words;
#[cfg(any(test, feature = "fuzz"))]
pub use driver::fuzz;
use driver::hosts::Hosts;
pub use error::{ErrorClass, LoadError};
pub use judge::verdict::hosts as hosts_check;
pub use judge::verdict::lateness::{check as lateness_check, generator_made};
pub use judge::{prove, search};
#[cfg(feature = "lua")]
pub use lua::commands::{Declarations, declarations};
#[cfg(feature = "lua")]
pub use lua::options::{Declared, Kind as OptionKind};
#[cfg(feature = "lua")]
pub use lua::program::{Output as ScriptOutput, print_to as scripts_print_to};
pub use net::address::ServerAddress;
use schedule::clock::{SharedClock, to_ns};
use schedule::due::Due;
use schedule::pace::{RATE_MAX, Scratch};
pub use schedule::share::{Share, threads_min};
pub use schedule::{pace, random};
pub use scripts::LuaScript;
pub use workload::tables::{Cleaned, Prepared};

/// Drives one load, from its data set to its record.
///
/// The record is complete however the run ends: at its time, or when `stop` is requested; then it has the
/// measurements until that moment and the verdict `interrupted`. A stopped run returns within about a second,
/// whatever its server does.
///
/// # Errors
///
/// [`LoadError`] if nothing could be measured. A server that fails during the run is not an error: the record
/// shows it.
pub fn run(
    settings: &LoadSettings,
    stop: &Stop,
    on_progress: &mut dyn FnMut(&Event),
) -> Result<LoadRecord, LoadError> {
    let mut slices = Vec::new();
    let mut record = run_with(settings, &Attachments::default(), stop, &mut |event| {
        if let Event::IntervalClosed(of_interval) = event {
            slices.extend_from_slice(of_interval);
        }
        on_progress(event);
    })?;
    record.slices = slices;
    Ok(record)
}

/// Variant of [`run`] that takes attachments. The distributions of the intervals are only in
/// [`Event::IntervalClosed`]: memory does not grow with the length of the run.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(
    settings: &LoadSettings,
    attachments: &Attachments,
    stop: &Stop,
    on_progress: &mut dyn FnMut(&Event),
) -> Result<LoadRecord, LoadError> {
    let own = attachments.share.as_ref().map(|share| share.of_settings(settings));
    let (whole, settings) = (settings, own.as_ref().unwrap_or(settings));
    let hosts = Arc::new(Arc::unwrap_or_clone(opened(settings, stop)?).of_share(attachments.share.clone()));
    check_attachments(settings, attachments)?;
    if (whole.connections_in_all() as usize) < hosts.all().len() {
        return Err(LoadError::Setting {
            name: "connections",
            found: whole.connections_in_all().to_string(),
            expected: "at least one for each host of the target",
        });
    }
    let clock: SharedClock = match &attachments.turns {
        Some(turns) => Arc::<Turns>::clone(turns),
        None => Arc::new(Monotonic),
    };
    conduct::run(settings, attachments, &hosts, clock, stop, on_progress)
}

/// Number of events of the measured phase that are due in a share of an open loop; `None` in a closed loop.
///
/// - `recorded`: the due times of [`Arrivals::File`].
/// - `measured`: length of the phase, if it ended early.
pub fn planned(
    settings: &LoadSettings,
    recorded: &Arc<[u64]>,
    share: Share,
    measured: Duration,
) -> Option<u64> {
    let due = Due::new(settings, settings.pace.as_open()?, recorded, share, 0);
    let until_ns = to_ns(settings.ramp_up + settings.warmup + measured.min(settings.time));
    Some(due.row().measured_due_before(until_ns, &mut Scratch::default()))
}

/// Builds the data set of a workload if it is missing, by `settings.prepare`.
///
/// # Errors
///
/// [`LoadError`] if the data set is missing and cannot or may not be built.
pub fn prepare(
    settings: &LoadSettings,
    stop: &Stop,
    on_progress: &mut dyn FnMut(&Event),
) -> Result<Prepared, LoadError> {
    let hosts = opened(settings, stop)?;
    conduct::look(settings, &hosts, stop, on_progress).map(|seen| seen.prepared)
}

/// Removes the data set of a workload.
///
/// # Errors
///
/// [`LoadError`] if the server cannot be reached or refuses.
pub fn cleanup(settings: &LoadSettings) -> Result<Cleaned, LoadError> {
    // Do not build a data set only to remove it.
    let settings = LoadSettings { prepare: PreparePolicy::Never, ..settings.clone() };
    let hosts = open(&settings)?;
    conduct::cleanup(&settings, &hosts)
}

/// Executes a command of a script in Lua; without a command, only loads the script.
///
/// # Errors
///
/// [`LoadError`] if the script lacks the command, or if it fails.
#[cfg(feature = "lua")]
pub fn script_command(settings: &LoadSettings, command: Option<&str>, stop: &Stop) -> Result<(), LoadError> {
    let hosts = opened(settings, stop)?;
    conduct::script_command(settings, &hosts, command, stop)
}

/// Names of the operations of a load's events, indexed by [`record::event::EventRow::operation`].
///
/// # Errors
///
/// [`LoadError`] if the settings are invalid, or `stop` was requested.
pub fn operations(settings: &LoadSettings, stop: &Stop) -> Result<Vec<String>, LoadError> {
    Ok(opened(settings, stop)?
        .driver()
        .operations()
        .into_iter()
        .map(|share| share.name.into_owned())
        .collect())
}

/// Checks the scheme and the form of a target, without connecting.
///
/// # Errors
///
/// [`LoadError::UnknownScheme`] or [`LoadError::Malformed`], with what to write instead.
pub fn check_target(target: &Target) -> Result<(), LoadError> {
    scheme(target).map(|_| ())
}

/// Addresses of the servers of a load, one for each host of its target; empty if they have no address, or the
/// target is invalid.
pub fn server_addresses(settings: &LoadSettings) -> Vec<ServerAddress> {
    driver::scheme_of(&settings.target)
        .map_or_else(Vec::new, |scheme| driver::hosts::addresses(settings, scheme))
}

/// Default workload of a target: the mixed transaction for SQL, the target itself for others.
pub fn default_workload(target: &Target) -> Workload {
    rules::default_workload(target, |_| false)
}

/// Warnings that a user should read before a load begins: an unchecked server certificate, a readable
/// password.
pub fn notices(settings: &LoadSettings) -> Vec<String> {
    const UNCHECKED: &str =
        "the server's certificate is not checked: an attacker on the network could impersonate the server";
    let mut notices = Vec::new();
    if settings.http.insecure {
        notices.push(format!("--insecure: {UNCHECKED}"));
    }
    // The query string of a web server's target belongs to the server.
    let query = match Family::of(&settings.target) {
        Some(Family::Database | Family::Cache) => {
            settings.target.expose().split_once('?').map_or("", |(_, query)| query)
        }
        _ => "",
    };
    for parameter in query.split('&') {
        match parameter {
            "tls=require" | "sslmode=require" => notices.push(format!("{parameter}: {UNCHECKED}")),
            "cleartext=1" | "cleartext=yes" | "cleartext=true" => notices.push(format!(
                "{parameter}: the password may cross the network in cleartext, readable by an attacker"
            )),
            _ => {}
        }
    }
    notices
}

/// Names the scheme that the target probably misspells, or all forms of targets.
fn unknown_scheme(target: &Target) -> LoadError {
    // Without a colon, the whole text may be the name of a scheme.
    let name = if target.scheme().is_empty() { target.expose() } else { target.scheme() };
    let meant = nearest(name, driver::SCHEMES.iter().map(|s| s.name));
    let forms = driver::SCHEMES.iter().map(|s| s.form).filter(|form| !form.is_empty());
    let advice = meant.map_or_else(
        || forms.fold(": expected one of".to_owned(), |list, form| list + "\n  " + form),
        |name| format!("; did you mean `{name}:`?"),
    );
    LoadError::UnknownScheme { target: target.clone(), advice }
}

fn scheme(target: &Target) -> Result<&'static Scheme, LoadError> {
    let Some(scheme) = driver::scheme_of(target) else {
        return Err(unknown_scheme(target));
    };
    let malformed = |problem| LoadError::Malformed { target: target.clone(), problem };
    for target in driver::hosts::targets(target).map_err(malformed)? {
        (scheme.check)(&target).map_err(malformed)?;
    }
    Ok(scheme)
}

/// Variant of [`open`] that ends if `stop` is requested: resolving a name, and reading a data file, may take
/// long.
fn opened(settings: &LoadSettings, stop: &Stop) -> Result<Arc<Hosts>, LoadError> {
    let settings = settings.clone();
    conduct::aside::run(stop, &mut |_| {}, move |_, _| open(&settings))
}

fn open(settings: &LoadSettings) -> Result<Arc<Hosts>, LoadError> {
    let scheme = scheme(&settings.target)?;
    if !scheme.workloads.contains(&settings.workload) {
        let words: Vec<_> = scheme.workloads.iter().map(|w| w.word()).collect();
        let (target, expected) = (settings.target.clone(), words.join(", "));
        return Err(LoadError::UnsupportedWorkload { target, workload: settings.workload, expected });
    }
    check_settings(settings)?;
    check_scripts(settings)?;
    let hosts = Hosts::open(settings, scheme).map_err(|failure| conduct::setup_error(settings, &failure))?;
    if settings.has_loops() && hosts.driver().multiplex().is_none() {
        return Err(LoadError::Setting {
            name: "connections",
            found: settings.connections_in_all().to_string(),
            expected: "as many as threads: each connection to this target needs its own thread",
        });
    }
    Ok(Arc::new(hosts))
}

/// Checks that a script in Lua is the only one: others are its modules, which have no weight.
fn check_scripts(settings: &LoadSettings) -> Result<(), LoadError> {
    let files = &settings.scripts.files;
    if files.len() > 1 && files.iter().any(ScriptFile::is_lua) {
        let is_alone = files[0].is_lua() && files[0].weight == 1 && files[1..].iter().all(|f| f.weight == 0);
        if !is_alone {
            let text = "a Lua script runs alone and has no weight: give only one --script".to_owned();
            return Err(LoadError::ScriptText { text });
        }
    }
    Ok(())
}

/// Whether a load can rest between turns: its threads wait for nothing but the end of an event.
pub fn takes_turns(s: &LoadSettings) -> bool {
    let is_plain = matches!(s.pace, Loop::Closed { think: Think::None });
    let rises_or_falls = !s.ramp_up.is_zero() || !s.ramp_down.is_zero();
    is_plain && !rises_or_falls && s.events_max.is_none() && !s.has_loops() && !s.scripts.is_lua()
}

/// Checks that a recorded schedule is present, sorted, and as long as the settings say, and that a load with
/// a number of events has a fixed rate.
fn check_attachments(s: &LoadSettings, attachments: &Attachments) -> Result<(), LoadError> {
    if attachments.turns.is_some() && !takes_turns(s) {
        let (found, expected) =
            ("turns".to_owned(), "a closed loop with a connection for each thread, no think time");
        return Err(LoadError::Setting { name: "rate", found, expected });
    }
    if let (Some(_), Some(events)) = (&attachments.control, s.events_max) {
        let expected = "none if the rate may be changed: the time that the events take depends on it";
        return Err(LoadError::Setting { name: "events", found: events.to_string(), expected });
    }
    let Some(Arrivals::File(file)) = s.pace.as_open().map(|open| &open.arrivals) else { return Ok(()) };
    let recorded = attachments.recorded.as_deref().unwrap_or(&[]);
    let is_good = !recorded.is_empty() && recorded[0] == 0 && recorded.is_sorted();
    if is_good && recorded.len() as u64 == file.events {
        return Ok(());
    }
    let (found, expected) = (
        format!("file:{} with {} due times", file.path, recorded.len()),
        "at least one due time, in ascending order, the first at 0",
    );
    Err(LoadError::Setting { name: "arrivals", found, expected })
}

/// Checks the rules and bounds that the engine relies on: a caller may have checked none of the settings.
fn check_settings(s: &LoadSettings) -> Result<(), LoadError> {
    if let Some(violation) = s.violation() {
        return Err(LoadError::BreaksRule { violation });
    }
    let numbers: [(&'static Setting, u64); 7] = [
        (&settings::KEYS, s.kv.keys),
        (&settings::THREADS, s.threads.into()),
        (&settings::CONNECTS_AT_ONCE, s.connects_at_once.into()),
        (&settings::TABLES, s.oltp.tables.into()),
        (&settings::ROWS, s.oltp.rows),
        (&settings::POINT_SELECTS, s.oltp.point_selects.into()),
        (&settings::RANGE_SIZE, s.oltp.range_size),
    ];
    if let Some((setting, found)) = numbers.into_iter().find(|(setting, n)| !setting.takes_number(*n)) {
        return Err(LoadError::OutOfBounds { setting, found });
    }
    let distribution_is_good = match s.oltp.distribution {
        Distribution::Zipfian { exponent } => exponent.is_finite() && exponent >= 0.0,
        Distribution::Pareto { h } => h > 0.0 && h < 1.0,
        Distribution::Uniform | Distribution::Special => true,
    };
    let errors_ratio_max = s.errors_ratio_max;
    first_broken([
        (!s.time.is_zero(), "time", format!("{:?}", s.time), "a duration over 0"),
        // Also the length that events take at their rate, or a replay at its speed.
        (s.time <= DURATION_MAX, "time", format!("{:?}", s.time), "a duration of at most 3650d (ten years)"),
        (
            s.warmup <= DURATION_MAX,
            "warmup",
            format!("{:?}", s.warmup),
            "a duration of at most 3650d (ten years)",
        ),
        (
            s.ramp_up <= DURATION_MAX,
            "ramp_up",
            format!("{:?}", s.ramp_up),
            "a duration of at most 3650d (ten years)",
        ),
        (
            s.ramp_down <= DURATION_MAX,
            "ramp_down",
            format!("{:?}", s.ramp_down),
            "a duration of at most 3650d (ten years)",
        ),
        (s.events_max != Some(0), "events", "0".to_owned(), "at least 1"),
        (!s.interval.is_zero(), "interval", format!("{:?}", s.interval), "a duration over 0"),
        (
            (0.0..=1.0).contains(&errors_ratio_max),
            "max_errors",
            errors_ratio_max.to_string(),
            "a ratio from 0 to 1",
        ),
        (
            distribution_is_good,
            "distribution",
            format!("{:?}", s.oltp.distribution),
            "an exponent of at least 0, or h between 0 and 1",
        ),
    ])?;
    s.pace.as_open().map_or(Ok(()), check_open)
}

/// Checks the bounds of the settings that only an open loop has.
fn check_open(open: &OpenLoop) -> Result<(), LoadError> {
    let rate_is_good = open.per_s > 0.0 && open.per_s <= RATE_MAX;
    let jitter_is_good = match open.arrivals {
        Arrivals::Jitter { ratio } => (0.0..=1.0).contains(&ratio),
        _ => true,
    };
    let late_is_good = match open.late {
        LatePolicy::Skip { limit } => !limit.is_zero(),
        LatePolicy::Pace { times } => times > 1.0 && times.is_finite(),
        LatePolicy::Queue | LatePolicy::Drop => true,
    };
    first_broken([
        (
            rate_is_good,
            "rate",
            format!("{}/s", open.per_s),
            "over 0 and up to 10 million a second, or none for a closed loop",
        ),
        (jitter_is_good, "jitter", open.arrivals.to_string(), "a share of the period from 0% to 100%"),
        (late_is_good, "late", open.late.to_string(), "a limit over 0, or a speed over 1x"),
    ])
}

/// The error of the first rule that is broken.
///
/// - `rules`: whether each holds, the setting, its value, and what is expected.
fn first_broken<const N: usize>(
    rules: [(bool, &'static str, String, &'static str); N],
) -> Result<(), LoadError> {
    match rules.into_iter().find(|(is_good, ..)| !is_good) {
        Some((_, name, found, expected)) => Err(LoadError::Setting { name, found, expected }),
        None => Ok(()),
    }
}
