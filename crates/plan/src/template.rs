//! Texts with placeholders: `{scratch}`, `{name}` for each factor, and secrets; `{{` and `}}` are braces.
//!
//! A command line quotes the value; `{name|raw}` inserts it unquoted.

use std::path::Path;

use record::bakeoff::Levels;

use crate::error::{Position, Problem, ProblemKind};
use crate::keys::Key;
use crate::quoting::{Language, Scanner, is_harmless};
use crate::secret::Reference;

/// Placeholder for the scratch directory of a series.
pub(crate) const SCRATCH: &str = "scratch";

/// Placeholder for the number of an instance of the server, from 1.
pub(crate) const INSTANCE: &str = "instance";

/// Placeholder for the folder of what `[build]` built for a configuration.
pub(crate) const BUILD: &str = "build";

/// Folder in texts that are checked before anything is built.
const NOT_BUILT: &str = "/build";

/// Levels with the number of an instance among them.
pub(crate) fn of_instance(levels: &Levels, number: u32) -> Levels {
    let mut levels = levels.clone();
    levels.insert(INSTANCE.to_owned(), number.to_string());
    levels
}

/// Path of a directory as text, for [`SCRATCH`].
pub(crate) fn text_of(scratch: &Path) -> String {
    scratch.to_str().expect("the runner's scratch folders are UTF-8").to_owned()
}

/// Text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name {
        name: String,
        is_raw: bool,
    },
    Secret(Reference),
    /// Value of a secret.
    Value(String),
}

/// Suffix of a factor's name that turns off quoting.
const RAW: &str = "|raw";

/// Value that cannot be quoted at the position of its placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unquotable {
    /// Text between the braces.
    pub(crate) placeholder: String,
}

/// Unpaired brace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoneBrace;

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, LoneBrace> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..];
            if brace.starts_with("{{") || brace.starts_with("}}") {
                plain.push_str(&brace[..1]);
                rest = &brace[2..];
                continue;
            }
            let inside = brace.strip_prefix('{').ok_or(LoneBrace)?;
            let end =
                inside.find(['{', '}']).filter(|&end| inside[end..].starts_with('}')).ok_or(LoneBrace)?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::between_braces(&inside[..end]));
            rest = &inside[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// Text without placeholders.
    pub(crate) fn plain(text: &str) -> Self {
        Self(vec![Part::Text(text.to_owned())])
    }

    /// Whether it is exactly this text, without placeholders.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(&self.0[..], [Part::Text(only)] if only == text)
    }

    /// Names between braces, first to last.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Name { name, .. } => Some(name.as_str()),
            Part::Text(_) | Part::Secret(_) | Part::Value(_) => None,
        })
    }

    /// Secrets that it refers to.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().filter_map(|part| match part {
            Part::Secret(reference) => Some(reference),
            _ => None,
        })
    }

    /// Replaces the references by the secrets.
    pub(crate) fn reveal(&mut self, value: &dyn Fn(&Reference) -> String) {
        for part in &mut self.0 {
            if let Part::Secret(reference) = part {
                *part = Part::Value(value(reference));
            }
        }
    }

    /// Cautions about placeholders with values that have a meaning to a shell, for one cell.
    pub(crate) fn cautions(&self, levels: &Levels, language: Language) -> Vec<String> {
        let mut scanner = Scanner::new(language);
        let mut cautions = Vec::new();
        for (i, part) in self.0.iter().enumerate() {
            match part {
                Part::Text(text) => scanner.pass(text),
                Part::Name { is_raw, .. } if self.is_command(i, *is_raw) => {}
                Part::Name { name, is_raw }
                    if name != SCRATCH && name != INSTANCE && levels.contains_key(name) =>
                {
                    let level = levels.get(name).map_or("", String::as_str);
                    let shown = level.escape_debug();
                    let variable = name.replace('-', "_");
                    // Options are what `|raw` is for: only their blanks mean something.
                    let is_plain =
                        if *is_raw { level.split(' ').all(is_harmless) } else { is_harmless(level) };
                    if language == Language::Plain || is_plain {
                        continue;
                    }
                    cautions.push(if *is_raw {
                        format!(
                            "`{{{name}|raw}}` inserts `{shown}` unquoted: it is interpreted as part of \
                             the command line"
                        )
                    } else if scanner.is_in_quotes() && language == Language::Shell {
                        format!(
                            "`{{{name}}}` inserts `{shown}` inside quotes: a shell that evaluates this text \
                             a second time would execute it; `$BAKEOFF_{variable}` is safe"
                        )
                    } else {
                        format!(
                            "`{{{name}}}` inserts `{shown}` as one word; `{{{name}|raw}}` would insert \
                             it unquoted"
                        )
                    });
                }
                Part::Name { .. } | Part::Secret(_) | Part::Value(_) => {}
            }
        }
        cautions
    }

    /// Whether the placeholder at `i` has a whole command for a shell as its value, which is meant to be
    /// interpreted: `exec:{command|raw}`, `exec:eval {command} ;`.
    fn is_command(&self, i: usize, is_raw: bool) -> bool {
        match (&self.0[..i], &self.0[i + 1..]) {
            ([Part::Text(before)], []) => is_raw && before == "exec:",
            ([Part::Text(before)], [Part::Text(after)]) => !is_raw && before == "exec:eval " && after == " ;",
            _ => false,
        }
    }

    /// Text with every placeholder replaced. `check` ensures that `levels` has all of them.
    ///
    /// A secret that is not yet read remains a reference.
    pub(crate) fn fill(
        &self,
        levels: &Levels,
        scratch: &str,
        language: Language,
    ) -> Result<String, Unquotable> {
        let mut scanner = Scanner::new(language);
        let mut filled = String::new();
        let quote = |scanner: &mut Scanner, value: &str, placeholder: &str| {
            scanner.quote(value).ok_or_else(|| Unquotable { placeholder: placeholder.to_owned() })
        };
        for part in &self.0 {
            match part {
                Part::Text(text) => {
                    scanner.pass(text);
                    filled.push_str(text);
                }
                Part::Name { name, is_raw } => {
                    let value = match name.as_str() {
                        SCRATCH => scratch,
                        INSTANCE => levels.get(INSTANCE).map_or("1", String::as_str),
                        // A factor may have this name in a plan that builds nothing.
                        BUILD => levels.get(BUILD).map_or(NOT_BUILT, String::as_str),
                        _ => levels.get(name).expect("placeholders are checked against the factors"),
                    };
                    if *is_raw {
                        scanner.pass(value);
                        filled.push_str(value);
                    } else {
                        filled.push_str(&quote(&mut scanner, value, name)?);
                    }
                }
                Part::Secret(reference) => {
                    // Whether its value can be quoted here is known before the value.
                    quote(&mut scanner, "; #", &reference.to_string())?;
                    filled.push_str(&reference.to_string());
                }
                Part::Value(value) => filled.push_str(&quote(&mut scanner, value, "a secret")?),
            }
        }
        Ok(filled)
    }
}

impl Part {
    fn between_braces(inside: &str) -> Self {
        if let Some(reference) = Reference::read(inside) {
            return Self::Secret(reference);
        }
        let raw = inside.strip_suffix(RAW);
        Self::Name { name: raw.unwrap_or(inside).to_owned(), is_raw: raw.is_some() }
    }
}

/// Value that may differ from trial to trial.
#[derive(Debug, Clone)]
pub(crate) struct Templated<T> {
    pub(crate) template: Template,
    pub(crate) key: &'static Key,
    /// Path of the key: `load.threads`.
    pub(crate) path: String,
    pub(crate) position: Position,
    /// Whether it is a default.
    pub(crate) is_default: bool,
    pub(crate) read: fn(&str) -> Option<T>,
}

/// Reason that a text is not a valid value for one cell.
enum NoValue {
    Unquotable(Unquotable),
    /// The text has the wrong kind for its key.
    Bad(String),
}

impl<T> Templated<T> {
    /// Value for one cell.
    fn resolve(&self, levels: &Levels, scratch: &str) -> Result<T, NoValue> {
        let text = self.template.fill(levels, scratch, self.language()).map_err(NoValue::Unquotable)?;
        let value = if self.key.kind.takes(&text) { (self.read)(&text) } else { None };
        value.ok_or(NoValue::Bad(text))
    }

    /// Interpreter of the text.
    fn language(&self) -> Language {
        let begins =
            |with: &str| matches!(self.template.0.first(), Some(Part::Text(text)) if text.starts_with(with));
        match self.path.as_str() {
            "server.command" => Language::Words,
            "server.ready" if begins("socket:") || begins("tcp:") => Language::Plain,
            "load.target" if begins("exec:") => Language::Shell,
            "server.ready" => Language::Shell,
            path if path.rsplit('.').next() == Some("run") => Language::Shell,
            _ => Language::Plain,
        }
    }

    /// Value for one cell of a plan that is being checked; `None` if it has no valid value there.
    pub(crate) fn value_at(&self, levels: &Levels) -> Option<T> {
        let is_filled = |name: &str| [SCRATCH, INSTANCE, BUILD].contains(&name) || levels.contains_key(name);
        if self.template.names().all(is_filled) { self.resolve(levels, "/scratch").ok() } else { None }
    }

    /// Value for one cell of a plan that passed `check`, which resolved every cell.
    pub(crate) fn of(&self, levels: &Levels, scratch: &str) -> T {
        let value = self.resolve(levels, scratch);
        value.unwrap_or_else(|_| panic!("checked for every cell, and yet {} has no value", self.path))
    }
}

/// Value with placeholders, of any type, as `check` uses it.
pub(crate) trait AnyTemplated {
    fn key(&self) -> &'static Key;
    fn path(&self) -> &str;
    fn position(&self) -> Position;
    fn names(&self) -> Vec<&str>;
    /// Whether it is a default.
    fn is_default(&self) -> bool;
    /// Problem of its value for one cell.
    fn problem(&self, levels: &Levels) -> Option<Problem>;
    /// Cautions about its value for one cell.
    fn cautions(&self, levels: &Levels) -> Vec<String>;
    fn secrets(&self) -> Vec<&Reference>;
}

impl<T> AnyTemplated for Templated<T> {
    fn key(&self) -> &'static Key {
        self.key
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn position(&self) -> Position {
        self.position
    }

    fn names(&self) -> Vec<&str> {
        self.template.names().collect()
    }

    fn is_default(&self) -> bool {
        self.is_default
    }

    fn problem(&self, levels: &Levels) -> Option<Problem> {
        let key = self.path.clone();
        let kind = match self.resolve(levels, "/scratch").err()? {
            NoValue::Bad(found) => ProblemKind::BadValue {
                found: crate::value::masked(&self.path, &format!("\"{found}\"")),
                expected: self.key.kind.expected(),
                key,
            },
            NoValue::Unquotable(Unquotable { placeholder }) => ProblemKind::Unquotable { key, placeholder },
        };
        Some(Problem { position: self.position, kind })
    }

    fn cautions(&self, levels: &Levels) -> Vec<String> {
        self.template.cautions(levels, self.language())
    }

    fn secrets(&self) -> Vec<&Reference> {
        self.template.secrets().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        let levels = Levels::from([("mode".into(), "wal".into()), ("n".into(), "4".into())]);
        Template::parse(text).unwrap().fill(&levels, "/s", Language::Plain).unwrap()
    }

    #[test]
    fn placeholders_are_replaced_and_doubled_braces_are_braces() {
        assert_eq!(filled("sqlite:{scratch}/x.db?journal_mode={mode}"), "sqlite:/s/x.db?journal_mode=wal");
        assert_eq!(filled("{n}{n}"), "44");
        assert_eq!(filled("awk '{{print $1}}'"), "awk '{print $1}'");
        assert_eq!(filled("{{{n}}}"), "{4}");
        assert_eq!(filled(""), "");
    }

    #[test]
    fn a_level_is_quoted_for_a_shell_unless_it_is_raw() {
        let levels = Levels::from([("arm".into(), "a; b".into())]);
        let filled = |text: &str| Template::parse(text).unwrap().fill(&levels, "/s", Language::Shell);
        assert_eq!(filled("echo {arm} {scratch}").unwrap(), "echo 'a; b' /s");
        assert_eq!(filled("echo \"{arm}\"").unwrap(), "echo \"a; b\"");
        assert_eq!(filled("echo {arm|raw}").unwrap(), "echo a; b");
        assert_eq!(filled("echo `echo {arm}`"), Err(Unquotable { placeholder: "arm".into() }));
    }

    #[test]
    fn options_pass_raw_without_a_caution_and_what_a_shell_interprets_does_not() {
        let cautions = |text: &str, level: &str| {
            let levels = Levels::from([("arm".into(), level.into())]);
            Template::parse(text).unwrap().cautions(&levels, Language::Shell).len()
        };
        assert_eq!(cautions("{arm|raw} -c <x", "zstd -1 -T2"), 0);
        assert_eq!(cautions("{arm|raw} -c <x", "zstd -1; id"), 1);
        assert_eq!(cautions("{arm|raw} -c <x", "zstd $X"), 1);
        assert_eq!(cautions("{arm} -c <x", "zstd -1"), 1, "it is one word there");
    }

    #[test]
    fn a_secret_is_a_reference_until_it_is_read() {
        let mut template = Template::parse("x --pw {env:PW} {file:/p}").unwrap();
        assert_eq!(template.secrets().count(), 2);
        let filled = |t: &Template| t.fill(&Levels::new(), "/s", Language::Shell).unwrap();
        assert_eq!(filled(&template), "x --pw {env:PW} {file:/p}");
        template.reveal(&|reference| format!("s'{}", matches!(reference, Reference::Env(_))));
        assert_eq!(filled(&template), "x --pw 's'\\''true' 's'\\''false'");
    }

    #[test]
    fn a_brace_that_does_not_pair_is_refused() {
        for text in ["{", "}", "{a", "a}", "{a{b}}", "{{a}"] {
            assert_eq!(Template::parse(text), Err(LoneBrace), "{text}");
        }
    }
}
