//! `http://host:port/path`: each event is one request, from its first byte to the last of its answer.
//!
//! HTTP/1.1 is spoken in [`one`]; HTTP/2 and TLS by libraries ([`two`], [`super::tls`]), inside of the same dialogue.
//!
//! Connections are kept open. Redirects are counted, not followed. An answer's body is read to its end, by its length,
//! in chunks, or until the server closes, and not kept.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use record::load::{LoadSettings, Workload};
use record::missing::Missing;
use record::requests::{HttpSettings, HttpVersion};
use record::target::Target;

use super::address::decoded;
use super::net::{Answer, Dialogue, Exchange, Net, Place, Wire, host_and_port};
use super::security::Plan;
use super::tls::{self, Secured, Trust};
use super::{Driver, Failure, FailureClass, Look, OperationShare, Scheme};
use crate::dataset::Cache;
use crate::random::Random;

mod one;
mod requests;
mod two;

use one::Asker;
use requests::Request;
use two::{Ask, AskerTwo};

pub(super) const SCHEME: Scheme = Scheme {
    name: "http",
    form: "http://host[:port]/path",
    workloads: &[Workload::Native],
    check: |target| Site::read(target).map(drop),
    open,
};

/// The same inside of TLS.
pub(super) const TLS_SCHEME: Scheme = Scheme { name: "https", form: "https://host[:port]/path", ..SCHEME };

fn open(settings: &LoadSettings) -> Result<Arc<dyn Driver>, Failure> {
    let wrong = |text| Failure::new(FailureClass::Configuration, text);
    let site = Site::read(&settings.target).map_err(wrong)?;
    let requests = requests(&site, settings).map_err(wrong)?;
    let place = Place::tcp(site.authority.host, site.port())?;
    let headers = settings.http.headers.iter().map(String::as_str);
    let look = Request {
        name: "look".to_owned(),
        weight: 1.0,
        bytes: bytes_of("HEAD", &site.authority, &site.path_or_root(), headers, ""),
        may_repeat: true,
        has_answer_body: false,
        expected_status: None,
        body_checksum: None,
    };
    let (look, requests) = (Set::new(vec![look], &site, true), Set::new(requests, &site, false));
    let version = settings.http.version;
    let tls = site.tls(&settings.http).map_err(wrong)?;
    Ok(Arc::new(Net(Arc::new(Web { place, tls, version, look, requests }))))
}

const PORT: u16 = 80;
const TLS_PORT: u16 = 443;
/// What lets a certificate pass that this machine does not trust.
const TRUST_HINT: &str = "name the file of its authority with --ca, or take any with --insecure";
/// Ends of a request, by the class of their status.
const OUTCOMES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A target's parts.
struct Site<'a> {
    is_secure: bool,
    authority: Authority<'a>,
    path: &'a str,
}

/// Whom requests are for, and who asks.
#[derive(Debug, Clone)]
struct Authority<'a> {
    /// `host:port`, as in the target.
    host: &'a str,
    /// Proof of the user in the target, as `Authorization` has it; none if no user is named.
    basic: Option<String>,
}

impl<'a> Authority<'a> {
    /// Reads `[user:password@]host[:port]`.
    fn read(written: &'a str) -> Result<Self, String> {
        let Some((user_info, host)) = written.rsplit_once('@') else {
            return Ok(Self { host: written, basic: None });
        };
        let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
        let proof = format!("{}:{}", decoded(user)?, decoded(password)?);
        Ok(Self { host, basic: Some(format!("Basic {}", base64(proof.as_bytes()))) })
    }
}

/// # Source
///
/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(group);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) as usize & 63;
            text.push(if place <= three.len() { char::from(LETTERS[index]) } else { '=' });
        }
    }
    text
}

impl<'a> Site<'a> {
    fn read(target: &'a Target) -> Result<Self, String> {
        let (scheme, rest) =
            target.expose().split_once("://").ok_or("write `http://host:port/path`, or https://")?;
        let is_secure = scheme == "https";
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = Authority::read(authority)?;
        host_and_port(authority.host, PORT)?;
        if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(format!("the path `{path}` holds a blank: write it as %20"));
        }
        Ok(Self { is_secure, authority, path })
    }

    fn port(&self) -> u16 {
        if self.is_secure { TLS_PORT } else { PORT }
    }

    /// How TLS is spoken; `None` where it is not.
    fn tls(&self, http: &HttpSettings) -> Result<Option<Plan>, String> {
        if !self.is_secure {
            return Ok(None);
        }
        let (host, _) = host_and_port(self.authority.host, TLS_PORT)?;
        let trust = if http.insecure { Trust::Anybody } else { Trust::ChainAndName };
        let protocols: &[&[u8]] = match http.version {
            HttpVersion::Any => &[TWO, ONE],
            HttpVersion::One => &[ONE],
            HttpVersion::Two => &[TWO],
        };
        let config = tls::config(trust, http.ca.as_deref(), None, protocols)?;
        Ok(Some(Plan { config, name: tls::server_name(host)?, hint: TRUST_HINT }))
    }
}

/// The versions by the names under which they are agreed on.
const ONE: &[u8] = b"http/1.1";
const TWO: &[u8] = b"h2";

/// Requests to choose from, as each version of HTTP sends them.
#[derive(Clone)]
struct Set {
    requests: Arc<Vec<Request>>,
    /// Why one of them cannot be sent by HTTP/2, where that is so.
    asks: Result<Arc<Vec<Ask>>, String>,
    /// Whether it is heard what the server calls itself.
    looks: bool,
}

impl Set {
    fn new(requests: Vec<Request>, site: &Site<'_>, looks: bool) -> Self {
        let scheme = if site.is_secure { "https" } else { "http" };
        let asks: Result<Vec<Ask>, String> =
            requests.iter().map(|request| Ask::of(&request.bytes, scheme)).collect();
        Self { requests: Arc::new(requests), asks: asks.map(Arc::new), looks }
    }

    /// What is spoken by the version that was agreed on.
    fn dialogue(&self, is_two: bool) -> Result<Box<dyn Dialogue>, Failure> {
        let requests = Arc::clone(&self.requests);
        if is_two {
            let asks = self.asks.clone().map_err(|text| Failure::new(FailureClass::Configuration, text))?;
            return Ok(Box::new(AskerTwo::new(requests, asks)));
        }
        Ok(Box::new(Asker::new(requests, self.looks)))
    }
}

impl Site<'_> {
    /// What is asked for where the target ends with its host.
    fn path_or_root(&self) -> Cow<'_, str> {
        if self.path.starts_with('/') { self.path.into() } else { format!("/{}", self.path).into() }
    }
}

/// All requests that events choose from, ready to be sent.
fn requests(place: &Site<'_>, settings: &LoadSettings) -> Result<Vec<Request>, String> {
    let http = &settings.http;
    let requests = match &http.requests {
        Some(file) => requests::read_file(file, &place.authority, settings.verify)?,
        None => {
            vec![Request::of(&place.authority, &place.path_or_root(), http)]
        }
    };
    Ok(requests)
}

/// A dialogue by itself, for [`super::readers`].
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn plain_dialogue(is_two: bool) -> Box<dyn Dialogue> {
    let authority = Authority { host: "localhost", basic: None };
    let site = Site { is_secure: false, authority, path: "/" };
    let request = Request::of(&site.authority, site.path, &HttpSettings::plain());
    let dialogue = Set::new(vec![request], &site, true).dialogue(is_two);
    dialogue.expect("a plain request can be sent by either version")
}

struct Web {
    place: Place,
    tls: Option<Plan>,
    version: HttpVersion,
    /// What is asked before any event: the head of a page alone.
    look: Set,
    requests: Set,
}

impl Web {
    fn speak(&self, set: &Set) -> Result<Box<dyn Dialogue>, Failure> {
        let (set, version) = (set.clone(), self.version);
        let Some(tls) = &self.tls else { return set.dialogue(version == HttpVersion::Two) };
        let speak = move |agreed: Option<&[u8]>| match (version, agreed == Some(TWO)) {
            (HttpVersion::Two, false) => {
                let text = "the server does not speak HTTP/2: leave --http-version out";
                Err(Failure::new(FailureClass::Configuration, text))
            }
            (_, is_two) => set.dialogue(is_two),
        };
        Ok(Box::new(Secured::new(tls, Box::new(speak))?))
    }
}

impl Exchange for Web {
    fn place(&self) -> &Place {
        &self.place
    }

    fn dialogue(&self) -> Result<Box<dyn Dialogue>, Failure> {
        self.speak(&self.requests)
    }

    fn look_dialogue(&self) -> Result<Box<dyn Dialogue>, Failure> {
        self.speak(&self.look)
    }

    fn operations(&self) -> Vec<OperationShare> {
        let requests = &self.requests.requests;
        let weights: f64 = requests.iter().map(|r| r.weight).sum();
        let share = |r: &Request| OperationShare {
            name: r.name.clone().into(),
            per_event: Some(r.weight / weights),
            per_event_max: 1,
        };
        requests.iter().map(share).collect()
    }

    fn outcomes(&self) -> &'static [&'static str] {
        &OUTCOMES
    }

    fn look(&self, wire: &mut Wire) -> Result<Look, Failure> {
        // What answers with an error is there; whether that is what was wanted, the load tells.
        match wire.exchange(Random::of(0, 0)) {
            Err(failure) if failure.class != FailureClass::Application => return Err(failure),
            _ => {}
        }
        let version = wire.server().ok_or_else(|| Missing::because("the server does not say"));
        Ok(Look { version, store: None })
    }

    fn cache(&self, _: Wire) -> Option<Box<dyn Cache>> {
        None
    }

    fn closes_idle(&self) -> bool {
        true
    }
}

/// Which request an event asks, by their weights.
fn choose(requests: &[Request], weights: f64, random: &mut Random) -> usize {
    if requests.len() == 1 {
        return 0;
    }
    let mut left = random.unit() * weights;
    let found = requests.iter().position(|request| {
        left -= request.weight;
        left < 0.0
    });
    // Rounding may leave the last one's upper edge open.
    found.unwrap_or(requests.len() - 1)
}

/// Whether an answer is the one that was wanted.
fn judge(requests: &[Request], asked: usize, status: u16, body: Checksum) -> Result<Answer, Failure> {
    let request = &requests[asked];
    let outcome = Some(usize::from(status / 100).clamp(1, OUTCOMES.len()) - 1);
    let is_expected = match request.expected_status {
        Some(expected) => status == expected,
        None => status < 400,
    };
    if !is_expected {
        let wanted = request.expected_status.map_or("one below 400".to_owned(), |s| s.to_string());
        let text = format!("{}: the server answered with status {status}, wanted was {wanted}", request.name);
        return Err(Failure { outcome, ..Failure::new(FailureClass::Application, text) });
    }
    if let Some(expected) = request.body_checksum
        && expected != body.value()
    {
        let text = format!("{}: the body is not the one that was expected", request.name);
        return Err(Failure { outcome, ..Failure::new(FailureClass::Verify, text) });
    }
    Ok(Answer { operation: asked, outcome })
}

/// A checksum of a body that is read piece by piece.
///
/// # Source
///
/// FNV-1a, 64 bits: Fowler, Noll and Vo, draft-eastlake-fnv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checksum {
    sum: u64,
}

impl Default for Checksum {
    fn default() -> Self {
        Self { sum: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.sum = (self.sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn value(self) -> u64 {
        self.sum
    }
}

impl Request {
    /// A single request, from the command line.
    fn of(authority: &Authority<'_>, path: &str, http: &HttpSettings) -> Self {
        let headers = http.headers.iter().map(String::as_str);
        Self {
            name: "request".to_owned(),
            weight: 1.0,
            may_repeat: may_repeat(&http.method, headers.clone()),
            bytes: bytes_of(&http.method, authority, path, headers, &http.body),
            has_answer_body: http.method != "HEAD",
            expected_status: http.expected_status,
            body_checksum: None,
        }
    }
}

/// Whether a request that was sent may be sent again when its answer is lost: where twice does what once does, or where
/// the server is told by which name to know that it is the same.
///
/// # Source
///
/// RFC 9110, HTTP semantics, section 9.2.2; draft-ietf-httpapi-idempotency-key-header.
fn may_repeat<'a>(method: &str, mut headers: impl Iterator<Item = &'a str>) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
        || headers.any(|header| {
            let name = header.split(':').next().unwrap_or_default().trim();
            name.eq_ignore_ascii_case("idempotency-key")
        })
}

/// A request as it goes over the wire; what is set by nobody and must be there, is added.
fn bytes_of<'a>(
    method: &str,
    authority: &Authority<'_>,
    path: &str,
    headers: impl Iterator<Item = &'a str>,
    body: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing into memory does not fail.
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
    fn a_request_has_what_it_must_have_once() {
        let written = |method, headers: &[&str], body| {
            let authority = Authority::read("h:1").unwrap();
            String::from_utf8(bytes_of(method, &authority, "/x?y", headers.iter().copied(), body)).unwrap()
        };
        assert_eq!(written("GET", &[], ""), "GET /x?y HTTP/1.1\r\nHost: h:1\r\n\r\n");
        let expected = "POST /x?y HTTP/1.1\r\nhost: z\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(written("POST", &["host: z"], "{}"), expected);
    }

    #[test]
    fn a_user_in_the_target_is_a_header() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        let target = Target::new("https://Aladdin:open%20sesame@h:1/x");
        let site = Site::read(&target).unwrap();
        let written = |headers: &[&str]| {
            let bytes = bytes_of("GET", &site.authority, site.path, headers.iter().copied(), "");
            String::from_utf8(bytes).unwrap()
        };
        let expected =
            "GET /x HTTP/1.1\r\nHost: h:1\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n";
        assert_eq!(written(&[]), expected);
        assert!(!written(&["authorization: Bearer x"]).contains("Basic"));
    }

    #[test]
    fn what_must_not_be_done_twice_is_not_sent_twice() {
        for (method, headers, expected) in [
            ("GET", &[][..], true),
            ("PUT", &[], true),
            ("DELETE", &[], true),
            ("POST", &["Content-Type: text/plain"], false),
            ("PATCH", &[], false),
            ("PURGE", &[], false),
            ("POST", &["Accept: */*", "idempotency-key: 17"], true),
        ] {
            assert_eq!(may_repeat(method, headers.iter().copied()), expected, "{method} {headers:?}");
        }
    }
}
