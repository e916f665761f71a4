//! Signals: what ends the program removes the unfinished file, `SIGUSR1` prints a line of progress.

use crate::cmd::watch::Watch;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

static UNFINISHED: AtomicPtr<libc::c_char> = AtomicPtr::new(null_mut());
/// The progress of the current file, from `Arc::into_raw`; null between files.
static WATCH: AtomicPtr<Watch> = AtomicPtr::new(null_mut());
/// Handlers that may be using [`WATCH`].
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// Signals that end a process unless it handles them, and that are sent to programs that did nothing wrong;
/// `SIGABRT` is how the runtime ends where memory runs out.
const ENDING: [c_int; 11] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGABRT,
];

/// Installs the handlers.
pub(crate) fn prepare() {
    // The runtime ignores SIGPIPE; a filter whose reader has gone should end quietly instead.
    install(libc::SIGPIPE, end, 0);
    for signal in ENDING {
        handle(signal, end, 0);
    }
    // A read or write that is interrupted by this goes on: the handler does all there is to do.
    handle(libc::SIGUSR1, ask, libc::SA_RESTART);
}

/// Has `path` removed if a signal ends the process; `None`: there is nothing to remove any more.
pub(crate) fn set_unfinished(path: Option<&Path>) {
    // A name with a zero inside could not have been created.
    let name = path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let name = name.map_or(null_mut(), CString::into_raw);
    // The old name is not freed: a handler on another thread may be reading it. It is a few bytes a file.
    UNFINISHED.swap(name, SeqCst);
}

/// Has `SIGUSR1` print the progress that `watch` sees, at once, whatever the threads are doing.
///
/// If the result is never dropped, `watch` is never freed.
pub(crate) fn answer_by(watch: &Arc<Watch>) -> Answering {
    replace_watch(Arc::into_raw(Arc::clone(watch)).cast_mut());
    Answering
}

/// While this lives, `SIGUSR1` is answered.
#[derive(Debug)]
pub(crate) struct Answering;

impl Drop for Answering {
    fn drop(&mut self) {
        replace_watch(null_mut());
    }
}

fn replace_watch(watch: *mut Watch) {
    let before = WATCH.swap(watch, SeqCst);
    // A handler on another thread may still use the previous one. A handler on this thread has returned by
    // now.
    while ASKING.load(SeqCst) > 0 {
        std::thread::yield_now();
    }
    if !before.is_null() {
        // SAFETY: it came from `Arc::into_raw`, the swap took it out of the static, and no handler uses it
        // any more.
        drop(unsafe { Arc::from_raw(before.cast_const()) });
    }
}

/// Handles `signal`, unless the parent process ignores it, as `nohup` does.
fn handle(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) {
    // SAFETY: the structure is plain data for which zeros are valid.
    let before = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut before);
        before
    };
    if before.sa_sigaction != libc::SIG_IGN {
        install(signal, handler, flags);
    }
}

fn install(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) {
    // SAFETY: the structure is plain data for which zeros are valid; the handlers call only
    // functions that are safe in a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = flags;
        libc::sigaction(signal, &raw const action, null_mut());
    }
}

extern "C" fn ask(_: c_int) {
    ASKING.fetch_add(1, SeqCst);
    let watch = WATCH.load(SeqCst);
    // SAFETY: it is freed only after `ASKING` is back at zero. `tell` allocates nothing and takes no lock.
    if let Some(watch) = unsafe { watch.as_ref() } {
        watch.tell();
    }
    ASKING.fetch_sub(1, SeqCst);
}

extern "C" fn end(signal: c_int) {
    let name = UNFINISHED.load(SeqCst);
    // SAFETY: a name is never freed, and all three calls are safe in a handler. Raising it again with
    // the default disposition makes the shell see what ended us.
    unsafe {
        if !name.is_null() {
            libc::unlink(name);
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
