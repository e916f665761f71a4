//! The command as a process: signals, threads, readers that go away.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "the tests of the command line use the rest")]
mod scratch;

use scratch::{Scratch, sample, text, wait_until};
use std::fs;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// A child that has read something and waits for more.
///
/// Whoever runs the tests in the background may have them ignore signals, and tamp keeps to that: it is told
/// anew.
fn started(scratch: &Scratch, line: &str) -> Child {
    let tamp = scratch.command(line);
    let mut child = Command::new("env")
        .arg("--default-signal=INT,TERM,HUP,USR2,ALRM,ABRT")
        .arg(tamp.get_program())
        .args(tamp.get_args())
        .current_dir(scratch.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(&sample()).unwrap();
    child
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

#[test]
fn an_interrupt_removes_the_unfinished_file() {
    for name in ["INT", "TERM", "HUP", "USR2", "ALRM", "ABRT"] {
        let scratch = Scratch::new();
        let mut child = started(&scratch, "-o out.zst");
        // Waiting would close its input, and it might end well before the signal has its thread.
        let input = child.stdin.take();
        signal(&child, name);
        let status = child.wait().unwrap();
        drop(input);
        assert!(status.signal().is_some(), "{status}");
        scratch.holds_only(&["sample"]);
    }
}

#[test]
fn who_prints_to_a_reader_that_has_gone_removes_the_unfinished_file() {
    let scratch = Scratch::new();
    let mut child = started(&scratch, "-o out.zst");
    let input = child.stdin.take();
    drop(child.stderr.take());
    // A child of another test holds a copy of the pipe between its fork and its exec: then a line still finds
    // a reader.
    let status = loop {
        signal(&child, "USR1");
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    drop(input);
    assert_eq!(status.signal(), Some(13), "{status}");
    scratch.holds_only(&["sample"]);
}

#[test]
fn after_kill_9_nothing_has_the_final_name() {
    let scratch = Scratch::new();
    let mut child = started(&scratch, "-o out.zst");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!scratch.exists("out.zst"));
}

#[test]
fn sigusr1_asks_for_a_line_while_it_waits_for_input() {
    for threads in [1, 2] {
        let scratch = Scratch::new();
        let mut child = started(&scratch, &format!("-T{threads}"));
        signal(&child, "USR1");
        let mut line = Vec::new();
        let mut stderr = child.stderr.take().unwrap();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        let line = text(&line);
        assert!(line.starts_with("tamp: standard input: ") && line.contains("/s"), "{line}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn sigusr1_is_answered_inside_a_block_that_takes_minutes() {
    let scratch = Scratch::new();
    fs::write(scratch.path("large"), sample().repeat(8)).unwrap();
    let mut child = scratch
        .command("-9 -k -T1 --block-size 128MiB large")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_temporary = |name: &str| name.starts_with(".large.zst.tamp-");
    wait_until(|| {
        let names = fs::read_dir(scratch.folder.path()).unwrap();
        names.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_temporary))
    });
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let line = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut line = String::new();
            stderr.read_line(&mut line).map(|_| line)
        });
        // One that comes before there is any progress gets no answer.
        wait_until(|| {
            signal(&child, "USR1");
            reading.is_finished()
        });
        reading.join().unwrap().unwrap()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("tamp: large: 0 B -> 0 B (0.0%), 0.0 B/s"), "{line}");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let scratch = Scratch::new();
    fs::write(scratch.path("large"), sample().repeat(4)).unwrap();
    scratch.ok("large");
    let mut child =
        scratch.command("-dc large.zst").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.signal(), Some(13), "as gzip: {}", output.status);
}

#[test]
fn who_may_start_no_thread_works_with_the_one_there_is() {
    let scratch = Scratch::new();
    let binary = scratch.path("tamp");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_tamp")).arg(&binary).status().unwrap().success());
    fs::set_permissions(scratch.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let limited = |arguments: &str, input: &[u8]| {
        let mut command = Command::new("prlimit");
        command.arg("--nproc=1");
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            // No such limit holds for root. Of a user who has nothing else to do this is the one process.
            command.args(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]);
        }
        command.arg(&binary).args(arguments.split(' ')).current_dir(scratch.folder.path());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output().unwrap()
        });
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        output.stdout
    };
    for format in ["--zst", "--lz4", "--bgzf"] {
        let packed = limited(&format!("-c {format}"), &sample());
        assert!(limited("-dc", &packed) == sample(), "{format}");
        assert!(limited(&format!("-c {format} --keep-up sample"), b"").len() < sample().len());
    }
}

#[test]
fn large_blocks_stay_within_the_memory_bound_while_the_reader_waits() {
    const BLOCK_BYTES: usize = 4 << 20;
    let scratch = Scratch::new();
    fs::write(scratch.path("large"), vec![b'a'; 16 * BLOCK_BYTES]).unwrap();
    scratch.ok("-6 large");
    let mut child = scratch.command("-dc -T2 large.zst").stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    let tasks = || fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let field = |text: String, name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    // Threads that come to rest again and again have done all they can.
    let mut rests = 0;
    wait_until(|| {
        let rest = tasks().all(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status"));
            status.map_or(true, |status| field(status, "State:").starts_with('S'))
        });
        rests = if rest { rests + 1 } else { 0 };
        rests > 1000
    });
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let kibibytes: usize = field(status, "VmHWM:").trim_end_matches(" kB").parse().unwrap();
    std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    let bound = 16_000_000 + 2 * 2 * 2 * BLOCK_BYTES;
    assert!(kibibytes * 1024 <= bound, "{} of {bound} bytes", kibibytes * 1024);
}

#[test]
fn one_thread_is_one_thread() {
    let scratch = Scratch::new();
    let mut child = started(&scratch, "-T1");
    let threads = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap().trim().to_owned()
    };
    assert_eq!(threads(), "1");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let mut child = started(&scratch, "-T2");
    wait_until(|| fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count() > 1);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_error_that_only_closing_the_output_tells_is_told() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    for line in [
        "-c sample",
        "-c --long sample",
        "-dc sample.zst",
        "-dc -T1 sample.zst",
        "--range 0:9 sample.zst",
        "--salvage -c sample.zst",
    ] {
        let tamp = scratch.command(line);
        // As NFS does where a quota is exceeded.
        let strace = Command::new("strace")
            .args(["-f", "-o", "trace", "-e", "trace=close", "-e", "inject=close:error=EDQUOT", "-P"])
            .arg(scratch.path("out"))
            .arg(tamp.get_program())
            .args(tamp.get_args())
            .current_dir(scratch.folder.path())
            .stdout(fs::File::create(scratch.path("out")).unwrap())
            .output();
        let Ok(output) = strace else {
            return println!("skipped: strace is not installed");
        };
        let said = text(&output.stderr);
        if said.contains("PTRACE_TRACEME") {
            return println!("skipped: strace may not trace here");
        }
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("writing the output: Disk quota exceeded"), "{line}: {said}");
    }
}
