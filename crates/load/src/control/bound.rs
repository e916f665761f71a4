//! CPUs of the threads that generate a load.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// CPUs of the threads that generate a load. Commands that they start have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCpus {
    /// The CPUs; at least one.
    pub cpus: Vec<u32>,
    /// Whether each thread is bound to one of them, in turn, instead of to all.
    pub pinned: bool,
}

impl ThreadCpus {
    /// Binds the calling thread, the thread of worker `index`.
    pub(crate) fn bind(&self, index: usize) -> io::Result<()> {
        let mut set = CpuSet::new();
        let own = if self.pinned { &self.cpus[index % self.cpus.len()..][..1] } else { &self.cpus[..] };
        for cpu in own {
            set.set(*cpu as usize)?;
        }
        Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
    }

    /// Checks that every CPU can be had, on a thread that ends with its binding: the kernel ignores CPUs of a
    /// set that do not exist, as long as one does.
    pub(crate) fn check(&self) -> io::Result<()> {
        let each = Self { cpus: self.cpus.clone(), pinned: true };
        let bind_all = move || (0..each.cpus.len()).try_for_each(|index| each.bind(index));
        let thread = std::thread::Builder::new().name("load-may-bind".to_owned()).spawn(bind_all)?;
        thread.join().expect("it cannot panic")
    }
}
