//! Options as settings of a load: their names, and their texts as values within the bounds of
//! [`record::load::settings`].

use std::fmt::Display;
use std::str::FromStr;

use record::load::rules::Violation;
use record::load::settings::{Setting, Values};
use record::nearest::did_you_mean;

/// The option of a setting: `--point-selects`.
pub(crate) fn option(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// The message for a broken rule, with the names of options.
pub(crate) fn refusal(violation: &Violation) -> String {
    format!("{} {}", option(violation.setting), violation.why(option))
}

/// Reads a whole number.
pub(crate) fn whole<T: FromStr + 'static>(
    setting: &'static Setting,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    word(setting, |text| text.parse().ok())
}

/// Reads one of the words of a setting, or a non-empty string.
pub(crate) fn word<T: 'static>(
    setting: &'static Setting,
    read: fn(&str) -> Option<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        read(text).filter(|_| setting.values.takes(text)).ok_or_else(|| {
            let meant = match setting.values {
                Values::Word(words) => did_you_mean(text, words().iter().copied()),
                _ => String::new(),
            };
            expected(setting) + &meant
        })
    }
}

/// Reads an amount.
pub(crate) fn amount<T: 'static, E: Display + 'static>(
    setting: &'static Setting,
    read: fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| match read(text) {
        Ok(value) if setting.values.takes(text) => Ok(value),
        Ok(_) => Err(expected(setting)),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a text, such as the path of a file.
pub(crate) fn text(
    setting: &'static Setting,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    word(setting, |text| Some(text.to_owned()))
}

/// The default of a switch, in the words of the command line.
pub(crate) fn default_of(setting: &Setting, on: &'static str, off: &'static str) -> &'static str {
    if setting.is_on() { on } else { off }
}

fn expected(setting: &Setting) -> String {
    format!("expected {}", setting.values.expected())
}
