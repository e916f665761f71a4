//! A plan in a file, and the facts about it that a user should know before starting it.

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use plan::Plan;
use record::quantity;

use crate::exit::{EndsWith as _, Exit};
use crate::{screen, text_file};

/// Reads the plan in a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    let text = text_file::read(path, text_file::PLAN_BYTES_MAX);
    let text = text.with_context(|| format!("reading {}", path.display()));
    let text = text.ends_with(Exit::Usage)?;
    let plan = plan::read(&text, &path.display().to_string()).ends_with(Exit::Usage)?;
    // A factor of the cells may be in the target, too.
    let targets = plan.cells().into_iter().map(|levels| plan.target(&levels, Path::new("/scratch")));
    let mut different: Vec<_> = targets.collect();
    different.dedup();
    for target in different {
        load::check_target(&target).with_context(|| path.display().to_string()).ends_with(Exit::Usage)?;
    }
    Ok(plan)
}

/// Writes the facts that a user should know before starting the plan.
pub(crate) fn summary(out: &mut dyn Write, plan: &Plan) -> std::io::Result<()> {
    let estimate = plan.estimate();
    line(out, "", plan.title(), 0)?;
    let size = format!(
        "{}: {}, order drawn from seed {}; at least {}",
        quantity::plural(estimate.trials.into(), "trial"),
        plan.estimate(),
        plan.seed(),
        quantity::span(estimate.time_min.as_secs_f64()),
    );
    line(out, "", &size, 2)?;
    combinations(out, plan)?;
    if let (Some(found), Some(alike)) = power(plan) {
        let power = format!(
            "a single difference of {found:.1} standard deviations (of a block's log ratio) beyond {} is \
             detected in {:.0} % of such bake-offs; equal configurations are found equivalent if {} is at \
             least {alike:.1} standard deviations; {} comparisons share alpha = {}",
            percent(plan.judge().rope_ratio),
            analysis::power::POWER * 100.0,
            percent(plan.judge().rope_ratio),
            plan.comparisons(),
            plan.judge().alpha,
        );
        line(out, "power: ", &power, 2)?;
    }
    let told = |note: &plan::Note| format!("{}:{}: {}", plan.name(), note.position, note.text);
    for note in plan.notes() {
        line(out, "note: ", &told(note), 2)?;
    }
    for note in plan.unsupported() {
        line(out, "not implemented yet: ", &told(note), 2)?;
    }
    Ok(())
}

/// Writes the cells of every configuration, if the plan leaves some combinations of levels out.
fn combinations(out: &mut dyn Write, plan: &Plan) -> std::io::Result<()> {
    let cells = plan.cells();
    if cells.len() == plan.grid() {
        return Ok(());
    }
    let text = format!("{} of {} combinations of levels are measured", cells.len(), plan.grid());
    line(out, "cells: ", &text, 2)?;
    let whole: Vec<&str> = plan.whole_factors().collect();
    let configurations = plan.configurations();
    for configuration in configurations.iter().take(CONFIGURATIONS_MAX) {
        let own = cells.iter().filter(|cell| {
            cell.iter().filter(|(name, _)| whole.contains(&name.as_str())).eq(configuration.iter())
        });
        let told: Vec<String> = own
            .map(|cell| {
                let sub = cell.iter().filter(|(name, _)| !whole.contains(&name.as_str()));
                sub.map(|(name, level)| format!("{name}={level}")).collect::<Vec<_>>().join(" ")
            })
            .filter(|cell| !cell.is_empty())
            .collect();
        let levels: Vec<String> =
            configuration.iter().map(|(name, level)| format!("{name}={level}")).collect();
        let label = if levels.is_empty() { "all".to_owned() } else { levels.join(" ") };
        let between = if told.is_empty() { "" } else { ": " };
        line(out, "  ", &format!("{label}{between}{}", told.join(", ")), 6)?;
    }
    match configurations.len().saturating_sub(CONFIGURATIONS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more configurations"),
    }
}

/// Most configurations that are listed with their cells.
const CONFIGURATIONS_MAX: usize = 20;

/// Effect that the plan's blocks can detect, and bound within which they show equivalence, both in standard
/// deviations between blocks.
pub(crate) fn power(plan: &Plan) -> (Option<f64>, Option<f64>) {
    let estimate = plan.estimate();
    let design = analysis::power::Design {
        blocks: estimate.blocks,
        comparisons: plan.comparisons(),
        alpha: plan.judge().alpha_at_end(),
    };
    (analysis::power::detectable_sd(&design), analysis::power::equivalence_sd(&design))
}

fn percent(ratio: f64) -> String {
    format!("{} %", (ratio * 1e6).round() / 1e4)
}

/// Writes words after a label: wrapped for a terminal, on one line for programs.
pub(crate) fn line(out: &mut dyn Write, label: &str, text: &str, indent: usize) -> std::io::Result<()> {
    match screen::terminal() {
        Some(style) => report::text::folded(out, label, text, indent, style),
        None => writeln!(out, "{label}{text}"),
    }
}
