//! Writes a commented plan from a load or from commands. `plan::read` accepts what is written here.

use std::fmt::Write as _;
use std::time::Duration;

use record::agents::{FleetSettings, OnLoss};
use record::bakeoff::Metric;
use record::gate::{Amount, Gate, GateRule};
use record::load::settings::{self, Setting, Values};
use record::quantity::written_duration;

use crate::command_lines::has_metacharacters;

/// A load, as its command line describes it.
#[derive(Debug, Clone)]
pub struct LoadDraft {
    /// The command line, for the first comment.
    pub written_from: String,
    /// A line for people.
    pub title: String,
    /// The target.
    pub target: String,
    /// Given settings with their values as texts; a switch that is on has none.
    pub given: Vec<(&'static Setting, Vec<String>)>,
    /// Instruments, if they were named.
    pub observe: Option<Vec<String>>,
    /// Agents that generate the load.
    pub fleet: Option<FleetSettings>,
}

/// Commands to compare.
#[derive(Debug, Clone)]
pub struct CommandsDraft {
    /// The command line, for the first comment.
    pub written_from: String,
    /// A line for people.
    pub title: String,
    /// The commands.
    pub commands: Vec<String>,
    /// Index of the reference.
    pub reference: usize,
    /// The reader of the commands: `none`, `sh`, or another program with its arguments.
    pub shell: String,
    /// Number of blocks; `None`: the fewest for a claim.
    pub blocks: Option<u32>,
    /// Random seed of the order.
    pub seed: Option<u64>,
    /// Region of equivalence, as text: `1%`.
    pub rope: Option<String>,
    /// Length of all warm-ups and measured phases together.
    pub time: Option<Duration>,
    /// Conditions on the time and the CPU time of a command.
    pub gates: Vec<Gate>,
}

/// Reason that a plan cannot be the same bake-off as the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NotAPlan {
    /// The fault, and what to do.
    pub what: String,
}

fn refuse<T>(what: impl Into<String>) -> Result<T, NotAPlan> {
    Err(NotAPlan { what: what.into() })
}

/// The fewest blocks for a claim at alpha 5 %.
const BLOCKS: u32 = 6;
/// Phases of a trial without a given time.
const WARMUP: Duration = Duration::from_secs(1);
const MEASURE: Duration = Duration::from_secs(5);
/// Shortest measured phase that a given time may lead to.
const MEASURE_MIN: Duration = Duration::from_secs(1);

/// Settings that have another place in a plan than `[load]`.
const ELSEWHERE: [&str; 6] = ["seed", "warmup", "time", "interval", "prepare", "events"];

/// The plan of a load.
pub fn of_load(draft: &LoadDraft) -> String {
    let mut out = head(&draft.written_from, &draft.title);
    out += "\
# What is compared: give the factor values, and put {journal_mode} into a text of [load] or [server].
# A whole-plot factor needs a fresh server or data set for each value; a sub-plot factor (threads, rate) does not.
# [factors.journal_mode]
# values    = [\"delete\", \"wal\"]
# reference = \"delete\"
# level     = \"whole-plot\"

";
    let seed = draft.value(&settings::SEED).and_then(|seed| seed.parse().ok());
    out += &design(BLOCKS, seed);
    out += "[load]\n";
    line(&mut out, "target", &quoted(&doubled(&draft.target)));
    let in_load = draft.given.iter().filter(|(setting, _)| !ELSEWHERE.contains(&setting.name));
    for (setting, values) in in_load {
        line(&mut out, setting.name, &value(setting, values));
    }
    out += &draft.fleet.as_ref().map_or_else(String::new, fleet);
    out += "\n[phases]\n";
    if let Some(prepare) = draft.value(&settings::PREPARE) {
        let word = if prepare == "never" { "none" } else { "builtin" };
        line(&mut out, "prepare", &format!("\"{word}\""));
    }
    let or =
        |setting: &'static Setting| quoted(draft.value(setting).unwrap_or(setting.default.unwrap_or("1s")));
    line(&mut out, "warm-up", &format!("{{ min = {} }}", or(&settings::WARMUP)));
    let measure = format!("{{ time = {}, interval = {} }}", or(&settings::TIME), or(&settings::INTERVAL));
    line(&mut out, "measure", &measure);
    if let Some(observe) = &draft.observe {
        let list: Vec<String> = observe.iter().map(|word| quoted(word)).collect();
        out += "\n[observe]\n";
        line(&mut out, "instruments", &format!("[{}]", list.join(", ")));
    }
    out += &judge("1%");
    out += &example("p99 <= 20ms");
    out
}

/// The section of a fleet.
fn fleet(fleet: &FleetSettings) -> String {
    let mut out = "\n[fleet]\n".to_owned();
    line(&mut out, "agents", &fleet.agents.to_string());
    if fleet.on_loss != OnLoss::Invalid {
        line(&mut out, "on_loss", &quoted(fleet.on_loss.word()));
    }
    if !fleet.place.is_empty() {
        let labels = fleet.place.iter().map(|(name, value)| quoted(&format!("{name}={value}")));
        line(&mut out, "place", &format!("[{}]", labels.collect::<Vec<_>>().join(", ")));
    }
    if fleet.observers > 0 {
        line(&mut out, "observers", &fleet.observers.to_string());
    }
    if let Some(per_s) = fleet.probe_per_s {
        line(&mut out, "probe", &per_s.to_string());
    }
    out
}

/// The plan of a comparison of commands.
///
/// # Errors
///
/// [`NotAPlan`] if a load on `exec:` starts the commands in another way, or the time is too short.
pub fn of_commands(draft: &CommandsDraft) -> Result<String, NotAPlan> {
    let mut out = head(&draft.written_from, &draft.title);
    let texts: Vec<String> =
        draft.commands.iter().map(|command| format!("  {},\n", quoted(command))).collect();
    out += "# What is compared: each block runs every command for the measured time, in random order.\n";
    out += "# Judged are runs per second: a slow run weighs more than in `compare`, which judges the geometric mean.\n";
    out += "[factors.command]\n";
    line(&mut out, "values", &format!("[\n{}]", texts.concat()));
    line(&mut out, "reference", &quoted(&draft.commands[draft.reference]));
    line(&mut out, "level", "\"whole-plot\"");
    out.push('\n');
    let blocks = draft.blocks.unwrap_or(BLOCKS);
    out += &design(blocks, draft.seed);
    let (meaning, target) = target(&draft.commands, &draft.shell)?;
    writeln!(out, "# An event is one run of the command. {meaning}").expect(TAKES_ALL);
    out += "[load]\n";
    line(&mut out, "target", &quoted(target));
    line(&mut out, "rate", "\"max\"               # one after the other; a number: that many per second");
    let (warmup, measure) = draft.phases(blocks)?;
    let [warmup, measure] = [warmup, measure].map(|time| quoted(&written_duration(time)));
    out += "\n[phases]\nprepare   = \"none\"\n";
    line(&mut out, "warm-up", &format!("{{ min = {warmup} }}"));
    let measure =
        format!("{{ time = {measure}, interval = \"1s\" }}   # many runs of each command should fit");
    line(&mut out, "measure", &measure);
    out += &judge(draft.rope.as_deref().unwrap_or("1%"));
    for gate in &draft.gates {
        let gate = of_events(gate);
        out += "\n[[gate]]\n";
        line(&mut out, "metric", &quoted(gate.metric.word()));
        line(&mut out, "rule", &quoted(&gate.rule.to_string()));
    }
    if draft.gates.is_empty() {
        out += &example("throughput not worse by 5%");
    }
    Ok(out)
}

/// Meaning of a target, for a comment, and the target, with which each command starts as in `compare`.
///
/// `exec:` gives a command to `sh` only if it has a character of a shell. Of commands that all go through
/// `sh`, one may have none, and its start would be shorter than that of the others.
fn target(commands: &[String], shell: &str) -> Result<(&'static str, &'static str), NotAPlan> {
    // Each line of a target is a server.
    if commands.iter().any(|command| command.contains('\n')) {
        return refuse("a command of several lines cannot be part of a plan: put it into a file");
    }
    let raw = ("`|raw` inserts it unquoted, so the shell interprets it.", "exec:{command|raw}");
    match (shell, commands.iter().find(|command| has_metacharacters(command))) {
        ("none", None) => Ok(raw),
        ("none", Some(command)) => refuse(format!(
            "without a shell, `{command}` cannot be part of a plan: `exec:` gives a command with such \
             characters to `sh`; leave out --shell and -N"
        )),
        ("sh", _) if commands.iter().all(|command| has_metacharacters(command)) => Ok(raw),
        ("sh", _) => Ok(("`eval` and `;` give every command to the shell.", "exec:eval {command} ;")),
        _ => refuse(format!("--shell `{shell}` cannot be part of a plan: `exec:` knows only `sh`")),
    }
}

impl CommandsDraft {
    /// Lengths of the warm-up and of the measured phase of a trial.
    fn phases(&self, blocks: u32) -> Result<(Duration, Duration), NotAPlan> {
        let Some(time) = self.time else { return Ok((WARMUP, MEASURE)) };
        let trials = blocks.saturating_mul(u32::try_from(self.commands.len()).unwrap_or(u32::MAX));
        let trial_ms = u64::try_from((time / trials).as_millis()).unwrap_or(u64::MAX);
        let warmup = Duration::from_millis(trial_ms / 6);
        let measure = Duration::from_millis(trial_ms - trial_ms / 6);
        if measure < MEASURE_MIN {
            let needed_s = MEASURE_MIN.as_secs_f64() * 1.2 * f64::from(trials);
            return refuse(format!(
                "--time {} is too short for a plan of {blocks} blocks of {} commands, which measures each \
                 for at least 1s: --time {:.0}s",
                written_duration(time),
                self.commands.len(),
                needed_s.ceil()
            ));
        }
        Ok((warmup, measure))
    }
}

/// The gate on events of a closed loop that passes if this gate on commands does: the throughput is one over
/// the time.
fn of_events(gate: &Gate) -> Gate {
    let inverse = |amount: Amount| Amount::PerSecond(1.0 / amount.value());
    let (metric, rule) = match (gate.metric, gate.rule) {
        (Metric::Time, GateRule::NotWorseBy { ratio }) => {
            (Metric::Throughput, GateRule::NotWorseBy { ratio: ratio / (1.0 + ratio) })
        }
        (Metric::Time, GateRule::AtMost(amount)) => (Metric::Throughput, GateRule::AtLeast(inverse(amount))),
        (Metric::Time, GateRule::AtLeast(amount)) => (Metric::Throughput, GateRule::AtMost(inverse(amount))),
        (Metric::Cpu, rule) => (Metric::CpuPerEvent, rule),
        same => same,
    };
    Gate { metric, rule, ..*gate }
}

impl LoadDraft {
    fn value(&self, setting: &Setting) -> Option<&str> {
        let (_, values) = self.given.iter().find(|(given, _)| given.name == setting.name)?;
        values.first().map(String::as_str)
    }
}

fn head(written_from: &str, title: &str) -> String {
    let mut out = String::from("# Plan of a bake-off, generated from this command line:\n");
    let printable = |text: &str| text.replace(|c: char| c.is_control(), " ");
    writeln!(out, "#   {}", printable(written_from)).expect(TAKES_ALL);
    out += "# `bakeoff plan check FILE` checks it, `bakeoff plan explain FILE` explains it, `bakeoff run \
         FILE` runs it.\n";
    out += "# docs/plans.md lists every key.\n\nschema    = 1\n";
    line(&mut out, "title", &quoted(title));
    out += "# question = \"What the bake-off is to answer, in your words\"\n\n";
    out
}

fn design(blocks: u32, seed: Option<u64>) -> String {
    let seed = seed.unwrap_or(settings::SEED.default_number());
    format!(
        "[design]\nblocks    = {blocks:<20}# six is the minimum for a claim at alpha 5 %\nseed      = \
         {seed:<20}# random seed of the order and of the load\n\n"
    )
}

fn judge(rope: &str) -> String {
    format!(
        "\n[judge]\nrope      = {:<20}# smaller differences do not matter\nalpha     = 0.05                \
         # accepted rate of false verdicts over all comparisons\n",
        quoted(rope)
    )
}

/// A gate in a comment.
fn example(gate: &str) -> String {
    let (metric, rule) = gate.split_once(' ').expect("a gate is a metric and a rule");
    format!("\n# A condition for exit code 0:\n# [[gate]]\n# metric = \"{metric}\"\n# rule   = \"{rule}\"\n")
}

const TAKES_ALL: &str = "a String takes all that is written to it";

fn line(out: &mut String, name: &str, value: &str) {
    writeln!(out, "{name:<9} = {value}").expect(TAKES_ALL);
}

/// The value of a setting in TOML.
fn value(setting: &Setting, values: &[String]) -> String {
    let first = values.first().map_or("", String::as_str);
    match setting.values {
        Values::Switch => {
            let is_off = matches!(&*first.to_lowercase(), "no" | "off" | "false" | "0" | "n" | "f");
            (!is_off).to_string()
        }
        // TOML has no leading zeros.
        Values::Whole { .. } => first.parse::<u64>().map_or_else(|_| first.to_owned(), |n| n.to_string()),
        Values::Rate { .. } if first.bytes().all(|b| b.is_ascii_digit()) && !first.starts_with('0') => {
            first.to_owned()
        }
        Values::Texts | Values::Forms(..) => {
            format!("[{}]", values.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
        }
        _ if setting.name == settings::DEFINE.name => quoted(&doubled(&values.join(", "))),
        _ => quoted(&doubled(first)),
    }
}

/// A text in which a brace stands for itself.
fn doubled(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_control() => {
                write!(out, "\\u{:04X}", u32::from(letter)).expect(TAKES_ALL);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(target: &str, given: &[(&'static Setting, &str)]) -> LoadDraft {
        LoadDraft {
            written_from: "bakeoff load".into(),
            title: "A \"title\" \\ with\nodd letters".into(),
            target: target.into(),
            given: given.iter().map(|(setting, text)| (*setting, vec![(*text).to_owned()])).collect(),
            observe: None,
            fleet: None,
        }
    }

    fn commands(commands: &[&str], shell: &str) -> CommandsDraft {
        CommandsDraft {
            written_from: "bakeoff compare -- 'a' 'b'".into(),
            title: "a | b".into(),
            commands: commands.iter().map(|&c| c.to_owned()).collect(),
            reference: 1,
            shell: shell.into(),
            blocks: None,
            seed: None,
            rope: None,
            time: None,
            gates: Vec::new(),
        }
    }

    fn read(draft: &CommandsDraft) -> crate::Plan {
        let text = of_commands(draft).unwrap();
        crate::read(&text, "init.toml").unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn every_command_starts_as_it_does_in_a_comparison() {
        let targets = |draft: &CommandsDraft| {
            let plan = read(draft);
            let mut targets: Vec<String> = plan.trials()[..draft.commands.len()]
                .iter()
                .map(|trial| plan.target(&trial.levels, std::path::Path::new("/s")).expose().to_owned())
                .collect();
            targets.sort();
            targets
        };
        assert_eq!(targets(&commands(&["gzip x", "true"], "none")), ["exec:gzip x", "exec:true"]);
        assert_eq!(targets(&commands(&["a < x", "b > y"], "sh")), ["exec:a < x", "exec:b > y"]);
        assert_eq!(targets(&commands(&["a < x", "true"], "sh")), ["exec:eval 'a < x' ;", "exec:eval true ;"]);
        for (shell, said) in [("none", "leave out --shell and -N"), ("bash --norc", "--shell `bash --norc`")]
        {
            let error = of_commands(&commands(&["gzip 'x y'", "true"], shell)).unwrap_err();
            assert!(error.what.contains(said), "{error}");
        }
    }

    #[test]
    fn the_time_of_all_trials_is_the_given_one_and_gates_are_those_of_events() {
        let gates = ["time not worse by 25%", "time <= 20ms", "cpu not worse by 3%"];
        let draft = CommandsDraft {
            time: Some(Duration::from_secs(72)),
            blocks: Some(12),
            seed: Some(7),
            rope: Some("2%".into()),
            gates: gates.iter().map(|gate| Gate::read_of_commands(gate).unwrap()).collect(),
            ..commands(&["a", "b"], "none")
        };
        let plan = read(&draft);
        assert_eq!((plan.blocks(), plan.seed(), plan.judge().rope_ratio), (12, 7, 0.02));
        let phases = [plan.warmup().min, plan.measure()];
        assert_eq!(phases, [500, 2_500].map(Duration::from_millis));
        // By hand: 1.25 times the time is 0.8 of the throughput; 20 ms each are 50 a second.
        let told: Vec<String> = plan.gates().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "throughput not worse than reference by 20%",
                "throughput >= 50/s",
                "cpu-per-event not worse than reference by 3%"
            ]
        );
        let short = CommandsDraft { time: Some(Duration::from_secs(20)), ..draft };
        let error = of_commands(&short).unwrap_err();
        assert!(error.what.ends_with("at least 1s: --time 29s"), "{error}");
    }

    #[test]
    fn what_is_written_is_a_plan_that_checks() {
        let drafts = [
            load("null:", &[(&settings::RATE, "500"), (&settings::TIME, "30s"), (&settings::SEED, "7")]),
            load(
                "sqlite:/tmp/a{b}.db?journal_mode=wal",
                &[
                    (&settings::RATE, "30/m"),
                    (&settings::ROWS, "1000"),
                    (&settings::PREPARED, "no"),
                    (&settings::PREPARE, "never"),
                ],
            ),
            load(
                "http://localhost:80/${id}",
                &[(&settings::HEADER, "Accept: {x}"), (&settings::WARMUP, "2s")],
            ),
            load("exec:gzip -1 -k -f 'a b'", &[(&settings::ENV, "LC_ALL=C")]),
        ];
        for draft in drafts {
            let text = of_load(&draft);
            let plan = crate::read(&text, "init.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert!(plan.unsupported().is_empty(), "{text}");
            assert_eq!(plan.title(), draft.title);
        }
    }

    #[test]
    fn commands_become_levels_whatever_letters_they_have() {
        let draft = commands(&["gzip -6 < 'x y' > \"$HOME\"/z", "awk '{print $1}' x"], "sh");
        let text = of_commands(&draft).unwrap();
        let plan = crate::read(&text, "init.toml").unwrap_or_else(|e| panic!("{e}\n{text}"));
        let trials = plan.trials();
        let levels: Vec<&str> = trials[..2].iter().map(|t| t.levels["command"].as_str()).collect();
        assert!(draft.commands.iter().all(|command| levels.contains(&command.as_str())), "{levels:?}");
        assert_eq!(plan.comparisons(), 2, "throughput and CPU per event");
    }

    #[test]
    fn a_switch_has_the_value_of_its_word() {
        let of = |setting: &'static Setting, text: &str| value(setting, &[text.to_owned()]);
        assert_eq!(of(&settings::PREPARED, "no"), "false");
        assert_eq!(of(&settings::PREPARED, "yes"), "true");
        assert_eq!(of(&settings::PREPARED, "No"), "false");
        assert_eq!(value(&settings::FIFO, &[]), "true");
        assert_eq!(of(&settings::THREADS, "007"), "7");
        assert_eq!(of(&settings::RATE, "500"), "500");
        assert_eq!(of(&settings::RATE, ".5"), "\".5\"");
    }
}
