//! A slow file: each read and write of it takes a set time, whatever the machine's disks are.
//!
//! A thread of this process serves it over FUSE. Another thread mounts it in a separate mount namespace, so
//! nothing remains however this process ends. Under a loop device it is a disk of known latency.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use record::clock::{Clock as _, Monotonic};
use record::missing::{Maybe, Missing};

use super::own_path;

/// Times that the file takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time of each read and write but the rare ones.
    pub(super) usual: Duration,
    /// Every `rare_every`-th read or write...
    pub(super) rare_every: u64,
    /// ...takes this time.
    pub(super) rare: Duration,
    /// Number of reads and writes after which the file is gone, as an unplugged disk: pending ones fail, and
    /// all later ones.
    pub(super) gone_after: Option<u64>,
}

/// Keeps the file mounted. The file goes when this is dropped and everything that has it open has closed it.
#[derive(Debug)]
pub(super) struct SlowFile {
    _path: Placeholder,
    _stays: Sender<()>,
}

/// Mount point.
#[derive(Debug)]
struct Placeholder(PathBuf);

impl Drop for Placeholder {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl SlowFile {
    /// Creates a file of `bytes` zeros, and calls `with` on it where it is visible.
    ///
    /// # Errors
    ///
    /// Missing if there is no FUSE, or no right to mount, or the error of `with`.
    pub(super) fn new<T: Send + 'static>(
        bytes: u64,
        pace: Pace,
        with: impl FnOnce(&Path) -> Maybe<T> + Send + 'static,
    ) -> Maybe<(Self, T)> {
        let failed = |e: io::Error| Missing::because(format!("cannot mount a slow file with FUSE: {e}"));
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(failed)?;
        let path = own_path("slow");
        File::create_new(&path).map_err(failed)?;
        let placeholder = Placeholder(path.clone());
        let served = device.try_clone().map_err(failed)?;
        thread::spawn(move || serve(served, bytes, pace));
        let (stays, ends) = channel();
        let (tell, told) = channel();
        // The mount lives as long as this thread, the only one in its namespace.
        thread::spawn(move || {
            let mounted = mount_at(&path, &device).map_err(failed);
            // Only the server holds the device: when it ends, the file is gone.
            drop(device);
            let done = mounted.and_then(|()| with(&path));
            let is_there = done.is_ok();
            if tell.send(done).is_ok() && is_there {
                // The error is expected: the other end is never used, only dropped.
                let _ = ends.recv();
            }
        });
        let gone =
            |_| Missing::because("cannot mount a slow file with FUSE: the mounting thread ended early");
        let done = told.recv().map_err(gone)??;
        Ok((Self { _path: placeholder, _stays: stays }, done))
    }
}

fn mount_at(path: &Path, device: &File) -> io::Result<()> {
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
    // Mounts made here must not appear elsewhere.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    let options = format!("fd={},rootmode={:o},user_id=0,group_id=0", device.as_raw_fd(), MODE);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("bakeoff-slow-file"), path, Some("fuse"), flags, Some(options.as_str()))?)
}

/// A file for its owner.
const MODE: u32 = 0o100_600;
/// The only file.
const ROOT: u64 = 1;
/// Maximum bytes of one read or write; the kernel gets this limit.
const PIECE_BYTES: u32 = 128 << 10;
const HEADER_BYTES: usize = 40;

/// Request codes of linux/fuse.h.
mod opcode {
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const DESTROY: u32 = 38;
    pub(super) const BATCH_FORGET: u32 = 42;
}

/// Answers until the file is unmounted. Writes are discarded, reads return zeros.
fn serve(mut device: File, bytes: u64, pace: Pace) {
    let mut space = vec![0; PIECE_BYTES as usize + 8_192];
    let mut transfers = 0;
    loop {
        let asked = match device.read(&mut space) {
            Ok(n) if n >= HEADER_BYTES => &space[..n],
            // A request that was aborted during the handover.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::Interrupted) => continue,
            // Not mounted yet: the kernel knows no mount for this descriptor.
            Err(e) if e.raw_os_error() == Some(nix::libc::EPERM) => {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            // Unmounted.
            _ => return,
        };
        let arrived_ns = Monotonic.now_ns();
        let (asks, unique) = (word(asked, 4), long(asked, 8));
        if matches!(asks, opcode::READ | opcode::WRITE) {
            transfers += 1;
            if pace.gone_after.is_some_and(|most| transfers > most) {
                return;
            }
            let takes = if transfers % pace.rare_every == 0 { pace.rare } else { pace.usual };
            Monotonic.sleep_until_ns(arrived_ns + u64::try_from(takes.as_nanos()).unwrap_or(0));
        }
        let answer = match asks {
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => continue,
            opcode::INIT => Ok(initial()),
            opcode::GETATTR | opcode::SETATTR => Ok(attributes(bytes)),
            opcode::OPEN => Ok(opened()),
            opcode::READ => Ok(vec![0; word(asked, HEADER_BYTES + 16) as usize]),
            opcode::WRITE => Ok([word(asked, HEADER_BYTES + 16).to_ne_bytes(), [0; 4]].concat()),
            opcode::RELEASE | opcode::FSYNC | opcode::FLUSH | opcode::DESTROY => Ok(Vec::new()),
            _ => Err(nix::libc::ENOSYS),
        };
        // Refused if the caller has given up; the next one may still wait for a reply.
        let _ = device.write_all(&reply(unique, answer));
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four bytes")))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
}

/// `struct fuse_out_header`, and what follows it.
fn reply(unique: u64, answer: Result<Vec<u8>, i32>) -> Vec<u8> {
    let (error, body) = match answer {
        Ok(body) => (0, body),
        Err(errno) => (-errno, Vec::new()),
    };
    let length = u32::try_from(16 + body.len()).expect("a piece and a header");
    [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes(), &body].concat()
}

/// `struct fuse_init_out`: an old version of the protocol, which every kernel still supports.
fn initial() -> Vec<u8> {
    const VERSION: (u32, u32) = (7, 31);
    let mut words = vec![0_u32; 16];
    (words[0], words[1]) = VERSION;
    // Without read-ahead and flags; 16 requests in the background, and congestion from 12 on.
    words[4] =
        u32::from_ne_bytes([16_u16.to_ne_bytes(), 12_u16.to_ne_bytes()].concat().try_into().expect("four"));
    words[5] = PIECE_BYTES;
    words[6] = 1; // time in ns
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// `struct fuse_open_out`, with the flag that turns caching off: a second read takes as long as a first.
fn opened() -> Vec<u8> {
    const DIRECT_IO: u32 = 1;
    [0, 0, DIRECT_IO, 0].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// `struct fuse_attr_out`.
fn attributes(bytes: u64) -> Vec<u8> {
    const VALID_S: u64 = 3_600;
    let longs = [VALID_S, 0, ROOT, bytes, bytes.div_ceil(512), 0, 0, 0];
    // Nanoseconds of three times, then mode, links, owner, group, device, block, flags.
    let words = [0, 0, 0, MODE, 1, 0, 0, 0, 4_096, 0];
    longs.into_iter().flat_map(u64::to_ne_bytes).chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_sizes_of_the_protocol() {
        assert_eq!((initial().len(), opened().len(), attributes(1 << 20).len()), (64, 16, 104));
        let answer = reply(7, Err(38));
        assert_eq!((word(&answer, 0), word(&answer, 4).cast_signed(), long(&answer, 8)), (16, -38, 7));
    }

    #[test]
    fn root_a_read_takes_as_long_as_was_said() {
        if !nix::unistd::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            return eprintln!("skipped: needs root and /dev/fuse");
        }
        let takes = Duration::from_millis(5);
        let pace = Pace { usual: takes, rare_every: 3, rare: 4 * takes, gone_after: None };
        let made = SlowFile::new(1 << 20, pace, |path| {
            use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
            let failed = |e: io::Error| Missing::because(format!("reading it: {e}"));
            let file =
                OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECT).open(path).map_err(failed)?;
            let mut space = vec![1; 8_192];
            let from = space.as_ptr().align_offset(4_096);
            (0..3)
                .map(|k| {
                    let began_ns = Monotonic.now_ns();
                    file.read_exact_at(&mut space[from..from + 4_096], k * 4_096).map_err(failed)?;
                    assert_eq!(space[from], 0);
                    Ok(Duration::from_nanos(Monotonic.now_ns() - began_ns))
                })
                .collect::<Maybe<Vec<_>>>()
        });
        let (_file, took) = made.unwrap();
        // Never sooner; a busy machine may be later.
        assert!(took[0] >= takes && took[1] >= takes && took[2] >= 4 * takes, "{took:?}");
    }
}
