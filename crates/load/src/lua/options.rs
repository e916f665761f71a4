//! The options of a script: those that it declares, and those that every script has.

use std::fmt::Write as _;

use crate::lua::context::Ignored;
use crate::lua::laws::{Law, Laws};

/// Type of an option, as scripts number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `on` or `off`.
    Switch,
    /// A whole number.
    Whole,
    /// A number of bytes with an optional suffix.
    Size,
    /// A number.
    Number,
    /// Any text.
    Text,
    /// Texts, separated by commas.
    List,
}

/// An option that a script declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Name, as the script writes it.
    pub name: String,
    /// Description.
    pub text: String,
    /// Type of the value.
    pub kind: Kind,
    /// Default, as text.
    pub default: Option<String>,
}

/// Value of an option, as a script reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OptionValue {
    Switch(bool),
    Number(f64),
    Text(String),
    List(Vec<String>),
}

impl Kind {
    pub(crate) fn of_number(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Switch),
            2 => Some(Self::Whole),
            3 => Some(Self::Size),
            4 => Some(Self::Number),
            5 => Some(Self::Text),
            6 => Some(Self::List),
            _ => None,
        }
    }

    /// The form of a value, for help.
    pub fn form(self) -> &'static str {
        match self {
            Self::Switch => "on|off",
            Self::Whole | Self::Number => "N",
            Self::Size => "SIZE",
            Self::Text => "TEXT",
            Self::List => "A,B,...",
        }
    }

    fn value(self, text: &str) -> Option<OptionValue> {
        Some(match self {
            Self::Switch => OptionValue::Switch(match text {
                "on" | "true" | "1" | "yes" => true,
                "off" | "false" | "0" | "no" => false,
                _ => return None,
            }),
            Self::Whole => OptionValue::Number(text.parse::<i64>().ok()? as f64),
            Self::Number => OptionValue::Number(text.parse().ok().filter(|x: &f64| x.is_finite())?),
            Self::Size => OptionValue::Number(size(text)?),
            Self::Text => OptionValue::Text(text.to_owned()),
            Self::List => {
                let parts = text.split(',').filter(|part| !part.is_empty());
                OptionValue::List(parts.map(str::to_owned).collect())
            }
        })
    }

    /// Value of an option that was not given and has no default.
    fn absent(self) -> OptionValue {
        match self {
            // So it is in sysbench.
            Self::Switch => OptionValue::Switch(true),
            Self::Whole | Self::Number | Self::Size => OptionValue::Number(0.0),
            Self::Text => OptionValue::Text(String::new()),
            Self::List => OptionValue::List(Vec::new()),
        }
    }
}

fn size(text: &str) -> Option<f64> {
    let (number, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    number.parse::<u32>().ok().map(|n| f64::from(n) * (1u64 << shift) as f64)
}

impl Declared {
    /// Whether a name on the command line means this option: underscores and dashes are the same.
    pub fn is_named(&self, name: &str) -> bool {
        same_name(&self.name, name)
    }

    /// Checks a value; an error says what is expected.
    ///
    /// # Errors
    ///
    /// The value does not have the option's type.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let problem = || {
            let name = self.name.replace('_', "-");
            let form = if self.has_errors() { "numbers of MySQL errors, or `all`" } else { self.kind.form() };
            format!("invalid value '{value}' for '--{name}': expected {form}")
        };
        let is_good = match self.kind.value(value) {
            Some(OptionValue::List(list)) => !self.has_errors() || Ignored::of(&list).is_some(),
            found => found.is_some(),
        };
        if is_good { Ok(()) } else { Err(problem()) }
    }

    /// Whether its values are errors that an event ignores.
    fn has_errors(&self) -> bool {
        self.kind == Kind::List && self.is_named(IGNORED_ERRORS)
    }

    /// A line of help.
    pub fn help(&self) -> String {
        let mut line = format!("--{}", self.name.replace('_', "-"));
        // Writing into memory does not fail.
        let _ = match self.kind {
            Kind::Switch => write!(line, "[=on|off]"),
            kind => write!(line, " <{}>", kind.form()),
        };
        let default = self.default.as_ref().map(|default| format!(" [default: {default}]"));
        format!("  {line}\n          {}{}", self.text, default.unwrap_or_default())
    }
}

/// The option that names the errors after which an event begins again.
const IGNORED_ERRORS: &str = "mysql-ignore-errors";

fn same_name(a: &str, b: &str) -> bool {
    let plain = |c: char| if c == '-' { '_' } else { c };
    a.chars().map(plain).eq(b.chars().map(plain))
}

/// Options of sysbench that every script has, with their defaults.
pub(crate) fn usual() -> Vec<Declared> {
    let option = |name: &str, kind, default: &str, text: &str| Declared {
        name: name.to_owned(),
        text: text.to_owned(),
        kind,
        default: Some(default.to_owned()),
    };
    let laws = Laws::USUAL;
    vec![
        option(
            "rand-type",
            Kind::Text,
            "special",
            "Distribution of sysbench.rand.default: uniform, gaussian, special, pareto or zipfian",
        ),
        option(
            "rand-spec-iter",
            Kind::Whole,
            &laws.iterations.to_string(),
            "Uniform numbers averaged for one Gaussian number",
        ),
        option(
            "rand-spec-pct",
            Kind::Whole,
            &laws.special_pct.to_string(),
            "Percentage of the values that are special",
        ),
        option(
            "rand-spec-res",
            Kind::Whole,
            &laws.special_draws_pct.to_string(),
            "Percentage of the draws that yield special values",
        ),
        option(
            "rand-pareto-h",
            Kind::Number,
            &laws.pareto_h.to_string(),
            "Shape parameter of the Pareto distribution",
        ),
        option(
            "rand-zipfian-exp",
            Kind::Number,
            &laws.zipfian_exponent.to_string(),
            "Exponent of the Zipfian distribution",
        ),
        option(
            IGNORED_ERRORS,
            Kind::List,
            "1213,1020,1205",
            "MySQL errors after which an event restarts, or \"all\"; without effect on PostgreSQL",
        ),
        option("percentile", Kind::Whole, "95", "Latency percentile that the report hooks receive"),
        option(
            "db-ps-mode",
            Kind::Text,
            "auto",
            "Prepared statements: auto, or disable (the same as --prepared no)",
        ),
        option("verbosity", Kind::Whole, "3", "Some scripts read it; it has no other effect"),
        option("db-debug", Kind::Switch, "off", "Some scripts read it; it has no other effect"),
    ]
}

/// The values of options, by the names that scripts use: with underscores.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OptionValues(pub(crate) Vec<(String, OptionValue)>);

impl OptionValues {
    /// Values of the declared options: those that were given, else their defaults.
    ///
    /// - `given`: name and value.
    pub(crate) fn of(declared: &[Declared], given: &[(String, String)]) -> Result<Self, String> {
        let mut values = Vec::new();
        for option in declared {
            let text = given.iter().rev().find(|(name, _)| option.is_named(name)).map(|(_, value)| value);
            let value = match text.or(option.default.as_ref()) {
                Some(text) => {
                    option.check(text)?;
                    option.kind.value(text).expect("a checked value")
                }
                None => option.kind.absent(),
            };
            values.push((option.name.replace('-', "_"), value));
        }
        Ok(Self(values))
    }

    pub(crate) fn push(&mut self, name: &str, value: OptionValue) {
        if !self.0.iter().any(|(other, _)| other == name) {
            self.0.push((name.to_owned(), value));
        }
    }

    /// Tells the script whether statements are prepared.
    pub(crate) fn set_prepared(&mut self, is_prepared: bool) -> Result<(), String> {
        let Some((_, value)) = self.0.iter_mut().find(|(name, _)| name == "db_ps_mode") else {
            return Ok(());
        };
        match value {
            OptionValue::Text(text) if !matches!(text.as_str(), "auto" | "disable") => {
                return Err(format!("invalid value '{text}' for '--db-ps-mode': expected auto or disable"));
            }
            _ => *value = OptionValue::Text(if is_prepared { "auto" } else { "disable" }.to_owned()),
        }
        Ok(())
    }

    pub(crate) fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(OptionValue::Number(number)) => *number,
            _ => 0.0,
        }
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(OptionValue::Text(text)) => text,
            _ => "",
        }
    }

    fn get(&self, name: &str) -> Option<&OptionValue> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// The laws of random numbers.
    pub(crate) fn laws(&self) -> Result<Laws, String> {
        let name = self.text("rand_type");
        let default = Law::named(name).ok_or_else(|| {
            format!("invalid value '{name}' for '--rand-type': expected one of {}", Law::NAMES.join(", "))
        })?;
        let percent = |name: &str, most: f64| {
            let value = self.number(name);
            let is_good = (0.0..=most).contains(&value);
            let option = name.replace('_', "-");
            if is_good { Ok(value) } else { Err(format!("--{option} is {value}: expected 0 to {most}")) }
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        let whole = |x: f64| x as u32;
        let pareto_h = self.number("rand_pareto_h");
        if !(pareto_h > 0.0 && pareto_h < 1.0) {
            return Err(format!("--rand-pareto-h is {pareto_h}: expected a number between 0 and 1"));
        }
        let zipfian_exponent = self.number("rand_zipfian_exp");
        if zipfian_exponent < 0.0 {
            return Err(format!("--rand-zipfian-exp is {zipfian_exponent}: expected a number of at least 0"));
        }
        Ok(Laws {
            default,
            iterations: whole(percent("rand_spec_iter", 1_000.0)?.max(1.0)),
            special_pct: whole(percent("rand_spec_pct", 100.0)?),
            special_draws_pct: whole(percent("rand_spec_res", 99.0)?),
            pareto_h,
            zipfian_exponent,
        })
    }

    /// Percentile of the latency that report hooks get.
    pub(crate) fn percentile(&self) -> Result<f64, String> {
        let percentile = self.number("percentile");
        if (0.0..=100.0).contains(&percentile) {
            Ok(percentile)
        } else {
            Err(format!("--percentile is {percentile}: expected 0 to 100"))
        }
    }

    /// Errors of MySQL that a script ignores.
    ///
    /// - `driver`: the server's; another one than MySQL has no error of these numbers.
    pub(crate) fn ignored(&self, driver: &str) -> Ignored {
        let found = match self.get("mysql_ignore_errors") {
            Some(OptionValue::List(list)) if driver == "mysql" => Ignored::of(list),
            _ => None,
        };
        found.unwrap_or(Ignored::Numbers(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, kind: Kind, default: Option<&str>) -> Declared {
        Declared { name: name.to_owned(), text: "x".to_owned(), kind, default: default.map(str::to_owned) }
    }

    #[test]
    fn values_have_the_type_of_their_option() {
        let options = [
            declared("table_size", Kind::Number, Some("10000")),
            declared("skip-trx", Kind::Switch, Some("off")),
            declared("names", Kind::List, Some("a,b")),
            declared("engine", Kind::Text, None),
            declared("room", Kind::Size, Some("2K")),
        ];
        let given = [("table-size".to_owned(), "5".to_owned()), ("skip_trx".to_owned(), "on".to_owned())];
        let OptionValues(values) = OptionValues::of(&options, &given).unwrap();
        let list = OptionValue::List(vec!["a".to_owned(), "b".to_owned()]);
        let expected = [
            ("table_size", OptionValue::Number(5.0)),
            ("skip_trx", OptionValue::Switch(true)),
            ("names", list),
            ("engine", OptionValue::Text(String::new())),
            ("room", OptionValue::Number(2048.0)),
        ];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)));
        for (name, wrong) in [("table-size", "five"), ("table-size", "nan"), ("skip-trx", "5"), ("room", "K")]
        {
            let problem = OptionValues::of(&options, &[(name.to_owned(), wrong.to_owned())]).unwrap_err();
            assert!(problem.contains(wrong) && problem.contains("--"), "{problem}");
        }
    }

    #[test]
    fn laws_have_bounds() {
        let of = |name: &str, value: &str| {
            let given = [(name.to_owned(), value.to_owned())];
            OptionValues::of(&usual(), &given).unwrap().laws()
        };
        assert_eq!(of("rand-type", "special"), Ok(Laws::USUAL));
        assert_eq!(of("rand-type", "uniform").unwrap().default, Law::Uniform);
        for (name, value) in
            [("rand-type", "x"), ("rand-pareto-h", "1"), ("rand-zipfian-exp", "-1"), ("rand-spec-res", "100")]
        {
            assert!(of(name, value).is_err(), "{name} {value}");
        }
        let percentile = |text: &str| {
            let given = [("percentile".to_owned(), text.to_owned())];
            OptionValues::of(&usual(), &given).unwrap().percentile()
        };
        assert_eq!((percentile("99"), percentile("0")), (Ok(99.0), Ok(0.0)));
        assert!(percentile("101").is_err() && percentile("-1").is_err());
        let given = [("mysql_ignore_errors".to_owned(), "1213, 1062".to_owned())];
        let values = OptionValues::of(&usual(), &given).unwrap();
        assert_eq!(values.ignored("mysql"), Ignored::Numbers(vec![1213, 1062]));
    }

    #[test]
    fn errors_that_an_event_ignores_are_numbers_and_of_mysql() {
        let of =
            |value: &str| OptionValues::of(&usual(), &[("mysql_ignore_errors".to_owned(), value.to_owned())]);
        for wrong in ["1213;1062", "1213,deadlock", "ALL", "-1", "0", "1213 1062", "99999999999"] {
            let problem = of(wrong).unwrap_err();
            assert!(problem.contains(wrong) && problem.contains("--mysql-ignore-errors"), "{problem}");
        }
        for (good, ignored) in
            [("all", Ignored::All), ("1062,all", Ignored::All), ("", Ignored::Numbers(Vec::new()))]
        {
            let values = of(good).unwrap();
            assert_eq!(values.ignored("mysql"), ignored, "{good}");
            // An error of PostgreSQL has no number.
            assert_eq!(values.ignored("pgsql"), Ignored::Numbers(Vec::new()), "{good}");
        }
    }

    #[test]
    fn an_empty_element_of_a_list_is_none() {
        for (text, expected) in [("", &[][..]), (",", &[]), ("a,,b,", &["a", "b"]), (" ,c", &[" ", "c"])] {
            let list = OptionValue::List(expected.iter().map(|&part| part.to_owned()).collect());
            assert_eq!(Kind::List.value(text), Some(list), "{text:?}");
        }
    }
}
