//! An nginx for a test: on a scratch folder and a free port, gone when dropped.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use record::load::{LoadRecord, LoadSettings};

use super::mariadb::installed;

/// A web server that a test started.
pub(crate) struct Nginx {
    child: Child,
    path: PathBuf,
    pub(crate) port: u16,
    pub(crate) folder: tempfile::TempDir,
    secure: Option<Secure>,
}

/// Further ports.
struct Secure {
    /// TLS, with HTTP/2 and HTTP/1.1 inside.
    tls_port: u16,
    /// HTTP/2 without TLS.
    two_port: u16,
}

impl Nginx {
    /// Serves `/page` (`hello\n`), `/long` (100,000 bytes), `/moved` (a redirect), `/gone` (an error),
    /// `/brief` (and closes the connection 20 ms later), `/slow` (the same as `/long`, in 100 s) and
    /// `/dropped` (closes it without an answer to anything but HEAD); `None` if nginx is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(None, |_| String::new())
    }

    /// Variant of [`Self::start`] that also speaks HTTP/2 and TLS, with a self-signed certificate for
    /// `localhost` only.
    pub(crate) fn start_secured() -> Option<Self> {
        if installed("openssl").is_none() {
            println!("skipped: openssl is not installed (apt-get install openssl)");
            return None;
        }
        let secure = Secure { tls_port: super::port::free(), two_port: super::port::free() };
        Self::start_with(Some(secure), |_| String::new())
    }

    /// Variant of [`Self::start`] with the further servers that `more` returns for the folder.
    pub(crate) fn start_beside(more: impl Fn(&str) -> String) -> Option<Self> {
        Self::start_with(None, more)
    }

    fn start_with(secure: Option<Secure>, beside: impl Fn(&str) -> String) -> Option<Self> {
        let Some(path) = installed("nginx") else {
            println!("skipped: nginx is not installed (apt-get install nginx-light)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let port = super::port::free();
        let root = folder.path().display();
        let beside = beside(&root.to_string());
        fs::write(folder.path().join("page"), "hello\n").unwrap();
        fs::write(folder.path().join("long"), vec![b'x'; 100_000]).unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {root}/{kind};"))
            .join(" ");
        let more = secure.as_ref().map_or(String::new(), |Secure { tls_port, two_port }| {
            make_certificate(folder.path(), "FALSE");
            format!(
                "server {{
                     listen 127.0.0.1:{tls_port} ssl http2; listen 127.0.0.1:{two_port} http2; root {root};
                     ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {root}/certificate.pem; ssl_certificate_key {root}/key.pem;
                     location = /gone {{ return 410; }}
                     location = /brief {{ keepalive_timeout 20ms; return 200 hello; }}
                     location = /slow {{ limit_rate 1000; alias {root}/long; }}
                 }}"
            )
        });
        let text = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;
             events {{ worker_connections 512; }}
             http {{
                 {temporary} access_log {root}/access.log; keepalive_requests 50;
                 server {{
                     listen 127.0.0.1:{port}; root {root};
                     location = /moved {{ return 302 /page; }}
                     location = /gone {{ return 410; }}
                     location = /brief {{ keepalive_timeout 20ms; return 200 hello; }}
                     location = /slow {{ limit_rate 1000; alias {root}/long; }}
                     location = /dropped {{ if ($request_method != HEAD) {{ return 444; }} return 204; }}
                 }}
                 {more}
                 {beside}
             }}"
        );
        fs::write(folder.path().join("nginx.conf"), text).unwrap();
        let child = spawn(&path, &folder);
        let nginx = Self { child, path, port, folder, secure };
        nginx.wait_until_ready();
        Some(nginx)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn secure_url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.secure.as_ref().unwrap().tls_port)
    }

    /// The URL at which it speaks HTTP/2 without TLS.
    pub(crate) fn two_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.secure.as_ref().unwrap().two_port)
    }

    /// The file of the certificate.
    pub(crate) fn certificate(&self) -> String {
        self.folder.path().join("certificate.pem").display().to_string()
    }

    /// Shows a certificate that may sign others, as `openssl req -x509` makes it by default.
    pub(crate) fn show_an_authoritys_certificate(&mut self) {
        self.kill();
        make_certificate(self.folder.path(), "TRUE");
        self.restart();
    }

    /// Number of lines in its log that hold `text`, as soon as there are `at_least`.
    pub(crate) fn logged(&self, text: &str, at_least: usize) -> usize {
        loop {
            let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
            let found = log.lines().filter(|line| line.contains(text)).count();
            if found >= at_least {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_until_ready(&self) {
        let mut tries = 0;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            tries += 1;
            assert!(tries < 6_000, "nginx does not come up");
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
    }

    /// Restarts it on the same port.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.path, &self.folder);
        self.wait_until_ready();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Events so far apart that `/brief` closes each connection before its next event.
pub(crate) fn now_and_then(settings: &LoadSettings) -> LoadSettings {
    let pace = super::jittered(10.0);
    LoadSettings { pace, threads: 2, events_max: None, time: Duration::from_secs(1), ..settings.clone() }
}

/// Asserts what must hold of such a load.
pub(crate) fn assert_untroubled(record: &LoadRecord) {
    let counts = record.counts;
    assert_eq!((counts.planned, counts.done, counts.retries), (10, 10, 0), "{:?}", record.error_samples);
    assert_eq!(record.errors.connection, 0, "{:?}", record.error_samples);
    assert!(record.outages.is_empty(), "{:?}", record.outages);
}

/// A self-signed certificate, which may sign others if `is_authority` is `TRUE`.
pub(crate) fn make_certificate(folder: &std::path::Path, is_authority: &str) {
    let constraints = format!("basicConstraints=critical,CA:{is_authority}");
    let made = Command::new("openssl")
        .args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
                .split(' '),
        )
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", &constraints])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn spawn(path: &PathBuf, folder: &tempfile::TempDir) -> Child {
    let mut command = Command::new(path);
    command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
