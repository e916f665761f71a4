//! A script in Lua beside its workers: its tables, its commands, `init` and `done`, its report hooks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use record::clock::{Clock as _, Monotonic};
use record::histogram::Histogram;
use record::load::{DataCheck, LoadRecord, LoadSettings, Phase, PreparePolicy, Progress};
use record::verdict::Check;

use super::aside::{self, Aside};
use super::setup_error::setup_error;
use crate::connection::Cut;
use crate::control::progress::Event;
use crate::control::stop::{Stop, StopLevel};
use crate::driver::hosts::Hosts;
use crate::error::LoadError;
use crate::lua::commands::{self, Hooks, Looked, Reporter};
use crate::lua::context::{Context, Counts};
use crate::lua::program::{Failed, Modules, Output, Program};
use crate::lua::state::Report;
use crate::schedule::clock::to_ns;
use crate::workload::tables::Prepared;

/// Prepares the tables of a script by the script's own command, by the policy.
pub(super) fn ensure(
    program: &Program,
    settings: &LoadSettings,
    aside: &Aside,
) -> Result<Prepared, LoadError> {
    let mut prepared = Prepared { found: 0, built: 0, rows: 0 };
    if program.server.is_none() {
        return Ok(prepared);
    }
    let cuts = armed(&aside.cut);
    let does_prepare = match settings.prepare {
        PreparePolicy::Never => false,
        PreparePolicy::Always => {
            if let Err(error) = execute(program, settings, "cleanup", &cuts) {
                // A script without that command has nothing to remove.
                if !matches!(error, LoadError::ScriptText { .. }) {
                    return Err(error);
                }
            }
            true
        }
        PreparePolicy::Auto if settings.check == DataCheck::None => false,
        PreparePolicy::Auto => match commands::look(program, &cuts) {
            Ok(Looked::Well) => false,
            Ok(Looked::Misses) => true,
            Err(failure) => return Err(setup_error(settings, &failure)),
        },
    };
    if does_prepare {
        execute(program, settings, "prepare", &cuts)?;
        prepared.built = 1;
    }
    Ok(prepared)
}

/// Executes a command of the script before a load; what it prints is a message, not a result.
fn execute(
    program: &Program,
    settings: &LoadSettings,
    command: &str,
    cuts: &Arc<Mutex<Vec<Cut>>>,
) -> Result<(), LoadError> {
    let mut of_command = Program::new(settings, Some(command), program.server.clone());
    if of_command.output == Output::Stdout {
        of_command.output = Output::Stderr;
    }
    commands::execute(&of_command, cuts)
}

/// A list of cuts that the cut of a worker cuts.
fn armed(cut: &Cut) -> Arc<Mutex<Vec<Cut>>> {
    let cuts: Arc<Mutex<Vec<Cut>>> = Arc::default();
    let theirs = Arc::clone(&cuts);
    cut.arm(move || Context::cut_all(&theirs));
    cuts
}

/// Executes a command of a script on each host; without a command, only loads the script.
pub(crate) fn script_command(
    settings: &LoadSettings,
    hosts: &Arc<Hosts>,
    command: Option<&str>,
    stop: &Stop,
) -> Result<(), LoadError> {
    let (settings, hosts) = (settings.clone(), Arc::clone(hosts));
    let command = command.map(str::to_owned);
    aside::run(stop, &mut |_| {}, move |aside, _| {
        let cuts = armed(&aside.cut);
        for host in hosts.all() {
            let server = host.driver.script().and_then(|program| program.server.clone());
            let mut program = Program::new(&settings, command.as_deref(), server);
            // A command alone has no record.
            program.modules = Modules::OnDisk;
            commands::execute(&program, &cuts).map_err(|error| host.fails(error))?;
        }
        Ok(())
    })
}

/// Reports that may wait for their hook: a hook that is slower than the intervals misses the others.
const WAITING_MAX: u32 = 10;

/// Share of the rows of bulk inserts that may wait at the end of the measured phase.
const UNSENT_ROWS_MAX: f64 = 0.05;

/// The script's state beside the workers.
pub(super) struct ScriptSide {
    /// The program of the reports, and those of the other hosts.
    programs: Vec<Arc<Program>>,
    reporter: Reporter,
    hooks: Hooks,
    /// Cuts the connections of that state.
    cut: Cut,
    threads: u32,
    interval_s: f64,
    drain: Duration,
    is_open_loop: bool,
    /// Requests without an answer.
    waiting: u32,
    /// Counts at the end of the last interval, and at the beginning of the measured phase. `None` without a
    /// warm-up: the counts before the first events, since a conductor that wakes late would miss statements.
    last: Option<Counts>,
    first: Option<Counts>,
    /// Counts at the end of the measured phase: a ramp-down and the drain follow.
    measured: Option<Counts>,
    /// Threads that the script had ended by then.
    threads_ended: Option<u32>,
    has_warmup: bool,
}

impl ScriptSide {
    /// Loads the script of a load and calls `init`; `None` if the load has no script in Lua.
    pub(super) fn begin(
        settings: &LoadSettings,
        hosts: &Hosts,
        stop: &Stop,
    ) -> Result<Option<Self>, LoadError> {
        let Some(program) = hosts.driver().script() else { return Ok(None) };
        let cut = Cut::default();
        let reporter = Reporter::start(Arc::clone(program), armed(&cut))?;
        let programs = hosts.all().iter().filter_map(|host| host.driver.script().cloned());
        let mut side = Self {
            programs: programs.collect(),
            reporter,
            hooks: Hooks::default(),
            cut,
            threads: settings.threads,
            interval_s: settings.interval.as_secs_f64(),
            drain: settings.drain,
            is_open_loop: settings.pace.as_open().is_some(),
            waiting: 0,
            last: None,
            first: None,
            measured: None,
            threads_ended: None,
            has_warmup: !settings.warmup.is_zero() || !settings.ramp_up.is_zero(),
        };
        match side.reporter.answer(&|| stop.is_requested()) {
            Some(Ok(hooks)) => side.hooks = hooks,
            Some(Err(failure)) => return Err(setup_error(settings, &failure)),
            None => {
                side.cut.cut();
                return Err(LoadError::Interrupted);
            }
        }
        Ok(Some(side))
    }

    /// Passes an event of the run on to the report hooks, without waiting for them.
    pub(super) fn follow(&mut self, event: &Event) {
        match event {
            Event::PhaseStarts { phase: Phase::Measure, .. } if self.has_warmup => {
                self.first = Some(self.counts());
                self.last = self.first;
            }
            Event::Interval(progress) if progress.phase == Phase::Measure => self.interval(progress),
            Event::MeasureEnds => {
                self.measured = Some(self.counts());
                self.threads_ended = Some(self.threads_ended_so_far());
            }
            _ => {}
        }
    }

    fn interval(&mut self, progress: &Progress) {
        if !self.hooks.intermediate {
            return;
        }
        let counts = self.counts();
        let before = self.last.replace(counts).unwrap_or_else(|| self.counts_before_events());
        while self.reporter.answered().is_some() {
            self.waiting -= 1;
        }
        // The rest at the end of a phase is part of the whole, and no interval.
        if progress.interval_s < 0.99 * self.interval_s || self.waiting >= WAITING_MAX {
            return;
        }
        let report = Report {
            threads: self.threads,
            interval_s: progress.interval_s,
            total_s: progress.t_s,
            events: (progress.achieved_per_s * progress.interval_s).round(),
            counts: difference(counts, before),
            latency_pct_s: self.percentile_s(&progress.latency.merged()),
            latency_s: None,
            queue: self.is_open_loop.then(|| self.queue(progress.backlog)),
        };
        self.reporter.report("report_intermediate", report);
        self.waiting += 1;
    }

    /// Events that wait, and events in progress, of those that are due and have not ended.
    fn queue(&self, backlog: u64) -> (u64, u64) {
        let running =
            self.programs.iter().map(|program| program.events_in_progress()).sum::<u64>().min(backlog);
        (backlog - running, running)
    }

    /// Check that the script has sent what its threads had left at their end; `None` if it holds.
    fn unsent(&self) -> Option<Check> {
        let threads: u32 = self.programs.iter().map(|program| program.unsent()).sum();
        let text = format!(
            "{threads} of the script's threads lost their connection before `thread_done` or in it: rows or statements \
             of events that are done did not reach the server"
        );
        let check = Check { name: "thread-done", ok: false, found: f64::from(threads), limit: 0.0, text };
        (threads > 0).then_some(check)
    }

    fn threads_ended_so_far(&self) -> u32 {
        self.programs.iter().map(|program| program.threads_ended()).sum()
    }

    /// Check that the script's threads did not end themselves; `None` if it holds.
    fn ended(&self) -> Option<Check> {
        let ended = self.threads_ended.unwrap_or_else(|| self.threads_ended_so_far());
        let text = format!(
            "{ended} of {} threads of the script ended, because `event` returned a value: fewer threads, or none, \
             did the work after that",
            self.threads
        );
        (ended > 0).then_some(Check {
            name: "threads-ended",
            ok: false,
            found: f64::from(ended),
            limit: 0.0,
            text,
        })
    }

    /// Check that the rows of bulk inserts were sent in the measured phase; `None` if it holds.
    fn unsent_rows(&self) -> Option<Check> {
        let first = self.first.unwrap_or_else(|| self.counts_before_events());
        let measured = self.measured?;
        let rows = measured.rows - first.rows;
        // The newest rows wait: those of a warm-up are counted only after all of the measured phase.
        let late = measured.rows_waiting.min(rows);
        let found = late as f64 / (rows as f64).max(1.0);
        let text = format!(
            "{late} of the {rows} rows that the script added to bulk inserts in the measured phase were not sent in \
             it: the server's time for them is in no event"
        );
        (found > UNSENT_ROWS_MAX).then_some(Check {
            name: "bulk-rows",
            ok: false,
            found,
            limit: UNSENT_ROWS_MAX,
            text,
        })
    }

    /// Calls the cumulative hook and `done`, and judges the ends of the threads.
    pub(super) fn end(&mut self, record: &mut LoadRecord, stop: &Stop) {
        for check in [self.ended(), self.unsent_rows(), self.unsent()].into_iter().flatten() {
            record.verdict.add(check);
        }
        let until_ns = Monotonic.now_ns().saturating_add(to_ns(self.drain));
        if !self.settle(&|| stop.level() == StopLevel::Now || Monotonic.now_ns() >= until_ns) {
            let text = format!("the hook report_intermediate did not return within {:?}", self.drain);
            self.programs[0].fail(Failed { text, is_usage: false });
            return self.cut.cut();
        }
        if self.hooks.cumulative {
            let latency = &record.response.as_ref().unwrap_or(&record.service).known;
            let seconds = |ns: f64| ns * 1e-9;
            let sum = |mean_ns: f64| seconds(mean_ns * latency.count() as f64);
            let report = Report {
                threads: 0,
                interval_s: record.measured.as_secs_f64(),
                total_s: record.measured.as_secs_f64(),
                events: record.counts.done as f64,
                counts: difference(
                    self.measured.unwrap_or_else(|| self.counts()),
                    self.first.unwrap_or_else(|| self.counts_before_events()),
                ),
                latency_pct_s: self.percentile_s(latency),
                latency_s: latency.summary().map(|s| {
                    [seconds(s.min_ns as f64), seconds(s.max_ns as f64), seconds(s.mean_ns), sum(s.mean_ns)]
                }),
                queue: None,
            };
            self.reporter.report("report_cumulative", report);
            self.waiting += 1;
        }
        self.reporter.done();
        self.waiting += 1;
        if !self.settle(&|| stop.level() == StopLevel::Now) {
            self.cut.cut();
        }
    }

    /// Counts of all hosts.
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.programs.iter().for_each(|program| program.add_counts(&mut counts));
        counts
    }

    /// Counts before the first event of each thread.
    fn counts_before_events(&self) -> Counts {
        let mut counts = Counts::default();
        self.programs.iter().for_each(|program| program.add_counts_before_events(&mut counts));
        counts
    }

    fn percentile_s(&self, latency: &Histogram) -> f64 {
        latency.quantile_ns(self.hooks.percentile / 100.0).unwrap_or(0) as f64 * 1e-9
    }

    /// Waits for all answers; false if `is_over` says so before. The script's thread reports its failures.
    fn settle(&mut self, is_over: &dyn Fn() -> bool) -> bool {
        while self.waiting > 0 {
            if self.reporter.answer(is_over).is_none() {
                return false;
            }
            self.waiting -= 1;
        }
        true
    }
}

fn difference(after: Counts, before: Counts) -> Counts {
    Counts {
        other: after.other - before.other,
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
        errors: after.errors - before.errors,
        reconnects: after.reconnects - before.reconnects,
        rows: after.rows - before.rows,
        rows_waiting: after.rows_waiting,
    }
}
