//! A MariaDB for a test: scratch folder, free port, gone at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use tempfile::TempDir;

use super::certificates::Certificate;

/// Password of the user `app`, the owner of the database `bench`.
pub(crate) const PASSWORD: &str = "s3cret";
/// One minute: a server may start slowly on a busy machine.
const STARTUP_TRIES: u32 = 600;

/// A running server.
pub(crate) struct MariaDb {
    dir: TempDir,
    port: u16,
    options: Vec<String>,
    process: Option<Child>,
}

impl MariaDb {
    /// Starts a server; prints a line and returns `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(Vec::new())
    }

    /// Variant of [`Self::start`] with TLS.
    pub(crate) fn start_secured(shows: &Certificate, authority: &str) -> Option<Self> {
        // Copies in the server's folder: its user may not read the authority's.
        let dir = TempDir::new().unwrap();
        let file = |option: &str, path: &Path| {
            let copy = dir.path().join(option);
            fs::copy(path, &copy).unwrap();
            format!("--ssl-{option}={}", copy.display())
        };
        let options =
            vec![file("cert", &shows.certificate), file("key", &shows.key), file("ca", Path::new(authority))];
        Self::start_in(dir, options)
    }

    /// Variant of [`Self::start`] with further options.
    pub(crate) fn start_with(options: Vec<String>) -> Option<Self> {
        Self::start_in(TempDir::new().unwrap(), options)
    }

    /// Variant of [`Self::start_with`] in an existing folder.
    fn start_in(dir: TempDir, options: Vec<String>) -> Option<Self> {
        let Some(program) = installed("mariadbd") else {
            println!("skipped: mariadbd is not installed (apt-get install mariadb-server)");
            return None;
        };
        copy_tree(&template(&program), &dir.path().join("data"));
        let mut server = Self { dir, port: 0, options, process: None };
        server.launch(&program);
        let mut root = server.connect("root", None, "mysql");
        root.query_drop("CREATE DATABASE bench").unwrap();
        root.query_drop(format!("CREATE USER app@'%' IDENTIFIED BY '{PASSWORD}'")).unwrap();
        root.query_drop("GRANT ALL ON bench.* TO app@'%'").unwrap();
        Some(server)
    }

    /// The target of user `app` over TCP.
    pub(crate) fn url(&self) -> String {
        format!("mysql://app:{PASSWORD}@127.0.0.1:{}/bench", self.port)
    }

    /// The target of user `app` through the socket.
    pub(crate) fn socket_url(&self) -> String {
        format!("mysql://app:{PASSWORD}@localhost/bench?socket={}", self.socket().display())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A connection for the test's own queries.
    pub(crate) fn connect(&self, user: &str, password: Option<&str>, database: &str) -> mysql::Conn {
        self.try_connect(user, password, database).unwrap()
    }

    /// Pauses the server: connections stay open, and no request is answered.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills it as a crash would.
    pub(crate) fn crash(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Restarts it, on the same port and data, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        self.launch(&installed("mariadbd").unwrap());
    }

    fn launch(&mut self, program: &Path) {
        if self.port == 0 {
            self.port = super::port::free();
        }
        let log = fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.arg("--no-defaults").arg("--bind-address=127.0.0.1");
        if let Some(user) = server_user() {
            give_away(self.dir.path(), &user);
            command.arg(format!("--user={}", user.name));
        }
        // Its root has no password, and every user of this machine reaches its port: it writes no files for
        // them.
        command.arg(format!("--secure-file-priv={}", self.dir.path().display())).arg("--local-infile=0");
        command.arg(format!("--datadir={}", self.dir.path().join("data").display()));
        command.arg(format!("--socket={}", self.socket().display())).arg(format!("--port={}", self.port));
        command.arg(format!("--pid-file={}", self.dir.path().join("pid").display()));
        command.args([
            "--innodb-buffer-pool-size=64M",
            "--innodb-flush-log-at-trx-commit=2",
            "--skip-log-bin",
        ]);
        command.args(["--skip-name-resolve", "--max-connections=200"]).args(&self.options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().unwrap());
        for _ in 0..STARTUP_TRIES {
            if self.try_connect("root", None, "mysql").is_ok() {
                return;
            }
            if let Some(status) = self.process.as_mut().unwrap().try_wait().unwrap() {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                panic!("mariadbd ended with {status}:\n{log}");
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("mariadbd does not answer");
    }

    fn try_connect(&self, user: &str, password: Option<&str>, database: &str) -> mysql::Result<mysql::Conn> {
        let options = mysql::OptsBuilder::new().user(Some(user)).pass(password).db_name(Some(database));
        mysql::Conn::new(options.socket(Some(self.socket().display().to_string())))
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.as_ref().unwrap().id();
        kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A data folder as the installer makes it: created once, stored with cargo's output, copied for each server.
fn template(program: &Path) -> PathBuf {
    let version = Command::new(program).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version).replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mariadb-{version}"));
    if kept.is_dir() {
        return kept;
    }
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let made = dir.path().join("data");
    let mut install = Command::new(installed("mariadb-install-db").expect("it comes with mariadbd"));
    install.arg("--no-defaults").arg("--user=root").arg("--auth-root-authentication-method=normal");
    install.arg("--skip-test-db").arg(format!("--datadir={}", made.display()));
    let output = install.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Another test may have been faster; then its folder stays.
    if let Err(error) = fs::rename(&made, &kept) {
        assert!(kept.is_dir(), "{error}");
    }
    kept
}

/// The user that the server runs as if root starts it.
fn server_user() -> Option<User> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    ["mysql", "nobody"].iter().find_map(|name| User::from_name(name).unwrap())
}

fn give_away(path: &Path, user: &User) {
    std::os::unix::fs::lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_away(&entry.unwrap().path(), user);
        }
    }
}

/// Path of a program, including those that only root's PATH has.
pub(crate) fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
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
