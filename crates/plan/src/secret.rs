//! Secrets that a plan refers to: `{env:NAME}` and `{file:PATH}`.
//!
//! The plan's text, and with it the archive, has the reference; the value is read when the plan is executed, and again
//! when it is resumed.

use std::fmt;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// A variable of the environment of `bakeoff`.
    Env(String),
    /// A file; a line end at its end is not part of the secret.
    File(String),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "{{env:{name}}}"),
            Self::File(path) => write!(f, "{{file:{path}}}"),
        }
    }
}

impl Reference {
    /// Reads what stands between braces: `env:NAME`, `file:PATH`.
    pub(crate) fn read(inside: &str) -> Option<Self> {
        let (kind, what) = inside.split_once(':')?;
        match kind {
            "env" if !what.is_empty() => Some(Self::Env(what.to_owned())),
            "file" if !what.is_empty() => Some(Self::File(what.to_owned())),
            _ => None,
        }
    }
}

/// The references in a text that has no other placeholders, first to last, each with its place.
pub(crate) fn references(text: &str) -> Vec<(std::ops::Range<usize>, Reference)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let end = text[open..].find('}').map(|at| open + at);
        let reference = end.and_then(|end| Some((end, Reference::read(&text[open + 1..end])?)));
        from = match reference {
            Some((end, reference)) => {
                let after = end + 1;
                found.push((open..after, reference));
                after
            }
            None => open + 1,
        };
    }
    found
}

/// The text with each reference replaced.
pub(crate) fn replaced(text: &str, value: &dyn Fn(&Reference) -> String) -> String {
    let mut written = String::with_capacity(text.len());
    let mut from = 0;
    for (range, reference) in references(text) {
        written.push_str(&text[from..range.start]);
        written.push_str(&value(&reference));
        from = range.end;
    }
    written + &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_beside_other_braces() {
        let text = "Authorization: Basic {env:TOKEN}, {\"a\": {file:/run/secret}} {env:} {x}";
        let found: Vec<_> = references(text).into_iter().map(|(_, reference)| reference).collect();
        assert_eq!(found, [Reference::Env("TOKEN".into()), Reference::File("/run/secret".into())]);
        let shown = replaced(text, &|reference| format!("<{reference}>"));
        assert_eq!(shown, "Authorization: Basic <{env:TOKEN}>, {\"a\": <{file:/run/secret}>} {env:} {x}");
    }
}
