//! JSON Schema of a plan, for editors, generated from the declarations that the reader uses.

use record::load::settings::Values;
use serde_json::{Map, Value, json};

use crate::keys::{Key, Kind, Need, Placeholders, TABLES, Table};

/// JSON Schema (draft 2020-12) of a plan.
///
/// It defines the keys and the content of each; only [`crate::read`] checks whether they are consistent.
pub fn json_schema() -> String {
    let mut schema = table_schema(&TABLES[0]);
    schema.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".into(), json!("A bake-off's plan"));
    for table in TABLES {
        if let Some(name) = table.path.strip_suffix(".*") {
            let each = json!({ "type": "object", "additionalProperties": table_schema(table) });
            insert(&mut schema, name, each, Need::Optional(""));
        } else if let Some(name) = table.path.strip_suffix("[]") {
            let each = json!({ "type": "array", "items": table_schema(table) });
            insert(&mut schema, name, each, Need::Optional(""));
        } else if !table.path.is_empty() && !table.path.contains('.') {
            insert(&mut schema, table.path, Value::Object(table_schema(table)), table.need);
        }
    }
    serde_json::to_string_pretty(&schema).expect("a JSON value can be written")
}

fn table_schema(table: &Table) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("description".into(), json!(table.meaning));
    schema.insert("type".into(), json!("object"));
    schema.insert("additionalProperties".into(), json!(false));
    for key in table.keys {
        insert(&mut schema, key.name, key_schema(table, key), key.need);
    }
    schema
}

fn insert(schema: &mut Map<String, Value>, name: &str, value: Value, need: Need) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    properties[name] = value;
    if need == Need::Required {
        let required = schema.entry("required").or_insert_with(|| json!([]));
        required.as_array_mut().expect("inserted as one").push(json!(name));
    }
}

fn key_schema(table: &Table, key: &Key) -> Value {
    let own = kind_schema(table, key);
    let template =
        key.placeholders != Placeholders::None && own["type"] != "string" && own["type"] != "object";
    let enumerated = key.placeholders != Placeholders::None && own.get("enum").is_some();
    let mut schema = if template || enumerated {
        json!({ "anyOf": [own, { "type": "string", "pattern": "\\{[^{}]+\\}" }] })
    } else {
        own
    };
    schema["description"] = json!(key.meaning);
    if let (Some(toml), true) = (key.default_toml(), key.is_listed()) {
        schema["default"] = as_json(&toml);
    }
    schema
}

fn kind_schema(table: &Table, key: &Key) -> Value {
    match key.kind {
        Kind::Value(values) => value_schema(values),
        Kind::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Levels => json!({
            "type": "array", "minItems": 1, "uniqueItems": true, "items": { "type": ["string", "number", "boolean"] }
        }),
        Kind::Combination => combination(),
        Kind::Combinations => json!({ "type": "array", "items": combination() }),
        Kind::Words(words) => json!({ "type": "array", "uniqueItems": true, "items": { "enum": words() } }),
        Kind::Between { above, below } => {
            json!({ "type": "number", "exclusiveMinimum": above, "exclusiveMaximum": below })
        }
        Kind::Rate => json!({ "type": ["string", "number", "array", "object"] }),
        Kind::Places { .. } => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
        Kind::Table { or } => table_kind(table, key, or),
    }
}

/// Levels of some factors, several of each.
fn combination() -> Value {
    let level = json!({ "type": ["string", "number", "boolean"] });
    json!({
        "type": "object",
        "minProperties": 1,
        "additionalProperties": { "anyOf": [level, { "type": "array", "minItems": 1, "items": level }] }
    })
}

fn value_schema(values: Values) -> Value {
    match values {
        Values::Text | Values::Form(_) | Values::Percent { .. } | Values::Bytes { .. } => {
            json!({ "type": "string", "minLength": 1 })
        }
        Values::AnyText => json!({ "type": "string" }),
        Values::Duration { .. } => {
            json!({ "type": "string", "pattern": "^(0|[0-9.]+ *(ns|us|µs|ms|s|m|min|h|d))$" })
        }
        Values::Rate { .. } => json!({ "type": ["string", "number"] }),
        Values::Texts | Values::Forms(..) => json!({ "type": "array", "items": { "type": "string" } }),
        Values::Word(words) => json!({ "type": "string", "enum": words() }),
        Values::Whole { min, max } if max >= i64::MAX.unsigned_abs() => {
            json!({ "type": "integer", "minimum": min })
        }
        Values::Whole { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Values::Switch => json!({ "type": "boolean" }),
    }
}

/// Schema of a key that holds a table: a declared table, or the environment, which accepts any names.
fn table_kind(table: &Table, key: &Key, or: &[&str]) -> Value {
    let path = format!("{}.{}", table.path, key.name);
    let object = match TABLES.iter().find(|t| t.path == path) {
        Some(declared) => Value::Object(table_schema(declared)),
        None => json!({
            "type": "object",
            "additionalProperties": {
                "anyOf": [{ "type": "string" }, { "type": "object", "additionalProperties": { "type": "string" } }]
            }
        }),
    };
    if or.is_empty() { object } else { json!({ "anyOf": [{ "enum": or }, object] }) }
}

/// Declared default, a scalar or a list of strings, which JSON reads like TOML.
fn as_json(toml: &str) -> Value {
    serde_json::from_str(toml).expect("declared defaults read the same in TOML and JSON")
}
