//! The server's effective settings: read before the warm-up and after the measured phase of each trial. A
//! trial in which one differs from the first reading of its series measured no configuration of the plan.

use std::collections::{BTreeMap, BTreeSet};

use load::Stop;
use plan::ServerValues;
use record::environment::Environment;
use record::missing::Missing;
use record::target::mask_text;
use record::verdict::Check;

use crate::secrets::Secrets;
use crate::server_values::{self, label};
use crate::workspace::Workspace;

/// Prefix of the facts that hold the settings.
pub(crate) const SETTING: &str = "server.setting.";
/// Most settings of one command, and longest value, that are stored.
const SETTINGS_MAX: usize = 1_000;
const VALUE_MAX: usize = 200;
/// Most changed settings that a check names.
const NAMED_MAX: usize = 5;
/// Parts of the names of secret settings.
const SECRETS: [&str; 4] = ["pass", "secret", "auth", "token"];

/// Settings by name, or the reason that a command told none, by its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    known: BTreeMap<String, String>,
    unknown: BTreeMap<String, String>,
}

/// Reads the settings by `commands`, those of each instance; empty without one.
///
/// Settings of a further instance are named after it, and only those that differ from the first are listed.
pub(crate) fn read(
    commands: Vec<Vec<ServerValues>>,
    workspace: &Workspace,
    secrets: &Secrets,
    stop: &Stop,
) -> Settings {
    let mut of_instances = commands.into_iter().map(|commands| of_one(commands, workspace, secrets, stop));
    let mut found = of_instances.next().unwrap_or_default();
    for (number, further) in (2_u32..).zip(of_instances) {
        found.add(number, further);
    }
    found
}

/// Reads the settings of one instance.
fn of_one(commands: Vec<ServerValues>, workspace: &Workspace, secrets: &Secrets, stop: &Stop) -> Settings {
    let mut found = Settings::default();
    for value in commands {
        match server_values::read(&value, workspace, stop) {
            Ok(text) => {
                // Its name is random: two series would seem to have different settings.
                let text = text.replace(&*workspace.folder().to_string_lossy(), "{scratch}");
                let of_command = of_text(&text, value.keep.as_deref());
                if of_command.is_empty() {
                    let none = "it printed no setting to store".to_owned();
                    found.unknown.insert(value.name, none);
                }
                found.known.extend(of_command);
            }
            Err(why) => {
                found.unknown.insert(value.name, secrets.hide(&why));
            }
        }
    }
    found
}

/// Names and values, one a line: `port\t3306`, `port|3306`, `port = 3306`, `port: 3306`, `port 3306`.
fn of_text(text: &str, keep: Option<&[String]>) -> BTreeMap<String, String> {
    let of_line = |line: &str| {
        let line = line.trim();
        let (name, value) = line.split_once(['\t', '|', '=', ':', ' ']).unwrap_or((line, ""));
        let value = value.trim_start_matches(['=', ':', '|', ' ', '\t']).trim_end();
        (!name.is_empty()).then(|| (label(name), value.to_owned()))
    };
    let is_kept = |(name, _): &(String, String)| keep.is_none_or(|keep| keep.contains(name));
    text.lines().filter_map(of_line).filter(is_kept).take(SETTINGS_MAX).collect()
}

/// Returns the value as it may be stored.
fn stored(name: &str, value: &str) -> String {
    if SECRETS.iter().any(|part| name.to_ascii_lowercase().contains(part)) && !value.is_empty() {
        return "***".to_owned();
    }
    mask_text(&value.chars().take(VALUE_MAX).collect::<String>())
}

impl Settings {
    /// Adds those of a further instance.
    fn add(&mut self, number: u32, further: Self) {
        let name_of = |name: &str| format!("instance-{number}.{name}");
        let first = self.known.clone();
        let absent = first.keys().filter(|name| !further.known.contains_key(*name));
        self.known.extend(absent.map(|name| (name_of(name), "absent".to_owned())));
        let differing = further.known.iter().filter(|(name, value)| first.get(*name) != Some(*value));
        self.known.extend(differing.map(|(name, value)| (name_of(name), value.clone())));
        self.unknown.extend(further.unknown.into_iter().map(|(name, why)| (name_of(&name), why)));
    }

    /// Replaces the facts about the settings.
    pub(crate) fn note(&self, environment: &mut Environment) {
        environment.facts.retain(|name, _| !name.starts_with(SETTING));
        let known = self.known.iter().map(|(name, value)| (name, Ok(stored(name, value))));
        let unknown = self.unknown.iter().map(|(name, why)| (name, Err(Missing::because(why.clone()))));
        let facts = known.chain(unknown).map(|(name, value)| (format!("{SETTING}{name}"), value));
        environment.facts.extend(facts);
    }

    /// Whether every command told settings.
    pub(crate) fn is_complete(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Compares later readings with these, the first of the series; `None` if the plan reads no settings.
    ///
    /// - `later`: before the warm-up and after the measured phase of a trial.
    pub(crate) fn check(&self, later: [&Self; 2]) -> Option<Check> {
        let all = || std::iter::once(self).chain(later);
        if all().all(|reading| reading.known.is_empty() && reading.unknown.is_empty()) {
            return None;
        }
        let of_reading = |reading: &Self| reading.unknown.clone().into_iter();
        let unknown: BTreeSet<_> =
            all().flat_map(of_reading).map(|(name, why)| format!("{name}: {why}")).collect();
        let is_known = unknown.is_empty();
        let found = if is_known {
            later.into_iter().flat_map(|after| self.changes(after)).collect()
        } else {
            unknown
        };
        let named: Vec<&str> = found.iter().map(String::as_str).take(NAMED_MAX).collect();
        let rest = found.len() - named.len();
        let text = match (found.len(), is_known) {
            (0, _) => format!("{} settings of the server did not change", self.known.len()),
            (_, false) => format!("the server's settings are unknown: {}", named.join("; ")),
            (_, true) if rest > 0 => format!("{}, and {rest} more", named.join(", ")),
            (_, true) => named.join(", "),
        };
        let (ok, found) = (found.is_empty(), found.len() as f64);
        Some(Check { name: "settings-changed", ok, found, limit: 0.0, text })
    }

    /// Returns what differs in a later reading.
    fn changes(&self, after: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.known.keys().chain(after.known.keys()).collect();
        let changed = names.into_iter().filter(|name| self.known.get(*name) != after.known.get(*name));
        let told = |name: &String| {
            let of = |all: &Self| all.known.get(name).map_or("absent".to_owned(), |v| stored(name, v));
            format!("{name} changed from {} to {}", of(self), of(after))
        };
        changed.map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Settings { known: of_text(text, None), unknown: BTreeMap::new() }
    }

    #[test]
    fn settings_are_read_in_the_forms_in_which_servers_print_them() {
        let one = |text: &str| of_text(text, None).into_iter().next().unwrap();
        for text in ["a\tb c\n", "a|b c\n", "a = b c", "a: b c\r\n", "a b c"] {
            assert_eq!(one(text), ("a".to_owned(), "b c".to_owned()), "{text:?}");
        }
        assert_eq!(one("lonely"), ("lonely".to_owned(), String::new()));
        assert!(of_text("\n \n", None).is_empty());
        assert_eq!(of_text("a 1\nb 2\n", Some(&["b".to_owned()])).len(), 1);
    }

    #[test]
    fn a_further_instance_is_told_by_what_differs_from_the_first() {
        let mut both = settings("max 151\nport 1\nextra 5\n");
        both.add(2, settings("max 151\nport 2\n"));
        let names: Vec<(&str, &str)> = both.known.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            ("extra", "5"),
            ("instance-2.extra", "absent"),
            ("instance-2.port", "2"),
            ("max", "151"),
            ("port", "1"),
        ];
        assert_eq!(names, expected);
        // A setting that changes in the second alone.
        let mut after = settings("max 151\nport 1\nextra 5\n");
        after.add(2, settings("max 20\nport 2\n"));
        let check = both.check([&both, &after]).unwrap();
        assert_eq!((check.ok, check.text.as_str()), (false, "instance-2.max changed from absent to 20"));
        let failed = Settings {
            unknown: [("settings".to_owned(), "no answer".to_owned())].into(),
            ..Settings::default()
        };
        both.add(3, failed);
        assert!(!both.is_complete() && both.unknown.contains_key("instance-3.settings"));
    }

    #[test]
    fn a_setting_that_changed_came_or_went_fails_the_check_and_a_secret_is_not_told() {
        let before = settings("max 151\nrequirepass old\nsize 4\n");
        assert!(before.check([&before; 2]).unwrap().ok);
        assert_eq!(Settings::default().check([&Settings::default(); 2]), None);
        let check = before.check([&before, &settings("max 20\nrequirepass new\nextra 1\n")]).unwrap();
        assert!(!check.ok);
        for part in [
            "max changed from 151 to 20",
            "requirepass changed from *** to ***",
            "size changed from 4 to absent",
            "extra changed from absent to 1",
        ] {
            assert!(check.text.contains(part), "{}", check.text);
        }
        // Settings that cannot be read after the trial have not stayed.
        assert!(!before.check([&before, &Settings::default()]).unwrap().ok);
        // A change before the trial counts, also if it was taken back.
        let early = before.check([&settings("max 7\nrequirepass old\nsize 4\n"), &before]).unwrap();
        assert_eq!((early.ok, early.text.as_str()), (false, "max changed from 151 to 7"));
    }
}
