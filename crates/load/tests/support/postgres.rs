//! A PostgreSQL for a test: scratch folder, free port, gone at the end.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use tempfile::TempDir;

use super::certificates::Certificate;

/// Password of the user `app`, the owner of the database `bench`.
pub(crate) const PASSWORD: &str = "s3cret";
/// One minute: a server may start slowly on a busy machine.
const STARTUP_TRIES: u32 = 600;

/// A running server. Over TCP it asks for a password, by SCRAM; at its socket it trusts every user name.
pub(crate) struct Postgres {
    dir: TempDir,
    programs: PathBuf,
    port: u16,
    settings: Vec<String>,
    process: Option<Child>,
}

impl Postgres {
    /// Starts a server; prints a line and returns `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Variant of [`Self::start`] with TLS.
    pub(crate) fn start_secured(shows: &Certificate) -> Option<Self> {
        Self::start_with(Some(shows))
    }

    fn start_with(shows: Option<&Certificate>) -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: PostgreSQL is not installed (apt-get install postgresql)");
            return None;
        };
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy_tree(&template(&programs), &dir.path().join("data"));
        fs::create_dir(dir.path().join("socket")).unwrap();
        let mut settings = Vec::new();
        if let Some(Certificate { certificate, key }) = shows {
            settings.push("ssl=on".to_owned());
            for (setting, file, name) in [("cert", certificate, "certificate.pem"), ("key", key, "key.pem")] {
                let copy = dir.path().join(name);
                fs::copy(file, &copy).unwrap();
                fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
                settings.push(format!("ssl_{setting}_file={}", copy.display()));
            }
        }
        give_away(dir.path());
        let port = super::port::free();
        let mut server = Self { dir, programs, port, settings, process: None };
        server.launch();
        server.ask("postgres", &format!("CREATE USER app PASSWORD '{PASSWORD}'"));
        server.ask("postgres", "CREATE DATABASE bench OWNER app");
        Some(server)
    }

    /// The target of user `app` over TCP.
    pub(crate) fn url(&self) -> String {
        format!("postgres://app:{PASSWORD}@127.0.0.1:{}/bench", self.port)
    }

    /// The target of user `app` through the socket.
    pub(crate) fn socket_url(&self) -> String {
        let folder = self.folder().display().to_string().replace('/', "%2F");
        format!("postgres://app@{folder}:{}/bench", self.port)
    }

    /// The folder of its socket.
    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Output of the server's own client for a statement of the superuser.
    pub(crate) fn ask(&self, database: &str, sql: &str) -> String {
        let output = self.try_ask(database, sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Pauses the server: connections stay open, and no request is answered.
    pub(crate) fn freeze(&self) {
        // First the process that would start more.
        for process in self.processes() {
            let _ = kill(process, Signal::SIGSTOP);
        }
        for process in self.processes() {
            let _ = kill(process, Signal::SIGSTOP);
        }
    }

    pub(crate) fn thaw(&self) {
        for process in self.processes() {
            let _ = kill(process, Signal::SIGCONT);
        }
    }

    /// Kills it as a crash would.
    pub(crate) fn crash(&mut self) {
        let processes = self.processes();
        for process in &processes {
            let _ = kill(*process, Signal::SIGKILL);
        }
        self.process.take().unwrap().wait().unwrap();
        // The next server needs the memory of this one.
        while processes[1..].iter().any(|p| Path::new(&format!("/proc/{p}")).exists()) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Restarts it, on the same port and data, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        self.launch();
    }

    fn launch(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = as_server(&self.programs.join("postgres"));
        command.arg("-D").arg(self.dir.path().join("data")).arg("-k").arg(self.folder());
        command.args(["-p", &self.port.to_string(), "-h", "127.0.0.1"]);
        let settings = [
            "fsync=off",
            "shared_buffers=32MB",
            "max_connections=60",
            "autovacuum=off",
            "deadlock_timeout=20ms",
            // In the data folder, which is removed with the test: a killed server leaves its segments behind.
            "dynamic_shared_memory_type=mmap",
        ];
        for setting in settings.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().unwrap());
        for _ in 0..STARTUP_TRIES {
            if self.try_ask("postgres", "SELECT 1").status.success() {
                return;
            }
            if let Some(status) = self.process.as_mut().unwrap().try_wait().unwrap() {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                panic!("postgres ended with {status}:\n{log}");
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("postgres does not answer");
    }

    fn try_ask(&self, database: &str, sql: &str) -> Output {
        self.client(database).args(["-Atc", sql]).output().unwrap()
    }

    /// The server's own client, as its superuser.
    pub(crate) fn client(&self, database: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-X", "-q", "-U", "postgres", "-d", database, "-p", &self.port.to_string(), "-h"]);
        command.arg(self.folder());
        command
    }

    /// The server's processes, its main process first.
    fn processes(&self) -> Vec<Pid> {
        let first = self.process.as_ref().unwrap().id();
        let mut processes = vec![Pid::from_raw(first.cast_signed())];
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
            if parent == Some(&first.to_string()) {
                processes.push(Pid::from_raw(id));
            }
        }
        processes
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.crash();
        }
    }
}

/// The folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|v| v.path().join("bin")).collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    let has_all = |folder: &&PathBuf| ["postgres", "initdb", "psql"].iter().all(|p| folder.join(p).is_file());
    folders.iter().rev().find(has_all).cloned()
}

/// The user that the server runs as: it refuses to be root.
fn server_user() -> Option<User> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).unwrap())
}

fn as_server(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = server_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command.current_dir("/");
    command
}

fn give_away(path: &Path) {
    if let Some(user) = server_user() {
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}

/// A data folder as the installer makes it: created once, stored with cargo's output, copied for each server.
fn template(programs: &Path) -> PathBuf {
    let version = Command::new(programs.join("postgres")).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(version);
    if kept.is_dir() {
        return kept;
    }
    let dir = TempDir::new().unwrap();
    give_away(dir.path());
    let mut install = as_server(&programs.join("initdb"));
    install.arg("-D").arg(dir.path().join("data")).args(["-U", "postgres", "-N", "-E", "UTF8", "--locale=C"]);
    install.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
    let output = install.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let copy = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    copy_tree(&dir.path().join("data"), &copy.path().join("data"));
    // Another test may have been faster; then its folder stays.
    if let Err(error) = fs::rename(copy.path().join("data"), &kept) {
        assert!(kept.is_dir(), "{error}");
    }
    kept
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
