//! A JSON object that records its missing values.

use record::missing::Maybe;
use serde_json::{Map, Value};

/// An object under construction.
#[derive(Debug, Default)]
pub(crate) struct Object {
    fields: Map<String, Value>,
    missing: Map<String, Value>,
}

impl Object {
    /// Adds a known value.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a value, or `null` with its reason in `missing`.
    ///
    /// A number that JSON cannot write (not a number, infinite) is missing too.
    pub(crate) fn maybe<T: Into<Value>>(mut self, name: &str, value: Maybe<T>) -> Self {
        let (value, reason) = match value.map(Into::into) {
            Ok(Value::Null) => (Value::Null, Some("not a finite number".to_owned())),
            Ok(value) => (value, None),
            Err(missing) => (Value::Null, Some(missing.reason)),
        };
        self.fields.insert(name.to_owned(), value);
        if let Some(reason) = reason {
            self.missing.insert(name.to_owned(), reason.into());
        }
        self
    }

    /// The object, with `missing` if any value is missing.
    pub(crate) fn finish(mut self) -> Value {
        if !self.missing.is_empty() {
            self.fields.insert("missing".to_owned(), Value::Object(self.missing));
        }
        Value::Object(self.fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::missing::Missing;

    #[test]
    fn what_is_missing_is_null_with_its_reason_and_never_zero() {
        let value = Object::default()
            .with("a", 1)
            .maybe("b", Err::<f64, _>(Missing::because("nobody looked")))
            .maybe("c", Ok(f64::NAN))
            .finish();
        assert_eq!(
            value.to_string(),
            r#"{"a":1,"b":null,"c":null,"missing":{"b":"nobody looked","c":"not a finite number"}}"#
        );
    }
}
