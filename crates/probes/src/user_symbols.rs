//! Names for the addresses of processes: the mapped file, and the function in it.
//!
//! The mappings of a process are stored, so its addresses have names even after it has ended. A name is taken
//! from the very file that the process has mapped, the same device and inode, whatever lies at that path
//! elsewhere: in a container the same path is another file. Without that file there is no name.
//!
//! A file that another user can change is parsed as untrusted input ([`Functions`]).
//!
//! Memory is bounded: [`PROCESSES_MAX`] processes, [`FRAMES_MAX`] addresses of each, [`FILES_MAX`] files,
//! [`MAPPINGS_MAX`] mappings of a process and [`MAPPED_BYTES_MAX`] for those of all.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use nix::libc;

use crate::elf_functions::Functions;
use crate::{demangle, process_time};

/// Processes at their last reading.
#[derive(Debug)]
pub(crate) struct UserSymbols {
    symbolizer: Symbolizer,
    processes: HashMap<u32, Process>,
    /// Files that the symbolizer keeps in memory.
    files: HashSet<PathBuf>,
    /// Files that other users can change; `None`: nothing could be read.
    of_others: HashMap<FileId, Option<Functions>>,
    /// Number of the current round. Identity and mappings of a process are read once a round.
    round: u64,
}

#[derive(Debug)]
struct Process {
    identity: Identity,
    /// Round of the last meeting; `mapped_in`: round of the last reading of the mappings.
    met_in: u64,
    mapped_in: u64,
    mappings: Vec<Arc<Mapping>>,
    /// Memory that the mappings take.
    bytes: usize,
    /// `None` if nothing is mapped there that could be code.
    frames: HashMap<u64, Option<Frame>>,
    /// Whether a call precedes an address.
    after_call: HashMap<u64, bool>,
}

/// Identity of a process, with its id: another process may reuse the id, and a process may execute another
/// program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    /// Start time, in ticks since boot.
    started: u64,
    /// Addresses of its program's code and its first stack: random, and new with each program that it
    /// executes.
    code: u64,
    stack: u64,
}

/// An executable part of a file, as a process has it mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    from: u64,
    until: u64,
    offset: u64,
    /// Path as the process names it.
    path: String,
    /// Path at which we can read it; `None` if we cannot.
    file: Option<PathBuf>,
    id: FileId,
}

/// Device and inode: identify a file, whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileId {
    device: u64,
    inode: u64,
}

/// Processes that are remembered; beyond that, those met longest ago are dropped.
const PROCESSES_MAX: usize = 256;
/// Addresses of a process that are stored with their names.
const FRAMES_MAX: usize = 4_096;
/// Mappings of files with code in a process; the rest is ignored.
const MAPPINGS_MAX: usize = 4_096;
/// Memory for the mappings of all processes.
const MAPPED_BYTES_MAX: usize = 32 << 20;
/// A longer path cannot be opened.
const PATH_BYTES_MAX: usize = 4_096;
/// Files of which the symbols stay in memory.
const FILES_MAX: usize = 64;
/// Memory for the tables of files that other users can change.
const OF_OTHERS_BYTES_MAX: u64 = 64 << 20;

/// One address of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Demangled function; the file's name and the offset in it if it has no name.
    pub(crate) name: String,
    /// The file's name without its folder.
    pub(crate) module: String,
}

impl UserSymbols {
    /// Returns a symbolizer that knows no process.
    pub(crate) fn new() -> Self {
        let (files, of_others) = (HashSet::new(), HashMap::new());
        // Before privileges are dropped.
        let _ = process_time::ids_are_those_of_proc();
        Self { symbolizer: symbolizer(), processes: HashMap::new(), files, of_others, round: 0 }
    }

    /// Starts a round: what is known of processes may be out of date from now on.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
        if self.processes.len() > PROCESSES_MAX {
            let mut met: Vec<u64> = self.processes.values().map(|p| p.met_in).collect();
            met.sort_unstable();
            let oldest_kept = met[met.len() - PROCESSES_MAX / 2];
            self.processes.retain(|_, process| process.met_in >= oldest_kept);
        }
    }

    /// Records the mappings of a process, unless it is known.
    pub(crate) fn meet(&mut self, pid: u32) {
        let round = self.round;
        if self.processes.get(&pid).is_some_and(|known| known.met_in == round) {
            return;
        }
        let Some(identity) = identity(pid) else { return };
        if identity.has_no_memory() {
            // A zombie. The mappings that were read while it lived still hold.
            self.processes.retain(|id, known| *id != pid || known.identity.started == identity.started);
            return;
        }
        if let Some(known) = self.processes.get_mut(&pid).filter(|known| known.identity == identity) {
            known.met_in = round;
            return;
        }
        let (frames, after_call) = (HashMap::new(), HashMap::new());
        let mappings = mappings(pid);
        let bytes = bytes_of(&mappings);
        let known_bytes: usize = self.processes.values().map(|process| process.bytes).sum();
        if self.processes.len() >= 2 * PROCESSES_MAX || known_bytes + bytes > MAPPED_BYTES_MAX {
            // All of one round: the others are met again when they are needed.
            self.processes.clear();
        }
        let process =
            Process { identity, met_in: round, mapped_in: round, mappings, bytes, frames, after_call };
        self.processes.insert(pid, process);
    }

    /// Whether the process was met while it lived.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Returns the function at an address.
    pub(crate) fn at(&mut self, pid: u32, address: u64) -> Option<Frame> {
        self.frame(pid, address, address)
    }

    /// Returns the function that a return address leads back into, if the bytes before it are a call.
    pub(crate) fn before(&mut self, pid: u32, return_address: u64) -> Option<Frame> {
        let called = return_address.checked_sub(1)?;
        let mapping = self.mapping(pid, called)?;
        let known = &mut self.processes.get_mut(&pid)?.after_call;
        if known.len() >= FRAMES_MAX {
            known.clear();
        }
        let is_after_call =
            *known.entry(return_address).or_insert_with(|| is_after_call(&mapping, return_address));
        if is_after_call { self.frame(pid, called, return_address) } else { None }
    }

    fn frame(&mut self, pid: u32, address: u64, shown: u64) -> Option<Frame> {
        if let Some(known) = self.processes.get(&pid)?.frames.get(&address) {
            return known.clone();
        }
        let frame = self.mapping(pid, address).map(|mapping| self.name(&mapping, address, shown));
        let frames = &mut self.processes.get_mut(&pid)?.frames;
        if frames.len() >= FRAMES_MAX {
            frames.clear();
        }
        frames.insert(address, frame.clone());
        frame
    }

    /// Looks up the mapping of an address; reads new mappings of the process once a round.
    fn mapping(&mut self, pid: u32, address: u64) -> Option<Arc<Mapping>> {
        let round = self.round;
        let process = self.processes.get_mut(&pid)?;
        let holds = |m: &&Arc<Mapping>| (m.from..m.until).contains(&address);
        if let Some(mapping) = process.mappings.iter().find(holds) {
            return Some(mapping.clone());
        }
        if !could_be_code(address) || process.mapped_in == round {
            return None;
        }
        process.mapped_in = round;
        // A process that has ended keeps its mappings.
        if identity(pid) == Some(process.identity) {
            let now = mappings(pid);
            if now != process.mappings {
                process.bytes = bytes_of(&now);
                process.mappings = now;
                process.frames.clear();
                process.after_call.clear();
            }
        }
        process.mappings.iter().find(holds).cloned()
    }

    fn name(&mut self, mapping: &Mapping, address: u64, shown: u64) -> Frame {
        let offset = address - mapping.from + mapping.offset;
        let module = mapping.path.rsplit('/').next().unwrap_or_default().to_owned();
        let name = mapping
            .readable()
            .and_then(|file| self.function(file, mapping, offset))
            .unwrap_or_else(|| format!("{module}+{:#x}", shown - mapping.from + mapping.offset));
        Frame { name, module }
    }

    fn function(&mut self, file: &Path, mapping: &Mapping, offset: u64) -> Option<String> {
        if !self.files.contains(file) {
            if self.of_others.contains_key(&mapping.id) || !is_only_ours(file) {
                return self.function_of_others(mapping, offset);
            }
            if self.files.len() >= FILES_MAX {
                self.symbolizer = symbolizer();
                self.files.clear();
            }
            self.files.insert(file.to_owned());
        }
        match self.symbolizer.symbolize_single(&Source::Elf(Elf::new(file)), Input::FileOffset(offset)) {
            Ok(Symbolized::Sym(symbol)) => Some(demangle::shown(&symbol.name)),
            _ => None,
        }
    }

    fn function_of_others(&mut self, mapping: &Mapping, offset: u64) -> Option<String> {
        if !self.of_others.contains_key(&mapping.id) {
            let used_bytes =
                |all: &HashMap<_, Option<Functions>>| all.values().flatten().map(|f| f.bytes).sum();
            let left = OF_OTHERS_BYTES_MAX.saturating_sub(used_bytes(&self.of_others));
            let file = mapping.open();
            let mut read = file.as_ref().and_then(|file| Functions::read(file, left));
            if read.is_none() && left < OF_OTHERS_BYTES_MAX {
                // The others are read again when they are needed.
                self.of_others.clear();
                read = file.as_ref().and_then(|file| Functions::read(file, OF_OTHERS_BYTES_MAX));
            }
            if self.of_others.len() >= FILES_MAX {
                self.of_others.clear();
            }
            self.of_others.insert(mapping.id, read);
        }
        self.of_others[&mapping.id].as_ref()?.at(offset).map(demangle::shown)
    }
}

impl Mapping {
    fn bytes(&self) -> usize {
        let file = self.file.as_ref().map_or(0, |file| file.as_os_str().len());
        size_of::<Self>() + self.path.len() + file
    }

    /// The file, if it is still the one that was mapped.
    fn readable(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| FileId::of(file) == Some(self.id))
    }

    /// Opens the file for reading. Another user may put a pipe in its place: opening does not wait for a
    /// writer.
    fn open(&self) -> Option<File> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(self.file.as_deref()?).ok()?;
        let found = file.metadata().ok()?;
        let is_it = FileId { device: found.dev(), inode: found.ino() } == self.id;
        (is_it && found.is_file()).then_some(file)
    }
}

impl FileId {
    fn of(file: &Path) -> Option<Self> {
        let data = fs::metadata(file).ok()?;
        Some(Self { device: data.dev(), inode: data.ino() })
    }
}

/// A symbolizer that leaves names mangled.
fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_demangling(false).build()
}

/// Whether only root and this user can change the file, or replace it at its path.
fn is_only_ours(file: &Path) -> bool {
    let me = nix::unistd::geteuid().as_raw();
    let is_ours = |path: &Path| {
        let Ok(found) = fs::symlink_metadata(path) else { return false };
        let sticky = found.is_dir() && found.mode() & 0o1000 != 0;
        [0, me].contains(&found.uid()) && !found.is_symlink() && (found.mode() & 0o022 == 0 || sticky)
    };
    // A path below /proc leads into the folders of another process.
    let is_file = fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
    is_file && !file.starts_with("/proc") && file.ancestors().all(is_ours)
}

/// Addresses below are never mapped, those above are the kernel's.
fn could_be_code(address: u64) -> bool {
    (0x1_0000..1 << 47).contains(&address)
}

impl Identity {
    /// Whether the memory is gone: the process has ended.
    fn has_no_memory(self) -> bool {
        self.code == 0 && self.stack == 0
    }
}

fn identity(pid: u32) -> Option<Identity> {
    process_time::ids_are_those_of_proc().ok()?;
    let stat = process_time::text(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold blanks and brackets; the third field of proc(5) is the first after it.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some(Identity { started: field(22)?, code: field(26)?, stack: field(28)? })
}

fn bytes_of(mappings: &[Arc<Mapping>]) -> usize {
    mappings.iter().map(|mapping| mapping.bytes()).sum()
}

fn mappings(pid: u32) -> Vec<Arc<Mapping>> {
    let text = process_time::text(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(|line| mapping(pid, line)).take(MAPPINGS_MAX).map(Arc::new).collect()
}

/// `7f12a000-7f12c000 r-xp 00001000 fe:00 1234    /usr/lib/libc.so.6`
fn mapping(pid: u32, line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (from, until) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next()?.trim_start();
    if !rights.contains('x') || !path.starts_with('/') || path.len() > PATH_BYTES_MAX {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    // The file itself, readable for root only. Some file systems show another device there than in `maps`.
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{from}-{until}"));
    let as_listed = || Some(FileId { device: nix::libc::makedev(hex32(major)?, hex32(minor)?), inode });
    let id = FileId::of(&mapped).or_else(as_listed)?;
    // First the path that all processes of this mount namespace share, so its symbols are read once.
    let places = [PathBuf::from(path), PathBuf::from(format!("/proc/{pid}/root{path}")), mapped];
    let file = places.into_iter().find(|place| FileId::of(place) == Some(id));
    Some(Mapping { from: hex(from)?, until: hex(until)?, offset, path: path.to_owned(), file, id })
}

fn hex32(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

/// Whether the bytes before an address end in a call, so it may be a return address.
///
/// Always true on machines other than x86-64.
fn is_after_call(mapping: &Mapping, address: u64) -> bool {
    const LONGEST: usize = 7;
    if !cfg!(target_arch = "x86_64") {
        return true;
    }
    let mut bytes = [0; LONGEST];
    let Some(from) = (address - mapping.from + mapping.offset).checked_sub(LONGEST as u64) else {
        return false;
    };
    let Some(file) = mapping.open() else { return false };
    file.read_exact_at(&mut bytes, from).is_ok() && ends_in_call(bytes)
}

/// `e8` with an offset of four bytes, or `ff /2` with an operand of zero to five more.
fn ends_in_call(bytes: [u8; 7]) -> bool {
    let through = |length: usize| {
        let call = &bytes[7 - length..];
        call[0] == 0xff && call[1] >> 3 & 7 == 2
    };
    bytes[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(through)
}

#[cfg(test)]
mod tests {
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
        assert!(ends_in_call([0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        assert!(ends_in_call([0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]), "call rax");
        assert!(ends_in_call([0x90, 0xff, 0x15, 1, 2, 3, 4]), "call [rip+x]");
        assert!(!ends_in_call([0x90, 0x90, 0x48, 0x89, 0xe5, 0x89, 0xd0]));
    }

    #[test]
    fn only_code_of_files_has_names() {
        let line = "7f12a000-7f12c000 r-xp 00001000 fe:00 1234                       /usr/lib/no such.so";
        let found = mapping(1, line).unwrap();
        assert_eq!((found.from, found.until, found.offset), (0x7f12_a000, 0x7f12_c000, 0x1000));
        assert_eq!(found.path, "/usr/lib/no such.so");
        assert_eq!(mapping(1, "7f12a000-7f12c000 rw-p 00001000 fe:00 1234   /usr/lib/x.so"), None);
        assert_eq!(
            mapping(1, "7ffd0000-7ffd2000 r-xp 00000000 00:00 0                          [vdso]"),
            None
        );
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
        let here = ends_in_call as *const () as u64;
        let own =
            mappings(std::process::id()).into_iter().find(|m| (m.from..m.until).contains(&here)).unwrap();
        let id = FileId::of(file).unwrap();
        Mapping { path: file.display().to_string(), file: Some(file.to_owned()), id, ..(*own).clone() }
    }

    #[test]
    fn a_file_that_others_can_change_is_read_without_its_debug_information() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        fs::copy("/proc/self/exe", &file).unwrap();
        let here = ends_in_call as *const () as u64 + 1;
        for mode in [0o755, 0o777] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let mut symbols = UserSymbols::new();
            let name = symbols.name(&mapped_from(&file), here, here).name;
            assert!(name.contains("ends_in_call"), "{mode:o}: {name}");
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
        let here = ends_in_call as *const () as u64 + 1;
        assert!(UserSymbols::new().name(&mapping, here, here).name.starts_with("program+"));
    }

    #[test]
    fn tables_of_others_have_so_much_memory_together() {
        let folder = tempfile::tempdir().unwrap();
        let mut symbols = UserSymbols::new();
        let here = ends_in_call as *const () as u64 + 1;
        for number in 0..2 * FILES_MAX {
            let file = folder.path().join(number.to_string());
            // A header only and no table; this result is remembered too.
            fs::write(&file, b"\x7fELF\x02\x01").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
            symbols.name(&mapped_from(&file), here, here);
            assert!(symbols.of_others.len() <= FILES_MAX);
        }
    }

    #[test]
    fn what_is_kept_of_processes_is_bounded() {
        let mut symbols = UserSymbols::new();
        let identity = Identity { started: 0, code: 0, stack: 0 };
        for pid in 0..2_000 {
            let (mappings, frames, after_call) = (Vec::new(), HashMap::new(), HashMap::new());
            let round = symbols.round;
            let bytes = bytes_of(&mappings);
            let known =
                Process { identity, met_in: round, mapped_in: round, mappings, bytes, frames, after_call };
            symbols.processes.insert(1_000_000 + pid, known);
            symbols.next_round();
        }
        assert!(symbols.processes.len() <= PROCESSES_MAX, "{}", symbols.processes.len());
        assert!(symbols.processes.contains_key(&1_001_999), "the one that was met last");
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
        let here = symbols.at(pid, ends_in_call as *const () as u64 + 1).unwrap();
        assert!(here.name.contains("ends_in_call"), "{here:?}");
        assert_eq!(symbols.at(pid, 8), None);
        let on_the_stack = &raw const pid as u64;
        assert_eq!(symbols.before(pid, on_the_stack), None);
    }
}
