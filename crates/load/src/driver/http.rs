//! `http://host:port/path`: each event is one request, from its first byte to the last byte of its answer.
//!
//! [`one`] implements HTTP/1.1; libraries implement HTTP/2 and TLS ([`two`], [`crate::net::tls`]), inside the
//! same dialogue.
//!
//! Connections are kept alive. Redirects are counted, not followed. The body of an answer is read to its end
//! (by its length, in chunks, or until the server closes) and discarded.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use record::load::{LoadSettings, Workload};
use record::missing::Missing;
use record::replay::{Method, Replay};
use record::requests::{HttpSettings, HttpVersion};
use record::target::Target;

use super::{Driver, Look, Scheme};
use crate::connection::{Failure, FailureClass, OperationShare};
use crate::driver::{Exchange, Net};
use crate::net::address::ServerAddress;
use crate::net::held;
use crate::net::tls::Plan;
use crate::net::tls::{self, Identity, Secured, Trust};
use crate::net::{Dialogue, Endpoint, Talk};
use crate::schedule::random::Random;
use crate::workload::tables::Cache;
use crate::workload::values::{Data, around, data_of};

mod authority;
mod checksum;
mod cookies;
mod one;
mod replayed;
mod requests;
mod two;
mod writer;
mod written;

use authority::Authority;
use cookies::Jar;
use one::DialogueOne;
use replayed::Replayed;
use requests::{Request, bytes_of};
use two::{DialogueTwo, RequestHead};
use writer::{OUTCOMES, Writer};

pub(super) const SCHEME: Scheme = Scheme {
    name: "http",
    form: "http://host[:port]/path",
    workloads: &[Workload::Native],
    check: |target| HttpTarget::read(target).map(drop),
    address,
    open,
};

/// The same protocol over TLS.
pub(super) const TLS_SCHEME: Scheme = Scheme { name: "https", form: "https://host[:port]/path", ..SCHEME };

/// Address of the server.
fn address(settings: &LoadSettings) -> Option<ServerAddress> {
    if let Some(path) = &settings.http.unix_socket {
        return Some(ServerAddress::Unix(path.into()));
    }
    HttpTarget::read(&settings.target).ok().map(|site| site.address)
}

fn open(settings: &LoadSettings) -> Result<Arc<dyn Driver>, Failure> {
    let wrong = |text| Failure::new(FailureClass::Configuration, text);
    let site = HttpTarget::read(&settings.target).map_err(wrong)?;
    let data = settings.http.data.as_deref().map(data_of).transpose().map_err(wrong)?;
    let requests = requests(&site, settings).map_err(wrong)?.into_iter();
    let requests: Result<Vec<Request>, String> =
        requests.map(|request| request.with_values(data.as_deref())).collect();
    let requests = requests.map_err(wrong)?;
    if data.is_some() && requests.iter().all(|request| request.written.is_none()) {
        return Err(wrong("--data has no effect: no request uses a value from it, such as ${id}".to_owned()));
    }
    if settings.http.cookies && requests.iter().any(Request::has_cookie) {
        return Err(wrong(
            "a `Cookie` header cannot be combined with --cookies: leave one of them out".to_owned(),
        ));
    }
    let place = Endpoint::of(match &settings.http.unix_socket {
        Some(path) => ServerAddress::Unix(path.into()),
        None => site.address.clone(),
    })?;
    let headers = settings.http.headers.iter().map(String::as_str);
    let look = Request {
        name: "look".to_owned(),
        weight: 1.0,
        bytes: bytes_of("HEAD", &site.authority, &around(&site.path_or_root()), headers, ""),
        may_repeat: true,
        closes: false,
        has_answer_body: false,
        expected_status: None,
        body_checksum: None,
        written: None,
    };
    let tls = site.tls(&settings.http).map_err(wrong)?;
    // With --insecure, TLS does not distinguish the server from another user's.
    let is_secret = (tls.is_none() || settings.http.insecure)
        && (look.has_secret() || requests.iter().any(Request::has_secret));
    let place = place.with_password(is_secret);
    let look = Set { looks: true, ..Set::new(vec![look], &site) };
    let (version, streams) = (settings.http.version, settings.http.streams);
    let streams = streams as usize;
    // Request bodies that the server has not read yet count as replies too.
    let longest = requests.iter().map(|request| request.bytes.len()).max().unwrap_or_default();
    let replay = settings.http.replay.clone().map(Arc::new);
    let path_bytes = replay.as_ref().map_or(0, |replay| replay.path_bytes_max);
    let longest = longest.saturating_add(usize::try_from(path_bytes).unwrap_or(usize::MAX));
    held::allow(longest.saturating_mul(settings.in_flight_max() as usize));
    let requests =
        Set { keeps_cookies: settings.http.cookies, data, replay, streams, ..Set::new(requests, &site) };
    Ok(Arc::new(Net(Arc::new(Web { place, tls, version, look, requests, timeout: settings.http.timeout }))))
}

const PORT: u16 = 80;
const TLS_PORT: u16 = 443;
const REMEDIES: tls::Remedies = tls::Remedies {
    authority: "give its CA certificate with --ca, or ",
    name: "use its name in the target, or ",
    any: "accept any certificate with --insecure",
};

/// The parts of a target.
struct HttpTarget<'a> {
    is_secure: bool,
    address: ServerAddress,
    authority: Authority<'a>,
    path: &'a str,
}

impl<'a> HttpTarget<'a> {
    fn read(target: &'a Target) -> Result<Self, String> {
        let (scheme, rest) =
            target.expose().split_once("://").ok_or("write `http://host:port/path`, or https://")?;
        let is_secure = scheme == "https";
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = Authority::read(authority)?;
        let address = ServerAddress::tcp(authority.host, if is_secure { TLS_PORT } else { PORT })?;
        if around(path).bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(format!("the path `{path}` contains a space: write it as %20"));
        }
        Ok(Self { is_secure, address, authority, path })
    }

    /// The TLS settings; `None` without TLS.
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

/// Names of the versions in ALPN.
const ONE: &[u8] = b"http/1.1";
const TWO: &[u8] = b"h2";

/// Requests to choose from, in the form of each version of HTTP.
#[derive(Clone)]
struct Set {
    requests: Arc<Vec<Request>>,
    /// The requests for HTTP/2, or the reason why one of them cannot be sent by it.
    asks: Result<Arc<Vec<RequestHead>>, String>,
    /// Whether the `Server` header is read.
    looks: bool,
    /// Whether a connection sends the cookies that it received.
    keeps_cookies: bool,
    is_secure: bool,
    /// Source of values that differ from event to event.
    data: Option<Arc<Data>>,
    /// Log that is replayed.
    replay: Option<Arc<Replay>>,
    /// Largest number of requests in flight on a connection.
    streams: usize,
}

impl Set {
    fn new(requests: Vec<Request>, site: &HttpTarget<'_>) -> Self {
        let scheme = if site.is_secure { "https" } else { "http" };
        let asks: Result<Vec<RequestHead>, String> =
            requests.iter().map(|request| RequestHead::of(&request.example(), scheme)).collect();
        Self {
            requests: Arc::new(requests),
            asks: asks.map(Arc::new),
            looks: false,
            keeps_cookies: false,
            data: None,
            replay: None,
            is_secure: site.is_secure,
            streams: 1,
        }
    }

    /// Creates the dialogue of the version that was negotiated.
    fn dialogue(&self, is_two: bool) -> Result<Box<dyn Dialogue>, Failure> {
        let requests = Arc::clone(&self.requests);
        let writer = Writer {
            jar: self.keeps_cookies.then(|| Jar::new(self.is_secure)),
            data: self.data.clone(),
            body: Vec::new(),
            replay: self.replay.as_deref().and_then(Replayed::of),
        };
        if self.streams > 1 && !is_two {
            let text = "the server does not support HTTP/2: leave --streams out";
            return Err(Failure::new(FailureClass::Configuration, text));
        }
        if is_two {
            let asks = self.asks.clone().map_err(|text| Failure::new(FailureClass::Configuration, text))?;
            return Ok(Box::new(DialogueTwo::new(requests, asks, writer, self.is_secure, self.streams)));
        }
        Ok(Box::new(DialogueOne::new(requests, self.looks, writer)))
    }
}

impl HttpTarget<'_> {
    /// Path of the request; `/` is added if the target has none.
    fn path_or_root(&self) -> Cow<'_, str> {
        if self.path.starts_with('/') { self.path.into() } else { format!("/{}", self.path).into() }
    }
}

/// All requests that events choose from, encoded.
fn requests(place: &HttpTarget<'_>, settings: &LoadSettings) -> Result<Vec<Request>, String> {
    let http = &settings.http;
    if let Some(replay) = &http.replay {
        if !matches!(place.path, "" | "/") {
            return Err(format!(
                "the log defines the paths: leave `{}` out of the target",
                around(place.path)
            ));
        }
        // One request for each method, in the order of the methods; the log fills in the paths.
        let of = |method: &Method| Request::of_method(&place.authority, http, *method);
        return Ok(replay.methods.iter().map(of).collect());
    }
    let requests = match &http.requests {
        Some(file) => requests::read_file(file, &place.authority, settings.verify)?,
        None => {
            vec![Request::of(&place.authority, &place.path_or_root(), http)]
        }
    };
    Ok(requests)
}

/// Dialogue without a connection, for [`super::readers`].
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn plain_dialogue(is_two: bool) -> Box<dyn Dialogue> {
    let authority = Authority { host: "localhost", basic: None };
    let address = ServerAddress::Tcp("localhost".to_owned(), PORT);
    let site = HttpTarget { is_secure: false, address, authority, path: "/" };
    let request = Request::of(&site.authority, site.path, &HttpSettings::plain());
    let set = Set { looks: true, keeps_cookies: true, ..Set::new(vec![request], &site) };
    let dialogue = set.dialogue(is_two);
    dialogue.expect("a plain request can be sent by either version")
}

struct Web {
    place: Endpoint,
    tls: Option<Plan>,
    version: HttpVersion,
    /// Request sent before any event: HEAD only.
    look: Set,
    requests: Set,
    /// Time limit of a request.
    timeout: Option<Duration>,
}

impl Web {
    fn speak(&self, set: &Set) -> Result<Box<dyn Dialogue>, Failure> {
        let (set, version) = (set.clone(), self.version);
        let Some(tls) = &self.tls else { return set.dialogue(version == HttpVersion::Two) };
        let speak = move |agreed: Option<&[u8]>| match (version, agreed == Some(TWO)) {
            (HttpVersion::Two, false) => {
                let text = "the server does not support HTTP/2: leave --http-version out";
                Err(Failure::new(FailureClass::Configuration, text))
            }
            (_, is_two) => set.dialogue(is_two),
        };
        Ok(Box::new(Secured::new(tls, Box::new(speak))?))
    }
}

impl Exchange for Web {
    fn endpoint(&self) -> &Endpoint {
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
            // The log decides how often each method comes.
            per_event: self.requests.replay.is_none().then_some(r.weight / weights),
            per_event_max: 1,
        };
        requests.iter().map(share).collect()
    }

    fn outcomes(&self) -> &'static [&'static str] {
        &OUTCOMES
    }

    fn look(&self, talk: &mut Talk) -> Result<Look, Failure> {
        // A server that answers with an error is up; the load reports whether the answer is the expected one.
        match talk.exchange_aside(Random::of(0, 0)) {
            Err(failure) if failure.class != FailureClass::Application => return Err(failure),
            _ => {}
        }
        let version = talk.server().ok_or_else(|| Missing::because("the server does not report its version"));
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

#[cfg(test)]
mod tests {
    use super::authority::base64;
    use super::requests::may_repeat;
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
        let site = HttpTarget::read(&target).unwrap();
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
