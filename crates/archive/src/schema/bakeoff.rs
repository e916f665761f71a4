//! `order.json`: the plan of a bake-off with every default resolved, and the drawn order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use record::bakeoff::{Bakeoff, Factor, Judge, Levels, Metric, Page, Plot, TRIALS_MAX, Trial};
use record::environment::Environment;
use record::gate::{Gate, GateRule, OnInconclusive};
use serde::{Deserialize, Serialize};

use super::manifest::{Header, StoredFile};
use super::{Form, Real, Wrong, ns, word};
use crate::traits::{MACHINE, Traits};

/// Form of `order.json`.
pub(crate) const FORM: Form = Form { tag: "bakeoff.order/1" };

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    schema: String,
    #[serde(flatten)]
    pub(crate) header: Header,
    question: String,
    exploratory: bool,
    factors: Vec<FactorForm>,
    blocks: u32,
    seed: u64,
    measure_ns: u64,
    warmup_ns: u64,
    judge: JudgeForm,
    page: PageForm,
    plan_sha256: String,
    trials: Vec<TrialForm>,
    pub(crate) files: Vec<StoredFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FactorForm {
    name: String,
    values: Vec<String>,
    reference: Option<String>,
    level: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct JudgeForm {
    rope_ratio: Real,
    alpha: Real,
    family: String,
    metrics: Vec<String>,
    /// Absent in bake-offs of versions that ran no plan with gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gates: Vec<GateForm>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sequential: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct GateForm {
    metric: String,
    /// The rule in a plan's form: `<= 20ms`.
    rule: String,
    on_inconclusive: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct PageForm {
    sponsor: Option<String>,
    tuning: Option<String>,
    notes: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TrialForm {
    trial: u32,
    block: u32,
    series: u32,
    position: u32,
    levels: BTreeMap<String, String>,
}

impl Order {
    /// The form of `bakeoff`, without its environment, its plan's text and its attempts, which have their own
    /// files.
    pub(crate) fn of(bakeoff: &Bakeoff, files: Vec<StoredFile>) -> Self {
        let Bakeoff {
            header,
            question,
            exploratory,
            factors,
            blocks,
            seed,
            trials,
            attempts: _,
            judge,
            page,
            measure,
            warmup,
            environment: _,
            plan_text: _,
            plan_sha256,
        } = bakeoff;
        let Judge { rope_ratio, alpha, family, metrics, gates, sequential } = judge;
        let Page { sponsor, tuning, notes } = page.clone();
        Self {
            schema: FORM.tag.to_owned(),
            // The journal records the progress.
            header: Header::of(&header.clone().still_running()),
            question: question.clone(),
            exploratory: *exploratory,
            factors: factors.iter().map(FactorForm::of).collect(),
            blocks: *blocks,
            seed: *seed,
            measure_ns: ns(*measure),
            warmup_ns: ns(*warmup),
            judge: JudgeForm {
                rope_ratio: Real(*rope_ratio),
                alpha: Real(*alpha),
                family: family.clone(),
                metrics: metrics.iter().map(|m| m.word().to_owned()).collect(),
                gates: gates.iter().map(GateForm::of).collect(),
                sequential: *sequential,
            },
            page: PageForm { sponsor, tuning, notes },
            plan_sha256: plan_sha256.clone(),
            trials: trials.iter().map(TrialForm::of).collect(),
            files,
        }
    }

    /// Machine and factors; the targets of a bake-off are those of its runs.
    ///
    /// - `machine`: `None` if its description is damaged: the bake-off is listed all the same.
    pub(crate) fn traits(&self, machine: Option<&Environment>) -> Traits {
        let mut factors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, level) in self.levels().flat_map(|(_, levels)| levels) {
            factors.entry(name.clone()).or_default().insert(level.clone());
        }
        let machine = machine.and_then(|machine| machine.fact(MACHINE)).map(str::to_owned);
        Traits { machine, targets: BTreeSet::new(), factors }
    }

    /// Refuses more trials than any plan has: each takes a kilobyte of memory.
    pub(crate) fn check_trials(&self) -> Result<(), Wrong> {
        match self.trials.len() {
            trials if trials > TRIALS_MAX as usize => {
                Err(Wrong(format!("it lists {trials} trials, limit {TRIALS_MAX}")))
            }
            _ => Ok(()),
        }
    }

    /// Index and levels of every trial.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (u32, &Levels)> {
        self.trials.iter().map(|cell| (cell.trial, &cell.levels))
    }

    /// All trials, in the order drawn.
    pub(crate) fn trials(&self) -> Vec<Trial> {
        self.trials.iter().map(TrialForm::trial).collect()
    }

    /// The bake-off without its attempts; its header has the state at the beginning.
    pub(crate) fn read(self, plan_text: String, environment: Environment) -> Result<Bakeoff, Wrong> {
        let PageForm { sponsor, tuning, notes } = self.page;
        let metric = |found: &String| word("metric", found, Metric::of_load);
        Ok(Bakeoff {
            header: self.header.read()?,
            question: self.question,
            exploratory: self.exploratory,
            factors: self.factors.into_iter().map(FactorForm::read).collect::<Result<_, _>>()?,
            blocks: self.blocks,
            seed: self.seed,
            trials: self.trials.into_iter().map(TrialForm::read).collect(),
            attempts: Vec::new(),
            judge: Judge {
                rope_ratio: self.judge.rope_ratio.0,
                alpha: self.judge.alpha.0,
                family: self.judge.family,
                metrics: self.judge.metrics.iter().map(metric).collect::<Result<_, _>>()?,
                gates: self.judge.gates.iter().map(GateForm::read).collect::<Result<_, _>>()?,
                sequential: self.judge.sequential,
            },
            page: Page { sponsor, tuning, notes },
            measure: Duration::from_nanos(self.measure_ns),
            warmup: Duration::from_nanos(self.warmup_ns),
            environment,
            plan_text,
            plan_sha256: self.plan_sha256,
        })
    }
}

impl GateForm {
    fn of(gate: &Gate) -> Self {
        Self {
            metric: gate.metric.word().to_owned(),
            rule: gate.rule.to_string(),
            on_inconclusive: gate.on_inconclusive.word().to_owned(),
        }
    }

    fn read(&self) -> Result<Gate, Wrong> {
        let metric = word("metric", &self.metric, Metric::of_load)?;
        let rule = word("rule", &self.rule, GateRule::read)?;
        rule.fits(metric).map_err(|unit| Wrong(unit.to_string()))?;
        Ok(Gate {
            metric,
            rule,
            on_inconclusive: word("on_inconclusive", &self.on_inconclusive, OnInconclusive::from_word)?,
        })
    }
}

impl FactorForm {
    fn of(factor: &Factor) -> Self {
        let Factor { name, values, reference, plot } = factor.clone();
        Self { name, values, reference, level: plot.word().to_owned() }
    }

    fn read(self) -> Result<Factor, Wrong> {
        let Self { name, values, reference, level } = self;
        Ok(Factor { name, values, reference, plot: word("level", &level, Plot::from_word)? })
    }
}

impl TrialForm {
    fn of(trial: &Trial) -> Self {
        let Trial { index, block, series, position, levels } = trial.clone();
        Self { trial: index, block, series, position, levels }
    }

    fn trial(&self) -> Trial {
        let Self { trial, block, series, position, levels } = self;
        Trial { index: *trial, block: *block, series: *series, position: *position, levels: levels.clone() }
    }

    fn read(self) -> Trial {
        let Self { trial, block, series, position, levels } = self;
        let levels: Levels = levels;
        Trial { index: trial, block, series, position, levels }
    }
}
