//! Plan of reads at every buffer size: sizes, data, calls, order.

use std::time::Duration;

use record::bakeoff::{Levels, Trial};
use toml::{Table, Value};

use crate::experiment::{NotAnExperiment, SEED_MAX, StoredPlan, expected, number_value, span_text};
use crate::order::Stream;

/// Longest time of a point.
const POINT_MAX: Duration = Duration::from_secs(1);
const HOW: &str = "how";
const DATA: &str = "data";
/// Largest buffer of the original experiment.
pub const SIZE_MAX: u64 = 102_400;
/// Number of bytes in a stratum; one random size comes from each.
const STRATUM: u64 = 64;
/// Step of the sizes that are measured together with both neighbors.
const STEP: u64 = 1_024;
/// Block size that divides every `O_DIRECT` buffer.
pub(crate) const DIRECT_BLOCK: u64 = 512;
/// Process starts in each round.
const STARTS: usize = 50;

/// Plan of a sweep over buffer sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlan {
    /// One line for people.
    pub title: String,
    /// Calls that read.
    pub how: Vec<How>,
    /// Data sets.
    pub data: Vec<Data>,
    /// Directory of the files.
    pub folder: String,
    /// Whether to measure every size from 1 on, instead of a selection.
    pub full: bool,
    /// Largest size.
    pub size_max: u64,
    /// Number of measurements of every size.
    pub rounds: u32,
    /// Length of each measurement.
    pub point: Duration,
    /// Size that is measured repeatedly, to detect drift of the machine.
    pub reference: u64,
    /// Number of sizes between two such measurements.
    pub reference_every: u32,
    /// Random seed of sizes and order.
    pub seed: u64,
}

/// Call that moves data into the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// `read(2)`, from the end of the previous read.
    Read,
    /// `pread(2)`.
    Pread,
    /// Copy from `mmap(2)`.
    Mmap,
    /// `pread(2)` with `O_DIRECT`.
    Direct,
    /// The program `dd`, once for each size: the original experiment.
    Dd,
    /// Reads no data: the time to start `dd` by `posix_spawn(3)`.
    Spawn,
    /// Reads no data: the time to start `dd` by `fork(2)` and `exec(2)`.
    ForkExec,
}

impl How {
    /// All values.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Pread, Self::Mmap, Self::Direct, Self::Dd, Self::Spawn, Self::ForkExec];

    /// Word in plans.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Pread => "pread",
            Self::Mmap => "mmap",
            Self::Direct => "direct",
            Self::Dd => "dd",
            Self::Spawn => "posix-spawn",
            Self::ForkExec => "fork-exec",
        }
    }

    /// Call of a word, the inverse of [`Self::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|h| h.word() == word)
    }

    /// Whether it starts processes and reads no data.
    pub fn starts_only(self) -> bool {
        matches!(self, Self::Spawn | Self::ForkExec)
    }
}

/// File that is read repeatedly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Cache that it fits, `L2` or `L3`, or `DRAM`, or its size as written.
    pub name: String,
    /// Size.
    pub bytes: u64,
}

impl SweepPlan {
    /// Factor of the call.
    pub const HOW: &'static str = HOW;
    /// Factor of the data.
    pub const DATA: &'static str = DATA;

    /// Sizes, in rising order: all, or every multiple of 1 KiB and every power of two with both neighbors,
    /// and one drawn from each stratum of 64 bytes.
    pub fn sizes(&self) -> Vec<u64> {
        if self.full {
            return (1..=self.size_max).collect();
        }
        let around = |n: u64| [n.saturating_sub(1), n, n + 1];
        let multiples = (1..=self.size_max / STEP).flat_map(|k| around(k * STEP));
        let powers =
            (0..u64::BITS - 1).map(|i| 1_u64 << i).take_while(|n| *n <= self.size_max).flat_map(around);
        let mut stream = Stream::of(self.seed, u64::MAX);
        let strata = (0..self.size_max.div_ceil(STRATUM)).map(|i| i * STRATUM + 1 + stream.below(STRATUM));
        let mut sizes: Vec<u64> = multiples.chain(powers).chain(strata).collect();
        sizes.retain(|n| (1..=self.size_max).contains(n));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Sizes of a trial in the order of measurement; every trial has a separate order.
    pub fn order(&self, trial: &Trial) -> Vec<u64> {
        let how = self.how_of(trial);
        let mut sizes = if how.starts_only() { vec![0; STARTS] } else { self.sizes() };
        if how == How::Direct {
            for size in &mut sizes {
                *size = size.next_multiple_of(DIRECT_BLOCK);
            }
            sizes.dedup();
        }
        Stream::of(self.seed, u64::from(trial.index) + 1).shuffle(&mut sizes);
        sizes
    }

    /// Call of a trial.
    pub fn how_of(&self, trial: &Trial) -> How {
        How::from_word(&trial.levels[HOW]).expect("trials are made from the plan")
    }

    /// Data of a trial.
    pub fn data_of(&self, trial: &Trial) -> &Data {
        self.data.iter().find(|d| d.name == trial.levels[DATA]).expect("trials are made from the plan")
    }

    /// Cells; starting a process reads no data, so it is measured once per round, under the name of the first
    /// data.
    pub(crate) fn cells(&self) -> Vec<Levels> {
        let cell = |how: &How, data: &Data| {
            Levels::from([(HOW.to_owned(), how.word().to_owned()), (DATA.to_owned(), data.name.clone())])
        };
        let mut cells = Vec::new();
        for how in &self.how {
            let data = if how.starts_only() { &self.data[..1] } else { &self.data[..] };
            cells.extend(data.iter().map(|data| cell(how, data)));
        }
        cells
    }

    pub(crate) fn check(&self) -> Result<(), NotAnExperiment> {
        let names: Vec<&String> = self.data.iter().map(|d| &d.name).collect();
        let largest = self.size_max.max(self.reference).next_multiple_of(DIRECT_BLOCK);
        let rules = [
            (
                !self.how.is_empty() && each_once(&self.how),
                "how",
                "calls such as pread,mmap, without duplicates",
            ),
            (!self.data.is_empty() && each_once(&names), "data", "l2, l3, dram or sizes, without duplicates"),
            (self.size_max >= 1, "max", "a size over 0"),
            (self.size_max <= 1 << 30, "max", "at most 1GiB"),
            (self.reference >= 1, "reference", "a size over 0"),
            (
                self.data.iter().all(|d| d.bytes >= largest),
                "data",
                "files no smaller than the largest buffer (--max) and the reference",
            ),
            (self.reference_every >= 1, "reference-every", "a number over 0"),
            ((1..=1_000).contains(&self.rounds), "rounds", "1 to 1000"),
            (!self.point.is_zero(), "point", "a duration over 0"),
            // A point is not interrupted: Ctrl-C waits for its end.
            (self.point <= POINT_MAX, "point", "at most 1s"),
            (self.seed <= SEED_MAX, "seed", "a number below 2^63"),
        ];
        rules.into_iter().find(|(ok, ..)| !ok).map_or(Ok(()), |(_, key, what)| Err(expected(key, what)))
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        let mut put = |key: &str, value: Value| table.insert(key.to_owned(), value);
        let data = self.data.iter().map(|d| format!("{}={}", d.name, d.bytes).into()).collect();
        put("title", self.title.clone().into());
        put("how", Value::Array(self.how.iter().map(|h| h.word().into()).collect()));
        put("data", Value::Array(data));
        put("folder", self.folder.clone().into());
        put("full", self.full.into());
        put("max", number_value(self.size_max));
        put("rounds", i64::from(self.rounds).into());
        put("point", span_text(self.point));
        put("reference", number_value(self.reference));
        put("reference-every", i64::from(self.reference_every).into());
        put("seed", number_value(self.seed));
        table
    }

    pub(crate) fn read(stored: &StoredPlan<'_>) -> Result<Self, NotAnExperiment> {
        let how: Option<Vec<How>> = stored.texts("how")?.iter().map(|w| How::from_word(w)).collect();
        let data = |text: &String| {
            let (name, bytes) = text.split_once('=')?;
            Some(Data { name: name.to_owned(), bytes: bytes.parse().ok()? })
        };
        let data: Option<Vec<Data>> = stored.texts("data")?.iter().map(data).collect();
        let plan = Self {
            title: stored.text("title")?.to_owned(),
            how: how.ok_or_else(|| expected("how", "calls such as pread and mmap"))?,
            data: data.ok_or_else(|| expected("data", "names with sizes, such as L2=524288"))?,
            folder: stored.text("folder")?.to_owned(),
            full: stored.flag("full")?,
            size_max: stored.number("max")?,
            rounds: stored.small("rounds")?,
            point: stored.span("point")?,
            reference: stored.number("reference")?,
            reference_every: stored.small("reference-every")?,
            seed: stored.number("seed")?,
        };
        plan.check().map(|()| plan)
    }
}

fn each_once<T: PartialEq>(list: &[T]) -> bool {
    list.iter().enumerate().all(|(i, item)| !list[..i].contains(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    fn plan() -> SweepPlan {
        SweepPlan {
            title: "reads".into(),
            how: vec![How::Pread, How::Direct, How::Spawn],
            data: vec![
                Data { name: "L2".into(), bytes: 1 << 19 },
                Data { name: "DRAM".into(), bytes: 1 << 27 },
            ],
            folder: "/tmp/x y".into(),
            full: false,
            size_max: SIZE_MAX,
            rounds: 4,
            point: Duration::from_micros(1_500),
            reference: 65_536,
            reference_every: 16,
            seed: 11,
        }
    }

    #[test]
    fn a_plan_reads_back_from_its_text() {
        let plan = Experiment::Sweep(plan());
        assert_eq!(Experiment::read(&plan.text()), Ok(plan));
    }

    #[test]
    fn every_page_multiple_and_power_of_two_has_its_neighbours_and_every_stretch_a_size() {
        let sizes = plan().sizes();
        assert!(sizes.windows(2).all(|w| w[0] < w[1]));
        let has = |n: u64| sizes.binary_search(&n).is_ok();
        for page in (4_096..SIZE_MAX).step_by(4_096) {
            assert!(has(page - 1) && has(page) && has(page + 1), "{page}");
        }
        for power in (1..17).map(|i| 1_u64 << i) {
            assert!((power == 1 || has(power - 1)) && has(power) && has(power + 1), "{power}");
        }
        for stretch in (0..SIZE_MAX).step_by(64) {
            assert!(sizes.iter().any(|n| (stretch + 1..=stretch + 64).contains(n)), "{stretch}");
        }
        assert_eq!((sizes[0], *sizes.last().unwrap()), (1, SIZE_MAX));
        let full = SweepPlan { full: true, ..plan() }.sizes();
        assert_eq!((full.len(), full[0], full[102_399]), (102_400, 1, 102_400));
    }

    #[test]
    fn every_trial_has_every_size_in_an_order_of_its_own() {
        let plan = plan();
        let trials = Experiment::Sweep(plan.clone()).trials();
        assert_eq!(trials.len(), 4 * 5, "starting a process has no data");
        let pread: Vec<Vec<u64>> =
            trials.iter().filter(|t| t.levels[HOW] == "pread").map(|t| plan.order(t)).collect();
        for order in &pread {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, plan.sizes());
        }
        assert!((1..pread.len()).all(|i| pread[i] != pread[0]));
        let direct = trials.iter().find(|t| t.levels[HOW] == "direct").unwrap();
        assert!(plan.order(direct).iter().all(|n| n % DIRECT_BLOCK == 0 && *n > 0));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let wrong = |plan: SweepPlan| Experiment::Sweep(plan).check().unwrap_err().to_string();
        assert_eq!(wrong(SweepPlan { size_max: 0, ..plan() }), "max: expected a size over 0");
        assert_eq!(
            wrong(SweepPlan { how: vec![How::Read; 2], ..plan() }),
            "how: expected calls such as pread,mmap, without duplicates"
        );
        let long = wrong(SweepPlan { point: Duration::from_millis(1_001), ..plan() });
        assert_eq!(long, "point: expected at most 1s");
        let small = Data { name: "1".into(), bytes: 1 };
        assert!(
            wrong(SweepPlan { data: vec![small], ..plan() }).starts_with("data: expected files no smaller")
        );
    }
}
