//! The command line and plans agree on the settings of a load: same values, same defaults, same rules.
//!
//! The test asks the binary (`bakeoff load`, with unreachable targets) and the reader of plans.

mod lab;

use std::collections::BTreeMap;

use lab::Lab;
use record::load::rules::{Family, RULES, Relation, Rule, VALUE_RULES};
use record::load::settings::{self, Setting, Values};

/// Settings of the command line only. In a plan, a phase builds the data, and all trials last equally long.
const NOT_IN_PLANS: [&str; 2] = ["prepare", "events"];
/// `bakeoff load` reads scripts from files; a plan contains its script.
const SCRIPT: &str = "script";
const NO_FILE: &str = "no-such-file";

type Given<'a> = BTreeMap<&'a str, String>;

fn given<'a>(pairs: &[(&'a str, &str)]) -> Given<'a> {
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// A target of a family. Its server is unreachable, so an accepted load ends at once.
fn target(family: Family) -> &'static str {
    match family {
        Family::Database => "mysql://u@127.0.0.1:1/b",
        Family::Cache => "redis://127.0.0.1:1",
        Family::Web => "https://127.0.0.1:1/",
        Family::Command => "exec:true",
        Family::Nothing => "null:",
    }
}

fn named(name: &str) -> &'static Setting {
    Setting::named(name).expect("the rules are about settings")
}

fn family(setting: &Setting) -> Family {
    setting.families.first().copied().unwrap_or(Family::Database)
}

/// Whether `bakeoff load` accepts the settings; if not, its message with names as in [`settings`].
fn by_command_line(lab: &Lab, target: &str, given: &Given<'_>) -> Result<(), String> {
    let mut words = vec!["load".to_owned(), target.to_owned(), "--no-archive".to_owned()];
    let mut quick = BTreeMap::from([("time", "100ms".to_owned()), ("warmup", "0".to_owned())]);
    for (name, value) in given {
        quick.remove(name);
        let option = format!("--{}", name.replace('_', "-"));
        let setting = named(name);
        let is_flag = matches!(setting.values, Values::Switch) && setting.default == Some("false");
        match (is_flag, value.as_str()) {
            (true, "true") => words.push(option),
            (true, "false") => {}
            _ => words.push(format!("{option}={value}")),
        }
    }
    words.extend(quick.iter().map(|(name, value)| format!("--{name}={value}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = lab.run(&words);
    // The name of a missing file is a good value; only the load fails.
    let is_missing_file = ended.err.contains(NO_FILE) && !ended.err.contains("invalid value");
    if ended.code != Some(2) || is_missing_file {
        return Ok(());
    }
    let mut said = ended.err.lines().next().unwrap_or_default().trim_start_matches("bakeoff: ").to_owned();
    for setting in settings::ALL.iter().rev() {
        said = spelled(&said, &format!("--{}", setting.name.replace('_', "-")), setting.name);
    }
    Err(said)
}

/// Whether a plan with the settings is accepted; if not, the message with names as in [`settings`].
fn by_plan(target: &str, given: &Given<'_>) -> Result<(), String> {
    let mut tables: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in given {
        let setting = named(name);
        let (table, key) = match *name {
            "seed" => ("design", "seed"),
            "warmup" => ("phases.warm-up", "min"),
            "time" => ("phases.measure", "time"),
            "interval" => ("phases.measure", "interval"),
            name => ("load", name),
        };
        let value = match setting.values {
            Values::Whole { .. } | Values::Switch => value.clone(),
            Values::Texts | Values::Forms(..) => format!("[{value:?}]"),
            _ => format!("{value:?}"),
        };
        tables.entry(table).or_default().push(format!("{key} = {value}"));
    }
    if !given.contains_key("time") {
        tables.entry("phases.measure").or_default().push("time = \"1s\"".to_owned());
    }
    tables.entry("design").or_default().push("blocks = 1".to_owned());
    tables.entry("load").or_default().push(format!("target = \"{target}\""));
    let tables: Vec<_> = tables.iter().map(|(name, keys)| format!("[{name}]\n{}", keys.join("\n"))).collect();
    let text = format!("schema = 1\ntitle = \"t\"\n{}\n", tables.join("\n"));
    let Err(errors) = plan::read(&text, "t.toml") else { return Ok(()) };
    let mut said = errors.problems()[0].kind.to_string();
    for setting in settings::ALL {
        said = said.replace(&format!("`load.{}`", setting.name), setting.name);
        said = said.replace(&format!("`{}`", setting.name), setting.name);
    }
    Err(said)
}

/// Replaces an option by a name, unless the option is a prefix of another.
fn spelled(text: &str, option: &str, name: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(option) {
        let after = &rest[at + option.len()..];
        let is_whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        out += &rest[..at];
        out += if is_whole { name } else { option };
        rest = after;
    }
    out + rest
}

/// Settings that a setting needs, so that only its value decides.
fn beside(name: &str) -> Given<'static> {
    match name {
        "arrivals" | "jitter" | "schedule" | "late" | "spin_budget" | "fifo" | "spin_us" => {
            given(&[("rate", "10")])
        }
        "cert" => given(&[("key", NO_FILE)]),
        "key" => given(&[("cert", NO_FILE)]),
        "data" => given(&[("command", "GET ${a}")]),
        "define" => given(&[(SCRIPT, "SELECT 1;")]),
        "threads" => given(&[("connections", "65536")]),
        _ => Given::new(),
    }
}

/// Values at and beyond the bounds, and whether they are good.
fn values(setting: &Setting) -> Vec<(String, bool)> {
    let words = |good: &[&str], bad: &[&str]| {
        let good = good.iter().map(|text| ((*text).to_owned(), true));
        good.chain(bad.iter().map(|text| ((*text).to_owned(), false))).collect()
    };
    match setting.values {
        Values::Whole { min, max } => {
            // TOML has no larger numbers.
            let max = max.min(i64::MAX.unsigned_abs());
            let (min, max) = (i128::from(min), i128::from(max));
            [(min, true), (max, true), (min - 1, false), (max + 1, false)]
                .map(|(n, is_good)| (n.to_string(), is_good))
                .to_vec()
        }
        Values::Percent { max_ratio } => {
            let max = max_ratio * 100.0;
            vec![
                ("0%".into(), true),
                (format!("{max}%"), true),
                (format!("{}%", max + 0.1), false),
                ("1".into(), false),
            ]
        }
        Values::Duration { min } => {
            let ns = min.as_nanos();
            let below = if ns == 0 { "-1ns".into() } else { format!("{}ns", ns - 1) };
            vec![(format!("{ns}ns"), true), (below, false), ("5".into(), false)]
        }
        Values::Bytes { min } => vec![(min.to_string(), true), ((min - 1).to_string(), false)],
        Values::Rate { max_per_s } => {
            vec![(max_per_s.to_string(), true), ((max_per_s + 1.0).to_string(), false), ("0".into(), false)]
        }
        Values::Switch => words(&["true", "false"], &[]),
        Values::Word(all) => words(&all(), &["no-such-word", "script"]),
        Values::Text => words(&[NO_FILE], &["", " "]),
        Values::AnyText => words(&["x", "", " "], &[]),
        Values::Texts => words(&["GET a"], &[]),
        Values::Forms(..) | Values::Form(_) => match setting.name {
            "header" => words(&["A: b"], &["a", ": b", "A: b\r\nC: d"]),
            "env" => words(&["A=b"], &["a", "=b"]),
            "define" => words(&["a=1"], &["a", "a b=1", "=1"]),
            "sizes" => words(&["4-1048576:1"], &["3-10:1", "4-1048577:1", ""]),
            "mix" => words(&["get=1"], &["get=0", "put=1"]),
            "ttl" => words(&["1s", "30d"], &["0", "1500ms", "2592001s"]),
            "method" => words(&["post"], &["", "G T"]),
            "arrivals" => words(&["jitter", "period", "poisson"], &["even"]),
            "late" => words(&["queue", "drop", "skip=1ms", "pace=2x"], &["skip=0", "pace=1x", "wait"]),
            "think" => words(&["0", "10ms", "exp:1s"], &["10", "exp:"]),
            name => panic!("this test lacks values of {name}"),
        },
    }
}

/// The settings for the command line, which takes a script by the name of its file.
fn for_command_line(lab: &Lab, given: &Given<'static>) -> Given<'static> {
    let mut given = given.clone();
    if let Some(text) = given.get_mut(SCRIPT) {
        let path = lab.path("script.sql");
        std::fs::write(&path, &text).expect("the lab has a folder");
        *text = path.display().to_string();
    }
    given
}

#[test]
fn the_command_line_and_plans_take_the_same_values() {
    let lab = Lab::new();
    let mut drifts = Vec::new();
    for setting in settings::ALL.iter().filter(|setting| setting.name != SCRIPT) {
        for (value, is_good) in values(setting) {
            let target = target(match value.as_str() {
                "kv" => Family::Cache,
                "native" => Family::Command,
                _ => family(setting),
            });
            let mut given = beside(setting.name);
            given.insert(setting.name, value.clone());
            let front_ends = [
                ("command line", by_command_line(&lab, target, &for_command_line(&lab, &given))),
                (
                    "plan",
                    if NOT_IN_PLANS.contains(&setting.name) { continue } else { by_plan(target, &given) },
                ),
            ];
            for (front_end, found) in front_ends {
                if found.is_ok() != is_good {
                    drifts.push(format!("{} = {value:?} by {front_end}: {found:?}", setting.name));
                }
            }
        }
    }
    assert!(drifts.is_empty(), "\n{}", drifts.join("\n"));
}

/// Settings that break a rule: a setting that the rule limits, with the others that it needs.
fn breaks(rule: &Rule, name: &'static str) -> Vec<Given<'static>> {
    let value = |name: &str| {
        let setting = named(name);
        let good = values(setting).into_iter().filter(|(_, is_good)| *is_good).map(|(value, _)| value);
        match name {
            SCRIPT => "SELECT 1;".to_owned(),
            "rate" => "10".to_owned(),
            "arrivals" if matches!(rule.relation, Relation::Excludes(_)) => "ramp:1-9".to_owned(),
            _ => match (setting.default, good.collect::<Vec<_>>()) {
                (Some("false"), _) => "true".to_owned(),
                (default, good) => {
                    good.into_iter().find(|v| Some(v.as_str()) != default).expect("two values")
                }
            },
        }
    };
    let mut given = Given::from([(name, value(name))]);
    match rule.relation {
        Relation::Needs(_) if name == "streams" => {
            given = self::given(&[("streams", "2"), ("http_version", "1.1")]);
        }
        Relation::Needs(_) => {}
        Relation::Excludes("arrivals") => {
            given.extend(self::given(&[("arrivals", "poisson"), ("rate", "10")]));
        }
        Relation::Excludes("script") if name == "workload" => {
            given = self::given(&[("workload", "oltp-insert"), (SCRIPT, "SELECT 1;")]);
        }
        Relation::Excludes(other) => given.extend([(other, value(other))]),
        Relation::AtLeast(other) => given = Given::from([(name, "1".to_owned()), (other, "2".to_owned())]),
    }
    vec![given]
}

#[test]
fn the_command_line_and_plans_refuse_the_same_combinations_in_the_same_words() {
    let lab = Lab::new();
    let mut drifts = Vec::new();
    let mut check = |target: &str, given: &Given<'static>| {
        let front_ends =
            (by_command_line(&lab, target, &for_command_line(&lab, given)), by_plan(target, given));
        match &front_ends {
            (Err(by_line), Err(by_plan)) if by_line == by_plan => {}
            _ => drifts.push(format!("{target} {given:?}:\n  {:?}\n  {:?}", front_ends.0, front_ends.1)),
        }
    };
    for rule in RULES.iter().chain(VALUE_RULES.iter().copied()) {
        for name in rule.settings.iter().copied() {
            let is_in_plans = |given: &Given<'_>| given.keys().all(|name| !NOT_IN_PLANS.contains(name));
            for given in breaks(rule, name).iter().filter(|given| is_in_plans(given)) {
                let family = rule.family.unwrap_or_else(|| family(named(name)));
                check(target(family), given);
            }
        }
    }
    // Each setting on a target that it does not apply to.
    let is_elsewhere = |s: &Setting| !s.families.is_empty() && !s.families.contains(&Family::Nothing);
    for setting in settings::ALL.iter().filter(|s| is_elsewhere(s) && !NOT_IN_PLANS.contains(&s.name)) {
        let value = match setting.name {
            SCRIPT => "SELECT 1;".to_owned(),
            _ if matches!(setting.values, Values::Switch) => (setting.default != Some("true")).to_string(),
            _ => values(setting)[0].0.clone(),
        };
        check(target(Family::Nothing), &Given::from([(setting.name, value)]));
    }
    assert!(drifts.is_empty(), "\n{}", drifts.join("\n"));
}

#[test]
fn the_command_line_and_plans_document_the_same_defaults() {
    let help = Lab::new().run(&["load", "--help"]).out;
    let documentation = plan::documentation();
    let mut drifts = Vec::new();
    for setting in settings::ALL {
        let by_help = default_in_help(&help, &setting.name.replace('_', "-"));
        let by_plan = default_in_documentation(&documentation, setting.name);
        let is_flag = matches!(setting.values, Values::Switch) && setting.default == Some("false");
        let expected = setting.default.filter(|_| !is_flag);
        if let Some(default) = expected {
            let is_switch = matches!(setting.values, Values::Switch);
            let words = |text: &str| match text {
                "on" | "yes" if is_switch => "true".to_owned(),
                text => text.to_owned(),
            };
            if by_help.as_deref().map(words).as_deref() != Some(default) && default != "0" {
                drifts.push(format!("{}: {default}, in the help {by_help:?}", setting.name));
            }
        }
        let of_a_plan =
            if setting.name == "warmup" { Some(settings::WARMUP_OF_A_TRIAL) } else { setting.default };
        let is_in_load = !NOT_IN_PLANS.contains(&setting.name) && setting.name != "time";
        if let Some(default) = of_a_plan.filter(|_| is_in_load)
            && by_plan.as_deref() != Some(default)
        {
            drifts.push(format!("{}: {default}, in a plan {by_plan:?}", setting.name));
        }
    }
    assert!(drifts.is_empty(), "\n{}", drifts.join("\n"));
}

/// `[default: 3]`, or the first word of `[default: 10s; as long as ...]`.
fn default_in_help(help: &str, option: &str) -> Option<String> {
    let is_head =
        |line: &str| line.trim_start().starts_with('-') && line.len() - line.trim_start().len() <= 6;
    let is_its_head = |line: &str| {
        is_head(line) && line.trim_start().trim_start_matches("--").split(' ').next() == Some(option)
    };
    let mut lines = help.lines().skip_while(|line| !is_its_head(line));
    let head = lines.next()?;
    let more = lines.take_while(|line| !is_head(line) && !line.is_empty());
    let text = [head].into_iter().chain(more).map(str::trim).collect::<Vec<_>>().join(" ");
    let (_, default) = text.split_once("[default: ")?;
    Some(default.split([']', ';']).next()?.trim().to_owned())
}

/// The fourth column of a key's row.
fn default_in_documentation(documentation: &str, name: &str) -> Option<String> {
    let (table, key) = match name {
        "seed" => ("### `[design]`", "seed"),
        "warmup" => ("### `[phases.warm-up]`", "min"),
        "interval" => ("### `[phases.measure]`", "interval"),
        name => ("### `[load]`", name),
    };
    let (_, rows) = documentation.split_once(table)?;
    let row = rows.lines().find(|line| line.starts_with(&format!("| `{key}` |")))?;
    Some(row.split(" | ").nth(3)?.trim_matches(['`', '"']).to_owned())
}
