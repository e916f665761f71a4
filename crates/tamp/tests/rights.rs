//! The rights of the command while it decodes foreign files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "the tests of the command line use the rest")]
mod scratch;

use scratch::{Scratch, text, wait_until};
use std::fs;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// Capabilities to read and write a user's files.
const OF_FILES: u64 = 0b110;
/// The same and those to set owner, mode and capabilities: chown, fowner, fsetid, setfcap.
const OF_NEW_FILES: u64 = OF_FILES | 1 | 1 << 3 | 1 << 4 | 1 << 31;

/// Returns the permitted capabilities and the seccomp mode of each thread, the main thread first.
fn threads(child: &Child) -> Vec<(u64, String)> {
    let folder = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let mut threads: Vec<_> = folder.map(|task| task.unwrap().path()).collect();
    threads.sort();
    let of_one = |path: &std::path::PathBuf| {
        let status = fs::read_to_string(path.join("status")).ok()?;
        let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some((u64::from_str_radix(of("CapPrm:")?, 16).ok()?, of("Seccomp:")?.to_owned()))
    };
    threads.iter().filter_map(of_one).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0)
}

#[test]
fn root_threads_that_decode_have_no_capability_and_the_process_only_those_on_files() {
    if !is_root() {
        return eprintln!("skipped: only root has capabilities to give up");
    }
    let scratch = Scratch::new();
    for (line, kept) in [("-dc", OF_FILES), ("-t", OF_FILES), ("-d -o out", OF_NEW_FILES)] {
        // Its input never ends, so its threads stay.
        let mut child = scratch.command(line).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut found = Vec::new();
        wait_until(|| {
            found = threads(&child);
            found.len() > 1 && found[1..].iter().all(|(capabilities, _)| *capabilities == 0)
                || child.try_wait().unwrap().is_some()
        });
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(found.len() > 1, "{line}: {found:?}");
        assert_eq!(found[0].0 & !kept, 0, "{line}: {found:?}");
        assert!(found.iter().all(|(_, mode)| mode == "2"), "{line}: {found:?}");
    }
    // Control: a compressing command keeps its rights.
    let mut child = scratch.command("-c").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    assert_ne!(threads(&child)[0].0 & !OF_NEW_FILES, 0);
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Reads two files in order; the first one is a pipe. While it is read, `swap` replaces the second one.
fn swapped(swap: impl FnOnce(&Scratch)) -> (Option<i32>, String) {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("named")).unwrap();
    fs::create_dir(scratch.path("elsewhere")).unwrap();
    scratch.ok("-k -o named/second.zst sample");
    scratch.ok("-k -o elsewhere/secret.zst sample");
    assert!(Command::new("mkfifo").arg(scratch.path("named/first.zst")).status().unwrap().success());
    let mut child = scratch
        .command("-dc named/first.zst named/second.zst")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe opens when tamp opens it, which is after it gave up its rights.
    let mut pipe = fs::File::options().write(true).open(scratch.path("named/first.zst")).unwrap();
    fs::remove_file(scratch.path("named/second.zst")).unwrap();
    swap(&scratch);
    std::io::copy(&mut &scratch.read("elsewhere/secret.zst")[..], &mut pipe).unwrap();
    drop(pipe);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_link_that_takes_the_place_of_an_input_leads_nowhere() {
    let (code, said) = swapped(|scratch| {
        symlink(scratch.path("elsewhere/secret.zst"), scratch.path("named/second.zst")).unwrap();
    });
    if text(&Scratch::new().tamp_with("-dcv", b"").stderr).contains("Landlock") {
        return eprintln!("skipped: this kernel has no Landlock");
    }
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("second.zst") && said.contains("Permission denied"), "{said}");
    // Control: a file that replaces it in the same folder is read, and so is an older link.
    let (code, said) = swapped(|scratch| {
        fs::rename(scratch.path("elsewhere/secret.zst"), scratch.path("named/second.zst")).unwrap();
        scratch.ok("-k -o elsewhere/secret.zst sample");
    });
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    fs::create_dir(scratch.path("named")).unwrap();
    symlink(scratch.path("sample.zst"), scratch.path("named/link.zst")).unwrap();
    assert!(scratch.ok("-dc named/link.zst") == scratch.read("sample"));
}

/// Stops the command while it works on `tree/d/a`, replaces `tree/d` by a link to `elsewhere`, and resumes
/// the command.
fn with_a_folder_swapped(line: &str, scratch: &Scratch) -> Option<i32> {
    let signal = |child: &Child, name: &str| {
        let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    let mut child = scratch.command(line).stderr(Stdio::null()).spawn().unwrap();
    let is_at_work = || {
        let names = fs::read_dir(scratch.path("tree/d")).unwrap();
        names.map(|entry| entry.unwrap().file_name()).any(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    wait_until(is_at_work);
    signal(&child, "-STOP");
    fs::rename(scratch.path("tree/d"), scratch.path("tree/moved")).unwrap();
    symlink(scratch.path("elsewhere"), scratch.path("tree/d")).unwrap();
    signal(&child, "-CONT");
    child.wait().unwrap().code()
}

#[test]
fn a_link_that_takes_the_place_of_a_folder_leads_nowhere() {
    for (line, from, to) in [("-r -T1 tree", "b", "b.zst"), ("-d -r tree", "b.zst", "b")] {
        let scratch = Scratch::new();
        for folder in ["tree", "tree/d", "elsewhere"] {
            fs::create_dir(scratch.path(folder)).unwrap();
        }
        // Long enough to compress, and without load for the disk.
        let long = fs::File::create(scratch.path("tree/d/a")).unwrap();
        long.set_len(1 << 30).unwrap();
        if line.contains("-d") {
            scratch.ok("tree/d/a");
            scratch.ok("-k -o b.zst sample");
            fs::rename(scratch.path("b.zst"), scratch.path("sample")).unwrap();
        }
        fs::copy(scratch.path("sample"), scratch.path("tree/d").join(from)).unwrap();
        fs::copy(scratch.path("sample"), scratch.path("elsewhere").join(from)).unwrap();
        let code = with_a_folder_swapped(line, &scratch);
        let names = |folder: &str| {
            let names = fs::read_dir(scratch.path(folder)).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names("elsewhere"), [from], "{line}: not touched");
        // Control: the files of the folder that was entered are completed.
        assert!(
            names("tree/moved").contains(&to.to_owned()) && !names("tree/moved").contains(&from.to_owned()),
            "{line}"
        );
        assert_eq!(code, Some(0), "{line}");
    }
}

#[test]
fn each_place_of_input_and_output_is_still_reached() {
    let scratch = Scratch::new();
    for folder in ["in", "in/below", "out"] {
        fs::create_dir(scratch.path(folder)).unwrap();
    }
    scratch.ok("-k sample");
    let packed = scratch.read("sample.zst");
    for name in ["in/a.zst", "in/below/b.zst"] {
        fs::write(scratch.path(name), &packed).unwrap();
    }
    scratch.ok("-d -k -o out/c in/a.zst");
    scratch.ok("-d -k -o /dev/null in/a.zst");
    scratch.ok("-d -r in");
    assert!(!scratch.exists("in/a.zst"));
    symlink(scratch.path("sample.zst"), scratch.path("in/link.zst")).unwrap();
    scratch.ok("-d -k -f in/link.zst");
    fs::create_dir(scratch.path("far")).unwrap();
    symlink(scratch.path("sample.zst"), scratch.path("far/l.zst")).unwrap();
    // Links below a folder are followed with both options.
    assert!(scratch.ok("-dc -r -f far") == scratch.read("sample"));
    for name in ["out/c", "in/a", "in/below/b", "in/link"] {
        assert!(scratch.read(name) == scratch.read("sample"), "{name}");
    }
    let shell = |line: &str| {
        let line = line.replace("tamp", env!("CARGO_BIN_EXE_tamp"));
        Command::new("sh").args(["-c", &line]).current_dir(scratch.folder.path()).output().unwrap()
    };
    for line in [
        "tamp -dc <sample.zst | cmp - sample",
        "cat sample.zst | tamp -dc /dev/stdin | cmp - sample",
        "tamp -dc /dev/fd/3 3<sample.zst | cmp - sample",
        "tamp -d -k -f -o /dev/stdout sample.zst | cmp - sample",
        "tamp -d -k -f -o /dev/fd/3 sample.zst 3>o && cmp o sample",
        "mkfifo p && { cat p >q & tamp -d -k -f -o p sample.zst; wait; cmp q sample; }",
        "cd out && tamp -d -k -f -o d ../sample.zst && cmp d ../sample && tamp -t ../sample.zst",
    ] {
        let output = shell(line);
        assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn root_the_output_of_another_groups_file_gives_group_and_others_what_both_had() {
    if !is_root() {
        return eprintln!("skipped: only root can give a file to another group");
    }
    let scratch = Scratch::new();
    fs::set_permissions(scratch.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Other users may not be able to enter the build's folder.
    let binary = scratch.path("tamp");
    fs::copy(env!("CARGO_BIN_EXE_tamp"), &binary).unwrap();
    for (mode, expected) in
        [(0o644, 0o644), (0o664, 0o644), (0o604, 0o600), (0o757, 0o755), (0o4755, 0o755), (0o2755, 0o755)]
    {
        fs::write(scratch.path("file"), b"content").unwrap();
        fs::set_permissions(scratch.path("file"), fs::Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(&binary);
        command.args(["-kf", "file"]).current_dir(scratch.folder.path()).uid(65534).gid(65534);
        // Between fork and exec, a child of another test has the copy open for writing.
        let mut tries = std::iter::repeat_with(|| command.output());
        let is_busy = |error: &Error| error.kind() == ErrorKind::ExecutableFileBusy;
        let output = tries.find(|tried| !tried.as_ref().is_err_and(is_busy)).unwrap().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found = fs::metadata(scratch.path("file.zst")).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, expected, "{mode:o}: {found:o}");
    }
}

#[test]
fn a_dictionary_is_known_by_its_first_bytes_and_has_a_limit() {
    let scratch = Scratch::new();
    // Sparse: it takes no space on the disk, and would take its size in memory.
    let file = fs::File::create(scratch.path("big")).unwrap();
    file.set_len(3 << 30).unwrap();
    let refused = scratch.command("-c -D big").stdin(Stdio::null()).output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("not a dictionary"), "{refused:?}");
    std::os::unix::fs::FileExt::write_all_at(&file, &0xEC30_A437_u32.to_le_bytes(), 0).unwrap();
    let refused = scratch.command("-c -D big").stdin(Stdio::null()).output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("more than 64 MiB"), "{refused:?}");
}
