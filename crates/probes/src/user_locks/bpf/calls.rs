//! The kind of wait of a thread, derived from the functions on its stack.

use record::locks::UserLockKind;
use record::missing::{Maybe, Missing};

use super::programs::Stack;
use crate::process_time;
use crate::user_symbols::{Frame, UserSymbols};

/// Path to a futex call.
#[derive(Debug)]
pub(super) struct CallSite {
    pub(super) kind: UserLockKind,
    /// Library function that was called.
    pub(super) call: Maybe<String>,
    /// First function outside of the thread libraries.
    pub(super) caller: Maybe<String>,
    /// Functions from the futex call outward.
    pub(super) stack: Vec<String>,
}

impl CallSite {
    pub(super) fn missing(why: &Missing) -> Self {
        Self {
            kind: UserLockKind::Other,
            call: Err(why.clone()),
            caller: Err(why.clone()),
            stack: Vec::new(),
        }
    }
}

/// Names the call by the frames. If the libraries keep no frame pointers, uses the return addresses on the
/// stack: the nearest of a known call is the one that waits.
pub(super) fn reached(symbols: &mut UserSymbols, pid: u32, stack: &Stack) -> CallSite {
    let mut frames: Vec<Frame> = Vec::new();
    for (depth, address) in stack.frames.iter().enumerate() {
        let frame = if depth == 0 { symbols.at(pid, *address) } else { symbols.before(pid, *address) };
        // A register that was not used as a frame pointer leads nowhere.
        let Some(frame) = frame else { break };
        frames.push(frame);
    }
    if frames.is_empty() {
        if let Err(why) = process_time::ids_are_those_of_proc() {
            return CallSite::missing(&why);
        }
        return CallSite::missing(&Missing::because("the process had ended before it was looked at"));
    }
    let on_stack: Vec<Frame> = stack.window.iter().filter_map(|word| symbols.before(pid, *word)).collect();
    told_by(&frames, &on_stack)
}

fn told_by(frames: &[Frame], on_stack: &[Frame]) -> CallSite {
    let known = |frames: &[Frame]| frames.iter().enumerate().find_map(|(i, f)| Some((i, call(&f.name)?)));
    let of_stack = known(on_stack);
    // Return addresses above the call on the stack come first; frame pointers omit the one function that
    // called into code without them.
    let above = of_stack.as_ref().map_or(0, |(i, _)| i + 1);
    let of_frames = known(frames);
    // If the call itself keeps frame pointers, they omit no function further out.
    let inside = of_frames.as_ref().map(|(i, _)| *i).filter(|i| *i > 0 && !is_library(&frames[*i]));
    let (kind, call) = match of_frames.or(of_stack).map(|(_, found)| found) {
        Some((kind, name)) => (kind, Ok(name)),
        None => (UserLockKind::Other, Err(Missing::because("no known call of a library is on its stack"))),
    };
    let inner = &frames[0];
    let caller = match inside {
        _ if call.is_err() && is_outside(inner) => Some(inner),
        Some(i) => frames[i..].iter().find(|f| is_outside(f)),
        None => left_out(&on_stack[above..]).into_iter().chain(frames).find(|f| is_outside(f)),
    };
    let mut stack = vec![inner.name.clone()];
    stack.extend(call.clone().ok());
    stack.extend(caller.map(|f| f.name.clone()));
    stack.extend(frames.iter().skip(1).map(|f| f.name.clone()));
    stack.dedup();
    let caller = caller.map(|f| with_a_name(f, frames));
    let caller =
        caller.ok_or_else(|| Missing::because("no function outside of the libraries is on its stack"));
    CallSite { kind, call, caller, stack }
}

/// A function's name; in a stripped part of a program, after the name of the nearest outer function that has
/// one.
fn with_a_name(caller: &Frame, frames: &[Frame]) -> String {
    let has_name = |f: &Frame| !f.name.starts_with(&format!("{}+0x", f.module));
    let place = frames.iter().position(|f| f == caller).map_or(0, |i| i + 1);
    let named = frames[place..].iter().find(|f| has_name(f) && is_outside(f));
    match named.filter(|_| !has_name(caller)) {
        Some(named) => format!("{} -> {}", named.name, caller.name),
        None => caller.name.clone(),
    }
}

/// The function that frame pointers omit: the first beyond the libraries, which keep none. Addresses further
/// out may be left from calls that have long returned.
fn left_out(on_stack: &[Frame]) -> Option<&Frame> {
    on_stack.iter().find(|f| !is_library(f) && call(&f.name).is_none())
}

fn is_library(frame: &Frame) -> bool {
    const FILES: [&str; 6] = ["libc.so", "libc-", "libpthread", "ld-linux", "libstdc++", "ld-musl"];
    FILES.iter().any(|file| frame.module.starts_with(file))
}

/// Whether a function belongs to the program: neither to the thread libraries nor to the wrappers of
/// runtimes.
fn is_outside(frame: &Frame) -> bool {
    const STARTS: [&str; 5] = ["std::", "core::", "alloc::", "parking_lot", "<std::"];
    let of_library = is_library(frame) || STARTS.iter().any(|start| frame.name.starts_with(start));
    !of_library && frame.name != "syscall" && call(&frame.name).is_none()
}

/// Kind of wait of a library function; `None` if it does not wait.
fn call(function: &str) -> Option<(UserLockKind, String)> {
    use UserLockKind::{Condvar, Mutex, Other, Semaphore};
    const CALLS: [(&str, UserLockKind); 27] = [
        ("pthread_cond_", Condvar),
        ("cnd_", Condvar),
        ("std::sys::sync::condvar", Condvar),
        ("std::sync::poison::condvar", Condvar),
        ("std::sync::condvar", Condvar),
        ("std::condition_variable", Condvar),
        ("parking_lot::condvar", Condvar),
        ("sem_", Semaphore),
        ("new_sem_", Semaphore),
        ("pthread_mutex_", Mutex),
        ("pthread_rwlock_", Mutex),
        ("mtx_", Mutex),
        ("lll_lock_wait", Mutex),
        ("std::sys::sync::mutex", Mutex),
        ("std::sys::sync::rwlock", Mutex),
        ("parking_lot::raw_mutex", Mutex),
        ("parking_lot::raw_rwlock", Mutex),
        ("runtime.lock", Mutex),
        ("pthread_join", Other),
        ("pthread_clockjoin", Other),
        ("pthread_barrier_", Other),
        ("pthread_once", Other),
        ("std::sys::sync::thread_parking", Other),
        ("std::sys::sync::once", Other),
        ("std::thread::park", Other),
        ("std::thread::thread::Thread>::park", Other),
        ("std::thread::thread::Thread::park", Other),
    ];
    let plain = function.trim_start_matches(['_', '<']).split('@').next().unwrap_or_default();
    let (_, kind) = CALLS.into_iter().find(|(start, _)| plain.starts_with(start))?;
    Some((kind, plain.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, module: &str) -> Frame {
        Frame { name: name.to_owned(), module: module.to_owned() }
    }

    #[test]
    fn a_stripped_library_is_read_off_the_stack() {
        // The kernel sees only the futex call itself, in a function without a name.
        let frames = vec![frame("libc.so.6+0x85d26", "libc.so.6"), frame("main", "app")];
        let on_stack = [
            frame("pthread_cond_wait", "libc.so.6"),
            frame("Queue::pop()", "app"),
            frame("pthread_mutex_lock", "libc.so.6"),
        ];
        let reached = told_by(&frames, &on_stack);
        assert_eq!(reached.kind, UserLockKind::Condvar);
        assert_eq!(reached.call.unwrap(), "pthread_cond_wait");
        assert_eq!(reached.caller.unwrap(), "Queue::pop()");
        assert_eq!(reached.stack, ["libc.so.6+0x85d26", "pthread_cond_wait", "Queue::pop()", "main"]);
    }

    #[test]
    fn what_is_left_over_on_the_stack_of_a_static_program_is_no_caller() {
        // In a static program the library's functions are in the program's file, and some returned long ago.
        let frames = ["syscall", "<std::thread::thread::Thread>::park_timeout", "<Queue>::recv", "main"];
        let on_stack = ["std::sys::futex_wait", "pthread_rwlock_timedrdlock", "clock_gettime"];
        let reached =
            told_by(&frames.map(|name| frame(name, "app")), &on_stack.map(|name| frame(name, "app")));
        assert_eq!((reached.kind, reached.caller.unwrap().as_str()), (UserLockKind::Other, "<Queue>::recv"));
        assert_eq!(reached.call.unwrap(), "std::thread::thread::Thread>::park_timeout");
        let frames = ["syscall", "<Queue>::recv", "main"].map(|name| frame(name, "app"));
        let on_stack = ["std::sys::futex_wait", "clock_gettime"].map(|name| frame(name, "app"));
        assert_eq!(told_by(&frames, &on_stack).caller.unwrap(), "<Queue>::recv");
    }

    #[test]
    fn a_place_without_a_name_is_told_by_the_first_name_further_out() {
        let frames = [
            frame("syscall", "libc.so.6"),
            frame("mariadbd+0xd6e443", "mariadbd"),
            frame("mariadbd+0xd5e38d", "mariadbd"),
            frame("ha_commit_trans(THD*, bool)", "mariadbd"),
            frame("start_thread", "libc.so.6"),
        ];
        let reached = told_by(&frames, &[]);
        assert_eq!(reached.caller.unwrap(), "ha_commit_trans(THD*, bool) -> mariadbd+0xd6e443");
        assert_eq!(reached.stack[1], "mariadbd+0xd6e443");
        assert_eq!(told_by(&frames[..3], &[]).caller.unwrap(), "mariadbd+0xd6e443");
    }

    #[test]
    fn calls_of_libraries_are_kinds_of_locks() {
        let cases = [
            ("___pthread_mutex_lock", "mutex pthread_mutex_lock"),
            ("__lll_lock_wait", "mutex lll_lock_wait"),
            ("pthread_cond_timedwait@@GLIBC_2.3.2", "condvar pthread_cond_timedwait"),
            ("sem_wait", "semaphore sem_wait"),
            ("__new_sem_wait_slow64.constprop.0", "semaphore new_sem_wait_slow64.constprop.0"),
            (
                "std::sys::sync::mutex::futex::Mutex::lock_contended",
                "mutex std::sys::sync::mutex::futex::Mutex::lock_contended",
            ),
            ("pthread_join", "other pthread_join"),
        ];
        for (function, expected) in cases {
            let (kind, name) = call(function).unwrap();
            assert_eq!(format!("{} {name}", kind.word()), expected);
        }
        assert_eq!(call("main"), None);
        assert_eq!(call("semaphore_of_mine"), None);
    }

    #[test]
    fn a_program_of_no_known_call_waits_for_something_else() {
        let reached = told_by(&[frame("my_lock", "app"), frame("worker", "app")], &[]);
        assert_eq!(reached.kind, UserLockKind::Other);
        assert_eq!(reached.caller.unwrap(), "my_lock");
        assert!(reached.call.is_err());
    }
}
