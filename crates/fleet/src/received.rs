//! What has arrived of one agent: its lines in order in a file, and those that came before their turn.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};

use archive::temporary_file;
use record::load::LoadSettings;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::wire::{self, End, Line};

/// Lines that wait for an earlier one; more are read from the agent's spool later.
const PENDING_MAX: usize = 1_024;
/// Bytes of these lines.
const PENDING_BYTES_MAX: usize = 64 << 20;
/// Longest line, and longest file of an observation.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Longest account of a start or of an end: the largest document of the archive, where the run is stored.
pub(crate) const ACCOUNT_BYTES_MAX: usize = 8 << 20;
/// Latest time and longest time of an interval, 36 years: a sum of two of them fits its type.
pub(crate) const TIME_NS_MAX: u64 = 1 << 60;
/// Largest count in an account: the sums over all agents of a fleet fit their type.
const COUNT_MAX: u64 = 1 << 53;

/// Most intervals that an agent can have: twice as many as the settings plan, and a few.
pub(crate) fn slices_max(settings: &LoadSettings) -> u64 {
    slices_planned(settings).saturating_mul(2).saturating_add(16)
}

/// Intervals that the settings plan.
pub(crate) fn slices_planned(settings: &LoadSettings) -> u64 {
    let interval_ns = settings.interval.as_nanos().max(1);
    u64::try_from(settings.time.as_nanos().div_ceil(interval_ns)).unwrap_or(u64::MAX)
}

/// The lines of one agent.
#[derive(Debug)]
pub(crate) struct Received {
    file: File,
    lines: u64,
    bytes: u64,
    sum: Sha256,
    pending: BTreeMap<u64, Vec<u8>>,
    /// The beginning of a line that was read in parts.
    part: Vec<u8>,
    slices_max: u64,
    /// Whether the agent sent an account or a line that no load has.
    is_impossible: bool,
    /// Whether a line was found damaged when it was read.
    is_unreadable: Cell<bool>,
    /// The agent's account of its end.
    pub(crate) end: Option<End>,
}

impl Received {
    /// - `slices_max`: most lines of an agent; more are damage.
    pub(crate) fn new(slices_max: u64) -> io::Result<Self> {
        Ok(Self {
            file: temporary_file()?,
            lines: 0,
            bytes: 0,
            sum: Sha256::new(),
            pending: BTreeMap::new(),
            part: Vec::new(),
            slices_max,
            is_impossible: false,
            is_unreadable: Cell::new(false),
            end: None,
        })
    }

    /// Takes line `seq`, without its end; a line that is there already counts once.
    pub(crate) fn take(&mut self, seq: u64, line: Vec<u8>) -> io::Result<()> {
        if seq >= self.slices_max {
            self.is_impossible = true;
            return Ok(());
        }
        if seq > self.lines {
            let waiting_bytes: usize = self.pending.values().map(Vec::len).sum();
            if self.pending.len() < PENDING_MAX && waiting_bytes + line.len() <= PENDING_BYTES_MAX {
                self.pending.insert(seq, line);
            }
            return Ok(());
        }
        if seq == self.lines {
            self.append(line)?;
        }
        while let Some(line) = self.pending.remove(&self.lines) {
            self.append(line)?;
        }
        Ok(())
    }

    /// Takes the agent's account of its end. One that no load has is damage.
    pub(crate) fn take_end(&mut self, bytes: &[u8]) {
        self.is_impossible |= bytes.len() > ACCOUNT_BYTES_MAX;
        if self.is_impossible {
            return;
        }
        let end = serde_json::from_slice::<End>(bytes).ok();
        self.is_impossible =
            end.as_ref().is_some_and(|end| end.slices > self.slices_max || !counts(&end.load));
        self.end = end.filter(|_| !self.is_impossible);
    }

    fn append(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        if self.lines >= self.slices_max {
            self.is_impossible = true;
            return Ok(());
        }
        line.push(b'\n');
        // A reader of the same file has moved its position.
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(&line)?;
        self.sum.update(&line);
        self.lines += 1;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Position in the agent's file from which to read on.
    pub(crate) fn read_from(&self) -> u64 {
        self.bytes + self.part.len() as u64
    }

    /// Takes bytes of the agent's file that begin at [`Self::read_from`].
    pub(crate) fn take_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.part.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.part);
            self.is_impossible |= line.len() > MESSAGE_BYTES_MAX;
            self.pending.remove(&self.lines);
            self.append(line)?;
        }
        self.part.extend_from_slice(rest);
        self.is_impossible |= self.part.len() > MESSAGE_BYTES_MAX;
        Ok(())
    }

    /// Records that a line cannot be read. It stays damage.
    pub(crate) fn mark_unreadable(&self) {
        self.is_unreadable.set(true);
    }

    /// Whether every line of the agent's account is here, byte for byte.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_impossible
            && !self.is_unreadable.get()
            && self.end.as_ref().is_some_and(|end| {
                (end.slices, end.bytes) == (self.lines, self.bytes)
                    && end.sha256 == wire::hex(&self.sum.clone().finalize())
            })
    }

    /// Whether the lines are as many as the agent says and are other ones, or no load has them, or one cannot
    /// be read.
    pub(crate) fn is_damaged(&self) -> bool {
        let is_at_end = self.end.as_ref().is_some_and(|end| self.lines >= end.slices);
        self.is_impossible || self.is_unreadable.get() || is_at_end && !self.is_complete()
    }

    /// Numbers of the lines that are not here, of `expected`.
    pub(crate) fn missing(&self, expected: u64) -> Vec<u64> {
        (self.lines..expected).filter(|seq| !self.pending.contains_key(seq)).collect()
    }

    /// Lines that are here.
    pub(crate) fn count(&self) -> u64 {
        self.lines + self.pending.len() as u64
    }

    /// Reads the lines, in order of their numbers; those before their turn come last. A line that no load has
    /// is an error of the kind `InvalidData`.
    pub(crate) fn read(&self) -> io::Result<impl Iterator<Item = io::Result<Line>> + '_> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        let in_order = (0..).zip(BufReader::new(file).split(b'\n'));
        let early = self.pending.iter().map(|(seq, line)| (*seq, Ok(line.clone())));
        Ok(in_order.chain(early).map(|(seq, line)| parsed(seq, &line?)))
    }
}

/// An error that is about the data of an agent.
pub(crate) fn damage(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Line `seq` of an agent.
fn parsed(seq: u64, line: &[u8]) -> io::Result<Line> {
    let line: Line = serde_json::from_slice(line).map_err(|error| damage(error.to_string()))?;
    let is_possible = line.seq == seq && line.from_ns <= TIME_NS_MAX && line.for_ns <= TIME_NS_MAX;
    is_possible.then_some(line).ok_or_else(|| damage("no load has this interval"))
}

/// Whether a load can have every count of this record.
fn counts(record: &Value) -> bool {
    // Neither numbers of the plan nor times are added.
    let is_added = |name: &str| !matches!(name, "settings" | "measured_from_ns" | "measured_ns");
    match record {
        Value::Number(number) => number.as_u64().is_none_or(|count| count <= COUNT_MAX),
        Value::Array(values) => values.iter().all(counts),
        Value::Object(values) => values.iter().all(|(name, value)| !is_added(name) || counts(value)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_no_load_has_is_damage_and_takes_no_memory() {
        let end = |slices: u64, load: Value| wire::bytes(&End { slices, load, ..end_of(2) });
        let huge = serde_json::json!({"counts": {"done": 1_u64 << 60}});
        let seed = serde_json::json!({"settings": {"seed": u64::MAX}, "measured_from_ns": 1_u64 << 62});
        for (bytes, is_damaged) in [
            (end(9_223_372_036_854_775_807, Value::Null), true),
            (end(37, Value::Null), true),
            (end(36, seed), false),
            (end(2, huge), true),
            (vec![b' '; ACCOUNT_BYTES_MAX + 1], true),
        ] {
            let mut received = Received::new(36).unwrap();
            received.take_end(&bytes);
            assert_eq!((received.is_damaged(), received.end.is_none()), (is_damaged, is_damaged));
            received.take(0, line(0)).unwrap();
            received.take(1, line(1)).unwrap();
            received.take_end(&wire::bytes(&end_of(2)));
            assert_eq!(received.is_complete(), !is_damaged, "it stays damaged");
        }
    }

    #[test]
    fn lines_beyond_the_plan_and_lines_without_an_end_are_damage() {
        let mut received = Received::new(2).unwrap();
        received.take(2, line(2)).unwrap();
        assert!(received.is_damaged() && received.count() == 0);
        let mut received = Received::new(2).unwrap();
        received.take_bytes(&[line(0), line(1), line(2)].join(&b'\n')).unwrap();
        assert!(!received.is_damaged() && received.count() == 2);
        received.take_bytes(b"\n").unwrap();
        assert!(received.is_damaged() && received.count() == 2);
    }

    fn line(seq: u64) -> Vec<u8> {
        wire::bytes(&Line { seq, from_ns: seq * 10, for_ns: 10, slices: Vec::new(), shown: None })
    }

    /// The end of an agent with these lines.
    fn end_of(lines: u64) -> End {
        let mut all = Vec::new();
        for seq in 0..lines {
            all.extend(line(seq));
            all.push(b'\n');
        }
        let sha256 = wire::hex(&Sha256::digest(&all));
        End { slices: lines, bytes: all.len() as u64, sha256, first: None, load: serde_json::Value::Null }
    }

    fn read(received: &Received) -> Vec<u64> {
        received.read().unwrap().map(|line| line.unwrap().seq).collect()
    }

    #[test]
    fn lines_count_once_in_whatever_order_and_however_often_they_come() {
        let mut received = Received::new(64).unwrap();
        for seq in [2, 0, 0, 2, 1, 1, 4, 0] {
            received.take(seq, line(seq)).unwrap();
        }
        assert_eq!((received.lines, received.count(), received.missing(6)), (3, 4, vec![3, 5]));
        assert_eq!(read(&received), [0, 1, 2, 4]);
        assert!(!received.is_complete(), "nobody knows how many there are");
        received.end = Some(end_of(5));
        assert!(!received.is_complete() && !received.is_damaged());
        received.take(3, line(3)).unwrap();
        assert!(received.is_complete());
        assert_eq!(read(&received), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_missing_is_read_from_the_agents_file_cut_wherever() {
        let all: Vec<u8> = (0..6).flat_map(|seq| [line(seq), vec![b'\n']].concat()).collect();
        for step in [1, 7, 64, all.len()] {
            let mut received = Received::new(64).unwrap();
            received.end = Some(end_of(6));
            received.take(0, line(0)).unwrap();
            received.take(3, line(3)).unwrap();
            while !received.is_complete() {
                let from = usize::try_from(received.read_from()).unwrap();
                assert!(from < all.len(), "{step}: it never becomes complete");
                received.take_bytes(&all[from..(from + step).min(all.len())]).unwrap();
            }
            assert_eq!(read(&received), [0, 1, 2, 3, 4, 5], "{step}");
        }
    }

    #[test]
    fn a_line_that_no_load_has_is_an_error_about_the_data() {
        let other = Line { for_ns: u64::MAX, ..serde_json::from_slice(&line(1)).unwrap() };
        for garbage in [b"{".to_vec(), b"\xff".to_vec(), Vec::new(), line(0), line(2), wire::bytes(&other)] {
            let mut received = Received::new(64).unwrap();
            received.take_bytes(&[line(0), garbage, line(2), Vec::new()].join(&b'\n')).unwrap();
            let kinds: Vec<_> = received.read().unwrap().map(|line| line.map_err(|e| e.kind())).collect();
            assert!(kinds[0].is_ok() && kinds[2].is_ok(), "{kinds:?}");
            assert_eq!(kinds[1], Err(io::ErrorKind::InvalidData));
            assert!(!received.is_damaged());
            received.mark_unreadable();
            received.end = Some(end_of(3));
            assert!(received.is_damaged() && !received.is_complete());
        }
    }

    #[test]
    fn other_lines_than_the_agent_wrote_are_no_complete_account() {
        let mut received = Received::new(64).unwrap();
        received.end = Some(end_of(2));
        received.take(0, line(0)).unwrap();
        received.take(1, line(7)).unwrap();
        assert!(!received.is_complete() && received.is_damaged());
    }
}
