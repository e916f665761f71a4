//! Memory nodes: those of this machine, and those that a process gets its memory from.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use probes::{cpu_list, process_time};

/// One bit for each memory node.
pub(crate) type Mask = [libc::c_ulong; WORDS];
const WORDS: usize = 16;
const BITS: usize = libc::c_ulong::BITS as usize;

/// Nodes of this machine that have memory; node 0 if the kernel knows no nodes.
///
/// - `root`: folder that holds `sys`.
pub(crate) fn of_machine(root: &Path) -> BTreeSet<u32> {
    let folder = root.join("sys/devices/system/node");
    let list = |name: &str| cpu_list::parse(&process_time::text(folder.join(name)).ok()?).ok();
    list("has_memory").or_else(|| list("online")).unwrap_or_else(|| [0].into())
}

/// Mask of these nodes, each below 1,024.
pub(crate) fn mask(nodes: &[u32]) -> Mask {
    let mut mask = [0; WORDS];
    for node in nodes {
        mask[*node as usize / BITS] |= 1 << (*node as usize % BITS);
    }
    mask
}

/// Binds the memory of the calling process, and of the program that it executes next, to these nodes.
///
/// A kernel without nodes has node 0 alone, to which all memory is bound.
pub(crate) fn bind(mask: &Mask) -> io::Result<()> {
    // SAFETY: the kernel reads the mask, which lives until the call returns, and one bit less than its
    // length says.
    let done = Errno::result(unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, mask.as_ptr(), WORDS * BITS + 1)
    });
    match done {
        Err(Errno::ENOSYS) if *mask == self::mask(&[0]) => Ok(()),
        done => Ok(done.map(drop)?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nodes_are_those_with_memory() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of_machine(root.path()), [0].into(), "a kernel without nodes");
        let folder = root.path().join("sys/devices/system/node");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("online"), "0-2\n").unwrap();
        assert_eq!(of_machine(root.path()), [0, 1, 2].into());
        fs::write(folder.join("has_memory"), "0,2\n").unwrap();
        assert_eq!(of_machine(root.path()), [0, 2].into());
    }

    #[test]
    fn a_mask_has_a_bit_for_each_node() {
        let of = mask(&[0, 63, 64, 1_023]);
        let bits: u32 = of.iter().map(|word| word.count_ones()).sum();
        assert_eq!((bits, of[0] & 1, of[1] & 1), (4, 1, 1));
        assert_eq!(of[WORDS - 1], 1 << (BITS - 1));
    }
}
