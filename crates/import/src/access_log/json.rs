//! Lines of JSON: an object with a time, and a method and a path or a whole request.
//!
//! Names are compared without case and punctuation. Besides nginx's variables (`request_method`,
//! `request_uri`, `msec`), the names of Caddy, Traefik, Envoy and the load balancers of Google are known. An
//! object in the line, such as Caddy's `request`, is searched too.

use serde_json::{Map, Value};

use super::reason::Reason;
use super::request::{Parts, split_request, status};
use super::time::{self, Stamp};

/// Names of a time, the more exact first.
const TIMES: &[&str] = &[
    "msec",
    "ts",
    "timestamp",
    "starttime",
    "startutc",
    "timeiso8601",
    "time",
    "datetime",
    "timelocal",
    "date",
    "start",
];
const METHODS: &[&str] = &["requestmethod", "method", "httpmethod", "verb"];
/// Names of a path, the one as the client sent it first.
const PATHS: &[&str] =
    &["requesturi", "requestpath", "requesturl", "originalpath", "uri", "url", "path", "target"];
const QUERIES: &[&str] = &["args", "querystring", "query"];
const STATUSES: &[&str] =
    &["status", "statuscode", "responsecode", "downstreamstatus", "responsestatus", "code"];

/// Parses a line; its path goes to `path`.
pub(super) fn read(line: &[u8], path: &mut Vec<u8>) -> Result<Parts, Reason> {
    let object: Map<String, Value> = serde_json::from_slice(line).map_err(|_| Reason::Unreadable)?;
    let stamp = TIMES.iter().find_map(|name| find(&object, &[name]).and_then(stamp)).ok_or(Reason::Time)?;
    let status = match find(&object, STATUSES) {
        Some(Value::Number(number)) => status(number.to_string().as_bytes()),
        Some(Value::String(text)) => status(text.as_bytes()),
        _ => None,
    };
    if let Some(Value::String(request)) = object.get("request") {
        let method = split_request(request.as_bytes(), path)?;
        return Ok((stamp, method, status));
    }
    let text = |names: &[&str]| find(&object, names).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (method, found) = text(METHODS).zip(text(PATHS)).ok_or(Reason::NoRequest)?;
    path.clear();
    path.extend_from_slice(found.as_bytes());
    if let Some(query) = text(QUERIES).filter(|query| !found.contains('?') && *query != "-") {
        path.push(b'?');
        path.extend_from_slice(query.trim_start_matches('?').as_bytes());
    }
    Ok((stamp, method.to_ascii_uppercase().into_bytes(), status))
}

/// Value of the first of these names, in the object or in one within it.
fn find<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|wanted| {
        let of = |object: &'a Map<String, Value>| {
            object
                .iter()
                .find(|(name, value)| is_named(name, wanted) && !value.is_object())
                .map(|(_, value)| value)
        };
        of(object).or_else(|| object.values().filter_map(Value::as_object).find_map(of))
    })
}

/// Whether a name is the wanted one, without case and punctuation.
fn is_named(name: &str, wanted: &str) -> bool {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| b.to_ascii_lowercase());
    letters.eq(wanted.bytes())
}

fn stamp(value: &Value) -> Option<Stamp> {
    match value {
        Value::Number(number) => time::unix(&number.to_string()),
        Value::String(text) => {
            time::iso(text.as_bytes()).or_else(|| time::clf(text.as_bytes())).or_else(|| time::unix(text))
        }
        _ => None,
    }
}
