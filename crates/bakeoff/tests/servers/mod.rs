//! Servers of a shared archive: PostgreSQL, and one each for S3 and Azure.

pub(crate) mod azurite;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::unistd::User;
use tempfile::TempDir;

/// A PostgreSQL on a socket in a scratch folder.
pub(crate) struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    port: String,
    process: Child,
}

impl Postgres {
    /// Starts a server; prints a line and returns `None` if it is not installed.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let Some(programs) = versions.map(|v| v.path().join("bin")).find(|p| p.join("initdb").is_file())
        else {
            println!("skipped: PostgreSQL is not installed (apt-get install postgresql)");
            return None;
        };
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for setting in settings {
            if let Some((_, file)) = setting.split_once('=').filter(|(name, _)| name.ends_with("_file")) {
                give_away(Path::new(file));
            }
        }
        give_away(folder.path());
        let data = folder.path().join("data");
        let mut install = as_server(&programs.join("initdb"));
        install.arg("-D").arg(&data).args(["-U", "postgres", "-N", "--locale=C", "-E", "UTF8"]);
        install.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
        assert!(install.stdout(Stdio::null()).status().unwrap().success());
        let mut command = as_server(&programs.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(folder.path()).args([
            "-c",
            "fsync=off",
            "-c",
            "listen_addresses=",
        ]);
        command.args(["-c", "dynamic_shared_memory_type=mmap", "-c", "shared_buffers=16MB"]);
        for setting in settings {
            command.args(["-c", setting]);
        }
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let port = settings.iter().find_map(|s| s.strip_prefix("port=")).unwrap_or("5432").to_owned();
        let server = Self { folder, programs, port, process };
        for _ in 0..600 {
            if server.client("SELECT 1", "postgres").status.success() {
                server.ask("CREATE USER app PASSWORD 's3cret'", "postgres");
                server.ask("CREATE DATABASE lab OWNER app", "postgres");
                return Some(server);
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("{}", fs::read_to_string(server.folder.path().join("log")).unwrap());
    }

    fn client(&self, sql: &str, database: &str) -> std::process::Output {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args(["-X", "-q", "-U", "postgres", "-d", database, "-p", &self.port, "-Atc", sql, "-h"])
            .arg(self.folder.path());
        command.output().unwrap()
    }

    fn ask(&self, sql: &str, database: &str) -> String {
        let output = self.client(sql, database);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.ask(sql, "lab")
    }

    pub(crate) fn place(&self, store: &str) -> String {
        let host = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://app@{host}/lab,{store}")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.process.id().cast_signed()),
            nix::sys::signal::Signal::SIGQUIT,
        );
        let _ = self.process.wait();
    }
}

/// The user that the server runs as: it refuses to be root.
fn server_user() -> Option<User> {
    let mut names = ["postgres", "nobody"].iter();
    nix::unistd::geteuid().is_root().then(|| names.find_map(|n| User::from_name(n).unwrap())).flatten()
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
}

/// An S3 server (`pip install 'moto[server,s3]'`), with an empty bucket `lab`.
pub(crate) struct S3 {
    process: Child,
    pub(crate) url: String,
}

impl S3 {
    pub(crate) fn start() -> Option<Self> {
        let program = std::env::var("BAKEOFF_MOTO").unwrap_or_else(|_| "moto_server".to_owned());
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let started = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = started else {
            println!("skipped: no S3 server (pip install 'moto[server,s3]'; BAKEOFF_MOTO=.../moto_server)");
            return None;
        };
        let server = Self { process, url: format!("http://127.0.0.1:{port}") };
        for _ in 0..600 {
            let bucket = format!("{}/lab", server.url);
            let words = ["-sfX", "PUT", "-H", "x-amz-acl: public-read-write", &bucket];
            if Command::new("curl").args(words).stdout(Stdio::null()).status().unwrap().success() {
                return Some(server);
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the S3 server does not answer");
    }

    pub(crate) fn curl(&self, words: &[&str], key: &str) -> String {
        let output = Command::new("curl")
            .arg("-s")
            .args(words)
            .arg(format!("{}/lab/{key}", self.url))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
