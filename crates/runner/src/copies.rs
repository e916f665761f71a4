//! Throughput of many simultaneous copies of one unit of work.
//!
//! All copies start together and run the command repeatedly, until each has worked for the plan's time and
//! finished a run; then all are stopped. So each copy is measured while all others work. Its rate is the
//! number of finished runs, divided by the time from its start to the end of the last of them. A run that the
//! end interrupts is not counted. Each copy has a thread in this process that starts the command and waits
//! for it.

pub(crate) mod files;
mod judge;
mod room;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use load::Stop;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use plan::{Machine, ScalePlan};
use record::bakeoff::Trial;
use record::clock::{Clock as _, Monotonic};
use record::environment::Environment;
use record::limits::Throttled;
use record::missing::Maybe;
use record::series::{Sample, SharedText};

use self::files::Files;
use self::judge::{others_sentence, stolen_sentence, strays_sentence, unfair, used_cpu_s};
use self::room::{changed, cpus_text, machine, over_the_limits};
use self::weights::{SOLO_RUNS, Weights};
use crate::beside::Beside;
use crate::control_group::ControlGroup;
use crate::error::RunnerError;
use crate::log;
use crate::process::{Placement, Process, Waited};
use crate::rounds::{Bench, Measured, Shortfall};
use crate::strays::{self, Strays};
use crate::workspace::Workspace;

/// Length of a CPU interval while copies work.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which hung copies and requests to stop are checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Shortest time over which copies are comparable. Over a shorter one, their start times dominate.
const FAIR_FROM: Duration = Duration::from_millis(200);
/// Fact that holds the solo time of each copy's command.
const UNIT_WORK: &str = "scale.unit_work";
/// Fact that holds the CPUs that the copies may use.
const CPUS: &str = "scale.cpus";

/// Means to find the copies again if this process dies.
#[derive(Debug, Clone)]
pub(crate) struct Confined {
    group: Option<Arc<ControlGroup>>,
    mark: String,
}

impl Confined {
    pub(crate) fn to(workspace: &Workspace) -> Self {
        Self { group: workspace.control_group().cloned(), mark: workspace.mark().to_owned() }
    }

    /// Ends processes that copies left behind, which must not run on into the next level. Returns the number
    /// of live ones.
    fn end_strays(&self) -> Result<usize, String> {
        let in_group = self.group.as_ref().map_or(Ok(0), |group| group.empty())?;
        Ok(in_group + Strays::begin(&self.mark, None).end()?)
    }
}

/// A scale run that is ready to be measured.
pub(crate) struct Copies {
    confined: Confined,
    plan: ScalePlan,
    machine: Machine,
    /// Number of CPUs that can be busy all the time under the quota.
    cpus: u32,
    weights: Weights,
    /// Facts about the files that the command names.
    files: BTreeMap<String, Maybe<String>>,
}

impl Copies {
    /// Checks that the limits allow so many copies, and that the command works.
    ///
    /// - `begun`: the machine at the start of the run, if it is resumed: all rounds have the same weights.
    pub(crate) fn prepare(
        plan: &ScalePlan,
        confined: Confined,
        begun: Option<&Environment>,
        folder: &Path,
        stop: &Stop,
    ) -> Result<Self, RunnerError> {
        for unit in &plan.units {
            // Detected by reading: this reports a folder and a file without permission.
            let readable = File::open(unit).and_then(|f| {
                if f.metadata()?.is_file() { Ok(()) } else { Err(io::ErrorKind::IsADirectory.into()) }
            });
            readable.map_err(|source| RunnerError::Data {
                what: format!("cannot read the unit of work {unit}"),
                source,
            })?;
        }
        let not_fit = |problem: String| RunnerError::NotFit { problems: vec![problem] };
        let (machine, cpus) = machine(plan).map_err(not_fit)?;
        let places: BTreeSet<u32> = machine.places.keys().copied().collect();
        let before = begun.and_then(|environment| environment.fact(CPUS));
        if let Some(problem) = before.and_then(|before| changed(before, &cpus_text(&places, cpus))) {
            return Err(not_fit(problem));
        }
        let copies = *plan.copies.last().expect("checked");
        if let Some(problem) = over_the_limits(u64::from(copies)) {
            return Err(not_fit(problem));
        }
        strays::adopt()
            .map_err(|e| not_fit(format!("cannot adopt processes that copies leave behind: {e}")))?;
        let mut ready = Self {
            confined,
            plan: plan.clone(),
            machine,
            cpus,
            weights: Weights::even(),
            files: BTreeMap::new(),
        };
        let files = Files::named_by(plan);
        ready.rehearse(0, folder, stop)?;
        let known = begun.and_then(|environment| environment.fact(UNIT_WORK));
        let known = known.and_then(|text| Weights::read(text, plan.kinds_of_work()));
        ready.weights = known.map_or_else(|| ready.weigh(folder, stop), Ok)?;
        ready.confined.end_strays().map_err(not_fit)?;
        ready.files = files.facts();
        let here = Environment { facts: ready.files.clone(), ..Environment::default() };
        let changed = begun.map_or_else(Vec::new, |begun| files::differing(&here, begun));
        if !changed.is_empty() {
            return Err(not_fit(format!(
                "the work has changed since the run began (there): {}; start a new run",
                changed.join("; ")
            )));
        }
        Ok(ready)
    }

    /// Returns facts that the rounds of a resumed run must not measure again.
    pub(crate) fn facts(&self) -> BTreeMap<String, Maybe<String>> {
        let weights = (self.weights.each.len() > 1).then(|| (UNIT_WORK.to_owned(), Ok(self.weights.text())));
        let cpus = (CPUS.to_owned(), Ok(cpus_text(&self.places(), self.cpus)));
        weights.into_iter().chain([cpus]).chain(self.files.clone()).collect()
    }

    fn places(&self) -> BTreeSet<u32> {
        self.machine.places.keys().copied().collect()
    }

    /// Reports whether the copies may use other CPUs now than at the start of the run.
    fn other_cpus(&self) -> Option<String> {
        match room::cpus(&self.plan) {
            Ok((cpus, count)) => changed(&cpus_text(&self.places(), self.cpus), &cpus_text(&cpus, count)),
            Err(why) => Some(why),
        }
    }

    /// Measures each kind of work alone, relative to the first. Other work or a quota would distort the
    /// ratio.
    fn weigh(&self, folder: &Path, stop: &Stop) -> Result<Weights, RunnerError> {
        let kinds = self.plan.kinds_of_work();
        if kinds < 2 {
            return Ok(Weights::even());
        }
        let mut beside = Beside::new(self.plan.observe);
        let used = used_cpu_s();
        beside.open_books();
        let began_ns = Monotonic.now_ns();
        let mut alone: [Vec<Duration>; SOLO_RUNS] = Default::default();
        for turn in &mut alone {
            for kind in 0..kinds {
                turn.push(self.rehearse(kind, folder, stop)?);
            }
        }
        let wall_s = (Monotonic.now_ns() - began_ns) as f64 * 1e-9;
        beside.close_interval();
        let used_s = used_cpu_s() - used;
        let places = self.places();
        let all_s = wall_s * places.len() as f64;
        let others = beside.busy_s(&places).map(|busy_s| (busy_s - used_s) / all_s);
        let stolen = beside.stolen_s(&places).map(|stolen_s| stolen_s / all_s);
        let quota =
            beside.take_throttled().ok().filter(Throttled::is_any).map(|throttled| throttled.to_string());
        let why = quota
            .or_else(|| self.other_cpus())
            .or_else(|| stolen_sentence(stolen.unwrap_or(0.0), places.len()))
            .or_else(|| others_sentence(others.unwrap_or(0.0), places.len()));
        match why {
            Some(why) => {
                Err(RunnerError::NotFit { problems: vec![format!("while each unit ran alone, {why}")] })
            }
            None => Ok(Weights::of(&alone)),
        }
    }

    /// Runs one copy alone, which shows that the command works and brings its input into memory. Returns its
    /// duration.
    fn rehearse(&self, copy: u32, folder: &Path, stop: &Stop) -> Result<Duration, RunnerError> {
        let log = folder.join("rehearsal.log");
        let began_ns = Monotonic.now_ns();
        let mut process = self.start(copy, 1, &log).map_err(|source| match source.raw_os_error() {
            Some(number) if Errno::from_raw(number) == Errno::EPERM => RunnerError::NotFit {
                problems: vec![format!(
                    "the scheduling class {} needs root or CAP_SYS_NICE",
                    self.plan.scheduler
                )],
            },
            _ => RunnerError::NoCommand { command: self.plan.command_of(copy).join(" "), source },
        })?;
        match self.wait_alone(&process, stop)? {
            Waited::Stopped => return Err(RunnerError::StoppedBefore),
            Waited::TimedOut => {
                let what = format!("it did not end within {:?} (--timeout)", self.plan.timeout);
                return Err(RunnerError::Rehearsal { what });
            }
            Waited::Done => {}
        }
        let took = Duration::from_nanos(Monotonic.now_ns() - began_ns);
        match strays::end_group(&mut process) {
            Ok(status) if status.success() => Ok(took),
            Ok(status) => {
                Err(RunnerError::Rehearsal { what: format!("it ended with {status}{}", last_words(&log)) })
            }
            Err(e) => Err(RunnerError::Rehearsal { what: format!("its exit status is unknown: {e}") }),
        }
    }

    /// Waits for the exact end of a run, since its duration measures its work.
    fn wait_alone(&self, process: &Process, stop: &Stop) -> Result<Waited, RunnerError> {
        if self.plan.kinds_of_work() < 2 {
            return Ok(process.wait(self.plan.timeout, stop));
        }
        process
            .watch(self.plan.timeout, stop)
            .map_err(|e| RunnerError::Rehearsal { what: format!("its exit status is unknown: {e}") })
    }

    fn start(&self, copy: u32, copies: u32, log: &Path) -> io::Result<Process> {
        let words = self.plan.command_of(copy);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.env("BAKEOFF_COPY", copy.to_string()).env("BAKEOFF_COPIES", copies.to_string());
        command.env(strays::VARIABLE, &self.confined.mark);
        let log = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let bound = self.plan.bind.cpus_of(copy, &self.machine);
        let allowed = self.plan.cpus.clone();
        let placement = Placement {
            cpus: bound.or(allowed),
            scheduler: self.plan.scheduler,
            group: self.confined.group.clone(),
            ..Placement::ANYWHERE
        };
        Process::spawn(command, &placement)
    }

    /// Measures one level once.
    pub(crate) fn measure(&self, trial: &Trial, bench: &mut Bench<'_>) -> Result<Measured, Shortfall> {
        let copies: u32 = trial.levels[ScalePlan::COPIES].parse().expect("trials are made from the plan");
        let floor = Floor {
            state: Mutex::new(State { running: vec![None; copies as usize], reached: 0, end: None }),
            changed: Condvar::new(),
        };
        let used = used_cpu_s();
        bench.beside.open_books();
        let began_ns = Monotonic.now_ns();
        let tallies: Vec<Tally> = std::thread::scope(|scope| {
            let work = |copy| {
                let log = bench.folder.join(format!("copy-{copy}.log"));
                let (ready, floor) = (self, &floor);
                let thread = std::thread::Builder::new();
                let started = thread.spawn_scoped(scope, move || ready.work(copy, copies, &log, floor));
                started
                    .map_err(|e| floor.fail(format!("copy {} of {copies} has no thread: {e}", copy + 1)))
                    .ok()
            };
            let workers: Vec<_> = (0..copies).map_while(work).collect();
            self.supervise(&floor, copies, bench);
            workers.into_iter().map(|w| w.join().expect("a copy's thread does not panic")).collect()
        });
        let strays = self.confined.end_strays();
        let wall_s = (Monotonic.now_ns() - began_ns) as f64 * 1e-9;
        bench.beside.close_interval();
        // All processes that the copies started have ended by now and are counted.
        let used_s = used_cpu_s() - used;
        for copy in 0..copies {
            // The output of the copies has been read if it was needed.
            let _ = fs::remove_file(bench.folder.join(format!("copy-{copy}.log")));
        }
        let end = floor.lock().end.clone();
        let invalid = match end {
            Some(End::Stopped) => return Err(Shortfall::Stopped),
            Some(End::Failed(reason)) => Some(reason),
            Some(End::Reached) | None => None,
        };
        let places = self.places();
        let all_s = wall_s * places.len() as f64;
        let others_ratio = bench.beside.busy_s(&places).map(|busy_s| (busy_s - used_s) / all_s);
        let stolen_ratio = bench.beside.stolen_s(&places).map(|stolen_s| stolen_s / all_s);
        let rates: Vec<f64> =
            (0..).zip(&tallies).map(|(copy, tally)| tally.rate() * self.weights.of_copy(copy)).collect();
        let invalid = invalid
            .or_else(|| strays.map_or_else(Some, |count| (count > 0).then(|| strays_sentence(count))))
            .or_else(|| self.other_cpus())
            .or_else(|| stolen_sentence(stolen_ratio.unwrap_or(0.0), places.len()))
            .or_else(|| others_sentence(others_ratio.clone().unwrap_or(0.0), places.len()))
            .or_else(|| if self.plan.time < FAIR_FROM { None } else { unfair(&rates, self.cpus) });
        let mut samples = self.samples(bench, wall_s, &tallies);
        if let Ok(ratio) = others_ratio {
            samples.push(Sample {
                t_ms: since_ms(bench),
                host: SharedText::default(),
                name: "others_ratio".into(),
                labels: SharedText::default(),
                value: ratio,
            });
        }
        Ok(Measured { samples, invalid })
    }

    /// Returns the results of the copies, in units of the first unit's work.
    fn samples(&self, bench: &Bench<'_>, wall_s: f64, tallies: &[Tally]) -> Vec<Sample> {
        let t_ms = since_ms(bench);
        let mut samples = Vec::new();
        let mut add = |name: &str, labels: String, value: f64| {
            samples.push(Sample {
                t_ms,
                host: SharedText::default(),
                name: name.into(),
                labels: labels.into(),
                value,
            });
        };
        add("cpus", String::new(), f64::from(self.cpus));
        add("wall_s", String::new(), wall_s);
        if self.weights.each.len() > 1 {
            add("unit_work_error_ratio", String::new(), self.weights.error_ratio);
        }
        for (copy, tally) in (0..).zip(tallies) {
            let (label, weight) = (|| format!("copy={copy}"), self.weights.of_copy(copy));
            add("runs", label(), tally.runs as f64);
            if self.weights.each.len() > 1 {
                add("unit_work_ratio", label(), weight);
            }
            if tally.runs > 0 {
                add("work_per_s", label(), tally.rate() * weight);
                add("cpu_s_per_run", label(), tally.cpu.as_secs_f64() / tally.runs as f64 / weight);
            }
        }
        samples
    }

    /// Runs one copy until the level ends. Each copy has a thread for this.
    fn work(&self, copy: u32, copies: u32, log: &Path, floor: &Floor) -> Tally {
        let mut tally = Tally::default();
        let began_ns = Monotonic.now_ns();
        let name = || format!("copy {} of {copies}", copy + 1);
        loop {
            let mut process = match self.start(copy, copies, log) {
                Ok(process) => process,
                Err(e) => {
                    let limit =
                        if e.kind() == io::ErrorKind::WouldBlock { " (a limit on processes)" } else { "" };
                    floor.fail(format!("cannot start {}: {e}{limit}", name()));
                    return tally;
                }
            };
            if !floor.enter(copy, process.pid()) {
                // Processes that it has started must be gone before the level's strays are counted.
                let _ = strays::end_group(&mut process);
                return tally;
            }
            let cpu = process.watch_cpu_time();
            let now_ns = Monotonic.now_ns();
            // From here on no other thread kills it, so its process id may be reused.
            let over = floor.leave(copy);
            let status = strays::end_group(&mut process);
            if over {
                return tally;
            }
            match (cpu, status) {
                (Ok(cpu), Ok(status)) if status.success() => {
                    tally.runs += 1;
                    tally.cpu += cpu;
                    tally.for_s = (now_ns - began_ns) as f64 * 1e-9;
                }
                (_, Ok(status)) => {
                    floor.fail(format!("{} ended with {status}{}", name(), last_words(log)));
                    return tally;
                }
                (_, Err(e)) => {
                    floor.fail(format!("{}: its exit status is unknown: {e}", name()));
                    return tally;
                }
            }
            if !tally.reached && tally.for_s >= self.plan.time.as_secs_f64() {
                tally.reached = true;
                floor.reached(copies);
            }
        }
    }

    /// Waits for the end of the level: all copies have worked long enough, one has died or hangs, or the user
    /// stops.
    fn supervise(&self, floor: &Floor, copies: u32, bench: &mut Bench<'_>) {
        let timeout_ns = u64::try_from(self.plan.timeout.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = u64::try_from(INTERVAL.as_nanos()).expect("a second is short");
        let mut close_at_ns = Monotonic.now_ns() + interval_ns;
        loop {
            let state = floor.lock();
            let (state, _) = floor
                .changed
                .wait_timeout_while(state, LOOK_EVERY, |s| s.end.is_none())
                .unwrap_or_else(PoisonError::into_inner);
            if state.end.is_some() {
                return;
            }
            let now_ns = Monotonic.now_ns();
            let hung = |r: &Option<(Pid, u64)>| r.is_some_and(|(_, since)| now_ns - since > timeout_ns);
            let hung = state.running.iter().position(hung);
            drop(state);
            if bench.stop.is_requested() {
                floor.end(End::Stopped);
            } else if let Some(copy) = hung {
                let within = self.plan.timeout;
                floor
                    .fail(format!("copy {} of {copies} did not end within {within:?} (--timeout)", copy + 1));
            }
            if now_ns >= close_at_ns {
                bench.beside.close_interval();
                close_at_ns = now_ns + interval_ns;
            }
        }
    }
}

/// Work done by a copy.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    /// Seconds from its start to the end of its last run.
    for_s: f64,
    /// CPU time of its runs.
    cpu: Duration,
    reached: bool,
}

impl Tally {
    /// Returns the runs per second; 0 if no run was finished.
    fn rate(&self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.runs as f64 / self.for_s }
    }
}

fn since_ms(bench: &Bench<'_>) -> i64 {
    i64::try_from((Monotonic.now_ns() - bench.anchor.monotonic_ns) / 1_000_000).unwrap_or(i64::MAX)
}

/// State that the copies of a level share.
struct Floor {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Process and start time of each copy's current run.
    running: Vec<Option<(Pid, u64)>>,
    /// Number of copies that have worked long enough.
    reached: u32,
    end: Option<End>,
}

#[derive(Debug, Clone)]
enum End {
    Reached,
    Failed(String),
    Stopped,
}

impl Floor {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a process. Returns `false` if the level is over, in which case it must not run.
    fn enter(&self, copy: u32, pid: Pid) -> bool {
        let mut state = self.lock();
        if state.end.is_none() {
            state.running[copy as usize] = Some((pid, Monotonic.now_ns()));
        }
        state.end.is_none()
    }

    /// Removes a process. Returns whether the level was over before.
    fn leave(&self, copy: u32) -> bool {
        let mut state = self.lock();
        state.running[copy as usize] = None;
        state.end.is_some()
    }

    fn reached(&self, copies: u32) {
        let mut state = self.lock();
        state.reached += 1;
        if state.reached == copies {
            drop(state);
            self.end(End::Reached);
        }
    }

    fn fail(&self, reason: String) {
        self.end(End::Failed(reason));
    }

    /// Ends the level, for the first reason given, and kills all runs.
    fn end(&self, end: End) {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        for (pid, _) in state.running.iter().flatten() {
            // It may have ended just now, which is the goal.
            let _ = killpg(*pid, Signal::SIGKILL);
        }
        self.changed.notify_all();
    }
}

/// Returns the last part of a log, as the end of a sentence.
fn last_words(log: &Path) -> String {
    File::open(log)
        .map_or_else(|e| format!("; its output cannot be read: {e}"), |file| log::last_words(&file))
}

#[cfg(test)]
mod tests;
