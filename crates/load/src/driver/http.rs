//! `http://host:port/path`: each event is one request, from its first byte to the last of its answer.
//!
//! HTTP/1.1 is spoken in [`one`]; HTTP/2 and TLS by libraries ([`two`], [`crate::net::tls`]), inside of the same dialogue.
//!
//! Connections are kept open. Redirects are counted, not followed. An answer's body is read to its end, by its length,
//! in chunks, or until the server closes, and not kept.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use record::load::{LoadSettings, Workload};
use record::missing::Missing;
use record::requests::{HttpSettings, HttpVersion};
use record::target::Target;

use super::{Driver, Failure, FailureClass, Look, OperationShare, Scheme};
use crate::conduct::dataset::Cache;
use crate::net::address::{ServerAddress, decoded};
use crate::net::held;
use crate::net::security::Plan;
use crate::net::tls::{self, Identity, Secured, Trust};
use crate::net::{Answer, Dialogue, Exchange, Net, Place, Talk};
use crate::schedule::random::Random;
use crate::workload::values::{Data, Part, Template, around, is_template};

mod cookies;
mod one;
mod requests;
mod two;

use cookies::Jar;
use one::Asker;
use requests::Request;
use two::{Ask, AskerTwo};

pub(super) const SCHEME: Scheme = Scheme {
    name: "http",
    form: "http://host[:port]/path",
    workloads: &[Workload::Native],
    check: |target| Site::read(target).map(drop),
    address,
    open,
};

/// The same inside of TLS.
pub(super) const TLS_SCHEME: Scheme = Scheme { name: "https", form: "https://host[:port]/path", ..SCHEME };

/// Where the server takes connections.
fn address(settings: &LoadSettings) -> Option<ServerAddress> {
    if let Some(path) = &settings.http.unix_socket {
        return Some(ServerAddress::Unix(path.into()));
    }
    Site::read(&settings.target).ok().map(|site| site.address)
}

fn open(settings: &LoadSettings) -> Result<Arc<dyn Driver>, Failure> {
    let wrong = |text| Failure::new(FailureClass::Configuration, text);
    let site = Site::read(&settings.target).map_err(wrong)?;
    let data = settings.http.data.as_deref().map(Data::read_file).transpose().map_err(wrong)?.map(Arc::new);
    let requests = requests(&site, settings).map_err(wrong)?.into_iter();
    let requests: Result<Vec<Request>, String> =
        requests.map(|request| request.with_values(data.as_deref())).collect();
    let requests = requests.map_err(wrong)?;
    if data.is_some() && requests.iter().all(|request| request.written.is_none()) {
        return Err(wrong("--data says nothing: no request names a value of it, such as ${id}".to_owned()));
    }
    if settings.http.cookies && requests.iter().any(Request::has_cookie) {
        return Err(wrong(
            "a `Cookie` header and --cookies say two things: leave one of them out".to_owned(),
        ));
    }
    let place = Place::of(match &settings.http.unix_socket {
        Some(path) => ServerAddress::Unix(path.into()),
        None => site.address.clone(),
    })?;
    let headers = settings.http.headers.iter().map(String::as_str);
    let look = Request {
        name: "look".to_owned(),
        weight: 1.0,
        bytes: bytes_of("HEAD", &site.authority, &around(&site.path_or_root()), headers, ""),
        may_repeat: true,
        has_answer_body: false,
        expected_status: None,
        body_checksum: None,
        written: None,
    };
    let look = Set { looks: true, ..Set::new(vec![look], &site) };
    let (version, streams) = (settings.http.version, settings.http.streams);
    if streams > 1 && (version == HttpVersion::One || !site.is_secure && version == HttpVersion::Any) {
        return Err(wrong(
            "--streams is for HTTP/2: name an https: target, or add --http-version 2".to_owned(),
        ));
    }
    let streams = streams as usize;
    // Bodies that the server lets us send and does not read yet are replies too.
    let longest = requests.iter().map(|request| request.bytes.len()).max().unwrap_or_default();
    held::allow(longest.saturating_mul(settings.in_flight_max() as usize));
    let requests = Set { keeps_cookies: settings.http.cookies, data, streams, ..Set::new(requests, &site) };
    let tls = site.tls(&settings.http).map_err(wrong)?;
    Ok(Arc::new(Net(Arc::new(Web { place, tls, version, look, requests, timeout: settings.http.timeout }))))
}

const PORT: u16 = 80;
const TLS_PORT: u16 = 443;
const REMEDIES: tls::Remedies = tls::Remedies {
    authority: "name the file of its authority with --ca, or ",
    name: "write its name in the target, or ",
    any: "take any certificate with --insecure",
};
/// Ends of a request, by the class of their status.
const OUTCOMES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A target's parts.
struct Site<'a> {
    is_secure: bool,
    address: ServerAddress,
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
        let address = ServerAddress::tcp(authority.host, if is_secure { TLS_PORT } else { PORT })?;
        if around(path).bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(format!("the path `{path}` holds a blank: write it as %20"));
        }
        Ok(Self { is_secure, address, authority, path })
    }

    /// How TLS is spoken; `None` where it is not.
    fn tls(&self, http: &HttpSettings) -> Result<Option<Plan>, String> {
        if !self.is_secure {
            return Ok(None);
        }
        let trust = if http.insecure { Trust::Anybody } else { Trust::ChainAndName };
        let protocols: &[&[u8]] = match http.version {
            HttpVersion::Any => &[TWO, ONE],
            HttpVersion::One => &[ONE],
            HttpVersion::Two => &[TWO],
        };
        let identity = http.identity.as_ref();
        let identity = identity.map(|files| Identity { certificate: &files.cert, key: &files.key });
        let config = tls::config(trust, http.ca.as_deref(), identity, protocols)?;
        Ok(Some(Plan { config, name: tls::server_name(self.address.host())?, remedies: &REMEDIES }))
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
    /// Whether a connection sends the cookies that it was given.
    keeps_cookies: bool,
    is_secure: bool,
    /// Where values come from that differ from event to event.
    data: Option<Arc<Data>>,
    /// Requests that a connection has in flight at a time.
    streams: usize,
}

impl Set {
    fn new(requests: Vec<Request>, site: &Site<'_>) -> Self {
        let scheme = if site.is_secure { "https" } else { "http" };
        let asks: Result<Vec<Ask>, String> =
            requests.iter().map(|request| Ask::of(&request.example(), scheme)).collect();
        Self {
            requests: Arc::new(requests),
            asks: asks.map(Arc::new),
            looks: false,
            keeps_cookies: false,
            data: None,
            is_secure: site.is_secure,
            streams: 1,
        }
    }

    /// What is spoken by the version that was agreed on.
    fn dialogue(&self, is_two: bool) -> Result<Box<dyn Dialogue>, Failure> {
        let requests = Arc::clone(&self.requests);
        let writer = Writer {
            jar: self.keeps_cookies.then(|| Jar::new(self.is_secure)),
            data: self.data.clone(),
            body: Vec::new(),
        };
        if self.streams > 1 && !is_two {
            let text = "the server does not speak HTTP/2: leave --streams out";
            return Err(Failure::new(FailureClass::Configuration, text));
        }
        if is_two {
            let asks = self.asks.clone().map_err(|text| Failure::new(FailureClass::Configuration, text))?;
            return Ok(Box::new(AskerTwo::new(requests, asks, writer, self.is_secure, self.streams)));
        }
        Ok(Box::new(Asker::new(requests, self.looks, writer)))
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
    let address = ServerAddress::Tcp("localhost".to_owned(), PORT);
    let site = Site { is_secure: false, address, authority, path: "/" };
    let request = Request::of(&site.authority, site.path, &HttpSettings::plain());
    let set = Set { looks: true, keeps_cookies: true, ..Set::new(vec![request], &site) };
    let dialogue = set.dialogue(is_two);
    dialogue.expect("a plain request can be sent by either version")
}

struct Web {
    place: Place,
    tls: Option<Plan>,
    version: HttpVersion,
    /// What is asked before any event: the head of a page alone.
    look: Set,
    requests: Set,
    /// After this time a request is given up.
    timeout: Option<Duration>,
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

    fn look(&self, talk: &mut Talk) -> Result<Look, Failure> {
        // What answers with an error is there; whether that is what was wanted, the load tells.
        match talk.exchange_aside(Random::of(0, 0)) {
            Err(failure) if failure.class != FailureClass::Application => return Err(failure),
            _ => {}
        }
        let version = talk.server().ok_or_else(|| Missing::because("the server does not say"));
        Ok(Look { version, store: None })
    }

    fn cache(&self, _: Talk) -> Option<Box<dyn Cache>> {
        None
    }

    fn closes_idle(&self) -> bool {
        true
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
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
    Ok(Answer { operation: asked, outcome, keys: None })
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

/// What a connection writes requests with.
#[derive(Debug, Default)]
struct Writer {
    /// The cookies that it was given, if it sends them.
    jar: Option<Jar>,
    data: Option<Arc<Data>>,
    /// Room for a body.
    body: Vec<u8>,
}

impl Writer {
    /// Whether a request is the same at each event.
    fn is_plain(&self, request: &Request) -> bool {
        self.jar.is_none() && request.written.is_none()
    }

    /// Writes the request of one event.
    fn write(&mut self, request: &Request, random: &mut Random, out: &mut Vec<u8>) -> Result<(), String> {
        if self.is_plain(request) {
            out.extend_from_slice(&request.bytes);
            return Ok(());
        }
        let start = out.len();
        let body = match &request.written {
            None => {
                let (head, rest) = request.bytes.split_at(request.head_bytes());
                out.extend_from_slice(head);
                &rest[2..]
            }
            Some(written) => {
                written.write(self.data.as_deref(), random, &mut self.body, out)?;
                &self.body
            }
        };
        if let Some(jar) = &self.jar {
            let asked = path_of(&out[start..]).to_vec();
            let before = out.len();
            out.extend_from_slice(b"Cookie: ");
            let named = out.len();
            jar.write(&asked, out);
            if out.len() == named {
                out.truncate(before);
            } else {
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        Ok(())
    }
}

/// What a request asks for, with its query.
fn path_of(request: &[u8]) -> &[u8] {
    request.split(|b| *b == b' ').nth(1).unwrap_or_default()
}

/// A request whose values differ from event to event.
#[derive(Debug, Clone, PartialEq)]
struct Written {
    line: Template,
    headers: Template,
    body: Template,
    /// Whether the length of its body is said.
    has_length: bool,
}

impl Written {
    /// Writes the head but for the empty line at its end, and the body beside it.
    fn write(
        &self,
        data: Option<&Data>,
        random: &mut Random,
        body: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let row = data.map_or(&[][..], |data| data.draw(random));
        self.line.write(Part::Path, row, random, out)?;
        self.headers.write(Part::Header, row, random, out)?;
        body.clear();
        self.body.write(Part::Body, row, random, body)?;
        if self.has_length {
            // Writing into memory does not fail.
            let _ = write!(out, "Content-Length: {}\r\n", body.len());
        }
        Ok(())
    }
}

impl Request {
    /// The same, with its texts read for values that differ from event to event.
    fn with_values(self, data: Option<&Data>) -> Result<Self, String> {
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

    /// Its bytes, without values if they differ from event to event.
    fn example(&self) -> Vec<u8> {
        match &self.written {
            None => self.bytes.clone(),
            Some(_) => around(&String::from_utf8_lossy(&self.bytes)).into_bytes(),
        }
    }

    /// Where another header may stand.
    fn head_bytes(&self) -> usize {
        let end = self.bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a request has a head");
        end + 2
    }

    fn has_cookie(&self) -> bool {
        let head = String::from_utf8_lossy(&self.bytes[..self.head_bytes()]).to_ascii_lowercase();
        head.contains("\r\ncookie:")
    }

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
            written: None,
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
