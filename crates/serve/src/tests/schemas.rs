//! A check of documents against their schemas in `openapi.json`: the part of JSON Schema that these use.

use serde_json::Value;

/// Words of a schema that say nothing about a document's form, or bounds that no answer is tested for.
const REMARKS: [&str; 7] =
    ["description", "format", "maxItems", "maxLength", "minimum", "maximum", "default"];

/// Reason that a document does not fit a schema; `None` if it does.
///
/// - `described`: the whole description, for references.
pub(super) fn misfit(described: &Value, schema: &Value, value: &Value) -> Option<String> {
    let rules = schema.as_object().unwrap_or_else(|| panic!("not a schema: {schema}"));
    rules.iter().find_map(|(word, rule)| match word.as_str() {
        "$ref" => misfit(described, resolved(described, rule), value),
        "type" => {
            let mut types = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice).iter();
            (!types.any(|of| is_of(of.as_str().unwrap(), value))).then(|| format!("{value} is not {rule}"))
        }
        "const" => (value != rule).then(|| format!("{value} is not {rule}")),
        "enum" => (!rule.as_array().unwrap().contains(value)).then(|| format!("{value} is not in {rule}")),
        "required" => {
            let absent = |name: &&Value| value.is_object() && value.get(name.as_str().unwrap()).is_none();
            rule.as_array().unwrap().iter().find(absent).map(|name| format!("{name} is absent: {value}"))
        }
        "items" => in_parts(value.as_array().into_iter().flatten(), |part| misfit(described, rule, part)),
        "properties" => in_parts(fields(value), |(name, part)| {
            rule.get(name).and_then(|rule| misfit(described, rule, part)).map(|why| format!("{name}: {why}"))
        }),
        "additionalProperties" => in_parts(fields(value), |(name, part)| match rule {
            _ if schema["properties"].get(name).is_some() => None,
            Value::Bool(false) => Some(format!("{name} is unknown")),
            rule => misfit(described, rule, part).map(|why| format!("{name}: {why}")),
        }),
        word => (!REMARKS.contains(&word)).then(|| panic!("`{word}` is not checked: {schema}")),
    })
}

/// The part of the description that a reference names.
pub(super) fn resolved<'a>(described: &'a Value, reference: &Value) -> &'a Value {
    let place = reference.as_str().unwrap().strip_prefix('#').unwrap();
    described.pointer(place).unwrap_or_else(|| panic!("{place} is nowhere"))
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn in_parts<T>(parts: impl Iterator<Item = T>, look: impl FnMut(T) -> Option<String>) -> Option<String> {
    let (mut parts, mut look) = (parts, look);
    parts.find_map(&mut look)
}

fn is_of(of: &str, value: &Value) -> bool {
    match of {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("`{other}` is not a type"),
    }
}

#[test]
fn a_document_that_does_not_fit_is_found() {
    use serde_json::json;
    let described = json!({"components": {"schemas": {"Id": {"type": "string"}}}});
    let schema = json!({
        "type": "object", "required": ["id", "all"], "additionalProperties": false,
        "properties": {
            "id": {"$ref": "#/components/schemas/Id"},
            "all": {"type": ["array", "null"], "items": {"type": "number"}},
            "word": {"enum": ["a", null]},
        },
    });
    let fits = |value: Value| misfit(&described, &schema, &value).is_none();
    for right in [json!({"id": "x", "all": [1, 2.5]}), json!({"id": "x", "all": null, "word": null})] {
        assert!(fits(right.clone()), "{right}");
    }
    for wrong in [
        json!([]),
        json!({"id": "x"}),
        json!({"id": 7, "all": []}),
        json!({"id": "x", "all": [null]}),
        json!({"id": "x", "all": [], "word": "b"}),
        json!({"id": "x", "all": [], "more": 1}),
    ] {
        assert!(!fits(wrong.clone()), "{wrong}");
    }
}
