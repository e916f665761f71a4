//! The section that closes a page: the command that repeats the run, its settings, and the machine.

use record::environment::Environment;
use record::run::RunHeader;

use super::{Block, Section, Table};

/// Lays out the section.
///
/// - `asked`: further rows of its first table.
/// - `between`: blocks between that table and the facts about the machine.
pub(super) fn disclosure(
    header: &RunHeader,
    environment: &Environment,
    asked: Vec<(&str, String)>,
    between: Vec<Block>,
) -> Section {
    let mut table = Table::new("Settings and versions", &["what", "value"]);
    let by = [
        ("command that repeats it", header.command.clone()),
        ("measured by", format!("bakeoff {}", header.tool_version)),
        ("page written by", format!("bakeoff {}", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in by.into_iter().chain(asked) {
        table.row(vec![name.into(), value.into()]);
    }
    let mut facts = Table::new("The machine's facts", &["fact", "value"]);
    for (name, value) in &environment.facts {
        let value = value.clone().unwrap_or_else(|m| format!("unknown: {m}"));
        facts.row(vec![name.clone().into(), value.into()]);
    }
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(between);
    blocks.push(Block::Folded(facts));
    Section { id: "disclosure", title: "Disclosure", blocks }
}

/// The plan of an experiment.
pub(super) fn plan(text: &str) -> Block {
    Block::Code { title: "The plan, with every default".into(), text: text.to_owned() }
}
