//! A running `bakeoff serve`, and requests to it byte by byte.

#![allow(dead_code, reason = "each test program uses a part of it, and not the same one")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::lab::Lab;

/// A plan of four trials, each of a tenth of a second.
pub(crate) const PLAN: &str = r#"schema = 1
title = "two rates of nothing"

[factors.rate]
values = [200, 400]
level = "sub-plot"

[design]
blocks = 2

[load]
target = "null:"
threads = 1
rate = "{rate}"

[phases]
prepare = "none"
warm-up = { min = "100ms" }
measure = { time = "200ms", interval = "100ms" }
"#;

/// A plan in slices: two blocks of two servers, each measured for a fifth of a second.
pub(crate) const SLICES: &str = r#"schema = 1
title = "two names of Redis"

[factors.arm]
values = ["one", "two"]
reference = "one"
level = "whole-plot"

[design]
blocks = 2
mode = "slices"
slice = "100ms"

[load]
target = "redis+unix:{scratch}/redis.sock"
keys = 100
threads = 1

[server]
command = "redis-server --port 0 --unixsocket {scratch}/redis.sock --save '' --appendonly no"
ready = "socket:{scratch}/redis.sock"

[phases]
warm-up = { min = "100ms" }
measure = { time = "200ms", interval = "100ms" }
"#;

/// Whether Redis is installed and groups can be frozen here.
#[expect(clippy::print_stdout, reason = "a skip is printed")]
pub(crate) fn can_slice() -> bool {
    let is_installed = std::process::Command::new("redis-server").arg("-v").output().is_ok();
    let has_version_2 = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .any(|folder| std::path::Path::new(folder).join("cgroup.procs").exists());
    let can = is_installed && has_version_2 && nix::unistd::geteuid().is_root();
    if !can {
        println!("skipped: in slices: needs redis-server, root and control groups of version 2");
    }
    can
}

/// A server, killed when dropped.
pub(crate) struct House {
    child: Child,
    pub(crate) address: String,
    pub(crate) scheme: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl House {
    pub(crate) fn open(lab: &Lab, options: &[&str]) -> Self {
        let words = [&["serve", "--json", "--listen", "127.0.0.1:0"], options].concat();
        let mut child = lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut document = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !document.ends_with("}\n") {
            assert!(lines.read_line(&mut document).unwrap() > 0, "the server ended: {document}");
        }
        let document: Value = serde_json::from_str(&document).unwrap();
        let url = document["url"].as_str().unwrap();
        let (scheme, address) = url.trim_end_matches('/').split_once("://").unwrap();
        Self { child, address: address.to_owned(), scheme: scheme.to_owned() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, as the kernel sends it for want of memory.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the end of the server.
    pub(crate) fn end(mut self) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    /// Bytes as they are, and everything that comes back.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // A server that refuses a large request may close before all of it is written.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let has_host = headers.iter().any(|(name, _)| *name == "Host");
        let host = if has_host { String::new() } else { format!("Host: {}\r\n", self.address) };
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let lines = lines.collect::<Vec<String>>().concat();
        let length = format!("Content-Length: {}\r\n", body.len());
        let head = format!("{method} {path} HTTP/1.1\r\n{host}{lines}{length}Connection: close\r\n\r\n");
        Reply::of(&self.raw(&[head.as_bytes(), body.as_bytes()].concat()))
    }

    /// The body of an answer, byte by byte.
    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // The body of this version is not in chunks.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let at = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("it has a head");
        assert!(answer.starts_with(b"HTTP/1.0 200"), "{}", String::from_utf8_lossy(&answer[..at]));
        answer.split_off(at + 4)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], "")
    }

    /// Value that the server's forms hold.
    pub(crate) fn csrf(&self, headers: &[(&str, &str)]) -> String {
        let page = self.ask("GET", "/plans/new", headers, "").body;
        let rest = page.split("name=\"csrf\" value=\"").nth(1).expect("the form has the field");
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reply {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Self { status, head: head.to_lowercase(), body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {} {}", self.head, self.body))
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || after.len() < size {
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}

/// Processes that a server of the lab's archive started, with `word` in their command line.
pub(crate) fn processes(lab: &Lab, word: &str) -> Vec<i32> {
    let archive = lab.path("archive").display().to_string();
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = folders.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    pids.filter(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<String> =
            command.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        words.contains(&archive) && words.iter().any(|w| w == word)
    })
    .collect()
}

/// Children of a server.
pub(crate) fn processes_of(house: &House) -> Vec<u32> {
    let pid = house.child.id();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_threads =
        threads.map(|entry| std::fs::read_to_string(entry.path().join("children")).unwrap_or_default());
    let all: String = of_threads.collect::<Vec<_>>().join(" ");
    let mut pids: Vec<u32> = all.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
