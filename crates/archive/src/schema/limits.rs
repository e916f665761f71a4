//! Effects of a CPU quota, as stored in the manifest.

use record::limits::Throttled;
use record::missing::{Maybe, Missing};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ThrottledForm {
    Known { periods: u64, time_ns: u64, cgroup: String },
    Missing { missing: String },
}

impl ThrottledForm {
    pub(crate) fn of(throttled: &Maybe<Throttled>) -> Self {
        match throttled {
            Ok(Throttled { periods, time_ns, cgroup }) => {
                Self::Known { periods: *periods, time_ns: *time_ns, cgroup: cgroup.clone() }
            }
            Err(why) => Self::Missing { missing: why.reason.clone() },
        }
    }

    /// `None` stands for a run of a version that did not record quotas.
    pub(crate) fn read(form: Option<Self>) -> Maybe<Throttled> {
        match form {
            Some(Self::Known { periods, time_ns, cgroup }) => Ok(Throttled { periods, time_ns, cgroup }),
            Some(Self::Missing { missing }) => Err(Missing::because(missing)),
            None => Err(Missing::because("the bakeoff version of this run did not watch CPU quotas")),
        }
    }
}
