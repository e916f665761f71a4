//! The probes of a build without BPF: types without values. Their `open` returns the reason.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use record::block_io::IoInterval;
use record::locks::{LockInterval, UserLockInterval};
use record::missing::Maybe;
use record::profile::Profile;

use crate::cost::Cost;
use crate::locks::Refused;
use crate::ticks::Tally;
use crate::{block_io, locks, profile, user_locks};

/// A probe without values, with the methods of the real one.
macro_rules! absent {
    ($visibility:vis $probe:ident { $(fn $name:ident($($self:tt)+) -> $yields:ty;)* }) => {
        /// A probe that this build lacks.
        #[derive(Debug)]
        $visibility enum $probe {}

        impl $probe {
            $(
            /// Cannot be called: the type has no values.
            ///
            /// # Errors
            ///
            /// None.
            $visibility fn $name($($self)+) -> $yields {
                unreachable!("there is no value of this type")
            }
            )*
        }
    };
}

absent!(pub IoProbe {
    fn note(&self) -> Option<&str>;
    fn start(&mut self) -> Maybe<u64>;
    fn read(&mut self) -> Maybe<IoInterval>;
    fn take_news(&mut self) -> Vec<String>;
    fn measure_cost(&mut self) -> ();
    fn cost(&mut self) -> Maybe<Cost>;
});
absent!(pub LockProbe {
    fn start(&mut self) -> Maybe<u64>;
    fn read(&mut self) -> Maybe<LockInterval>;
    fn take_news(&mut self) -> Vec<String>;
    fn measure_cost(&mut self) -> ();
    fn cost(&mut self) -> Maybe<Cost>;
});
absent!(pub UserLockProbe {
    fn start(&mut self) -> Maybe<u64>;
    fn read(&mut self) -> Maybe<UserLockInterval>;
    fn take_news(&mut self) -> Vec<String>;
    fn measure_cost(&mut self) -> ();
    fn cost(&mut self) -> Maybe<Cost>;
});
absent!(pub Profiler {
    fn start(&mut self) -> u64;
    fn gather(&mut self) -> Maybe<()>;
    fn finish(&mut self) -> Maybe<Profile>;
});
absent!(pub(crate) Ticks {
    fn tally(&self, _: &BTreeSet<u32>) -> Tally;
});

impl IoProbe {
    pub(crate) fn open(_: &block_io::Options) -> Result<Self, String> {
        Err("cannot trace block I/O: this build lacks BPF; build it with the feature `bpf`".into())
    }
}

impl LockProbe {
    pub(crate) fn open(_: &locks::Options) -> Result<Self, Refused> {
        Err(Refused::because(NO_LOCKS.into()))
    }
}

impl UserLockProbe {
    pub(crate) fn open(_: &user_locks::Options) -> Result<Self, Refused> {
        Err(Refused::because(NO_LOCKS.into()))
    }
}

impl Profiler {
    pub(crate) fn open(_: &profile::Options) -> Result<Self, Refused> {
        let why = "cannot profile: this build lacks BPF; build it with the feature `bpf`";
        Err(Refused::because(why.into()))
    }
}

impl Ticks {
    pub(crate) fn open(_: &BTreeSet<u32>, _: BorrowedFd<'_>) -> Result<Self, String> {
        Err("this build has no BPF".into())
    }
}

const NO_LOCKS: &str = "cannot trace locks: this build lacks BPF; build it with the feature `bpf`";
