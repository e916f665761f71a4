//! Signals: an interrupt removes the unfinished file, `SIGUSR1` asks for a line of progress.

use std::ffi::{CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

static UNFINISHED: AtomicPtr<libc::c_char> = AtomicPtr::new(null_mut());
static ASKED: AtomicBool = AtomicBool::new(false);

/// Installs the handlers.
pub(crate) fn prepare() {
    // The runtime ignores SIGPIPE; a filter whose reader has gone should end quietly instead.
    // SAFETY: a default disposition is always valid.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        handle(signal, end);
    }
    handle(libc::SIGUSR1, ask);
}

/// Has `path` removed if a signal ends the process; `None`: there is nothing to remove any more.
pub(crate) fn set_unfinished(path: Option<&Path>) {
    // A name with a zero inside could not have been created.
    let name = path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    let name = name.map_or(null_mut(), CString::into_raw);
    // The old name is not freed: a handler on another thread may be reading it. It is a few bytes a file.
    UNFINISHED.swap(name, SeqCst);
}

/// Whether `SIGUSR1` came since this was last asked.
pub(crate) fn take_asked() -> bool {
    ASKED.load(SeqCst) && ASKED.swap(false, SeqCst)
}

/// Handles `signal`, unless whoever started us wants it ignored, as `nohup` does.
fn handle(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: both structures are plain data for which zeros are valid; the handlers call only
    // functions that are safe in a handler. Without SA_RESTART a blocked read returns, so that it is
    // seen that progress was asked for.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut before);
        if before.sa_sigaction != libc::SIG_IGN {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, null_mut());
        }
    }
}

extern "C" fn ask(_: c_int) {
    ASKED.store(true, SeqCst);
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
