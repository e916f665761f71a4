//! Checks whether the parts of a plan are consistent.

mod assemble;
mod build;
mod checker;
mod fleet;
mod grid;
mod judge;
mod places;
mod slices;

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{CONTROL_ARM, Factor, Levels, Plot};
use record::load::settings::Values;
use record::target::{mask_text, whole_lines};

use self::assemble::{Parts, assemble, warmup};
use self::checker::Checker;
use self::judge::judge_feasible_metrics;
use crate::error::{Lines, Located, Position, Problem, ProblemKind, closest, human, some_of};
use crate::keys::{self, Kind, Placeholders};
use crate::load::{ParsedRate, RATE};
use crate::matrix::{self, Limits};
use crate::parsed::{ParsedFactor, ParsedPhases, ParsedPlan, ParsedPrepare, ParsedServer, ParsedValue};
use crate::phases::When;
use crate::plan::Plan;
use crate::secret;
use crate::template::{AnyTemplated, BUILD, INSTANCE, SCRATCH, Templated};

/// Returns the plan and adds its problems to `problems`. If there is any problem, also an earlier one, the
/// plan only serves to find more problems: it lacks the parts that could not be read.
pub(crate) fn check(
    mut parsed: ParsedPlan,
    text: &str,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<Plan> {
    let mut checker = Checker { problems, remarks: Vec::new(), unsupported: Vec::new() };
    checker.shares(&mut parsed);
    let slices = checker.slices(&mut parsed);
    let mut factors = checker.factors(&parsed.factors);
    let limits = checker.limits(&parsed.design, &parsed.factors, &mut factors);
    checker.build(&parsed, &templates(&parsed));
    let resolvable = checker.placeholders(&parsed, &factors);
    checker.environment(&parsed, &factors);
    checker.value_names(&parsed);
    let limits = limits.filter(|limits| checker.count(&parsed.design, &factors, limits));
    // A factor without readable values must not hide the problems of the others.
    let known: Vec<Factor> = factors.iter().filter(|factor| !factor.values.is_empty()).cloned().collect();
    let cells = limits.as_ref().map(|limits| matrix::cells(&known, limits)).unwrap_or_default();
    if resolvable && let Some(limits) = &limits {
        checker.values(&parsed, &factors, (&cells, limits));
        checker.together(&parsed, &factors, &cells);
        checker.grid(&parsed.design, (&parsed.load, &parsed.gates), &factors, limits);
    }
    checker.secrets(&parsed, text, &Lines::of(text));
    checker.budget(&parsed, &cells);
    checker.places(parsed.server.as_ref(), &cells);
    checker.server(parsed.server.as_ref());
    checker.warmup(&parsed.phases);
    checker.changes_nothing(&parsed, &factors);
    let mut judge = checker.judge(&parsed.judge, &parsed.load, &factors);
    let metrics = parsed.judge.metrics.as_ref().map(|metrics| metrics.position);
    if let Some(judge) = &mut judge {
        judge.sequential = checker.sequential(&parsed, &factors, judge.alpha);
    }
    if let (Some(blocks), Some(judge)) = (&parsed.design.blocks, &mut judge) {
        judge.gates = checker.gates(&parsed.gates, blocks, judge.alpha, &factors);
    }
    if let (Some(blocks), Some(judge), []) = (&parsed.design.blocks, &judge, &parsed.gates[..]) {
        checker.exploratory(blocks, judge.alpha_at_end());
    }
    let Checker { remarks, unsupported, problems } = checker;
    problems.extend(fleet::bad_labels(parsed.fleet.as_ref()));
    if !problems.is_empty() {
        return None;
    }
    let sequential = parsed.design.sequential.as_ref().map(|wanted| wanted.position);
    let measured = parsed.phases.measure.as_ref().map(|measure| measure.position);
    let mode = parsed.design.mode.as_ref().map(|mode| mode.position);
    let client = parsed.client.as_ref().map(|client| client.cpus.position);
    let agents = parsed.fleet.as_ref().map(|fleet| fleet.agents.position);
    let mut plan = assemble(
        parsed,
        text,
        name,
        Parts { factors, limits: limits?, judge: judge?, remarks, unsupported, slices },
    )?;
    judge_feasible_metrics(&mut plan, metrics.is_some(), metrics.or(measured)?);
    if let Some(position) = sequential.filter(|_| plan.drops_by_slope()) {
        problems.push(Problem { position, kind: judge::no_slope() });
        return None;
    }
    problems.extend(slices::refused(&mut plan, mode));
    problems.extend(fleet::refused(&mut plan, agents));
    problems.extend(fleet::no_client(&plan, client));
    problems.is_empty().then_some(plan)
}

impl Checker<'_> {
    /// Adds the factor for shares of the capacity.
    fn shares(&mut self, parsed: &mut ParsedPlan) {
        let Some(ParsedRate::Shares(shares)) = &parsed.load.rate else { return };
        let position = shares.position;
        if parsed.factors.iter().any(|factor| factor.name.value == RATE) {
            let kind = ProblemKind::BadValue {
                key: "load.rate".into(),
                found: format!("{:?}", shares.value),
                expected: "no other factor named `rate`: the shares are the values of the factor `rate`"
                    .into(),
            };
            self.problem(position, kind);
            return;
        }
        let located = |text: &String| Located { value: text.clone(), position };
        parsed.factors.push(ParsedFactor {
            name: Located { value: RATE.to_owned(), position },
            values: shares.value.iter().map(located).collect(),
            reference: None,
            level: Some(Located { value: Plot::Sub, position }),
            only: None,
        });
    }

    fn factors(&mut self, parsed: &[ParsedFactor]) -> Vec<Factor> {
        if let Some(further) = parsed.get(FACTORS_MAX) {
            let kind = ProblemKind::BadValue {
                key: "factors".into(),
                found: format!("{} factors", parsed.len()),
                expected: format!("at most {FACTORS_MAX}"),
            };
            self.problem(further.name.position, kind);
        }
        parsed.iter().take(FACTORS_MAX).map(|factor| self.factor(factor)).collect()
    }

    fn factor(&mut self, parsed: &ParsedFactor) -> Factor {
        let name = &parsed.name;
        if let Some(why) = no_factor_name(&name.value) {
            self.problem(name.position, ProblemKind::BadFactorName { name: name.value.clone(), why });
        }
        let (mut values, mut known): (Vec<String>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
        for value in &parsed.values {
            if known.insert(&value.value) {
                values.push(value.value.clone());
            } else {
                let kind = ProblemKind::ValueTwice { factor: name.value.clone(), value: value.value.clone() };
                self.problem(value.position, kind);
            }
        }
        let plot = parsed.level.as_ref().map_or(Plot::Whole, |level| level.value);
        let reference = match (&parsed.reference, plot) {
            (None, Plot::Whole) if values.len() == 1 => Some(values[0].clone()),
            (None, Plot::Whole) if parsed.level.is_some() && values.len() > 1 => {
                let key = find_key("factors.*", "reference");
                let kind = ProblemKind::MissingKey {
                    key: "reference".into(),
                    table: format!("[factors.{}]", name.value),
                    expected: "the value that the others are compared with".into(),
                    example: key.example.into(),
                };
                self.problem(name.position, kind);
                None
            }
            (None, _) => None,
            (Some(reference), Plot::Sub) => {
                let kind = ProblemKind::BadValue {
                    key: format!("factors.{}.reference", name.value),
                    found: format!("\"{}\"", reference.value),
                    expected: "none: the values of a sub-plot factor are not compared with each other".into(),
                };
                self.problem(reference.position, kind);
                None
            }
            (Some(reference), Plot::Whole) => {
                if !values.is_empty() && !known.contains(reference.value.as_str()) {
                    let kind = ProblemKind::ReferenceIsNoValue {
                        factor: name.value.clone(),
                        reference: reference.value.clone(),
                        closest: closest(&reference.value, values.iter().map(String::as_str)),
                        known: some_of(values.iter().map(String::as_str)),
                    };
                    self.problem(reference.position, kind);
                }
                Some(reference.value.clone())
            }
        };
        Factor { name: name.value.clone(), values, reference, plot }
    }

    /// Whether every placeholder names something that may vary at its position.
    fn placeholders(&mut self, parsed: &ParsedPlan, factors: &[Factor]) -> bool {
        let before = self.problems.len();
        let asks_server =
            |value: &&ParsedValue| value.when.as_ref().is_some_and(|when| when.value != When::End);
        let asking: Vec<String> =
            parsed.values.iter().filter(asks_server).map(|v| v.name.value.clone()).collect();
        for template in templates(parsed) {
            let key = template.path().to_owned();
            let has_instances = key == "load.target"
                || ["server.", "phases."].iter().any(|table| key.starts_with(table))
                || asking.iter().any(|name| key == format!("values.{name}.run"));
            let is_known = |name: &&str| {
                *name == SCRATCH
                    || (has_instances && *name == INSTANCE)
                    || (*name == BUILD && parsed.build.is_some() && key != "build.revision")
            };
            for name in template.names().into_iter().filter(|name| !is_known(name)) {
                let kind = match (factors.iter().find(|f| f.name == name), template.key().placeholders) {
                    (None, _) => ProblemKind::UnknownPlaceholder {
                        key: key.clone(),
                        name: name.into(),
                        closest: closest(name, factors.iter().map(|f| f.name.as_str()).chain([SCRATCH])),
                        known: some_of(factors.iter().map(|f| f.name.as_str()).chain([SCRATCH])),
                    },
                    (Some(factor), Placeholders::WholePlot { because }) if factor.plot == Plot::Sub => {
                        ProblemKind::SubPlotTooDeep { key: key.clone(), factor: name.into(), why: because }
                    }
                    (Some(_), _) => continue,
                };
                self.problem(template.position(), kind);
            }
        }
        self.problems.len() == before
    }

    /// Checks the names of values: a name is the name of a series in the archive, and ends in its unit.
    fn value_names(&mut self, parsed: &ParsedPlan) {
        for value in &parsed.values {
            let name = &value.name;
            let is_over_time = value.when.as_ref().is_some_and(|when| when.value != When::End);
            if let Some(keep) = value.keep.as_ref().filter(|_| !is_over_time) {
                let kind = ProblemKind::BadValue {
                    key: format!("values.{}.keep", name.value),
                    found: format!("{:?}", keep.value),
                    expected: "none: it needs `when = \"interval\"` or `\"settings\"`".into(),
                };
                self.problem(keep.position, kind);
            }
            if let Some(when) = value.when.as_ref().filter(|_| is_over_time && parsed.server.is_none()) {
                let kind = ProblemKind::BadValue {
                    key: format!("values.{}.when", name.value),
                    found: format!("{:?}", when.value).to_lowercase(),
                    expected: "\"end\": only a [server] has numbers over time or settings".into(),
                };
                self.problem(when.position, kind);
            }
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            // Each number over time has a name of the server's.
            let has_unit = is_over_time
                || VALUE_UNITS
                    .iter()
                    .any(|unit| name.value.strip_suffix(unit).is_some_and(|n| !n.is_empty()));
            if !has_unit || !name.value.chars().all(plain) {
                self.problem(
                    name.position,
                    ProblemKind::BadValueName { name: name.value.clone(), units: &VALUE_UNITS },
                );
            }
        }
    }

    /// Checks that every value with placeholders is valid in every cell.
    fn values(&mut self, parsed: &ParsedPlan, factors: &[Factor], (cells, limits): (&[Levels], &Limits)) {
        // A variable of one configuration has a value only there.
        let variables = parsed.server.iter().flat_map(|server| &server.env);
        let owners: BTreeMap<&str, (String, String)> = variables
            .filter_map(|variable| {
                let owner = matrix::owners(&variable.only.as_ref()?.value, factors).pop()?;
                Some((variable.value.path.as_str(), owner))
            })
            .collect();
        for template in templates(parsed) {
            let used: BTreeSet<&str> = template.names().into_iter().collect();
            let is_used = |name: &str| used.contains(name);
            let owner = owners.get(template.path());
            let has_it = |cell: &&Levels| owner.is_none_or(|(factor, level)| cell.get(factor) == Some(level));
            let (mut cautions, mut seen): (Vec<String>, BTreeSet<Levels>) = (Vec::new(), BTreeSet::new());
            for whole in cells.iter().filter(has_it) {
                let cell: Levels = whole.clone().into_iter().filter(|(name, _)| is_used(name)).collect();
                let mut nested =
                    limits.only.iter().filter(|(name, _)| is_used(name) && !cell.contains_key(*name));
                if let Some((name, _)) = nested.next() {
                    let kind = ProblemKind::BadValue {
                        key: template.path().to_owned(),
                        found: format!("`{{{name}}}` at {}", matrix::named(whole)),
                        expected: format!(
                            "no `{{{name}}}` where the factor does not exist; [server.env.LEVEL] may use it, and \
                             commands may use `$BAKEOFF_{}`",
                            name.replace('-', "_")
                        ),
                    };
                    self.problem(template.position(), kind);
                    break;
                }
                if seen.insert(cell.clone()) {
                    self.problems.extend(template.problem(&cell));
                    cautions.extend(template.cautions(&cell));
                }
            }
            self.caution(template.position(), cautions);
        }
    }

    /// Adds one remark per position, for any number of levels.
    fn caution(&mut self, position: Position, mut cautions: Vec<String>) {
        cautions.dedup();
        let Some(first) = cautions.first() else { return };
        match cautions.len() - 1 {
            0 => self.remark(position, first.clone()),
            more => {
                let more = record::quantity::plural(u64::try_from(more).unwrap_or(u64::MAX), "more level");
                self.remark(position, format!("{first} (and {more})"));
            }
        }
    }

    /// Checks secrets: they may occur in texts for servers, loads and commands, but not in text that is
    /// printed everywhere; a secret in plain text should become a reference.
    fn secrets(&mut self, parsed: &ParsedPlan, text: &str, lines: &Lines<'_>) {
        for template in templates(parsed) {
            let takes_any = matches!(
                template.key().kind,
                Kind::Table { .. }
                    | Kind::Value(Values::Text | Values::AnyText | Values::Form(_) | Values::Bytes { .. })
            );
            for reference in template.secrets().into_iter().filter(|_| !takes_any) {
                let kind = ProblemKind::SecretMisplaced {
                    key: template.path().to_owned(),
                    reference: reference.to_string(),
                    why: "only texts for the server, the load and the commands may contain secrets",
                };
                self.problem(template.position(), kind);
            }
        }
        for factor in &parsed.factors {
            for value in &factor.values {
                for (_, reference) in secret::references(&value.value) {
                    let kind = ProblemKind::SecretMisplaced {
                        key: format!("factors.{}.values", factor.name.value),
                        reference: reference.to_string(),
                        why: "levels are printed in every table; use the account's name as the level instead",
                    };
                    self.problem(value.position, kind);
                }
            }
        }
        let mut start = 0;
        for line in whole_lines(text) {
            let masked = mask_text(line);
            if masked != line {
                let at = line.bytes().zip(masked.bytes()).take_while(|(a, b)| a == b).count();
                self.remark(
                    lines.position(&(start + at..start + at)),
                    "this looks like a secret: the archive masks it, so `resume` needs the original file; \
                     use `{env:NAME}` or `{file:PATH}` instead, which `run` and `resume` read",
                );
            }
            start += line.len();
        }
    }

    /// Checks that the keys of the load are consistent in every cell, if each is valid by itself; reports one
    /// cell only.
    fn together(&mut self, parsed: &ParsedPlan, factors: &[Factor], cells: &[Levels]) {
        if !self.problems.is_empty() {
            return;
        }
        self.problems.extend(cells.iter().find_map(|levels| parsed.load.conflict(levels)));
        self.script(parsed, factors);
    }

    /// Remarks that options of a script in Lua that vary within a series do not change its tables.
    fn script(&mut self, parsed: &ParsedPlan, factors: &[Factor]) {
        let (Some(define), Some(_)) = (&parsed.load.define, parsed.load.script_path()) else { return };
        let is_sub = |name: &str| factors.iter().any(|f| f.name == name && f.plot == Plot::Sub);
        if let Some(name) = define.template.names().find(|name| is_sub(name)) {
            let text = format!(
                "the script's `prepare` runs once per series, with the options of the first trial: an \
                 option that changes the tables needs a whole-plot factor instead of `{name}`"
            );
            self.remark(define.position, text);
        }
    }

    fn environment(&mut self, parsed: &ParsedPlan, factors: &[Factor]) {
        let (mut seen, mut wrong) = (BTreeSet::new(), 0);
        for only in parsed.server.iter().flat_map(|s| &s.env).filter_map(|e| e.only.as_ref()) {
            if !seen.insert(&only.value) {
                continue;
            }
            let owners = matrix::owners(&only.value, factors);
            let whole: Vec<_> = factors.iter().filter(|f| f.plot == Plot::Whole).collect();
            match &owners[..] {
                [_] => {}
                [] => {
                    let known = || whole.iter().flat_map(|f| &f.values).map(String::as_str);
                    let kind = ProblemKind::EnvironmentForNoValue {
                        name: only.value.clone(),
                        closest: closest(&only.value, known()),
                        known: some_of(known()),
                    };
                    self.problem(only.position, kind);
                    wrong += 1;
                    if wrong == WRONG_MAX {
                        break;
                    }
                }
                several => {
                    let factors = several.iter().map(|(factor, _)| factor.clone()).collect();
                    let kind = ProblemKind::EnvironmentIsAmbiguous { value: only.value.clone(), factors };
                    self.problem(only.position, kind);
                }
            }
        }
    }

    fn budget(&mut self, parsed: &ParsedPlan, cells: &[Levels]) {
        let (design, phases) = (&parsed.design, &parsed.phases);
        let (Some(budget), Some(blocks), Some(warmup), Some(measure), Some(cooldown)) =
            (&design.time_budget, &design.blocks, warmup(phases), &phases.measure, &phases.cooldown)
        else {
            return;
        };
        let cells = u32::try_from(cells.len()).unwrap_or(u32::MAX);
        let each = warmup.least() + measure.value + cooldown.value;
        let needed = each.saturating_mul(cells.saturating_mul(blocks.value));
        if needed > budget.value {
            let made_of = format!(
                "{cells} cells x {} blocks x {} each ({} warm-up, {} measured, {} cool-down)",
                blocks.value,
                human(each),
                human(warmup.least()),
                human(measure.value),
                human(cooldown.value),
            );
            let kind = ProblemKind::BudgetTooSmall { budget: budget.value, needed, made_of };
            self.problem(budget.position, kind);
        }
    }

    fn server(&mut self, server: Option<&ParsedServer>) {
        let Some(server) = server else { return };
        if let Some(user) = server.user.as_ref().filter(|user| matches!(user.value.as_str(), "root" | "0")) {
            self.remark(
                user.position,
                "`user = \"root\"`: a client that makes the server execute code becomes root on this \
                 machine; leave `user` out to run the server as an unprivileged user",
            );
        }
        for file in &server.files {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if file.name.value.is_empty()
                || file.name.value.starts_with('.')
                || !file.name.value.chars().all(plain)
            {
                let kind = ProblemKind::BadValue {
                    key: "server.files".into(),
                    found: format!("\"{}\"", file.name.value),
                    expected: "a file name of letters, digits, `.`, `_` and `-`".into(),
                };
                self.problem(file.name.position, kind);
            }
        }
    }

    /// Checks that a judged warm-up has an end, after its least length.
    fn warmup(&mut self, phases: &ParsedPhases) {
        let (Some(min), max, judge) = (&phases.warmup_min, &phases.warmup_max, &phases.warmup_judge) else {
            return;
        };
        match (max, judge) {
            (Some(max), _) if max.value < min.value => {
                let kind = ProblemKind::BadValue {
                    key: "phases.warm-up.max".into(),
                    found: human(max.value),
                    expected: format!("at least `min`, {}", human(min.value)),
                };
                self.problem(max.position, kind);
            }
            (None, Some(judge)) => {
                let key = find_key("phases.warm-up", "max");
                let kind = ProblemKind::MissingKey {
                    key: "max".into(),
                    table: "[phases.warm-up]".into(),
                    expected: "the longest wait for the steady state that `judge` defines".into(),
                    example: key.example.into(),
                };
                self.problem(judge.position, kind);
            }
            (Some(max), Some(_)) if phases.measure.as_ref().is_some_and(|it| max.value < it.value) => {
                self.remark(
                    max.position,
                    "`max` is shorter than the measured phase: a drift over that phase can hardly be excluded, and a \
                     trial is then INVALID",
                );
            }
            (Some(max), None) => {
                self.remark(max.position, "`max` has no effect without `judge`: every warm-up lasts `min`");
            }
            _ => {}
        }
    }

    /// Adds a remark for a whole-plot factor that nothing depends on: its values are one configuration under
    /// several names. This serves to count false alarms, but it may also be a typing error.
    fn changes_nothing(&mut self, parsed: &ParsedPlan, factors: &[Factor]) {
        let templates = templates(parsed);
        let mut used: BTreeSet<String> =
            templates.iter().flat_map(|t| t.names()).map(str::to_owned).collect();
        if matches!(parsed.load.rate, Some(ParsedRate::Shares(_))) {
            used.insert(RATE.to_owned());
        }
        let env = parsed.server.iter().flat_map(|s| &s.env).filter_map(|e| e.only.as_ref());
        used.extend(env.flat_map(|only| matrix::owners(&only.value, factors)).map(|(factor, _)| factor));
        for (factor, position) in factors.iter().zip(parsed.factors.iter().map(|f| f.name.position)) {
            if factor.values.len() > 1 && !used.contains(&factor.name) {
                let name = &factor.name;
                let text = format!(
                    "nothing uses `{{{name}}}`: all values of factor `{name}` give the same configuration"
                );
                self.remark(position, text);
            }
        }
    }
}

/// Most factors of a plan.
const FACTORS_MAX: usize = 1_000;
/// Most tables of the environment for which a plan has no value that are reported.
const WRONG_MAX: usize = 20;

/// Labels of every run of a bake-off, in addition to the levels of its factors.
const DESIGN_WORDS: [&str; 7] =
    ["trial", "attempt", "block", "series", "shortened", "beside-others", CONTROL_ARM];

/// Units that end the name of a value.
const VALUE_UNITS: [&str; 6] = ["_pct", "_ratio", "_bytes", "_s", "_ns", "_count"];

fn no_factor_name(name: &str) -> Option<&'static str> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name == SCRATCH {
        Some("`{scratch}` stands for the folder of a series")
    } else if name == INSTANCE {
        Some("`{instance}` stands for the number of a server instance")
    } else if DESIGN_WORDS.contains(&name) {
        Some("bakeoff uses this name as a label of the runs")
    } else if name.is_empty() || !name.chars().all(plain) {
        Some("use lower-case letters, digits, `_` and `-`")
    } else {
        None
    }
}

fn find_key(table: &str, name: &str) -> &'static keys::Key {
    keys::table(table).keys.iter().find(|k| k.name == name).expect("callers name keys that are declared")
}

/// All values that may have placeholders.
fn templates(parsed: &ParsedPlan) -> Vec<&dyn AnyTemplated> {
    fn any<T>(template: Option<&Templated<T>>) -> Option<&dyn AnyTemplated> {
        template.map(|t| t as &dyn AnyTemplated)
    }
    let mut all = parsed.load.templates();
    if let Some(server) = &parsed.server {
        all.extend([any(server.command.as_ref()), any(server.ready.as_ref())].into_iter().flatten());
        let numbers =
            [any(server.instances.as_ref()), any(server.scheduler.as_ref()), any(server.nice.as_ref())];
        all.extend(numbers.into_iter().flatten());
        let lists = server.cpus.iter().chain(&server.mem).flat_map(|places| &places.lists);
        all.extend(lists.map(|list| list as &dyn AnyTemplated));
        all.extend(server.env.iter().map(|e| &e.value as &dyn AnyTemplated));
        all.extend(server.files.iter().map(|f| &f.text as &dyn AnyTemplated));
    }
    let prepare = match &parsed.phases.prepare {
        Some(ParsedPrepare::Run(run)) => Some(run),
        _ => None,
    };
    let commands = parsed.phases.setup.iter().chain(prepare).chain(&parsed.phases.verify);
    let commands = commands.chain(parsed.values.iter().map(|v| &v.run));
    let commands = commands.chain(parsed.build.iter().map(|build| &build.run));
    all.extend(parsed.build.iter().filter_map(|build| any(build.revision.as_ref())));
    all.extend(commands.filter_map(|run| any(run.run.as_ref())));
    all
}
