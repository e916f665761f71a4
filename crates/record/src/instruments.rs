//! Table of the instruments with stored intervals, except the CPUs.

use std::collections::BTreeMap;

use crate::block_io::IoInterval;
use crate::cpu::CpuInterval;
use crate::locks::{LockInterval, UserLockInterval};
use crate::memory::MemoryInterval;
use crate::missing::Missing;
use crate::nic::NicInterval;
use crate::profile::RunProfile;

/// One interval of any instrument.
pub trait Timed {
    /// End of the interval, on `CLOCK_MONOTONIC`.
    fn until_ns(&self) -> u64;

    /// Records whether a deadline passed before the interval was read.
    fn set_missed_deadline(&mut self, missed: bool);
}

/// One interval of an instrument in the table.
pub trait Observed: Timed + Sized {
    /// Name of the instrument for users, files and documents: `io`.
    const NAME: &'static str;

    /// Intervals of this instrument.
    fn of(seen: &Instruments) -> &[Self];

    /// Mutable intervals of this instrument.
    fn of_mut(seen: &mut Instruments) -> &mut Vec<Self>;
}

macro_rules! timed {
    ($($interval:ty),+ $(,)?) => {$(
        impl Timed for $interval {
            fn until_ns(&self) -> u64 {
                self.until_ns
            }

            fn set_missed_deadline(&mut self, missed: bool) {
                self.missed_deadline = missed;
            }
        }
    )+};
}

/// The name of a field is the name of the instrument.
macro_rules! instruments {
    ($($(#[$doc:meta])+ $name:ident: $interval:ty),+ $(,)?) => {
        timed!($($interval),+);

        /// Measurements beside a run, interval by interval; empty if no instrument was asked for.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Instruments {
            $($(#[$doc])+ pub $name: Vec<$interval>,)+
            /// Stacks over the whole measured phase: at most one profile of each kind.
            pub profiles: Vec<RunProfile>,
            /// Reason that an instrument has no intervals, or none from some time on, by name.
            pub missing: BTreeMap<String, Missing>,
        }

        impl Instruments {
            /// Names of all instruments.
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Whether there are no measurements and no missing ones.
            pub fn is_empty(&self) -> bool {
                let Self { $($name,)+ profiles, missing } = self;
                $($name.is_empty() &&)+ profiles.is_empty() && missing.is_empty()
            }

            /// Ends of all intervals, in rising order.
            pub fn ends_ns(&self) -> Vec<u64> {
                let mut ends: Vec<u64> = Vec::new();
                $(ends.extend(self.$name.iter().map(Timed::until_ns));)+
                ends.sort_unstable();
                ends
            }
        }

        $(impl Observed for $interval {
            const NAME: &'static str = stringify!($name);

            fn of(seen: &Instruments) -> &[Self] {
                &seen.$name
            }

            fn of_mut(seen: &mut Instruments) -> &mut Vec<Self> {
                &mut seen.$name
            }
        })+
    };
}

timed!(CpuInterval, MemoryInterval);
instruments! {
    /// Block devices.
    io: IoInterval,
    /// Network interfaces.
    nic: NicInterval,
    /// Kernel locks, by caller.
    locks: LockInterval,
    /// Locks of programs.
    ulocks: UserLockInterval,
}
