//! A plan as meant: the parts fit together.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use record::bakeoff::{Factor, Judge, Metric, Plot, blocks_min, smallest_p};
use record::target::{mask_text, whole_lines};
use sha2::{Digest as _, Sha256};

use crate::error::{Lines, Place, Problem, ProblemKind, human, meant};
use crate::held::{Held, Holds};
use crate::keys::{self, Kind, Placeholders};
use crate::load::{LoadKeys, RateWritten};
use crate::matrix;
use crate::meant::{EnvPlan, Gate, Note, Plan, PreparePlan, RunPlan, ServerPlan, Warmup, cpu_list};
use crate::secret;
use crate::template::{AnyTemplated, SCRATCH, Templated};
use crate::written::{
    DesignWritten, EnvWritten, FactorWritten, GateWritten, JudgeWritten, PhasesWritten, PlanWritten,
    PrepareWritten, RunWritten, ServerWritten, Written,
};

/// More trials than a year of one-minute measurements has room for are a slip of the pen.
const TRIALS_MAX: u32 = 100_000;

/// The plan, and what is wrong with it added to `problems`. Where anything was wrong, also before, the plan is only
/// worth looking for more: what could not be read is left out of it.
pub(crate) fn check(
    written: PlanWritten,
    text: &str,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<Plan> {
    let mut checker = Checker { problems, remarks: Vec::new(), unbuilt: Vec::new() };
    let factors = checker.factors(&written.factors);
    let resolvable = checker.placeholders(&written, &factors);
    checker.environment(&written, &factors);
    checker.value_names(&written);
    let counted = checker.count(&written.design, &factors);
    if resolvable && counted {
        checker.values(&written, &factors);
        checker.together(&written, &factors);
    }
    checker.secrets(&written, text, &Lines::of(text));
    checker.budget(&written, &factors);
    checker.cpus(written.server.as_ref());
    checker.instruments(&written);
    checker.changes_nothing(&written, &factors);
    let judge = checker.judge(&written.judge, &written.load, &factors);
    let metrics = written.judge.metrics.as_ref().map(|metrics| metrics.place);
    let gates = checker.gates(&written.gates, written.design.blocks.as_ref(), judge.as_ref());
    checker.later(&written);
    if let (Some(blocks), Some(judge), []) = (&written.design.blocks, &judge, &written.gates[..]) {
        checker.exploratory(blocks, judge.alpha);
    }
    let Checker { remarks, unbuilt, problems } = checker;
    if !problems.is_empty() {
        return None;
    }
    let measured = written.phases.measure.as_ref().map(|measure| measure.place);
    let mut plan = assemble(written, text, name, Parts { factors, judge: judge?, gates, remarks, unbuilt })?;
    judge_what_holds(&mut plan, metrics.is_some(), metrics.or(measured)?);
    Some(plan)
}

/// Without metrics in the plan, those are judged that its phases hold for sure; what they do not hold is noted.
fn judge_what_holds(plan: &mut Plan, written: bool, place: Place) {
    if !written {
        let sure = plan.held().into_iter().filter(|held| held.holds == Holds::Yes).map(|held| held.metric);
        let sure: Vec<Metric> = sure.collect();
        if !sure.is_empty() {
            plan.judge.metrics = sure;
        }
    }
    let notes: Vec<String> = plan.held().iter().filter_map(Held::note).collect();
    plan.remarks.extend(notes.into_iter().map(|text| Note { place, text }));
}

struct Parts {
    factors: Vec<Factor>,
    judge: Judge,
    gates: Vec<Gate>,
    remarks: Vec<Note>,
    unbuilt: Vec<Note>,
}

struct Checker<'a> {
    problems: &'a mut Vec<Problem>,
    remarks: Vec<Note>,
    unbuilt: Vec<Note>,
}

impl Checker<'_> {
    fn problem(&mut self, place: Place, kind: ProblemKind) {
        self.problems.push(Problem { place, kind });
    }

    fn remark(&mut self, place: Place, text: impl Into<String>) {
        self.remarks.push(Note { place, text: text.into() });
    }

    fn factors(&mut self, written: &[FactorWritten]) -> Vec<Factor> {
        written.iter().map(|factor| self.factor(factor)).collect()
    }

    fn factor(&mut self, written: &FactorWritten) -> Factor {
        let name = &written.name;
        if let Some(why) = no_factor_name(&name.value) {
            self.problem(name.place, ProblemKind::BadFactorName { name: name.value.clone(), why });
        }
        let mut values: Vec<String> = Vec::new();
        for value in &written.values {
            if values.contains(&value.value) {
                let kind = ProblemKind::ValueTwice { factor: name.value.clone(), value: value.value.clone() };
                self.problem(value.place, kind);
            } else {
                values.push(value.value.clone());
            }
        }
        let plot = written.level.as_ref().map_or(Plot::Whole, |level| level.value);
        let reference = match (&written.reference, plot) {
            (None, Plot::Whole) if values.len() == 1 => Some(values[0].clone()),
            (None, Plot::Whole) if written.level.is_some() && values.len() > 1 => {
                let key = find_key("factors.*", "reference");
                let kind = ProblemKind::MissingKey {
                    key: "reference".into(),
                    table: format!("[factors.{}]", name.value),
                    expected: "the value that the others are compared with".into(),
                    example: key.example.into(),
                };
                self.problem(name.place, kind);
                None
            }
            (None, _) => None,
            (Some(reference), Plot::Sub) => {
                let kind = ProblemKind::BadValue {
                    key: format!("factors.{}.reference", name.value),
                    found: format!("\"{}\"", reference.value),
                    expected: "none: the values of a sub-plot factor are not compared with each other".into(),
                };
                self.problem(reference.place, kind);
                None
            }
            (Some(reference), Plot::Whole) => {
                if !values.is_empty() && !values.contains(&reference.value) {
                    let kind = ProblemKind::ReferenceIsNoValue {
                        factor: name.value.clone(),
                        reference: reference.value.clone(),
                        meant: meant(&reference.value, values.iter().map(String::as_str)),
                        known: values.clone(),
                    };
                    self.problem(reference.place, kind);
                }
                Some(reference.value.clone())
            }
        };
        Factor { name: name.value.clone(), values, reference, plot }
    }

    /// Whether every placeholder stands for something that may vary where it is used.
    fn placeholders(&mut self, written: &PlanWritten, factors: &[Factor]) -> bool {
        let before = self.problems.len();
        for template in templates(written) {
            let key = template.path().to_owned();
            for name in template.names().into_iter().filter(|&name| name != SCRATCH) {
                let kind = match (factors.iter().find(|f| f.name == name), template.key().placeholders) {
                    (None, _) => ProblemKind::UnknownPlaceholder {
                        key: key.clone(),
                        name: name.into(),
                        meant: meant(name, factors.iter().map(|f| f.name.as_str()).chain([SCRATCH])),
                        known: factors.iter().map(|f| f.name.clone()).chain([SCRATCH.into()]).collect(),
                    },
                    (Some(factor), Placeholders::WholePlot { because }) if factor.plot == Plot::Sub => {
                        ProblemKind::SubPlotTooDeep { key: key.clone(), factor: name.into(), why: because }
                    }
                    (Some(_), _) => continue,
                };
                self.problem(template.place(), kind);
            }
        }
        self.problems.len() == before
    }

    /// A value's name heads a series in the archive, and says in its end what the number counts.
    fn value_names(&mut self, written: &PlanWritten) {
        for name in written.values.iter().map(|v| &v.name) {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let has_unit =
                VALUE_UNITS.iter().any(|unit| name.value.strip_suffix(unit).is_some_and(|n| !n.is_empty()));
            if !has_unit || !name.value.chars().all(plain) {
                self.problem(
                    name.place,
                    ProblemKind::BadValueName { name: name.value.clone(), units: &VALUE_UNITS },
                );
            }
        }
    }

    /// Whether every value with a placeholder is one of its kind for every cell.
    fn values(&mut self, written: &PlanWritten, factors: &[Factor]) {
        for template in templates(written) {
            let used: BTreeSet<&str> = template.names().into_iter().collect();
            let factors: Vec<Factor> =
                factors.iter().filter(|f| used.contains(f.name.as_str())).cloned().collect();
            let mut cautions: Vec<String> = Vec::new();
            for whole in matrix::cells(&factors, Plot::Whole) {
                for sub in matrix::cells(&factors, Plot::Sub) {
                    let cell = matrix::merged(&whole, &sub);
                    self.problems.extend(template.problem(&cell));
                    cautions.extend(template.cautions(&cell));
                }
            }
            self.caution(template.place(), cautions);
        }
    }

    /// One remark for a place, however many levels it is about.
    fn caution(&mut self, place: Place, mut cautions: Vec<String>) {
        cautions.dedup();
        let Some(first) = cautions.first() else { return };
        match cautions.len() - 1 {
            0 => self.remark(place, first.clone()),
            more => self.remark(place, format!("{first} (and {more} more levels)")),
        }
    }

    /// Secrets stand in texts for servers, loads and commands, never in what is printed everywhere; and a secret that is
    /// written out is better a reference.
    fn secrets(&mut self, written: &PlanWritten, text: &str, lines: &Lines<'_>) {
        for template in templates(written) {
            let takes_any = matches!(template.key().kind, Kind::Text | Kind::Form(_) | Kind::Table { .. });
            for reference in template.secrets().into_iter().filter(|_| !takes_any) {
                let kind = ProblemKind::SecretMisplaced {
                    key: template.path().to_owned(),
                    reference: reference.to_string(),
                    why: "only texts for the server, the load and the commands may",
                };
                self.problem(template.place(), kind);
            }
        }
        for factor in &written.factors {
            for value in &factor.values {
                for (_, reference) in secret::references(&value.value) {
                    let kind = ProblemKind::SecretMisplaced {
                        key: format!("factors.{}.values", factor.name.value),
                        reference: reference.to_string(),
                        why: "levels are printed in every table; let the level name the account instead",
                    };
                    self.problem(value.place, kind);
                }
            }
        }
        let mut start = 0;
        for line in whole_lines(text) {
            let masked = mask_text(line);
            if masked != line {
                let at = line.bytes().zip(masked.bytes()).take_while(|(a, b)| a == b).count();
                self.remark(
                    lines.place(&(start + at..start + at)),
                    "this looks like a secret: the archive masks it, and `resume` then needs this very file; write \
                     `{env:NAME}` or `{file:PATH}` instead, which `run` and `resume` read",
                );
            }
            start += line.len();
        }
    }

    /// Whether the keys of the load go together in every cell. Only where each is good by itself; one cell speaks for all.
    fn together(&mut self, written: &PlanWritten, factors: &[Factor]) {
        if !self.problems.is_empty() {
            return;
        }
        let subs = matrix::cells(factors, Plot::Sub);
        let cells = matrix::cells(factors, Plot::Whole);
        let mut all = cells.iter().flat_map(|whole| subs.iter().map(|sub| matrix::merged(whole, sub)));
        self.problems.extend(all.find_map(|levels| written.load.conflict(&levels)));
    }

    /// Whether the trials can be counted and are not too many.
    fn count(&mut self, design: &DesignWritten, factors: &[Factor]) -> bool {
        let cells: u128 = factors.iter().map(|f| f.values.len() as u128).product();
        let Some(blocks) = &design.blocks else { return cells <= u128::from(TRIALS_MAX) };
        let trials = cells * u128::from(blocks.value);
        if trials > u128::from(TRIALS_MAX) {
            self.problem(blocks.place, ProblemKind::TooManyTrials { trials, limit: TRIALS_MAX });
        }
        trials <= u128::from(TRIALS_MAX)
    }

    fn environment(&mut self, written: &PlanWritten, factors: &[Factor]) {
        let mut seen = BTreeSet::new();
        for only in written.server.iter().flat_map(|s| &s.env).filter_map(|e| e.only.as_ref()) {
            if !seen.insert(&only.value) {
                continue;
            }
            let owners = owners(&only.value, factors);
            let whole: Vec<_> = factors.iter().filter(|f| f.plot == Plot::Whole).collect();
            match &owners[..] {
                [_] => {}
                [] => {
                    let known: Vec<String> = whole.iter().flat_map(|f| f.values.clone()).collect();
                    let kind = ProblemKind::EnvironmentForNoValue {
                        name: only.value.clone(),
                        meant: meant(&only.value, known.iter().map(String::as_str)),
                        known,
                    };
                    self.problem(only.place, kind);
                }
                several => {
                    let factors = several.iter().map(|(factor, _)| factor.clone()).collect();
                    let kind = ProblemKind::EnvironmentIsAmbiguous { value: only.value.clone(), factors };
                    self.problem(only.place, kind);
                }
            }
        }
    }

    fn budget(&mut self, written: &PlanWritten, factors: &[Factor]) {
        let (design, phases) = (&written.design, &written.phases);
        let (Some(budget), Some(blocks), Some(warmup), Some(measure), Some(cooldown)) =
            (&design.time_budget, &design.blocks, &phases.warmup_min, &phases.measure, &phases.cooldown)
        else {
            return;
        };
        let cells: u32 = factors.iter().map(|f| u32::try_from(f.values.len()).unwrap_or(u32::MAX)).product();
        let each = warmup.value + measure.value + cooldown.value;
        let needed = each.saturating_mul(cells.saturating_mul(blocks.value));
        if needed > budget.value {
            let made_of = format!(
                "{cells} cells x {} blocks x {} each ({} warm-up, {} measured, {} cool-down)",
                blocks.value,
                human(each),
                human(warmup.value),
                human(measure.value),
                human(cooldown.value),
            );
            let kind = ProblemKind::BudgetTooSmall { budget: budget.value, needed, made_of };
            self.problem(budget.place, kind);
        }
    }

    fn cpus(&mut self, server: Option<&ServerWritten>) {
        let Some(server) = server else { return };
        if let (Some(cpus), Some(instances)) = (&server.cpus, &server.instances) {
            let bad = cpus.value.iter().find(|text| cpu_list(text).is_none());
            let wrong = match bad {
                Some(text) => Some((
                    format!("\"{text}\""),
                    "a list of CPUs such as \"0\", \"0-3\" or \"0,2,8-11\"".into(),
                )),
                None if cpus.value.len() != instances.value as usize => Some((
                    format!("a list of {}", cpus.value.len()),
                    format!("one list for each of the {} instances", instances.value),
                )),
                None => None,
            };
            if let Some((found, expected)) = wrong {
                self.problem(
                    cpus.place,
                    ProblemKind::BadValue { key: "server.cpus".into(), found, expected },
                );
            }
        }
        if let Some(user) = server.user.as_ref().filter(|user| matches!(user.value.as_str(), "root" | "0")) {
            self.remark(
                user.place,
                "`user = \"root\"`: anyone who can make the server do what they want has this machine; leave `user` \
                 out to run it as an unprivileged user",
            );
        }
        if let Some(instances) = server.instances.as_ref().filter(|i| i.value > 1) {
            let text = format!(
                "`instances = {}`: several instances are not built yet in this version",
                instances.value
            );
            self.unbuilt.push(Note { place: instances.place, text });
        }
    }

    fn instruments(&mut self, written: &PlanWritten) {
        if let Some(list) = &written.instruments {
            let others: Vec<_> = list.value.iter().filter(|i| *i != "cpu").map(String::as_str).collect();
            if !others.is_empty() {
                let text = format!(
                    "the instruments {} are not built yet and are recorded as missing",
                    others.join(", ")
                );
                self.remark(list.place, text);
            }
        }
        if let Some(arm) = written.control_arm.as_ref().filter(|arm| arm.value) {
            self.remark(
                arm.place,
                "the control arm is not built yet: what observing cost is recorded as missing",
            );
        }
    }

    /// A whole-plot factor that nothing depends on is the same configuration under several names. That is how false
    /// alarms are counted, and it is also how a typing error looks.
    fn changes_nothing(&mut self, written: &PlanWritten, factors: &[Factor]) {
        let templates = templates(written);
        let mut used: BTreeSet<String> =
            templates.iter().flat_map(|t| t.names()).map(str::to_owned).collect();
        let env = written.server.iter().flat_map(|s| &s.env).filter_map(|e| e.only.as_ref());
        used.extend(env.flat_map(|only| owners(&only.value, factors)).map(|(factor, _)| factor));
        for (factor, place) in factors.iter().zip(written.factors.iter().map(|f| f.name.place)) {
            if factor.values.len() > 1 && !used.contains(&factor.name) {
                let name = &factor.name;
                let text = format!(
                    "nothing uses `{{{name}}}`: the values of factor `{name}` are one configuration under several names"
                );
                self.remark(place, text);
            }
        }
    }

    fn judge(&mut self, written: &JudgeWritten, load: &LoadKeys, factors: &[Factor]) -> Option<Judge> {
        let family = family(factors);
        if let Some(found) = written.family.as_ref().filter(|found| found.value != family) {
            let kind = ProblemKind::BadValue {
                key: "judge.family".into(),
                found: format!("\"{}\"", found.value),
                expected: format!("\"{family}\", which is what is compared"),
            };
            self.problem(found.place, kind);
        }
        let closed = !matches!(&load.rate, Some(RateWritten::Plain(rate)) if !rate.template.is("max"));
        let metrics = match &written.metrics {
            Some(list) => list.value.iter().filter_map(|word| Metric::from_word(word)).collect(),
            None => Metric::ALL.iter().copied().filter(|m| closed || *m != Metric::Throughput).collect(),
        };
        Some(Judge {
            rope_ratio: written.rope.as_ref()?.value,
            alpha: written.alpha.as_ref()?.value,
            family,
            metrics,
        })
    }

    fn gates(
        &mut self,
        written: &[GateWritten],
        blocks: Option<&Written<u32>>,
        judge: Option<&Judge>,
    ) -> Vec<Gate> {
        let Some(first) = written.first() else { return Vec::new() };
        if let (Some(blocks), Some(judge)) = (blocks, judge) {
            let needed = blocks_min(judge.alpha);
            if blocks.value < needed {
                let kind = ProblemKind::GateNeedsBlocks { alpha: judge.alpha, blocks: blocks.value, needed };
                self.problem(blocks.place, kind);
            }
        }
        let text = "`[[gate]]`: gates are not built yet in this version; without them, `bakeoff report` shows the verdicts";
        self.unbuilt.push(Note { place: first.place, text: text.into() });
        written
            .iter()
            .filter_map(|gate| {
                Some(Gate {
                    metric: gate.metric.as_ref()?.value,
                    rule: gate.rule.as_ref()?.value,
                    on_inconclusive: gate.on_inconclusive.as_ref()?.value,
                })
            })
            .collect()
    }

    /// What is read and kept, and not done yet.
    fn later(&mut self, written: &PlanWritten) {
        match &written.load.rate {
            Some(RateWritten::Shares(place)) => self.unbuilt.push(Note {
                place: *place,
                text: "`rate` as shares of the capacity needs a search for the capacity, which is not built yet in this \
                       version; give events per second"
                    .into(),
            }),
            Some(RateWritten::Promise(place)) => self.unbuilt.push(Note {
                place: *place,
                text: "`rate = { slo = ... }` needs a search for the highest rate, which is not built yet in this \
                       version; give events per second"
                    .into(),
            }),
            Some(RateWritten::Plain(_)) | None => {}
        }
        let phases = &written.phases;
        let place =
            phases.warmup_judge.as_ref().map(|j| j.place).or(phases.warmup_max.as_ref().map(|m| m.place));
        if let Some(place) = place {
            self.remark(place, "steadiness is not judged yet: every warm-up lasts `min`");
        }
    }

    fn exploratory(&mut self, blocks: &Written<u32>, alpha: f64) {
        let needed = blocks_min(alpha);
        if blocks.value < needed {
            let text = format!(
                "exploratory: with {} the smallest p that the exact test can yield is {}, so that no claim at alpha \
                 {alpha} is possible; it takes {needed} blocks",
                if blocks.value == 1 { "1 block".into() } else { format!("{} blocks", blocks.value) },
                smallest_p(blocks.value),
            );
            self.remark(blocks.place, text);
        }
    }
}

/// What is compared: every configuration with the reference at each cell within the series.
fn family(factors: &[Factor]) -> String {
    let names = |plot| {
        let varied = factors.iter().filter(|f| f.plot == plot && f.values.len() > 1);
        varied.map(|f| f.name.as_str()).collect::<Vec<_>>().join(" x ")
    };
    match (names(Plot::Whole), names(Plot::Sub)) {
        (whole, _) if whole.is_empty() => "one configuration: nothing is compared".into(),
        (whole, sub) if sub.is_empty() => format!("{whole} vs reference"),
        (whole, sub) => format!("{whole} vs reference at each {sub}"),
    }
}

/// The whole-plot factors, with their values, that `jemalloc` or `allocator=jemalloc` can mean.
fn owners(only: &str, factors: &[Factor]) -> Vec<(String, String)> {
    let whole = factors.iter().filter(|f| f.plot == Plot::Whole);
    let pairs = whole.flat_map(|f| f.values.iter().map(|v| (f.name.clone(), v.clone())));
    pairs.filter(|(factor, value)| only == value || only == format!("{factor}={value}")).collect()
}

/// Marks that every run of a bake-off carries beside the levels of its factors.
const DESIGN_WORDS: [&str; 6] = ["trial", "attempt", "block", "series", "shortened", "beside-others"];

/// How the name of a value may end.
const VALUE_UNITS: [&str; 6] = ["_pct", "_ratio", "_bytes", "_s", "_ns", "_count"];

fn no_factor_name(name: &str) -> Option<&'static str> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name == SCRATCH {
        Some("`{scratch}` stands for the folder of a series")
    } else if DESIGN_WORDS.contains(&name) {
        Some("the runs of a bake-off carry it as a mark of the design")
    } else if name.is_empty() || !name.chars().all(plain) {
        Some("use lower-case letters, digits, `_` and `-`")
    } else {
        None
    }
}

fn find_key(table: &str, name: &str) -> &'static keys::Key {
    keys::table(table).keys.iter().find(|k| k.name == name).expect("callers name keys that are declared")
}

/// Every value that may have placeholders.
fn templates(written: &PlanWritten) -> Vec<&dyn AnyTemplated> {
    fn any<T>(template: Option<&Templated<T>>) -> Option<&dyn AnyTemplated> {
        template.map(|t| t as &dyn AnyTemplated)
    }
    let mut all = written.load.templates();
    if let Some(server) = &written.server {
        all.extend([any(server.command.as_ref()), any(server.ready.as_ref())].into_iter().flatten());
        all.extend(server.env.iter().map(|e| &e.value as &dyn AnyTemplated));
    }
    let prepare = match &written.phases.prepare {
        Some(PrepareWritten::Run(run)) => Some(run),
        _ => None,
    };
    let commands = written.phases.setup.iter().chain(prepare).chain(written.values.iter().map(|v| &v.run));
    all.extend(commands.filter_map(|run| any(run.run.as_ref())));
    all
}

/// Puts the plan together. `None` only where something is missing, which was noted when it was read.
fn assemble(written: PlanWritten, text: &str, name: &str, parts: Parts) -> Option<Plan> {
    let PlanWritten { design, phases, .. } = written;
    Some(Plan {
        name: name.to_owned(),
        text: text.to_owned(),
        sha256: sha256(text),
        title: written.title?.value,
        question: written.question.map(|q| q.value).unwrap_or_default(),
        blocks: design.blocks?.value,
        seed: design.seed?.value,
        time_budget: design.time_budget.map(|b| b.value),
        load: written.load.whole()?,
        server: match written.server {
            Some(server) => Some(self::server(server, &parts.factors)?),
            None => None,
        },
        factors: parts.factors,
        warmup: warmup(&phases)?,
        measure: phases.measure.as_ref()?.value,
        interval: phases.interval.as_ref()?.value,
        cooldown: phases.cooldown.as_ref()?.value,
        setup: match phases.setup {
            Some(setup) => Some(run(setup)?),
            None => None,
        },
        prepare: match phases.prepare? {
            PrepareWritten::Builtin => PreparePlan::Builtin,
            PrepareWritten::Nothing => PreparePlan::Nothing,
            PrepareWritten::Run(command) => PreparePlan::Run(run(command)?),
        },
        instruments: written.instruments?.value,
        control_arm: written.control_arm?.value,
        values: written
            .values
            .into_iter()
            .map(|v| Some((v.name.value, run(v.run)?)))
            .collect::<Option<_>>()?,
        judge: parts.judge,
        gates: parts.gates,
        sponsor: written.sponsor.map(|s| s.value),
        tuning: written.tuning.map(|t| t.value),
        notes_path: written.notes.map(|n| n.value),
        resolved: written.resolved,
        remarks: parts.remarks,
        unbuilt: parts.unbuilt,
        shortened: false,
    })
}

fn server(written: ServerWritten, factors: &[Factor]) -> Option<ServerPlan> {
    let environment = |e: EnvWritten| EnvPlan {
        only: e.only.and_then(|only| owners(&only.value, factors).pop()),
        name: e.name,
        value: e.value,
    };
    // Variables for everybody first, so that one for a configuration overrides them.
    let (general, particular): (Vec<_>, Vec<_>) = written.env.into_iter().partition(|e| e.only.is_none());
    Some(ServerPlan {
        command: written.command?,
        ready: written.ready?,
        ready_timeout: written.ready_timeout?.value,
        stop: written.stop?.value,
        stop_timeout: written.stop_timeout?.value,
        cpus: written.cpus.and_then(|cpus| cpu_list(cpus.value.first()?)),
        scheduler: written.scheduler?.value,
        user: written.user.map(|user| user.value),
        inherit_env: written.inherit_env?.value,
        environment: general.into_iter().chain(particular).map(environment).collect(),
    })
}

fn run(written: RunWritten) -> Option<RunPlan> {
    Some(RunPlan { run: written.run?, timeout: written.timeout?.value, retries: written.retries?.value })
}

fn warmup(phases: &PhasesWritten) -> Option<Warmup> {
    Some(Warmup {
        min: phases.warmup_min.as_ref()?.value,
        max: phases.warmup_max.as_ref().map(|max| max.value),
        judge: phases.warmup_judge.as_ref().map(|judge| judge.value.clone()).unwrap_or_default(),
    })
}

/// The checksum of a plan's text, as the archive keeps it.
pub fn sha256(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}
