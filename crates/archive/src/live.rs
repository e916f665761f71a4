//! The state of a run while it is measured: the journal of a bake-off, the log of its server, and whether its
//! process lives.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{self, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;
use record::bakeoff::{FAILURES_MAX, Trial, TrialState};
use record::clock::WallAnchor;
use record::run::{RunHeader, RunId, RunState};

use crate::bakeoff::AttemptRecord;
use crate::error::ArchiveError;
use crate::journal::{self, Contents};
use crate::reader::{self, in_file};
use crate::schema::bakeoff::Order;
use crate::schema::event::{JournalEvent, Step};
use crate::writer::MANIFEST;
use crate::{Archive, bakeoff, disk, lock};

/// Longest part of a server's log that is shown.
const LOG_BYTES_MAX: u64 = 16 << 10;
/// A file that changed this recently may change again within the same tick of the file system's clock.
const RECENT_NS: i128 = 100_000_000;

/// End of the log of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLog {
    /// At most 16 KiB, passwords masked.
    pub text: Arc<str>,
    seen: Option<LogFile>,
}

/// State of a log: device, inode, length, and the time of its last change in nanoseconds.
type LogFile = (u64, u64, u64, i128);

/// A bake-off according to its journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Name, state and origin.
    pub header: RunHeader,
    /// Process that has the journal, or had it last.
    pub pid: Option<u32>,
    /// Whether a process has it now.
    pub is_held: bool,
    /// Trials in the order drawn.
    pub trials: Vec<TrialStanding>,
    /// Pace of the process that has it.
    pub pace: Option<Pace>,
    /// Whether that process has had several trials open at once: it measures in slices.
    pub is_in_slices: bool,
    /// Time at which it ended or was stopped; `None` if it runs, or its process died.
    pub ended_unix_ns: Option<u64>,
    /// Scratch folder of the current series.
    scratch: Option<PathBuf>,
    /// Trials of the current block in slices that have ended, while others are open.
    ended_of_block: u64,
}

/// Position of a reader in the journal of a bake-off, and the state up to that position.
#[derive(Debug, Default)]
pub struct JournalPlace(Option<Known>);

/// Order and events of a bake-off.
#[derive(Debug)]
struct Known {
    order: Order,
    journal: Contents,
}

impl JournalPlace {
    fn read_on(&mut self, folder: &Path) -> Result<&Known, ArchiveError> {
        let known = match self.0.take() {
            Some(mut known) => {
                let more = disk::read_after(&folder.join(bakeoff::EVENTS), known.journal.whole_bytes)?;
                more.is_some_and(|more| journal::parse_on(&mut known.journal, &more)).then_some(known)
            }
            None => None,
        };
        let known = match known {
            Some(known) => known,
            None => {
                Known { order: bakeoff::read_order(folder)?.order, journal: bakeoff::read_journal(folder)? }
            }
        };
        Ok(self.0.insert(known))
    }
}

/// Progress of one process of a bake-off. Time that it waited for the machine does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Beginning of its first series.
    pub since_unix_ns: u64,
    /// Trials that it has ended. Those of a block in slices count when the last of them has ended.
    pub ended: u64,
    /// End of the last of them; the beginning of the first series before that.
    pub last_end_unix_ns: u64,
}

/// A trial of a [`Standing`].
#[derive(Debug, Clone, PartialEq)]
pub struct TrialStanding {
    /// The trial.
    pub trial: Trial,
    /// Outcome: that of the attempt that measured it, else of the last one. While a process has the bake-off,
    /// a trial that will be measured again after a failure is planned.
    pub state: TrialState,
    /// Reason if it is not sealed.
    pub reason: Option<String>,
    /// Run, if it was measured.
    pub run: Option<RunId>,
    /// Whether it is being measured now; in slices, that holds for all trials of the block.
    pub is_current: bool,
    /// Whether it will not be measured: its configuration was dropped.
    pub is_dropped: bool,
}

impl Archive {
    /// Whether a living process measures a single run now.
    pub fn is_measured_now(&self, id: RunId) -> bool {
        let manifest = disk::partial(&self.tree.run(id)).join(MANIFEST);
        disk::open(&manifest).and_then(|file| lock::is_taken(&file)).unwrap_or(false)
    }

    /// Header of a single run that a living process measures now. It stays the same until the run ends.
    pub fn measured_now(&self, id: RunId) -> Option<RunHeader> {
        if !self.is_measured_now(id) {
            return None;
        }
        let folder = disk::partial(&self.tree.run(id));
        let bytes = disk::read(&folder.join(MANIFEST)).ok()?;
        Some(reader::read_draft(&folder, &bytes).ok()?.header.still_running())
    }

    /// Whether a living process conducts the bake-off.
    pub fn is_held(&self, id: RunId) -> bool {
        bakeoff::is_running(&self.tree.bakeoff(id))
    }

    /// State of a bake-off according to its journal.
    ///
    /// # Errors
    ///
    /// No bake-off has that id, or its files cannot be read.
    pub fn standing(&self, id: RunId) -> Result<Standing, ArchiveError> {
        self.standing_after(id, &mut JournalPlace::default())
    }

    /// Variant of [`Self::standing`] that reads only the journal's lines after `place`, and advances it. If
    /// these lines do not follow the ones read before, it reads the whole journal.
    ///
    /// # Errors
    ///
    /// Those of [`Self::standing`].
    pub fn standing_after(&self, id: RunId, place: &mut JournalPlace) -> Result<Standing, ArchiveError> {
        let folder = self.tree.bakeoff(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        // The lock first: a process that ends in between has written its last line by then.
        let is_held = bakeoff::is_running(&folder);
        let Known { order, journal } = place.read_on(&folder)?;
        let events = &journal.events;
        let story = bakeoff::story(events, is_held);
        let wrong = |e| in_file(&folder, bakeoff::ORDER)(e);
        let begun = order.header.read().map_err(wrong)?;
        let mut told = Told::default();
        for event in events {
            told.take(event);
        }
        let counts = |state| matches!(state, TrialState::Sealed | TrialState::Invalid);
        // A search for each trial takes seconds if there are 50,000.
        let mut attempts: HashMap<u32, Vec<&AttemptRecord>> = HashMap::new();
        for attempt in &story.attempts {
            attempts.entry(attempt.trial).or_default().push(attempt);
        }
        let trials = order.trials().into_iter().map(|trial| {
            let of = attempts.get(&trial.index).map_or(&[][..], Vec::as_slice);
            let measured = of.iter().find(|a| counts(a.state));
            let attempt = measured.or(of.last()).copied();
            let state = attempt.map_or(TrialState::Planned, |a| a.state);
            let failures = of.iter().filter(|a| a.state == state).count();
            let is_repeated = is_held && state == TrialState::Failed && failures < FAILURES_MAX as usize;
            let state = if is_repeated { TrialState::Planned } else { state };
            TrialStanding {
                state,
                reason: attempt.and_then(|a| a.reason.clone()),
                run: attempt.and_then(|a| a.run),
                is_current: is_held && told.open.contains(&trial.index),
                is_dropped: is_left(state) && told.is_dropped(&trial),
                trial,
            }
        });
        let trials = trials.collect();
        let has_end = !matches!(story.state, RunState::Running | RunState::Abandoned);
        let ended_unix_ns = told.ended.filter(|_| has_end).map(|(_, at)| at);
        let header = RunHeader { state: story.state, reason: story.reason, ..begun };
        let Told { pid, scratch, pace, is_in_slices, ended_of_block, .. } = told;
        let (scratch, pace) = (scratch.filter(|_| is_held), pace.filter(|_| is_held));
        Ok(Standing {
            header,
            pid,
            is_held,
            trials,
            pace,
            is_in_slices,
            ended_unix_ns,
            scratch,
            ended_of_block,
        })
    }

    /// End of the log of the server that a bake-off measures now; `None` without a server, or if this user
    /// may not read it.
    ///
    /// - `before`: result of the last call; a log that has not changed since then is not read again.
    pub fn server_log(&self, standing: &Standing, before: Option<&ServerLog>) -> Option<ServerLog> {
        let journal = disk::open(&self.tree.bakeoff(standing.header.id).join(bakeoff::EVENTS)).ok()?;
        let journal = journal.metadata().ok()?;
        // Only a process of this user or of root holds such a journal, and wrote the name of the folder.
        if !is_own(&journal) || journal.mode() & 0o022 != 0 {
            return None;
        }
        read_log(open_log(standing.scratch.as_ref()?)?, before)
    }
}

impl Standing {
    /// Number of trials in that state.
    pub fn count(&self, state: TrialState) -> usize {
        self.trials.iter().filter(|trial| trial.state == state).count()
    }

    /// Number of trials that will not be measured, since their configuration was dropped.
    pub fn dropped(&self) -> usize {
        self.trials.iter().filter(|trial| trial.is_dropped).count()
    }

    /// Time at which the last trial ends, if the rest takes as long as the trials of this process did; `None`
    /// before its first trial has ended, or if the last one takes longer than the others. In slices, the
    /// trials of a block end together.
    pub fn expected_end_unix_ns(&self, now_unix_ns: u64) -> Option<u64> {
        let pace = self.pace.filter(|pace| pace.ended > 0)?;
        let left = || self.trials.iter().filter(|told| is_left(told.state) && !told.is_dropped);
        let each_ns = pace.last_end_unix_ns.saturating_sub(pace.since_unix_ns) / pace.ended;
        let Some(next) = left().next() else { return Some(now_unix_ns) };
        let is_together = |told: &&TrialStanding| told.trial.block == next.trial.block;
        let current = if self.is_in_slices { left().filter(is_together).count() as u64 } else { 1 };
        let after_current = left().count() as u64 - current;
        let together_ns = each_ns.saturating_mul(current + self.ended_of_block);
        let current_end_ns = pace.last_end_unix_ns.saturating_add(together_ns);
        if after_current == 0 && current_end_ns < now_unix_ns {
            return None;
        }
        Some(current_end_ns.max(now_unix_ns).saturating_add(each_ns.saturating_mul(after_current)))
    }

    /// Whether every trial has its end.
    pub fn is_over(&self) -> bool {
        matches!(self.header.state, RunState::Sealed | RunState::Invalid | RunState::Failed)
    }
}

/// Whether a trial in that state may still be measured.
fn is_left(state: TrialState) -> bool {
    matches!(state, TrialState::Planned | TrialState::Abandoned)
}

/// Facts of a journal about the process that had it last.
#[derive(Debug, Default)]
struct Told {
    pid: Option<u32>,
    /// Trials that it measures: several in slices.
    open: BTreeSet<u32>,
    /// Trials that have ended while others were open.
    ended_of_block: u64,
    is_in_slices: bool,
    scratch: Option<PathBuf>,
    pace: Option<Pace>,
    /// Configurations that it has dropped, each with the last block in which it counts.
    dropped: Vec<(BTreeMap<String, String>, u32)>,
    /// Time of the end: whether every trial has its end, else the bake-off was stopped.
    ended: Option<(bool, u64)>,
}

impl Told {
    fn take(&mut self, event: &JournalEvent) {
        let at = event.at_unix_ns;
        match &event.step {
            Step::Opened { pid } => {
                // A process that only reads the verdict opens the journal, too: the end stays.
                *self = Self { pid: Some(*pid), ended: self.ended, ..Self::default() };
            }
            Step::BakeoffDone if self.ended.is_some_and(|(is_done, _)| is_done) => {}
            Step::BakeoffDone => self.ended = Some((true, at)),
            Step::Interrupted => self.ended = Some((false, at)),
            Step::ConfigurationDropped { arm, after_block } => self.dropped.push((arm.clone(), *after_block)),
            Step::Workspace { folder, .. } => self.scratch = Some(PathBuf::from(folder)),
            Step::SeriesTeardown => self.scratch = None,
            Step::SeriesSetup | Step::SeriesPrepare | Step::SeriesStart => self.begin(at),
            Step::TrialWarming => {
                self.begin(at);
                self.open(event.trial);
            }
            Step::TrialMeasuring => self.open(event.trial),
            Step::TrialSealed { .. } | Step::TrialInvalid { .. } | Step::TrialFailed { .. } => {
                self.open.retain(|open| Some(*open) != event.trial);
                self.ended = None;
                self.ended_of_block += 1;
                if let Some(pace) = self.pace.as_mut().filter(|_| self.open.is_empty()) {
                    (pace.ended, pace.last_end_unix_ns) = (pace.ended + self.ended_of_block, at);
                    self.ended_of_block = 0;
                }
            }
            Step::TrialAbandoned { .. } => self.open.retain(|open| Some(*open) != event.trial),
            _ => {}
        }
    }

    /// Takes the beginning of a series or a trial.
    fn begin(&mut self, at: u64) {
        self.ended = None;
        self.pace.get_or_insert(Pace { since_unix_ns: at, ended: 0, last_end_unix_ns: at });
    }

    /// Takes the beginning of a trial.
    fn open(&mut self, trial: Option<u32>) {
        self.open.extend(trial);
        self.is_in_slices |= self.open.len() > 1;
    }

    fn is_dropped(&self, trial: &Trial) -> bool {
        self.dropped.iter().any(|(arm, after_block)| {
            trial.block > *after_block
                && arm.iter().all(|(name, level)| trial.levels.get(name) == Some(level))
        })
    }
}

fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == 0 || found.uid() == geteuid().as_raw()
}

/// Opens the log in a scratch folder. Its owner may change what a name in it leads to.
fn open_log(scratch: &Path) -> Option<File> {
    let token = scratch.file_name()?.to_str()?.strip_prefix("bakeoff-")?;
    if token.len() != 32 || !token.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = File::from(fcntl::open(scratch, flags | OFlag::O_DIRECTORY, Mode::empty()).ok()?);
    let found = folder.metadata().ok()?;
    if found.mode() & 0o077 != 0 {
        return None;
    }
    let log = File::from(openat(&folder, "server.log", flags | OFlag::O_NONBLOCK, Mode::empty()).ok()?);
    let of_log = log.metadata().ok()?;
    // A second name may be that of another file.
    let is_log = of_log.is_file() && of_log.nlink() == 1 && (of_log.uid() == found.uid() || is_own(&of_log));
    is_log.then_some(log)
}

/// Reads the end of a log, unless it is as it was `before`.
fn read_log(mut file: File, before: Option<&ServerLog>) -> Option<ServerLog> {
    let found = file.metadata().ok()?;
    let changed_ns = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
    let seen = (found.dev(), found.ino(), found.len(), changed_ns);
    if let Some(before) = before.filter(|before| before.seen == Some(seen)) {
        return Some(before.clone());
    }
    let is_recent = changed_ns + RECENT_NS >= i128::from(WallAnchor::now().unix_ns);
    file.seek(SeekFrom::Start(found.len().saturating_sub(LOG_BYTES_MAX))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let text = record::target::mask_text(&String::from_utf8_lossy(&bytes)).into();
    Some(ServerLog { text, seen: (!is_recent).then_some(seen) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_has_not_changed_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let read = |before: Option<&ServerLog>| read_log(File::open(&path).unwrap(), before).unwrap();
        fs::write(&path, "mysql://app:S3CR3T@localhost/x").unwrap();
        let first = read(None);
        assert!(!first.text.contains("S3CR3T") && first.seen.is_none(), "it may change within this tick");
        // The same length, within the same tick perhaps.
        fs::write(&path, "mysql://app:S3CR3T@localhost/y").unwrap();
        let second = read(Some(&first));
        assert!(second.text.ends_with('y'));
        let found = fs::metadata(&path).unwrap();
        let at_ns = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
        let told =
            ServerLog { text: "told".into(), seen: Some((found.dev(), found.ino(), found.len(), at_ns)) };
        assert_eq!(&*read(Some(&told)).text, "told");
        fs::write(&path, "mysql://app:S3CR3T@localhost/zz").unwrap();
        assert!(read(Some(&told)).text.ends_with("zz"));
    }

    /// A bake-off with that many trials, of which this process has ended `ended`.
    fn standing(pace: Pace, states: &[TrialState]) -> Standing {
        let trial = |index, state| TrialStanding {
            trial: Trial {
                index,
                block: 1,
                series: 1,
                position: 1,
                levels: std::collections::BTreeMap::new(),
            },
            state,
            reason: None,
            run: None,
            is_current: false,
            is_dropped: false,
        };
        let anchor = WallAnchor { monotonic_ns: 0, unix_ns: 0 };
        Standing {
            header: RunHeader::running(record::run::RunKind::Bakeoff, anchor, String::new(), String::new()),
            pid: None,
            is_held: true,
            trials: (0..).zip(states).map(|(index, state)| trial(index, *state)).collect(),
            pace: Some(pace),
            is_in_slices: false,
            ended_unix_ns: None,
            scratch: None,
            ended_of_block: 0,
        }
    }

    #[test]
    fn an_end_is_expected_by_the_pace_of_this_process_alone() {
        let states = [TrialState::Sealed, TrialState::Sealed, TrialState::Abandoned, TrialState::Planned];
        let standing =
            |ended| standing(Pace { since_unix_ns: 1_000, ended, last_end_unix_ns: 1_500 }, &states);
        // Of the two that are sealed, an earlier process measured one, an hour ago perhaps.
        assert_eq!(standing(1).expected_end_unix_ns(1_500), Some(2_500), "500 for each of two");
        assert_eq!(standing(0).expected_end_unix_ns(1_500), None, "nothing has ended that tells");
    }

    #[test]
    fn the_trial_in_progress_does_not_move_the_expected_end_until_it_takes_longer() {
        let mut states = [TrialState::Planned; 5];
        states[0] = TrialState::Sealed;
        let pace = Pace { since_unix_ns: 0, ended: 1, last_end_unix_ns: 600 };
        let end = |now| standing(pace, &states).expected_end_unix_ns(now);
        assert_eq!([600, 900, 1_199].map(end), [Some(3_000); 3], "five times 600");
        assert_eq!(end(1_300), Some(3_100), "the others take their time after it");
        // The last trial: nothing tells how much longer it takes.
        states[1..4].fill(TrialState::Sealed);
        let pace = Pace { since_unix_ns: 0, ended: 4, last_end_unix_ns: 2_400 };
        let end = |now| standing(pace, &states).expected_end_unix_ns(now);
        assert_eq!([2_500, 3_000, 3_001].map(end), [Some(3_000), Some(3_000), None]);
        // Work after the last trial, such as teardown, is not a trial.
        states[4] = TrialState::Sealed;
        let pace = Pace { since_unix_ns: 0, ended: 5, last_end_unix_ns: 3_000 };
        assert_eq!(standing(pace, &states).expected_end_unix_ns(3_050), Some(3_050));
    }

    #[test]
    fn the_log_of_a_server_is_a_file_in_a_scratch_folder_and_nothing_else() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("server.log");
        fs::write(&secret, "secret").unwrap();
        let scratch = folder.path().join(format!("bakeoff-{}", "a1".repeat(16)));
        fs::create_dir(&scratch).unwrap();
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o700)).unwrap();
        let log = scratch.join("server.log");
        fs::write(&log, "log").unwrap();
        assert!(open_log(&scratch).is_some(), "the control");
        assert!(open_log(folder.path()).is_none(), "a folder with another name");
        // The server of the folder puts another file, a link or a pipe in the place of the log.
        fs::remove_file(&log).unwrap();
        fs::hard_link(&secret, &log).unwrap();
        assert!(open_log(&scratch).is_none(), "a second name");
        fs::remove_file(&log).unwrap();
        symlink(&secret, &log).unwrap();
        assert!(open_log(&scratch).is_none(), "a link");
        fs::remove_file(&log).unwrap();
        nix::unistd::mkfifo(&log, Mode::S_IRUSR).unwrap();
        assert!(open_log(&scratch).is_none(), "a pipe");
        let link = folder.path().join(format!("bakeoff-{}", "b2".repeat(16)));
        symlink(folder.path(), &link).unwrap();
        assert!(open_log(&link).is_none(), "a link in place of the folder");
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(open_log(&scratch).is_none(), "a folder that others may enter");
    }
}
