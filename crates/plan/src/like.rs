//! Translates a command line of another load generator into one of bakeoff.
//!
//! A load is defined by what a user wrote, in a plan or on a command line. sysbench, pgbench, memtier, wrk, wrk2, hey,
//! oha and ab have a notation of their own for the same things: a target, connections, a rate, a length, a
//! mix. This module reads that notation and yields the words of a `bakeoff` command, and [`Remark`]s on the
//! parts that have no equal or another meaning.
//!
//! Pure: text in, words out. A file that an option names is not read; its place is a [`Word::File`].

mod draft;
mod memtier;
mod options;
mod pgbench;
mod shell;
mod sysbench;
mod web;

use std::path::PathBuf;

use record::requests::HttpSettings;
use record::target::{Target, mask_text};

pub use self::pgbench::script as builtin_script;

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

/// Error for a text that is not a command line of a known tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LikeError {
    /// A quote is not closed, or the text ends after a backslash.
    #[error("the command line ends inside of {0}: close it")]
    Unclosed(&'static str),
    /// The text is longer than any command line.
    #[error("the command line has more than 128 KiB")]
    TooLong,
    /// The text has no known tool.
    #[error("the command line has no known tool: expected one of {}", TOOLS.join(", "))]
    UnknownTool,
    /// The tool does something that is not a load.
    #[error("{tool}: {what} has no equal in bakeoff; {instead}")]
    NotALoad {
        /// The tool.
        tool: &'static str,
        /// The part that asks for it.
        what: String,
        /// Alternative.
        instead: &'static str,
    },
    /// The tool would refuse this command line too.
    #[error("{tool}: {problem}")]
    Malformed {
        /// The tool.
        tool: &'static str,
        /// The problem and what was expected.
        problem: String,
    },
}

/// Names of the tools.
pub const TOOLS: [&str; 8] = ["sysbench", "pgbench", "memtier_benchmark", "wrk", "wrk2", "hey", "oha", "ab"];

/// Translates a command line.
///
/// - `line`: as typed into a shell: with quotes, continued lines, variables before the command, and other
///   commands such as `sudo` or `taskset` before the tool.
///
/// # Errors
///
/// [`LikeError`], if the text cannot be split, names no known tool, or asks for something that is not a load.
pub fn translate(line: &str) -> Result<Translation, LikeError> {
    let said = shell::read(line)?;
    let mut draft = draft::Draft::new(said.tool);
    for (part, text) in &said.left_out {
        draft.left_out(part, text);
    }
    for name in &said.unknown_variables {
        draft.missing(&format!("${name}"), "the value of this variable is unknown here: write it out");
    }
    match said.tool {
        "sysbench" => sysbench::translate(&said, &mut draft)?,
        "pgbench" => pgbench::translate(&said, &mut draft)?,
        "memtier_benchmark" => memtier::translate(&said, &mut draft)?,
        "hey" => web::hey(&said, &mut draft)?,
        "oha" => web::oha(&said, &mut draft)?,
        "ab" => web::ab(&said, &mut draft)?,
        _ => web::wrk(&said, &mut draft)?,
    }
    Ok(draft.into_translation())
}

/// Splits a line into words as a shell does, without running anything. Operators are words.
///
/// # Errors
///
/// [`LikeError::Unclosed`], [`LikeError::TooLong`].
pub fn split(line: &str) -> Result<Vec<String>, LikeError> {
    shell::split(line)
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
            Self::Plain(text) | Self::Target(text) | Self::Header(text) => shell::quoted(text),
            Self::File(path) => format!("\"$(cat {})\"", shell::quoted(&path.display().to_string())),
        }
    }

    /// The word in shell syntax, without secrets.
    fn shown(&self) -> String {
        match self {
            Self::Plain(text) => shell::quoted(&mask_text(text)),
            Self::Target(text) => shell::quoted(&mask_text(&Target::new(text.as_str()).masked())),
            Self::Header(text) => {
                let headers = vec![text.clone()];
                let masked = HttpSettings { headers, ..HttpSettings::plain() }.masked_headers();
                shell::quoted(&masked.concat())
            }
            Self::File(_) => self.typed(),
        }
    }
}

#[cfg(test)]
mod tests;
