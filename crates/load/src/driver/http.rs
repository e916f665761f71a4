//! `http://host:port/path`: each event is one request, from its first byte to the last of its answer.
//!
//! HTTP/1.1 is spoken here; HTTP/2 and TLS by libraries ([`two`], [`super::tls`]), inside of the same dialogue.
//!
//! Connections are kept open. Redirects are counted, not followed. An answer's body is read to its end, by its length,
//! in chunks, or until the server closes, and not kept.
//!
//! # Source
//!
//! RFC 9112, HTTP/1.1.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use record::load::{LoadSettings, Workload};
use record::missing::Missing;
use record::requests::{HttpSettings, HttpVersion};
use record::target::Target;

use super::net::{Answer, Dialogue, Exchange, Heard, Net, Place, Wire, host_and_port, line};
use super::tls::{self, Secured, Trust};
use super::{Driver, Failure, FailureClass, Look, OperationShare, Scheme};
use crate::dataset::Cache;
use crate::random::Random;

mod requests;
mod two;

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
    let place = Place::tcp(site.authority, site.port())?;
    let headers = settings.http.headers.iter().map(String::as_str);
    let look = Request {
        name: "look".to_owned(),
        weight: 1.0,
        bytes: bytes_of("HEAD", site.authority, &site.path_or_root(), headers, ""),
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
/// The longest head of an answer that is waited for.
const HEAD_MAX: usize = 64 * 1024;

/// Ends of a request, by the class of their status.
const OUTCOMES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A target's parts.
struct Site<'a> {
    is_secure: bool,
    authority: &'a str,
    path: &'a str,
}

impl<'a> Site<'a> {
    fn read(target: &'a Target) -> Result<Self, String> {
        let (scheme, rest) =
            target.expose().split_once("://").ok_or("write `http://host:port/path`, or https://")?;
        let is_secure = scheme == "https";
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(
                "a user in the target is not understood: give a header, `--header 'Authorization: ...'`"
                    .into(),
            );
        }
        host_and_port(authority, PORT)?;
        if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(format!("the path `{path}` holds a blank: write it as %20"));
        }
        Ok(Self { is_secure, authority, path })
    }

    fn port(&self) -> u16 {
        if self.is_secure { TLS_PORT } else { PORT }
    }

    /// How TLS is spoken; `None` where it is not.
    fn tls(&self, http: &HttpSettings) -> Result<Option<Tls>, String> {
        if !self.is_secure {
            return Ok(None);
        }
        let (host, _) = host_and_port(self.authority, TLS_PORT)?;
        let trust = if http.insecure { Trust::Anybody } else { Trust::ChainAndName };
        let protocols: &[&[u8]] = match http.version {
            HttpVersion::Any => &[TWO, ONE],
            HttpVersion::One => &[ONE],
            HttpVersion::Two => &[TWO],
        };
        let config = tls::config(trust, http.ca.as_deref(), protocols)?;
        Ok(Some(Tls { config, name: tls::server_name(host)? }))
    }
}

/// The versions by the names under which they are agreed on.
const ONE: &[u8] = b"http/1.1";
const TWO: &[u8] = b"h2";

/// How TLS is spoken.
struct Tls {
    config: Arc<rustls::ClientConfig>,
    name: rustls::pki_types::ServerName<'static>,
}

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
        Some(file) => requests::read_file(file, place.authority, settings.verify)?,
        None => {
            vec![Request::of(place.authority, &place.path_or_root(), http)]
        }
    };
    Ok(requests)
}

struct Web {
    place: Place,
    tls: Option<Tls>,
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
        let name = tls.name.clone();
        Ok(Box::new(Secured::new(&tls.config, name, TRUST_HINT, Box::new(speak))?))
    }
}

/// One connection's dialogue.
struct Asker {
    requests: Arc<Vec<Request>>,
    weights: f64,
    asked: usize,
    part: Part,
    status: u16,
    closes: bool,
    body: Checksum,
    /// Whether it is heard what the server calls itself.
    looks: bool,
    server: Option<String>,
}

/// Which part of an answer comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    /// A body of this many more bytes.
    Length(u64),
    ChunkHead,
    /// A chunk of this many more bytes, and its line's end.
    Chunk(u64),
    Trailer,
    /// Until the server closes.
    Rest,
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

impl Dialogue for Asker {
    fn greet(&mut self, _: &mut Vec<u8>) {}

    fn hear_greeting(&mut self, _: &[u8]) -> Heard {
        Heard::MORE
    }

    fn ask(&mut self, mut random: Random, out: &mut Vec<u8>) {
        self.asked = choose(&self.requests, self.weights, &mut random);
        (self.part, self.closes, self.body) = (Part::Head, false, Checksum::default());
        out.extend_from_slice(&self.requests[self.asked].bytes);
    }

    fn hear(&mut self, input: &[u8], is_end: bool) -> Heard {
        let mut taken = 0;
        loop {
            match self.take(&input[taken..], is_end) {
                Step::Took(bytes) => taken += bytes,
                Step::More => return Heard { taken, answer: None },
                Step::Whole(bytes) => {
                    return Heard {
                        taken: taken + bytes,
                        answer: Some(judge(&self.requests, self.asked, self.status, self.body)),
                    };
                }
                Step::Garbage => return Heard::garbage(&input[taken..]),
            }
        }
    }

    fn closes(&self) -> bool {
        self.closes
    }

    fn server(&self) -> Option<String> {
        self.server.clone()
    }
}

/// What became of some bytes of an answer.
enum Step {
    /// So many are read; the next part begins.
    Took(usize),
    /// They are not enough.
    More,
    /// With so many the answer is whole.
    Whole(usize),
    Garbage,
}

impl Asker {
    fn new(requests: Arc<Vec<Request>>, looks: bool) -> Self {
        let weights = requests.iter().map(|r| r.weight).sum();
        Self {
            requests,
            weights,
            asked: 0,
            part: Part::Head,
            status: 0,
            closes: false,
            body: Checksum::default(),
            looks,
            server: None,
        }
    }

    fn take(&mut self, input: &[u8], is_end: bool) -> Step {
        match self.part {
            Part::Head => self.take_head(input),
            Part::Length(left) => {
                let bytes = within(left, input.len());
                self.sum(&input[..bytes]);
                self.part = Part::Length(left - bytes as u64);
                match self.part {
                    Part::Length(0) => Step::Whole(bytes),
                    _ if bytes == 0 => Step::More,
                    _ => Step::Took(bytes),
                }
            }
            Part::ChunkHead => match line(input) {
                Some((size, taken)) => {
                    let digits = size.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
                    match std::str::from_utf8(digits).ok().and_then(|d| u64::from_str_radix(d, 16).ok()) {
                        Some(0) => self.part = Part::Trailer,
                        Some(size) => self.part = Part::Chunk(size),
                        None => return Step::Garbage,
                    }
                    Step::Took(taken)
                }
                None => more_of(input),
            },
            Part::Chunk(0) => match input.strip_prefix(b"\r\n") {
                Some(_) => {
                    self.part = Part::ChunkHead;
                    Step::Took(2)
                }
                None if b"\r\n".starts_with(input) => Step::More,
                None => Step::Garbage,
            },
            Part::Chunk(left) => {
                let bytes = within(left, input.len());
                self.sum(&input[..bytes]);
                self.part = Part::Chunk(left - bytes as u64);
                if bytes == 0 { Step::More } else { Step::Took(bytes) }
            }
            Part::Trailer => match line(input) {
                Some((b"", taken)) => Step::Whole(taken),
                Some((_, taken)) => Step::Took(taken),
                None => more_of(input),
            },
            Part::Rest => {
                self.sum(input);
                match (is_end, input.len()) {
                    (true, bytes) => Step::Whole(bytes),
                    (false, 0) => Step::More,
                    (false, bytes) => Step::Took(bytes),
                }
            }
        }
    }

    fn take_head(&mut self, input: &[u8]) -> Step {
        let head = match Head::read(input) {
            Ok(Some(head)) => head,
            Ok(None) => return more_of(input),
            Err(NoHead) => return Step::Garbage,
        };
        if head.status < 200 {
            // An interim answer: the one that counts follows.
            return Step::Took(head.bytes);
        }
        self.status = head.status;
        self.closes = head.closes;
        if self.looks {
            let text = String::from_utf8_lossy(&input[..head.bytes]);
            let mut headers = text.lines().filter_map(|header| header.split_once(':'));
            let server = headers.find(|(name, _)| name.eq_ignore_ascii_case("server"));
            self.server = server.map(|(_, name)| name.trim().to_owned());
        }
        let has_body = self.requests[self.asked].has_answer_body && !matches!(head.status, 204 | 304);
        self.part = match (head.length, head.is_chunked) {
            _ if !has_body => return Step::Whole(head.bytes),
            (_, true) => Part::ChunkHead,
            (Some(0), _) => return Step::Whole(head.bytes),
            (Some(length), _) => Part::Length(length),
            (None, _) => {
                self.closes = true;
                Part::Rest
            }
        };
        Step::Took(head.bytes)
    }

    /// A body costs nothing but its reading where nobody checks it.
    fn sum(&mut self, body: &[u8]) {
        if self.requests[self.asked].body_checksum.is_some() {
            self.body.add(body);
        }
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
    let is_expected = match request.expected_status {
        Some(expected) => status == expected,
        None => status < 400,
    };
    if !is_expected {
        let wanted = request.expected_status.map_or("one below 400".to_owned(), |s| s.to_string());
        let text = format!("{}: the server answered with status {status}, wanted was {wanted}", request.name);
        return Err(Failure::new(FailureClass::Application, text));
    }
    if let Some(expected) = request.body_checksum
        && expected != body.value()
    {
        let text = format!("{}: the body is not the one that was expected", request.name);
        return Err(Failure::new(FailureClass::Verify, text));
    }
    let outcome = usize::from(status / 100).clamp(1, OUTCOMES.len()) - 1;
    Ok(Answer { operation: asked, outcome: Some(outcome) })
}

fn within(left: u64, bytes: usize) -> usize {
    usize::try_from(left).map_or(bytes, |left| left.min(bytes))
}

fn more_of(input: &[u8]) -> Step {
    if input.len() < HEAD_MAX { Step::More } else { Step::Garbage }
}

/// What the head of an answer says of what follows it.
#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    /// Bytes of the body, where it says.
    length: Option<u64>,
    is_chunked: bool,
    /// The server takes no other request on this connection.
    closes: bool,
    /// Of the head itself.
    bytes: usize,
}

/// What came is no head of HTTP/1.
#[derive(Debug, PartialEq, Eq)]
struct NoHead;

impl Head {
    /// `None` where it has not come whole.
    fn read(input: &[u8]) -> Result<Option<Self>, NoHead> {
        const START: &[u8] = b"HTTP/1.";
        let known = input.len().min(START.len());
        if input[..known] != START[..known] {
            return Err(NoHead);
        }
        let Some((first, mut bytes)) = line(input) else { return Ok(None) };
        let status = first.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let status = status.filter(|s| (100..600).contains(s)).ok_or(NoHead)?;
        let is_old = first[START.len()] == b'0';
        let mut head = Self { status, length: None, is_chunked: false, closes: is_old, bytes };
        while let Some((header, taken)) = line(&input[bytes..]) {
            bytes += taken;
            if header.is_empty() {
                return Ok(Some(Self { bytes, ..head }));
            }
            head.take_in(header)?;
        }
        Ok(None)
    }

    /// Most headers say nothing that matters here, and their first letter tells.
    fn take_in(&mut self, header: &[u8]) -> Result<(), NoHead> {
        if !matches!(header[0], b'c' | b'C' | b't' | b'T') {
            return Ok(());
        }
        let Some(colon) = header.iter().position(|b| *b == b':') else { return Ok(()) };
        let (name, value) = (&header[..colon], header[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
            self.length = Some(length.ok_or(NoHead)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            let is = |word: &[u8]| value.eq_ignore_ascii_case(word);
            self.closes = is(b"close") || self.closes && !is(b"keep-alive");
        }
        Ok(())
    }
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
    fn of(authority: &str, path: &str, http: &HttpSettings) -> Self {
        let headers = http.headers.iter().map(String::as_str);
        Self {
            name: "request".to_owned(),
            weight: 1.0,
            bytes: bytes_of(&http.method, authority, path, headers, &http.body),
            has_answer_body: http.method != "HEAD",
            expected_status: http.expected_status,
            body_checksum: None,
        }
    }
}

/// A request as it goes over the wire; what is set by nobody and must be there, is added.
fn bytes_of<'a>(
    method: &str,
    authority: &str,
    path: &str,
    headers: impl Iterator<Item = &'a str>,
    body: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing into memory does not fail.
    let _ = write!(out, "{method} {path} HTTP/1.1\r\n");
    let mut has_host = false;
    let mut has_length = false;
    for header in headers {
        let name = header.split(':').next().unwrap_or_default().trim();
        has_host |= name.eq_ignore_ascii_case("host");
        has_length |= name.eq_ignore_ascii_case("content-length");
        let _ = write!(out, "{}\r\n", header.trim());
    }
    if !has_host {
        let _ = write!(out, "Host: {authority}\r\n");
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

    fn asker(method: &str) -> Asker {
        let http = HttpSettings { method: method.to_owned(), ..HttpSettings::plain() };
        let requests = Arc::new(vec![Request::of("h:1", "/x", &http)]);
        Asker::new(requests, false)
    }

    /// The end of an answer that comes in pieces of `step` bytes, and what was left over.
    fn heard(
        method: &str,
        input: &[u8],
        step: usize,
        is_end: bool,
    ) -> Option<Result<(u16, bool, usize), String>> {
        let mut asker = asker(method);
        asker.ask(Random::of(1, 1), &mut Vec::new());
        let mut inbox = super::super::net::Inbox::default();
        let mut pieces: Vec<&[u8]> = input.chunks(step).collect();
        if is_end {
            pieces.push(b"");
        }
        for (number, piece) in pieces.iter().enumerate() {
            if let Some(answer) = inbox.hear(piece, |input| asker.hear(input, piece.is_empty())) {
                let left = pieces[number + 1..].iter().map(|p| p.len()).sum();
                return Some(answer.map(|_| (asker.status, asker.closes, left)).map_err(|f| f.text));
            }
        }
        None
    }

    #[test]
    fn an_answer_ends_where_it_says_however_it_is_cut() {
        let ok = |status, closes| Some(Ok((status, closes, 0)));
        for (method, input, is_end, expected) in [
            ("GET", &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..], false, ok(200, false)),
            ("GET", b"HTTP/1.1 200 OK\r\ncontent-length:0\r\nConnection: close\r\n\r\n", false, ok(200, true)),
            (
                "GET",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
                false,
                ok(200, false),
            ),
            ("GET", b"HTTP/1.0 200 OK\r\n\r\nuntil the end", true, ok(200, true)),
            ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, ok(200, false)),
            ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, ok(304, false)),
            ("GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false, ok(204, false)),
            ("GET", b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /y\r\n\r\n", false, ok(302, false)),
        ] {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(heard(method, input, step, is_end), expected, "{step} of {input:?}");
            }
            if !is_end {
                assert_eq!(heard(method, &input[..input.len() - 1], 5, false), None, "one byte less");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_said_to_be_none() {
        for input in [
            &b"SSH-2.0-OpenSSH\r\n"[..],
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ] {
            assert!(matches!(heard("GET", input, 1000, false), Some(Err(_))), "{input:?}");
        }
        let error = heard("GET", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 1000, false);
        assert!(matches!(&error, Some(Err(text)) if text.contains("500")), "{error:?}");
    }

    #[test]
    fn a_request_has_what_it_must_have_once() {
        let written = |method, headers: &[&str], body| {
            String::from_utf8(bytes_of(method, "h:1", "/x?y", headers.iter().copied(), body)).unwrap()
        };
        assert_eq!(written("GET", &[], ""), "GET /x?y HTTP/1.1\r\nHost: h:1\r\n\r\n");
        let expected = "POST /x?y HTTP/1.1\r\nhost: z\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(written("POST", &["host: z"], "{}"), expected);
    }
}
