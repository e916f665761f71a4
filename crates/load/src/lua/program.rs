//! A script with its options, shared by all states that run it.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use record::clock::WallAnchor;
use record::load::{LoadSettings, ScriptFile};

use crate::lua::context::{Counters, Counts};
use crate::lua::laws::Unique;
use crate::lua::options::{OptionValue, OptionValues};
use crate::lua::server::Server;
use crate::net::writers::{is_end_shared, is_shared, is_way_shared};
use crate::schedule::random::Random;

/// Separates the random streams of states from those of events.
const STATE_SALT: u64 = 0x006c_7561;

/// Message for a module that the body of a script did not load when it was read.
const LATE: &str = "load it in the script's body: a run has only the modules in its record, and none in C";

/// Place of the text that scripts print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error: standard output has a document.
    Stderr,
    /// Discarded.
    Nowhere,
}

impl Output {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Nowhere => "nowhere",
        }
    }
}

/// Place where the scripts of this process print.
static OUTPUT: AtomicU64 = AtomicU64::new(0);

/// Sets where the scripts of this process print.
pub fn print_to(output: Output) {
    OUTPUT.store(output as u64, Ordering::SeqCst);
}

fn output() -> Output {
    match OUTPUT.load(Ordering::SeqCst) {
        1 => Output::Stderr,
        2 => Output::Nowhere,
        _ => Output::Stdout,
    }
}

/// Texts of the files that a script loads with `require`, `dofile` and `loadfile`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Modules {
    /// Read from disk, as in sysbench.
    OnDisk,
    /// Only these, by path, are loaded: the record of the run has their texts.
    Known {
        texts: Vec<(String, String)>,
        /// Message for another one.
        otherwise: &'static str,
    },
}

impl Modules {
    /// The modules of a run: the files after the script.
    pub(crate) fn of(files: &[ScriptFile], otherwise: &'static str) -> Self {
        let texts = files.iter().skip(1).map(|file| (file.name.clone(), without_shebang(&file.text)));
        Self::Known { texts: texts.collect(), otherwise }
    }
}

/// A script, what it was given, and what its states share.
pub(crate) struct Program {
    /// Name of the file, as the user wrote it.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) modules: Modules,
    /// Options that were given: name and value.
    pub(crate) given: Vec<(String, String)>,
    /// Options that every script has, from the settings of the load.
    pub(crate) common: OptionValues,
    /// `run`, or another command; `None` if the script is only loaded.
    pub(crate) command: Option<String>,
    pub(crate) output: Output,
    pub(crate) server: Option<Arc<dyn Server>>,
    pub(crate) is_prepared: bool,
    pub(crate) threads: u32,
    /// Unique numbers, from the first draw on.
    unique: OnceLock<Arc<Unique>>,
    unique_seed: u64,
    seed: u64,
    states: AtomicU64,
    counters: Mutex<Vec<Arc<Counters>>>,
    failed: OnceLock<Failed>,
    /// Threads with rows or statements that a lost connection did not take.
    unsent: AtomicU32,
    /// Threads that ended because `event` returned a value.
    ended: AtomicU32,
}

/// Failure of a script itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) text: String,
    /// Whether its text or its options are wrong, and nothing has run.
    pub(crate) is_usage: bool,
}

impl Program {
    /// The script of a load, to run it or to execute a command.
    ///
    /// # Panics
    ///
    /// The settings have no script.
    pub(crate) fn new(
        settings: &LoadSettings,
        command: Option<&str>,
        server: Option<Arc<dyn Server>>,
    ) -> Self {
        let file = settings.scripts.files.first().expect("a load of a script has one");
        // The last one counts.
        let is_mode = |(name, _): &&(String, String)| name.replace('_', "-") == "db-ps-mode";
        let mode = settings.scripts.defines.iter().rev().find(is_mode);
        let is_prepared = settings.oltp.prepared && mode.is_none_or(|(_, value)| value != "disable");
        Self {
            name: file.name.clone(),
            text: without_shebang(&file.text),
            modules: Modules::of(&settings.scripts.files, LATE),
            given: settings.scripts.defines.clone(),
            common: common(settings, server.as_deref()),
            command: command.map(str::to_owned),
            output: output(),
            server,
            is_prepared,
            threads: settings.threads,
            unique: OnceLock::new(),
            unique_seed: settings.seed ^ STATE_SALT,
            seed: settings.event_seed(),
            states: AtomicU64::new(0),
            counters: Mutex::default(),
            failed: OnceLock::new(),
            unsent: AtomicU32::new(0),
            ended: AtomicU32::new(0),
        }
    }

    /// A script of which only the declarations matter.
    pub(crate) fn to_describe(name: &str, text: &str, command: Option<&str>, modules: Modules) -> Self {
        Self {
            name: name.to_owned(),
            text: without_shebang(text),
            modules,
            given: Vec::new(),
            common: OptionValues::default(),
            command: command.map(str::to_owned),
            output: Output::Nowhere,
            server: None,
            is_prepared: true,
            threads: 1,
            unique: OnceLock::new(),
            unique_seed: 0,
            seed: 0,
            states: AtomicU64::new(0),
            counters: Mutex::default(),
            failed: OnceLock::new(),
            unsent: AtomicU32::new(0),
            ended: AtomicU32::new(0),
        }
    }

    /// Numbers that do not repeat. They become keys: by the seed alone, a second load would meet the first
    /// one's keys.
    pub(crate) fn unique(&self) -> Arc<Unique> {
        let new = || Arc::new(Unique::new(&mut Random::of(self.unique_seed, WallAnchor::now().unix_ns)));
        Arc::clone(self.unique.get_or_init(new))
    }

    /// Draws unique numbers from those of another host of the load: the hosts may share one database.
    pub(crate) fn share_unique(&self, other: &Self) {
        self.unique.get_or_init(|| other.unique());
    }

    /// Random numbers of a new state, outside of events.
    pub(crate) fn random_of_state(&self) -> Random {
        Random::of(self.seed ^ STATE_SALT, self.states.fetch_add(1, Ordering::Relaxed))
    }

    /// Counters of a new state.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        counters
    }

    /// Adds the counts before the first event of each thread.
    pub(crate) fn add_counts_before_events(&self, counts: &mut Counts) {
        for counters in &*self.counters.lock().unwrap_or_else(PoisonError::into_inner) {
            counters.add_before_events_to(counts);
        }
    }

    /// Adds the counts of all states.
    pub(crate) fn add_counts(&self, counts: &mut Counts) {
        for counters in &*self.counters.lock().unwrap_or_else(PoisonError::into_inner) {
            counters.add_to(counts);
        }
    }

    /// Number of events that run at the moment.
    pub(crate) fn events_in_progress(&self) -> u64 {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().filter(|counters| counters.is_in_event()).count() as u64
    }

    /// Records that the script itself has failed; the first failure is reported.
    pub(crate) fn fail(&self, failed: Failed) {
        let _ = self.failed.set(failed);
    }

    /// Failure of the script itself.
    pub(crate) fn failure(&self) -> Option<&Failed> {
        self.failed.get()
    }

    /// Counts a thread with something unsent for a lost connection.
    pub(crate) fn leaves_unsent(&self) {
        self.unsent.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts it no more: it has another connection.
    pub(crate) fn sends_again(&self) {
        self.unsent.fetch_sub(1, Ordering::SeqCst);
    }

    /// Number of threads with something unsent; at the end of a load, it is lost.
    pub(crate) fn unsent(&self) -> u32 {
        self.unsent.load(Ordering::SeqCst)
    }

    /// Counts a thread that the script has ended.
    pub(crate) fn thread_ends(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of threads that the script has ended.
    pub(crate) fn threads_ended(&self) -> u32 {
        self.ended.load(Ordering::SeqCst)
    }

    /// Words of the command line, as sysbench would have them.
    pub(crate) fn words(&self) -> Vec<String> {
        let options = self.given.iter().map(|(name, value)| match value.as_str() {
            "" => format!("--{name}"),
            value => format!("--{name}={value}"),
        });
        options.chain([self.name.clone()]).chain(self.command.clone()).collect()
    }

    /// The script's own folder.
    fn folder(&self) -> &str {
        match self.name.rsplit_once('/') {
            None => ".",
            Some(("", _)) => "/",
            Some((folder, _)) => folder,
        }
    }

    /// Whether others than the user, root and the script's owner can create files in the script's folder. The
    /// script's owner is trusted, because the script itself runs.
    fn is_folder_shared(&self, here: &Path) -> bool {
        is_shared(&here.join(self.folder()), self.author(here))
    }

    /// The owner of the script.
    fn author(&self, here: &Path) -> Option<u32> {
        std::fs::metadata(here.join(&self.name)).ok().map(|found| found.uid())
    }

    /// The folders of which each module is examined.
    pub(crate) fn grounds(&self, here: &Path, home: Option<&str>) -> Grounds {
        let whole = |path: &Path| absolute(path).unwrap_or_else(|_| path.to_owned());
        Grounds {
            here: whole(here),
            own: whole(&here.join(self.folder())),
            author: self.author(here),
            rocks: home.map(|home| whole(&here.join(home).join(ROCKS))),
        }
    }

    /// Explanation of the folder that `require` leaves out.
    pub(crate) fn unsearched(&self, here: &Path, home: Option<&str>) -> Option<String> {
        let rocks = home.map(|home| format!("{home}/{ROCKS}"));
        let folder = if self.is_folder_shared(here) {
            self.folder()
        } else if is_shared(here, None) {
            "."
        } else {
            rocks.as_deref().filter(|rocks| Path::new(rocks).exists() && is_way_shared(Path::new(rocks)))?
        };
        Some(format!(
            "{folder} is not searched, since other users can write it: set LUA_PATH to use its modules"
        ))
    }

    /// Search path of `require`: sysbench's, and the script's own folder at the end. The working folder, the
    /// user's `.luarocks` and the script's folder are left out if other users can write them: a module there
    /// may be theirs.
    ///
    /// - `here`: the working folder.
    pub(crate) fn path(&self, here: &Path, variable: impl Fn(&str) -> Option<String>) -> (String, String) {
        let home = variable("HOME");
        let (mut path, mut native) = (Vec::new(), Vec::new());
        if !is_shared(here, None) {
            path.extend(["./?.lua", "./?/init.lua", "./src/lua/?.lua"].map(str::to_owned));
            native.push("./?.so".to_owned());
        }
        if let Some(home) = home.filter(|home| !is_way_shared(&here.join(home).join(ROCKS))) {
            for version in ["5.1/", ""] {
                path.push(format!("{home}/{ROCKS}/share/lua/{version}?.lua"));
                path.push(format!("{home}/{ROCKS}/share/lua/{version}?/init.lua"));
                native.push(format!("{home}/{ROCKS}/lib/lua/{version}?.so"));
            }
        }
        for folder in ["/usr/local/share/lua/5.1", "/usr/share/lua/5.1", "/usr/share/sysbench"] {
            path.push(format!("{folder}/?.lua"));
        }
        native.extend(["/usr/local/lib/lua/5.1/?.so", "/usr/lib/lua/5.1/?.so"].map(str::to_owned));
        let folder = self.folder();
        if !self.is_folder_shared(here) {
            path.push(format!("{}/?.lua", folder.trim_end_matches('/')));
        }
        let with = |name: &str, usual: String| match variable(name) {
            Some(own) if own.contains(";;") => own.replace(";;", &format!(";{usual};")),
            Some(own) => own,
            None => usual,
        };
        let unique: Vec<String> = {
            let mut seen = BTreeSet::new();
            path.into_iter().filter(|p| seen.insert(p.clone())).collect()
        };
        (with("LUA_PATH", unique.join(";")), with("LUA_CPATH", native.join(";")))
    }
}

/// The text without a first line that names an interpreter; the other lines keep their numbers.
fn without_shebang(text: &str) -> String {
    if text.starts_with('#') { format!("--{text}") } else { text.to_owned() }
}

/// Options that sysbench has itself, as far as scripts read them.
fn common(settings: &LoadSettings, server: Option<&dyn Server>) -> OptionValues {
    let mut values = OptionValues::default();
    let mut number = |name: &str, number: f64| values.push(name, OptionValue::Number(number));
    number("threads", settings.threads.into());
    number("events", settings.events_max.unwrap_or(0) as f64);
    number("time", settings.time.as_secs_f64());
    number("warmup_time", settings.warmup.as_secs_f64());
    number("rate", settings.pace.per_s().unwrap_or(0.0));
    number("report_interval", settings.interval.as_secs_f64());
    number("rand_seed", settings.seed as f64);
    let driver = server.map_or("", |server| server.driver()).to_owned();
    values.push("db_driver", OptionValue::Text(driver));
    for name in ["debug", "validate", "histogram"] {
        values.push(name, OptionValue::Switch(false));
    }
    values
}

/// The user's folder of modules that `luarocks` installs, in the home.
const ROCKS: &str = ".luarocks";

/// Folders in which other users may have put modules; the paths are absolute.
pub(crate) struct Grounds {
    here: PathBuf,
    /// The script's folder. It and its modules may belong to `author`, the owner of the script.
    own: PathBuf,
    author: Option<u32>,
    rocks: Option<PathBuf>,
}

impl Grounds {
    /// Whether another user can change a module below one of the folders: the file, or a folder on the way as
    /// written or as links lead.
    pub(crate) fn is_planted(&self, path: &str) -> bool {
        let Ok(whole) = absolute(path) else { return true };
        let is_own = whole.starts_with(&self.own);
        let base = if Path::new(path).is_relative() && whole.starts_with(&self.here) {
            &self.here
        } else if is_own {
            &self.own
        } else {
            match &self.rocks {
                Some(rocks) if whole.starts_with(rocks) => rocks,
                _ => return false,
            }
        };
        let author = self.author.filter(|_| is_own);
        let Ok(below) = whole.strip_prefix(base) else { return true };
        whole.ancestors().take_while(|at| *at != base.as_path()).any(|at| is_shared(at, author))
            || is_end_shared(base, below, author)
    }
}

/// Forms of a user's search path: each names a folder that the user trusts, except below the working folder.
pub(crate) fn named_forms(path: &str) -> impl Iterator<Item = &str> {
    path.split(';').filter(|form| !form.is_empty() && !form.starts_with("./"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A script of that name in a folder with these rights.
    fn in_folder(mode: u32, name: &str) -> (tempfile::TempDir, Program) {
        let folder = tempfile::tempdir().unwrap();
        let name = name.replace("FOLDER", folder.path().to_str().unwrap());
        std::fs::write(folder.path().join(&name), "x()").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let program = Program::to_describe(&name, "x()", Some("run"), Modules::OnDisk);
        (folder, program)
    }

    #[test]
    fn modules_are_found_where_sysbench_finds_them_and_beside_the_script() {
        let (folder, program) = in_folder(0o755, "FOLDER/tpcc.lua");
        let beside = format!(";{}/?.lua", folder.path().display());
        let here = Path::new("/");
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(ROCKS)).unwrap();
        let home = home.path().to_str().unwrap();
        let (path, native) = program.path(here, |name| (name == "HOME").then(|| home.to_owned()));
        let of_home = format!("{home}/.luarocks/share/lua/5.1/?.lua");
        for expected in ["./?.lua", &of_home, "/usr/share/sysbench/?.lua"] {
            assert!(path.split(';').any(|p| p == expected), "{path}");
        }
        assert!(path.ends_with(&beside) && native.contains("./?.so"), "{path} {native}");
        assert_eq!(program.unsearched(here, Some(home)), None);
        let (path, _) = program.path(here, |name| (name == "LUA_PATH").then(|| "/x/?.lua;;/y".to_owned()));
        assert!(path.starts_with("/x/?.lua;./?.lua;") && path.ends_with(";/y"), "{path}");
        let (path, _) = program.path(here, |name| (name == "LUA_PATH").then(|| "/x/?.lua".to_owned()));
        assert_eq!(path, "/x/?.lua");
        let program = Program::to_describe("x", "#!/usr/bin/env sysbench\nx()", Some("run"), Modules::OnDisk);
        assert_eq!(program.text, "--#!/usr/bin/env sysbench\nx()");
    }

    /// In `/tmp`, `require "oltp_common"` must not run what another user put there.
    #[test]
    fn modules_are_not_taken_from_a_folder_that_others_can_write() {
        let (shared, program) = in_folder(0o1777, "own.lua");
        let (path, native) = program.path(shared.path(), |_| None);
        let of_here = |text: &str| text.split(';').any(|form| form.starts_with('.'));
        assert!(!of_here(&path) && !of_here(&native), "{path} {native}");
        assert!(program.unsearched(shared.path(), None).unwrap().starts_with(". is not searched"));
        // A script elsewhere finds its own modules, and not those of the shared folder.
        let (folder, program) = in_folder(0o755, "FOLDER/own.lua");
        let (path, _) = program.path(shared.path(), |_| None);
        assert!(!of_here(&path), "{path}");
        assert!(path.ends_with(&format!(";{}/?.lua", folder.path().display())), "{path}");
        // Nor does one that is named with its folder.
        let (shared, program) = in_folder(0o1777, "FOLDER/own.lua");
        let (path, _) = program.path(Path::new("/"), |_| None);
        let folder = shared.path().display().to_string();
        assert!(!path.contains(&folder), "{path}");
        assert!(program.unsearched(Path::new("/"), None).unwrap().starts_with(&folder));
        let (folder, program) = in_folder(0o775, "FOLDER/own.lua");
        let is_root = nix::unistd::geteuid().is_root();
        if !is_root {
            return println!("skipped: the folder of another user needs root");
        }
        // The modules of the script's owner are no less trusted than the script.
        let give = |path: &Path, user: u32| std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
        give(folder.path(), 4_321);
        let beside = format!(";{}/?.lua", folder.path().display());
        let is_beside = || program.path(Path::new("/"), |_| None).0.ends_with(&beside);
        assert!(!is_beside(), "the script is root's, its folder is another user's");
        give(&folder.path().join("own.lua"), 4_321);
        assert!(is_beside());
        // A link beside the script, to a folder in which others can replace the file.
        let open = tempfile::tempdir().unwrap();
        std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(open.path().join("module.lua"), "").unwrap();
        let own = tempfile::tempdir().unwrap();
        let link = own.path().join("module.lua");
        std::os::unix::fs::symlink(open.path().join("module.lua"), &link).unwrap();
        let grounds = Grounds { own: own.path().into(), here: "/".into(), author: None, rocks: None };
        assert!(grounds.is_planted(link.to_str().unwrap()));
        // As `require` finds a module below the working folder.
        let below = tempfile::tempdir_in(".").unwrap();
        let folder = format!("./{}", below.path().file_name().unwrap().to_str().unwrap());
        let module = format!("{folder}/module.lua");
        std::fs::write(&module, "").unwrap();
        give(below.path(), 4_321);
        give(Path::new(&module), 4_321);
        let is_refused = |folder: &str, author| {
            let here = absolute(".").unwrap();
            Grounds { own: here.join(folder), here, author, rocks: None }.is_planted(&module)
        };
        let folder = folder.trim_start_matches("./");
        assert!(!is_refused(folder, Some(4_321)));
        assert!(is_refused(folder, None) && is_refused(folder, Some(4_322)));
        assert!(is_refused("elsewhere", Some(4_321)));
    }
}
