//! An agent's part in one load: the load's thread, and the thread that keeps its intervals.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use archive::documents::{self, SliceForm};
use load::{Attachments, Event, Share, StartLine, Stop, StopLevel};
use record::agents::Observation;
use record::clock::WallAnchor;
use record::load::{LoadSettings, Phase, Progress};
use record::series::HistogramSlice;
use tokio::sync::watch;

use crate::meant::{Meant, ReadWords, Sender};
use crate::received::MESSAGE_BYTES_MAX;
use crate::spool::{Folder, SpoolWriter};
use crate::wire::{self, Beat, Dealt, End, First, Line, Number, Plan, Seal, Seen, Shown, Start, Watch};

/// Refusal of an agent without credentials.
pub const ONLY_NULL: &str = "without credentials, an agent loads only null:, because any user of this machine could give the order: \
     connect the agent with --nkey or a password";

/// The measured phase of a load, on this machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Beginning, on `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End, on `CLOCK_MONOTONIC`.
    pub until_ns: u64,
    /// Length of an interval.
    pub interval: Duration,
}

/// Observes this machine in a window, or until a stop.
pub type Observing = dyn Fn(&Window, &Stop) -> Result<Observation, String> + Send + Sync;

/// Longest load that any user of this machine may order: it keeps the agent busy and fills its disk.
const OF_ANYONE_MAX: Duration = Duration::from_hours(1);

/// Intervals that wait for the disk.
const WAITING_MAX: usize = 256;

/// A load that this agent has a share of.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) run: String,
    pub(crate) folder: Folder,
    pub(crate) line: StartLine,
    pub(crate) stop: Arc<Stop>,
    /// Lines on disk; `None` until the folder exists.
    pub(crate) written: watch::Receiver<Option<u64>>,
    state: Arc<Mutex<State>>,
    is_armed: bool,
    /// Number of the share, and all of them; `None` of an agent that observes.
    share: Option<(u32, Dealt)>,
    /// Form of the settings, and whether the due times are recorded ones; set once the plan is accepted.
    meant: Arc<OnceLock<(serde_json::Value, bool)>>,
}

/// State that the load's thread reports.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Works,
    /// The account of the end is on disk.
    Ended,
    Failed(String),
    Refused(String),
}

/// An interval on its way to the disk.
struct Interval {
    slices: Vec<HistogramSlice>,
    from_ns: u64,
    for_ns: u64,
    shown: Option<Shown>,
}

impl Job {
    /// Begins to read the plan and to prepare the load: a long log takes a while, and the agent answers
    /// meanwhile.
    ///
    /// - `sender`: sender of the plan.
    pub(crate) fn begin(
        plan: Plan,
        read: &'static ReadWords,
        sender: Sender,
        spool: &Path,
    ) -> Result<Self, String> {
        let (run, folder) = (plan.run.clone(), Folder::of(spool, &plan.run));
        let (line, stop) = (StartLine::default(), Arc::new(Stop::new()));
        let (told, written) = watch::channel(None);
        let state = Arc::new(Mutex::new(State::Works));
        let (share, meant) = (Some((plan.index, plan.dealt())), Arc::new(OnceLock::new()));
        let body = {
            let (folder, line, stop, state) =
                (folder.clone(), line.clone(), Arc::clone(&stop), Arc::clone(&state));
            let form = Arc::clone(&meant);
            move || {
                let played = accept(&plan, read, sender).and_then(|(meant, share)| {
                    let _ = form.set((documents::of_settings(&meant.settings), !meant.recorded.is_empty()));
                    Ok((meant, share, folder.create().map_err(|error| of_folder(&folder, &error))?))
                });
                let state_after = match played {
                    Err(why) => State::Refused(why),
                    Ok((meant, share, kept)) => {
                        told.send_replace(Some(0));
                        play(&meant, share, &line, &stop, &folder, (kept, told))
                            .map_or_else(State::Failed, |()| State::Ended)
                    }
                };
                *state.lock().unwrap_or_else(PoisonError::into_inner) = state_after;
            }
        };
        thread::Builder::new().name("load".into()).spawn(body).map_err(|error| error.to_string())?;
        Ok(Self { run, folder, line, stop, written, state, is_armed: false, share, meant })
    }

    /// Begins to wait for the start of a load that others generate, to observe this machine meanwhile.
    pub(crate) fn watch(order: &Watch, observe: &'static Observing, spool: &Path) -> Result<Self, String> {
        let (run, folder) = (order.run.clone(), Folder::of(spool, &order.run));
        let (line, stop) = (StartLine::default(), Arc::new(Stop::new()));
        let (told, written) = watch::channel(None);
        let state = Arc::new(Mutex::new(State::Works));
        let body = {
            let (folder, line, stop, state) =
                (folder.clone(), line.clone(), Arc::clone(&stop), Arc::clone(&state));
            let order = order.clone();
            move || {
                let watched = watched(&order, (&line, &*stop), observe, &folder, &told);
                *state.lock().unwrap_or_else(PoisonError::into_inner) =
                    watched.map_or_else(State::Failed, |()| State::Ended);
            }
        };
        thread::Builder::new().name("observe".into()).spawn(body).map_err(|error| error.to_string())?;
        let meant = Arc::new(OnceLock::new());
        Ok(Self { run, folder, line, stop, written, state, is_armed: false, share: None, meant })
    }

    /// Whether the agent has a share of the load.
    pub(crate) fn is_of_a_load(&self) -> bool {
        self.share.is_some()
    }

    /// Lets the load begin at `at_ns`.
    pub(crate) fn arm(&mut self, at_ns: u64) {
        self.line.go(at_ns);
        self.is_armed = true;
    }

    /// Writes the account of the start, from which a run without a conductor is collected.
    pub(crate) fn write_start(
        &self,
        agent: &str,
        host: &str,
        start_ns: u64,
        bound_ns: u64,
    ) -> io::Result<()> {
        let (Some((settings, is_recorded)), Some((index, dealt))) = (self.meant.get().cloned(), &self.share)
        else {
            return Err(io::Error::other("the load is not prepared"));
        };
        let WallAnchor { monotonic_ns, unix_ns } = WallAnchor::now();
        self.folder.write_start(&Start {
            run: self.run.clone(),
            agent: agent.to_owned(),
            host: host.to_owned(),
            index: *index,
            of: dealt.of,
            weights: dealt.weights.clone(),
            accepts_loss: dealt.accepts_loss,
            helpers: dealt.helpers,
            boot: wire::boot(),
            start_ns,
            bound_ns,
            monotonic_ns,
            unix_ns,
            is_recorded,
            settings,
        })
    }

    /// Asks the load to end, once for each level: it may ask again and again.
    pub(crate) fn stop_at(&self, level: StopLevel) {
        while self.stop.level() < level {
            self.stop.request();
        }
    }

    pub(crate) fn beat(&self) -> Beat {
        match self.state() {
            State::Failed(why) => Beat::Failed { why },
            State::Refused(why) => Beat::Refused { why },
            State::Ended => Beat::Ended,
            State::Works if self.is_armed => Beat::Running,
            State::Works if self.line.is_ready() => Beat::Ready,
            State::Works => Beat::Preparing,
        }
    }

    /// Intervals on disk; `None` if the folder is not this run's.
    pub(crate) fn kept(&self) -> Option<u64> {
        *self.written.borrow()
    }

    /// Whether the order to begin has come.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Whether the load's thread has nothing to do any more.
    pub(crate) fn is_over(&self) -> bool {
        self.state() != State::Works
    }

    fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Shortest interval of an observation.
const INTERVAL_MIN_NS: u64 = 1_000_000;

/// Observes this machine in the measured phase, and keeps the numbers on disk.
fn watched(
    order: &Watch,
    (line, stop): (&StartLine, &Stop),
    observe: &Observing,
    folder: &Folder,
    told: &watch::Sender<Option<u64>>,
) -> Result<(), String> {
    let of_folder = |error: io::Error| of_folder(folder, &error);
    folder.create().map_err(of_folder)?;
    told.send_replace(Some(0));
    let at_ns = line.wait(stop).ok_or("it was stopped before the start")?;
    let from_ns = at_ns.saturating_add(order.lead_ns);
    let window = Window {
        from_ns,
        until_ns: from_ns.saturating_add(order.time_ns),
        interval: Duration::from_nanos(order.interval_ns.max(INTERVAL_MIN_NS)),
    };
    let seen = observe(&window, stop);
    folder.write_observed(&lines(&seen)).map_err(of_folder)?;
    told.send_replace(Some(1));
    let end = End { slices: 0, bytes: 0, sha256: String::new(), first: None, load: serde_json::Value::Null };
    folder.write_end(&end).map_err(of_folder)?;
    seen.map(|_| ())
}

/// Bytes of an observation's file that are left for its last line.
const LAST_BYTES: usize = 1 << 10;

/// The file of an observation, or of its failure. It is no longer than what a conductor reads.
fn lines(seen: &Result<Observation, String>) -> Vec<u8> {
    let missing = |part: Option<&str>, why: &str| {
        let part = part.map(str::to_owned);
        line(&Seen::Missing { part, why: why.to_owned() })
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(why) => return missing(None, why),
    };
    let parts = seen.missing.iter().map(|(part, why)| missing(Some(part), &why.reason));
    let mut lines: Vec<u8> = parts.flatten().collect();
    let mut left_out = 0;
    // JSON has no other numbers.
    for sample in seen.numbers.iter().filter(|sample| sample.value.is_finite()) {
        let (name, labels) = (sample.name.to_string(), sample.labels.to_string());
        let number = line(&Seen::Number(Number { t_ms: sample.t_ms, name, labels, value: sample.value }));
        if lines.len() + number.len() + LAST_BYTES > MESSAGE_BYTES_MAX {
            left_out += 1;
        } else {
            lines.extend(number);
        }
    }
    if left_out > 0 {
        let why = format!("{left_out} numbers are left out: an observation has at most 64 MiB");
        lines.extend(missing(Some(Observation::REST), &why));
    }
    lines
}

fn line(seen: &Seen) -> Vec<u8> {
    let mut line = wire::bytes(seen);
    line.push(b'\n');
    line
}

/// The meaning of a plan on this machine, if it is what the conductor means, and the share.
fn accept(plan: &Plan, read: &ReadWords, sender: Sender) -> Result<(Meant, Share), String> {
    let meant = match &plan.settings {
        None => read(&plan.words, sender)?,
        Some(sent) => sent.read()?,
    };
    if sender == Sender::Anyone {
        only_harmless(&meant.settings)?;
    }
    let dealt = plan.dealt();
    if Seal::new(&plan.run, &plan.words, &dealt, &meant)?.of(plan.index) != plan.sha256 {
        return Err(
            "the plan does not match its checksum: it was changed in transit, or files that it names \
                    differ on this machine"
                .to_owned(),
        );
    }
    let share = dealt
        .share(plan.index, &meant.settings)
        .ok_or_else(|| "the fleet has more agents than the load has threads".to_owned())?;
    Ok((meant, share))
}

/// Refuses a load that any user of this machine may have ordered, unless it is harmless.
fn only_harmless(settings: &LoadSettings) -> Result<(), String> {
    if settings.target.scheme() != "null" {
        return Err(ONLY_NULL.to_owned());
    }
    if settings.client.keep_awake || settings.pace.as_open().is_some_and(|open| open.fifo) {
        return Err(
            "without credentials, an agent accepts no setting that takes the machine from its other users: \
                    connect the agent with --nkey or a password"
                .to_owned(),
        );
    }
    let others = [settings.ramp_up, settings.warmup, settings.ramp_down, settings.drain];
    let all = others.iter().fold(settings.time, |sum, phase| sum.saturating_add(*phase));
    if all > OF_ANYONE_MAX {
        return Err("without credentials, an agent runs a load for at most an hour, with its warm-up, ramps and drain: \
                    give --time"
            .to_owned());
    }
    Ok(())
}

fn of_folder(folder: &Folder, error: &io::Error) -> String {
    format!("{}: {error}", folder.path().display())
}

/// Plays the share to its account on disk.
fn play(
    meant: &Meant,
    share: Share,
    line: &StartLine,
    stop: &Arc<Stop>,
    folder: &Folder,
    (kept, told): (SpoolWriter, watch::Sender<Option<u64>>),
) -> Result<(), String> {
    let attachments = Attachments {
        recorded: Some(Arc::clone(&meant.recorded)).filter(|due| !due.is_empty()),
        share: Some(share),
        start: Some(line.clone()),
        ..Attachments::default()
    };
    let end = drive(meant, &attachments, stop, kept, told)?;
    let first = line.first().map(|f| First { due_ns: f.due_ns, start_ns: f.start_ns });
    folder.write_end(&End { first, ..end }).map_err(|error| of_folder(folder, &error))
}

/// Drives the load, and keeps its intervals.
fn drive(
    meant: &Meant,
    attachments: &Attachments,
    stop: &Arc<Stop>,
    kept: SpoolWriter,
    told: watch::Sender<Option<u64>>,
) -> Result<End, String> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let stop_if_full = Arc::clone(stop);
    let keeper = thread::Builder::new().name("spool".into()).spawn(move || {
        let kept = keep(&receiver, kept, &told);
        if kept.is_err() {
            // What cannot be kept must not be measured.
            stop_if_full.request();
        }
        kept
    });
    let keeper = keeper.map_err(|error| error.to_string())?;
    let mut last = None;
    let record = load::run_with(&meant.settings, attachments, stop, &mut |event| match event {
        Event::Interval(progress) if progress.phase == Phase::Measure => last = Some(shown(progress)),
        Event::IntervalClosed(slices) => send(&sender, slices, last.take(), &meant.settings),
        _ => {}
    });
    drop(sender);
    let kept = keeper.join().map_err(|_| "the thread that stores the intervals failed".to_owned())?;
    let (slices, bytes, sha256) = kept.map_err(|error| format!("storing an interval: {error}"))?.finish();
    let record = record.map_err(|error| error.to_string())?;
    Ok(End { slices, bytes, sha256, first: None, load: documents::of_load(&record) })
}

/// Hands an interval to the disk. Intervals have equal lengths, but for the last.
fn send(
    sender: &SyncSender<Interval>,
    slices: &[HistogramSlice],
    shown: Option<Shown>,
    settings: &LoadSettings,
) {
    let (from_ns, for_ns) = match (slices.first(), &shown) {
        (Some(slice), _) => (slice.from_ns, slice.for_ns),
        // An interval in which nothing ended has no distributions.
        (None, Some(shown)) => {
            let interval_ns = u64::try_from(settings.interval.as_nanos()).unwrap_or(u64::MAX).max(1);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a load")]
            let (end_ns, for_ns) =
                ((shown.t_s * 1e9).round() as u64, (shown.interval_s * 1e9).round() as u64);
            (end_ns.saturating_sub(for_ns) / interval_ns * interval_ns, for_ns)
        }
        (None, None) => return,
    };
    // It fails if the disk has failed: the load is being stopped, and the keeper tells why.
    let _ = sender.send(Interval { slices: slices.to_vec(), from_ns, for_ns, shown });
}

/// Appends every interval to the spool, and only then tells of it.
fn keep(
    receiver: &Receiver<Interval>,
    mut kept: SpoolWriter,
    told: &watch::Sender<Option<u64>>,
) -> io::Result<SpoolWriter> {
    for Interval { slices, from_ns, for_ns, shown } in receiver {
        let slices = slices.iter().map(SliceForm::of).collect();
        let line = Line { seq: kept.lines(), from_ns, for_ns, slices, shown };
        kept.append(wire::bytes(&line))?;
        told.send_replace(Some(kept.lines()));
    }
    Ok(kept)
}

fn shown(progress: &Progress) -> Shown {
    Shown {
        t_s: progress.t_s,
        interval_s: progress.interval_s,
        offered_per_s: progress.offered_per_s.as_ref().ok().copied(),
        achieved_per_s: progress.achieved_per_s,
        backlog: progress.backlog,
        errors: progress.errors,
        outage: progress.outage,
    }
}
