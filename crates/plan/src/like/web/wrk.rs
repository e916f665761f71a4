//! wrk and wrk2.

use super::{any_certificate, headers, length, sends_once, target, version};
use crate::like::draft::{Draft, Given, duration, rate};
use crate::like::error::LikeError;
use crate::like::options::{Spec, Style, scan, specs};
use crate::like::shell::Said;
use crate::like::translation::RemarkKind;

const OPTIONS: &[Spec] = specs! {
    Value: ["connections" "c"] ["threads" "t"] ["duration" "d"] ["script" "s"] ["header" "H"] ["timeout" "T"]
        ["rate" "R"];
    Nothing: ["latency" "L"] ["u_latency" "U"] ["batch_latency" "B"] ["version" "v"];
};

/// Translates the words after `wrk` or `wrk2`.
pub(in crate::like) fn translate(said: &Said, draft: &mut Draft) -> Result<(), LikeError> {
    // What follows `--` are arguments of wrk's script.
    let end = said.words.iter().position(|word| word == "--").unwrap_or(said.words.len());
    let items = scan(draft.tool(), &said.words[..end], OPTIONS, Style::Getopt)?;
    let given = Given::new(&items, draft.tool());
    let transport = target(draft, given.words().next(), None)?;
    version(draft, transport, false);
    any_certificate(draft, transport);
    let count =
        |name: &str, usual: u64| Ok(given.read(name, "a whole number from 1", metric)?.unwrap_or(usual));
    let (connections, threads) = (count("connections", 10)?, count("threads", 2)?);
    if connections < threads {
        return Err(draft.malformed("the number of connections must be at least the number of threads"));
    }
    if !connections.is_multiple_of(threads) {
        draft.differs(
            "-c",
            "wrk opens the same number of connections on each thread, so the total may be below -c",
        );
    }
    draft.put("connections", connections / threads * threads);
    draft.put("threads", threads);
    sends_once(draft);
    let per_s =
        given.read("rate", "a rate over 0", |text| metric(text).map(|n| n as f64).or_else(|| rate(text)))?;
    if let Some(per_s) = per_s {
        draft.put("rate", per_s);
        draft.put("arrivals", "period");
        let text =
            "bakeoff schedules the whole load, not each connection: any free connection takes the next event";
        draft.differs("-R", text);
        draft.differs(
            "calibration",
            "wrk2 discards the latencies of its first 10 s; bakeoff discards those of --warmup",
        );
    } else if draft.tool() == "wrk2" {
        return Err(draft.malformed("-R is missing: wrk2 needs a rate"));
    } else {
        let text = "without a rate, wrk and bakeoff send a request when the previous one is answered: add \
             --rate for an open loop, which has response times";
        draft.differs("closed loop", text);
    }
    let time = given.read("duration", "a time such as 30s or 2m", duration)?;
    length(draft, Some(time.unwrap_or(std::time::Duration::from_secs(10))), None);
    headers(draft, &given, "header")?;
    for (header, written) in given.all("header") {
        if header.split_once(':').is_some_and(|(_, value)| !value.starts_with(' ')) {
            draft.differs(written, "wrk sends no header without a blank after the colon; bakeoff sends it");
        }
    }
    if given.words().next().is_some_and(has_login) {
        draft.differs("login", "wrk does not send the login in the URL; bakeoff does");
    }
    let text = "use --method, --header, --body and ${...} values, or --requests FILE";
    given.remark(draft, RemarkKind::Missing, &["script"], text);
    let text = "wrk only counts slower answers; see the percentiles (bakeoff's --timeout would cancel them)";
    given.remark(draft, RemarkKind::LeftOut, &["timeout"], text);
    let text = "latencies are always printed";
    given.remark(draft, RemarkKind::LeftOut, &["latency", "u_latency", "batch_latency", "version"], text);
    given.remark_unknown(draft);
    Ok(())
}

/// Whether a URL contains a login.
fn has_login(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    place.split(['/', '?']).next().is_some_and(|place| place.contains('@'))
}

/// Whole number with wrk's units: `1k` is 1,000.
fn metric(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" | "m" => 1_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|n| *n > 0)
}
