//! hey.

use super::{
    REDIRECTS, Transport, any_certificate, body, closes, has_all_cpus, headers, length, method, sends_once,
    target, version,
};
use crate::like::draft::{Draft, Given, duration, rate};
use crate::like::error::LikeError;
use crate::like::options::{Spec, Style, scan, specs};
use crate::like::shell::Said;
use crate::like::translation::RemarkKind;

const OPTIONS: &[Spec] = specs! {
    Value: ["n"] ["c"] ["q"] ["z"] ["o"] ["m"] ["H"] ["t"] ["A"] ["d"] ["D"] ["T"] ["a"] ["x"] ["U"] ["host"]
        ["cpus"];
    Attached: ["h2"] ["disable-compression"] ["disable-keepalive"] ["disable-redirects"] ["more"];
};

/// Translates the words after `hey`.
pub(in crate::like) fn translate(said: &Said, draft: &mut Draft) -> Result<(), LikeError> {
    let items = scan(draft.tool(), &said.words, OPTIONS, Style::Go)?;
    let given = Given::new(&items, draft.tool());
    let transport = target(draft, given.words().next(), given.value("a"))?;
    let is_two = given.has("h2") && transport == Transport::Tls;
    version(draft, transport, is_two);
    any_certificate(draft, transport);
    if !is_two {
        given.remark(draft, RemarkKind::LeftOut, &["h2"], "hey uses HTTP/2 only with https");
    }
    let workers = given.count("c")?.unwrap_or(50);
    draft.put("connections", workers);
    match given.count("cpus")? {
        Some(cpus) => draft.put("threads", cpus.min(workers)),
        None => has_all_cpus(draft, workers),
    }
    sends_once(draft);
    let per_worker = given.read("q", "a rate", |text| text.parse().ok().filter(|n: &f64| *n >= 0.0))?;
    // A rate of 0 is no limit.
    if let Some(per_s) = per_worker.and_then(|per_s| rate(&(per_s * workers as f64).to_string())) {
        draft.put("rate", per_s);
        draft.put("arrivals", "period");
        let text = "hey limits each worker, and a worker waits for its answer; bakeoff's rate is the total, \
             and requests become due without waiting";
        draft.differs("-q", text);
    }
    let time = given.read("z", "a time such as 30s", duration)?.filter(|time| !time.is_zero());
    let requests = given.count("n")?.unwrap_or(200);
    if requests < workers && time.is_none() {
        return Err(draft.malformed("-n must be at least -c"));
    }
    // Each worker sends the same number.
    length(draft, time, time.is_none().then_some(requests / workers * workers));
    if time.is_none() && requests % workers != 0 {
        draft.differs(
            "-n",
            "each worker of hey sends the same number of requests, so the total may be below -n",
        );
    }
    request(&given, draft, is_two)?;
    given.remark(draft, RemarkKind::Missing, &["x"], "bakeoff does not support proxies");
    given.remark(draft, RemarkKind::LeftOut, &["o", "more"], "");
    if !given.has("disable-redirects") {
        draft.differs("redirects", REDIRECTS);
    }
    if let Some(word) = given.words().nth(1) {
        draft.missing(word, "hey ignores options after the URL: put them before it");
    }
    given.remark_unknown(draft);
    Ok(())
}

/// The request itself.
fn request(given: &Given<'_>, draft: &mut Draft, is_two: bool) -> Result<(), LikeError> {
    method(draft, given.value("m").unwrap_or("GET"));
    headers(draft, given, "H")?;
    for (option, name) in [("A", "Accept"), ("T", "Content-Type"), ("U", "User-Agent"), ("host", "Host")] {
        if let Some(value) = given.value(option) {
            draft.header(&format!("{name}: {value}"));
        }
    }
    let has_body = given.has("D") || given.has("d");
    let has_kind = given.has("T")
        || given.all("H").any(|(header, _)| header.to_ascii_lowercase().starts_with("content-type:"));
    if has_body && !has_kind {
        draft.header("Content-Type: text/html");
    }
    if !given.has("disable-compression") {
        draft.header("Accept-Encoding: gzip");
    }
    if given.has("disable-keepalive") {
        closes(draft, "-disable-keepalive", is_two);
    }
    match (given.value("D"), given.value("d")) {
        (Some(path), _) => draft.file("body", path),
        (None, Some(text)) => body(draft, text),
        (None, None) => {}
    }
    let seconds = given.whole("t")?.unwrap_or(20);
    if seconds > 0 {
        draft.put("timeout", format!("{seconds}s"));
    }
    Ok(())
}
