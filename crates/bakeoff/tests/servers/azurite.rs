//! A server with Azure's interface for blobs, Azurite.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// The key of the account `lab`: it guards nothing.
pub(crate) const KEY: &str = "bm8gc2VjcmV0OiBhIGtleSBvZiB0ZXN0cyBvbmx5";

/// A server (`npm install azurite`), with an empty container `lab` of an account `lab`.
pub(crate) struct Azurite {
    process: Child,
    port: String,
    pub(crate) url: String,
    _folder: TempDir,
}

/// Sends a signed request: PORT KEY METHOD PATH QUERY BODY. Prints the answer; fails if it is an error.
const REQUEST: &str = r"
const [port, key, method, path, query, body] = process.argv.slice(1);
const length = body ? Buffer.byteLength(body) : '';
const headers = { 'x-ms-date': new Date().toUTCString(), 'x-ms-version': '2021-12-02', 'content-length': length || 0 };
if (method === 'PUT' && !query) headers['x-ms-blob-type'] = 'BlockBlob';
const own = Object.keys(headers).filter(name => name.startsWith('x-ms-')).sort();
const resource = ['/lab/lab/' + path, ...(query ? query.split('&').sort() : []).map(part => part.replace('=', ':'))];
const text = [method, '', '', length, '', '', '', '', '', '', '', '', ...own.map(name => name + ':' + headers[name]),
	...resource].join('\n');
const sum = require('crypto').createHmac('sha256', Buffer.from(key, 'base64')).update(text, 'utf8').digest('base64');
headers.authorization = 'SharedKey lab:' + sum;
const options = { host: '127.0.0.1', port, method, path: '/lab/' + path + (query ? '?' + query : ''), headers };
require('http').request(options, answer => {
	answer.pipe(process.stdout);
	process.exitCode = answer.statusCode < 400 ? 0 : 1;
}).end(body);
";

impl Azurite {
    /// Starts a server; prints a line and returns `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let program = std::env::var("BAKEOFF_AZURITE").unwrap_or_else(|_| "azurite-blob".to_owned());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = TempDir::new().unwrap();
        let words = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"];
        let started = Command::new(program)
            .args(words)
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()])
            .current_dir(folder.path())
            .env("AZURITE_ACCOUNTS", format!("lab:{KEY}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = started else {
            println!("skipped: no server for Azure (npm install azurite; BAKEOFF_AZURITE=.../azurite-blob)");
            return None;
        };
        let (port, url) = (port.to_string(), format!("http://127.0.0.1:{port}/lab"));
        let server = Self { process, port, url, _folder: folder };
        for _ in 0..600 {
            if TcpStream::connect(format!("127.0.0.1:{}", server.port)).is_ok() {
                server.ask("PUT", "lab", "restype=container", "");
                return Some(server);
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the server for Azure does not answer");
    }

    /// The answer to a request, which must succeed.
    pub(crate) fn ask(&self, method: &str, path: &str, query: &str, body: &str) -> String {
        let words = ["-e", REQUEST, &self.port, KEY, method, path, query, body];
        let output = Command::new("node").args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{method} {path}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
