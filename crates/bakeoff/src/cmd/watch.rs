//! `bakeoff watch`: all instruments on one screen, live or from the archive.

use std::collections::{BTreeMap, VecDeque};
use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use anyhow::Context as _;
use archive::{Archive, Filter, PartOf};
use probes::block_io::{self, IoProbe};
use probes::cpu_time::{self, CpuProbe};
use probes::locks::{self, LockProbe};
use probes::nic::{self, NicProbe};
use probes::schedule::Deadlines;
use probes::user_locks::{self, UserLockProbe};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use record::block_io::{IoBy, IoInterval};
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::cpu::CpuInterval;
use record::instruments::{Observed, Timed};
use record::locks::{LockInterval, UserLockInterval};
use record::missing::{Maybe, Missing};
use record::nic::NicInterval;
use record::run::{Run, RunKind, RunState};

use crate::cmd::{Global, intervals, local_time, of_archive};
use crate::confine;
use crate::exit::Exit;
use crate::own_cost;
use crate::signals;
use crate::watch_screen::{View, draw};

/// Show all instruments on one screen, live: CPUs, locks, block I/O, network, and the running load
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Seconds between updates, or a duration such as 500ms
    #[arg(value_parser = intervals::interval, default_value = "1")]
    interval: Duration,

    /// Replay an archived run instead of showing this machine
    #[arg(long, value_name = "RUN")]
    replay: Option<String>,
}

const EXAMPLES: &str = "\
Keys: q quits, p or the space bar pauses, + and - change the interval, or the speed of a replay (+ is faster); while paused,
left and right step through past intervals. A line that starts with LOST says why numbers are lower bounds.

Examples:
  bakeoff watch                     this machine, once a second
  bakeoff watch --replay 01K9       that run's recording, interval by interval";

/// Maximum number of I/O intervals in a heat map.
const HISTORY: usize = 600;
/// Number of samples that the user can step back to.
const LOOKS_KEPT: usize = 120;
/// Number of locks stored per sample: more than a screen has lines.
const LOCKS_KEPT: usize = 50;
/// A long interval, because the archive is read for it.
const LOAD_EVERY_NS: u64 = 5_000_000_000;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_mins(1);
const LIVE_KEYS: &str = "q quit  p pause, then \u{2190} \u{2192} step  + - interval";
const REPLAY_KEYS: &str = "q quit  p pause, then \u{2190} \u{2192} step  + faster  - slower";
const KEYS_PAUSED: &str = "q quit  p go on  \u{2190} \u{2192} step";

pub(crate) fn run(args: &Args, global: &Global, _: &mut dyn Write) -> anyhow::Result<Exit> {
    let run = args.replay.as_deref().map(|text| replayed(global, text)).transpose()?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let why = "`watch` needs a terminal; for a pipe, use `cpu`, `locks`, `io` or `nic` with --json";
        return Err(Exit::Usage.with(why));
    }
    signals::stop_on_interrupt()?;
    let (mut live, mut replay);
    let source: &mut dyn Source = if let Some(run) = &run {
        replay = Replay::new(run);
        &mut replay
    } else {
        live = Live::start(global);
        &mut live
    };
    // The terminal is restored even after a panic.
    let mut terminal = ratatui::try_init().context("taking the terminal over")?;
    let end = watch(&mut terminal, source, args.interval);
    ratatui::restore();
    end.map(|()| Exit::Good)
}

/// Source of the values.
trait Source {
    /// Reads the next interval.
    fn look(&mut self);

    /// Shows the next interval, if there is one.
    fn forward(&mut self);

    /// Shows the previous interval.
    fn backward(&mut self);

    /// CPU time of the programs in the kernel since the start.
    fn programs_ns(&mut self) -> f64;

    /// Whether `+` shortens the time between two screens: in a replay it raises the speed; live, it lengthens
    /// the interval.
    fn plus_is_faster(&self) -> bool;

    /// Values to show.
    fn view(&self, interval: Duration) -> View<'_>;
}

fn watch(terminal: &mut DefaultTerminal, source: &mut dyn Source, interval: Duration) -> anyhow::Result<()> {
    let (mut interval, mut paused) = (interval, false);
    let mut own = OwnShare::new();
    let mut deadlines = Deadlines::new(Monotonic.now_ns(), interval);
    loop {
        terminal.draw(|frame| {
            let view = source.view(interval);
            let keys = if paused { KEYS_PAUSED } else { view.keys };
            draw(frame, &View { own_ratio: own.ratio, paused, keys, ..view });
        })?;
        match next_key(deadlines.next_ns())? {
            Next::Deadline => {
                deadlines.answered_at(Monotonic.now_ns());
                if !paused {
                    source.look();
                }
                own.look(source.programs_ns());
            }
            Next::Quit => return Ok(()),
            Next::Pause => paused = !paused,
            Next::Redraw => {}
            // The shown sample would be replaced at the next deadline.
            Next::Forward | Next::Back if !paused => {}
            Next::Forward => source.forward(),
            Next::Back => source.backward(),
            Next::Plus | Next::Minus if paused => {}
            change @ (Next::Plus | Next::Minus) => {
                let is_faster = matches!(change, Next::Plus) == source.plus_is_faster();
                let changed = if is_faster { interval / 2 } else { interval * 2 };
                interval = changed.clamp(SHORTEST, LONGEST);
                deadlines = Deadlines::new(Monotonic.now_ns(), interval);
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Next {
    Deadline,
    Quit,
    Pause,
    Plus,
    Minus,
    Forward,
    Back,
    Redraw,
}

/// Waits for a known key, or for the deadline.
fn next_key(deadline_ns: u64) -> anyhow::Result<Next> {
    /// Interval between checks for SIGTERM, which is not a key event.
    const LOOK_EVERY: Duration = Duration::from_millis(200);
    loop {
        if signals::STOP.is_requested() {
            return Ok(Next::Quit);
        }
        // Keys are handled first, even if a sample takes longer than an interval.
        let left = Duration::from_nanos(deadline_ns.saturating_sub(Monotonic.now_ns()));
        if !event::poll(left.min(LOOK_EVERY))? {
            if Monotonic.now_ns() >= deadline_ns {
                return Ok(Next::Deadline);
            }
            continue;
        }
        match event::read()? {
            Event::Resize(..) => return Ok(Next::Redraw),
            Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Next::Quit),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(Next::Quit),
                KeyCode::Char('p' | ' ') => return Ok(Next::Pause),
                KeyCode::Char('+') => return Ok(Next::Plus),
                KeyCode::Char('-') => return Ok(Next::Minus),
                KeyCode::Right => return Ok(Next::Forward),
                KeyCode::Left => return Ok(Next::Back),
                _ => {}
            },
            _ => {}
        }
    }
}

/// Cost of watching as a share of the machine: this process, and the programs in the kernel.
struct OwnShare {
    at_ns: u64,
    used_ns: f64,
    cpus: f64,
    ratio: Option<f64>,
}

impl OwnShare {
    fn new() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        Self { at_ns: Monotonic.now_ns(), used_ns: own_cost::used_ns() as f64, cpus, ratio: None }
    }

    /// - `programs_ns`: CPU time of the programs in the kernel so far.
    fn look(&mut self, programs_ns: f64) {
        let (at_ns, used_ns) = (Monotonic.now_ns(), own_cost::used_ns() as f64 + programs_ns);
        let wall_ns = at_ns.saturating_sub(self.at_ns).max(1) as f64;
        self.ratio = Some((used_ns - self.used_ns).max(0.0) / wall_ns / self.cpus);
        (self.at_ns, self.used_ns) = (at_ns, used_ns);
    }
}

/// Live values of this machine.
struct Live {
    cpu: CpuProbe,
    nic: NicProbe,
    io: Maybe<IoProbe>,
    locks: Maybe<LockProbe>,
    ulocks: Maybe<UserLockProbe>,
    archive: Option<Archive>,
    looked_for_load_ns: u64,
    load: Option<String>,
    /// Samples, the newest last.
    looks: VecDeque<Snapshot>,
    /// I/O intervals of all samples, and earlier ones.
    seen_io: Maybe<VecDeque<IoInterval>>,
    /// Number of samples between the shown one and the newest.
    back: usize,
    anchor: WallAnchor,
}

/// Values of one sample.
struct Snapshot {
    cpu: CpuInterval,
    nic: NicInterval,
    locks: Maybe<LockInterval>,
    ulocks: Maybe<UserLockInterval>,
}

impl Live {
    fn start(global: &Global) -> Self {
        let mut cpu = cpu_time::open(&cpu_time::Options::of_this_machine());
        let mut nic = nic::open(BTreeMap::new());
        let io = block_io::open(&block_io::Options::everything(IoBy::default()));
        let io = begun(io, IoProbe::measure_cost, IoProbe::start);
        let refused = |e: locks::Refused| Missing::because(e.to_string());
        let locks = locks::open(&locks::Options::of_everyone()).map_err(refused);
        let locks = begun(locks, LockProbe::measure_cost, LockProbe::start);
        let ulocks = user_locks::open(&user_locks::Options::of_everyone_else()).map_err(refused);
        let ulocks = begun(ulocks, UserLockProbe::measure_cost, UserLockProbe::start);
        cpu.measure_cost();
        cpu.start();
        nic.start();
        confine::after_setup();
        let seen_io = io.as_ref().map(|_| VecDeque::new()).map_err(Clone::clone);
        let mut live = Self {
            cpu,
            nic,
            io,
            locks,
            ulocks,
            // Without an archive, no load can be found.
            archive: global.archive().ok(),
            looked_for_load_ns: 0,
            load: None,
            looks: VecDeque::new(),
            seen_io,
            back: 0,
            anchor: WallAnchor::now(),
        };
        live.look_for_load();
        live
    }

    /// Looks for a running load: it holds the lock of its run, and the archive lists the run as running for
    /// that time.
    fn look_for_load(&mut self) {
        let now_ns = Monotonic.now_ns();
        if self.looked_for_load_ns != 0 && now_ns < self.looked_for_load_ns + LOAD_EVERY_NS {
            return;
        }
        self.looked_for_load_ns = now_ns;
        let running = Filter {
            kind: Some(RunKind::Load),
            state: Some(RunState::Running),
            labels: Vec::new(),
            text: None,
            part_of: PartOf::Anything,
        };
        let found = self.archive.as_ref().and_then(|archive| archive.list(&running).ok());
        self.load = found.and_then(|runs| runs.into_iter().next()).map(|listed| {
            let since_s = now_ns.saturating_sub(listed.header.anchor.monotonic_ns) / 1_000_000_000;
            format!("{}, for {since_s} s", listed.header.title)
        });
    }
}

impl Source for Live {
    fn look(&mut self) {
        self.back = 0;
        let locks = match &mut self.locks {
            Ok(probe) => probe.read().map(|seen| seen.by_caller().at_most(LOCKS_KEPT)),
            Err(why) => Err(why.clone()),
        };
        let ulocks = match &mut self.ulocks {
            Ok(probe) => probe.read().map(|seen| seen.by_caller().at_most(LOCKS_KEPT)),
            Err(why) => Err(why.clone()),
        };
        keep(
            &mut self.looks,
            Snapshot { cpu: self.cpu.read(), nic: self.nic.read(), locks, ulocks },
            LOOKS_KEPT,
        );
        if let (Ok(probe), Ok(seen)) = (&mut self.io, &mut self.seen_io) {
            match probe.read() {
                Ok(interval) => {
                    keep(seen, interval, HISTORY);
                    seen.make_contiguous();
                }
                Err(why) => self.seen_io = Err(why),
            }
        }
        self.look_for_load();
    }

    fn forward(&mut self) {
        self.back = self.back.saturating_sub(1);
    }

    fn backward(&mut self) {
        self.back = (self.back + 1).min(self.looks.len().saturating_sub(1));
    }

    fn programs_ns(&mut self) -> f64 {
        let of_others = [
            self.io.as_mut().map(IoProbe::cost),
            self.locks.as_mut().map(LockProbe::cost),
            self.ulocks.as_mut().map(UserLockProbe::cost),
        ];
        let costs = of_others.into_iter().flatten().chain([self.cpu.cost()]);
        costs.flatten().map(|cost| cost.ns()).sum()
    }

    fn plus_is_faster(&self) -> bool {
        false
    }

    fn view(&self, interval: Duration) -> View<'_> {
        let first = || Missing::because("the first interval is not over");
        let shown = self.looks.iter().rev().nth(self.back).ok_or_else(first);
        let now_ns = shown.as_ref().map_or(self.anchor.monotonic_ns, |look| look.cpu.until_ns);
        let (cpu, nic) = (shown.clone().map(|look| &look.cpu), shown.clone().map(|look| &look.nic));
        let back = match self.back {
            0 => String::new(),
            n => format!(", {n} before the newest"),
        };
        View {
            source: format!("live, every {interval:?}{back}"),
            time: local_time(self.anchor.unix_ns_at(now_ns)),
            paused: false,
            cpu,
            locks: shown.clone().and_then(|look| look.locks.as_ref().map_err(Clone::clone)),
            ulocks: shown.and_then(|look| look.ulocks.as_ref().map_err(Clone::clone)),
            io: self.seen_io.as_ref().map_err(Clone::clone).map(|seen| {
                let all = seen.as_slices().0;
                &all[..all.len().saturating_sub(self.back)]
            }),
            nic,
            load: self.load.clone(),
            own_ratio: None,
            keys: LIVE_KEYS,
        }
    }
}

/// Measures the cost of a probe, and begins its first interval.
fn begun<P>(probe: Maybe<P>, measure_cost: fn(&mut P), start: fn(&mut P) -> Maybe<u64>) -> Maybe<P> {
    let mut probe = probe?;
    measure_cost(&mut probe);
    start(&mut probe).map(|_| probe)
}

fn keep<T>(all: &mut VecDeque<T>, newest: T, most: usize) {
    all.push_back(newest);
    while all.len() > most {
        all.pop_front();
    }
}

/// Values that were recorded with a run.
struct Replay<'a> {
    run: &'a Run,
    /// Ends of the intervals of the CPUs or, without them, of the other instruments, in rising order.
    times_ns: Vec<u64>,
    at: usize,
}

impl<'a> Replay<'a> {
    fn new(run: &'a Run) -> Self {
        let of_cpu: Vec<u64> = run.cpu.iter().map(Timed::until_ns).collect();
        let times_ns = if of_cpu.is_empty() { run.instruments.ends_ns() } else { of_cpu };
        Self { run, times_ns, at: 0 }
    }

    /// Intervals of an instrument up to the current position.
    fn so_far<T: Observed>(&self) -> Maybe<&'a [T]> {
        match up_to(T::of(&self.run.instruments), self.now_ns()) {
            [] => Err(self.not(T::NAME)),
            intervals => Ok(intervals),
        }
    }

    /// The last interval of an instrument at the current position.
    fn last<T: Observed>(&self) -> Maybe<&'a T> {
        self.so_far().map(|intervals| &intervals[intervals.len() - 1])
    }

    /// Reason that an instrument has no intervals.
    fn not(&self, name: &str) -> Missing {
        let known = self.run.instruments.missing.get(name).cloned();
        known.unwrap_or_else(|| Missing::because("not measured in this run"))
    }

    fn now_ns(&self) -> u64 {
        self.times_ns.get(self.at).copied().unwrap_or(self.run.header.anchor.monotonic_ns)
    }
}

/// Instruments are read one after the other: an interval that ends this much after the CPUs' interval still
/// belongs to it.
const TOGETHER_NS: u64 = 50_000_000;

fn up_to<T: Timed>(intervals: &[T], until_ns: u64) -> &[T] {
    &intervals[..intervals.partition_point(|i| i.until_ns() <= until_ns.saturating_add(TOGETHER_NS))]
}

impl Source for Replay<'_> {
    fn look(&mut self) {
        self.forward();
    }

    fn forward(&mut self) {
        self.at = (self.at + 1).min(self.times_ns.len().saturating_sub(1));
    }

    fn backward(&mut self) {
        self.at = self.at.saturating_sub(1);
    }

    fn programs_ns(&mut self) -> f64 {
        0.0
    }

    fn plus_is_faster(&self) -> bool {
        true
    }

    fn view(&self, interval: Duration) -> View<'_> {
        let (run, now_ns) = (self.run, self.now_ns());
        View {
            source: format!(
                "{} {}/{}, {interval:?} each",
                run.header.id,
                (self.at + 1).min(self.times_ns.len()),
                self.times_ns.len()
            ),
            time: local_time(run.header.anchor.unix_ns_at(now_ns)),
            paused: false,
            cpu: up_to(&run.cpu, now_ns).last().ok_or_else(|| self.not("cpu")),
            locks: self.last(),
            ulocks: self.last(),
            io: self.so_far(),
            nic: self.last(),
            load: run.load.as_ref().map(|_| run.header.title.clone()),
            own_ratio: None,
            keys: REPLAY_KEYS,
        }
    }
}

fn replayed(global: &Global, text: &str) -> anyhow::Result<Run> {
    let archive = global.archive()?;
    let id = archive.find(text).map_err(of_archive)?;
    let run = archive.run_for_drawing(id, report::PLACES_MAX).map_err(of_archive)?;
    if run.cpu.is_empty() && run.instruments.is_empty() {
        return Err(Exit::Usage.with(format!("run {id} recorded no instruments: see `load --observe`")));
    }
    Ok(run)
}
