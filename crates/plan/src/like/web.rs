//! wrk, wrk2, hey, oha and ab: load generators for web servers.
//!
//! # Source
//!
//! `--help` of wrk, wrk2, hey and oha, and the manual of ab. Certificates: wrk's `src/ssl.c`
//! (`SSL_VERIFY_NONE`), hey's `requester.go` (`InsecureSkipVerify`), ab's `ab.c` (OpenSSL's default for
//! clients, which is not to verify); oha verifies unless `--insecure` is given.

mod ab;
mod hey;
mod oha;
mod wrk;

pub(super) use self::ab::translate as ab;
pub(super) use self::hey::translate as hey;
pub(super) use self::oha::translate as oha;
pub(super) use self::wrk::translate as wrk;

use std::time::Duration;

use super::address;
use super::draft::{Draft, Given, literal};
use super::error::LikeError;

/// Text about answers that send the client elsewhere.
const REDIRECTS: &str = "bakeoff counts redirects and does not follow them";

/// Writes the target: the URL, with the login of Basic authentication.
fn target(draft: &mut Draft, url: Option<&str>, login: Option<&str>) -> Result<Transport, LikeError> {
    let url = url.ok_or_else(|| draft.malformed("the URL is missing"))?;
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    if !matches!(scheme, "http" | "https") {
        return Err(draft.malformed(format!("{scheme}://: expected an http or https URL")));
    }
    // A fragment never reaches a server.
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.is_empty() {
        return Err(draft.malformed(format!("{url}: the URL has no host")));
    }
    let login = login.map_or_else(String::new, |text| {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        address::login(Some(user), Some(password))
    });
    let slash = if path.starts_with('/') { "" } else { "/" };
    draft.target(format!("{scheme}://{login}{authority}{slash}{}", literal(path)));
    Ok(if scheme == "https" { Transport::Tls } else { Transport::Plain })
}

/// Connections with TLS, on which bakeoff agrees on HTTP/2 if the server supports it, or without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Plain,
    Tls,
}

/// Writes the version of HTTP: the other tools use HTTP/2 only if they are asked to.
fn version(draft: &mut Draft, transport: Transport, is_two: bool) {
    if is_two {
        draft.put("http-version", "2");
    } else if transport == Transport::Tls {
        draft.put("http-version", "1.1");
    }
}

/// Writes that the server's certificate is not checked, as by a tool that accepts any.
fn any_certificate(draft: &mut Draft, transport: Transport) {
    if transport == Transport::Tls {
        draft.flag("insecure");
        let text = format!(
            "{} accepts any certificate, and with --insecure, so does bakeoff: leave it out to check the server",
            draft.tool()
        );
        draft.differs("https", &text);
    }
}

/// Writes a body that was given as a text.
fn body(draft: &mut Draft, text: &str) {
    draft.put("body", literal(text));
}

/// Writes the method, if it is not GET.
fn method(draft: &mut Draft, method: &str) {
    if !method.eq_ignore_ascii_case("GET") {
        draft.put("method", method.to_ascii_uppercase());
    }
}

/// Writes the length of the load: a time, or a number of requests.
fn length(draft: &mut Draft, time: Option<Duration>, requests: Option<u64>) {
    if let Some(time) = time {
        draft.duration("time", time);
    }
    if let Some(requests) = requests {
        draft.put("events", requests);
        draft.put("warmup", "0s");
    } else {
        draft.warms_up();
    }
}

/// Remarks that a connection for each request costs time that no event contains.
fn closes(draft: &mut Draft, part: &str, is_two: bool) {
    if is_two {
        return draft.missing(part, "bakeoff has no connection for each request of HTTP/2");
    }
    draft.header("Connection: close");
    draft.differs(part, "bakeoff does not count the connect time in a request's latency; see connect_ns");
}

/// Writes that a request is sent once: the other tools count an error and send the next request.
fn sends_once(draft: &mut Draft) {
    draft.put("retry", 0);
}

/// Remarks that the tool has a thread for each CPU.
fn has_all_cpus(draft: &mut Draft, connections: u64) {
    if connections > 1 {
        let text = format!("{} runs on all CPUs, bakeoff on one thread: add --threads N", draft.tool());
        draft.differs("threads", &text);
    }
}

/// Headers as they were given.
fn headers(draft: &mut Draft, given: &Given<'_>, name: &str) -> Result<(), LikeError> {
    for (header, written) in given.all(name) {
        match header.split_once(':') {
            Some((name, _)) if !name.trim().is_empty() => draft.header(header),
            _ => return Err(draft.malformed(format!("{written}: expected `Name: value`"))),
        }
    }
    Ok(())
}
