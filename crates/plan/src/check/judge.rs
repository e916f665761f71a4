//! Checks the comparison: the family, its metrics, the gates, and whether there are enough blocks.

use record::bakeoff::{Factor, Judge, Metric, Plot, blocks_min, smallest_p};
use record::gate::Gate;

use super::checker::Checker;
use crate::error::{Located, Position, ProblemKind};
use crate::feasibility::{Feasibility, JudgedMetric};
use crate::load::{LoadKeys, ParsedRate};
use crate::parsed::{ParsedGate, ParsedJudge, ParsedPlan};
use crate::plan::{Note, Plan, unanswerable};

/// Selects, for a plan without metrics, those that its phases certainly allow; notes the others.
pub(super) fn judge_feasible_metrics(plan: &mut Plan, written: bool, position: Position) {
    if !written {
        let sure = plan
            .judged_metrics()
            .into_iter()
            .filter(|judged| judged.feasibility == Feasibility::Yes)
            .map(|judged| judged.metric);
        let sure: Vec<Metric> = sure.collect();
        if !sure.is_empty() {
            plan.judge.metrics = sure;
        }
    }
    let notes: Vec<String> = plan.judged_metrics().iter().filter_map(JudgedMetric::note).collect();
    plan.remarks.extend(notes.into_iter().map(|text| Note { position, text }));
}

/// The problem of a sequential design that would drop by a slope.
pub(super) fn no_slope() -> ProblemKind {
    ProblemKind::BadValue {
        key: "design.sequential".to_owned(),
        found: "true".to_owned(),
        expected:
            "a first metric other than `cpu-per-event` over several rates: whether a slope holds is known \
                   only from all blocks"
                .to_owned(),
    }
}

impl Checker<'_> {
    pub(super) fn judge(
        &mut self,
        parsed: &ParsedJudge,
        load: &LoadKeys,
        factors: &[Factor],
    ) -> Option<Judge> {
        let family = family(factors);
        if let Some(found) = parsed.family.as_ref().filter(|found| found.value != family) {
            let kind = ProblemKind::BadValue {
                key: "judge.family".into(),
                found: format!("\"{}\"", found.value),
                expected: format!("\"{family}\", the comparisons that the plan makes"),
            };
            self.problem(found.position, kind);
        }
        let closed = match &load.rate {
            Some(ParsedRate::Plain(rate)) => rate.template.is("max"),
            Some(ParsedRate::Shares(_) | ParsedRate::Promise(_)) => false,
            None => true,
        };
        let metrics = match &parsed.metrics {
            Some(list) => list.value.iter().filter_map(|word| Metric::of_load(word)).collect(),
            None => Metric::DEFAULT.iter().copied().filter(|m| closed || *m != Metric::Throughput).collect(),
        };
        Some(Judge {
            rope_ratio: parsed.rope.as_ref()?.value,
            alpha: parsed.alpha.as_ref()?.value,
            family,
            metrics,
            gates: Vec::new(),
            sequential: false,
        })
    }

    /// Checks that a sequential design can drop a configuration, and that nothing needs all its blocks.
    pub(super) fn sequential(&mut self, parsed: &ParsedPlan, factors: &[Factor], alpha: f64) -> bool {
        let Some(wanted) = parsed.design.sequential.as_ref().filter(|wanted| wanted.value) else {
            return false;
        };
        let is_compared = |f: &Factor| f.reference.is_some() && f.values.len() > 1;
        let blocks = parsed.design.blocks.as_ref().map_or(u32::MAX, |blocks| blocks.value);
        let wrong = if !factors.iter().any(is_compared) {
            Some("a factor with a reference: configurations are dropped that are worse than it")
        } else if !parsed.gates.is_empty() {
            Some("no gates: a gate needs every block of every configuration")
        } else if parsed.control_arm.as_ref().is_some_and(|control| control.value) {
            Some("no `observe.control_arm`: it compares blocks, which must have the same configurations")
        } else {
            None
        };
        if let Some(expected) = wrong {
            let (key, found) = ("design.sequential".to_owned(), "true".to_owned());
            self.problem(
                wanted.position,
                ProblemKind::BadValue { key, found, expected: expected.to_owned() },
            );
        }
        let first = blocks_min(alpha);
        if blocks <= first {
            let text = format!(
                "`sequential` has no effect: a configuration is dropped after block {first} at the earliest"
            );
            self.remark(wanted.position, text);
        }
        true
    }

    pub(super) fn gates(
        &mut self,
        parsed: &[ParsedGate],
        blocks: &Located<u32>,
        alpha: f64,
        factors: &[Factor],
    ) -> Vec<Gate> {
        let mut gates: Vec<Gate> = Vec::new();
        let mut lacks_blocks = false;
        for parsed in parsed {
            let (Some(metric), Some(rule), Some(effect)) =
                (&parsed.metric, &parsed.rule, &parsed.on_inconclusive)
            else {
                continue;
            };
            let gate = Gate { metric: metric.value, rule: rule.value, on_inconclusive: effect.value };
            if let Err(wrong) = gate.rule.fits(gate.metric) {
                self.problem(rule.position, ProblemKind::GateUnit(wrong));
            }
            match unanswerable(&gate, blocks.value, alpha, factors) {
                // The problem is the number of blocks, and is reported once.
                Some(kind @ ProblemKind::GateNeedsBlocks { .. }) if !lacks_blocks => {
                    self.problem(blocks.position, kind);
                    lacks_blocks = true;
                }
                Some(ProblemKind::GateNeedsBlocks { .. }) | None => {}
                Some(kind) => self.problem(rule.position, kind),
            }
            gates.push(gate);
        }
        gates
    }

    pub(super) fn exploratory(&mut self, blocks: &Located<u32>, alpha: f64) {
        let needed = blocks_min(alpha);
        if blocks.value < needed {
            let text = format!(
                "exploratory: with {}, the smallest possible p of the exact test is {}, so no claim at \
                 alpha {alpha} is possible; a claim needs {needed} blocks",
                if blocks.value == 1 { "1 block".into() } else { format!("{} blocks", blocks.value) },
                smallest_p(blocks.value),
            );
            self.remark(blocks.position, text);
        }
    }
}

/// Family of comparisons: every configuration with the reference at each cell within the series.
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
