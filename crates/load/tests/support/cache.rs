//! A memcached or a Redis for a test: on a scratch folder and a free port, gone when dropped.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::certificates::Certificate;
use super::mariadb::installed;

/// A server that a test started.
pub(crate) struct Cache {
    child: Child,
    command: Vec<String>,
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Cache {
    /// `memcached` with `megabytes` for values, listening only on a port; `None` if it is not installed.
    pub(crate) fn memcached(megabytes: u32) -> Option<Self> {
        Self::start("memcached", |port, _| {
            let user = ["-u".to_owned(), "root".to_owned()];
            let rest = ["-l", "127.0.0.1", "-p", &port.to_string(), "-m", &megabytes.to_string(), "-t", "2"];
            user.into_iter().chain(rest.map(str::to_owned)).collect()
        })
    }

    /// `memcached` that speaks only TLS.
    pub(crate) fn memcached_secured(shows: &Certificate) -> Option<Self> {
        let files = format!("ssl_chain_cert={},ssl_key={}", shows.certificate.display(), shows.key.display());
        Self::start("memcached", |port, _| {
            let port = port.to_string();
            let options = ["-u", "root", "-l", "127.0.0.1", "-p", &port, "-m", "64", "-Z", "-o", &files];
            options.map(str::to_owned).to_vec()
        })
    }

    /// A Redis that also speaks TLS, at `tls_port`; `asks`: it demands a certificate of its clients.
    pub(crate) fn redis_secured(
        shows: &Certificate,
        authority: &str,
        tls_port: u16,
        asks: &str,
    ) -> Option<Self> {
        let (certificate, key) = (shows.certificate.display().to_string(), shows.key.display().to_string());
        Self::redis(&[
            "--tls-port",
            &tls_port.to_string(),
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            authority,
            "--tls-auth-clients",
            asks,
        ])
    }

    /// `memcached` on a socket.
    pub(crate) fn memcached_on_a_socket() -> Option<Self> {
        Self::start("memcached", |_, socket| {
            ["-u", "root", "-s", socket, "-m", "64"].map(str::to_owned).to_vec()
        })
    }

    /// A Redis that stores nothing on disk, with a socket beside its port, and further options.
    pub(crate) fn redis(options: &[&str]) -> Option<Self> {
        Self::start("redis-server", |port, socket| {
            let port = port.to_string();
            let own = [
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--unixsocket",
                socket,
                "--save",
                "",
                "--appendonly",
                "no",
            ];
            own.iter().chain(options).map(|word| (*word).to_owned()).collect()
        })
    }

    fn start(program: &str, options: impl FnOnce(u16, &str) -> Vec<String>) -> Option<Self> {
        let Some(path) = installed(program) else {
            println!("skipped: {program} is not installed (apt-get install memcached redis-server)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let port = super::port::free();
        let socket = folder.path().join("socket");
        let mut command = vec![path.display().to_string()];
        command.extend(options(port, socket.to_str().unwrap()));
        let child = spawn(&command);
        let cache = Self { child, command, port, socket, _folder: folder };
        cache.wait_until_ready();
        Some(cache)
    }

    pub(crate) fn wait_until_ready(&self) {
        let mut tries = 0;
        loop {
            let is_there = TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                || std::os::unix::net::UnixStream::connect(&self.socket).is_ok();
            if is_there {
                return;
            }
            tries += 1;
            assert!(tries < 6_000, "{:?} does not come up", self.command);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let _ = std::fs::remove_file(&self.socket);
    }

    /// Restarts it on the same port.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.command);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(command: &[String]) -> Child {
    let mut spawned = Command::new(&command[0]);
    spawned.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    spawned.spawn().unwrap()
}
