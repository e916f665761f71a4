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

    /// The executions of one command in the whole rounds of one phase.
    pub fn turns_of(&self, command: usize, phase: Phase) -> impl Iterator<Item = &Turn> {
        self.whole_rounds(phase).filter_map(move |round| round.turn_of(command))
    }
}

impl Round {
    /// The execution of one command.
    pub fn turn_of(&self, command: usize) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.command == command)
    }
}

impl Turn {
    /// CPU seconds in both modes.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}
