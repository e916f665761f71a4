//! Conducts a comparison of commands: setup, warm-up, a pilot, and rounds of every command in random order.
//!
//! The number of measured rounds is fixed after the pilot. Rounds end before that number only if the time is
//! over by a quarter. This depends on the length of whole rounds, which stays the same if two commands swap
//! their names, so it favors no command.

mod settings;
mod turn;

use std::fs::File;
use std::time::Duration;

use load::Stop;
use probes::cpu_time::{self, Adopt, CpuProbe};
use probes::instructions::Instructions;
use probes::topology::Cores;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::command::CommandEnd;
use record::commands::{Comparison, Phase, ROUNDS_MAX, Round, Turn};
use record::limits::Throttled;
use record::missing::{Maybe, Missing};

pub use self::settings::{CommandPlan, CommandsPlan, Failures, Output};
use self::turn::{Pipes, Ran};
use crate::error::RunnerError;
use crate::machine::Machine;
use crate::process::Waited;
use crate::quotas::Quotas;
use crate::random;
use crate::strays::{self, Kept, Strays};

/// Rounds of the pilot.
pub const PILOT_ROUNDS: u32 = 8;
/// Part of the time that the pilot may take: a fifth.
const PILOT_PARTS: u32 = 5;
/// Fewest pilot rounds from which a number of rounds is computed.
const PILOT_ROUNDS_MIN: u32 = 3;
/// Longest cleanup after a request to stop.
const CLEANUP_MAX: Duration = Duration::from_secs(10);
/// Part of the time by which the measured rounds may be over it: a quarter.
const OVERTIME_PARTS: u32 = 4;

/// Progress of a comparison.
#[derive(Debug)]
pub enum CommandsEvent<'a> {
    /// A step before or after the rounds.
    Doing(&'a str),
    /// A phase of so many rounds begins.
    Phase(Phase, u32),
    /// So many rounds of the phase have ended.
    Rounds(u32),
}

/// Result of conducting a comparison.
#[derive(Debug)]
pub struct Conducted {
    /// The comparison with its rounds.
    pub comparison: Comparison,
    /// Reason that it ended early; `None` if it is whole.
    pub ended: Option<Early>,
    /// Throttling by a CPU quota over the measured rounds.
    pub throttled: Maybe<Throttled>,
    /// Whether another measurement ran on the machine at some time.
    pub shared: bool,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// Reason that a comparison ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Early {
    /// The user stopped it.
    Stopped,
    /// A command failed; the reason in a sentence.
    Failed(String),
}

/// Conducts a comparison to its end, or until `stop` is requested.
///
/// - `rounds`: computes the number of rounds to measure from the comparison with its pilot, and from the
///   number that fits into the time.
///
/// # Errors
///
/// [`RunnerError`] if nothing could be measured: another measurement runs, a command does not start, or its
/// first execution or a command around it fails.
pub fn commands(
    plan: &CommandsPlan,
    anchor: WallAnchor,
    beside_others: bool,
    stop: &Stop,
    rounds: &dyn Fn(&Comparison, u32) -> u32,
    on_event: &mut dyn FnMut(&CommandsEvent<'_>),
) -> Result<Conducted, RunnerError> {
    let machine = Machine::take(beside_others)?;
    let look = machine.look();
    strays::adopt().map_err(|e| RunnerError::NotFit {
        problems: vec![format!("cannot adopt processes that commands leave behind: {e}")],
    })?;
    let unreadable = |source| RunnerError::Data {
        what: format!("cannot read the input {}", plan.input.as_deref().unwrap_or("".as_ref()).display()),
        source,
    };
    let input = plan.input.as_deref().map(turn::open_input).transpose().map_err(unreadable)?;
    let pipes =
        Pipes::new().map_err(|source| RunnerError::Data { what: "cannot create a pipe".into(), source })?;
    let mut conductor = Conductor {
        plan,
        anchor,
        stop,
        input,
        pipes,
        mark: random::token(),
        mark_of_hooks: random::token(),
        kept: Kept::default(),
        probe: plan.by_events.then(opened),
        counted_ns: 0,
        instructions: Instructions::open(),
        comparison: plan.comparison.clone(),
        on_event,
    };
    let mut quotas = Quotas::new();
    let ended = conductor.conduct(rounds, &mut quotas)?;
    let shared = beside_others || machine.was_shared_since(&look);
    let throttled = quotas.take();
    let mut notes: Vec<String> = conductor.probe.iter().flat_map(|probe| probe.notes().to_vec()).collect();
    notes.extend(quotas.lost().map(str::to_owned));
    Ok(Conducted { comparison: conductor.comparison, ended, throttled, shared, notes })
}

/// Opens the probe that counts CPU time by events.
fn opened() -> CpuProbe {
    let mut probe = cpu_time::open(&cpu_time::Options::of_this_machine().with_tasks(Cores::default()));
    probe.start();
    probe
}

struct Conductor<'a> {
    plan: &'a CommandsPlan,
    anchor: WallAnchor,
    stop: &'a Stop,
    input: Option<File>,
    pipes: Pipes,
    /// Mark of the processes of measured commands.
    mark: String,
    /// Mark of the processes of the commands around them, which may outlive a round: a server, for example.
    mark_of_hooks: String,
    /// Such processes, also without the mark.
    kept: Kept,
    probe: Option<CpuProbe>,
    /// CPU time of all commands so far, by events.
    counted_ns: u64,
    /// Counter of all commands, if the machine has one.
    instructions: Maybe<Instructions>,
    comparison: Comparison,
    on_event: &'a mut dyn FnMut(&CommandsEvent<'_>),
}

/// Reason that a round has no result.
enum Cut {
    Stopped,
    Failed(String),
    Error(RunnerError),
}

impl Conductor<'_> {
    fn conduct(
        &mut self,
        rounds: &dyn Fn(&Comparison, u32) -> u32,
        quotas: &mut Quotas,
    ) -> Result<Option<Early>, RunnerError> {
        let within = (self.stop, self.plan.timeout);
        let set_up = self.hooks("setup", |c| c.setup.as_deref(), within);
        let played = set_up.and_then(|()| self.play(rounds, quotas));
        quotas.close();
        // A comparison that was stopped needs its files removed too, and a second Ctrl-C must not wait for
        // long.
        let (unstopped, timeout) = match &played {
            Err(Cut::Stopped) => (Stop::new(), CLEANUP_MAX.min(self.plan.timeout)),
            _ => (Stop::new(), self.plan.timeout),
        };
        let cleaned = self.clean_up((&unstopped, timeout));
        let has_measured = self.comparison.whole_rounds(Phase::Measured).next().is_some();
        match played.and(cleaned) {
            Ok(()) => Ok(None),
            Err(Cut::Stopped) if has_measured => Ok(Some(Early::Stopped)),
            Err(Cut::Stopped) => Err(RunnerError::StoppedBefore),
            Err(Cut::Failed(why)) if has_measured => Ok(Some(Early::Failed(why))),
            Err(Cut::Failed(what)) => Err(RunnerError::Command { what }),
            Err(Cut::Error(error)) => Err(error),
        }
    }

    fn play(&mut self, rounds: &dyn Fn(&Comparison, u32) -> u32, quotas: &mut Quotas) -> Result<(), Cut> {
        let began_ns = Monotonic.now_ns();
        self.phase(Phase::WarmUp, self.plan.warmup, None)?;
        let warm_up_ns = Monotonic.now_ns() - began_ns;
        let round_ns = warm_up_ns / u64::from(self.plan.warmup.max(1));
        let pilot_ns = u64::from(PILOT_ROUNDS_MIN) * round_ns;
        let planned = match self.plan.rounds {
            Some(rounds) => rounds,
            // Its values would decide nothing: all that fits is measured.
            None if pilot_ns > ns(self.plan.time / PILOT_PARTS) => fit(self.plan.time, warm_up_ns, round_ns),
            None => self.pilot(rounds, began_ns)?,
        };
        self.comparison.rounds_planned = planned;
        quotas.open();
        let at_most = self.plan.time + self.plan.time / OVERTIME_PARTS;
        let deadline_ns = began_ns.saturating_add(ns(at_most));
        self.phase(Phase::Measured, planned, self.plan.rounds.is_none().then_some(deadline_ns))
    }

    /// Plays the pilot, and fixes the number of measured rounds.
    fn pilot(&mut self, rounds: &dyn Fn(&Comparison, u32) -> u32, began_ns: u64) -> Result<u32, Cut> {
        let pilot_ns = Monotonic.now_ns();
        self.phase(Phase::Pilot, PILOT_ROUNDS, Some(pilot_ns + ns(self.plan.time / PILOT_PARTS)))?;
        let played =
            u32::try_from(self.comparison.whole_rounds(Phase::Pilot).count()).unwrap_or(PILOT_ROUNDS);
        let now_ns = Monotonic.now_ns();
        let round_ns = ((now_ns - pilot_ns) / u64::from(played.max(1))).max(1);
        let fit = fit(self.plan.time, now_ns - began_ns, round_ns);
        Ok(if played < PILOT_ROUNDS_MIN { fit } else { rounds(&self.comparison, fit).clamp(2, fit) })
    }

    /// Plays rounds of one phase: `count` of them, or until the deadline is over, but at least two.
    fn phase(&mut self, phase: Phase, count: u32, deadline_ns: Option<u64>) -> Result<(), Cut> {
        (self.on_event)(&CommandsEvent::Phase(phase, count));
        for done in 0..count {
            if done >= 2 && deadline_ns.is_some_and(|deadline_ns| Monotonic.now_ns() >= deadline_ns) {
                return Ok(());
            }
            self.round(phase)?;
            (self.on_event)(&CommandsEvent::Rounds(done + 1));
        }
        Ok(())
    }

    fn round(&mut self, phase: Phase) -> Result<(), Cut> {
        let number = u32::try_from(self.comparison.rounds.len() + 1).unwrap_or(u32::MAX);
        let order = plan::shuffled(self.comparison.rules.seed, number, self.plan.commands.len());
        self.comparison.rounds.push(Round { number, phase, turns: Vec::new() });
        for command in order {
            let turn = self.turn(command)?;
            let round = self.comparison.rounds.last_mut().expect("it was just added");
            round.turns.push(turn);
        }
        Ok(())
    }

    /// Runs one command once, with the commands before and after it.
    fn turn(&mut self, command: usize) -> Result<Turn, Cut> {
        let plan = self.plan;
        let of_this = &plan.commands[command];
        self.hook("prepare", of_this.prepare.as_deref())?;
        if self.stop.is_requested() {
            return Err(Cut::Stopped);
        }
        if let Some(probe) = &mut self.probe {
            probe.adopt(Adopt::Children);
        }
        let before = self.instructions_so_far();
        let around = (self.mark.as_str(), plan.timeout);
        let ran = self.pipes.run(of_this, self.input.as_ref(), around, self.stop);
        let events_s = self.counted();
        let ran = ran.map_err(|source| self.does_not_start(command, source))?;
        // Also if the command failed or was killed.
        let strays = self.end_strays();
        let time_s = self.checked(command, &ran)?;
        let strays = strays?;
        let after = self.instructions_so_far();
        self.hook("conclude", of_this.conclude.as_deref())?;
        let t_ns =
            self.anchor.unix_ns_at(Monotonic.now_ns()).cast_signed() - self.anchor.unix_ns.cast_signed();
        Ok(Turn {
            command,
            t_ms: t_ns / 1_000_000,
            end: ran.end,
            time_s,
            user_s: ran.usage.user.as_secs_f64(),
            system_s: ran.usage.system.as_secs_f64(),
            events_s,
            instructions: before.and_then(|before| Ok(after?.saturating_sub(before) as f64)),
            memory: ran.usage.memory,
            minor_faults: ran.usage.minor_faults,
            major_faults: ran.usage.major_faults,
            left: ran.left + strays,
        })
    }

    fn instructions_so_far(&mut self) -> Maybe<u64> {
        self.instructions.as_mut().map_err(|why| why.clone())?.read()
    }

    /// CPU seconds of the command that has just ended, by events.
    fn counted(&mut self) -> Maybe<f64> {
        let Some(probe) = &mut self.probe else { return Err(Missing::because("not measured (--events)")) };
        probe.adopt(Adopt::Nobody);
        probe.read();
        let counted_ns = probe.members_ns()?;
        let of_this_ns = counted_ns.saturating_sub(std::mem::replace(&mut self.counted_ns, counted_ns));
        Ok(of_this_ns as f64 * 1e-9)
    }

    fn does_not_start(&self, command: usize, source: std::io::Error) -> Cut {
        let text = &self.comparison.commands[command].text;
        // The program that does not start is the shell, whatever the command is.
        if let Some(shell) = self.comparison.settings.get("shell").filter(|shell| *shell != "none") {
            return Cut::Error(RunnerError::NoShell { shell: shell.clone(), source });
        }
        Cut::Error(RunnerError::NoCommand {
            command: format!("{}: {text}", Comparison::letter(command)),
            source,
        })
    }

    /// Seconds of an execution, unless its end ends the comparison.
    fn checked(&self, command: usize, ran: &Ran) -> Result<f64, Cut> {
        let letter = Comparison::letter(command);
        let said = ran.said.as_ref().map_or(String::new(), |said| format!("; it said: {said}"));
        let Some(time) = ran.time else {
            return Err(if ran.waited == Waited::Stopped {
                Cut::Stopped
            } else {
                let limit = self.plan.timeout;
                let round = self.round_now();
                Cut::Failed(format!("{letter} did not end within {limit:?} (--timeout) in {round}{said}"))
            });
        };
        if !self.plan.failures.allow(ran.end) {
            let ended = match ran.end {
                CommandEnd::Code(code) => format!("ended with exit code {code}"),
                _ => format!("ended with {}", ran.status),
            };
            let round = self.round_now();
            let mend = "--ignore-failure measures it anyway";
            return Err(Cut::Failed(format!("{letter} {ended} in {round}{said} ({mend})")));
        }
        Ok(time.as_secs_f64().max(1e-9))
    }

    /// The round that is being played, counted within its phase: `measured round 4`.
    fn round_now(&self) -> String {
        let rounds = &self.comparison.rounds;
        let phase = rounds.last().map_or(Phase::Measured, |round| round.phase);
        let number = rounds.iter().filter(|round| round.phase == phase).count();
        format!("{} round {number}", phase.word())
    }

    /// Ends processes that left the group of the command. Returns their number.
    fn end_strays(&self) -> Result<u32, Cut> {
        if !strays::may_have_orphans() {
            return Ok(0);
        }
        let ended = Strays::begin(&self.mark, None).except(self.kept.clone()).end();
        ended.map(|count| u32::try_from(count).unwrap_or(u32::MAX)).map_err(Cut::Failed)
    }

    fn hooks(
        &mut self,
        name: &str,
        of: fn(&CommandPlan) -> Option<&str>,
        within: (&Stop, Duration),
    ) -> Result<(), Cut> {
        let plan = self.plan;
        if plan.commands.iter().any(|command| of(command).is_some()) {
            (self.on_event)(&CommandsEvent::Doing(name));
        }
        plan.commands.iter().try_for_each(|command| self.hook_within(name, of(command), within))
    }

    /// Cleans up for each command, also after a failure; returns the first failure.
    fn clean_up(&mut self, within: (&Stop, Duration)) -> Result<(), Cut> {
        let plan = self.plan;
        if plan.commands.iter().any(|command| command.cleanup.is_some()) {
            (self.on_event)(&CommandsEvent::Doing("cleanup"));
        }
        let clean = |command: &CommandPlan| self.hook_within("cleanup", command.cleanup.as_deref(), within);
        plan.commands.iter().map(clean).fold(Ok(()), Result::and)
    }

    fn hook(&mut self, name: &str, text: Option<&str>) -> Result<(), Cut> {
        self.hook_within(name, text, (self.stop, self.plan.timeout))
    }

    fn hook_within(
        &mut self,
        name: &str,
        text: Option<&str>,
        (stop, timeout): (&Stop, Duration),
    ) -> Result<(), Cut> {
        let Some(text) = text else { return Ok(()) };
        let ended = turn::hook((name, text), &self.mark_of_hooks, timeout, stop);
        self.kept.add_adopted();
        match ended {
            Ok(Waited::Stopped) => Err(Cut::Stopped),
            Ok(_) => Ok(()),
            Err(why) => Err(Cut::Failed(why)),
        }
    }
}

/// Rounds that fit into the rest of the time; at least two, as one has no spread.
fn fit(time: Duration, used_ns: u64, round_ns: u64) -> u32 {
    let left_ns = ns(time).saturating_sub(used_ns);
    u32::try_from(left_ns / round_ns.max(1)).unwrap_or(ROUNDS_MAX).clamp(2, ROUNDS_MAX)
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests;
