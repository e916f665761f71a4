//! Texts with placeholders: `{scratch}`, `{name}` for each factor, and secrets; `{{` and `}}` are braces.
//!
//! In a command line a value is quoted; `{name|raw}` puts it there as it is.

use std::path::Path;

use record::bakeoff::Levels;

use crate::error::{Position, Problem, ProblemKind};
use crate::keys::Key;
use crate::quoting::{Language, Scanner, is_harmless};
use crate::secret::Reference;

/// The placeholder for the folder of a series.
pub(crate) const SCRATCH: &str = "scratch";

/// The path of a folder as the text that [`SCRATCH`] stands for.
pub(crate) fn text_of(scratch: &Path) -> String {
    scratch.to_str().expect("the runner's scratch folders are UTF-8").to_owned()
}

/// A text with placeholders.
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
    /// A secret that was read.
    Value(String),
}

/// What follows the name of a factor whose value is not quoted.
const RAW: &str = "|raw";

/// A value that cannot be kept from being read by a shell where its placeholder stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unquotable {
    /// What stands between the braces.
    pub(crate) placeholder: String,
}

/// A brace that does not pair.
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

    /// A text without placeholders.
    pub(crate) fn plain(text: &str) -> Self {
        Self(vec![Part::Text(text.to_owned())])
    }

    /// Whether it is exactly this text, without placeholders.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(&self.0[..], [Part::Text(only)] if only == text)
    }

    /// The names between braces, first to last.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Name { name, .. } => Some(name.as_str()),
            Part::Text(_) | Part::Secret(_) | Part::Value(_) => None,
        })
    }

    /// The secrets that it refers to.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().filter_map(|part| match part {
            Part::Secret(reference) => Some(reference),
            _ => None,
        })
    }

    /// Puts the secrets in their places.
    pub(crate) fn reveal(&mut self, value: &dyn Fn(&Reference) -> String) {
        for part in &mut self.0 {
            if let Part::Secret(reference) = part {
                *part = Part::Value(value(reference));
            }
        }
    }

    /// What is to be known of placeholders whose values mean something to a shell, for one cell.
    pub(crate) fn cautions(&self, levels: &Levels, language: Language) -> Vec<String> {
        let mut scanner = Scanner::new(language);
        let mut cautions = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => scanner.pass(text),
                Part::Name { name, is_raw } if name != SCRATCH => {
                    let level = levels.get(name).map_or("", String::as_str);
                    let shown = level.escape_debug();
                    let variable = name.replace('-', "_");
                    if language == Language::Plain || is_harmless(level) {
                        continue;
                    }
                    cautions.push(if *is_raw {
                        format!("`{{{name}|raw}}` stands for `{shown}` as it is: whatever it says is read as a command line")
                    } else if scanner.is_in_quotes() && language == Language::Shell {
                        format!(
                            "`{{{name}}}` stands for `{shown}` within quotes: a shell that reads this text a second time \
                             would execute it; `$BAKEOFF_{variable}` is safe"
                        )
                    } else {
                        format!("`{{{name}}}` stands for `{shown}` as one word; `{{{name}|raw}}` would put it there unquoted")
                    });
                }
                Part::Name { .. } | Part::Secret(_) | Part::Value(_) => {}
            }
        }
        cautions
    }

    /// The text with every placeholder replaced. `check` has seen to it that `levels` has them all.
    ///
    /// A secret that was not read yet stays the reference that it is.
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
                    // Whether its value can be quoted here is known before there is one.
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

/// A value that may differ from trial to trial.
#[derive(Debug, Clone)]
pub(crate) struct Templated<T> {
    pub(crate) template: Template,
    pub(crate) key: &'static Key,
    /// `load.threads`.
    pub(crate) path: String,
    pub(crate) position: Position,
    /// It is a default.
    pub(crate) is_default: bool,
    pub(crate) read: fn(&str) -> Option<T>,
}

/// Why a value is none for one cell.
enum NoValue {
    Unquotable(Unquotable),
    /// The text is not of the key's kind.
    Bad(String),
}

impl<T> Templated<T> {
    /// The value for one cell.
    fn resolve(&self, levels: &Levels, scratch: &str) -> Result<T, NoValue> {
        let text = self.template.fill(levels, scratch, self.language()).map_err(NoValue::Unquotable)?;
        let value = if self.key.kind.takes(&text) { (self.read)(&text) } else { None };
        value.ok_or(NoValue::Bad(text))
    }

    /// What takes the text apart.
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

    /// The value for one cell of a plan that `check` has passed, which resolved every cell once.
    pub(crate) fn of(&self, levels: &Levels, scratch: &str) -> T {
        let value = self.resolve(levels, scratch);
        value.unwrap_or_else(|_| panic!("checked for every cell, and yet {} has no value", self.path))
    }
}

/// A value with placeholders, whatever its type: what `check` asks of all of them alike.
pub(crate) trait AnyTemplated {
    fn key(&self) -> &'static Key;
    fn path(&self) -> &str;
    fn position(&self) -> Position;
    fn names(&self) -> Vec<&str>;
    /// Whether it is a default.
    fn is_default(&self) -> bool;
    /// What is wrong with its value for one cell.
    fn problem(&self, levels: &Levels) -> Option<Problem>;
    /// What is to be known of its value for one cell.
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
