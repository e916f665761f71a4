//! Options that `locks` and `ulocks` share: the waits to watch, the schedule, and the size of the output.

use probes::cgroups::Cgroup;
use report::text::LockView;

use crate::cmd::intervals::Schedule;
use crate::cmd::{self, ByGroup};

#[derive(Debug, clap::Args)]
pub(crate) struct LockOptions {
    #[command(flatten)]
    pub(crate) schedule: Schedule,

    /// Only waits of this process
    #[arg(long, value_parser = crate::cmd::process)]
    pub(crate) pid: Option<u32>,

    /// Only waits of threads of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Option<String>,

    /// Only waits of threads in this control group or below it: its folder, or its path in the hierarchy
    #[arg(long, value_name = "PATH", value_parser = crate::cmd::cgroup)]
    pub(crate) cgroup: Option<Cgroup>,

    /// Also group waits by the control group of their thread
    #[arg(long, value_enum, value_name = "KEY", conflicts_with = "csv")]
    by: Option<ByGroup>,

    /// Show the stack of each caller, and the thread that woke a waiter of a program's lock
    #[arg(long)]
    pub(crate) stacks: bool,

    /// Show histograms of the wait times
    #[arg(long, conflicts_with = "csv")]
    histogram: bool,

    /// Show at most this many locks; the rest is summed up in one line (--json and --csv list all)
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "csv")]
    top: usize,

    /// Print comma-separated values instead of a table
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

impl LockOptions {
    /// Whether each control group has its own rows.
    pub(crate) fn by_cgroup(&self) -> anyhow::Result<bool> {
        cmd::check_cgroups(self.by.is_some())?;
        Ok(self.by.is_some())
    }

    pub(crate) fn view(&self) -> LockView {
        LockView { stacks: self.stacks, histogram: self.histogram, top: self.top, is_part: false }
    }
}
