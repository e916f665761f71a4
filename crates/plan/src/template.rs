//! Texts with placeholders: `{scratch}`, and `{name}` for each factor; `{{` and `}}` are braces.

use record::bakeoff::Levels;

use crate::error::{Place, Problem, ProblemKind};
use crate::keys::{Key, Kind};

/// The placeholder for the folder of a series.
pub(crate) const SCRATCH: &str = "scratch";

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(String),
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
            parts.push(Part::Name(inside[..end].to_owned()));
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
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text with every placeholder replaced. `check` has seen to it that `levels` has them all.
    pub(crate) fn fill(&self, levels: &Levels, scratch: &str) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Name(name) if name == SCRATCH => scratch.to_owned(),
            Part::Name(name) => {
                levels.get(name).expect("placeholders are checked against the factors").clone()
            }
        };
        self.0.iter().map(part).collect()
    }
}

/// A value that may differ from trial to trial.
#[derive(Debug, Clone)]
pub(crate) struct Templated<T> {
    pub(crate) template: Template,
    pub(crate) key: &'static Key,
    /// `load.threads`.
    pub(crate) path: String,
    pub(crate) place: Place,
    /// Nobody wrote it.
    pub(crate) is_default: bool,
    pub(crate) read: fn(&str) -> Option<T>,
}

impl<T> Templated<T> {
    /// The value for one cell, or the text that is none.
    fn resolve(&self, levels: &Levels, scratch: &str) -> Result<T, String> {
        let text = self.template.fill(levels, scratch);
        let value = if self.key.kind.takes(&text) { (self.read)(&text) } else { None };
        value.ok_or(text)
    }

    /// The value for one cell of a plan that `check` has passed, which resolved every cell once.
    pub(crate) fn of(&self, levels: &Levels, scratch: &str) -> T {
        let value = self.resolve(levels, scratch);
        value.unwrap_or_else(|text| panic!("checked for every cell, and yet {} is `{text}`", self.path))
    }
}

/// A value with placeholders, whatever its type: what `check` asks of all of them alike.
pub(crate) trait AnyTemplated {
    fn key(&self) -> &'static Key;
    fn path(&self) -> &str;
    fn place(&self) -> Place;
    fn names(&self) -> Vec<&str>;
    /// Whether nobody wrote it.
    fn is_default(&self) -> bool;
    /// What is wrong with its value for one cell.
    fn problem(&self, levels: &Levels) -> Option<Problem>;
}

impl<T> AnyTemplated for Templated<T> {
    fn key(&self) -> &'static Key {
        self.key
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn place(&self) -> Place {
        self.place
    }

    fn names(&self) -> Vec<&str> {
        self.template.names().collect()
    }

    fn is_default(&self) -> bool {
        self.is_default
    }

    fn problem(&self, levels: &Levels) -> Option<Problem> {
        let found = self.resolve(levels, "/scratch").err()?;
        let kind = ProblemKind::BadValue {
            key: self.path.clone(),
            found: crate::value::masked(&self.path, &format!("\"{found}\"")),
            expected: self.key.kind.expected(),
        };
        Some(Problem { place: self.place, kind })
    }
}

impl Kind {
    /// Whether a text is a value of this kind.
    pub(crate) fn takes(self, text: &str) -> bool {
        use record::quantity::{duration, ratio};
        match self {
            Self::Text => !text.trim().is_empty(),
            Self::Word(words) | Self::Words(words) => words().contains(&text),
            Self::Integer { min, max } => text.parse::<i64>().is_ok_and(|n| (min..=max).contains(&n)),
            Self::Between { above, below } => text.parse::<f64>().is_ok_and(|x| above < x && x < below),
            Self::Percent { max_ratio } => ratio(text).is_ok_and(|r| r <= max_ratio),
            Self::Duration { min } => duration(text).is_ok_and(|d| d >= min),
            Self::Bool => matches!(text, "true" | "false"),
            Self::Scalar | Self::Values | Self::Texts | Self::Form(_) | Self::Rate | Self::Table { .. } => {
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        let levels = Levels::from([("mode".into(), "wal".into()), ("n".into(), "4".into())]);
        Template::parse(text).unwrap().fill(&levels, "/s")
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
    fn a_brace_that_does_not_pair_is_refused() {
        for text in ["{", "}", "{a", "a}", "{a{b}}", "{{a}"] {
            assert_eq!(Template::parse(text), Err(LoneBrace), "{text}");
        }
    }
}
