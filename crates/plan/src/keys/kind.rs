//! A key, what it holds, and what its absence means.

use std::time::Duration;

use record::load::settings::{self, Values};

pub(super) const WITHOUT_IT_NONE: Need = Need::Optional("none");
pub(super) const TEXT: Kind = Kind::Value(Values::Text);
pub(super) const TEXTS: Kind = Kind::Value(Values::Texts);
pub(super) const BOOL: Kind = Kind::Value(Values::Switch);
pub(super) const ANY_TIME: Kind = at_least(Duration::ZERO);

pub(super) const fn whole(min: u64, max: u64) -> Kind {
    Kind::Value(Values::Whole { min, max })
}

pub(super) const fn at_least(min: Duration) -> Kind {
    Kind::Value(Values::Duration { min })
}

pub(super) const fn form(expected: &'static str) -> Kind {
    Kind::Value(Values::Form(expected))
}

pub(super) const fn word(words: fn() -> Vec<&'static str>) -> Kind {
    Kind::Value(Values::Word(words))
}

pub(super) const RUN_RETRIES: Key =
    key("retries", whole(0, 100), Need::Default("0"), "2", "retries after a failure");

pub(super) const SERVER: Placeholders =
    Placeholders::WholePlot { because: "one server runs for the whole series" };

pub(super) const DATA: Placeholders =
    Placeholders::WholePlot { because: "the whole series uses one data set" };

/// One key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) need: Need,
    /// Whether `{factor}` may stand in it.
    pub(crate) placeholders: Placeholders,
    /// A value, as TOML.
    pub(crate) example: &'static str,
    pub(crate) meaning: &'static str,
}

/// Kind of value that a key holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// The same values as a setting of a load.
    Value(Values),
    /// One value of a factor: text, number or boolean.
    Scalar,
    /// A list of at least one of them.
    Levels,
    /// A table of levels of factors.
    Combination,
    /// A list of them.
    Combinations,
    /// A list of words, each at most once.
    Words(fn() -> Vec<&'static str>),
    /// A number strictly between two others.
    Between { above: f64, below: f64 },
    /// `rate`: the only key that takes text, number, list or table.
    Rate,
    /// Lists of numbers: one for each instance of the server, or a single one.
    Places {
        /// Name of the numbered things: CPUs, nodes.
        of: &'static str,
    },
    /// A table, or a word that stands for one.
    Table { or: &'static [&'static str] },
}

/// Treatment of a key that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// An error.
    Required,
    /// The value that a plan without the key has (TOML).
    Default(&'static str),
    /// The default of a setting of a load, as text.
    Setting {
        default: &'static str,
        /// Whether it is shown among the values of a plan that does not write it.
        is_listed: bool,
    },
    /// Optional, with this meaning.
    Optional(&'static str),
}

/// Whether the value may differ from trial to trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholders {
    /// Taken as written.
    None,
    /// `{factor}` of whole-plot factors, and `{scratch}` where it is text.
    WholePlot {
        /// The reason that a sub-plot factor will not do.
        because: &'static str,
    },
    /// `{factor}` of any factor, and `{scratch}` where it is text.
    Any,
}

impl Kind {
    /// Contents of the key, as a clause after "expected".
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Value(values) => values.expected(),
            Self::Scalar => "a string, a number, true or false".into(),
            Self::Levels => "a list of at least one string, number or boolean".into(),
            Self::Combination => "a table of levels such as { threads = [1, 2] }".into(),
            Self::Combinations => "a list of tables of levels such as [{ threads = [1, 2] }]".into(),
            Self::Words(words) => format!("a list of {}, each at most once", quoted(&words())),
            Self::Between { above, below } => format!("a number over {above} and under {below}"),
            Self::Rate => {
                let per_s = settings::RATE.values.expected();
                format!(
                    "\"max\", {per_s}, shares of the capacity such as [\"25%\", \"50%\"], or {{ slo = \"p99<10ms\" }}"
                )
            }
            Self::Places { of } => format!(
                "a list of {of} such as \"0\", \"0-3\" or \"0,2,8-11\" for each instance, or a single one that the \
                 instances share in equal parts"
            ),
            Self::Table { or: [] } => "a table".into(),
            Self::Table { or } => format!("a table or {}", quoted(or)),
        }
    }

    /// Whether a text is a value of this kind.
    pub(crate) fn takes(self, text: &str) -> bool {
        match self {
            Self::Value(values) => values.takes(text),
            Self::Words(words) => words().contains(&text),
            Self::Between { above, below } => text.parse::<f64>().is_ok_and(|x| above < x && x < below),
            Self::Scalar
            | Self::Levels
            | Self::Combination
            | Self::Combinations
            | Self::Rate
            | Self::Places { .. }
            | Self::Table { .. } => true,
        }
    }

    /// Whether TOML writes its values without quotes.
    pub(crate) fn is_bare(self) -> bool {
        matches!(self, Self::Value(Values::Whole { .. } | Values::Switch))
    }
}

impl Key {
    pub(super) const fn with(self, placeholders: Placeholders) -> Self {
        Self { placeholders, ..self }
    }

    /// The value of an absent key, as TOML; `None` if it has none.
    pub(crate) fn default_toml(&self) -> Option<String> {
        match self.need {
            Need::Required | Need::Optional(_) => None,
            Need::Default(toml) => Some(toml.to_owned()),
            Need::Setting { default, .. } if self.kind.is_bare() => Some(default.to_owned()),
            Need::Setting { default, .. } => Some(format!("\"{default}\"")),
        }
    }

    /// Whether its default is shown among the values of a plan that does not write it.
    pub(crate) fn is_listed(&self) -> bool {
        matches!(self.need, Need::Default(_) | Need::Setting { is_listed: true, .. })
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|w| format!("\"{w}\"")).collect::<Vec<_>>().join(", ")
}

pub(super) const fn key(
    name: &'static str,
    kind: Kind,
    need: Need,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, kind, need, placeholders: Placeholders::None, example, meaning }
}
