//! What `locks` and `ulocks` have in common: whose waits, how often, and how much is shown of them.

use std::io::Write;
use std::time::Duration;

use probes::cgroups::Cgroup;
use probes::cost::Cost;
use probes::process_time::Watched;
use probes::schedule::Deadlines;
use record::locks::{LockInterval, UserLockInterval};
use record::missing::Maybe;
use report::text::LockView;

use crate::cmd::{self, ByGroup, cpu};
use crate::exit::Exit;
use crate::signals;

#[derive(Debug, clap::Args)]
pub(crate) struct LockOptions {
    /// Seconds between reports, or a duration such as 500ms
    #[arg(value_parser = cpu::interval, default_value = "1")]
    interval: Duration,

    /// Number of reports; without it until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only waits of this process
    #[arg(long, value_parser = crate::cmd::process)]
    pub(crate) pid: Option<u32>,

    /// Only waits of threads of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Option<String>,

    /// Only waits of threads in this control group or below it: its folder, or its path in the hierarchy
    #[arg(long, value_name = "PATH", value_parser = crate::cmd::cgroup)]
    pub(crate) cgroup: Option<Cgroup>,

    /// Also tell waits apart by the control group of their thread
    #[arg(long, value_enum, value_name = "KEY", conflicts_with = "csv")]
    by: Option<ByGroup>,

    /// Show how each caller was reached, and of a program's lock who woke it
    #[arg(long)]
    pub(crate) stacks: bool,

    /// Show how many waits took how long
    #[arg(long)]
    histogram: bool,

    /// Show at most this many locks; the rest is summed up in one line
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Print comma-separated values instead of a table
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

/// An interval that may have been read late.
pub(crate) trait Timed {
    fn until_ns(&self) -> u64;
    fn missed_deadline(&mut self, missed: bool);
}

impl Timed for LockInterval {
    fn until_ns(&self) -> u64 {
        self.until_ns
    }

    fn missed_deadline(&mut self, missed: bool) {
        self.missed_deadline = missed;
    }
}

impl Timed for UserLockInterval {
    fn until_ns(&self) -> u64 {
        self.until_ns
    }

    fn missed_deadline(&mut self, missed: bool) {
        self.missed_deadline = missed;
    }
}

impl LockOptions {
    /// Whether waits are told apart by control group.
    pub(crate) fn by_cgroup(&self) -> anyhow::Result<bool> {
        cmd::check_cgroups(self.by.is_some())?;
        Ok(self.by.is_some())
    }

    pub(crate) fn view(&self) -> LockView {
        LockView { stacks: self.stacks, histogram: self.histogram, top: self.top, is_part: false }
    }

    /// Reports at each deadline, and once more where the user ends it, until the only process that is watched has ended; `print` is told when it all began.
    ///
    /// - `started_ns`: when the first interval began.
    pub(crate) fn report<T: Timed>(
        &self,
        out: &mut dyn Write,
        started_ns: u64,
        mut read: impl FnMut() -> anyhow::Result<(T, Maybe<Cost>)>,
        print: impl Fn(&mut dyn Write, &T, Maybe<Cost>, u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<Exit> {
        let mut deadlines = Deadlines::new(started_ns, self.interval);
        let mut reports = 0;
        let only = self.pid.map(Watched::of);
        while self.count.is_none_or(|count| reports < count) {
            let goes_on = signals::wait_until(deadlines.next_ns());
            // Before the reading, so that this has all of it.
            let has_ended = cmd::has_ended(only);
            let (mut interval, cost) = read()?;
            if goes_on {
                interval.missed_deadline(deadlines.answered_at(interval.until_ns()) > 0);
            }
            print(out, &interval, cost, started_ns)?;
            out.flush()?;
            if !goes_on {
                return Ok(if self.count.is_some() { Exit::Interrupted } else { Exit::Good });
            }
            if has_ended {
                break;
            }
            reports += 1;
        }
        Ok(Exit::Good)
    }
}
