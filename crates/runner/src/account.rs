//! Account that runs the server and the commands of a plan.
//!
//! If root starts a server, it runs as an unprivileged user that no other process has. Other accounts of this
//! machine can then neither enter its scratch folder nor send it signals.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Group, Pid, Uid, User, geteuid};

use crate::random;

/// User ids that distributions reserve for programs that need a user for a short time.
///
/// # Source
///
/// `systemd/systemd`, `docs/UIDS-GIDS.md`: 61184 to 65519, "dynamic service users".
const TRANSIENT: std::ops::Range<u32> = 61_184..65_520;

/// A user and a group, without supplementary groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl Account {
    /// Kills all processes of a transient user at once. Killing from a list of processes would miss a process
    /// that forks and exits in a loop. Processes of other users are not touched.
    pub(crate) fn end_all(self) {
        if !TRANSIENT.contains(&self.uid.as_raw()) || !geteuid().is_root() {
            return;
        }
        let mut killer = Command::new("true");
        killer.uid(self.uid.as_raw()).gid(self.gid.as_raw()).stdin(Stdio::null());
        let kill_others = || {
            // This process runs as that user by now. The kernel excludes the caller; without another process
            // the call fails.
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            Ok(())
        };
        // SAFETY: between fork and exec there is one system call, which is async-signal-safe.
        unsafe { killer.pre_exec(kill_others) };
        // If `killer` cannot be started, the processes are killed one by one.
        let _ = killer.status();
    }
}

/// Whether what belongs to that user may be left by a bake-off of this user: it is this user's, root's or a
/// transient one's. The journal that names it may come from another user.
pub(crate) fn is_ours_to_clear(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw() || TRANSIENT.contains(&uid)
}

/// Chooses the account for the processes of a plan; `None`: that of this process.
///
/// - `wanted`: `server.user` of the plan, a name or a number.
pub(crate) fn choose(wanted: Option<&str>) -> Result<Option<Account>, String> {
    let own = geteuid();
    match wanted {
        None if own.is_root() => transient().map(Some),
        None => Ok(None),
        Some(wanted) => {
            let account = named(wanted)?;
            if account.uid == own {
                return Ok(None);
            }
            if !own.is_root() {
                return Err(format!(
                    "`server.user = \"{wanted}\"` needs root: only root starts processes as another user"
                ));
            }
            Ok(Some(account))
        }
    }
}

fn named(wanted: &str) -> Result<Account, String> {
    if let Ok(uid) = wanted.parse::<u32>() {
        let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        let gid = known.map_or(Gid::from_raw(uid), |user| user.gid);
        return Ok(Account { uid: Uid::from_raw(uid), gid });
    }
    match User::from_name(wanted) {
        Ok(Some(user)) => Ok(Account { uid: user.uid, gid: user.gid }),
        Ok(None) => Err(format!("`server.user` names `{wanted}`, but this machine has no such user")),
        Err(e) => Err(format!("cannot look up the user `{wanted}` of `server.user`: {e}")),
    }
}

/// Returns a user id without an entry in the user database and without a process.
fn transient() -> Result<Account, String> {
    let taken: Vec<u32> = process_owners();
    let mapped = mapped_ids();
    let count = TRANSIENT.end - TRANSIENT.start;
    let offset = random::number() % count;
    let candidates = (0..count).map(|i| TRANSIENT.start + (offset + i) % count);
    let is_free = |id: &u32| {
        mapped.iter().any(|range| range.contains(id))
            && !taken.contains(id)
            && User::from_uid(Uid::from_raw(*id)).is_ok_and(|user| user.is_none())
            && Group::from_gid(Gid::from_raw(*id)).is_ok_and(|group| group.is_none())
    };
    let id = candidates.take(256).find(is_free).ok_or(
        "no unprivileged user id for the server: 61184 to 65519 are in use, or not mapped into this \
         container; set `server.user`",
    )?;
    Ok(Account { uid: Uid::from_raw(id), gid: Gid::from_raw(id) })
}

pub(crate) fn process_owners() -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = processes.filter(|e| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    named.filter_map(|e| e.metadata().ok()).map(|m| m.uid()).collect()
}

/// Returns the user ids that exist in this user namespace.
fn mapped_ids() -> Vec<std::ops::Range<u32>> {
    let text = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let range = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (first, _, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(first..first.saturating_add(count))
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_named_in_the_message() {
        let why = choose(Some("no-such-user-here")).unwrap_err();
        assert!(why.contains("`no-such-user-here`"), "{why}");
    }

    #[test]
    fn ones_own_account_is_no_change() {
        assert_eq!(choose(Some(&geteuid().to_string())), Ok(None));
    }

    #[test]
    fn root_gets_an_account_that_no_list_and_no_process_has() {
        if !geteuid().is_root() {
            println!("skipped: not root");
            return;
        }
        let account = choose(None).unwrap().expect("root changes the account");
        assert!(TRANSIENT.contains(&account.uid.as_raw()));
        assert_eq!(User::from_uid(account.uid).unwrap(), None);
        assert!(!process_owners().contains(&account.uid.as_raw()));
    }
}
