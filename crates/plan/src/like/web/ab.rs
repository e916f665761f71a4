//! ab, the benchmark of Apache.

use super::{any_certificate, closes, headers, length, method, sends_once, target, version};
use crate::like::draft::{Draft, Given, seconds};
use crate::like::error::LikeError;
use crate::like::options::{Item, Spec, Style, scan, specs};
use crate::like::shell::Said;
use crate::like::translation::RemarkKind;

const OPTIONS: &[Spec] = specs! {
    Value: ["n"] ["c"] ["t"] ["s"] ["b"] ["B"] ["p"] ["u"] ["T"] ["v"] ["x"] ["y"] ["z"] ["C"] ["H"] ["A"] ["P"]
        ["X"] ["g"] ["e"] ["m"] ["Z"] ["f"] ["E"];
    Nothing: ["k"] ["i"] ["w"] ["d"] ["S"] ["q"] ["l"] ["r"] ["h"] ["V"] ["I"];
};

/// Requests of a load with a time and without a number after it.
const REQUESTS_OF_A_TIME: u64 = 50_000;

/// Translates the words after `ab`.
pub(in crate::like) fn translate(said: &Said, draft: &mut Draft) -> Result<(), LikeError> {
    let items = scan(draft.tool(), &said.words, OPTIONS, Style::Getopt)?;
    let given = Given::new(&items, draft.tool());
    let transport = target(draft, given.words().next(), given.value("A"))?;
    version(draft, transport, false);
    any_certificate(draft, transport);
    let connections = given.count("c")?.unwrap_or(1);
    draft.put("connections", connections);
    sends_once(draft);
    let time = given.read("t", "seconds", seconds)?.filter(|time| !time.is_zero());
    // ab's -t sets the number as well, and so overrides a -n before it.
    let last = given.items().iter().rev().find_map(|item| match item {
        Item::Option { name: name @ ("n" | "t"), .. } => Some(*name),
        _ => None,
    });
    let number = given.count("n")?;
    let requests = match last {
        Some("t") => REQUESTS_OF_A_TIME,
        _ => number.unwrap_or(1),
    };
    if requests < connections {
        return Err(draft.malformed("-n must be at least -c"));
    }
    length(draft, time, Some(requests));
    let body = given.value("p").map(|path| ("POST", path)).or(given.value("u").map(|path| ("PUT", path)));
    let usual = if given.has("i") { "HEAD" } else { body.map_or("GET", |(method, _)| method) };
    method(draft, given.value("m").unwrap_or(usual));
    headers(draft, &given, "H")?;
    if let Some(kind) = given.value("T").or(body.map(|_| "text/plain")) {
        draft.header(&format!("Content-Type: {kind}"));
    }
    for (cookie, _) in given.all("C") {
        draft.header(&format!("Cookie: {cookie}"));
    }
    if let Some((_, path)) = body {
        draft.file("body", path);
    }
    if !given.has("k") {
        closes(draft, "without -k", false);
    }
    draft.duration(
        "timeout",
        given.read("s", "seconds from 1", positive)?.unwrap_or(std::time::Duration::from_secs(30)),
    );
    draft.differs("HTTP", "ab sends HTTP/1.0, bakeoff HTTP/1.1");
    let text = "bakeoff counts failed requests and continues, and accepts answers of any length";
    given.remark(draft, RemarkKind::LeftOut, &["r", "l"], text);
    let shown = ["q", "v", "w", "x", "y", "z", "d", "S", "g", "e", "h", "V"];
    given.remark(draft, RemarkKind::LeftOut, &shown, "");
    given.remark(draft, RemarkKind::Missing, &["X", "P"], "bakeoff does not support proxies");
    given.remark(draft, RemarkKind::Missing, &["B", "Z", "b", "f", "I"], "");
    given.remark(draft, RemarkKind::Missing, &["E"], "use --cert and --key with an https: target");
    given.remark_unknown(draft);
    Ok(())
}

fn positive(text: &str) -> Option<std::time::Duration> {
    seconds(text).filter(|time| !time.is_zero())
}
