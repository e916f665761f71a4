//! Arguments that the user gave, from the definition of the command line: a list by hand lacks the next
//! option.

use clap::parser::ValueSource;

use crate::exit::Exit;

/// An argument on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// Id in the definition.
    pub(crate) id: String,
    /// Name for the user: `--prepare`, or `-N` if it has no long one; its placeholder if it has no dash.
    pub(crate) name: String,
    /// Values as written; a switch has `true`.
    pub(crate) values: Vec<String>,
    /// Whether the values are the default ones.
    pub(crate) is_default: bool,
}

/// The arguments of `command` on the command line, in the order of the definition.
pub(crate) fn given(command: &clap::Command, matches: &clap::ArgMatches) -> Vec<Given> {
    let of = |argument: &clap::Arg| {
        let id = argument.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            return None;
        }
        let raw = matches.get_raw(id);
        let values: Vec<String> =
            raw.map(|values| values.map(|v| v.to_string_lossy().into_owned()).collect()).unwrap_or_default();
        let defaults = argument.get_default_values().iter().map(|v| v.to_string_lossy().into_owned());
        let is_default = defaults.eq(values.iter().cloned());
        let long = argument.get_long().map(|long| format!("--{long}"));
        let short = || argument.get_short().map(|short| format!("-{short}"));
        let name = long.or_else(short).unwrap_or_else(|| id.to_uppercase());
        Some(Given { id: id.to_owned(), name, values, is_default })
    };
    command.get_arguments().filter_map(of).collect()
}

/// Refuses the given arguments that have no effect.
///
/// - `has_effect`: whether the argument with this id has one.
/// - `on`: what the others have no effect on, and what to do.
pub(crate) fn refuse_idle(
    given: &[Given],
    has_effect: impl Fn(&str) -> bool,
    on: &str,
) -> anyhow::Result<()> {
    let idle: Vec<&str> = given.iter().filter(|g| !has_effect(&g.id)).map(|g| g.name.as_str()).collect();
    if idle.is_empty() {
        return Ok(());
    }
    let verb = if idle.len() == 1 { "has" } else { "have" };
    Err(Exit::Usage.with(format!("{} {verb} no effect on {on}", idle.join(", "))))
}
