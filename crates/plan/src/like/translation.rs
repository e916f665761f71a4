//! A translated command line, and the parts of the original that it lacks.

use std::path::PathBuf;

use record::requests::HttpSettings;
use record::target::{Target, mask_text};

/// Command line of another tool, in bakeoff's words.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// Name of the tool.
    pub tool: &'static str,
    /// Words after `bakeoff`.
    pub words: Vec<Word>,
    /// Parts that have no equal, or another meaning.
    pub remarks: Vec<Remark>,
}

/// Word of the translated command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Text that shows no secret.
    Plain(String),
    /// Target, which may hold a password.
    Target(String),
    /// Header of a web request, which may authenticate.
    Header(String),
    /// Contents of a file.
    File(PathBuf),
}

/// Part of the original command line that is not in the translated one as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Consequence.
    pub kind: RemarkKind,
    /// The part, as it was written.
    pub part: String,
    /// Explanation; empty if the kind says enough.
    pub text: String,
}

/// Consequence of a difference between the two command lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemarkKind {
    /// The part has no equal, and without it the load is another one.
    Missing,
    /// The part has an equal with a different meaning.
    Differs,
    /// The part is left out and the load stays the same.
    LeftOut,
}

impl Translation {
    /// Whether every part that defines the load has an equal.
    pub fn is_whole(&self) -> bool {
        self.remarks.iter().all(|remark| remark.kind != RemarkKind::Missing)
    }

    /// The command line in shell syntax, with passwords, to be run.
    pub fn typed(&self) -> String {
        self.line(Word::typed)
    }

    /// The command line in shell syntax, with passwords masked, to be read.
    pub fn shown(&self) -> String {
        self.line(Word::shown)
    }

    fn line(&self, form: impl Fn(&Word) -> String) -> String {
        let words = self.words.iter().map(form);
        std::iter::once("bakeoff".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

impl Word {
    /// The word in shell syntax.
    fn typed(&self) -> String {
        match self {
            Self::Plain(text) | Self::Target(text) | Self::Header(text) => quoted(text),
            Self::File(path) => format!("\"$(cat {})\"", quoted(&path.display().to_string())),
        }
    }

    /// The word in shell syntax, without secrets.
    fn shown(&self) -> String {
        match self {
            Self::Plain(text) => quoted(&mask_text(text)),
            Self::Target(text) => quoted(&mask_text(&Target::new(text.as_str()).masked())),
            Self::Header(text) => {
                let headers = vec![text.clone()];
                let masked = HttpSettings { headers, ..HttpSettings::plain() }.masked_headers();
                quoted(&masked.concat())
            }
            Self::File(_) => self.typed(),
        }
    }
}

/// A word in shell syntax.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
