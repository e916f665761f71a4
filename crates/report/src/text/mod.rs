//! Tables and sentences for terminals of at least 40 columns, and for pipes.

mod aa;
mod agents;
mod bakeoff;
mod block_io;
mod command;
mod commands;
mod concurrency;
mod cpu;
mod ending;
mod functions;
mod gates;
mod history;
mod hosts;
mod instruments;
mod load;
mod locks;
mod memory;
mod nic;
mod nic_peers;
mod noise;
mod periods;
mod power;
mod probe;
mod profile;
pub(crate) mod proofs;
mod recorded;
mod runs;
mod scale;
mod search;
mod sides;
mod sweep;
mod table;
mod tasks;
mod waiting;

use std::io::{self, Write};

use record::printable::printable;

pub use aa::aa;
pub use bakeoff::{answer as bakeoff_answer, bakeoff, comparisons};
pub use block_io::{IoHistogram, IoView, io_interval};
pub use command::command;
pub use commands::{answer as commands_answer, commands};
pub(crate) use commands::{pair_sentence, remarks as commands_remarks};
pub use cpu::{by_interrupts, cpu_interval};
pub use history::{Left, history};
pub(crate) use history::{all_suspects, drift, excursion, history_answer, size_of_change, size_of_drift};
pub use hosts::{Facts, hosts};
pub use instruments::instruments;
pub(crate) use instruments::uncounted;
pub(crate) use load::{P99, latency_cell, longest_outages, on_paper};
pub use load::{load_record, progress_header, progress_line, rate_change};
pub use locks::{LockView, lock_interval, user_lock_interval};
pub use memory::memory_interval;
pub use nic::{NicView, nic_interval, nic_list};
pub use nic_peers::nic_peers;
pub use noise::noise;
pub use periods::{Cells, periods};
pub use power::energy;
pub(crate) use probe::in_words as probe_in_words;
pub(crate) use profile::{
    bound as profile_bound, cost as profile_cost, filters_differ, run_caveats, run_title,
    subject as profile_subject,
};
pub use profile::{profile, profile_changes};
pub(crate) use proofs::cited;
pub use proofs::proofs;
pub use recorded::recorded;
pub use runs::{RunLine, runs_list};
pub use scale::scale;
pub use search::{per_second, probe, search};
pub(crate) use sides::pair_sentence as side_sentence;
pub use sides::{answer as sides_answer, sides};
pub use sweep::sweep;
pub use tasks::{cgroups, tasks};
pub use waiting::{interrupts, waits};

/// Extent of a printed result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The numbers that decide, the failed checks, the answer.
    Brief,
    /// Everything: settings, every percentile, operations, all checks; then the answer.
    Full,
}

/// Width and color of a terminal or of its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Maximum number of columns in a line.
    pub width: usize,
    /// Whether words may be colored. Color alone carries no information.
    pub color: bool,
}

impl Style {
    /// Style for pipes and files: no color, and lines as wide as tables.
    pub const PIPE: Self = Self { width: 120, color: false };
}

/// Meaning of a word's color; the word itself carries the same meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tint {
    Good,
    Bad,
    Doubt,
    Quiet,
    Strong,
}

/// The text in its color if color is allowed.
pub(crate) fn tinted(text: &str, tint: Tint, style: Style) -> String {
    let text = printable(text);
    if !style.color || text.is_empty() {
        return text.into_owned();
    }
    let code = match tint {
        Tint::Good => "32",
        Tint::Bad => "31",
        Tint::Doubt => "33",
        Tint::Quiet => "2",
        Tint::Strong => "1",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Writes words in lines that fit; all lines but the first are indented by `indent` blanks.
pub(crate) fn paragraph(out: &mut dyn Write, text: &str, indent: usize, style: Style) -> io::Result<()> {
    wrap(out, text, 0, indent, style)
}

/// Writes a label, then words in lines that fit; all lines but the first are indented by `indent` blanks.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn folded(out: &mut dyn Write, label: &str, text: &str, indent: usize, style: Style) -> io::Result<()> {
    let label = printable(label);
    write!(out, "{label}")?;
    wrap(out, text, label.chars().count(), indent, style)
}

/// Writes a label, then words in lines that fit, from column `indent` on.
pub(crate) fn labelled(
    out: &mut dyn Write,
    (label, tint): (&str, Option<Tint>),
    text: &str,
    indent: usize,
    style: Style,
) -> io::Result<()> {
    let label = &*printable(label);
    let pad = indent.saturating_sub(label.chars().count());
    let label = tint.map_or_else(|| label.to_owned(), |tint| tinted(label, tint, style));
    write!(out, "{label}{:pad$}", "")?;
    wrap(out, text, indent, indent, style)
}

/// - `used`: number of columns already written on the first line.
fn wrap(out: &mut dyn Write, text: &str, used: usize, indent: usize, style: Style) -> io::Result<()> {
    let mut used = used;
    let mut gap = 0;
    // A number and its percent sign stay on one line: the split does not see the blank between them.
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split_ascii_whitespace() {
        let word = printable(&word.replace('\u{a0}', " ")).into_owned();
        let length = word.chars().count();
        if gap > 0 && used + gap + length > style.width {
            write!(out, "\n{:indent$}{word}", "")?;
            used = indent + length;
        } else {
            write!(out, "{:gap$}{word}", "")?;
            used += gap + length;
        }
        gap = 1;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_keeps_to_the_width() {
        let mut out = Vec::new();
        let style = Style { width: 20, color: false };
        paragraph(&mut out, "one two three four five six seven", 2, style).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "one two three four\n  five six seven\n");
        let mut out = Vec::new();
        labelled(&mut out, ("rate", None), "offered 99.9 % of all events", 6, style).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "rate  offered 99.9 %\n      of all events\n");
    }

    #[test]
    fn no_text_reaches_the_terminal_as_an_order() {
        let (mut out, style) = (Vec::new(), Style { width: 30, color: true });
        let hostile = "a\u{1b}]0;x\u{7}b\u{9b}2J\u{202e}\nVALID:";
        paragraph(&mut out, hostile, 2, style).unwrap();
        labelled(&mut out, (hostile, Some(Tint::Bad)), hostile, 6, style).unwrap();
        folded(&mut out, hostile, hostile, 2, style).unwrap();
        let text = String::from_utf8(out).unwrap().replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("VALID:")), "{text}");
    }

    #[test]
    fn color_is_only_there_where_it_is_allowed() {
        assert_eq!(tinted("better", Tint::Good, Style::PIPE), "better");
        assert_eq!(
            tinted("better", Tint::Good, Style { width: 80, color: true }),
            "\u{1b}[32mbetter\u{1b}[0m"
        );
    }
}
