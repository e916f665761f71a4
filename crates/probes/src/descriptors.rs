//! Open files: every program, map, link and perf event is one, and a large machine has many CPUs.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files if `needed` more would not fit; the administrator's limit stays.
///
/// # Errors
///
/// A sentence for people, if the administrator's limit is too low.
pub(crate) fn make_room(needed: u64) -> Result<(), String> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|e| format!("the limit of open files cannot be read: {e}"))?;
    let wanted = open_now() + needed;
    if wanted <= soft {
        return Ok(());
    }
    if wanted > hard {
        return Err(format!(
            "{wanted} open files are needed, {hard} are allowed: raise the limit (`ulimit -n {wanted}`)"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
        .map_err(|e| format!("the limit of open files cannot be raised to {wanted}: {e}"))
}

/// Files that this process has open.
fn open_now() -> u64 {
    /// Fallback if the list is unavailable: the three of every process, with a margin.
    const USUAL: u64 = 16;
    fs::read_dir("/proc/self/fd").map_or(USUAL, |all| all.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_granted_and_what_cannot_fit_is_refused_in_a_sentence() {
        assert_eq!(make_room(1), Ok(()));
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        if hard < u64::MAX / 2 {
            let why = make_room(hard).unwrap_err();
            assert!(why.contains("open files") && why.contains("ulimit -n"), "{why}");
        }
    }
}
