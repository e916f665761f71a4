//! Metadata and results of one run.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::str::FromStr;

use ulid::Ulid;

use crate::clock::WallAnchor;
use crate::command::Recorded;
use crate::cpu::CpuInterval;
use crate::environment::Environment;
use crate::instruments::Instruments;
use crate::limits::{Throttled, not_watched};
use crate::load::LoadRecord;
use crate::missing::{Maybe, Missing};
use crate::proof::Proof;
use crate::resources::Resources;
use crate::series::{Sample, Thinned};
use crate::server_cpu::ServerCpu;
use crate::target::mask_text;
use crate::turns::Turns;
use crate::warm_up::WarmUp;

/// Permanent id of a run or a bake-off: 26 letters that sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(Ulid);

impl RunId {
    /// New id from the time of `anchor` and the system's randomness. This is the only use of unseeded
    /// randomness: a run's measurements follow from its seed, but two runs never share an id.
    pub fn fresh(anchor: WallAnchor) -> Self {
        let draw = || u128::from(RandomState::new().build_hasher().finish());
        Self::new(anchor, draw() << 64 | draw())
    }

    /// New id from the time of `anchor` in milliseconds and 80 random bits.
    pub fn new(anchor: WallAnchor, chance: u128) -> Self {
        Self(Ulid::from_parts(anchor.unix_ns / 1_000_000, chance))
    }

    /// Letters and digits of an id.
    pub const LENGTH: usize = 26;
    /// Minimum length of a short name. Ids of one hour begin alike; their ends are random.
    pub const SHORT_MIN: usize = 6;

    /// The last `length` letters and digits.
    pub fn short(self, length: usize) -> String {
        self.to_string().split_off(Self::LENGTH - length.min(Self::LENGTH))
    }

    /// Whether `text`, in upper case, is the beginning of the id, or a short name of it.
    pub fn is_named(self, text: &str) -> bool {
        let id = self.to_string();
        id.starts_with(text) || (text.len() >= Self::SHORT_MIN && id.ends_with(text))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Error for a text that is not a run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a run id: expected 26 letters and digits, as in `bakeoff runs list`")]
pub struct NotARunId {
    /// The text.
    pub found: String,
}

impl FromStr for RunId {
    type Err = NotARunId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ulid::from_string(text).map(Self).map_err(|_| NotARunId { found: text.to_owned() })
    }
}

/// Kind of work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunKind {
    /// A load on one target.
    Load,
    /// Comparison of configurations.
    Bakeoff,
    /// Instruments around a command.
    Record,
    /// Copies of a unit of work, at several numbers of copies.
    Scale,
    /// Reads at every buffer size.
    Dder,
    /// Measurements of workloads with known truths.
    Prove,
    /// Output of another tool.
    Import,
    /// Commands against each other, in rounds.
    Compare,
}

/// Progress and usability of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// In progress.
    Running,
    /// Complete, checked, and fit for comparison.
    Sealed,
    /// Complete, but not fit for comparison.
    Invalid,
    /// Could not be measured.
    Failed,
    /// Stopped by its user before the end.
    Interrupted,
    /// Started by a process that died before the end.
    Abandoned,
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Word in files and on paper.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Value of a word, the inverse of [`Self::word`].
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}
pub(crate) use words;

words!(RunKind {
    Load = "load",
    Bakeoff = "bakeoff",
    Record = "record",
    Scale = "scale",
    Dder = "dder",
    Prove = "prove",
    Import = "import",
    Compare = "compare",
});

words!(RunState {
    Running = "running",
    Sealed = "sealed",
    Invalid = "invalid",
    Failed = "failed",
    Interrupted = "interrupted",
    Abandoned = "abandoned",
});

/// Name, origin and state of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunHeader {
    /// Permanent id of the run.
    pub id: RunId,
    /// Kind of work.
    pub kind: RunKind,
    /// Final state.
    pub state: RunState,
    /// Reason that it is not sealed; `None` if it is.
    pub reason: Option<String>,
    /// Start, on both clocks.
    pub anchor: WallAnchor,
    /// One line for people.
    pub title: String,
    /// Labels from the user.
    pub labels: BTreeMap<String, String>,
    /// Bake-off of the run.
    pub bakeoff: Option<RunId>,
    /// Version of bakeoff that measured.
    pub tool_version: String,
    /// Command line, passwords masked.
    pub command: String,
}

impl RunHeader {
    /// Header of a run that begins at `anchor`: a new id, running, without labels, not part of a bake-off.
    ///
    /// - `title`: one line for people.
    /// - `command`: in the notation of [`command_line`].
    pub fn running(kind: RunKind, anchor: WallAnchor, title: String, command: String) -> Self {
        Self {
            id: RunId::fresh(anchor),
            kind,
            state: RunState::Running,
            reason: None,
            anchor,
            title,
            labels: BTreeMap::new(),
            bakeoff: None,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
        }
    }

    /// Header during the writing of the run, independent of the run's state.
    #[must_use]
    pub fn still_running(self) -> Self {
        Self { state: RunState::Running, reason: None, ..self }
    }

    /// Header of a complete run: INVALID if there is a reason not to use it, else sealed.
    #[must_use]
    pub fn ended(self, invalid: Option<String>) -> Self {
        let state = if invalid.is_some() { RunState::Invalid } else { RunState::Sealed };
        Self { state, reason: invalid, ..self }
    }

    /// Header of a run that its user stopped.
    #[must_use]
    pub fn interrupted(self) -> Self {
        Self { state: RunState::Interrupted, reason: Some("stopped by the user".to_owned()), ..self }
    }
}

/// Shell command line of these words; passwords that a single word reveals are masked.
///
/// Masks before it quotes, because quoting changes the quotes within a word. The caller masks a password that
/// the previous word announces.
pub fn command_line(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().map(|word| quoted(masked(&word))).collect::<Vec<_>>().join(" ")
}

fn masked(word: &str) -> String {
    let value = word.split_once('=').filter(|(name, _)| name.starts_with("--"));
    let masked =
        value.map_or_else(|| word.to_owned(), |(name, value)| format!("{name}={}", mask_text(value)));
    mask_text(&masked)
}

fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A run with all its measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Name, state and origin.
    pub header: RunHeader,
    /// Environment.
    pub environment: Environment,
    /// Load, if the run drove one.
    pub load: Option<LoadRecord>,
    /// CPUs by interval; empty if they were not watched.
    pub cpu: Vec<CpuInterval>,
    /// CPU time of the server under test over the measured phase of the load.
    pub server_cpu: Maybe<ServerCpu>,
    /// Other resources over the measured phase of the load.
    pub resources: Resources,
    /// The warm-up before the load, if it was judged.
    pub warm_up: Option<WarmUp>,
    /// Turns of the load, if it was measured in slices.
    pub turns: Option<Turns>,
    /// Intervals of the other instruments.
    pub instruments: Instruments,
    /// Other numbers over time.
    pub series: Vec<Sample>,
    /// Variant of [`Self::series`] for drawings, if those are too many to be read: see
    /// [`Self::unread_series`].
    pub thinned: Option<Thinned>,
    /// Measurements of known truths, if the run proved instruments.
    pub proofs: Vec<Proof>,
    /// Measurements around a command or a period, if the run did that.
    pub recorded: Option<Recorded>,
    /// Effects of a CPU quota during the measurement.
    pub throttled: Maybe<Throttled>,
}

impl Run {
    /// Run without measurements; callers add theirs.
    pub fn unmeasured(header: RunHeader, environment: Environment) -> Self {
        Self {
            header,
            environment,
            load: None,
            cpu: Vec::new(),
            server_cpu: ServerCpu::not_measured(),
            resources: Resources::new(),
            warm_up: None,
            turns: None,
            instruments: Instruments::default(),
            series: Vec::new(),
            thinned: None,
            proofs: Vec::new(),
            recorded: None,
            throttled: Err(not_watched()),
        }
    }

    /// Name of [`Self::series`] among the missing measurements.
    pub const SERIES: &str = "series";

    /// Reason that stored numbers over time were not read; `None` if all were read.
    pub fn unread_series(&self) -> Option<&Missing> {
        self.instruments.missing.get(Self::SERIES).filter(|_| self.series.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_names_sort_by_time_and_read_back() {
        let at = |s: u64| WallAnchor { monotonic_ns: 0, unix_ns: s * 1_000_000_000 };
        let (early, late) = (RunId::new(at(1_000), u128::MAX), RunId::new(at(1_001), 0));
        assert!(early < late);
        assert_eq!(early.to_string().parse(), Ok(early));
        assert_eq!(early.to_string().len(), 26);
    }

    #[test]
    fn names_made_at_the_same_moment_differ() {
        let now = WallAnchor { monotonic_ns: 0, unix_ns: 1 };
        assert_ne!(RunId::fresh(now), RunId::fresh(now));
    }

    #[test]
    fn every_word_reads_back() {
        for kind in RunKind::ALL {
            assert_eq!(RunKind::from_word(kind.word()), Some(*kind));
        }
        for state in RunState::ALL {
            assert_eq!(RunState::from_word(state.word()), Some(*state));
        }
    }

    #[test]
    fn a_word_with_quotes_loses_its_password_before_it_is_quoted() {
        let words =
            ["load", "--title=x IDENTIFIED BY 'S3CR3T'", "curl -u 'bob:a S3CR3T' h", "--token", "S3CR3T"];
        let line = mask_text(&command_line(words.map(str::to_owned)));
        assert!(!line.contains("S3CR3T") && line.matches("***").count() == 3, "{line}");
    }

    #[test]
    fn a_shell_reads_a_command_line_as_the_words_that_it_was() {
        let words =
            ["plain", "--rate=500/s", "", "A morning", "it's", "$(exit 3)", "a\nb", "*", "h/b?x&y", "~", "ü"];
        let line = command_line(words.map(str::to_owned));
        assert!(line.starts_with("plain --rate=500/s '' 'A morning' 'it'\\''s'"), "{line}");
        let script = format!("printf '%s\\0' {line}");
        let printed = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
        let read: Vec<_> = printed.split(|b| *b == 0).map(|w| str::from_utf8(w).unwrap()).collect();
        assert_eq!(read[..words.len()], words);
    }
}
