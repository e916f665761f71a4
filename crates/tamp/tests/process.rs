//! The command as a process: signals, threads, descriptors, readers that close the pipe, files that change.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod scratch;

use scratch::{Scratch, sample, text, wait_until};
use std::fs;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// Starts a child that has read some input and waits for more.
///
/// A test run in the background may ignore signals, which tamp respects, so their defaults are restored.
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
        // Waiting would close its input, and it might end before the signal arrives.
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
    // Between fork and exec, a child of another test holds a copy of the pipe: then a line still finds a
    // reader.
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
        // A signal before there is progress has no answer.
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
            // Root has no such limit. This is the only process of that user.
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
    // Threads that rest several times have finished their work.
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
        // Like NFS if a quota is exceeded.
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

#[test]
fn a_file_that_grows_or_shrinks_is_an_error_and_of_one_that_grows_all_that_was_there_is_written() {
    let scratch = Scratch::new();
    let content: Vec<u8> =
        (0..1_500_000_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect();
    for format in ["--zst", "--lz4", "--bgzf"] {
        for length in [content.len() as u64 + 1000, 1000] {
            let path = scratch.path("log");
            fs::write(&path, &content).unwrap();
            let mut command = scratch.command(&format!("-c {format} log"));
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            // The output exceeds a pipe's capacity: after the first byte the command is still running.
            let mut packed = vec![0];
            let mut stdout = child.stdout.take().unwrap();
            stdout.read_exact(&mut packed).unwrap();
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
            stdout.read_to_end(&mut packed).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{format}: {said}");
            assert!(said.contains("while it was read"), "{format}: {said}");
            if length > 1000 {
                assert!(scratch.tamp_with("-d", &packed).stdout == content, "{format}");
            }
        }
    }
}

#[test]
fn a_file_that_is_written_to_while_it_is_compressed_is_an_error_wherever_the_output_goes() {
    let scratch = Scratch::new();
    let content: Vec<u8> =
        (0..1_500_000_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect();
    for line in ["-c log", "-c --long log", "-c --keep-up log", "-c", "-c --lz4 -T1 log"] {
        let path = scratch.path("log");
        fs::write(&path, &content).unwrap();
        let mut command = scratch.command(line);
        command.stdin(fs::File::open(&path).unwrap());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The output exceeds a pipe's capacity: after the first byte the command is still running.
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"new", 5_999_000).unwrap();
        std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("the input changed while it was read"), "{line}: {said}");
    }
    // A file that is only read does not change.
    scratch.ok("-k sample");
    scratch.ok("-c sample");
}

#[test]
fn every_command_begins_at_the_offset_of_standard_input() {
    let scratch = Scratch::new();
    let tamp = env!("CARGO_BIN_EXE_tamp");
    for (format, name) in [("--zst", "sample.zst"), ("--lz4", "sample.lz4"), ("--bgzf", "sample.gz")] {
        scratch.ok(&format!("-k {format} sample"));
        fs::write(scratch.path("x"), [&b"0123456789"[..], &scratch.read(name)].concat()).unwrap();
        let run = |line: &str| {
            let line = format!("{{ dd bs=10 count=1 status=none >skipped; {tamp} {line}; }} <x");
            let output =
                Command::new("sh").args(["-c", &line]).current_dir(scratch.folder.path()).output().unwrap();
            assert!(output.status.success(), "{line}: {}", text(&output.stderr));
            output.stdout
        };
        assert!(run("-dc") == sample(), "{name}");
        run("-t");
        assert!(run("--range 1000:300000") == sample()[1000..300_000], "{name}");
        assert!(run("--memory 1MiB --range 1000:300000") == sample()[1000..300_000], "{name}");
        assert!(run("--salvage") == sample(), "{name}");
        let listed: serde_json::Value = serde_json::from_slice(&run("-l --json")).unwrap();
        assert_eq!(listed["files"][0]["content_bytes"], 3_200_000, "{name}");
        assert_eq!(listed["files"][0]["compressed_bytes"], scratch.read(name).len(), "{name}");
    }
}

#[test]
fn the_next_reader_of_standard_input_continues_behind_the_bytes_that_were_read() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    let tamp = env!("CARGO_BIN_EXE_tamp");
    for line in [
        format!("{{ {tamp} -c >first; cat >rest; }} <sample"),
        format!("{{ {tamp} -dc >first; cat >rest; }} <sample.zst"),
    ] {
        let status = Command::new("sh").args(["-c", &line]).current_dir(scratch.folder.path()).status();
        assert!(status.unwrap().success());
        assert!(!scratch.read("first").is_empty() && scratch.read("rest").is_empty(), "{line}");
    }
}

#[test]
fn a_closed_descriptor_is_an_error_not_a_success() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    let tamp = env!("CARGO_BIN_EXE_tamp");
    for (line, says) in [
        (format!("{tamp} -c sample >&-"), "standard output is closed"),
        (format!("{tamp} -dc sample.zst >&-"), "standard output is closed"),
        (format!("{tamp} -l sample.zst >&-"), "standard output is closed"),
        (format!("{tamp} --range 1:5 sample.zst >&-"), "standard output is closed"),
        (format!("{tamp} --generate man >&-"), "standard output is closed"),
        (format!("{tamp} <&-"), "standard input is closed"),
        (format!("{tamp} -d <&-"), "standard input is closed"),
    ] {
        let output =
            Command::new("sh").args(["-c", &line]).current_dir(scratch.folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(text(&output.stderr).contains(says), "{line}: {}", text(&output.stderr));
    }
    // A descriptor that is not needed may be closed.
    let line = format!("{tamp} -t sample.zst >&- <&- && {tamp} -kf sample >&- <&-");
    let output = Command::new("sh").args(["-c", &line]).current_dir(scratch.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn root_the_links_in_dev_are_written_through_not_replaced() {
    if !rustix_is_root() {
        println!("skipped: a folder of devices to try it on needs root");
        return;
    }
    let scratch = Scratch::new();
    let tamp = env!("CARGO_BIN_EXE_tamp");
    let script = format!(
        "mount -t tmpfs none /dev && ln -s /proc/self/fd /dev/fd && ln -s /proc/self/fd/1 /dev/stdout && \
         {tamp} -f -o /dev/stdout sample >out.zst && cp sample three.zst && \
         {tamp} -kf -o /dev/fd/3 sample 3<>three.zst && ! {tamp} -kq -o /dev/fd/3 sample 3<>three.zst && \
         test -L /dev/stdout && test -L /dev/fd && ls -A /dev"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .current_dir(scratch.folder.path())
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "fd\nstdout\n");
    for name in ["out.zst", "three.zst"] {
        assert!(scratch.ok(&format!("-dc {name}")) == sample(), "{name}");
    }
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_pipe_that_is_passed_over_is_not_opened_so_its_writer_loses_nothing() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).unwrap();
    for (name, line) in
        [("folder/pipe", "-rc folder"), ("folder/named", "folder/named"), ("folder/x.zst", "-d folder/x.zst")]
    {
        assert!(Command::new("mkfifo").arg(scratch.path(name)).status().unwrap().success());
        let mut writer = Command::new("sh")
            .args(["-c", "echo precious >\"$0\"", name])
            .current_dir(scratch.folder.path())
            .spawn()
            .unwrap();
        let stat = format!("/proc/{}/stat", writer.id());
        // The shell sleeps only when it opens the pipe.
        wait_until(|| fs::read_to_string(&stat).unwrap().contains("(sh) S"));
        scratch.fails(line, 2, "is not a directory or a regular file -- ignored");
        let mut reader = Command::new("timeout");
        let read = reader.args(["5", "cat", name]).current_dir(scratch.folder.path()).output().unwrap();
        let _ = writer.kill();
        writer.wait().unwrap();
        assert_eq!(text(&read.stdout), "precious\n", "{line}");
        fs::remove_file(scratch.path(name)).unwrap();
    }
}

#[test]
fn a_name_that_is_not_utf_8_has_its_suffix_as_any_other() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    let path = |bytes| scratch.folder.path().join(name(bytes));
    fs::write(path(b"b\xe4r"), b"content").unwrap();
    let run = |line: &str, bytes| scratch.command(line).arg(name(bytes)).output().unwrap();
    for (line, packed) in [("", &b"b\xe4r.zst"[..]), ("-S own", b"b\xe4r.own")] {
        assert!(run(line, b"b\xe4r").status.success());
        let again = run(line, packed);
        let said = text(&again.stderr);
        assert!(again.status.code() == Some(2) && said.contains("already has"), "{line}: {said}");
        scratch.ok(&format!("-r {line} ."));
        assert!(path(packed).exists());
        scratch.ok(&format!("-dr {line} ."));
        assert_eq!(fs::read(path(b"b\xe4r")).unwrap(), b"content", "{line}");
    }
    run("", b"b\xe4r");
    assert!(run("-d -S own", b"b\xe4r.zst").status.success());
    assert_eq!(fs::read(path(b"b\xe4r")).unwrap(), b"content");
}
