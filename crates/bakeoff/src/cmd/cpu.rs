//! `bakeoff cpu`: what every CPU did, by events and by ticks, side by side.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use probes::cgroups::Cgroup;
use probes::cpu_list;
use probes::cpu_time::{self, CpuProbe, Options, SwitchClock};
use probes::power::{self, PowerProbe};
use probes::schedule::Deadlines;
use probes::topology::Cores;
use record::cpu::{CpuInterval, TaskSample};
use record::missing::Maybe;
use record::power::EnergySample;
use record::quantity;
use serde_json::{Value, json};

use crate::cmd::hog::{CpuList, cpu_list};
use crate::cmd::{self, ByGroup, Global};
use crate::confine;
use crate::exit::Exit;
use crate::own_cost::OwnCost;
use crate::screen::{self, Screen};
use crate::signals;

/// Show what every CPU did: busy by events and by ticks, what the ticks left out, switches, the hottest thread
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    /// Seconds between reports, or a duration such as 500ms
    #[arg(value_parser = interval, default_value = "1")]
    interval: Duration,

    /// Number of reports; without it until Ctrl-C
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Only these CPUs: 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,

    /// Also what each thread had of the CPUs, and how much of that its core's other hardware threads were busy
    #[arg(long)]
    tasks: bool,

    /// Also what each control group had of the CPUs
    #[arg(long, value_enum, value_name = "KEY", conflicts_with_all = ["csv", "clock"])]
    by: Option<ByGroup>,

    /// Of groups and threads, only those in this control group or below it: its folder, or its path in the hierarchy
    #[arg(long, value_name = "PATH", value_parser = crate::cmd::cgroup, conflicts_with_all = ["csv", "clock"])]
    cgroup: Option<Cgroup>,

    /// So many threads and groups (--json lists all)
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Which CPUs make up a core, instead of what the kernel says: 0,1;2,3
    #[arg(long, value_name = "CORES", value_parser = cores, requires = "tasks")]
    topology: Option<Cores>,

    /// Also the time of each kind of interrupt on each CPU
    #[arg(long, conflicts_with = "csv")]
    interrupts: bool,

    /// Also a histogram of how long threads waited for a CPU since the start
    #[arg(long, conflicts_with = "csv")]
    waits: bool,

    /// Also the energy of each processor package and of its memory, if the machine lends its counters
    #[arg(long, conflicts_with = "csv")]
    energy: bool,

    /// Leave out what ticks and samplers see, and what asking them costs
    #[arg(long)]
    events_only: bool,

    /// Whose clock tells the time of a switch: `own`, or the `scheduler`'s, which costs next to nothing to read
    #[arg(long, value_name = "WHOSE", default_value = "own", value_parser = clock, conflicts_with = "tasks")]
    clock: SwitchClock,

    /// Comma-separated values, a row a CPU and interval
    #[arg(long, conflicts_with_all = ["json", "tasks"])]
    csv: bool,

    /// The folder in which `proc` and `sys` are found: a copy of another machine's
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff cpu 1 5                five reports, one a second
  bakeoff cpu 100ms --json       one JSON object a line, ten a second, until Ctrl-C
  bakeoff cpu 5 --tasks          threads too; on cores with hardware threads, what they really had
  bakeoff cpu --by cgroup        which container has the CPUs, and which waits for them
  bakeoff cpu --csv > cpu.csv    for a spreadsheet
  bakeoff cpu 10 --events-only --clock scheduler     the cheapest way to watch: a few ns a switch

event % is busy by context switches; tick-before, tick-after and sampled % are what samplers see of it; /proc % is what
/proc/stat says and unacc % what it left out: far from 0, every tool that counts ticks errs by about as much.";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    signals::stop_on_interrupt()?;
    cmd::check_cgroups(args.by.is_some())?;
    let cores = args.cores()?;
    let cores_shared = !cores.shared().is_empty();
    let options = Options { root: args.root.clone(), ..Options::of_this_machine() };
    let options = Options { ticks: !args.events_only, clock: args.clock, waits: args.waits, ..options };
    let mut probe = cpu_time::open(&if args.wants_tasks() { options.with_tasks(cores) } else { options });
    for note in probe.notes() {
        Screen::new().line(&format!("bakeoff cpu: {note}"));
    }
    if let Some(why) = probe.lacks_counters() {
        Screen::new().line(&format!("bakeoff cpu: no cycles and instructions: {why}"));
    }
    let mut power = args.open_power();
    if args.csv {
        report::text::cpu_csv_header(out)?;
    }
    probe.measure_cost();
    let started_ns = probe.start();
    if let Some(Ok(power)) = &mut power {
        power.start();
    }
    confine::after_setup();
    let own = OwnCost::start();
    let mut deadlines = Deadlines::new(started_ns, args.interval);
    let mut reports = 0;
    while args.count.is_none_or(|count| reports < count) {
        // At the end of its time or at Ctrl-C, the interval that has begun is read and shown.
        let is_whole = signals::wait_until(deadlines.next_ns());
        let mut interval = probe.read();
        let energy =
            power.as_mut().map(|power| power.as_mut().map(PowerProbe::read).map_err(|why| why.clone()));
        interval.missed_deadline = deadlines.answered_at(interval.until_ns) > 0;
        if interval.cpus.is_empty() {
            return Err(Exit::CannotHere.with("no CPU can be seen: neither /sys nor /proc/stat can be read"));
        }
        args.keep_named(&mut interval)?;
        args.print(&interval, &mut probe, energy, (started_ns, cores_shared, own), global, out)?;
        out.flush()?;
        reports += 1;
        if !is_whole {
            own.tell("cpu", Some(probe.cost()));
            return Ok(if args.count.is_some() { Exit::Interrupted } else { Exit::Good });
        }
    }
    own.tell("cpu", Some(probe.cost()));
    Ok(Exit::Good)
}

impl Args {
    /// As declared, of CPUs that there are; else as the kernel says.
    fn cores(&self) -> anyhow::Result<Cores> {
        let Some(declared) = &self.topology else { return Ok(Cores::read(&self.root)) };
        let online = cpu_list::online(&self.root).unwrap_or_default();
        let mut named = declared.shared().iter().flatten();
        if let Some(cpu) = named.find(|cpu| !online.is_empty() && !online.contains(cpu)) {
            return Err(Exit::Usage.with(format!("--topology names CPU {cpu}, and no such CPU is online")));
        }
        Ok(declared.clone())
    }

    fn wants_tasks(&self) -> bool {
        self.tasks || self.wants_groups()
    }

    fn wants_groups(&self) -> bool {
        self.by.is_some() || self.cgroup.is_some()
    }

    /// Threads of the groups that were asked for.
    fn threads(&self, probe: &CpuProbe) -> Maybe<Vec<TaskSample>> {
        let Some(asked) = &self.cgroup else { return probe.tasks().map(<[_]>::to_vec) };
        let is_held = |task: &&TaskSample| task.cgroup.as_ref().is_ok_and(|name| asked.holds(name));
        Ok(probe.tasks()?.iter().filter(is_held).cloned().collect())
    }

    fn keep_named(&self, interval: &mut CpuInterval) -> anyhow::Result<()> {
        let Some(CpuList(named)) = &self.cpus else { return Ok(()) };
        interval.cpus.retain(|sample| named.contains(&sample.cpu));
        if interval.cpus.is_empty() {
            return Err(Exit::Usage.with("none of the CPUs of --cpus is online"));
        }
        Ok(())
    }

    fn print(
        &self,
        interval: &CpuInterval,
        probe: &mut CpuProbe,
        energy: Option<Maybe<Vec<EnergySample>>>,
        (started_ns, cores_shared, own): (u64, bool, OwnCost),
        global: &Global,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        if self.csv {
            return Ok(report::text::cpu_csv(out, interval, started_ns)?);
        }
        if global.json {
            let mut document = report::json::cpu(interval, started_ns);
            own.add_to(&mut document, Some(probe.cost()));
            let threads = self.wants_tasks().then(|| self.threads(probe));
            if self.wants_groups()
                && let Some(threads) = &threads
            {
                let groups = threads.as_ref().map(|t| record::cpu::by_cgroup(t)).map_err(Clone::clone);
                add(&mut document, "cgroups", groups.map(|g| report::json::cgroups(&g, interval.seconds())));
            }
            let tasks = threads.filter(|_| self.tasks);
            if let Some(tasks) = tasks {
                document["tasks_unsure_ratio"] = json!(interval.tasks_unsure_ratio());
                add(&mut document, "tasks", tasks.map(|tasks| report::json::tasks(&tasks)));
            }
            if self.interrupts {
                add(&mut document, "interrupts", probe.interrupts().map(report::json::interrupts));
            }
            if self.waits {
                add(&mut document, "run_queue_waits", probe.waits().map(|w| report::json::waits(&w)));
            }
            if let Some(energy) = energy {
                add(&mut document, "energy", energy.map(|zones| report::json::energy(&zones)));
            }
            serde_json::to_writer(&mut *out, &document)?;
            return Ok(writeln!(out)?);
        }
        let (style, threads) = (screen::style(), self.wants_tasks().then(|| self.threads(probe)));
        report::text::cpu_interval(out, interval, started_ns, style)?;
        if self.wants_groups() {
            match &threads {
                Some(Ok(threads)) => {
                    let groups = record::cpu::by_cgroup(threads);
                    report::text::cgroups(out, &groups, self.top, interval.seconds(), style)?;
                }
                Some(Err(why)) => writeln!(out, "control groups: missing ({why})")?,
                None => {}
            }
        }
        match threads.filter(|_| self.tasks) {
            Some(Ok(tasks)) => {
                report::text::tasks(out, &tasks, self.top, cores_shared, style)?;
                let unsure = interval.tasks_unsure_ratio();
                if cores_shared && unsure > 0.0 {
                    let percent = unsure * 100.0;
                    writeln!(
                        out,
                        "  alone, sibling busy and core share are off by up to {percent:.2} % of busy time: some switches were hidden"
                    )?;
                }
            }
            Some(Err(why)) => writeln!(out, "threads: missing ({why})")?,
            None => {}
        }
        if self.interrupts {
            match probe.interrupts() {
                Ok(kinds) => report::text::interrupts(out, kinds, interval, style)?,
                Err(why) => writeln!(out, "interrupts: missing ({why})")?,
            }
        }
        if self.waits {
            match probe.waits() {
                Ok(waits) => report::text::waits(out, &waits, style)?,
                Err(why) => writeln!(out, "waits: missing ({why})")?,
            }
        }
        // If the machine lends no counters, a line has said so at the start.
        if let Some(Ok(zones)) = energy {
            report::text::energy(out, &zones, style)?;
        }
        Ok(())
    }

    /// `None` unless it is asked for.
    fn open_power(&self) -> Option<Maybe<PowerProbe>> {
        let power = self.energy.then(|| power::open(&self.root))?;
        if let Err(why) = &power {
            Screen::new().line(&format!("bakeoff cpu: no energy: {why}"));
        }
        Some(power)
    }
}

/// A part of a document, or why it is missing.
fn add(document: &mut Value, name: &str, value: Maybe<Value>) {
    match value {
        Ok(value) => document[name] = value,
        Err(why) => {
            document[name] = Value::Null;
            document["missing"][name] = json!(why.reason);
        }
    }
}

fn clock(word: &str) -> Result<SwitchClock, String> {
    match word {
        "own" => Ok(SwitchClock::Own),
        "scheduler" => Ok(SwitchClock::Scheduler),
        _ => Err("expected own or scheduler".into()),
    }
}

fn cores(text: &str) -> Result<Cores, String> {
    Cores::declared(text).map_err(|e| e.to_string())
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let written = if text.parse::<f64>().is_ok() { format!("{text}s") } else { text.to_owned() };
    match quantity::duration(&written) {
        Ok(d) if d < Duration::from_millis(100) => Err("the shortest interval is 100ms".into()),
        other => other.map_err(|e| e.to_string()),
    }
}
