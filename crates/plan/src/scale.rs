//! Plan of a scale run: copies of a unit of work, their number, placement and rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use record::bakeoff::Levels;
use toml::{Table, Value};

use crate::experiment::{NotAnExperiment, SEED_MAX, StoredPlan, expected, number_value, span_text};
use crate::server::Scheduler;

/// Limit on copies, above the number of CPUs of any machine.
const COPIES_MAX: u32 = 16_384;

/// Plan of a scale run.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalePlan {
    /// One line for people.
    pub title: String,
    /// Unit of work: a program and its arguments.
    pub command: Vec<String>,
    /// Arguments that the copies use in turn, for `{unit}` or as the last argument; empty: all copies do the
    /// same.
    pub units: Vec<String>,
    /// Numbers of copies, by level.
    pub copies: Vec<u32>,
    /// Number of measurements of every level.
    pub rounds: u32,
    /// Least running time of every copy, at each level.
    pub time: Duration,
    /// Time after which a run of the command counts as hung.
    pub timeout: Duration,
    /// Placement of the copies.
    pub bind: Bind,
    /// CPUs that they may run on; `None`: all that this process may use.
    pub cpus: Option<Vec<u32>>,
    /// Scheduling class.
    pub scheduler: Scheduler,
    /// Whether the CPUs are watched.
    pub observe: bool,
    /// Random seed of the order.
    pub seed: u64,
}

/// Placement of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bind {
    /// The kernel chooses.
    Free,
    /// One CPU, in the kernel's order of numbers.
    Cpu,
    /// All CPUs of one core.
    Core,
    /// One CPU, alternating between sockets, and within each using cores before siblings.
    Spread,
}

impl Bind {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Free, Self::Cpu, Self::Core, Self::Spread];

    /// Word in plans.
    pub fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Cpu => "cpu",
            Self::Core => "core",
            Self::Spread => "spread",
        }
    }

    /// CPUs of copy number `copy` (from 0) on `machine`; `None`: all allowed ones.
    pub fn cpus_of(self, copy: u32, machine: &Machine) -> Option<Vec<u32>> {
        let turn =
            |places: &[Vec<u32>]| (!places.is_empty()).then(|| places[copy as usize % places.len()].clone());
        let cores = machine.cores();
        match self {
            Self::Free => None,
            Self::Cpu => turn(&machine.places.keys().map(|cpu| vec![*cpu]).collect::<Vec<_>>()),
            Self::Core => turn(&cores.into_values().collect::<Vec<_>>()),
            Self::Spread => {
                // Sort by sibling, then core within its socket, then socket: the last changes fastest.
                let mut order: Vec<(usize, usize, u32, u32)> = Vec::new();
                let mut cores_of_socket: BTreeMap<u32, usize> = BTreeMap::new();
                for ((socket, _), cpus) in cores {
                    let core = cores_of_socket.entry(socket).or_default();
                    order
                        .extend(cpus.iter().enumerate().map(|(sibling, cpu)| (sibling, *core, socket, *cpu)));
                    *core += 1;
                }
                order.sort_unstable();
                turn(&order.into_iter().map(|(.., cpu)| vec![cpu]).collect::<Vec<_>>())
            }
        }
    }
}

/// CPUs that copies may run on: kernel number, and for each its socket and its core (the core's lowest CPU).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Socket and core of every CPU.
    pub places: BTreeMap<u32, (u32, u32)>,
}

impl Machine {
    fn cores(&self) -> BTreeMap<(u32, u32), Vec<u32>> {
        let mut cores: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (cpu, place) in &self.places {
            cores.entry(*place).or_default().push(*cpu);
        }
        cores
    }
}

/// 1, 2, 4, ... up to the number of CPUs; three quarters of it, all of it, one and a half times and twice as
/// many.
pub fn copies_up_to(cpus: u32) -> Vec<u32> {
    assert!(cpus > 0, "a machine has a CPU");
    let mut copies: Vec<u32> = (0..16).map(|i| 1 << i).take_while(|n| *n < cpus).collect();
    copies.extend([cpus * 3 / 4, cpus, cpus + cpus.div_ceil(2), cpus * 2]);
    copies.retain(|n| *n > 0);
    copies.sort_unstable();
    copies.dedup();
    copies
}

impl ScalePlan {
    /// Name of the factor.
    pub const COPIES: &'static str = "copies";

    /// Command of copy number `copy`, from 0.
    pub fn command_of(&self, copy: u32) -> Vec<String> {
        let unit = (!self.units.is_empty()).then(|| &self.units[copy as usize % self.units.len()]);
        let takes_unit = self.command.iter().any(|word| word.contains("{unit}"));
        let fill = |word: &String| {
            let word = word.replace("{copy}", &copy.to_string());
            unit.map_or_else(|| word.clone(), |unit| word.replace("{unit}", unit))
        };
        let mut words: Vec<String> = self.command.iter().map(fill).collect();
        words.extend(unit.filter(|_| !takes_unit).cloned());
        words
    }

    /// Number of copies, from the first, with work that may differ: all if the command contains the copy's
    /// number, otherwise the number of units.
    pub fn kinds_of_work(&self) -> u32 {
        let most = self.copies.last().copied().unwrap_or(1);
        let tells = |word: &String| word.contains("{copy}") || word.contains("BAKEOFF_COPY");
        let units = u32::try_from(self.units.len().max(1)).unwrap_or(u32::MAX);
        if self.command.iter().any(tells) { most } else { units.min(most) }
    }

    pub(crate) fn cells(&self) -> Vec<Levels> {
        self.copies.iter().map(|n| Levels::from([(Self::COPIES.to_owned(), n.to_string())])).collect()
    }

    pub(crate) fn check(&self) -> Result<(), NotAnExperiment> {
        let rising = self.copies.windows(2).all(|w| w[0] < w[1]);
        let copies = !self.copies.is_empty() && self.copies[0] > 0 && rising;
        let rules = [
            (!self.command.is_empty(), "command", "a program, after `--`"),
            (copies, "copies", "increasing numbers from 1, such as 1,2,4"),
            (self.copies.last().is_some_and(|n| *n <= COPIES_MAX), "copies", "at most 16384"),
            ((1..=1_000).contains(&self.rounds), "rounds", "1 to 1000"),
            (!self.time.is_zero(), "time", "a duration over 0"),
            (self.timeout >= self.time, "timeout", "at least --time"),
            (self.cpus.as_ref().is_none_or(|c| !c.is_empty()), "cpus", "a list such as 0-3,8"),
            (self.seed <= SEED_MAX, "seed", "a number below 2^63"),
        ];
        rules.into_iter().find(|(ok, ..)| !ok).map_or(Ok(()), |(_, key, what)| Err(expected(key, what)))
    }

    pub(crate) fn table(&self) -> Table {
        let texts = |list: &[String]| Value::Array(list.iter().map(|t| t.clone().into()).collect());
        let numbers = |list: &[u32]| Value::Array(list.iter().map(|n| i64::from(*n).into()).collect());
        let mut table = Table::new();
        let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
        put("title", self.title.clone().into());
        put("command", texts(&self.command));
        put("units", texts(&self.units));
        put("copies", numbers(&self.copies));
        put("rounds", i64::from(self.rounds).into());
        put("time", span_text(self.time));
        put("timeout", span_text(self.timeout));
        put("bind", self.bind.word().into());
        put("cpus", numbers(self.cpus.as_deref().unwrap_or_default()));
        put("scheduler", self.scheduler.to_string().into());
        put("observe", self.observe.into());
        put("seed", number_value(self.seed));
        table
    }

    pub(crate) fn read(stored: &StoredPlan<'_>) -> Result<Self, NotAnExperiment> {
        let bind = stored.text("bind")?;
        let bind = Bind::ALL.into_iter().find(|b| b.word() == bind);
        let cpus = stored.numbers("cpus")?;
        let plan = Self {
            title: stored.text("title")?.to_owned(),
            command: stored.texts("command")?,
            units: stored.texts("units")?,
            copies: stored.numbers("copies")?,
            rounds: stored.small("rounds")?,
            time: stored.span("time")?,
            timeout: stored.span("timeout")?,
            bind: bind.ok_or_else(|| expected("bind", "free, cpu, core or spread"))?,
            cpus: (!cpus.is_empty()).then_some(cpus),
            scheduler: Scheduler::from_word(stored.text("scheduler")?)
                .ok_or_else(|| expected("scheduler", "other, batch, fifo:N or rr:N"))?,
            observe: stored.flag("observe")?,
            seed: stored.number("seed")?,
        };
        plan.check().map(|()| plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    fn plan() -> ScalePlan {
        ScalePlan {
            title: "gzip".into(),
            command: vec!["gzip".into(), "-c".into(), "{unit}".into()],
            units: vec!["a \"b\"".into(), "c".into()],
            copies: vec![1, 2, 4],
            rounds: 3,
            time: Duration::from_millis(1_500),
            timeout: Duration::from_mins(1),
            bind: Bind::Spread,
            cpus: Some(vec![0, 2]),
            scheduler: Scheduler::Fifo(3),
            observe: true,
            seed: 7,
        }
    }

    /// Two sockets of two cores of two CPUs, numbered as on x86: siblings last.
    fn machine() -> Machine {
        let places = [(0, 0, 0), (1, 0, 1), (2, 1, 2), (3, 1, 3), (4, 0, 0), (5, 0, 1), (6, 1, 2), (7, 1, 3)];
        Machine { places: places.into_iter().map(|(cpu, socket, core)| (cpu, (socket, core))).collect() }
    }

    #[test]
    fn a_plan_reads_back_from_its_text() {
        let plan = Experiment::Scale(plan());
        assert_eq!(Experiment::read(&plan.text()), Ok(plan));
    }

    #[test]
    fn each_round_has_every_level_once_in_an_order_of_its_own() {
        let plan = Experiment::Scale(ScalePlan { rounds: 50, ..plan() });
        let trials = plan.trials();
        let mut orders = std::collections::BTreeSet::new();
        for round in trials.chunks(3) {
            let order: Vec<&str> = round.iter().map(|t| t.levels[ScalePlan::COPIES].as_str()).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, ["1", "2", "4"]);
            assert!(round.iter().all(|t| t.block == round[0].block && t.series == round[0].series));
            orders.insert(order);
        }
        assert_eq!(orders.len(), 6, "all orders of three levels occur in fifty rounds");
    }

    #[test]
    fn units_go_round_among_the_copies() {
        let words = |copy| plan().command_of(copy).join("|");
        assert_eq!([words(0), words(1), words(2)], ["gzip|-c|a \"b\"", "gzip|-c|c", "gzip|-c|a \"b\""]);
        let appended = ScalePlan { command: vec!["sort{copy}".into()], ..plan() };
        assert_eq!(appended.command_of(1).join("|"), "sort1|c");
        // Two units, then as many commands as copies.
        assert_eq!((plan().kinds_of_work(), appended.kinds_of_work()), (2, 4));
        for (word, kinds) in
            [("sleep 1", 1), ("sleep {copy}", 4), ("sleep $BAKEOFF_COPY", 4), ("$BAKEOFF_COPIES", 1)]
        {
            let plan = ScalePlan { command: vec![word.into()], units: Vec::new(), ..plan() };
            assert_eq!(plan.kinds_of_work(), kinds, "{word}");
        }
    }

    #[test]
    fn copies_are_placed_as_asked() {
        let of = |bind: Bind| -> Vec<Vec<u32>> {
            (0..5).map(|copy| bind.cpus_of(copy, &machine()).unwrap_or_default()).collect()
        };
        assert_eq!(of(Bind::Free), vec![Vec::<u32>::new(); 5]);
        assert_eq!(of(Bind::Cpu), [[0], [1], [2], [3], [4]]);
        assert_eq!(of(Bind::Core), [[0, 4], [1, 5], [2, 6], [3, 7], [0, 4]]);
        assert_eq!(of(Bind::Spread), [[0], [2], [1], [3], [4]]);
        assert_eq!(Bind::Cpu.cpus_of(9, &machine()), Some(vec![1]));
    }

    #[test]
    fn levels_reach_past_the_cpus() {
        assert_eq!(copies_up_to(1), [1, 2]);
        assert_eq!(copies_up_to(2), [1, 2, 3, 4]);
        assert_eq!(copies_up_to(8), [1, 2, 4, 6, 8, 12, 16]);
        assert_eq!(copies_up_to(96), [1, 2, 4, 8, 16, 32, 64, 72, 96, 144, 192]);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let wrong = |plan: ScalePlan| Experiment::Scale(plan).check().unwrap_err().to_string();
        assert_eq!(
            wrong(ScalePlan { copies: vec![], ..plan() }),
            "copies: expected increasing numbers from 1, such as 1,2,4"
        );
        assert_eq!(
            wrong(ScalePlan { copies: vec![0, 1], ..plan() }),
            "copies: expected increasing numbers from 1, such as 1,2,4"
        );
        assert_eq!(wrong(ScalePlan { command: vec![], ..plan() }), "command: expected a program, after `--`");
    }
}
