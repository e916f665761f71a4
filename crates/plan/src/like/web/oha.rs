//! oha.

use super::{REDIRECTS, body, closes, has_all_cpus, headers, length, method, sends_once, target, version};
use crate::like::draft::{Draft, Given, duration};
use crate::like::error::LikeError;
use crate::like::options::{Spec, Style, scan, specs};
use crate::like::shell::Said;
use crate::like::translation::RemarkKind;

const OPTIONS: &[Spec] = specs! {
    Value: ["n" "n-requests"] ["c" "n-connections"] ["p" "n-http2-parallel"] ["z" "duration"] ["q" "query-per-second"]
        ["burst-delay"] ["burst-rate"] ["fps"] ["m" "method"] ["H" "headers"] ["t" "timeout"] ["A" "accept"]
        ["d" "body"] ["D" "body-path"] ["Z" "body-path-lines"] ["F" "form"] ["T" "content-type"] ["a" "basic-auth"]
        ["aws-session"] ["aws-sigv4"] ["x" "proxy"] ["proxy-header"] ["proxy-http-version"] ["http-version"]
        ["host"] ["r" "redirect"] ["connect-to"] ["unix-socket"] ["vsock-addr"] ["db-url"] ["cacert"] ["cert"]
        ["key"] ["output" "o"] ["output-format"] ["time-unit" "u"] ["max-repeat"] ["dump-urls"]
        ["connect-timeout"];
    Nothing: ["http2"] ["rand-regex-url"] ["urls-from-file"] ["disable-compression"] ["disable-keepalive"]
        ["no-pre-lookup"] ["ipv6"] ["ipv4"] ["insecure"] ["latency-correction"] ["no-tui"] ["json" "j"]
        ["stats-success-breakdown"] ["disable-color"] ["no-color"] ["wait-ongoing-requests-after-deadline" "w"]
        ["debug"] ["proxy-http2"] ["http3"];
};

const LEFT_OUT: &[&str] = &[
    "fps",
    "db-url",
    "output",
    "output-format",
    "time-unit",
    "no-tui",
    "json",
    "stats-success-breakdown",
    "disable-color",
    "no-color",
    "no-pre-lookup",
    "ipv4",
    "ipv6",
    "connect-timeout",
];

const MISSING: &[&str] = &[
    "burst-delay",
    "burst-rate",
    "F",
    "Z",
    "aws-session",
    "aws-sigv4",
    "x",
    "proxy-header",
    "proxy-http-version",
    "proxy-http2",
    "connect-to",
    "vsock-addr",
    "http3",
    "debug",
    "dump-urls",
];

/// Translates the words after `oha`.
pub(in crate::like) fn translate(said: &Said, draft: &mut Draft) -> Result<(), LikeError> {
    let items = scan(draft.tool(), &said.words, OPTIONS, Style::Getopt)?;
    let given = Given::new(&items, draft.tool());
    let transport = target(draft, given.words().next(), given.value("a"))?;
    let connections = given.count("c")?.unwrap_or(50);
    draft.put("connections", connections);
    has_all_cpus(draft, connections);
    sends_once(draft);
    let wanted = given.value("http-version");
    let is_two = given.has("http2") || wanted == Some("2");
    version(draft, transport, is_two);
    if is_two {
        if let Some(streams) = given.count("p")?.filter(|n| *n > 1) {
            draft.put("streams", streams);
        }
    } else if wanted.is_some_and(|v| v != "1.1") {
        given.remark(draft, RemarkKind::Missing, &["http-version"], "bakeoff supports HTTP/1.1 and HTTP/2");
    }
    if let Some(per_s) = given.rate("q")? {
        draft.put("rate", per_s);
        draft.put("arrivals", "period");
        given.remark(
            draft,
            RemarkKind::LeftOut,
            &["latency-correction"],
            "bakeoff always measures latency from the due time",
        );
        if !given.has("latency-correction") {
            draft.differs(
                "-q",
                "bakeoff measures latency from the due time, as oha --latency-correction does",
            );
        }
    }
    let time = given.read("z", "a time such as 30s", duration)?.filter(|time| !time.is_zero());
    let requests = given.read("n", "a whole number from 1", metric)?.unwrap_or(200);
    length(draft, time, time.is_none().then_some(requests));
    request(&given, draft, is_two)?;
    let text = "--drain limits the wait for requests in flight at the end";
    given.remark(draft, RemarkKind::LeftOut, &["wait-ongoing-requests-after-deadline"], text);
    let text = "use --requests FILE, or ${...} values in the target";
    given.remark(draft, RemarkKind::Missing, &["rand-regex-url", "urls-from-file", "max-repeat"], text);
    given.remark(draft, RemarkKind::LeftOut, LEFT_OUT, "");
    given.remark(draft, RemarkKind::Missing, MISSING, "");
    if given.whole("r")? != Some(0) {
        draft.differs("redirects", REDIRECTS);
    }
    given.remark_unknown(draft);
    Ok(())
}

/// The request itself.
fn request(given: &Given<'_>, draft: &mut Draft, is_two: bool) -> Result<(), LikeError> {
    method(draft, given.value("m").unwrap_or("GET"));
    headers(draft, given, "H")?;
    for (option, name) in [("A", "Accept"), ("T", "Content-Type"), ("host", "Host")] {
        if let Some(value) = given.value(option) {
            draft.header(&format!("{name}: {value}"));
        }
    }
    if !given.has("disable-compression") {
        draft.header("Accept-Encoding: gzip, compress, deflate, br");
    }
    if given.has("disable-keepalive") {
        closes(draft, "--disable-keepalive", is_two);
    }
    match (given.value("D"), given.value("d")) {
        (Some(path), _) => draft.file("body", path),
        (None, Some(text)) => body(draft, text),
        (None, None) => {}
    }
    if let Some(time) = given.read("t", "a time such as 5s", duration)?.filter(|time| !time.is_zero()) {
        draft.duration("timeout", time);
    }
    if given.has("insecure") {
        draft.flag("insecure");
    }
    for (option, ours) in [("cacert", "ca"), ("cert", "cert"), ("key", "key"), ("unix-socket", "unix-socket")]
    {
        if let Some(path) = given.value(option) {
            draft.put(ours, path);
        }
    }
    Ok(())
}

/// Whole number from 1, with oha's units: `1k` is 1,000.
fn metric(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K', 'm', 'M']) {
        Some(digits) => (digits, if text.ends_with(['k', 'K']) { 1_000 } else { 1_000_000 }),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|n| *n > 0)
}
