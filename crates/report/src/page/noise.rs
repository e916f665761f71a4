//! Where the noise of a bake-off comes from, and what a narrower interval takes.

use record::bakeoff::Bakeoff;

use super::{Block, Section, Table};
use crate::noise::{design, designs, head, parts};
use crate::number::percent;
use crate::words::capital;

/// The section; `None` if the trials do not tell their noise.
pub(super) fn section(bakeoff: &Bakeoff) -> Option<Section> {
    let noise = analysis::noise::noise(bakeoff).ok()?;
    let mut table = Table::new("Shares of the variance of one trial", &["part", "#share", "what it is"]);
    for line in parts(&noise) {
        table.row(line.into_iter().map(Into::into).collect());
    }
    let mut blocks = vec![Block::Text(format!("{}.", capital(&head(&noise)))), Block::Table(table)];
    let (rope_ratio, alpha) = (bakeoff.judge.rope_ratio, bakeoff.judge.alpha);
    let found = designs(&noise, rope_ratio, alpha);
    if found.is_empty() {
        blocks.push(Block::Text(format!(
            "No design of at most 1,000 blocks gives intervals of +-{}: reduce the noise first.",
            percent(rope_ratio)
        )));
    } else {
        blocks
            .push(Block::Text(format!("Intervals of +-{}, as wide as the ROPE, need:", percent(rope_ratio))));
        blocks.push(Block::List(found.iter().map(design).collect()));
    }
    Some(Section { id: "noise", title: "Where the noise comes from", blocks })
}
