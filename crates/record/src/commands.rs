//! A comparison of commands: rounds, in each of which every command runs once, in random order.
//!
//! The archive stores the rounds as samples, and the settings as facts about the environment, in the forms
//! that it has for all runs. [`Comparison::samples`] and [`Comparison::facts`] write them,
//! [`Comparison::read`] reads them.

mod stored;

use std::collections::BTreeMap;

use crate::command::CommandEnd;
use crate::gate::Gate;
use crate::missing::Maybe;
use crate::run::words;

/// Most commands of a comparison: each has a letter.
pub const COMMANDS_MAX: usize = 26;
/// Most rounds of a comparison.
pub const ROUNDS_MAX: u32 = 2_000;

/// Commands against each other, with every execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The commands; the first has the letter A.
    pub commands: Vec<Compared>,
    /// Index of the command that the others are compared with.
    pub reference: usize,
    /// Rules of judgement.
    pub rules: Rules,
    /// Measured rounds that were planned before the first of them; 0 if none was planned.
    pub rounds_planned: u32,
    /// Settings for people, by name: `shell`, `prepare.A`.
    pub settings: BTreeMap<String, String>,
    /// All rounds in chronological order, including warm-up and pilot.
    pub rounds: Vec<Round>,
}

/// One of the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The command line, or the name that the user gave.
    pub text: String,
    /// Values of the parameters in it.
    pub parameters: BTreeMap<String, String>,
}

/// Rules of judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Half width of the region of practical equivalence, as a share.
    pub rope_ratio: f64,
    /// Accepted rate of any false verdict.
    pub alpha: f64,
    /// Random seed of the order.
    pub seed: u64,
    /// Conditions on the result.
    pub gates: Vec<Gate>,
}

/// Purpose of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not counted.
    WarmUp,
    /// Decides how many rounds are measured; not part of the verdict.
    Pilot,
    /// Part of the verdict.
    Measured,
}

words!(Phase { WarmUp = "warm-up", Pilot = "pilot", Measured = "measured" });

/// Every command once, in the order drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Number over all phases, from 1.
    pub number: u32,
    /// Purpose.
    pub phase: Phase,
    /// The executions in chronological order.
    pub turns: Vec<Turn>,
}

/// One execution of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Index of the command.
    pub command: usize,
    /// Milliseconds since the run's anchor, at its end.
    pub t_ms: i64,
    /// Outcome.
    pub end: CommandEnd,
    /// Seconds from its start to its exit.
    pub time_s: f64,
    /// CPU seconds in user mode, of the command and the children that it waited for.
    pub user_s: f64,
    /// CPU seconds in the kernel, of the same.
    pub system_s: f64,
    /// CPU seconds by events, including children that were not waited for.
    pub events_s: Maybe<f64>,
    /// Instructions in user mode, of the command and all its processes that ended.
    pub instructions: Maybe<f64>,
    /// Largest resident memory of one of its processes.
    pub memory: Peak,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Processes that it left behind, ended before the next command.
    pub left: u32,
}

/// Largest resident memory of a process.
///
/// The kernel counts the memory of a new process before it executes the command: a copy of the memory of the
/// program that starts it. A command with less memory than that has only a bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Peak {
    /// Bytes.
    Bytes(f64),
    /// Upper bound, in bytes.
    AtMost(f64),
}

impl Comparison {
    /// Letter of a command: A, B, C.
    pub fn letter(index: usize) -> String {
        let offset = u8::try_from(index).ok().filter(|i| usize::from(*i) < COMMANDS_MAX);
        offset.map_or_else(|| format!("#{}", index + 1), |i| char::from(b'A' + i).to_string())
    }

    /// A name for each command, which tells it from the others and is the same in other comparisons: its text
    /// with the parameters that the text does not tell. Of equal commands the second is `NAME #2`.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for command in &self.commands {
            let name = command.name();
            let numbered = (2..).map(|number| format!("{name} #{number}"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
            names.extend(free);
        }
        names
    }

    /// Rounds of one phase in which every command ran.
    pub fn whole_rounds(&self, phase: Phase) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(move |r| r.phase == phase && r.turns.len() == self.commands.len())
    }

    /// Seconds of a measured round with the commands around each execution; `None` with fewer than two
    /// rounds.
    pub fn round_s(&self) -> Option<f64> {
        let end = |round: &Round| round.turns.iter().map(|turn| turn.t_ms).max();
        let ends: Vec<i64> = self.whole_rounds(Phase::Measured).filter_map(end).collect();
        let (first, last) = (ends.first()?, ends.last()?);
        (ends.len() > 1).then(|| (last - first) as f64 * 1e-3 / (ends.len() - 1) as f64)
    }

    /// Whether events counted the CPU time of every measured execution, of all commands.
    pub fn has_cpu_by_events(&self) -> bool {
        let mut turns = self.whole_rounds(Phase::Measured).flat_map(|round| &round.turns).peekable();
        turns.peek().is_some() && turns.all(|turn| turn.events_s.is_ok())
    }

    /// CPU seconds of an execution, from the same source for all: events if they counted every measured one,
    /// else the kernel's account of the process.
    pub fn cpu_s(&self) -> fn(&Turn) -> f64 {
        if self.has_cpu_by_events() { |turn| turn.events_s.clone().unwrap_or(0.0) } else { Turn::cpu_s }
    }

    /// Name of that source.
    pub fn cpu_source(&self) -> &'static str {
        if self.has_cpu_by_events() { "events" } else { "rusage" }
    }

    /// The executions of one command in the whole rounds of one phase.
    pub fn turns_of(&self, command: usize, phase: Phase) -> impl Iterator<Item = &Turn> {
        self.whole_rounds(phase).filter_map(move |round| round.turn_of(command))
    }
}

impl Compared {
    /// The text, and the parameters with values that it does not contain: `gzip (level=9)`. A name that the
    /// user gave need not contain them.
    fn name(&self) -> String {
        let is_told = |value: &str| {
            self.text.match_indices(value).any(|(at, _)| {
                let (before, after) = (&self.text[..at], &self.text[at + value.len()..]);
                !is_one_word(before.chars().next_back(), value.chars().next())
                    && !is_one_word(value.chars().next_back(), after.chars().next())
            })
        };
        let untold = self.parameters.iter().filter(|(_, value)| !is_told(value));
        let untold: Vec<String> = untold.map(|(name, value)| format!("{name}={value}")).collect();
        if untold.is_empty() { self.text.clone() } else { format!("{} ({})", self.text, untold.join(", ")) }
    }
}

/// Whether two neighbors are parts of one number or of one word.
fn is_one_word(a: Option<char>, b: Option<char>) -> bool {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    a.zip(b).is_some_and(|(a, b)| {
        (is_of_number(a) && is_of_number(b)) || (a.is_alphabetic() && b.is_alphabetic())
    })
}

impl Round {
    /// The execution of one command.
    pub fn turn_of(&self, command: usize) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.command == command)
    }
}

impl Turn {
    /// CPU seconds in both modes, by the kernel's account of the process.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(commands: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        let compared = |(text, parameters): &(&str, &[(&str, &str)])| Compared {
            text: (*text).to_owned(),
            parameters: parameters.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        };
        let comparison = Comparison {
            commands: commands.iter().map(compared).collect(),
            reference: 0,
            rules: Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1, gates: Vec::new() },
            rounds_planned: 0,
            settings: BTreeMap::new(),
            rounds: Vec::new(),
        };
        comparison.names()
    }

    #[test]
    fn commands_of_one_text_have_different_names() {
        let levels = [("gzip", [("level", "1")]), ("gzip", [("level", "9")])];
        let levels = levels.each_ref().map(|(text, parameters)| (*text, &parameters[..]));
        assert_eq!(names(&levels), ["gzip (level=1)", "gzip (level=9)"]);
        assert_eq!(names(&[("x", &[]), ("y", &[]), ("x", &[]), ("x", &[])]), ["x", "y", "x #2", "x #3"]);
        assert_eq!(names(&[("x #2", &[]), ("x", &[]), ("x", &[])]), ["x #2", "x", "x #3"]);
    }

    #[test]
    fn a_parameter_that_the_text_tells_is_no_further_part_of_the_name() {
        let name = |text: &str, value: &str| names(&[(text, &[("n", value)])]).remove(0);
        assert_eq!(name("gzip -6 x", "6"), "gzip -6 x");
        assert_eq!(name("zstd -T2 x", "2"), "zstd -T2 x");
        assert_eq!(name("sort old", "old"), "sort old");
        // A digit of another number, a part of another word.
        assert_eq!(name("gzip -16 x", "6"), "gzip -16 x (n=6)");
        assert_eq!(name("sleep 0.1", "1"), "sleep 0.1 (n=1)");
        assert_eq!(name("fold x", "old"), "fold x (n=old)");
    }
}
