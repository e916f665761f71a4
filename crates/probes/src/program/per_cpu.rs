//! Data of programs for each CPU, in memory that they share with us: the values of the map of `cpus.bpf.h`.

use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::{fmt, io};

use libbpf_rs::MapCore;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// One `T` for each CPU, from number 0 to the highest possible one.
pub(crate) struct PerCpu<T> {
    first: NonNull<T>,
    count: usize,
    of: PhantomData<T>,
}

impl<T: Copy> PerCpu<T> {
    /// Maps the values of a map, which are of type `T`.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(crate) fn map(map: &impl MapCore) -> io::Result<Self> {
        assert_eq!(map.value_size() as usize, size_of::<T>(), "the map's values are of this type");
        assert_eq!(size_of::<T>() % 64, 0, "no two CPUs share a cache line");
        let count = map.max_entries() as usize;
        let length =
            NonZeroUsize::new(count * size_of::<T>()).expect("a map has an entry and values have a size");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: new memory at an address that the kernel chooses; the map lives as long as it is mapped.
        let first = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, map.as_fd(), 0) }?;
        Ok(Self { first: first.cast(), count, of: PhantomData })
    }

    /// Address of that CPU's value: valid and aligned as long as `self` lives, read and written by programs
    /// meanwhile; `None` if the kernel does not list the CPU as possible.
    pub(crate) fn of(&self, cpu: u32) -> Option<*mut T> {
        let number = cpu as usize;
        // SAFETY: within the mapping, as just compared.
        (number < self.count).then(|| unsafe { self.first.as_ptr().add(number) })
    }

    /// Addresses of all CPUs' values, of those that are offline too.
    pub(crate) fn all(&self) -> impl Iterator<Item = *mut T> + '_ {
        (0..).map_while(|cpu| self.of(cpu))
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no pointer into it outlives us.
        let unmapped = unsafe { munmap(self.first.cast(), self.count * size_of::<T>()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl<T> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCpu").field("count", &self.count).finish_non_exhaustive()
    }
}
