//! Values of a plan: as text, in messages, and parsed.

use std::time::Duration;

use record::load::settings::Values;
use record::quantity;
use record::target::mask_text;
use toml::de::DeValue;

use crate::keys::Kind;

/// Text of a value if its TOML type fits the kind.
pub(crate) fn text_for(kind: Kind, value: &DeValue<'_>) -> Option<String> {
    let fits = match kind {
        Kind::Value(values) => match values {
            Values::Whole { .. } => value.is_integer(),
            Values::Switch => value.is_bool(),
            Values::Duration { .. } => value.is_str() || scalar(value).as_deref() == Some("0"),
            Values::Rate { .. } => value.is_str() || value.is_integer() || value.is_float(),
            Values::Percent { .. }
            | Values::Bytes { .. }
            | Values::Word(_)
            | Values::Text
            | Values::AnyText
            | Values::Form(_) => value.is_str(),
            Values::Texts | Values::Forms(..) => false,
        },
        Kind::Words(_) | Kind::Places { .. } => value.is_str(),
        Kind::Between { .. } => value.is_integer() || value.is_float(),
        Kind::Rate => value.is_str() || value.is_integer() || value.is_float(),
        Kind::Scalar => true,
        Kind::Levels | Kind::Combination | Kind::Combinations | Kind::Table { .. } => false,
    };
    if fits { scalar(value) } else { None }
}

/// Text, number or boolean as text; numbers in TOML's decimal notation.
pub(crate) fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n.to_string()),
        DeValue::Float(x) => Some(x.as_str().to_owned()),
        DeValue::Boolean(b) => Some(b.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Value for a message.
pub(crate) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Datetime(date) => date.to_string(),
        DeValue::Array(items) => {
            format!("[{}]", items.iter().map(|i| shown(i.get_ref())).collect::<Vec<_>>().join(", "))
        }
        DeValue::Table(table) => {
            let pairs: Vec<_> =
                table.iter().map(|(k, v)| format!("{} = {}", k.get_ref(), shown(v.get_ref()))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.as_str().to_owned(),
        DeValue::Boolean(b) => b.to_string(),
    }
}

/// Masks the passwords in a value, for printing.
pub(crate) fn masked(key: &str, value: &str) -> String {
    let assignment = format!("{key} = ");
    let line = mask_text(&format!("{assignment}{value}"));
    line.strip_prefix(&assignment).unwrap_or(&line).to_owned()
}

pub(crate) fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for all readers of values")]
pub(crate) fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub(crate) fn whole<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

pub(crate) fn percent(text: &str) -> Option<f64> {
    quantity::ratio(text).ok()
}

pub(crate) fn duration(text: &str) -> Option<Duration> {
    quantity::duration(text).ok()
}

pub(crate) fn bytes(text: &str) -> Option<u64> {
    quantity::bytes(text).ok()
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    text.parse().ok()
}
