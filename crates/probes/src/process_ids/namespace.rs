//! The ids of a PID namespace, listed by our program in the kernel.

use std::io::Read as _;
use std::mem::MaybeUninit;

use libbpf_rs::Iter;
use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use record::missing::{Maybe, Missing};

use super::are_the_machines;

#[allow(
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated from process_ids.bpf.c"
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/process_ids.skel.rs"));
}

/// Note for a report of ids in a PID namespace.
pub(crate) const NOTE: &str =
    "this is a PID namespace: its own processes are shown by its ids, all others by the host's";

/// The machine's id of a process that has the id `own` here.
///
/// # Errors
///
/// Missing if there is no such process, or the kernel does not report it.
pub(crate) fn machines(own: u32) -> Maybe<u32> {
    if are_the_machines() {
        return Ok(own);
    }
    let found = Namespace::load()?.ids()?.into_iter().find(|ids| ids.own_tgid == own);
    found
        .map(|ids| ids.tgid)
        .ok_or_else(|| Missing::because(format!("no process has the id {own} in this PID namespace")))
}

/// The living threads of a PID namespace.
struct Namespace {
    link: libbpf_rs::Link,
    /// The programs stay as long as this does.
    _skel: skel::ProcessIdsSkel<'static>,
}

impl Namespace {
    fn load() -> Maybe<Self> {
        libbpf_rs::set_print(None);
        // Leaked so that the skeleton needs no lifetime; the kernel's side is freed when it is dropped.
        let place = Box::leak(Box::new(MaybeUninit::uninit()));
        let open = skel::ProcessIdsSkelBuilder::default().open(place).map_err(|e| refused(&e))?;
        let skel = open.load().map_err(|e| refused(&e))?;
        let link = skel.progs.tell_ids.attach().map_err(|e| refused(&e))?;
        Ok(Self { link, _skel: skel })
    }

    fn ids(&self) -> Maybe<Vec<Ids>> {
        let mut bytes = Vec::new();
        Iter::new(&self.link).map_err(|e| refused(&e))?.read_to_end(&mut bytes).map_err(|e| refused(&e))?;
        Ok(bytes.chunks_exact(16).map(one).collect())
    }
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace").finish_non_exhaustive()
    }
}

fn refused(e: &dyn std::fmt::Display) -> Missing {
    Missing::because(format!("the ids of processes of this PID namespace cannot be listed: {e}"))
}

/// One thread: the ids of its process and of itself, in the machine and in this namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ids {
    tgid: u32,
    tid: u32,
    own_tgid: u32,
    own_tid: u32,
}

fn one(bytes: &[u8]) -> Ids {
    let word = |n: usize| u32::from_ne_bytes(bytes[4 * n..4 * n + 4].try_into().expect("four bytes"));
    Ids { tgid: word(0), tid: word(1), own_tgid: word(2), own_tid: word(3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_every_thread_of_ours_is_listed_with_both_ids() {
        if !nix::unistd::geteuid().is_root() || !std::path::Path::new(crate::program::KERNEL_BTF).exists() {
            eprintln!("skipped: needs root and a kernel with BTF");
            return;
        }
        let all = Namespace::load().unwrap().ids().unwrap();
        let own = std::process::id();
        let ours: Vec<&Ids> = all.iter().filter(|ids| ids.own_tgid == own).collect();
        // The thread of the test and that of the process.
        assert!(ours.len() >= 2, "{ours:?}");
        assert!(ours.iter().any(|ids| ids.own_tid == own), "{ours:?}");
        if are_the_machines() {
            assert!(all.iter().all(|ids| ids.tgid == ids.own_tgid && ids.tid == ids.own_tid), "{all:?}");
        }
        assert_eq!(machines(own).unwrap(), ours[0].tgid);
    }
}
