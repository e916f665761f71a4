//! Where the noise of a bake-off comes from, and what a narrower interval takes.

use analysis::Comparisons;
use analysis::noise::Goal;
use record::bakeoff::Bakeoff;

use super::{Block, Section, Table};
use crate::noise::{aim, design, designs, head, not_counted, parts};
use crate::words::capital;

/// The section; `None` if the trials do not tell their noise.
pub(super) fn section(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Option<Section> {
    let noise = analysis::noise::noise(bakeoff).ok()?;
    let mut table = Table::new("Shares of the variance of one trial", &["part", "#share", "what it is"]);
    for line in parts(&noise) {
        table.row(line.into_iter().map(Into::into).collect());
    }
    let mut blocks = vec![Block::Text(format!("{}.", capital(&head(&noise)))), Block::Table(table)];
    let goal = Goal {
        beyond: bakeoff.judge.rope_ratio,
        comparisons: u32::try_from(comparisons.pairs.len()).unwrap_or(u32::MAX),
        alpha: bakeoff.judge.alpha_at_end(),
    };
    let found = designs(&noise, &goal);
    if found.is_empty() {
        blocks.push(Block::Text(format!(
            "No design of at most 1,000 blocks finds {}: reduce the noise first.",
            aim(&goal)
        )));
    } else {
        blocks.push(Block::Text(format!("To find {}, take:", aim(&goal))));
        blocks.push(Block::List(found.iter().map(design).collect()));
        blocks.push(Block::Text(format!("{}.", capital(&not_counted(&noise)))));
    }
    Some(Section { id: "noise", title: "Where the noise comes from", blocks })
}
