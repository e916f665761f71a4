//! An nginx of a test's own: on a scratch folder and a free port, gone when dropped.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::mariadb::installed;

/// A web server that a test started.
pub(crate) struct Nginx {
    child: Child,
    path: PathBuf,
    pub(crate) port: u16,
    pub(crate) folder: tempfile::TempDir,
}

impl Nginx {
    /// Serves `/page` (`hello\n`), `/long` (100,000 bytes), `/moved` (a redirect) and `/gone` (an error); `None` where it
    /// is not installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(path) = installed("nginx") else {
            println!("skipped: nginx is not installed (apt-get install nginx-light)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let port = super::port::free();
        let root = folder.path().display();
        fs::write(folder.path().join("page"), "hello\n").unwrap();
        fs::write(folder.path().join("long"), vec![b'x'; 100_000]).unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {root}/{kind};"))
            .join(" ");
        let text = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;
             events {{ worker_connections 512; }}
             http {{
                 {temporary} access_log {root}/access.log; keepalive_requests 50;
                 server {{
                     listen 127.0.0.1:{port}; root {root};
                     location = /moved {{ return 302 /page; }}
                     location = /gone {{ return 410; }}
                 }}
             }}"
        );
        fs::write(folder.path().join("nginx.conf"), text).unwrap();
        let child = spawn(&path, &folder);
        let nginx = Self { child, path, port, folder };
        nginx.wait_until_ready();
        Some(nginx)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
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

    /// Starts it again where it was.
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

fn spawn(path: &PathBuf, folder: &tempfile::TempDir) -> Child {
    let mut command = Command::new(path);
    command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
