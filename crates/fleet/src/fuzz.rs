//! Properties of what an agent or a conductor may be sent; fuzz targets and tests call them.
//!
//! Any bytes are a message or an error, never a panic. A message that is read and written again is the same.
//! Data stored from an agent stays within the plan's limits, and does not stop the intervals of another.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::{self, Trip};
use crate::merge;
use crate::merge::part::Part;
use crate::received::Received;
use crate::wire::{self, Addressed, Answer, Beat, End, Hello, Line, Seen, Start};

/// Lines that the plan of these checks allows.
const LINES_MAX: u64 = 8;

/// Orders to an agent, and an agent's answers.
///
/// # Panics
///
/// A property does not hold.
pub fn messages(input: &[u8]) {
    again::<Addressed>(input);
    again::<Hello>(input);
    again::<Beat>(input);
    again::<Seen>(input);
    if let Some(start) = again::<Start>(input) {
        let _ = archive::documents::settings(start.settings);
    }
    if let Some(Answer::Clock { received_ns, sent_ns }) = again::<Answer>(input) {
        let trip = Trip { sent_ns: 1, received_ns, answered_ns: sent_ns, returned_ns: 2 };
        if let Some(offset) = clock::offset(&[trip]) {
            assert!(received_ns <= sent_ns);
            let _ = clock::over_a_load(offset, clock::Offset { ns: -offset.ns, bound_ns: u64::MAX });
        }
    }
}

/// Intervals and ends of an agent, and a spool that is read in parts. The first byte is the length of a part.
///
/// # Panics
///
/// A property does not hold.
pub fn intervals(input: &[u8]) {
    if let Ok(line) = serde_json::from_slice::<Line>(input) {
        for slice in &line.slices {
            let _ = slice.read(line.from_ns, line.for_ns);
        }
    }
    let _ = serde_json::from_slice::<End>(input).map(|end| archive::documents::load(end.load));
    let Some((step, bytes)) = input.split_first() else { return };
    let mut received = Received::new(LINES_MAX).expect("a temporary file");
    for part in bytes.chunks(usize::from(*step).max(1)) {
        received.take_bytes(part).expect("a temporary file");
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        received.take_end(line);
        if let Ok(parsed) = serde_json::from_slice::<Line>(line) {
            received.take(parsed.seq, line.to_vec()).expect("a temporary file");
        }
    }
    let is_whole = received.end.as_ref().is_none_or(|end| end.slices <= LINES_MAX);
    assert!(is_whole && received.count() <= LINES_MAX, "{received:?}");
    assert!(received.missing(LINES_MAX).len() as u64 <= LINES_MAX);
    assert!(!(received.is_complete() && received.is_damaged()), "{received:?}");
    let mut good = Received::new(LINES_MAX).expect("a temporary file");
    let line = Line { seq: 0, from_ns: 0, for_ns: 1, slices: Vec::new(), shown: None };
    good.take(0, wire::bytes(&line)).expect("a temporary file");
    let part = |received| Part {
        index: 0,
        agent: String::new(),
        host: String::new(),
        received,
        clock: None,
        start_ns: 0,
        lost_at_s: None,
        failed: None,
    };
    let mut closed = 0;
    let merged = merge::intervals(&[part(&received), part(&good)], &mut |_| closed += 1);
    merged.expect("no data of an agent is an error of this machine");
    assert!((1..=LINES_MAX).contains(&closed) && !good.is_damaged(), "{closed} intervals");
}

/// Reads a message, writes it, and reads it again.
fn again<T: DeserializeOwned + Serialize + PartialEq + Debug>(input: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(input).ok()?;
    let again = serde_json::from_slice(&wire::bytes(&read)).expect("what was written is read");
    assert_eq!(read, again);
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of each kind, and numbers at their ends.
    const SAMPLES: [&str; 20] = [
        r#"{"epoch":"ab","order":"prepare","run":"r","words":["bakeoff","load"],"index":0,"of":2,"sha256":"00"}"#,
        r#"{"epoch":null,"order":"prepare","run":"r","words":[],"settings":{"target":"null:","settings":{}},"index":0,"of":2,"sha256":"00"}"#,
        r#"{"epoch":null,"order":"arm","run":"r","at_ns":18446744073709551615}"#,
        r#"{"epoch":null,"order":"read","run":"../r","file":"slices","offset":18446744073709551615}"#,
        r#"{"epoch":null,"order":"clock"}"#,
        r#"{"epoch":null,"order":"watch","run":"r-observed","lead_ns":18446744073709551615,"time_ns":18446744073709551615,"interval_ns":0}"#,
        r#"{"epoch":null,"order":"prepare","run":"r","words":[],"index":0,"of":2,"weights":[0,4294967295],"accepts_loss":true,"helpers":{"observers":1,"probe":true},"sha256":"00"}"#,
        r#"{"number":{"t_ms":-1,"name":"cpu_busy_ratio","labels":"cpu=0","value":0.5}}"#,
        r#"{"missing":{"part":"io","why":"no"}}"#,
        r#"{"epoch":null,"order":"taken","run":"r","owner":"a"}"#,
        r#"{"answer":"left","boot":"b","spools":[{"owner":"a","run":"r","bytes":1,"has_end":true}],"more":0}"#,
        r#"{"run":"r","agent":"a","host":"h","index":0,"of":2,"boot":"b","start_ns":1,"bound_ns":1,"monotonic_ns":1,"unix_ns":1,"is_recorded":false,"settings":{}}"#,
        r#"{"agent":"a1","host":"h","version":"0","cpus":4294967295,"busy":null}"#,
        r#"{"answer":"clock","received_ns":18446744073709551615,"sent_ns":18446744073709551615}"#,
        r#"{"answer":"clock","received_ns":9223372036854775807,"sent_ns":9223372036854775807}"#,
        r#"{"answer":"refused","why":"no"}"#,
        r#"{"state":"failed","why":"no"}"#,
        r#"{"seq":18446744073709551615,"from_ns":1,"for_ns":1,"slices":[{"kind":"response","hdr":"HISTFAAA"}],"shown":null}"#,
        r#"{"slices":9223372036854775807,"bytes":1,"sha256":"","first":null,"load":{"counts":{"done":18446744073709551615}}}"#,
        "\x07{\"seq\":0,\"from_ns\":0,\"for_ns\":1,\"slices\":[],\"shown\":null}\n{\"seq\":1,\"from_ns\":1,\"for_ns\":1,\"slices\":[],\"shown\":null}\n{\n",
    ];

    #[test]
    fn messages_cut_and_with_a_byte_changed_are_read_or_refused() {
        for sample in SAMPLES.map(str::as_bytes) {
            for at in 0..sample.len() {
                let mut changed = sample.to_vec();
                changed[at] ^= 0x15;
                for input in [&sample[..at], &changed] {
                    messages(input);
                    intervals(input);
                }
            }
        }
    }
}
