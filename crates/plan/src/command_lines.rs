//! Commands to compare, from the words of a command line to argument vectors.
//!
//! `{name}` in a command, and in the commands around it, stands for the value of a parameter. A command
//! without shell metacharacters is executed directly; if one of the commands needs a shell, all of them get
//! it, because its start takes time.

use std::collections::BTreeMap;

use record::command_line;
use record::commands::{COMMANDS_MAX, Comparison};

/// Shell metacharacters.
const METACHARACTERS: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', ']', '#', '~', '=', '%',
    '{', '}', '!', '\n',
];
/// Words at the beginning of a command that only a shell knows.
const OF_SHELLS: [&str; 24] = [
    ".", ":", "case", "cd", "eval", "exec", "exit", "export", "for", "if", "local", "read", "readonly",
    "return", "set", "shift", "source", "trap", "ulimit", "umask", "unset", "until", "wait", "while",
];
/// Most values of one parameter.
const VALUES_MAX: usize = 1_000;

/// Commands as the user wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLines {
    /// The commands.
    pub commands: Vec<String>,
    /// Names for them; empty, or one for each command.
    pub names: Vec<String>,
    /// The command that the others are compared with: one of the commands, by its text, its name or its
    /// letter in the output, or a further one.
    pub reference: Option<String>,
    /// Parameters; every combination of their values is a command.
    pub parameters: Vec<Parameter>,
    /// The reader of the commands.
    pub shell: Shell,
    /// Commands around them.
    pub around: Around,
}

/// Commands before and after the measured ones, read by `sh`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Around {
    /// Before the first round of each command.
    pub setup: Option<String>,
    /// Before each execution: none, one, or one for each command.
    pub prepare: Vec<String>,
    /// After each execution: none, one, or one for each command.
    pub conclude: Vec<String>,
    /// After the last round of each command.
    pub cleanup: Option<String>,
}

/// A parameter and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name, used as `{name}`.
    pub name: String,
    /// Values, each once.
    pub values: Vec<String>,
}

/// The reader of the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shell {
    /// `sh` if one of the commands needs it.
    IfNeeded,
    /// Without a shell: words are split at blanks and quotes.
    Never,
    /// A program with its arguments; `-c` and the command follow.
    Program(Vec<String>),
}

/// One command, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Text or name for people.
    pub text: String,
    /// Argument vector.
    pub words: Vec<String>,
    /// Value of each parameter.
    pub parameters: BTreeMap<String, String>,
    /// Before the first round.
    pub setup: Option<String>,
    /// Before each execution.
    pub prepare: Option<String>,
    /// After each execution.
    pub conclude: Option<String>,
    /// After the last round.
    pub cleanup: Option<String>,
}

/// All commands, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The commands.
    pub commands: Vec<CommandLine>,
    /// Index of the reference.
    pub reference: usize,
    /// The reader in use, for people.
    pub shell: String,
}

/// Reason that the words name no comparison.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NotCommands {
    /// The fault, and what to do.
    pub what: String,
}

fn refuse<T>(what: impl Into<String>) -> Result<T, NotCommands> {
    Err(NotCommands { what: what.into() })
}

/// Index of a command as written, its text and its values.
type Filled = (usize, String, BTreeMap<String, String>);

impl Shell {
    /// Parses `default`, `none`, or a program with its arguments.
    ///
    /// # Errors
    ///
    /// [`NotCommands`] if a quote is not closed, or there is no program.
    pub fn read(text: &str) -> Result<Self, NotCommands> {
        match text.trim() {
            "default" => Ok(Self::IfNeeded),
            "none" => Ok(Self::Never),
            text => match command_line::split(text).filter(|words| !words.is_empty()) {
                Some(words) => Ok(Self::Program(words)),
                None => {
                    refuse(format!("--shell `{text}`: expected default, none, or a program such as bash"))
                }
            },
        }
    }

    fn words(&self, command: &str) -> Result<Vec<String>, NotCommands> {
        match self {
            Self::Program(program) => {
                Ok(program.iter().cloned().chain(["-c".to_owned(), command.to_owned()]).collect())
            }
            Self::Never | Self::IfNeeded => match command_line::split(command) {
                Some(words) if !words.is_empty() => Ok(words),
                Some(_) => refuse("a command is empty"),
                None => refuse(format!("`{command}`: a quote is not closed")),
            },
        }
    }
}

impl Parameter {
    /// Parses a list: `VAR` and `1,2,3`.
    ///
    /// # Errors
    ///
    /// [`NotCommands`] if the name is not a word, or a value stands twice.
    pub fn list(name: &str, values: &str) -> Result<Self, NotCommands> {
        Self { name: name.to_owned(), values: values.split(',').map(str::to_owned).collect() }.checked()
    }

    /// Values from `first` to `last` in steps; the step is 1 if absent.
    ///
    /// # Errors
    ///
    /// [`NotCommands`] if a text is not a number, or there are no values or too many.
    pub fn scan(name: &str, first: &str, last: &str, step: Option<&str>) -> Result<Self, NotCommands> {
        let step = step.unwrap_or("1");
        let number = |text: &str| match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => refuse(format!("--parameter-scan {name}: `{text}` is not a number")),
        };
        let (from, to, by) = (number(first)?, number(last)?, number(step)?);
        if by <= 0.0 || to < from {
            return refuse(format!(
                "--parameter-scan {name}: from {first} to {last} in steps of {step} has no values"
            ));
        }
        let digits = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
        let digits = [first, last, step].map(digits).into_iter().max().unwrap_or(0);
        // Half a step in a million: sums of decimals are not exact.
        let last = to + by * 0.5e-6;
        let values: Vec<String> = (0..=VALUES_MAX)
            .map(|i| from + by * i as f64)
            .take_while(|value| *value <= last)
            .map(|value| format!("{value:.digits$}"))
            .collect();
        Self { name: name.to_owned(), values }.checked()
    }

    fn checked(self) -> Result<Self, NotCommands> {
        let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        if self.name.is_empty() || !is_word(&self.name) {
            return refuse(format!("`{}` is not a parameter name: use letters, digits, _ and -", self.name));
        }
        if self.values.len() > VALUES_MAX {
            return refuse(format!("parameter {} has more than {VALUES_MAX} values", self.name));
        }
        let mut sorted: Vec<&String> = self.values.iter().collect();
        sorted.sort_unstable();
        if let Some([twice, ..]) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("parameter {} has the value `{}` twice", self.name, twice));
        }
        Ok(self)
    }
}

impl CommandLines {
    /// The commands with all values in their places.
    ///
    /// # Errors
    ///
    /// [`NotCommands`] if there are not two commands to compare, or the options do not fit them.
    pub fn expanded(&self) -> Result<Expanded, NotCommands> {
        let (written, commands, reference) = self.with_reference()?;
        self.check(&written)?;
        if commands.len() < 2 {
            return refuse(format!(
                "a comparison needs at least two commands, but `{}` is the only one: bakeoff compare -- 'A' \
                 'B'",
                commands.first().map_or("", |(_, text, _)| text)
            ));
        }
        if commands.len() > COMMANDS_MAX {
            return refuse(format!(
                "{} commands, but a comparison has at most {COMMANDS_MAX}",
                commands.len()
            ));
        }
        let shell = self.shell_of(commands.iter().map(|(_, text, _)| text.as_str()));
        let line = |(i, text, values): &Filled| {
            let fill = |text: Option<&String>| text.map(|text| filled(text, values));
            Ok(CommandLine {
                words: shell.words(text)?,
                text: self.name(*i, written.len()).map_or_else(|| text.clone(), |name| filled(name, values)),
                setup: fill(self.around.setup.as_ref()),
                prepare: fill(of_command(&self.around.prepare, *i)),
                conclude: fill(of_command(&self.around.conclude, *i)),
                cleanup: fill(self.around.cleanup.as_ref()),
                parameters: values.clone(),
            })
        };
        Ok(Expanded {
            reference,
            shell: match &shell {
                Shell::Program(words) => words.join(" "),
                Shell::Never | Shell::IfNeeded => "none".to_owned(),
            },
            commands: commands.iter().map(line).collect::<Result<_, _>>()?,
        })
    }

    /// The commands as written and with all values in their places, and the index of the reference. The
    /// reference is one of the commands, by its text, its name or its letter, or one more, which comes first.
    fn with_reference(&self) -> Result<(Vec<String>, Vec<Filled>, usize), NotCommands> {
        let mut written = self.commands.clone();
        let commands = self.filled(&written);
        let Some(reference) = &self.reference else { return Ok((written, commands, 0)) };
        let name = |(i, _, values): &Filled| self.names.get(*i).map(|name| filled(name, values));
        let is_written = |(i, ..): &Filled| {
            [self.commands.get(*i), self.names.get(*i)].into_iter().flatten().any(|text| text == reference)
        };
        let found = commands
            .iter()
            .position(is_written)
            .or_else(|| commands.iter().position(|one| one.1 == *reference))
            .or_else(|| commands.iter().position(|one| name(one).as_ref() == Some(reference)))
            .or_else(|| (0..commands.len()).find(|i| Comparison::letter(*i) == *reference));
        if let Some(reference) = found {
            return Ok((written, commands, reference));
        }
        if (0..COMMANDS_MAX).any(|i| Comparison::letter(i) == *reference) {
            let last = Comparison::letter(commands.len().saturating_sub(1));
            return refuse(format!("--reference {reference}: the letters of the commands are A to {last}"));
        }
        written.insert(0, reference.clone());
        let commands = self.filled(&written);
        Ok((written, commands, 0))
    }

    /// Every command with each combination of the values that it uses.
    fn filled(&self, written: &[String]) -> Vec<Filled> {
        let combinations = combinations(&self.parameters);
        let of = |(i, command): (usize, &String)| -> Vec<Filled> {
            let used = used_in(&combinations, self.texts_of(i, command));
            used.into_iter().map(|values| (i, filled(command, &values), values)).collect()
        };
        written.iter().enumerate().flat_map(of).collect()
    }

    /// Name of command `i` of `count`. A reference that comes first has a name only if there is one for each.
    fn name(&self, i: usize, count: usize) -> Option<&String> {
        let unnamed = if self.names.len() < count { count - self.commands.len() } else { 0 };
        self.names.get(i.checked_sub(unnamed)?)
    }

    fn check(&self, written: &[String]) -> Result<(), NotCommands> {
        let around = [("--prepare", &self.around.prepare), ("--conclude", &self.around.conclude)];
        for (option, given) in around {
            if given.len() > 1 && given.len() != written.len() {
                return refuse(format!(
                    "{option} is given {} times: give it once, or once for each of the {} commands",
                    given.len(),
                    written.len()
                ));
            }
        }
        if self.names.len() > written.len() {
            return refuse(format!("{} names for {} commands", self.names.len(), written.len()));
        }
        for (i, parameter) in self.parameters.iter().enumerate() {
            if self.parameters[..i].iter().any(|other| other.name == parameter.name) {
                return refuse(format!(
                    "parameter {} is given twice: name all of its values at once",
                    parameter.name
                ));
            }
            let place = format!("{{{}}}", parameter.name);
            let is_used =
                (0..written.len()).any(|i| self.texts_of(i, &written[i]).any(|t| t.contains(&place)));
            if !is_used {
                return refuse(format!(
                    "parameter {} is not used: write {place} in a command",
                    parameter.name
                ));
            }
        }
        if let Some(empty) = written.iter().find(|command| command.trim().is_empty()) {
            return refuse(format!("a command is empty: `{empty}`"));
        }
        if let Some(option) = written.iter().find(|command| command.trim().starts_with('-')) {
            return refuse(format!(
                "`{option}` begins with `-`, so it is not a command: options come before the `--`"
            ));
        }
        Ok(())
    }

    /// The texts in which a command's parameters may stand.
    fn texts_of<'a>(&'a self, i: usize, command: &'a str) -> impl Iterator<Item = &'a str> {
        let around = [
            self.around.setup.as_deref(),
            of_command(&self.around.prepare, i).map(String::as_str),
            of_command(&self.around.conclude, i).map(String::as_str),
            self.around.cleanup.as_deref(),
        ];
        std::iter::once(command).chain(around.into_iter().flatten())
    }

    fn shell_of<'a>(&self, mut commands: impl Iterator<Item = &'a str>) -> Shell {
        match &self.shell {
            Shell::IfNeeded if commands.any(needs_shell) => Shell::Program(vec!["sh".to_owned()]),
            shell => shell.clone(),
        }
    }
}

/// Whether a load on `exec:` gives the command to a shell, too.
pub(crate) fn has_metacharacters(command: &str) -> bool {
    command.contains(METACHARACTERS)
}

fn needs_shell(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    has_metacharacters(command) || OF_SHELLS.contains(&first)
}

/// The given text for command `i`: one for all, or one for each.
fn of_command(given: &[String], i: usize) -> Option<&String> {
    if given.len() == 1 { given.first() } else { given.get(i) }
}

/// Every combination of the values; the last parameter varies fastest.
fn combinations(parameters: &[Parameter]) -> Vec<BTreeMap<String, String>> {
    parameters.iter().fold(vec![BTreeMap::new()], |so_far, parameter| {
        let with = |values: &BTreeMap<String, String>, value: &String| {
            let mut values = values.clone();
            values.insert(parameter.name.clone(), value.clone());
            values
        };
        so_far.iter().flat_map(|values| parameter.values.iter().map(move |v| with(values, v))).collect()
    })
}

/// The combinations, without the parameters that no text uses, each once.
fn used_in<'a>(
    combinations: &[BTreeMap<String, String>],
    texts: impl Iterator<Item = &'a str>,
) -> Vec<BTreeMap<String, String>> {
    let texts: Vec<&str> = texts.collect();
    let is_used = |name: &String| texts.iter().any(|text| text.contains(&format!("{{{name}}}")));
    let mut found: Vec<BTreeMap<String, String>> = Vec::new();
    for values in combinations {
        let values: BTreeMap<String, String> =
            values.iter().filter(|(name, _)| is_used(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
        if !found.contains(&values) {
            found.push(values);
        }
    }
    found
}

fn filled(text: &str, values: &BTreeMap<String, String>) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(commands: &[&str]) -> CommandLines {
        CommandLines {
            commands: commands.iter().map(|&c| c.to_owned()).collect(),
            names: Vec::new(),
            reference: None,
            parameters: Vec::new(),
            shell: Shell::IfNeeded,
            around: Around::default(),
        }
    }

    fn texts(lines: &CommandLines) -> Vec<String> {
        lines.expanded().unwrap().commands.into_iter().map(|c| c.words.join("|")).collect()
    }

    #[test]
    fn one_command_that_needs_a_shell_gives_all_of_them_one() {
        assert_eq!(texts(&lines(&["gzip  -1 x", "zstd x"])), ["gzip|-1|x", "zstd|x"]);
        assert_eq!(texts(&lines(&["gzip x", "exit 1"])), ["sh|-c|gzip x", "sh|-c|exit 1"]);
        assert_eq!(texts(&lines(&["gzip x", "zstd < x"])), ["sh|-c|gzip x", "sh|-c|zstd < x"]);
        let never = CommandLines { shell: Shell::read("none").unwrap(), ..lines(&["a 'b c'", "d"]) };
        assert_eq!(texts(&never), ["a|b c", "d"]);
        let bash = CommandLines { shell: Shell::read("bash --norc").unwrap(), ..lines(&["a", "b"]) };
        assert_eq!(texts(&bash), ["bash|--norc|-c|a", "bash|--norc|-c|b"]);
    }

    #[test]
    fn parameters_multiply_the_commands_that_use_them() {
        let mut with = lines(&["gzip -{level} x", "zstd x"]);
        with.parameters = vec![Parameter::list("level", "1,9").unwrap()];
        with.around.prepare = vec!["rm -f x.gz.{level}".into(), "true".into()];
        let expanded = with.expanded().unwrap();
        let told: Vec<_> =
            expanded.commands.iter().map(|c| (c.text.as_str(), c.prepare.as_deref().unwrap())).collect();
        assert_eq!(told, [("gzip -1 x", "rm -f x.gz.1"), ("gzip -9 x", "rm -f x.gz.9"), ("zstd x", "true")]);
        let scan = |first, last, step| Parameter::scan("n", first, last, step).unwrap().values.join(" ");
        assert_eq!(scan("1", "3", None), "1 2 3");
        assert_eq!(scan("0.1", "0.5", Some("0.2")), "0.1 0.3 0.5");
        assert_eq!(scan("-1", "1", Some("0.5")), "-1.0 -0.5 0.0 0.5 1.0");
    }

    #[test]
    fn the_reference_is_one_of_the_commands_or_comes_first() {
        let with = |reference: &str| {
            let lines = CommandLines { reference: Some(reference.to_owned()), ..lines(&["a", "b"]) };
            let expanded = lines.expanded().unwrap();
            (expanded.reference, expanded.commands.len(), expanded.commands[expanded.reference].text.clone())
        };
        assert_eq!(with("b"), (1, 2, "b".to_owned()));
        assert_eq!(with("c"), (0, 3, "c".to_owned()));
        // The letters of the output.
        assert_eq!(with("B"), (1, 2, "b".to_owned()));
        let lines = CommandLines { reference: Some("C".into()), ..lines(&["a", "b"]) };
        let error = lines.expanded().unwrap_err().to_string();
        assert_eq!(error, "--reference C: the letters of the commands are A to B");
    }

    #[test]
    fn the_reference_may_be_one_of_the_commands_that_a_parameter_makes() {
        let with = |reference: &str| {
            let expanded = CommandLines {
                reference: Some(reference.to_owned()),
                names: vec!["level {n}".into()],
                parameters: vec![Parameter::list("n", "1,6,9").unwrap()],
                ..lines(&["gzip -{n} x"])
            };
            let expanded = expanded.expanded().unwrap();
            (expanded.reference, expanded.commands.len())
        };
        assert_eq!(with("gzip -{n} x"), (0, 3));
        assert_eq!(with("gzip -6 x"), (1, 3));
        assert_eq!(with("level 9"), (2, 3));
        assert_eq!(with("C"), (2, 3));
    }

    #[test]
    fn the_reference_may_be_named_and_takes_no_name_of_another() {
        let with = |reference: &str, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let lines = CommandLines { reference: Some(reference.to_owned()), names, ..lines(&["a", "b"]) };
            let expanded = lines.expanded().unwrap();
            let texts: Vec<String> = expanded.commands.into_iter().map(|c| c.text).collect();
            (expanded.reference, texts.join(" "))
        };
        assert_eq!(with("new", &["old", "new"]), (1, "old new".to_owned()));
        assert_eq!(with("c", &["old", "new"]), (0, "c old new".to_owned()));
        assert_eq!(with("c", &["base", "old", "new"]), (0, "base old new".to_owned()));
    }

    #[test]
    fn what_is_no_comparison_is_refused_with_what_to_do() {
        let said = |lines: &CommandLines| lines.expanded().unwrap_err().to_string();
        assert!(said(&lines(&["a"])).contains("at least two commands"));
        assert!(said(&lines(&["a", " "])).contains("empty"));
        assert!(said(&lines(&["a", "b", "--time 3s"])).contains("before the `--`"));
        let never = CommandLines { shell: Shell::Never, ..lines(&["a 'b", "c"]) };
        assert!(said(&never).contains("not closed"));
        let mut unused = lines(&["a", "b"]);
        unused.parameters = vec![Parameter::list("n", "1,2").unwrap()];
        assert!(said(&unused).contains("write {n} in a command"));
        let mut many = lines(&["a {n}", "b"]);
        many.parameters = vec![Parameter::scan("n", "1", "30", None).unwrap()];
        assert!(said(&many).contains("at most 26"));
        let mut hooks = lines(&["a", "b", "c"]);
        hooks.around.prepare = vec!["x".into(), "y".into()];
        assert!(said(&hooks).contains("once for each of the 3 commands"));
        assert!(Parameter::list("a b", "1").is_err() && Parameter::list("n", "1,1").is_err());
        assert!(
            Parameter::scan("n", "3", "1", None).is_err() && Parameter::scan("n", "1", "x", None).is_err()
        );
        assert!(Parameter::scan("n", "0", "1", Some("0.0001")).is_err());
    }
}
