//! Threads that contend for one lock and report how often and how long they waited for it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{ptr, thread};

use nix::libc;
use nix::unistd::{SysconfVar, gettid, sysconf};
use record::clock::{Clock, Monotonic};

use super::{Work, nanoseconds};

/// Sum of the waiting threads' reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockTruth {
    /// Waits of all threads.
    pub waits: u64,
    /// Total time waited: from before each call that had to wait until after it.
    pub wait_ns: u64,
    /// Address of the lock, if it belongs to the process.
    pub address: u64,
}

/// A lock of the kernel that can be held for a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelLock {
    /// An inode's rwsem, which a write to its file holds.
    Inode,
    /// A pipe's mutex, which a write to it holds.
    Pipe,
}

nix::ioctl_read_bad!(
    /// Number of bytes in a pipe; the call takes the pipe's mutex.
    bytes_in_pipe,
    libc::FIONREAD,
    libc::c_int
);

/// Lets threads write a page into one pipe and read one as fast as they can, which takes the pipe's mutex
/// each time. Returns the number of pages that they passed.
///
/// Only the kernel knows how many of these calls waited: it depends on how the threads meet.
///
/// # Errors
///
/// The kernel's, if it creates no pipe.
///
/// # Panics
///
/// With more than sixteen threads: they would wait for room in the pipe.
pub fn contend(threads: u32, length: Duration) -> io::Result<u64> {
    assert!(threads <= 16, "a pipe has room for a page of each");
    let (reader, writer) = pipe()?;
    let until_ns = Monotonic.now_ns() + nanoseconds(length);
    let pass = || {
        let mut page = [0; 4096];
        let mut passed = 0;
        while Monotonic.now_ns() < until_ns {
            (&writer).write_all(&page)?;
            (&reader).read_exact(&mut page)?;
            passed += 1;
        }
        Ok(passed)
    };
    thread::scope(|scope| {
        let passing: Vec<_> = (0..threads).map(|_| scope.spawn(pass)).collect();
        passing.into_iter().map(|t| t.join().expect("it does not panic")).sum()
    })
}

fn ask_pipe(reader: &PipeReader) -> io::Result<()> {
    let mut bytes = 0;
    // SAFETY: the descriptor is open for as long as we borrow it; the kernel writes one `int`.
    unsafe { bytes_in_pipe(reader.as_raw_fd(), &raw mut bytes) }?;
    Ok(())
}

/// Holds a kernel lock for `hold`, repeatedly and at least once, while `waiters` threads wait for it, each
/// once in each round.
///
/// The holder writes from memory that is not there yet, and the page arrives when the time is over
/// (userfaultfd).
///
/// # Errors
///
/// The kernel's: userfaultfd for pages that the kernel itself wants needs `CAP_SYS_PTRACE`.
pub fn hold_kernel_lock(
    lock: KernelLock,
    waiters: u32,
    hold: Duration,
    work: &Work<'_>,
) -> io::Result<LockTruth> {
    let page = LatePage::new()?;
    let target = Target::new(lock)?;
    let (waited_ns, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let until_ns = Monotonic.now_ns() + nanoseconds(work.length);
    let mut rounds = 0;
    while rounds == 0 || (Monotonic.now_ns() < until_ns && !work.stopped()) {
        rounds += 1;
        page.take_away()?;
        thread::scope(|scope| {
            let holder = scope.spawn(|| target.write_from(&page));
            if let Err(why) = page.wait_until_wanted() {
                // The holder may still fault on it, and would never end.
                page.bring()?;
                return Err(why);
            }
            let held_since_ns = Monotonic.now_ns();
            let (arrive, arrived) = channel();
            for _ in 0..waiters {
                let arrive: Sender<i32> = arrive.clone();
                scope.spawn(|| {
                    // The receiver lives as long as this round.
                    let _ = { arrive }.send(gettid().as_raw());
                    let began_ns = Monotonic.now_ns();
                    if target.want().is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    waited_ns.fetch_add(Monotonic.now_ns() - began_ns, Ordering::Relaxed);
                });
            }
            let wait = arrived.iter().take(waiters as usize).try_for_each(wait_until_asleep);
            Monotonic.sleep_until_ns(held_since_ns + nanoseconds(hold));
            // Whatever happened, no thread may stay blocked.
            page.bring()?;
            holder.join().expect("it does not panic")?;
            wait
        })?;
        target.drain()?;
    }
    if failed.into_inner() {
        return Err(io::Error::other("a thread that waited could not use the lock"));
    }
    let waits = u64::from(waiters) * rounds;
    Ok(LockTruth { waits, wait_ns: waited_ns.into_inner(), address: 0 })
}

/// The object with the lock.
#[derive(Debug)]
enum Target {
    Inode(File),
    Pipe(PipeReader, PipeWriter),
}

impl Target {
    fn new(lock: KernelLock) -> io::Result<Self> {
        Ok(match lock {
            KernelLock::Inode => {
                let folder = std::env::temp_dir();
                let options =
                    OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).to_owned();
                Self::Inode(options.open(folder)?)
            }
            KernelLock::Pipe => {
                let (reader, writer) = pipe()?;
                Self::Pipe(reader, writer)
            }
        })
    }

    fn write_from(&self, page: &LatePage) -> io::Result<()> {
        let fd = match self {
            Self::Inode(file) => file.as_raw_fd(),
            Self::Pipe(_, writer) => writer.as_raw_fd(),
        };
        // SAFETY: one byte of a page that is mapped as long as we borrow it; the kernel only reads it.
        let written = unsafe { libc::write(fd, page.start, 1) };
        if written == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn want(&self) -> io::Result<()> {
        match self {
            Self::Inode(file) => file.write_all_at(b"x", 0),
            Self::Pipe(reader, _) => ask_pipe(reader),
        }
    }

    /// Removes the bytes that the round has written.
    fn drain(&self) -> io::Result<()> {
        match self {
            Self::Inode(_) => Ok(()),
            Self::Pipe(reader, _) => (&*reader).read_exact(&mut [0]),
        }
    }
}

/// Waits until the thread sleeps uninterruptibly, as threads do that wait for a mutex or an rwsem.
fn wait_until_asleep(tid: i32) -> io::Result<()> {
    const AT_MOST_NS: u64 = 30_000_000_000;
    let deadline_ns = Monotonic.now_ns() + AT_MOST_NS;
    let stat = format!("/proc/self/task/{tid}/stat");
    while Monotonic.now_ns() < deadline_ns {
        let text = fs::read_to_string(Path::new(&stat))?;
        if text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D')) {
            return Ok(());
        }
        Monotonic.sleep_until_ns(Monotonic.now_ns() + 200_000);
    }
    Err(io::Error::other("a thread that should wait for the lock does not"))
}

/// A page of memory that arrives on request.
#[derive(Debug)]
struct LatePage {
    faults: OwnedFd,
    start: *mut libc::c_void,
    /// Size of the kernel's pages: userfaultfd takes no part of one.
    bytes: usize,
}

// SAFETY: the page is mapped for as long as this lives, and nothing but the kernel reads it.
unsafe impl Sync for LatePage {}

/// `struct uffdio_api` of `linux/userfaultfd.h`.
#[repr(C)]
#[derive(Debug, Default)]
struct Hello {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct Range {
    start: u64,
    length: u64,
    mode: u64,
    /// Supported ioctls, or number of bytes filled.
    result: u64,
}

const API: u64 = 0xaa;
const MODE_MISSING: u64 = 1;

nix::ioctl_readwrite!(
    /// Agrees on the version and features.
    say_hello,
    API,
    0x3f,
    Hello
);
nix::ioctl_readwrite!(
    /// Registers a range of memory.
    watch_range,
    API,
    0x00,
    Range
);
nix::ioctl_readwrite!(
    /// Fills a range with zeros and wakes the threads that fault on it.
    bring_zeros,
    API,
    0x04,
    Range
);

impl LatePage {
    fn new() -> io::Result<Self> {
        // SAFETY: takes flags, returns a descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
        let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the descriptor is new and ours alone.
        let faults = unsafe { OwnedFd::from_raw_fd(fd) };
        let bytes = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| io::Error::other("the system does not tell its page size"))?;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = Self { faults, start, bytes };
        let mut hello = Hello { api: API, ..Hello::default() };
        // SAFETY: the struct is laid out as the kernel has it.
        unsafe { say_hello(page.faults.as_raw_fd(), &raw mut hello) }?;
        let mut range = page.range();
        range.mode = MODE_MISSING;
        // SAFETY: as above; the range is our own page.
        unsafe { watch_range(page.faults.as_raw_fd(), &raw mut range) }?;
        Ok(page)
    }

    fn range(&self) -> Range {
        Range { start: self.start as u64, length: self.bytes as u64, ..Range::default() }
    }

    fn take_away(&self) -> io::Result<()> {
        // SAFETY: the page is ours, and nothing holds a reference into it.
        let result = unsafe { libc::madvise(self.start, self.bytes, libc::MADV_DONTNEED) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until a thread faults on the page: it now holds the locks that it took before.
    fn wait_until_wanted(&self) -> io::Result<()> {
        const AT_MOST_MS: i32 = 30_000;
        let mut poll = libc::pollfd { fd: self.faults.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        loop {
            // SAFETY: one element, which lives through the call.
            match unsafe { libc::poll(&raw mut poll, 1, AT_MOST_MS) } {
                1 => break,
                0 => return Err(io::Error::other("nobody wanted the page")),
                _ => match io::Error::last_os_error() {
                    // A signal requests an end after this round.
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
            }
        }
        let mut message = [0_u8; 32];
        // SAFETY: as many bytes as the buffer has.
        let read = unsafe { libc::read(self.faults.as_raw_fd(), message.as_mut_ptr().cast(), message.len()) };
        if read > 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn bring(&self) -> io::Result<()> {
        let mut range = self.range();
        // SAFETY: the struct is laid out as the kernel has it; the range is our own page.
        unsafe { bring_zeros(self.faults.as_raw_fd(), &raw mut range) }?;
        Ok(())
    }
}

impl Drop for LatePage {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and no longer in use.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Lets threads take a mutex of the program in turn, each holding it for `hold`.
///
/// It is the plain futex mutex of three states, which counts its system calls.
pub fn hold_mutex(threads: u32, hold: Duration, work: &Work<'_>) -> LockTruth {
    let mutex = Mutex::default();
    let start = Barrier::new(threads as usize);
    let body = || {
        start.wait();
        let until_ns = Monotonic.now_ns() + nanoseconds(work.length);
        while Monotonic.now_ns() < until_ns && !work.stopped() {
            mutex.lock();
            Monotonic.sleep_until_ns(Monotonic.now_ns() + nanoseconds(hold));
            mutex.unlock();
        }
    };
    thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(body)));
    });
    let address = mutex.word.as_ptr() as u64;
    LockTruth { waits: mutex.waits.into_inner(), wait_ns: mutex.wait_ns.into_inner(), address }
}

/// States: 0 free; 1 taken; 2 taken, and a thread may wait.
#[derive(Debug, Default)]
struct Mutex {
    word: AtomicU32,
    waits: AtomicU64,
    wait_ns: AtomicU64,
}

impl Mutex {
    fn lock(&self) {
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.word.swap(2, Ordering::Acquire) != 0 {
            let began_ns = Monotonic.now_ns();
            self.futex(libc::FUTEX_WAIT, 2);
            self.wait_ns.fetch_add(Monotonic.now_ns() - began_ns, Ordering::Relaxed);
            self.waits.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn unlock(&self) {
        if self.word.swap(0, Ordering::Release) == 2 {
            self.futex(libc::FUTEX_WAKE, 1);
        }
    }

    fn futex(&self, op: libc::c_int, value: u32) {
        let op = op | libc::FUTEX_PRIVATE_FLAG;
        let no_timeout = ptr::null::<libc::timespec>();
        // SAFETY: the word outlives the call. Whatever it returns, the caller reads the word again.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), op, value, no_timeout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_take_turns_wait_for_each_other() {
        let stop = AtomicBool::new(false);
        let work = Work { length: Duration::from_millis(50), stop: &stop };
        let truth = hold_mutex(3, Duration::from_millis(2), &work);
        assert!(truth.waits > 0 && truth.wait_ns > 0, "{truth:?}");
    }

    #[test]
    fn a_lock_of_the_kernel_is_held_for_as_long_as_it_is_said() {
        for lock in [KernelLock::Inode, KernelLock::Pipe] {
            let stop = AtomicBool::new(true);
            let work = Work { length: Duration::from_secs(1), stop: &stop };
            match hold_kernel_lock(lock, 3, Duration::from_millis(20), &work) {
                Ok(truth) => {
                    assert_eq!(truth.waits, 3);
                    assert!(truth.wait_ns > 0, "{truth:?}");
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    eprintln!("skipped: userfaultfd is not for us ({e})");
                }
                Err(e) => panic!("{lock:?}: {e}"),
            }
        }
    }
}
