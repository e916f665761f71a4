//! The options of a script in Lua, which its author names: they are taken out of the command line before ours
//! are read.

use std::ffi::OsString;

#[cfg(feature = "lua")]
use clap::error::ErrorKind;
use record::load::ScriptFile;

#[cfg(feature = "lua")]
use crate::{exit, script_file};

/// Options that a script in Lua was given, and the modules that it loads.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptOptions {
    /// Whether the command line names a script in Lua.
    pub(crate) is_lua: bool,
    /// Name and value, in the order of the command line.
    pub(crate) given: Vec<(String, String)>,
    /// Modules of the script, as part of the record of a run.
    pub(crate) modules: Vec<ScriptFile>,
}

/// Reason why a command line was not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The command line itself, or a request for help.
    CommandLine(clap::Error),
    /// The script that it names has failed.
    #[cfg_attr(
        not(feature = "lua"),
        expect(dead_code, reason = "without Lua, no script runs before the load")
    )]
    Script(anyhow::Error),
}

impl From<clap::Error> for Unread {
    fn from(error: clap::Error) -> Self {
        Self::CommandLine(error)
    }
}

/// A command line that names a script in Lua.
struct Named {
    /// Index of our command.
    command_at: usize,
    file: String,
    /// The command of the script.
    command: Option<String>,
}

/// Sets where scripts print: not on standard output if that has a document.
pub(crate) fn print_beside(is_document: bool) {
    #[cfg(feature = "lua")]
    load::scripts_print_to(if is_document { load::ScriptOutput::Stderr } else { load::ScriptOutput::Stdout });
    #[cfg(not(feature = "lua"))]
    let _ = is_document;
}

/// The command that `load`, or `script`, executes of the script in the command line.
fn named(words: &[OsString]) -> Option<Named> {
    let word = |at: usize| words.get(at).and_then(|word| word.to_str());
    let mut at = 1;
    let command_at = loop {
        match word(at)? {
            "--archive" => at += 2,
            option if option.starts_with('-') => at += 1,
            _ => break at,
        }
    };
    let is_lua =
        |file: &&str| ScriptFile { name: (*file).to_owned(), weight: 1, text: String::new() }.is_lua();
    match word(command_at)? {
        "load" => {
            let mut rest = command_at + 1..words.len();
            let file = rest.find_map(|at| match word(at)? {
                "--script" => word(at + 1),
                other => other.strip_prefix("--script="),
            });
            let file = file.filter(is_lua)?.to_owned();
            Some(Named { command_at, file, command: Some("run".to_owned()) })
        }
        "script" => {
            let plain = |at: &usize| word(*at).is_some_and(|word| !word.starts_with('-'));
            let file_at = (command_at + 1..words.len()).find(|at| word(*at).is_some_and(|w| is_lua(&w)))?;
            // The word after the file is a command, unless it is the target.
            let after = (file_at + 1..words.len()).find(plain).and_then(word);
            let command = after.filter(|word| !word.contains(':')).map(str::to_owned);
            Some(Named { command_at, file: word(file_at)?.to_owned(), command })
        }
        _ => None,
    }
}

/// Takes the options of a script out of the command line, and adds them to the help of our command.
///
/// # Errors
///
/// The script cannot be read, or an option has a value that it cannot have.
#[cfg(feature = "lua")]
pub(crate) fn take(
    words: Vec<OsString>,
    command: &mut clap::Command,
) -> Result<(Vec<OsString>, ScriptOptions), Unread> {
    let Some(Named { command_at, file, command: of_script }) = named(&words) else {
        return Ok((words, ScriptOptions::default()));
    };
    let name = words[command_at].to_string_lossy().into_owned();
    let wrong = |command: &mut clap::Command, problem: String| {
        let ours = command.find_subcommand_mut(&name).expect("a command of ours");
        ours.error(ErrorKind::ValueValidation, problem)
    };
    // A file that cannot be read is reported with the option that names it.
    let Ok(ScriptFile { text, .. }) = script_file::script(&file) else {
        return Ok((words, ScriptOptions::default()));
    };
    let declarations = match load::declarations(&file, &text, of_script.as_deref()) {
        Ok(declarations) => declarations,
        // A script that fails while it runs is not a matter of the command line.
        Err(error) if error.class() != load::ErrorClass::Usage => {
            return Err(Unread::Script(exit::of_load(error)));
        }
        Err(error) => return Err(wrong(command, error.to_string()).into()),
    };
    let (before, after) = words.split_at(command_at + 1);
    let (rest, given) = split(after, &declarations).map_err(|problem| wrong(command, problem))?;
    let modules = declarations.modules.iter().filter_map(|path| {
        let read = script_file::script(path).ok()?;
        Some(ScriptFile { weight: 0, ..read })
    });
    let options = ScriptOptions { is_lua: true, given, modules: modules.collect() };
    add_help(command, &name, &file, &declarations);
    Ok((before.iter().cloned().chain(rest).collect(), options))
}

/// Words of a command line without the options of a script; as they are if it cannot be read.
#[cfg(feature = "lua")]
pub(crate) fn without(words: &[String], file: &str) -> Vec<String> {
    let ours = || {
        let text = script_file::script(file).ok()?.text;
        let declarations = load::declarations(file, &text, Some("run")).ok()?;
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let (ours, _) = split(&words, &declarations).ok()?;
        ours.into_iter().map(|word| word.into_string().ok()).collect::<Option<Vec<String>>>()
    };
    ours().unwrap_or_else(|| words.to_vec())
}

/// Without Lua, no option is a script's.
#[cfg(not(feature = "lua"))]
pub(crate) fn without(words: &[String], _: &str) -> Vec<String> {
    words.to_vec()
}

/// Without Lua, no option is a script's.
///
/// # Errors
///
/// None.
#[cfg(not(feature = "lua"))]
#[expect(clippy::unnecessary_wraps, reason = "the variant with Lua may fail")]
pub(crate) fn take(
    words: Vec<OsString>,
    _: &mut clap::Command,
) -> Result<(Vec<OsString>, ScriptOptions), Unread> {
    let _ = named(&words).map(|named| (named.command_at, named.file, named.command));
    Ok((words, ScriptOptions::default()))
}

/// Names and values of options.
#[cfg(feature = "lua")]
type Given = Vec<(String, String)>;

/// Splits words into ours and the script's options.
#[cfg(feature = "lua")]
fn split(words: &[OsString], declarations: &load::Declarations) -> Result<(Vec<OsString>, Given), String> {
    let (mut ours, mut given) = (Vec::new(), Vec::new());
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let option = word.to_str().and_then(|word| word.strip_prefix("--"));
        let (name, value) = match option.map(|option| option.split_once('=')) {
            Some(Some((name, value))) => (name, Some(value.to_owned())),
            Some(None) => (option.unwrap_or_default(), None),
            None => ("", None),
        };
        let all = declarations.options.iter().chain(&declarations.usual);
        let Some(declared) = all.into_iter().find(|declared| !name.is_empty() && declared.is_named(name))
        else {
            ours.push(word.clone());
            continue;
        };
        let next = words.peek().and_then(|next| next.to_str()).map(str::to_owned);
        let value = match (value, declared.kind, next) {
            (Some(value), ..) => value,
            (None, load::OptionKind::Switch, Some(next)) if declared.check(&next).is_ok() => {
                words.next();
                next
            }
            (None, load::OptionKind::Switch, _) => "on".to_owned(),
            (None, _, Some(next)) if !next.starts_with("--") => {
                words.next();
                next
            }
            // In sysbench, a text that is not given is empty.
            (None, load::OptionKind::Text | load::OptionKind::List, _) => String::new(),
            (None, kind, _) => return Err(format!("a value is required for '--{name} <{}>'", kind.form())),
        };
        declared.check(&value)?;
        given.push((declared.name.clone(), value));
    }
    Ok((ours, given))
}

/// Adds the script's options to the help of our command.
#[cfg(feature = "lua")]
fn add_help(command: &mut clap::Command, name: &str, file: &str, declarations: &load::Declarations) {
    let Some(ours) = command.find_subcommand_mut(name) else { return };
    let list =
        |options: &[load::Declared]| options.iter().map(load::Declared::help).collect::<Vec<_>>().join("\n");
    let examples = ours.get_after_help().map(ToString::to_string).unwrap_or_default();
    let own = match declarations.options.as_slice() {
        [] => "  none".to_owned(),
        options => list(options),
    };
    let commands = match declarations.commands.as_slice() {
        [] => "none".to_owned(),
        commands => commands.join(", "),
    };
    let text = format!(
        "Options of {file}:\n{own}\n\nOptions of every script in Lua:\n{}\n\nCommands of {file}: {commands}\n\n{examples}",
        list(&declarations.usual)
    );
    *ours = std::mem::take(ours).after_help(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_script_in_lua_is_found_wherever_it_is_named() {
        let of = |text: &str| named(&words(text)).map(|n| (n.file, n.command));
        let run = |file: &str| Some((file.to_owned(), Some("run".to_owned())));
        assert_eq!(of("bakeoff load mysql://h/d --script a.lua --x 1"), run("a.lua"));
        assert_eq!(of("bakeoff --archive load --json load --script=b/c.lua null:"), run("b/c.lua"));
        assert_eq!(of("bakeoff load mysql://h/d --script a.sql"), None);
        assert_eq!(of("bakeoff prepare mysql://h/d --script a.lua"), None);
        let script = |command: Option<&str>| Some(("a.lua".to_owned(), command.map(str::to_owned)));
        assert_eq!(of("bakeoff script a.lua prepare mysql://h/d"), script(Some("prepare")));
        assert_eq!(of("bakeoff script --threads 2 a.lua null:"), script(None));
        assert_eq!(of("bakeoff"), None);
        assert_eq!(of("bakeoff script"), None);
    }

    #[cfg(feature = "lua")]
    #[test]
    fn options_of_the_script_come_before_ours() {
        let text = "sysbench.cmdline.options = { table_size = {'rows', 10}, ['skip-trx'] = {'x', false}, \
                    threads = {'own', 1}, name = {'text'} }\nfunction event() end";
        let declarations = load::declarations("a.lua", text, Some("run")).unwrap();
        let of = |text: &str| {
            let (ours, given) = split(&words(text), &declarations)?;
            let ours: Vec<_> = ours.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let given: Vec<_> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
            Ok::<_, String>((ours.join(" "), given.join(" ")))
        };
        let both = |ours: &str, given: &str| Ok((ours.to_owned(), given.to_owned()));
        assert_eq!(of("--table-size 5 --time 2s null:"), both("--time 2s null:", "table_size=5"));
        assert_eq!(of("--table_size=5 --threads 3 --x"), both("--x", "table_size=5 threads=3"));
        assert_eq!(of("--skip_trx null:"), both("null:", "skip-trx=on"));
        assert_eq!(of("--skip-trx off null: --name -7"), both("null:", "skip-trx=off name=-7"));
        assert_eq!(of("--rand-type uniform --name=--x"), both("", "rand-type=uniform name=--x"));
        for wrong in ["--table-size", "--table-size --skip-trx", "--table-size=x", "--skip-trx=5"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
