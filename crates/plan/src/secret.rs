//! References to secrets in a plan: `{env:NAME}` and `{file:PATH}`.
//!
//! The plan's text, and thus the archive, contains the reference; the value is read when the plan is
//! executed, and again when it is resumed.

use std::fmt;

/// Location of a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// Environment variable of `bakeoff`.
    Env(String),
    /// File; a final line end is not part of the secret.
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
    /// Parses the text between braces: `env:NAME`, `file:PATH`.
    pub(crate) fn read(inside: &str) -> Option<Self> {
        let (kind, what) = inside.split_once(':')?;
        match kind {
            "env" if !what.is_empty() => Some(Self::Env(what.to_owned())),
            "file" if !what.is_empty() => Some(Self::File(what.to_owned())),
            _ => None,
        }
    }
}

/// References in a text without other placeholders, first to last, each with its range.
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

/// Replaces each reference in the text.
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
