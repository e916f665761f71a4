//! Other tools that measure the CPU, run beside ours over the same window.

use std::process::{Child, Command, Stdio};

use record::missing::{Maybe, Missing};

/// A tool that was started for one report over some seconds.
#[derive(Debug)]
pub(crate) struct Peer {
    tool: Tool,
    child: Maybe<Child>,
}

/// Tools, and what their results cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// One CPU.
    Mpstat,
    /// All CPUs together.
    Vmstat,
    /// One process.
    Pidstat,
    /// One process.
    Top,
}

impl Tool {
    pub(crate) const ALL: [Self; 4] = [Self::Mpstat, Self::Vmstat, Self::Pidstat, Self::Top];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mpstat => "mpstat",
            Self::Vmstat => "vmstat",
            Self::Pidstat => "pidstat",
            Self::Top => "top",
        }
    }

    fn arguments(self, cpu: u32, pid: u32, seconds: u64) -> Vec<String> {
        let (cpu, pid, seconds) = (cpu.to_string(), pid.to_string(), seconds.to_string());
        let words: &[&str] = match self {
            Self::Mpstat => &["-P", &cpu, &seconds, "1"],
            Self::Vmstat => &["-n", &seconds, "2"],
            Self::Pidstat => &["-p", &pid, &seconds, "1"],
            Self::Top => &["-b", "-n", "2", "-d", &seconds, "-p", &pid],
        };
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    /// Busy share from the tool's output, in the unit of one CPU (vmstat: of all of them).
    fn read(self, text: &str) -> Option<f64> {
        match self {
            Self::Mpstat => last_value(text, "%idle").map(|idle| 1.0 - idle / 100.0),
            Self::Vmstat => last_value(text, "id").map(|idle| 1.0 - idle / 100.0),
            Self::Pidstat | Self::Top => last_value(text, "%CPU").map(|busy| busy / 100.0),
        }
    }
}

impl Peer {
    /// Starts a tool; if it is not installed, that is its result.
    pub(crate) fn start(tool: Tool, cpu: u32, pid: u32, seconds: u64) -> Self {
        let mut command = Command::new(tool.name());
        command.args(tool.arguments(cpu, pid, seconds)).env("LC_ALL", "C").env("S_TIME_FORMAT", "ISO");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child =
            command.spawn().map_err(|e| Missing::because(format!("{} cannot be run: {e}", tool.name())));
        Self { tool, child }
    }

    /// Process id, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().ok().map(Child::id)
    }

    /// Waits for its report and reads it.
    pub(crate) fn finish(self) -> Maybe<f64> {
        let unread = || Missing::because(format!("{}'s report cannot be read", self.tool.name()));
        let output = self.child?.wait_with_output().map_err(|_| unread())?;
        let text = String::from_utf8_lossy(&output.stdout);
        self.tool.read(&text).ok_or_else(unread)
    }
}

/// The value of a column in the last row, counted from the left: names with blanks stand on the right.
fn last_value(text: &str, column: &str) -> Option<f64> {
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_ascii_whitespace().collect()).collect();
    let header = rows.iter().rposition(|row| row.contains(&column))?;
    let place = rows[header].iter().position(|word| *word == column)?;
    rows[header + 1..].iter().rev().find_map(|row| row.get(place)).and_then(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tools_text_tells_its_busy_share() {
        let mpstat = "Linux 6.1 (host)  2026-11-21\n\n\
            10:49:26     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n\
            10:49:27       1    3.00    0.00    1.00    0.00    0.00    0.00    0.00    0.00    0.00   96.00\n\n\
            Average:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n\
            Average:       1    3.00    0.00    1.25    0.00    0.00    0.00    0.00    0.00    0.00   95.75\n";
        let vmstat = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
            r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n\
            15  0      0 8151184  37628 12641700    0    0   980  2599  337  909 45  7 49  0  0\n \
            0  0      0 8151184  37628 12641700    0    0     8 15168  790 1189 10  6 84  0  0\n";
        let pidstat = "Linux 6.1 (host)  2026-11-21\n\n\
            10:49:28      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n\
            Average:        0         7    0.00    0.99    0.00    0.00   69.25     -  a hog\n";
        for (tool, text, busy) in
            [(Tool::Mpstat, mpstat, 0.0425), (Tool::Vmstat, vmstat, 0.16), (Tool::Pidstat, pidstat, 0.6925)]
        {
            let read = tool.read(text);
            assert!(read.is_some_and(|r| (r - busy).abs() < 1e-9), "{}: {read:?}", tool.name());
        }
    }
}
