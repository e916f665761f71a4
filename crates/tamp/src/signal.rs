//! Signals: a fatal signal removes the unfinished file; `SIGUSR1` prints a progress line.

use crate::cmd::watch::Watch;
use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

static UNFINISHED: AtomicPtr<libc::c_char> = AtomicPtr::new(null_mut());
/// Progress of the current file, from `Arc::into_raw`; null between files.
static WATCH: AtomicPtr<Watch> = AtomicPtr::new(null_mut());
/// Number of handlers that may be using [`WATCH`].
static ASKING: AtomicUsize = AtomicUsize::new(0);

/// Signals that end a process by default and that users or the system send; the runtime raises `SIGABRT` if
/// memory runs out.
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
    // The runtime ignores SIGPIPE; a filter without a reader should end without a message instead.
    install(libc::SIGPIPE, end, 0);
    for signal in ENDING {
        handle(signal, end, 0);
    }
    // An interrupted read or write is restarted: the handler does all the work.
    handle(libc::SIGUSR1, ask, libc::SA_RESTART);
}

/// Sets the file to remove if a signal ends the process; `None` after it is complete.
pub(crate) fn set_unfinished(path: Option<&Path>) {
    // A name with a zero inside could not have been created.
    let name = path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let name = name.map_or(null_mut(), CString::into_raw);
    // The old name is not freed: a handler on another thread may be reading it. It takes a few bytes per
    // file.
    UNFINISHED.swap(name, SeqCst);
}

/// Makes `SIGUSR1` print the progress of `watch` at once, whatever the threads are doing.
///
/// If the result is never dropped, `watch` is never freed.
pub(crate) fn answer_by(watch: &Arc<Watch>) -> Answering {
    replace_watch(Arc::into_raw(Arc::clone(watch)).cast_mut());
    Answering
}

/// Guard: `SIGUSR1` is answered until it is dropped.
#[derive(Debug)]
pub(crate) struct Answering;

impl Drop for Answering {
    fn drop(&mut self) {
        replace_watch(null_mut());
    }
}

fn replace_watch(watch: *mut Watch) {
    let before = WATCH.swap(watch, SeqCst);
    // A handler on another thread may still use the previous one. A handler on this thread has returned.
    while ASKING.load(SeqCst) > 0 {
        std::thread::yield_now();
    }
    if !before.is_null() {
        // SAFETY: it came from `Arc::into_raw`, the swap removed it from the static, and no handler uses it
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
    // SAFETY: it is freed only after `ASKING` is back at zero. `tell` neither allocates nor locks.
    if let Some(watch) = unsafe { watch.as_ref() } {
        watch.tell();
    }
    ASKING.fetch_sub(1, SeqCst);
}

extern "C" fn end(signal: c_int) {
    let name = UNFINISHED.load(SeqCst);
    // SAFETY: a name is never freed, and all three calls are safe in a handler. Raising the signal again with
    // the default disposition shows the shell which signal ended the process.
    unsafe {
        if !name.is_null() {
            libc::unlink(name);
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
