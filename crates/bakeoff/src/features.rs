//! Commands and options that a build lacks, by the feature that they need. The message names the feature
//! instead of an option with a similar name.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A feature, and the words that exist only with it.
struct Feature {
    name: &'static str,
    is_built: bool,
    commands: &'static [&'static str],
    /// Commands that exist without it, with the options that it adds.
    options: &'static [(&'static str, &'static [&'static str])],
}

const OF_NATS: &[&str] = &["--nats", "--nats-ca", "--nkey"];
const FEATURES: [Feature; 3] = [
    Feature {
        name: "fleet",
        is_built: cfg!(feature = "fleet"),
        commands: &["agent", "fleet"],
        options: &[
            (
                "load",
                &[
                    "--fleet",
                    "--on-loss",
                    "--place",
                    "--observers",
                    "--probe",
                    "--nats",
                    "--nats-ca",
                    "--nkey",
                ],
            ),
            ("run", OF_NATS),
            ("resume", OF_NATS),
        ],
    },
    Feature { name: "shared", is_built: cfg!(feature = "shared"), commands: &["archive"], options: &[] },
    Feature { name: "serve", is_built: cfg!(feature = "serve"), commands: &["serve", "queue"], options: &[] },
];

/// The message for a part of the program that this build lacks.
pub(crate) fn lacks(feature: &str) -> String {
    format!("this build has no `{feature}`: build with --features {feature}")
}

/// The message for the command or option that `error` rejects, if a feature of another build has it.
///
/// - `words`: the command line.
pub(crate) fn rejected(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let feature = match error.kind() {
        ErrorKind::InvalidSubcommand => of_command(of(ContextKind::InvalidSubcommand)?),
        ErrorKind::UnknownArgument => of_option(of(ContextKind::InvalidArg)?, |command| {
            words.iter().any(|word| word.to_str() == Some(command))
        }),
        _ => None,
    };
    feature.filter(|feature| !feature.is_built).map(|feature| lacks(feature.name))
}

fn of_command(word: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.commands.contains(&word))
}

/// - `is_command`: whether the command line has this command.
fn of_option(word: &str, is_command: impl Fn(&str) -> bool) -> Option<&'static Feature> {
    let name = word.split('=').next().unwrap_or(word);
    FEATURES.iter().find(|feature| {
        let mut options = feature.options.iter();
        options.any(|(command, names)| is_command(command) && names.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn commands_and_options_of_a_feature_are_known_without_it() {
        let name = |feature: Option<&Feature>| feature.map(|feature| feature.name);
        assert_eq!(name(of_command("agent")), Some("fleet"));
        assert_eq!(name(of_command("archive")), Some("shared"));
        assert_eq!(name(of_command("frobnicate")), None);
        let of = |option, command: &str| name(of_option(option, |word| word == command));
        assert_eq!(of("--fleet", "load"), Some("fleet"));
        assert_eq!(of("--fleet=2", "load"), Some("fleet"));
        assert_eq!(of("--nats", "run"), Some("fleet"));
        assert_eq!(of("--fleet", "cpu"), None);
        assert_eq!(of("--fleets", "load"), None);
    }

    #[test]
    fn a_build_has_every_word_of_its_features_and_no_other() {
        let cli = crate::cli::Cli::command();
        for Feature { name, is_built, commands, options } in FEATURES {
            for command in commands {
                assert_eq!(cli.find_subcommand(command).is_some(), is_built, "{name}: {command}");
            }
            for (command, names) in options {
                let command = cli.find_subcommand(command).expect("a command of every build");
                for option in *names {
                    let has = command.get_arguments().any(|a| a.get_long() == Some(&option[2..]));
                    assert_eq!(has, is_built, "{name}: {option}");
                }
            }
        }
    }
}
