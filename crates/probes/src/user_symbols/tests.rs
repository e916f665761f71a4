//! Symbols of this process, of its children, and of files that a test makes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::*;

#[test]
fn what_was_read_of_a_process_holds_when_it_has_ended_and_one_that_was_never_read_is_not_known() {
    let start = || std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let end = |child: &mut std::process::Child| {
        child.kill().unwrap();
        while !identity(child.id()).unwrap().has_no_memory() {
            std::thread::yield_now();
        }
    };
    let (mut met, mut unmet) = (start(), start());
    let mut symbols = UserSymbols::new();
    symbols.meet(met.id());
    let address = symbols.processes[&met.id()].mappings.last().unwrap().from;
    end(&mut met);
    end(&mut unmet);
    symbols.next_round();
    symbols.meet(met.id());
    symbols.meet(unmet.id());
    assert!(symbols.knows(met.id()) && symbols.at(met.id(), address).is_some());
    assert!(!symbols.knows(unmet.id()), "without its mappings, nothing but its end is known");
    met.wait().unwrap();
    unmet.wait().unwrap();
}

#[test]
fn calls_are_told_from_other_code() {
    assert!(ends_in_call_of_x86([0x90, 0x90, 0xe8, 1, 2, 3, 4]));
    assert!(ends_in_call_of_x86([0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]), "call rax");
    assert!(ends_in_call_of_x86([0x90, 0xff, 0x15, 1, 2, 3, 4]), "call [rip+x]");
    assert!(!ends_in_call_of_x86([0x90, 0x90, 0x48, 0x89, 0xe5, 0x89, 0xd0]));
    let arm = |instruction: u32| {
        let [a, b, c, d] = instruction.to_le_bytes();
        ends_in_call_of_arm([0x1f, 0x20, 0x03, a, b, c, d])
    };
    for (instruction, name) in [
        (0x9400_0001, "bl forward"),
        (0x97ff_ffff, "bl back"),
        (0xd63f_0100, "blr x8"),
        (0xd63f_03c0, "blr x30"),
        (0xd63f_091f, "blraaz x8"),
        (0xd73f_0d09, "blrab x8, x9"),
    ] {
        assert!(arm(instruction), "{name}");
    }
    for (instruction, name) in [
        (0x1400_0001, "b"),
        (0xd61f_0100, "br x8"),
        (0xd65f_03c0, "ret"),
        (0xd503_201f, "nop"),
        (0xb400_0040, "cbz"),
        (0xa9bf_7bfd, "stp"),
    ] {
        assert!(!arm(instruction), "{name}");
    }
}

/// The test's own code is the known code: what the compiler put before the address is a call.
#[test]
fn a_return_address_has_a_name_and_one_that_is_no_return_address_has_none() {
    let pid = std::process::id();
    let mut symbols = UserSymbols::new();
    symbols.meet(pid);
    let called = return_address_of_this();
    let frame = symbols.before(pid, called).expect("a call leads here");
    assert!(frame.name.contains("a_return_address_has_a_name"), "{frame:?}");
    if cfg!(target_arch = "aarch64") {
        let signed = symbols.before(pid, called | 0x2a << 48).expect("the signature is no part of it");
        assert_eq!(signed.name, frame.name);
    }
    let beginning = ends_in_call_of_arm as *const () as u64;
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        assert_eq!(symbols.before(pid, beginning + 4).map(|frame| frame.name), None, "no call ends there");
    }
}

/// The address that the call of this function returns to, by the C library's own walk over the stack.
#[inline(never)]
fn return_address_of_this() -> u64 {
    let mut frames = [std::ptr::null_mut(); 2];
    // SAFETY: the array has room for two addresses.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), 2) };
    assert_eq!(count, 2);
    frames[1] as u64
}

#[test]
fn only_code_of_files_has_names() {
    let line = "7f12a000-7f12c000 r-xp 00001000 fe:00 1234                       /usr/lib/no such.so";
    let found = mapping(1, line).unwrap();
    assert_eq!((found.from, found.until, found.offset), (0x7f12_a000, 0x7f12_c000, 0x1000));
    assert_eq!(found.path, "/usr/lib/no such.so");
    assert_eq!(mapping(1, "7f12a000-7f12c000 rw-p 00001000 fe:00 1234   /usr/lib/x.so"), None);
    assert_eq!(mapping(1, "7ffd0000-7ffd2000 r-xp 00000000 00:00 0                          [vdso]"), None);
}

#[test]
fn a_path_that_leads_to_another_file_gives_no_name() {
    let here = fs::read_to_string("/proc/self/maps").unwrap();
    let line = here.lines().find(|l| l.contains(" r-xp ") && l.contains("libc.so")).unwrap();
    let pid = std::process::id();
    let found = mapping(pid, line).unwrap();
    let file = found.file.clone().expect("our own library can be read");
    assert_eq!(FileId::of(&file), Some(found.id));
    // Mapped as in a container: the same path, another file. There is no `map_files` entry at this
    // address.
    let inode = format!(" {} ", found.id.inode);
    let elsewhere = line.replacen(&inode, " 99999999 ", 1).replacen('-', "0-", 1);
    let found = mapping(u32::MAX, &elsewhere).unwrap();
    assert_eq!((found.file.as_ref(), found.readable()), (None, None), "{found:?}");
}

/// A mapped part of our own program, as if it were mapped from `file`.
fn mapped_from(file: &Path) -> Mapping {
    let here = ends_in_call_of_x86 as *const () as u64;
    let own = mappings(std::process::id()).into_iter().find(|m| (m.from..m.until).contains(&here)).unwrap();
    let id = FileId::of(file).unwrap();
    Mapping { path: file.display().to_string(), file: Some(file.to_owned()), id, ..(*own).clone() }
}

#[test]
fn a_file_that_others_can_change_is_read_without_its_debug_information() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    fs::copy("/proc/self/exe", &file).unwrap();
    let here = ends_in_call_of_x86 as *const () as u64 + 1;
    for mode in [0o755, 0o777] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mut symbols = UserSymbols::new();
        let name = symbols.name(&mapped_from(&file), here, here).name;
        assert!(name.contains("ends_in_call_of_x86"), "{mode:o}: {name}");
        assert_eq!(
            (symbols.files.len(), symbols.of_others.len()),
            if mode == 0o755 { (1, 0) } else { (0, 1) }
        );
    }
    // A folder that other users can write, and a path of another process.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(!is_only_ours(&file) && !is_only_ours(Path::new("/proc/self/exe")));
    assert!(is_only_ours(Path::new("/usr/bin/env")));
}

#[test]
fn a_pipe_in_the_place_of_a_program_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU | nix::sys::stat::Mode::S_IRWXO).unwrap();
    let mapping = mapped_from(&file);
    assert!(mapping.open().is_none());
    let here = ends_in_call_of_x86 as *const () as u64 + 1;
    assert!(UserSymbols::new().name(&mapping, here, here).name.starts_with("program+"));
}

#[test]
fn tables_of_others_have_so_much_memory_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut symbols = UserSymbols::new();
    let here = ends_in_call_of_x86 as *const () as u64 + 1;
    for number in 0..2 * FILES_MAX {
        let file = folder.path().join(number.to_string());
        // A header only and no table; this result is remembered too.
        fs::write(&file, b"\x7fELF\x02\x01").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        symbols.name(&mapped_from(&file), here, here);
        assert!(symbols.of_others.len() <= FILES_MAX);
    }
}

/// A process of which nothing was read.
fn unread(round: u64) -> Process {
    Process {
        identity: Identity { started: 0, code: 0, stack: 0 },
        met_in: round,
        mapped_in: round,
        mappings: Vec::new(),
        bytes: 0,
        frames: HashMap::new(),
        names_bytes: 0,
        after_call: HashMap::new(),
    }
}

#[test]
fn what_is_kept_of_processes_is_bounded() {
    let mut symbols = UserSymbols::new();
    for pid in 0..2_000 {
        symbols.processes.insert(1_000_000 + pid, unread(symbols.round));
        symbols.next_round();
    }
    assert!(symbols.processes.len() <= PROCESSES_MAX, "{}", symbols.processes.len());
    assert!(symbols.processes.contains_key(&1_001_999), "the one that was met last");
}

#[test]
fn names_of_any_length_take_bounded_memory() {
    let mut symbols = UserSymbols::new();
    let pids = 1_000_000..1_000_008;
    symbols.processes = pids.clone().map(|pid| (pid, unread(0))).collect();
    let kept_bytes = |symbols: &UserSymbols| -> usize {
        symbols.processes.values().flat_map(|p| p.frames.values().flatten()).map(Frame::bytes).sum()
    };
    let mut most = 0;
    // 80 MB of names.
    for address in 0..20_000 {
        let frame = Frame { name: "x".repeat(4_000), module: "m".to_owned() };
        symbols.remember(pids.start + u32::try_from(address % 8).unwrap(), address, Some(frame.clone()));
        let process = &symbols.processes[&(pids.start + u32::try_from(address % 8).unwrap())];
        assert_eq!(process.frames[&address].as_ref(), Some(&frame), "the last one is kept");
        if address % 500 == 0 {
            most = most.max(kept_bytes(&symbols));
        }
    }
    assert!(most <= NAMES_BYTES_MAX && most > NAMES_BYTES_MAX / 2, "{most}");
}

#[test]
fn a_process_that_executes_another_program_is_met_anew() {
    let mut child = Command::new("sh")
        .args(["-c", "echo first; read line; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(output.next().unwrap().unwrap(), "first");
    let before = identity(child.id()).unwrap();
    input.write_all(b"go on\nsecond\n").unwrap();
    // By now the other program prints.
    assert_eq!(output.next().unwrap().unwrap(), "second");
    let after = identity(child.id()).unwrap();
    drop(input);
    child.wait().unwrap();
    assert_eq!(before.started, after.started);
    assert_ne!(before, after);
}

/// A C function with a name that would be a type's, if it were mangled.
#[unsafe(no_mangle)]
extern "C" fn f() {}

#[test]
fn a_function_of_one_letter_is_no_type() {
    let mut symbols = UserSymbols::new();
    let pid = std::process::id();
    symbols.meet(pid);
    assert_eq!(symbols.at(pid, f as *const () as u64).unwrap().name, "f");
}

#[test]
fn our_own_functions_have_names_and_what_is_no_code_has_none() {
    let mut symbols = UserSymbols::new();
    let pid = std::process::id();
    symbols.meet(pid);
    let here = symbols.at(pid, ends_in_call_of_x86 as *const () as u64 + 1).unwrap();
    assert!(here.name.contains("ends_in_call_of_x86"), "{here:?}");
    assert_eq!(symbols.at(pid, 8), None);
    let on_the_stack = &raw const pid as u64;
    assert_eq!(symbols.before(pid, on_the_stack), None);
}
