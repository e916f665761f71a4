//! Checks that every request passes before it reaches a page: host, rate, identity and origin.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use record::clock::{Clock as _, Monotonic};

use crate::answer::{Format, Refusal, busy, error, see};
use crate::app::App;
use crate::identity::{Identity, Peer, Role, Unknown};
use crate::memory::{Held, SHORT_BYTES_MAX};

/// Largest body, in bytes: a plan, with the escapes of a form.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// Longest path and query, in bytes.
const URI_BYTES_MAX: usize = 4_096;
/// Time in which a body must arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Passes a request on, or answers it with the reason.
pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let format = format_of(request.uri());
    let peer = request.extensions().get::<Peer>().expect("the listener adds the peer").clone();
    let now_ns = Monotonic.now_ns();
    let no = |status, text: &str| error(format, status, text);
    if request.uri().to_string().len() > URI_BYTES_MAX {
        return no(StatusCode::URI_TOO_LONG, "the address is too long");
    }
    if std::str::from_utf8(&unescaped(request.uri().path().as_bytes())).is_err() {
        return no(StatusCode::BAD_REQUEST, "the address is not UTF-8");
    }
    if !is_known_host(&app, &peer, request.headers()) {
        return no(StatusCode::MISDIRECTED_REQUEST, "unknown host name: see `bakeoff serve --name`");
    }
    if is_foreign(request.method(), request.headers()) {
        return no(StatusCode::FORBIDDEN, "the request comes from a page of another site");
    }
    if !app.requests.take(&peer.key(), now_ns) {
        return no(StatusCode::TOO_MANY_REQUESTS, "too many requests");
    }
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change {
        if !is_same_origin(&app, request.headers()) {
            return no(StatusCode::FORBIDDEN, "the request comes from another site");
        }
        if !app.changes.take(&peer.key(), now_ns) {
            return no(StatusCode::TOO_MANY_REQUESTS, "too many changes");
        }
        let length = request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|bytes| bytes > BODY_BYTES_MAX as u64) {
            return no(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
        }
    }
    if let Some(name) = query_for_nobody(request.uri()) {
        return no(StatusCode::BAD_REQUEST, &format!("unknown `{name}`: this address has no parameters"));
    }
    if !is_open(request.uri().path()) {
        match identify(&app, &peer, request.headers(), now_ns) {
            Ok(identity) => drop(request.extensions_mut().insert(identity)),
            Err((StatusCode::UNAUTHORIZED, _)) if format == Format::Page && app.access.has_tokens() => {
                return see("/login");
            }
            Err((status, text)) => return no(status, text),
        }
    }
    long_answer(&app, &peer, next.run(request).await, format).await
}

/// Takes a permit for a long answer, or refuses it: those of many clients would take the server's memory.
async fn long_answer(app: &App, peer: &Peer, response: Response, format: Format) -> Response {
    let bytes = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let Some(bytes) = bytes.filter(|bytes| *bytes > SHORT_BYTES_MAX) else { return response };
    let place = app.long_answers_of_peers.enter(peer.key());
    let Some(permits) = place.zip(app.messages.permit(bytes)) else { return busy(format) };
    let (head, body) = response.into_parts();
    match axum::body::to_bytes(body, usize::MAX).await {
        Ok(whole) => Response::from_parts(head, Held::body(whole, permits)),
        Err(_) => error(format, StatusCode::INTERNAL_SERVER_ERROR, "the answer failed"),
    }
}

/// First name in a query to an address of the API without parameters.
fn query_for_nobody(uri: &Uri) -> Option<String> {
    let reads = ["/api/v1/runs", "/api/v1/history", "/api/v1/compare"];
    let is_export = uri.path().ends_with("/export");
    if !uri.path().starts_with("/api/") || reads.contains(&uri.path()) || is_export {
        return None;
    }
    let Fields(fields) = Fields::of(uri.query()?.as_bytes());
    fields.into_iter().next().map(|(name, _)| name)
}

/// Paths that need no identity: they show nothing of the archive.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/login" | "/openapi.json") || path.starts_with("/assets/")
}

/// Format of the errors for a path.
pub(crate) fn format_of(uri: &Uri) -> Format {
    let path = uri.path();
    let is_document = path.starts_with("/api/") || matches!(path, "/metrics" | "/healthz");
    if is_document { Format::Document } else { Format::Page }
}

fn identify(
    app: &App,
    peer: &Peer,
    headers: &HeaderMap,
    now_ns: u64,
) -> Result<Identity, (StatusCode, &'static str)> {
    // A session that is open is not closed by the guesses of others behind the same address.
    if headers.contains_key(AUTHORIZATION) && !app.wrong_tokens.has(&peer.key(), now_ns) {
        return Err((StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens"));
    }
    app.access.identify(peer, headers).map_err(|unknown| match unknown {
        Unknown::NoToken => (StatusCode::UNAUTHORIZED, "a token is required: Authorization: Bearer TOKEN"),
        Unknown::WrongToken => {
            app.wrong_tokens.take(&peer.key(), now_ns);
            (StatusCode::UNAUTHORIZED, "the token is wrong")
        }
        Unknown::OtherUser => {
            (StatusCode::FORBIDDEN, "without a token, this server answers only the user who runs it")
        }
    })
}

/// Whether the request names this server. A page of another site can make a browser send requests to a name
/// that resolves to this machine, but not under one of these names.
fn is_known_host(app: &App, peer: &Peer, headers: &HeaderMap) -> bool {
    if matches!(peer, Peer::Local { .. }) || app.hosts.is_empty() {
        return true;
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    app.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
}

/// Whether a page of another site sends the request, other than a link that a reader follows. Such a page
/// could not read the answer, but each one costs CPU time beside a measurement, and a stream takes a
/// viewer's place.
fn is_foreign(method: &Method, headers: &HeaderMap) -> bool {
    let is =
        |name: &HeaderName, words: &[&str]| headers.get(name).is_some_and(|v| words.iter().any(|w| v == w));
    is(&FETCH_SITE, &["cross-site", "same-site"])
        && !(method == Method::GET && is(&FETCH_MODE, &["navigate"]))
}

/// Whether a change comes from our own page, or from a program.
fn is_same_origin(app: &App, headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text(&FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return false;
    }
    let Some(origin) = text(&ORIGIN) else { return true };
    let scheme = if app.is_tls { "https" } else { "http" };
    text(&HOST).is_some_and(|host| origin.eq_ignore_ascii_case(&format!("{scheme}://{host}")))
}

/// Refuses an identity that may only read.
pub(crate) fn may_run(app: &App, identity: &Identity, format: Format) -> Result<(), Refusal> {
    if identity.role >= Role::Run {
        return Ok(());
    }
    let text = if app.queue.is_some() {
        "your role is `read`: use a token with the role `run`"
    } else {
        "this server is read-only: start it with --queue"
    };
    Err(error(format, StatusCode::FORBIDDEN, text).into())
}

/// The body of a request, in full.
pub(crate) async fn body(app: &App, body: Body, format: Format) -> Result<Bytes, Refusal> {
    let bytes_max = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes_max = bytes_max.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
    // Until it has arrived: a sender may take its time.
    let _permit = if bytes_max > SHORT_BYTES_MAX {
        Some(app.messages.permit(bytes_max).ok_or_else(|| Refusal::from(busy(format)))?)
    } else {
        None
    };
    let whole = axum::body::to_bytes(body, BODY_BYTES_MAX);
    match tokio::time::timeout(BODY_TIME, whole).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            Err(error(format, StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or was cut off").into())
        }
        Err(_) => Err(error(format, StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time").into()),
    }
}

/// The fields of a form of ours; refused without the value that every such form holds.
pub(crate) async fn form(app: &App, request: Request) -> Result<Fields, Refusal> {
    let is_form = has_type(request.headers(), &["application/x-www-form-urlencoded"]);
    if !is_form {
        let text = "expected a form";
        return Err(error(Format::Page, StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
    }
    let bytes = body(app, request.into_body(), Format::Page).await?;
    let fields = Fields::of(&bytes);
    if app.access.is_own_form(fields.get("csrf")) {
        return Ok(fields);
    }
    let text = "the form is not from this server, or the server was restarted: reload the page";
    Err(error(Format::Page, StatusCode::FORBIDDEN, text).into())
}

/// Whether the body has one of these types.
pub(crate) fn has_type(headers: &HeaderMap, types: &[&str]) -> bool {
    let found = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let found = found.split(';').next().unwrap_or_default().trim();
    types.iter().any(|known| known.eq_ignore_ascii_case(found))
}

/// Fields of a form or a query.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `a=1&b=x+y%20z`. Bytes that are not UTF-8 become replacement characters.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let pairs = bytes.split(|b| *b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
            let mut parts = pair.splitn(2, |b| *b == b'=');
            let mut next = || decoded(parts.next().unwrap_or_default());
            (next(), next())
        });
        Self(pairs.collect())
    }

    /// One field.
    pub(crate) fn one(name: &str, value: String) -> Self {
        Self(vec![(name.to_owned(), value)])
    }

    /// Refuses a name that is neither in `once` nor in `often`, and one of `once` that occurs again: a filter
    /// that is not understood must not look as if it had been applied.
    pub(crate) fn only(self, once: &[&str], often: &[&str]) -> Result<Self, String> {
        let mut seen = Vec::new();
        for (name, _) in &self.0 {
            let name = name.as_str();
            if !once.contains(&name) && !often.contains(&name) {
                return Err(format!("unknown `{name}`: expected {}", [once, often].concat().join(", ")));
            }
            if once.contains(&name) && seen.contains(&name) {
                return Err(format!("`{name}` may stand only once"));
            }
            seen.push(name);
        }
        Ok(self)
    }

    /// The first value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a field.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field that is not blank, as `read` understands it, or the reason that it does not.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Option<T>,
        expected: impl Fn() -> String,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.given(name) else { return Ok(None) };
        read(&text).map(Some).ok_or_else(|| format!("{name}: expected {}, not `{text}`", expected()))
    }

    /// The first value of a field that is not blank.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        self.get(name).map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
    }
}

fn decoded(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&unescaped(bytes)).into_owned()
}

/// Bytes of a part of an address or a form, without its escapes.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let digit =
        |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => match (digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    at += 2;
                }
                _ => out.push(b'%'),
            },
            other => out.push(other),
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_as_browsers_encode_them() {
        let fields = Fields::of(b"a=1+2&b=%C3%BC%26&runs=x&runs=y%2Cz&empty&=v&bad=%zz%&cut=%4");
        assert_eq!(fields.get("a"), Some("1 2"));
        assert_eq!(fields.get("b"), Some("\u{fc}&"));
        assert_eq!(fields.all("runs").collect::<Vec<_>>(), ["x", "y,z"]);
        assert_eq!((fields.get("empty"), fields.given("empty"), fields.get("none")), (Some(""), None, None));
        assert_eq!((fields.get("bad"), fields.get("cut")), (Some("%zz%"), Some("%4")));
    }

    #[test]
    fn the_type_of_a_body_is_read_without_its_parameters() {
        let headers =
            |value: &str| -> HeaderMap { [(CONTENT_TYPE, value.parse().unwrap())].into_iter().collect() };
        assert!(has_type(&headers("Application/TOML; charset=utf-8"), &["application/toml"]));
        assert!(!has_type(&headers("text/plain"), &["application/toml"]));
        assert!(!has_type(&HeaderMap::new(), &["application/toml"]));
    }
}
