//! `bakeoff cpu`: the use of every CPU, by events and by ticks, side by side.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use probes::cgroups::Cgroup;
use probes::cost::Cost;
use probes::cpu_list;
use probes::cpu_time::{self, CpuProbe, Options, SwitchClock};
use probes::limits::Quotas;
use probes::power::{self, PowerProbe};
use probes::topology::Cores;
use record::cpu::{CgroupSample, CpuInterval, TaskSample};
use record::limits::Throttled;
use record::missing::Maybe;
use record::power::EnergySample;
use serde_json::{Value, json};

use crate::cmd::hog::{CpuList, cpu_list};
use crate::cmd::intervals::{self, Report, Reporter, Schedule, note};
use crate::cmd::{self, ByGroup, Global};
use crate::exit::Exit;
use crate::screen;

/// Show each CPU: busy time by scheduler events and by ticks, unaccounted time, switches, the hottest thread
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("listed").args(["tasks", "by", "cgroup"]).multiple(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    #[command(flatten)]
    schedule: Schedule,

    /// Only these CPUs: 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,

    /// Also show each thread's CPU time, and the part of it during which sibling hardware threads were busy
    #[arg(long)]
    tasks: bool,

    /// Also show each control group's CPU time
    #[arg(long, value_enum, value_name = "KEY", conflicts_with_all = ["csv", "clock"])]
    by: Option<ByGroup>,

    /// Show only groups and threads in this control group or below it: its folder, or its path in the
    /// hierarchy
    #[arg(long, value_name = "PATH", value_parser = crate::cmd::cgroup, conflicts_with_all = ["csv", "clock"])]
    cgroup: Option<Cgroup>,

    /// With --tasks or --by: threads and groups to show (--json lists all)
    #[arg(long, value_name = "N", default_value_t = 20, requires = "listed")]
    top: usize,

    /// CPUs of each core, instead of the kernel's topology: 0,1;2,3
    #[arg(long, value_name = "CORES", value_parser = cores, requires = "tasks")]
    topology: Option<Cores>,

    /// Also show the time of each kind of interrupt on each CPU
    #[arg(long, conflicts_with = "csv")]
    interrupts: bool,

    /// Also show a histogram of run-queue waits since the start
    #[arg(long, conflicts_with = "csv")]
    waits: bool,

    /// Also show the energy of each processor package (and of its memory), if the machine has the counters
    #[arg(long, conflicts_with = "csv")]
    energy: bool,

    /// Leave out ticks and samplers, and save their cost
    #[arg(long)]
    events_only: bool,

    /// Clock for the time of a switch: `own`, or the `scheduler`'s, which costs almost nothing to read
    #[arg(long, value_name = "WHOSE", default_value = "own", value_parser = clock, conflicts_with = "tasks")]
    clock: SwitchClock,

    /// Print CSV, one row per CPU and interval
    #[arg(long, conflicts_with_all = ["json", "tasks"])]
    csv: bool,

    /// Folder that contains `proc` and `sys`: a copy of another machine's
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff cpu 1 5                five reports, one a second
  bakeoff cpu 100ms --json       one JSON object per line, ten a second, until Ctrl-C
  bakeoff cpu 5 --tasks          threads too; on cores with SMT, their true share
  bakeoff cpu --by cgroup        which container uses the CPUs, and which waits for them
  bakeoff cpu --csv > cpu.csv    for a spreadsheet
  bakeoff cpu 10 --events-only --clock scheduler     the cheapest way to watch: a few ns per switch

event % is busy time by context switches; tick-before, tick-after and sampled % are the same by sampling; /proc % is busy
time by /proc/stat, and unacc % the time that it does not account for: tools that count ticks are wrong by about as much.";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    intervals::report(&args.schedule, global, out, || Cpus::open(args))
}

/// The CPUs, and the energy of their packages if requested.
struct Cpus<'a> {
    args: &'a Args,
    probe: CpuProbe,
    cores_shared: bool,
    power: Option<Maybe<PowerProbe>>,
    /// Quotas of the groups, if these are shown.
    quotas: Option<Quotas>,
    /// Energy of the last interval.
    energy: Option<Maybe<Vec<EnergySample>>>,
}

impl<'a> Cpus<'a> {
    fn open(args: &'a Args) -> anyhow::Result<Self> {
        cmd::check_cgroups(args.by.is_some())?;
        let cores = args.cores()?;
        let cores_shared = !cores.shared().is_empty();
        let options = Options { root: args.root.clone(), ..Options::of_this_machine() };
        let options = Options { ticks: !args.events_only, clock: args.clock, waits: args.waits, ..options };
        let probe = cpu_time::open(&if args.wants_tasks() { options.with_tasks(cores) } else { options });
        for text in probe.notes() {
            note("cpu", text);
        }
        if let Some(why) = probe.lacks_counters() {
            note("cpu", &format!("no cycles and instructions: {why}"));
        }
        let quotas = args.wants_groups().then(Quotas::watch);
        Ok(Self { args, probe, cores_shared, power: args.open_power(), quotas, energy: None })
    }
}

impl Reporter for Cpus<'_> {
    type Interval = CpuInterval;
    const COMMAND: &'static str = "cpu";

    fn start(&mut self) -> anyhow::Result<u64> {
        self.probe.measure_cost();
        let started_ns = self.probe.start();
        if let Some(Ok(power)) = &mut self.power {
            power.start();
        }
        Ok(started_ns)
    }

    fn head(&mut self, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.csv {
            report::csv::cpu_head(out)?;
        }
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<CpuInterval> {
        let mut interval = self.probe.read();
        let power = self.power.as_mut();
        self.energy = power.map(|power| power.as_mut().map(PowerProbe::read).map_err(|why| why.clone()));
        if interval.cpus.is_empty() {
            return Err(Exit::CannotHere.with("no CPU found: neither /sys nor /proc/stat can be read"));
        }
        self.args.keep_named(&mut interval)?;
        Ok(interval)
    }

    fn cost(&mut self) -> Option<Maybe<Cost>> {
        Some(self.probe.cost())
    }

    fn document(&mut self, interval: &CpuInterval, report: Report) -> Value {
        let (args, probe) = (self.args, &mut self.probe);
        let mut document = report::json::cpu(interval, report.started_ns);
        let threads = args.wants_tasks().then(|| args.threads(probe));
        if args.wants_groups()
            && let Some(threads) = &threads
        {
            let groups = threads.as_ref().map(|t| record::cpu::by_cgroup(t)).map_err(Clone::clone);
            let throttled = groups.clone().map(|g| throttled(&mut self.quotas, &g));
            let unknown = throttled.as_ref().map(|(_, unknown)| unknown.clone()).unwrap_or_default();
            add(&mut document, "throttled", throttled.map(|(t, _)| report::json::throttled_groups(&t)));
            if !unknown.is_empty() {
                document["throttled_unknown"] = json!(unknown);
            }
            add(&mut document, "cgroups", groups.map(|g| report::json::cgroups(&g, interval.seconds())));
        }
        if let Some(tasks) = threads.filter(|_| args.tasks) {
            document["tasks_unsure_ratio"] = json!(interval.tasks_unsure_ratio());
            add(&mut document, "tasks", tasks.map(|tasks| report::json::tasks(&tasks)));
        }
        if args.interrupts {
            add(&mut document, "interrupts", probe.interrupts().map(report::json::interrupts));
        }
        if args.waits {
            add(&mut document, "run_queue_waits", probe.waits().map(|w| report::json::waits(&w)));
        }
        if let Some(energy) = self.energy.take() {
            add(&mut document, "energy", energy.map(|zones| report::json::energy(&zones)));
        }
        document
    }

    fn print(&mut self, out: &mut dyn Write, interval: &CpuInterval, report: Report) -> anyhow::Result<()> {
        let (args, style) = (self.args, screen::style());
        if args.csv {
            return Ok(report::csv::cpu(out, interval, report.started_ns)?);
        }
        let threads = args.wants_tasks().then(|| args.threads(&self.probe));
        report::text::cpu_interval(out, interval, report.started_ns, style)?;
        if args.wants_groups() {
            match &threads {
                Some(Ok(threads)) => {
                    let groups = record::cpu::by_cgroup(threads);
                    report::text::cgroups(out, &groups, args.top, interval.seconds(), style)?;
                    let (quotas, unknown) = throttled(&mut self.quotas, &groups);
                    let lines = quotas.iter().map(ToString::to_string).chain(unknown);
                    for line in lines {
                        writeln!(out, "{line}")?;
                    }
                }
                Some(Err(why)) => writeln!(out, "control groups: missing ({why})")?,
                None => {}
            }
        }
        if let Some(threads) = threads.filter(|_| args.tasks) {
            self.print_tasks(out, interval, threads)?;
        }
        if args.interrupts {
            match self.probe.interrupts() {
                Ok(kinds) => report::text::interrupts(out, kinds, interval, style)?,
                Err(why) => writeln!(out, "interrupts: missing ({why})")?,
            }
        }
        if args.waits {
            match self.probe.waits() {
                Ok(waits) => report::text::waits(out, &waits, style)?,
                Err(why) => writeln!(out, "waits: missing ({why})")?,
            }
        }
        // If the machine has no counters, a line at the start has reported it.
        if let Some(Ok(zones)) = self.energy.take() {
            report::text::energy(out, &zones, style)?;
        }
        Ok(())
    }
}

impl Cpus<'_> {
    fn print_tasks(
        &self,
        out: &mut dyn Write,
        interval: &CpuInterval,
        tasks: Maybe<Vec<TaskSample>>,
    ) -> anyhow::Result<()> {
        let tasks = match tasks {
            Ok(tasks) => tasks,
            Err(why) => return Ok(writeln!(out, "threads: missing ({why})")?),
        };
        report::text::tasks(out, &tasks, self.args.top, self.cores_shared, screen::style())?;
        let unsure = interval.tasks_unsure_ratio();
        if self.cores_shared && unsure > 0.0 {
            let percent = unsure * 100.0;
            writeln!(
                out,
                "  alone, sibling busy and core share are off by up to {percent:.2} % of busy time: some \
                 switches were not recorded"
            )?;
        }
        Ok(())
    }
}

impl Args {
    /// The cores that `--topology` declares; by default those that the kernel reports.
    fn cores(&self) -> anyhow::Result<Cores> {
        let Some(declared) = &self.topology else { return Ok(Cores::read(&self.root)) };
        let online = cpu_list::online(&self.root).unwrap_or_default();
        let mut named = declared.shared().iter().flatten();
        if let Some(cpu) = named.find(|cpu| !online.is_empty() && !online.contains(cpu)) {
            return Err(Exit::Usage.with(format!("--topology names CPU {cpu}, which is not online")));
        }
        Ok(declared.clone())
    }

    fn wants_tasks(&self) -> bool {
        self.tasks || self.wants_groups()
    }

    fn wants_groups(&self) -> bool {
        self.by.is_some() || self.cgroup.is_some()
    }

    /// Threads of the requested groups.
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

    /// Opens the counters of energy; `None` unless requested.
    fn open_power(&self) -> Option<Maybe<PowerProbe>> {
        let power = self.energy.then(|| power::open(&self.root))?;
        if let Err(why) = &power {
            note("cpu", &format!("no energy: {why}"));
        }
        Some(power)
    }
}

/// What the quotas of these groups stopped since the last interval, and the groups of which that is unknown.
fn throttled(quotas: &mut Option<Quotas>, groups: &[CgroupSample]) -> (Vec<Throttled>, BTreeSet<String>) {
    let names = groups.iter().filter_map(|group| group.cgroup.as_deref().ok());
    quotas.as_mut().map(|quotas| quotas.since_last(names)).unwrap_or_default()
}

/// Adds a part to a document, or the reason that it is missing.
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
