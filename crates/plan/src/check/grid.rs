//! Checks what a plan leaves out of the full grid of its factors, and adds to it.

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Factor, Levels, Plot, TRIALS_MAX};

use super::checker::Checker;
use crate::error::{Located, Position, ProblemKind, closest, some_of};
use crate::load::{LoadKeys, ParsedRate, RATE};
use crate::matrix::{self, Limits, Pattern, matches, named};
use crate::parsed::{ParsedDesign, ParsedFactor, ParsedGate};

/// Most entries of `exclude` and of `include`: each is compared with each combination.
const ENTRIES_MAX: usize = 1_000;

/// Limit that only a mistake exceeds: combinations are enumerated before those of `exclude` are left out.
const GRID_MAX: u128 = 100_000;

impl Checker<'_> {
    /// Reads `exclude`, `include` and `only`, and adds the levels of `include` to their factors. `None` if
    /// one of them is not usable.
    pub(super) fn limits(
        &mut self,
        design: &ParsedDesign,
        parsed: &[ParsedFactor],
        factors: &mut [Factor],
    ) -> Option<Limits> {
        let before = self.problems.len();
        let mut limits = Limits::default();
        for (key, entries) in [("design.exclude", &design.exclude), ("design.include", &design.include)] {
            if let Some(further) = entries.get(ENTRIES_MAX) {
                let (found, expected) =
                    (format!("{} entries", entries.len()), format!("at most {ENTRIES_MAX}"));
                self.bad(further.position, key, &found, &expected);
                return None;
            }
        }
        for entry in &design.include {
            self.known("design.include", entry, factors, None);
        }
        add_included(design, factors, &mut limits);
        let factors: &[Factor] = factors;
        let values = values_of(factors);
        for entry in &design.exclude {
            self.known("design.exclude", entry, factors, Some(&values));
        }
        for (own, factor) in parsed.iter().zip(factors.iter()) {
            let Some(only) = &own.only else { continue };
            self.known(&format!("factors.{}.only", factor.name), only, factors, Some(&values));
            self.nests(factor, only, factors);
            limits.only.insert(factor.name.clone(), only.value.clone());
        }
        if let Some(own) = parsed.iter().find(|own| is_below_itself(&own.name.value, &limits.only)) {
            let only = own.only.as_ref().map_or(own.name.position, |only| only.position);
            self.bad(
                only,
                &format!("factors.{}.only", own.name.value),
                "a circle",
                "levels of factors above it",
            );
        }
        let values = |list: &[Located<Pattern>]| list.iter().map(|entry| entry.value.clone()).collect();
        limits.exclude = values(&design.exclude);
        limits.include = values(&design.include);
        (self.problems.len() == before).then_some(limits)
    }

    /// Whether an entry names factors that exist.
    ///
    /// - `values`: the levels that exist, if others are wrong.
    fn known(
        &mut self,
        key: &str,
        entry: &Located<Pattern>,
        factors: &[Factor],
        values: Option<&Values<'_>>,
    ) {
        for (name, levels) in &entry.value {
            let Some(factor) = factors.iter().find(|factor| factor.name == *name) else {
                let names = || factors.iter().map(|factor| factor.name.as_str());
                let near =
                    closest(name, names()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                let known = some_of(names()).join(", ");
                self.bad(entry.position, key, &format!("`{name}`"), &format!("a factor: {known}{near}"));
                continue;
            };
            let is_known = |level: &str| values.is_none_or(|values| values[name.as_str()].contains(level));
            let wrong = |level: &&String| level.is_empty() || !is_known(level);
            if let Some(level) = levels.iter().find(wrong) {
                let known = some_of(factor.values.iter().map(String::as_str)).join(", ");
                let expected = format!("a value of factor `{name}`: {known}");
                self.bad(entry.position, key, &format!("`{name} = {level}`"), &expected);
            }
        }
    }

    /// Whether a factor can exist below these levels of others.
    fn nests(&mut self, factor: &Factor, only: &Located<Pattern>, factors: &[Factor]) {
        let key = format!("factors.{}.only", factor.name);
        for parent in factors.iter().filter(|parent| only.value.contains_key(&parent.name)) {
            let found = format!("`{}`", parent.name);
            if factor.plot == Plot::Whole && parent.plot == Plot::Sub {
                let expected = "whole-plot factors: a server exists before the levels of a sub-plot factor";
                self.bad(only.position, &key, &found, expected);
            } else if factor.reference.is_some() && parent.reference.is_none() {
                let expected =
                    "factors with a reference: the levels of this factor are compared with each other";
                self.bad(only.position, &key, &found, expected);
            }
        }
    }

    fn bad(&mut self, position: Position, key: &str, found: &str, expected: &str) {
        let (key, found, expected) = (key.to_owned(), found.to_owned(), expected.to_owned());
        self.problem(position, ProblemKind::BadValue { key, found, expected });
    }

    /// Whether the number of trials is known and not too large.
    pub(super) fn count(&mut self, design: &ParsedDesign, factors: &[Factor], limits: &Limits) -> bool {
        // 128 factors of two levels are more cells than this type holds.
        let grid = factors.iter().fold(1_u128, |cells, f| cells.saturating_mul(f.values.len() as u128));
        let cells = if grid > GRID_MAX { grid } else { matrix::cells(factors, limits).len() as u128 };
        let Some(blocks) = &design.blocks else { return cells <= u128::from(TRIALS_MAX) };
        let trials = cells.saturating_mul(u128::from(blocks.value));
        if trials > u128::from(TRIALS_MAX) {
            self.problem(blocks.position, ProblemKind::TooManyTrials { trials, limit: TRIALS_MAX });
        }
        trials <= u128::from(TRIALS_MAX)
    }

    /// Checks that the cells that are left can answer the plan's question.
    pub(super) fn grid(
        &mut self,
        design: &ParsedDesign,
        (load, gates): (&LoadKeys, &[ParsedGate]),
        factors: &[Factor],
        limits: &Limits,
    ) {
        if *limits == Limits::default() {
            return;
        }
        let not_excluded = matrix::cells(factors, &Limits { exclude: Vec::new(), ..limits.clone() });
        let cells = matrix::cells(factors, limits);
        for (i, entry) in design.exclude.iter().enumerate() {
            if !not_excluded.iter().any(|cell| matches(&limits.exclude[i], cell)) {
                self.remark(
                    entry.position,
                    "this entry of `exclude` has no effect: no cell has all its levels",
                );
            }
        }
        let needed: BTreeSet<usize> = cells.iter().filter_map(|cell| limits.needs(cell)).collect();
        for (i, entry) in design.include.iter().enumerate() {
            if !needed.contains(&i) {
                self.remark(
                    entry.position,
                    "this entry of `include` has no effect: its cells are measured anyway",
                );
            }
        }
        let first = design.exclude.iter().chain(&design.include).map(|entry| entry.position).next();
        let position = first.or(design.blocks.as_ref().map(|blocks| blocks.position));
        let position = position.unwrap_or(Position { line: 1, column: 1 });
        self.compared(position, &cells, factors, gates);
        self.found_rates(position, &cells, factors, load);
    }

    /// Checks that the reference is measured, and remarks on cells that nothing is compared with.
    fn compared(&mut self, position: Position, cells: &[Levels], factors: &[Factor], gates: &[ParsedGate]) {
        let is_reference = |cell: &Levels| matrix::is_reference(&matrix::split(cell, factors).0, factors);
        if !cells.iter().any(is_reference) {
            let of = factors.iter().filter_map(|f| Some((f.name.clone(), f.reference.clone()?)));
            let reference = named(&of.collect::<Levels>());
            let expected = format!("at least one cell of the reference, {reference}");
            self.bad(position, "design.exclude", "no cell of the reference", &expected);
            return;
        }
        let Some(alone) = matrix::without_reference(cells, factors) else { return };
        let is_relative = |gate: &&ParsedGate| {
            gate.rule.as_ref().is_some_and(|r| matches!(r.value, record::gate::GateRule::NotWorseBy { .. }))
        };
        if let Some(rule) = gates.iter().find(is_relative).and_then(|gate| gate.rule.as_ref()) {
            self.problem(rule.position, ProblemKind::not_compared(&alone));
        } else {
            let text = format!("not compared, because the reference has no such cell: {alone}");
            self.remark(position, text);
        }
    }

    /// Checks that a rate that is found on the reference is found for all cells.
    fn found_rates(&mut self, position: Position, cells: &[Levels], factors: &[Factor], load: &LoadKeys) {
        let is_share = matches!(load.rate, Some(ParsedRate::Shares(_)));
        if !is_share && !matches!(load.rate, Some(ParsedRate::Promise(_))) {
            return;
        }
        let of_rate = |cell: &Levels| -> Levels {
            let sub = factors.iter().filter(|f| f.plot == Plot::Sub && !(is_share && f.name == RATE));
            sub.filter_map(|f| Some((f.name.clone(), cell.get(&f.name)?.clone()))).collect()
        };
        let is_reference = |cell: &&Levels| {
            let mut whole = factors.iter().filter(|f| f.plot == Plot::Whole);
            whole.all(|f| {
                cell.get(&f.name).is_none_or(|level| Some(level) == f.reference.as_ref().or(f.values.first()))
            })
        };
        let known: BTreeSet<Levels> = cells.iter().filter(is_reference).map(of_rate).collect();
        if let Some(cell) = cells.iter().find(|cell| !known.contains(&of_rate(cell))) {
            let expected = "a rate in numbers: this one is found on the reference, which lacks such a cell";
            self.bad(position, "load.rate", &named(cell), expected);
        }
    }
}

/// Levels of each factor.
type Values<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn values_of(factors: &[Factor]) -> Values<'_> {
    factors.iter().map(|f| (f.name.as_str(), f.values.iter().map(String::as_str).collect())).collect()
}

/// Adds the levels of `include` to their factors.
fn add_included(design: &ParsedDesign, factors: &mut [Factor], limits: &mut Limits) {
    for factor in factors {
        let mut known: BTreeSet<String> = BTreeSet::new();
        for levels in design.include.iter().filter_map(|entry| entry.value.get(&factor.name)) {
            if known.is_empty() {
                known = factor.values.iter().cloned().collect();
            }
            for level in levels.iter().filter(|level| !level.is_empty()) {
                if known.insert(level.clone()) {
                    factor.values.push(level.clone());
                    limits.extra.entry(factor.name.clone()).or_default().insert(level.clone());
                }
            }
        }
    }
}

/// Whether a factor is nested in itself, through any number of others.
fn is_below_itself(name: &str, only: &BTreeMap<String, Pattern>) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut above: Vec<&str> = vec![name];
    while let Some(one) = above.pop() {
        for parent in only.get(one).into_iter().flat_map(|pattern| pattern.keys()) {
            if parent == name {
                return true;
            }
            if seen.insert(parent) {
                above.push(parent);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    fn plan(design: &str, more: &str) -> Result<crate::Plan, String> {
        let text = format!(
            "schema = 1\ntitle = \"t\"\n[factors.arm]\nvalues = [\"a\", \"b\", \"c\"]\nreference = \"a\"\n\
             level = \"whole-plot\"\n[factors.threads]\nvalues = [1, 2, 4]\nlevel = \"sub-plot\"\n[design]\n\
             blocks = 6\n{design}\n[load]\ntarget = \"exec:true {{arm}}\"\nthreads = \"{{threads}}\"\n[phases]\n\
             measure = {{ time = \"2s\" }}\n{more}"
        );
        crate::read(&text, "t.toml").map_err(|errors| errors.to_string())
    }

    fn notes(plan: &crate::Plan) -> Vec<String> {
        plan.notes().iter().map(|note| note.text.clone()).collect()
    }

    #[test]
    fn trials_time_and_comparisons_are_those_of_the_cells_that_are_left() {
        let exclude =
            "exclude = [{ arm = \"c\", threads = [1, 2] }]\ninclude = [{ arm = \"c\", threads = 8 }]";
        let left = plan(exclude, "").unwrap();
        let estimate = left.estimate();
        assert_eq!((estimate.trials, estimate.series, estimate.cells_per_series), (8 * 6, 3 * 6, 3));
        assert_eq!(estimate.to_string(), "8 cells in 3 configurations x 6 blocks");
        // 5 s of warm-up and 2 s of measurement each.
        assert_eq!(estimate.time_min.as_secs(), 8 * 6 * 7);
        assert_eq!((left.cells().len(), left.grid()), (8, 12));
        // b at three, c at one; by throughput and CPU time per event.
        assert_eq!(left.comparisons(), 4 * 2);
        let alone = notes(&left);
        assert!(alone.iter().any(|n| n.ends_with("no such cell: arm=c, threads=8")), "{alone:?}");
        let trials = left.trials();
        assert!(trials.iter().all(|t| t.levels["arm"] != "c" || ["4", "8"].contains(&&*t.levels["threads"])));
        // The whole grid has the order that it always had.
        let whole = plan("", "").unwrap();
        assert_eq!(
            (whole.estimate().to_string(), whole.comparisons()),
            ("3 configurations x 3 cells x 6 blocks".into(), 12)
        );
        // Against itself, only the cells of the reference are left.
        assert_eq!(left.against_itself(1).cells().len(), 2 * 3);
    }

    #[test]
    fn a_plan_that_leaves_its_reference_out_is_refused_in_one_line() {
        let of = |design: &str, more: &str| plan(design, more).unwrap_err();
        let without = of("exclude = [{ arm = \"a\" }]", "");
        assert!(without.contains("at least one cell of the reference, arm=a"), "{without}");
        let gate = "[[gate]]\nmetric = \"throughput\"\nrule = \"not worse than reference by 5%\"";
        let gated = of("exclude = [{ arm = \"a\", threads = 1 }]", gate);
        assert!(
            gated.contains("no cell of the reference for arm=b, threads=1 (and 1 more cells)"),
            "{gated}"
        );
        assert!(
            plan(
                "exclude = [{ arm = \"a\", threads = 1 }]",
                &gate.replace("not worse than reference by 5%", ">= 1/s")
            )
            .is_ok()
        );
        // The same gate, given when the plan runs.
        let added = |design: &str, text: &str| {
            let on_inconclusive = record::gate::OnInconclusive::Inconclusive;
            let gate = record::gate::Gate {
                metric: record::bakeoff::Metric::Throughput,
                rule: record::gate::GateRule::read(text).unwrap(),
                on_inconclusive,
            };
            plan(design, "").unwrap().with_gates(&[gate]).map(drop).map_err(|problem| problem.to_string())
        };
        let left_out = "exclude = [{ arm = \"a\", threads = 1 }]";
        let refused = added(left_out, "not worse than reference by 5%").unwrap_err();
        assert!(refused.contains("no cell of the reference for arm=b, threads=1"), "{refused}");
        assert_eq!(added(left_out, ">= 1/s"), Ok(()));
        assert_eq!(added("", "not worse than reference by 5%"), Ok(()));
        let nothing =
            plan("exclude = [{ arm = \"b\", threads = 1 }, { arm = \"b\", threads = 1 }]", "").unwrap();
        assert_eq!(notes(&nothing).iter().filter(|n| n.contains("no effect")).count(), 0);
        let nothing = plan("include = [{ arm = \"b\", threads = 1 }]", "").unwrap();
        assert_eq!(notes(&nothing).iter().filter(|n| n.contains("no effect")).count(), 1);
    }

    #[test]
    fn a_factor_of_90_000_values_on_one_line_is_counted_and_refused() {
        // With a comparison of each value with each, it takes minutes.
        let values: Vec<String> = (0..90_000).map(|i| format!("\"v{i}\"")).collect();
        let text = format!(
            "schema = 1\ntitle = \"t\"\n[factors.arm]\nvalues = [{}]\nreference = \"v0\"\nlevel = \"whole-plot\"\n\
             [design]\nblocks = 6\n[load]\ntarget = \"exec:true {{arm}}\"\n[phases]\nmeasure = {{ time = \"2s\" }}\n",
            values.join(", ")
        );
        let refused = crate::read(&text, "t.toml").unwrap_err().to_string();
        assert!(refused.contains("540000 trials") && refused.len() < 1_000, "{refused}");
        let misspelled = crate::read(&text.replace("\"v0\"\nlevel", "\"w0\"\nlevel"), "t.toml").unwrap_err();
        assert!(misspelled.to_string().len() < 10_000, "it does not name 90,000 values");
    }

    #[test]
    fn more_than_a_thousand_entries_of_exclude_are_refused() {
        let entries =
            |n: usize| format!("exclude = [{}]", vec!["{ arm = \"b\", threads = 1 }"; n].join(", "));
        assert!(plan(&entries(1_000), "").is_ok());
        let refused = plan(&entries(1_001), "").unwrap_err();
        assert!(refused.contains("1001 entries") && refused.contains("at most 1000"), "{refused}");
    }

    #[test]
    fn a_sequential_design_has_no_gates_and_needs_more_blocks_than_the_fewest() {
        let gate = "[[gate]]\nmetric = \"throughput\"\nrule = \">= 1/s\"";
        let gated = plan("sequential = true", gate).unwrap_err();
        assert!(gated.contains("no gates"), "{gated}");
        let few = plan("sequential = true", "").unwrap();
        assert!(
            few.judge().sequential && notes(&few).iter().any(|n| n.contains("after block 6 at the earliest"))
        );
    }
}
