//! The form of a comparison in the archive: samples and facts.

use std::collections::BTreeMap;

use super::{COMMANDS_MAX, Compared, Comparison, Peak, Phase, Round, Rules, Turn};
use crate::command::CommandEnd;
use crate::environment::Environment;
use crate::gate::Gate;
use crate::missing::{Maybe, Missing};
use crate::run::{Run, RunKind};
use crate::series::{Sample, SharedText};

/// Prefix of the facts.
const PREFIX: &str = "compare.";
/// Version of the form.
const FORM: &str = "1";
/// Most executions that are read.
const EXECUTIONS_MAX: usize = 100_000;

impl Comparison {
    /// The rounds as samples: one series for each figure, with command, round, position and phase as labels.
    ///
    /// - `host`: host name in the series.
    pub fn samples(&self, host: &str) -> Vec<Sample> {
        let (mut samples, host) = (Vec::new(), SharedText::from(host));
        for round in &self.rounds {
            for (turn, position) in round.turns.iter().zip(1..) {
                let labels = SharedText::from(labels(round, turn, position));
                samples.extend(figures(turn).into_iter().map(|(name, value)| Sample {
                    t_ms: turn.t_ms,
                    host: host.clone(),
                    name: name.into(),
                    labels: labels.clone(),
                    value,
                }));
            }
        }
        samples
    }

    /// Commands, rules and settings as facts.
    pub fn facts(&self) -> BTreeMap<String, Maybe<String>> {
        let mut facts = BTreeMap::new();
        let mut add = |name: String, value: String| facts.insert(format!("{PREFIX}{name}"), Ok(value));
        add("form".into(), FORM.into());
        add("reference".into(), Self::letter(self.reference));
        add("seed".into(), self.rules.seed.to_string());
        add("rope_ratio".into(), self.rules.rope_ratio.to_string());
        add("alpha".into(), self.rules.alpha.to_string());
        add("rounds_planned".into(), self.rounds_planned.to_string());
        let gates: Vec<String> = self.rules.gates.iter().map(ToString::to_string).collect();
        if !gates.is_empty() {
            add("gates".into(), gates.join("; "));
        }
        for (i, command) in self.commands.iter().enumerate() {
            add(format!("command.{}", Self::letter(i)), command.text.clone());
            for (name, value) in &command.parameters {
                add(format!("parameter.{}.{name}", Self::letter(i)), value.clone());
            }
        }
        for (name, value) in &self.settings {
            add(format!("setting.{name}"), value.clone());
        }
        facts
    }

    /// The comparison of an archived run; `None` if the run is of another kind.
    ///
    /// # Errors
    ///
    /// The run lacks a part of the form, or was written by a later version.
    pub fn read(run: &Run) -> Option<Maybe<Self>> {
        (run.header.kind == RunKind::Compare).then(|| {
            let mut comparison = of_facts(&run.environment)?;
            comparison.rounds = rounds(&run.series, comparison.commands.len())?;
            Ok(comparison)
        })
    }
}

fn labels(round: &Round, turn: &Turn, position: usize) -> String {
    let command = Comparison::letter(turn.command);
    format!("command={command},round={},position={position},phase={}", round.number, round.phase.word())
}

fn figures(turn: &Turn) -> Vec<(&'static str, f64)> {
    let mut all = vec![
        ("time_s", turn.time_s),
        ("user_s", turn.user_s),
        ("system_s", turn.system_s),
        ("minor_faults", turn.minor_faults as f64),
        ("major_faults", turn.major_faults as f64),
        ("left_processes", f64::from(turn.left)),
    ];
    all.push(match turn.memory {
        Peak::Bytes(bytes) => ("max_memory_bytes", bytes),
        Peak::AtMost(bytes) => ("max_memory_at_most_bytes", bytes),
    });
    all.extend(turn.events_s.as_ref().ok().map(|s| ("cpu_events_s", *s)));
    all.extend(turn.instructions.as_ref().ok().map(|count| ("instructions", *count)));
    all.push(match turn.end {
        CommandEnd::Code(code) => ("exit_code", f64::from(code)),
        CommandEnd::Signal(signal) => ("signal", f64::from(signal)),
        CommandEnd::NoCommand => ("exit_code", 0.0),
    });
    all
}

fn of_facts(environment: &Environment) -> Maybe<Comparison> {
    let fact = |name: &str| environment.fact(&format!("{PREFIX}{name}"));
    let lacks = |name: &str| Missing::because(format!("the archive lacks the fact {PREFIX}{name}"));
    let number = |name: &str| -> Maybe<f64> {
        let found = fact(name).and_then(|text| text.parse().ok()).filter(|v: &f64| v.is_finite());
        found.ok_or_else(|| lacks(name))
    };
    if let Some(form) = fact("form").filter(|form| *form != FORM) {
        return Err(Missing::because(format!("a later version of bakeoff wrote it, in format {form}")));
    }
    let with_prefix = |prefix: &str| -> BTreeMap<String, String> {
        let prefix = format!("{PREFIX}{prefix}.");
        let known = environment.facts.iter().filter_map(|(name, value)| Some((name, value.as_ref().ok()?)));
        known.filter_map(|(n, v)| Some((n.strip_prefix(&prefix)?.to_owned(), v.clone()))).collect()
    };
    let parameters = with_prefix("parameter");
    let mut commands = Vec::new();
    for i in 0..COMMANDS_MAX {
        let letter = Comparison::letter(i);
        let Some(text) = fact(&format!("command.{letter}")) else { break };
        let of_this = parameters.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix(&format!("{letter}."))?.to_owned(), value.clone()))
        });
        commands.push(Compared { text: text.to_owned(), parameters: of_this.collect() });
    }
    let reference = fact("reference").and_then(|l| (0..commands.len()).find(|i| Comparison::letter(*i) == l));
    let (rope_ratio, alpha) = (number("rope_ratio")?, number("alpha")?);
    if rope_ratio < 0.0 || !(alpha > 0.0 && alpha < 1.0) {
        return Err(Missing::because("its rope_ratio or alpha is out of range"));
    }
    let gates = fact("gates").unwrap_or_default().split("; ").filter(|text| !text.is_empty());
    let gates = gates.map(|text| Gate::read_of_commands(text).map_err(|e| Missing::because(e.to_string())));
    Ok(Comparison {
        reference: reference.ok_or_else(|| lacks("reference"))?,
        commands,
        rules: Rules {
            rope_ratio,
            alpha,
            seed: fact("seed").and_then(|text| text.parse().ok()).ok_or_else(|| lacks("seed"))?,
            gates: gates.collect::<Maybe<_>>()?,
        },
        rounds_planned: fact("rounds_planned")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| lacks("rounds_planned"))?,
        settings: with_prefix("setting"),
        rounds: Vec::new(),
    })
}

/// One execution: its figures by name, and its time.
#[derive(Default)]
struct Figures<'a> {
    t_ms: i64,
    values: BTreeMap<&'a str, f64>,
}

/// Place of an execution: round, position, command, and the phase of the round.
type Place = (u32, u32, usize, Phase);

fn rounds(samples: &[Sample], commands: usize) -> Maybe<Vec<Round>> {
    let mut executions: BTreeMap<Place, Figures<'_>> = BTreeMap::new();
    for sample in samples {
        let Some(place) = place(&sample.labels, commands) else { continue };
        if executions.len() == EXECUTIONS_MAX && !executions.contains_key(&place) {
            return Err(Missing::because(format!("it has more than {EXECUTIONS_MAX} executions")));
        }
        let figures = executions.entry(place).or_default();
        figures.t_ms = sample.t_ms;
        figures.values.insert(&sample.name, sample.value);
    }
    let mut rounds: Vec<Round> = Vec::new();
    for ((number, _, command, phase), figures) in executions {
        let turn = turn(command, &figures)?;
        match rounds.last_mut().filter(|round| round.number == number && round.phase == phase) {
            Some(round) if round.turn_of(command).is_none() => round.turns.push(turn),
            Some(_) => return Err(Missing::because(format!("a command has two results in round {number}"))),
            None => rounds.push(Round { number, phase, turns: vec![turn] }),
        }
    }
    Ok(rounds)
}

fn place(labels: &str, commands: usize) -> Option<Place> {
    let all: BTreeMap<&str, &str> = labels.split(',').filter_map(|label| label.split_once('=')).collect();
    let letter = all.get("command")?;
    let command = (0..commands).find(|i| Comparison::letter(*i) == *letter)?;
    let number = |name: &str| all.get(name)?.parse().ok();
    Some((number("round")?, number("position")?, command, Phase::from_word(all.get("phase")?)?))
}

fn turn(command: usize, figures: &Figures<'_>) -> Maybe<Turn> {
    let value = |name: &str| figures.values.get(name).copied().filter(|v| v.is_finite() && *v >= 0.0);
    let needed = |name: &str| value(name).ok_or_else(|| Missing::because(format!("a round has no {name}")));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts, not negative")]
    let count = |value: f64| value as u64;
    #[expect(clippy::cast_possible_truncation, reason = "a code of the system, or damage")]
    let code = |value: f64| value as i32;
    let end = match (figures.values.get("exit_code"), figures.values.get("signal")) {
        (Some(found), _) => CommandEnd::Code(code(*found)),
        (None, Some(found)) => CommandEnd::Signal(code(*found)),
        (None, None) => return Err(Missing::because("a round has no exit code")),
    };
    let time_s = needed("time_s")?;
    if time_s <= 0.0 {
        return Err(Missing::because("the time of a round is not over 0"));
    }
    let memory = match (value("max_memory_bytes"), value("max_memory_at_most_bytes")) {
        (Some(bytes), _) => Peak::Bytes(bytes),
        (None, bound) => Peak::AtMost(bound.unwrap_or(f64::INFINITY)),
    };
    Ok(Turn {
        command,
        t_ms: figures.t_ms,
        end,
        time_s,
        user_s: needed("user_s")?,
        system_s: needed("system_s")?,
        events_s: value("cpu_events_s").ok_or_else(|| Missing::because("not measured")),
        instructions: value("instructions").ok_or_else(|| Missing::because("not measured")),
        memory,
        minor_faults: count(needed("minor_faults")?),
        major_faults: count(needed("major_faults")?),
        left: u32::try_from(count(value("left_processes").unwrap_or(0.0))).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::WallAnchor;
    use crate::run::RunHeader;

    fn turn_of(command: usize, time_s: f64) -> Turn {
        Turn {
            command,
            t_ms: 17,
            end: CommandEnd::Code(3),
            time_s,
            user_s: 0.25,
            system_s: 0.0,
            events_s: if command == 0 { Ok(0.3) } else { Err(Missing::because("not measured")) },
            instructions: if command == 0 { Err(Missing::because("not measured")) } else { Ok(1e9) },
            memory: if command == 0 { Peak::Bytes(5e6) } else { Peak::AtMost(2e6) },
            minor_faults: 120,
            major_faults: 0,
            left: 1,
        }
    }

    fn sample() -> Comparison {
        let compared = |text: &str| Compared {
            text: text.to_owned(),
            parameters: [("level".to_owned(), "3".to_owned())].into(),
        };
        Comparison {
            commands: vec![compared("gzip -3 x"), compared("zstd, 'a=b'")],
            reference: 1,
            rules: Rules {
                rope_ratio: 0.01,
                alpha: 0.05,
                seed: u64::MAX,
                gates: vec![Gate::read_of_commands("time not worse by 5%").unwrap()],
            },
            rounds_planned: 7,
            settings: [("shell".to_owned(), "none".to_owned())].into(),
            rounds: vec![
                Round { number: 1, phase: Phase::Pilot, turns: vec![turn_of(1, 0.5), turn_of(0, 0.25)] },
                Round { number: 2, phase: Phase::Measured, turns: vec![turn_of(0, 0.125)] },
            ],
        }
    }

    fn archived(comparison: &Comparison) -> Run {
        let anchor = WallAnchor { monotonic_ns: 0, unix_ns: 0 };
        let header = RunHeader::running(RunKind::Compare, anchor, "x".into(), "x".into());
        let environment = Environment { facts: comparison.facts(), ..Environment::default() };
        Run { series: comparison.samples("here"), ..Run::unmeasured(header, environment) }
    }

    #[test]
    fn a_comparison_reads_back_as_it_was_stored() {
        let comparison = sample();
        assert_eq!(Comparison::read(&archived(&comparison)).unwrap().unwrap(), comparison);
    }

    #[test]
    fn a_run_that_lacks_a_part_is_no_comparison_and_does_not_panic() {
        let whole = archived(&sample());
        for name in ["reference", "seed", "rope_ratio", "alpha", "rounds_planned"] {
            let mut run = whole.clone();
            run.environment.facts.remove(&format!("{PREFIX}{name}"));
            assert!(Comparison::read(&run).unwrap().is_err(), "{name}");
        }
        for (from, to) in [("command=A", "command=Z"), ("round=1", "round=x"), ("phase=pilot", "phase=")] {
            let mut run = whole.clone();
            run.series.iter_mut().for_each(|s| s.labels = s.labels.replace(from, to).into());
            assert!(Comparison::read(&run).is_some());
        }
        let mut run = whole.clone();
        run.series.iter_mut().for_each(|s| s.value = f64::NAN);
        assert!(Comparison::read(&run).unwrap().is_err());
        let mut run = whole;
        run.series.iter_mut().for_each(|s| s.labels = "cpu=1".into());
        assert_eq!(Comparison::read(&run).unwrap().unwrap().rounds, Vec::new());
    }

    #[test]
    fn every_command_has_a_letter() {
        assert_eq!([0, 25, 26].map(Comparison::letter), ["A", "Z", "#27"]);
    }
}
