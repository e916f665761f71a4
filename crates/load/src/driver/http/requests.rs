//! A file of requests: a load sends each of them by its weight.
//!
//! ```toml
//! [[request]]
//! name = "front page"
//! path = "/"
//! weight = 9
//!
//! [[request]]
//! method = "POST"
//! path = "/orders"
//! headers = ["Content-Type: application/json"]
//! body = '{"item":1}'
//! status = 201
//! answer = "created"
//! ```

use std::io::Write as _;

use record::replay::Method;
use record::requests::HttpSettings;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::authority::Authority;
use super::checksum::Checksum;
use super::written::Written;
use crate::workload::values::{Data, Part, Template, around, is_template};

/// A request, encoded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    /// Name of the request in records.
    pub(super) name: String,
    pub(super) weight: f64,
    pub(super) bytes: Vec<u8>,
    /// Whether the request may be sent again, although the server may have executed it.
    pub(super) may_repeat: bool,
    /// Whether the request asks the server to close the connection: no other may follow on it.
    pub(super) closes: bool,
    pub(super) has_answer_body: bool,
    pub(super) expected_status: Option<u16>,
    /// Checksum of the whole body; `None` if it is not checked.
    pub(super) body_checksum: Option<u64>,
    /// Templates of the request, if it has values that differ from event to event.
    pub(super) written: Option<Written>,
}

/// The request of an event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// Index of the request.
    pub(super) request: usize,
    /// Status in the log that is replayed.
    pub(super) logged_status: Option<u16>,
}

impl Request {
    /// The request, with its templates parsed if it has values that differ from event to event.
    pub(super) fn with_values(self, data: Option<&Data>) -> Result<Self, String> {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        if !is_template(&text) {
            return Ok(self);
        }
        let (head, body) = text.split_at(self.head_bytes());
        let (line, headers) = head.split_at(head.find("\r\n").expect("a head has lines"));
        let body = &body[2..];
        let length = format!("Content-Length: {}\r\n", body.len());
        let (headers, has_length) = match headers.strip_suffix(&length) {
            Some(headers) => (headers, true),
            None => (headers, false),
        };
        let named = |problem: String| format!("{}: {problem}", self.name);
        let written = Written {
            line: Template::read(line, Part::Path, data).map_err(named)?,
            headers: Template::read(headers, Part::Header, data).map_err(named)?,
            body: Template::read(body, Part::Body, data).map_err(named)?,
            has_length,
        };
        Ok(Self { written: Some(written), ..self })
    }

    /// The encoded request, without the values that differ from event to event.
    pub(super) fn example(&self) -> Vec<u8> {
        match &self.written {
            None => self.bytes.clone(),
            Some(_) => around(&String::from_utf8_lossy(&self.bytes)).into_bytes(),
        }
    }

    /// Position at which another header may be inserted.
    pub(super) fn head_bytes(&self) -> usize {
        let end = self.bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a request has a head");
        end + 2
    }

    pub(super) fn has_cookie(&self) -> bool {
        self.has_header("cookie")
    }

    /// Whether the request has a header that authenticates the user.
    pub(super) fn has_secret(&self) -> bool {
        ["authorization", "proxy-authorization", "cookie", "x-api-key"]
            .iter()
            .any(|name| self.has_header(name))
    }

    /// - `name`: in lower case.
    fn has_header(&self, name: &str) -> bool {
        let head = String::from_utf8_lossy(&self.bytes[..self.head_bytes()]).to_ascii_lowercase();
        head.lines().any(|line| line.split_once(':').is_some_and(|(header, _)| header.trim_end() == name))
    }

    /// A single request, from the command line.
    pub(super) fn of(authority: &Authority<'_>, path: &str, http: &HttpSettings) -> Self {
        let headers = http.headers.iter().map(String::as_str);
        Self {
            name: "request".to_owned(),
            weight: 1.0,
            may_repeat: may_repeat(&http.method, headers.clone()),
            closes: closes(headers.clone()),
            bytes: bytes_of(&http.method, authority, path, headers, &http.body),
            has_answer_body: http.method != "HEAD",
            expected_status: http.expected_status,
            body_checksum: None,
            written: None,
        }
    }
}

impl Request {
    /// The request of a method in a log that is replayed, for the path `/`.
    pub(super) fn of_method(authority: &Authority<'_>, http: &HttpSettings, method: Method) -> Self {
        let http = HttpSettings { method: method.name().to_owned(), body: String::new(), ..http.clone() };
        Self { name: method.name().to_ascii_lowercase(), ..Self::of(authority, "/", &http) }
    }
}

/// The valid keys of a request.
const KEYS: &str = "name, method, path, headers, body, status, answer, weight";

/// Reads the requests of a file; the error names the file, the line and the expected text.
pub(super) fn read_file(
    file: &str,
    authority: &Authority<'_>,
    verifies: bool,
) -> Result<Vec<Request>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {file}: {e}"))?;
    read(&text, authority, verifies).map_err(|Wrong { at, text: problem }| {
        let line = 1 + text[..at.min(text.len())].matches('\n').count();
        format!("{file}:{line}: {problem}")
    })
}

/// An error in a file, and its byte offset.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    at: usize,
    text: String,
}

type Value<'a> = Spanned<DeValue<'a>>;

fn wrong(value: &Value<'_>, text: impl Into<String>) -> Wrong {
    Wrong { at: value.span().start, text: text.into() }
}

fn read(text: &str, authority: &Authority<'_>, verifies: bool) -> Result<Vec<Request>, Wrong> {
    let root = DeTable::parse(text)
        .map_err(|e| Wrong { at: e.span().map_or(0, |span| span.start), text: e.message().to_owned() })?;
    let mut requests = Vec::new();
    for (key, value) in root.get_ref() {
        if key.get_ref() != "request" {
            let text = format!("unknown key `{}`: expected [[request]] tables", key.get_ref());
            return Err(Wrong { at: key.span().start, text });
        }
        let tables = value
            .get_ref()
            .as_array()
            .ok_or_else(|| wrong(value, "write [[request]], in double brackets"))?;
        for table in tables {
            requests.push(request(table, authority, verifies, requests.len() + 1)?);
        }
    }
    for (number, request) in requests.iter().enumerate() {
        if requests[..number].iter().any(|earlier| earlier.name == request.name) {
            return Err(Wrong { at: 0, text: format!("two requests have the name `{}`", request.name) });
        }
    }
    if requests.is_empty() {
        return Err(Wrong { at: 0, text: "the file contains no [[request]]".to_owned() });
    }
    Ok(requests)
}

fn request(
    table: &Value<'_>,
    authority: &Authority<'_>,
    verifies: bool,
    number: usize,
) -> Result<Request, Wrong> {
    let fields = table.get_ref().as_table().ok_or_else(|| wrong(table, "expected a table"))?;
    let (mut name, mut method, mut path) = (format!("request-{number}"), "GET".to_owned(), None);
    let (mut headers, mut body, mut status, mut answer, mut weight) =
        (Vec::new(), String::new(), None, None, 1.0);
    for (key, value) in fields {
        match key.get_ref().as_ref() {
            "name" => name = word(value)?,
            "method" => method = word(value)?.to_ascii_uppercase(),
            "path" => path = Some(path_of(value)?),
            "headers" => headers = list(value)?,
            "body" => string(value)?.clone_into(&mut body),
            "status" => status = Some(status_of(value)?),
            "answer" => answer = Some(string(value)?),
            "weight" => weight = number_of(value)?,
            other => {
                let text = format!("unknown key `{other}`: expected one of {KEYS}");
                return Err(Wrong { at: key.span().start, text });
            }
        }
    }
    let path = path.ok_or_else(|| wrong(table, "a request needs a path, such as path = \"/\""))?;
    let checksum = |text: &str| {
        let mut sum = Checksum::default();
        sum.add(text.as_bytes());
        sum.value()
    };
    let headers = headers.iter().map(String::as_str);
    Ok(Request {
        name,
        weight,
        may_repeat: may_repeat(&method, headers.clone()),
        closes: closes(headers.clone()),
        bytes: bytes_of(&method, authority, &path, headers, &body),
        has_answer_body: method != "HEAD",
        expected_status: status,
        body_checksum: answer.filter(|_| verifies).map(checksum),
        written: None,
    })
}

fn string<'v>(value: &'v Value<'_>) -> Result<&'v str, Wrong> {
    value.get_ref().as_str().ok_or_else(|| wrong(value, "expected a quoted string"))
}

/// A name: it is written to files in which blanks and commas are separators.
fn word(value: &Value<'_>) -> Result<String, Wrong> {
    let text = string(value)?;
    let is_word = !text.is_empty() && !text.contains([',', '\r', '\n', '\0']);
    if is_word { Ok(text.replace(' ', "-")) } else { Err(wrong(value, "expected a word, without commas")) }
}

fn path_of(value: &Value<'_>) -> Result<String, Wrong> {
    let text = string(value)?;
    let is_path =
        text.starts_with('/') && crate::workload::values::around(text).bytes().all(|b| b > b' ' && b != 0x7f);
    if is_path {
        Ok(text.to_owned())
    } else {
        Err(wrong(value, "expected a path that begins with /, without spaces and control characters"))
    }
}

fn list(value: &Value<'_>) -> Result<Vec<String>, Wrong> {
    let expected = || wrong(value, "expected a list of headers, such as [\"Accept: text/html\"]");
    let all = value.get_ref().as_array().ok_or_else(expected)?;
    let header = |value: &Value<'_>| {
        let text = string(value)?;
        let is_header = text.contains(':') && !text.contains(['\r', '\n']);
        if is_header { Ok(text.to_owned()) } else { Err(wrong(value, "expected `Name: value`")) }
    };
    all.iter().map(header).collect()
}

fn status_of(value: &Value<'_>) -> Result<u16, Wrong> {
    let status = value.get_ref().as_integer().and_then(|n| n.as_str().parse().ok());
    status.filter(|s| (200..600).contains(s)).ok_or_else(|| wrong(value, "expected a status from 200 to 599"))
}

fn number_of(value: &Value<'_>) -> Result<f64, Wrong> {
    let text = match value.get_ref() {
        DeValue::Integer(n) => n.as_str(),
        DeValue::Float(n) => n.as_str(),
        _ => "",
    };
    let weight = text.parse().ok().filter(|w: &f64| w.is_finite() && *w > 0.0);
    weight.ok_or_else(|| wrong(value, "expected a weight over 0"))
}

/// Whether a request may be sent again when its answer is lost: its method is idempotent, or an idempotency
/// key identifies it to the server.
///
/// # Source
///
/// RFC 9110, HTTP semantics, section 9.2.2; draft-ietf-httpapi-idempotency-key-header.
pub(super) fn may_repeat<'a>(method: &str, mut headers: impl Iterator<Item = &'a str>) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
        || headers.any(|header| {
            let name = header.split(':').next().unwrap_or_default().trim();
            name.eq_ignore_ascii_case("idempotency-key")
        })
}

/// Whether a request has `Connection: close`.
///
/// # Source
///
/// RFC 9112, HTTP/1.1, section 9.6: the client must not send another request on that connection.
fn closes<'a>(mut headers: impl Iterator<Item = &'a str>) -> bool {
    headers.any(|header| {
        let (name, value) = header.split_once(':').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("connection") && is_close(value.as_bytes())
    })
}

/// Whether `close` is among the options of a `Connection` header.
pub(super) fn is_close(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Encodes a request; required headers that are not set are added.
pub(super) fn bytes_of<'a>(
    method: &str,
    authority: &Authority<'_>,
    path: &str,
    headers: impl Iterator<Item = &'a str>,
    body: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    // A write into memory cannot fail.
    let _ = write!(out, "{method} {path} HTTP/1.1\r\n");
    let mut has_host = false;
    let (mut has_length, mut has_proof) = (false, false);
    for header in headers {
        let name = header.split(':').next().unwrap_or_default().trim();
        has_host |= name.eq_ignore_ascii_case("host");
        has_length |= name.eq_ignore_ascii_case("content-length");
        has_proof |= name.eq_ignore_ascii_case("authorization");
        let _ = write!(out, "{}\r\n", header.trim());
    }
    if !has_host {
        let _ = write!(out, "Host: {}\r\n", authority.host);
    }
    if let (Some(basic), false) = (&authority.basic, has_proof) {
        let _ = write!(out, "Authorization: {basic}\r\n");
    }
    if !has_length && (!body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH")) {
        let _ = write!(out, "Content-Length: {}\r\n", body.len());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_is_written() {
        let text = r#"
[[request]]
name = "front page"
path = "/"
weight = 9

[[request]]
method = "post"
path = "/orders"
headers = ["Content-Type: application/json"]
body = '{"item":1}'
status = 201
answer = "created"
"#;
        let requests = read(text, &Authority::read("h:1").unwrap(), true).unwrap();
        assert_eq!((requests[0].name.as_str(), requests[0].weight), ("front-page", 9.0));
        assert_eq!(requests[0].bytes, b"GET / HTTP/1.1\r\nHost: h:1\r\n\r\n");
        assert_eq!((requests[1].name.as_str(), requests[1].expected_status), ("request-2", Some(201)));
        assert!(requests[1].bytes.ends_with(b"Content-Length: 10\r\n\r\n{\"item\":1}"));
        assert!(requests[1].body_checksum.is_some() && requests[0].body_checksum.is_none());
        assert_eq!(read(text, &Authority::read("h:1").unwrap(), false).unwrap()[1].body_checksum, None);
    }

    #[test]
    fn a_problem_has_its_line() {
        let folder = tempfile::tempdir().unwrap();
        for (text, expected) in [
            ("[[request]]\npath = 1\n", "requests.toml:2: expected a quoted string"),
            ("[[request]]\nweight = 1\n", ":1: a request needs a path"),
            ("[[request]]\npath = \"/\"\n\nwait = 1\n", ":4: unknown key `wait`"),
            ("[[request]]\npath = \"/\"\nweight = -1\n", ":3: expected a weight over 0"),
            ("[[request]]\npath = \"/\"\nstatus = 99\n", ":3: expected a status"),
            ("[[request]]\npath = \"a b\"\n", ":2: expected a path"),
            ("[request]\npath = \"/\"\n", ": write [[request]]"),
            ("rate = 1\n", ":1: unknown key `rate`"),
            ("[[request]]\npath = \n", ":2: "),
            ("", ":1: the file contains no [[request]]"),
        ] {
            let file = folder.path().join("requests.toml");
            std::fs::write(&file, text).unwrap();
            let problem =
                read_file(file.to_str().unwrap(), &Authority::read("h:1").unwrap(), false).unwrap_err();
            assert!(problem.contains(expected), "{problem} has no {expected}");
        }
    }
}
