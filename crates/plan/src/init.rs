//! Writes a commented plan from a load or from commands. `plan::read` accepts what is written here.

use std::fmt::Write as _;

use record::load::settings::{self, Setting, Values};

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
    /// Options that have no equal in a plan.
    pub left_out: Vec<String>,
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
    /// Options that have no equal in a plan.
    pub left_out: Vec<String>,
}

/// Settings that have another place in a plan than `[load]`.
const ELSEWHERE: [&str; 6] = ["seed", "warmup", "time", "interval", "prepare", "events"];

/// The plan of a load.
pub fn of_load(draft: &LoadDraft) -> String {
    let mut out = head(&draft.written_from, &draft.title, &draft.left_out);
    out += "\
# What is compared: give the factor values, and put {journal_mode} into a text of [load] or [server].
# A whole-plot factor needs a fresh server or data set for each value; a sub-plot factor (threads, rate) does not.
# [factors.journal_mode]
# values    = [\"delete\", \"wal\"]
# reference = \"delete\"
# level     = \"whole-plot\"

";
    out += &design(draft.value(&settings::SEED));
    out += "[load]\n";
    line(&mut out, "target", &quoted(&doubled(&draft.target)));
    let in_load = draft.given.iter().filter(|(setting, _)| !ELSEWHERE.contains(&setting.name));
    for (setting, values) in in_load {
        line(&mut out, setting.name, &value(setting, values));
    }
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
    out += &judge("p99 <= 20ms");
    out
}

/// The plan of a comparison of commands.
pub fn of_commands(draft: &CommandsDraft) -> String {
    let mut out = head(&draft.written_from, &draft.title, &draft.left_out);
    let texts: Vec<String> =
        draft.commands.iter().map(|command| format!("  {},\n", quoted(command))).collect();
    out += "# What is compared: each block runs every command for the measured time, in random order.\n";
    out += "[factors.command]\n";
    line(&mut out, "values", &format!("[\n{}]", texts.concat()));
    line(&mut out, "reference", &quoted(&draft.commands[draft.reference]));
    line(&mut out, "level", "\"whole-plot\"");
    out.push('\n');
    out += &design(None);
    out += "\
# An event is one run of the command. `|raw` inserts it unquoted, so the shell interprets it.
[load]
target    = \"exec:{command|raw}\"
rate      = \"max\"               # one after the other; a number: that many per second

[phases]
prepare   = \"none\"
warm-up   = { min = \"1s\" }
measure   = { time = \"5s\", interval = \"1s\" }   # many runs of each command should fit
";
    out += &judge("throughput not worse by 5%");
    out
}

impl LoadDraft {
    fn value(&self, setting: &Setting) -> Option<&str> {
        let (_, values) = self.given.iter().find(|(given, _)| given.name == setting.name)?;
        values.first().map(String::as_str)
    }
}

fn head(written_from: &str, title: &str, left_out: &[String]) -> String {
    let mut out = String::from("# Plan of a bake-off, generated from this command line:\n");
    let printable = |text: &str| text.replace(|c: char| c.is_control(), " ");
    writeln!(out, "#   {}", printable(written_from)).expect("a String takes all that is written to it");
    out += "# `bakeoff plan check FILE` checks it, `bakeoff plan explain FILE` explains it, `bakeoff run \
         FILE` runs it.\n";
    out += "# docs/plans.md lists every key.\n";
    for option in left_out {
        writeln!(out, "# Not in this plan: {}", printable(option))
            .expect("a String takes all that is written to it");
    }
    out += "\nschema    = 1\n";
    line(&mut out, "title", &quoted(title));
    out += "# question = \"What the bake-off is to answer, in your words\"\n\n";
    out
}

fn design(seed: Option<&str>) -> String {
    format!(
        "[design]\nblocks    = 6                   # six is the minimum for a claim at alpha 5 %\nseed      \
         = {}                   # random seed of the order and of the load\n\n",
        seed.unwrap_or("1")
    )
}

fn judge(gate: &str) -> String {
    let (metric, rule) = gate.split_once(' ').expect("a gate is a metric and a rule");
    format!(
        "\n[judge]\nrope      = \"1%\"                # smaller differences do not matter\nalpha     = \
         0.05                # accepted rate of false verdicts over all comparisons\n\n# A condition for \
         exit code 0:\n# [[gate]]\n# metric = \"{metric}\"\n# rule   = \"{rule}\"\n"
    )
}

fn line(out: &mut String, name: &str, value: &str) {
    writeln!(out, "{name:<9} = {value}").expect("a String takes all that is written to it");
}

/// The value of a setting in TOML.
fn value(setting: &Setting, values: &[String]) -> String {
    let first = values.first().map_or("", String::as_str);
    match setting.values {
        Values::Switch => (!matches!(first, "no" | "off" | "false" | "0" | "n" | "f")).to_string(),
        Values::Whole { .. } => first.to_owned(),
        Values::Rate { .. } if first.parse::<f64>().is_ok() => first.to_owned(),
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
                write!(out, "\\u{:04X}", u32::from(letter))
                    .expect("a String takes all that is written to it");
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
            left_out: vec!["--label a=b".into()],
        }
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
        let draft = CommandsDraft {
            written_from: "bakeoff compare -- 'a' 'b'".into(),
            title: "a | b".into(),
            commands: vec!["gzip -6 < 'x y' > \"$HOME\"/z".into(), "awk '{print $1}' x".into()],
            reference: 1,
            left_out: Vec::new(),
        };
        let text = of_commands(&draft);
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
        assert_eq!(value(&settings::FIFO, &[]), "true");
    }
}
