//! Conducts the entries of the queue, one at a time, each as a process of this program.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use archive::{Archive, ArchiveError, Deaths, Entry, Queue, QueueError, QueueState, Wish};
use record::clock::WallAnchor;
use record::run::RunId;

use crate::reasons::{KILLED, STOPPED, UNHEARD, UNREAD};
use crate::situation::{INTERRUPTED, Last, Next, Situation, Verb, Why, ended_trials, next, situation};
use crate::urged::Urged;

/// Interval between two looks at a process.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval between two looks at an idle queue: an entry's earliest start may come.
const IDLE: Duration = Duration::from_secs(1);
/// Pause after an error of the archive, such as a full disk.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// Longest part of a process's output that becomes the reason of a failure.
const REASON_LENGTH_MAX: usize = 600;

/// Wakes the worker when the queue changes.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
}

impl Bell {
    /// Wakes the worker.
    pub(crate) fn ring(&self) {
        *self.rung.lock().expect(LOCK) = true;
        self.condition.notify_all();
    }

    fn wait(&self, at_most: Duration) {
        let rung = self.rung.lock().expect(LOCK);
        let (mut rung, _) = self.condition.wait_timeout_while(rung, at_most, |rung| !*rung).expect(LOCK);
        *rung = false;
    }
}

const LOCK: &str = "no thread panics while it holds this lock";

/// Urgency of the server's end: 0 not at all, 1 after the current trial, 2 at once.
pub(crate) type StopLevel = Arc<dyn Fn() -> u8 + Send + Sync>;

/// The worker of a queue.
pub(crate) struct Worker {
    pub(crate) archive: Archive,
    pub(crate) queue: Arc<Mutex<Queue>>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) program: PathBuf,
    pub(crate) stop: StopLevel,
    /// Last error of the archive, for pages.
    pub(crate) trouble: Arc<Mutex<Option<String>>>,
}

impl Worker {
    /// Conducts entries until the server ends.
    pub(crate) fn work(&self) {
        while (self.stop)() == 0 {
            let worked = self.one();
            self.say_trouble(worked.as_ref().err().map(ToString::to_string));
            match worked {
                Ok(true) => {}
                Ok(false) => self.bell.wait(IDLE),
                Err(_) => self.bell.wait(AFTER_ERROR),
            }
        }
    }

    /// Conducts the current entry, or the next one; `false` if there is nothing to do.
    fn one(&self) -> Result<bool, QueueError> {
        let now = WallAnchor::now();
        let found = {
            let mut queue = self.queue();
            match queue.current()? {
                Some(entry) => Some(entry),
                None => match queue.next(now.unix_ns)? {
                    Some(entry) => Some(queue.begin(entry.id, RunId::fresh(now))?),
                    None => None,
                },
            }
        };
        let Some(entry) = found else { return Ok(false) };
        self.conduct(&entry)?;
        Ok(true)
    }

    fn conduct(&self, entry: &Entry) -> Result<(), QueueError> {
        let run = entry.run.expect("an entry that has begun has a run");
        let (mut last, mut deaths) = (Last::Nothing, self.deaths_before(entry.id, run)?);
        loop {
            let read = situation(&self.archive, run);
            let wish = self.queue().entry(entry.id)?.wish;
            let found = match read {
                // A process of an earlier server waits for the machine and will begin, or has begun in a
                // folder that this one cannot read.
                Ok(Situation::NotBegun) | Err(_) if let Some(pid) = beginner(run) => {
                    Situation::Held { pid: Some(pid) }
                }
                Ok(found) => found,
                Err(why) if is_of_its_files(&why) => return self.end_unread(entry.id, wish, &why, last),
                Err(why) => return Err(why.into()),
            };
            match next(found, wish, last, (self.stop)() > 0, deaths.in_a_row) {
                Next::Start(verb) => {
                    let child = self.start((entry.id, run), verb, deaths)?;
                    deaths = deaths.and_a_start();
                    self.say_trouble(None);
                    let (code, urged) = self.attend(child, entry.id)?;
                    self.wait_for_lock(run);
                    deaths.end(code.is_none(), ended_trials(&self.archive, run));
                    let is_withdrawn = code == Some(INTERRUPTED) && self.is_withdrawn(entry.id, &urged)?;
                    last = if is_withdrawn { Last::Nothing } else { Last::Own { verb, code } };
                }
                Next::Watch(pid) => {
                    self.say_trouble(None);
                    let urged = self.watch(entry.id, run, pid)?;
                    if (self.stop)() > 0 && self.is_conducted(run, pid) {
                        return Ok(());
                    }
                    deaths.end(self.is_left_by_a_kill(run), ended_trials(&self.archive, run));
                    // An earlier server that ended has stopped it, and not a user.
                    let goes_on = self.is_withdrawn(entry.id, &urged)? || self.queue().is_left(entry.id)?;
                    last = if goes_on { Last::Nothing } else { Last::Watched };
                }
                Next::Leave => return Ok(()),
                Next::End(state, why) => return self.end((entry.id, run), state, why, last),
            }
        }
    }

    /// Kills in a row of the processes that earlier servers started. No server has seen the end of the last
    /// one if the machine went down.
    fn deaths_before(&self, id: RunId, run: RunId) -> Result<Deaths, QueueError> {
        let mut deaths = self.queue().deaths(id)?;
        if deaths.in_a_row > 0 && !self.is_conducted(run, beginner(run)) {
            deaths.end(self.is_left_by_a_kill(run), ended_trials(&self.archive, run));
        }
        Ok(deaths)
    }

    fn end(
        &self,
        (id, run): (RunId, RunId),
        state: QueueState,
        why: Why,
        last: Last,
    ) -> Result<(), QueueError> {
        // The process may have ended while no server ran. One that ended with an error may have refused to
        // open the journal, which then has the end of an earlier process.
        let is_in_journal = !matches!(why, Why::Error);
        let standing = is_in_journal.then(|| self.archive.standing(run).ok()).flatten();
        let ended_unix_ns = standing.and_then(|standing| standing.ended_unix_ns);
        let mut queue = self.queue();
        let reason = match why {
            Why::Wanted => None,
            Why::Stopped => Some(STOPPED.to_owned()),
            Why::Killed => Some(KILLED.to_owned()),
            Why::Error => Some(reason_in(&queue.output_text(id))),
        };
        queue.end(id, state, ended_unix_ns, last.code(), reason.as_deref())
    }

    /// Ends an entry with an unreadable bake-off: those behind it can run.
    fn end_unread(
        &self,
        id: RunId,
        wish: Option<Wish>,
        why: &ArchiveError,
        last: Last,
    ) -> Result<(), QueueError> {
        let state = match wish {
            Some(Wish::Cancel) => QueueState::Cancelled,
            Some(Wish::Pause) => QueueState::Paused,
            None => QueueState::Failed,
        };
        let cause = std::error::Error::source(why).map_or(String::new(), |cause| format!(": {cause}"));
        let reason = format!("{UNREAD}: {why}{cause}");
        self.queue().end(id, state, None, last.code(), Some(&reason))
    }

    /// - `deaths`: of the processes before it.
    fn start(&self, (id, run): (RunId, RunId), verb: Verb, deaths: Deaths) -> Result<Child, QueueError> {
        let (folder, output) = {
            let queue = self.queue();
            (queue.workplace(id)?, queue.output(id)?)
        };
        let unstarted = |source| archive::ArchiveError::Unreadable { path: self.program.clone(), source };
        let mut command = Command::new(&self.program);
        command.arg("--archive").arg(self.archive.dir());
        match verb {
            Verb::Run => command.arg("run").arg(folder.join("plan.toml")).arg("--as").arg(run.to_string()),
            // With the plan's file: before the first trial, only it names the modules of a script.
            Verb::Resume => {
                command.arg("resume").arg(run.to_string()).arg("--plan").arg(folder.join("plan.toml"))
            }
        };
        command.arg("--wait").current_dir(&folder).stdin(Stdio::null());
        command.stderr(output.try_clone().map_err(unstarted)?).stdout(output);
        // The result of a queue's entry is not the step that this server runs in.
        command.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY");
        // Ctrl-C in the server's terminal reaches the process through the server only, once.
        command.process_group(0);
        // On disk first: the process may take this server with it.
        self.queue().take_over(id, deaths.and_a_start())?;
        let started = command.spawn().map_err(unstarted);
        if started.is_err() {
            self.queue().take_over(id, deaths)?;
        }
        Ok(started?)
    }

    /// Waits for a process that this server started, and passes on requests of users and signals; returns its
    /// exit code, `None` if a signal killed it.
    fn attend(&self, mut child: Child, id: RunId) -> Result<(Option<i32>, Urged), QueueError> {
        let mut urged = Urged::default();
        loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    return Ok((if status.signal().is_some() { None } else { status.code() }, urged));
                }
                Err(_) => return Ok((None, urged)),
            }
            self.urge(id, &mut urged, || Some(child.id()))?;
            self.bell.wait(LOOK_EVERY);
        }
    }

    /// Waits for a process that this server did not start; returns the signals that it got.
    fn watch(&self, id: RunId, run: RunId, pid: Option<u32>) -> Result<Urged, QueueError> {
        let mut urged = Urged::default();
        while self.is_conducted(run, pid) {
            let is_ours = pid.is_some_and(|pid| conducts(pid, run));
            if is_ours {
                self.urge(id, &mut urged, || pid.filter(|pid| conducts(*pid, run)))?;
            }
            if (!is_ours || urged.is_unheard()) && (self.stop)() > 0 {
                // It cannot be told; the next server watches it.
                return Ok(urged);
            }
            self.bell.wait(LOOK_EVERY);
        }
        Ok(urged)
    }

    /// Passes on requests of users, and the end of this server: on disk first, since the next server must not
    /// take it for a user's.
    fn urge(&self, id: RunId, urged: &mut Urged, pid: impl Fn() -> Option<u32>) -> Result<(), QueueError> {
        let (wished, leaving) = (self.wished(id)?, (self.stop)());
        let level = wished.max(leaving);
        if level == 1 && !urged.may_be_heard(pid()) {
            if urged.is_unheard() {
                self.say_trouble(Some(UNHEARD.to_owned()));
            }
            return Ok(());
        }
        if leaving > urged.signals() {
            self.queue().leave(id)?;
        }
        urged.up_to(level, pid);
        Ok(())
    }

    /// Whether the process that had a bake-off was killed: it has no end, neither its own nor a stop.
    fn is_left_by_a_kill(&self, run: RunId) -> bool {
        let found = situation(&self.archive, run);
        matches!(found, Ok(Situation::NotBegun | Situation::Left { in_order: false }))
    }

    /// Whether a process ended because of a pause that its user has taken back.
    fn is_withdrawn(&self, id: RunId, urged: &Urged) -> Result<bool, QueueError> {
        Ok(urged.signals() > 0 && self.wished(id)?.max((self.stop)()) == 0)
    }

    fn is_conducted(&self, run: RunId, pid: Option<u32>) -> bool {
        self.archive.is_held(run) || pid.is_some_and(|pid| conducts(pid, run))
    }

    /// Urgency of what a user wishes.
    fn wished(&self, id: RunId) -> Result<u8, QueueError> {
        Ok(match self.queue().entry(id)?.wish {
            None => 0,
            Some(Wish::Pause) => 1,
            Some(Wish::Cancel) => 2,
        })
    }

    /// Waits until no child of the ended process has the journal: a child that is about to execute a program
    /// has it for a moment.
    fn wait_for_lock(&self, run: RunId) {
        for _ in 0..100 {
            if !self.archive.is_held(run) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn say_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().expect(LOCK) = trouble;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect(LOCK)
    }
}

/// Words before the id of a bake-off in a command that conducts it.
const BEGINS: [&[u8]; 2] = [b"--as", b"resume"];

fn words_of(pid: u32) -> Vec<Vec<u8>> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// Whether a process conducts that bake-off: the journal may name a process that ended, and its number may be
/// that of another by now.
fn conducts(pid: u32, run: RunId) -> bool {
    let run = run.to_string();
    words_of(pid).iter().any(|word| word == run.as_bytes())
}

/// Whether an error says something about the files of one bake-off, rather than about this machine, such as
/// that it has no more file descriptors.
fn is_of_its_files(why: &ArchiveError) -> bool {
    let is_denied = matches!(why, ArchiveError::Unreadable { source, .. }
        if source.kind() == std::io::ErrorKind::PermissionDenied);
    why.is_damage() || is_denied
}

/// The process of this user that is about to begin or to continue that bake-off: `bakeoff run ... --as ID`,
/// `bakeoff resume ID`.
fn beginner(run: RunId) -> Option<u32> {
    let run = run.to_string();
    let begins = |words: &[Vec<u8>]| {
        words.windows(2).any(|two| BEGINS.contains(&&*two[0]) && two[1] == run.as_bytes())
    };
    let is_own = |pid: &u32| {
        fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == nix::unistd::geteuid().as_raw())
    };
    let pids =
        fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid| is_own(pid) && begins(&words_of(*pid)))
}

/// Last lines of an output, as a reason.
fn reason_in(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = lines.iter().rev().find(|line| line.starts_with("bakeoff: ")).or(lines.last());
    let told = told.map_or("its process ended with an error and printed nothing", |line| line);
    told.trim_start_matches("bakeoff: ").chars().take(REASON_LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failure_is_what_the_process_said_last() {
        assert_eq!(reason_in("note: x\nbakeoff: no such table\n  3/6 trials\n"), "no such table");
        assert_eq!(reason_in("killed\n\n"), "killed");
        assert!(reason_in("").contains("printed nothing"));
        assert_eq!(reason_in(&"x".repeat(5_000)).len(), REASON_LENGTH_MAX);
    }

    #[test]
    fn only_a_process_with_the_runs_id_is_signalled() {
        let run = RunId::fresh(WallAnchor::now());
        assert!(!conducts(std::process::id(), run));
        let mut child = Command::new("sh")
            .args(["-c", "read x", &run.to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // The kernel shows the command line some time after the program has begun.
        while fs::read(format!("/proc/{}/cmdline", child.id())).unwrap().is_empty() {
            std::thread::yield_now();
        }
        assert!(conducts(child.id(), run));
        assert_eq!(beginner(run), None, "it names the run, and does not begin it");
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    fn plan(title: &str) -> archive::Submission {
        archive::Submission {
            id: RunId::fresh(WallAnchor::now()),
            plan: format!("title = \"{title}\"\n"),
            plan_sha256: String::new(),
            title: title.to_owned(),
            by: String::new(),
            priority: 0,
            not_before_unix_ns: None,
            estimate_s: 1.0,
        }
    }

    #[test]
    fn a_trouble_that_is_over_does_not_show_while_the_next_entry_runs() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let mut queue = archive.queue().unwrap();
        queue.submit(&plan("a")).unwrap();
        let program = folder.path().join("bakeoff");
        fs::write(&program, "#!/bin/sh\nsleep 0.3\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let trouble = Arc::new(Mutex::new(Some("no space left".to_owned())));
        // The worker asks for the urgency before the process starts, and again while it runs.
        let (shown, looked) = (Arc::new(Mutex::new(Vec::new())), trouble.clone());
        let seen = shown.clone();
        let stop = move || {
            seen.lock().unwrap().push(looked.lock().unwrap().is_some());
            0
        };
        let worker = Worker {
            archive,
            queue: Arc::new(Mutex::new(queue)),
            bell: Arc::default(),
            program,
            stop: Arc::new(stop),
            trouble,
        };
        assert!(worker.one().unwrap());
        let shown = shown.lock().unwrap();
        assert!(shown[0] && shown[1..].iter().all(|is_shown| !is_shown), "{shown:?}");
    }

    #[test]
    fn a_pause_that_is_taken_back_does_not_stop_the_entry() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let mut queue = archive.queue().unwrap();
        let id = queue.submit(&plan("a")).unwrap().id;
        let queue = Arc::new(Mutex::new(queue));
        let (program, begun, again) =
            (folder.path().join("bakeoff"), folder.path().join("begun"), folder.path().join("again"));
        let script = format!(
            "#!/bin/sh\n[ -e {0} ] && {{ touch {1}; exit 0; }}\ntrap 'exit 130' USR1\ntouch {0}\nwhile :; do sleep 0.02; done\n",
            begun.display(),
            again.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        // The user pauses the entry once it runs, and resumes it after the worker has read that wish.
        let (user, step) = (queue.clone(), Mutex::new(0));
        let stop = move || {
            let mut step = step.lock().unwrap();
            let action = [archive::Action::Pause, archive::Action::Resume];
            if begun.exists() && *step < action.len() {
                user.lock().unwrap().act(id, action[*step]).unwrap();
                *step += 1;
            }
            0
        };
        let worker = Worker {
            archive,
            queue: queue.clone(),
            bell: Arc::default(),
            program,
            stop: Arc::new(stop),
            trouble: Arc::default(),
        };
        assert!(worker.one().unwrap());
        assert!(again.exists(), "{:?}", queue.lock().unwrap().entry(id));
    }

    /// A process that an older bakeoff began has no handler for SIGUSR1, and would die.
    #[test]
    fn a_process_that_cannot_stop_after_its_trial_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let mut queue = archive.queue().unwrap();
        let (id, run) = (queue.submit(&plan("a")).unwrap().id, RunId::fresh(WallAnchor::now()));
        queue.begin(id, run).unwrap();
        queue.act(id, archive::Action::Pause).unwrap();
        let over = folder.path().join("over");
        let script = "echo; while ! test -e $0; do sleep 0.02; done";
        let mut old = Command::new("sh");
        old.args(["-c", script]).arg(&over).arg(run.to_string()).stdout(Stdio::piped());
        let mut old = old.spawn().unwrap();
        // It is the shell by then.
        std::io::Read::read_exact(old.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let (bell, looks) = (Arc::new(Bell::default()), Mutex::new(0));
        let rung = bell.clone();
        // After some looks, the server is asked to end too.
        let stop = move || {
            rung.ring();
            *looks.lock().unwrap() += 1;
            u8::from(*looks.lock().unwrap() > 100)
        };
        let worker = Worker {
            archive,
            queue: Arc::new(Mutex::new(queue)),
            bell,
            program: "/nonexistent".into(),
            stop: Arc::new(stop),
            trouble: Arc::default(),
        };
        let urged = worker.watch(id, run, Some(old.id())).unwrap();
        assert_eq!((urged.signals(), old.try_wait().unwrap()), (0, None), "the next server watches it");
        let trouble = worker.trouble.lock().unwrap().clone().unwrap();
        assert!(trouble.contains("cannot stop after a trial"), "{trouble}");
        // A cancel ends it at once, as before.
        worker.queue().act(id, archive::Action::Cancel).unwrap();
        worker.urge(id, &mut Urged::default(), || Some(old.id())).unwrap();
        assert!(matches!(old.wait().unwrap().signal(), Some(nix::libc::SIGTERM | nix::libc::SIGINT)));
    }

    #[test]
    fn a_bake_off_that_cannot_be_read_ends_its_entry_and_not_the_queue() {
        use archive::Action::{Cancel, Pause};
        for (wish, end) in [
            (Some(Cancel), QueueState::Cancelled),
            (Some(Pause), QueueState::Paused),
            (None, QueueState::Failed),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let archive = Archive::open(folder.path()).unwrap();
            let queue = Arc::new(Mutex::new(archive.queue().unwrap()));
            let run = RunId::fresh(WallAnchor::now());
            let (a, b) = {
                let mut queue = queue.lock().unwrap();
                let (a, b) = (queue.submit(&plan("a")).unwrap().id, queue.submit(&plan("b")).unwrap().id);
                queue.begin(a, run).unwrap();
                fs::create_dir(archive.bakeoff_dir(run)).unwrap();
                if let Some(wish) = wish {
                    queue.act(a, wish).unwrap();
                }
                (a, b)
            };
            let worker = Worker {
                archive: archive.clone(),
                queue: queue.clone(),
                bell: Arc::default(),
                program: "/nonexistent".into(),
                stop: Arc::new(|| 0),
                trouble: Arc::default(),
            };
            assert!(worker.one().unwrap());
            let queue = queue.lock().unwrap();
            let ended = queue.entry(a).unwrap();
            assert_eq!(ended.state, end);
            let seen = |may_run| crate::reasons::of_entry(&ended, may_run).unwrap();
            assert!(seen(true).contains("order.json"), "the reason names the file");
            assert_eq!(seen(false), UNREAD, "a reader and the webhook learn no path");
            assert_eq!(queue.next(u64::MAX).unwrap().unwrap().id, b);
        }
    }

    #[test]
    fn the_situation_of_a_run_that_the_archive_lacks_is_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let found = situation(&archive, RunId::fresh(WallAnchor::now())).unwrap();
        assert_eq!(found, Situation::NotBegun);
    }
}
