//! Files of instruments, one interval per line. All code that stores, reads or exports intervals uses this
//! table.

use record::block_io::IoInterval;
use record::cpu::CpuInterval;
use record::instruments::{Observed, Timed};
use record::locks::{LockInterval, UserLockInterval};
use record::nic::NicInterval;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::schema::{Wrong, block_io, cpu, locks, nic};

/// Intervals that have a file in a run's folder.
pub(crate) trait StoredInterval: Timed + Sized {
    /// Name of the instrument in columns and keys of exports.
    const NAME: &'static str;

    /// Name of the file.
    const FILE: &'static str;

    /// One line of it.
    type Form: Serialize + DeserializeOwned;

    /// Converts the interval to its line.
    fn form(&self) -> Self::Form;

    /// The inverse of [`Self::form`].
    fn read(form: Self::Form) -> Result<Self, Wrong>;
}

/// An operation on each instrument's intervals.
pub(crate) trait Visit {
    type Error;

    fn visit<T: StoredInterval + Observed>(&mut self) -> Result<(), Self::Error>;
}

macro_rules! stored {
    ($($name:literal: $interval:ty as $form:ty),+ $(,)?) => {$(
        impl StoredInterval for $interval {
            const NAME: &'static str = $name;
            const FILE: &'static str = concat!($name, ".jsonl.zst");
            type Form = $form;

            fn form(&self) -> Self::Form {
                <$form>::of(self)
            }

            fn read(form: Self::Form) -> Result<Self, Wrong> {
                form.read()
            }
        }
    )+};
}

stored! {
    "cpu": CpuInterval as cpu::Interval,
    "io": IoInterval as block_io::Interval,
    "nic": NicInterval as nic::Interval,
    "locks": LockInterval as locks::Interval,
    "ulocks": UserLockInterval as locks::UserInterval,
}

/// Visits every instrument but the CPUs, which a run holds apart; stops at the first error.
pub(crate) fn visit_all<V: Visit>(visitor: &mut V) -> Result<(), V::Error> {
    visitor.visit::<IoInterval>()?;
    visitor.visit::<NicInterval>()?;
    visitor.visit::<LockInterval>()?;
    visitor.visit::<UserLockInterval>()
}

/// Whether the archive itself writes a file of this name, one interval per line.
pub(crate) fn is_file_of_intervals(name: &str) -> bool {
    struct Find<'a>(&'a str);
    impl Visit for Find<'_> {
        type Error = ();

        fn visit<T: StoredInterval + Observed>(&mut self) -> Result<(), ()> {
            if self.0 == T::FILE { Err(()) } else { Ok(()) }
        }
    }
    name == CpuInterval::FILE || visit_all(&mut Find(name)).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instrument_of_a_run_has_a_file_of_its_name() {
        struct Names(Vec<(&'static str, &'static str)>);
        impl Visit for Names {
            type Error = ();

            fn visit<T: StoredInterval + Observed>(&mut self) -> Result<(), ()> {
                assert_eq!(<T as StoredInterval>::NAME, <T as Observed>::NAME);
                self.0.push((<T as StoredInterval>::NAME, T::FILE));
                Ok(())
            }
        }
        let mut names = Names(Vec::new());
        visit_all(&mut names).unwrap();
        let stored: Vec<&str> = names.0.iter().map(|(name, _)| *name).collect();
        assert_eq!(stored, record::instruments::Instruments::NAMES);
        assert!(names.0.iter().all(|(_, file)| is_file_of_intervals(file)));
        assert!(is_file_of_intervals("cpu.jsonl.zst") && !is_file_of_intervals("server.log.zst"));
    }
}
