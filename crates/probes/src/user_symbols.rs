//! Names for the addresses of processes: the mapped file, and the function in it.
//!
//! The mappings of a process are stored, so its addresses have names even after it has ended. A name is taken
//! from the very file that the process has mapped, the same device and inode, whatever lies at that path
//! elsewhere: in a container the same path is another file. Without that file there is no name.
//!
//! A file that another user can change is parsed as untrusted input ([`Functions`]).
//!
//! Memory is bounded: [`PROCESSES_MAX`] processes, [`FRAMES_MAX`] addresses of each, [`FILES_MAX`] files,
//! [`MAPPINGS_MAX`] mappings of a process and [`MAPPED_BYTES_MAX`] for those of all, [`NAMES_BYTES_MAX`] for
//! the names of addresses.

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
    /// Memory that the names take.
    names_bytes: usize,
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
/// Memory for the names of addresses of all processes; another user's program chooses names of up to 4 KiB.
const NAMES_BYTES_MAX: usize = 32 << 20;
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
        let (met_in, mapped_in, names_bytes) = (round, round, 0);
        let process =
            Process { identity, met_in, mapped_in, mappings, bytes, frames, names_bytes, after_call };
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
        let return_address = without_signature(return_address);
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
        self.remember(pid, address, frame.clone());
        frame
    }

    /// Stores a name; beyond the limits, the others are looked up again when they are needed.
    fn remember(&mut self, pid: u32, address: u64, frame: Option<Frame>) {
        let bytes = size_of::<(u64, Option<Frame>)>() + frame.as_ref().map_or(0, Frame::bytes);
        let known_bytes: usize = self.processes.values().map(|process| process.names_bytes).sum();
        if known_bytes + bytes > NAMES_BYTES_MAX {
            self.processes.values_mut().for_each(Process::forget_names);
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.frames.len() >= FRAMES_MAX {
            process.forget_names();
        }
        process.names_bytes += bytes;
        process.frames.insert(address, frame);
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
                process.forget_names();
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

impl Process {
    fn forget_names(&mut self) {
        // Also the room that they had.
        self.frames = HashMap::new();
        self.names_bytes = 0;
    }
}

impl Frame {
    fn bytes(&self) -> usize {
        self.name.len() + self.module.len()
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
/// Always true on machines other than x86-64 and 64-bit Arm.
fn is_after_call(mapping: &Mapping, address: u64) -> bool {
    const LONGEST: usize = 7;
    let ends_in_call = if cfg!(target_arch = "x86_64") {
        ends_in_call_of_x86
    } else if cfg!(target_arch = "aarch64") {
        ends_in_call_of_arm
    } else {
        return true;
    };
    let mut bytes = [0; LONGEST];
    let Some(from) = (address - mapping.from + mapping.offset).checked_sub(LONGEST as u64) else {
        return false;
    };
    let Some(file) = mapping.open() else { return false };
    file.read_exact_at(&mut bytes, from).is_ok() && ends_in_call(bytes)
}

/// `e8` with an offset of four bytes, or `ff /2` with an operand of zero to five more.
fn ends_in_call_of_x86(bytes: [u8; 7]) -> bool {
    let through = |length: usize| {
        let call = &bytes[7 - length..];
        call[0] == 0xff && call[1] >> 3 & 7 == 2
    };
    bytes[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(through)
}

/// `bl` with an offset of 26 bits, or `blr` with a register; `blraa` and its variants also check a signature.
fn ends_in_call_of_arm(bytes: [u8; 7]) -> bool {
    let last = u32::from_le_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]);
    last >> 26 == 0x25 || last & 0xfeff_f000 == 0xd63f_0000
}

/// On 64-bit Arm a function may sign its return address, in the bits above the 48 of an address.
fn without_signature(return_address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { return_address & 0xffff_ffff_ffff } else { return_address }
}

#[cfg(test)]
mod tests;
