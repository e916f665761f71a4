//! Access logs of web servers: when each request was made, and which.
//!
//! Reads the common and combined formats of Apache and nginx, with or without a virtual host before them, and
//! lines of JSON. The log is read once, line by line, in constant memory but for eight bytes a request: the
//! requests themselves go to a [`Store`].
//!
//! **Times.** A due time is exact to the microsecond of the log's resolution, counted from the first request.
//! Requests with the same timestamp are spread evenly over the resolution of the log (a second in the
//! combined format), in the order of their lines. The order of lines is kept: a line that is up to
//! [`DISORDER_S`] older than one before it is due together with that one. So is an older one, such as that of
//! a long request in Apache's log, if the lines after it go on from the lines before it. If they do not, the
//! clock was set back, and the replay continues where it was.
//!
//! **Left out.** Hosts, addresses, users, referrers and user agents are not read. Values of the query that
//! look like credentials are replaced. Lines that are no request, or one that must not be sent again, are
//! counted by their [`Reason`].

mod combined;
mod due;
mod json;
mod path;
mod reason;
mod request;
mod store;
mod time;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use record::replay::{Logged, Method};

pub use self::due::{Back, DISORDER_S};
use self::due::{DueTimes, Steps};
pub use self::reason::Reason;
pub use self::store::{Store, Stored};
use self::time::Stamp;

/// Maximum length of a line. Servers accept no longer requests.
const LINE_BYTES_MAX: usize = 64 * 1024;

const BUFFER_BYTES: usize = 256 * 1024;

/// Methods that are replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Methods {
    /// Only those that ask for nothing but an answer.
    Safe,
    /// All of [`Method::ALL`], without the bodies that logs do not have.
    All,
}

/// An access log that was read.
#[derive(Debug)]
pub struct AccessLog {
    /// Due times of the requests in nanoseconds since the first, at the log's own speed; in order.
    pub due_ns: Vec<u64>,
    /// Account of all lines.
    pub account: Account,
}

/// Account of the lines of a log: `lines = requests + left_out`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Number of lines, without empty ones.
    pub lines: u64,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests of each method.
    pub methods: BTreeMap<Method, u64>,
    /// Lines that are left out: how many, and the number of the first.
    pub left_out: BTreeMap<Reason, (u64, u64)>,
    /// Number of secrets that were replaced.
    pub secrets: u64,
    /// Longest path, in bytes.
    pub path_bytes_max: u64,
    /// Finest resolution of a timestamp, in nanoseconds.
    pub resolution_ns: u64,
    /// Lines that were written up to [`DISORDER_S`] too late.
    pub late_lines: u64,
    /// Older lines, each due with the line before it.
    pub older: Option<Back>,
    /// Lines at which the clock was set back.
    pub set_back: Option<Back>,
}

/// Reason that a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum AccessLogError {
    /// Reading failed.
    #[error("line {line}: cannot read further")]
    Read {
        /// Number of the line.
        line: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// The store failed.
    #[error("cannot store the requests")]
    Store {
        /// Error of the system.
        source: io::Error,
    },
    /// The log is compressed.
    #[error(
        "the log is compressed ({format}): unpack it first, as in `{unpack} FILE | bakeoff load ... --replay -`"
    )]
    Packed {
        /// Compression format.
        format: &'static str,
        /// Command that decompresses it.
        unpack: &'static str,
    },
    /// The log has no request that may be sent.
    #[error("0 of {lines} lines can be replayed: {reasons}")]
    Empty {
        /// Number of lines, with empty ones: the reasons name lines by their place in the file.
        lines: u64,
        /// Reasons, by number.
        reasons: String,
    },
    /// The lines are not in the order of their times.
    #[error(
        "the lines are not in the order of their times: {steps} of {lines} are more than {DISORDER_S} s older than a line \
         before them (first: line {first}); sort the log by time"
    )]
    Unordered {
        /// Number of steps back.
        steps: u64,
        /// Number of lines.
        lines: u64,
        /// First line that steps back.
        first: u64,
    },
}

impl Account {
    /// Number of lines that are left out.
    pub fn left_out_in_all(&self) -> u64 {
        self.left_out.values().map(|(count, _)| count).sum()
    }

    /// Reasons of the lines that are left out, with their numbers: `12 without a path (first: line 7)`.
    pub fn reasons(&self) -> String {
        let reason = |(reason, (count, first)): (&Reason, &(u64, u64))| {
            format!("{count} {reason} (first: line {first})")
        };
        self.left_out.iter().map(reason).collect::<Vec<_>>().join(", ")
    }

    fn leave_out(&mut self, reason: Reason, line: u64) {
        self.left_out.entry(reason).or_insert((0, line)).0 += 1;
    }
}

/// One line of a log, parsed.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    stamp: Stamp,
    logged: Logged,
}

/// Reads a log.
///
/// - `store`: receives every request that is replayed, in order.
///
/// # Errors
///
/// [`AccessLogError`], if the log cannot be read or no request of it can be replayed. A line that cannot be
/// read is no error: it is counted.
pub fn read(from: &mut dyn Read, methods: Methods, store: &mut Store) -> Result<AccessLog, AccessLogError> {
    let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
    let mut account = Account::default();
    let mut due = DueTimes::default();
    let (mut line, mut path) = (Vec::new(), Vec::new());
    let mut lines = 0;
    for number in 1.. {
        line.clear();
        let ending = next_line(&mut from, &mut line)
            .map_err(|source| AccessLogError::Read { line: number, source })?;
        if number == 1 {
            refuse_packed(&line)?;
        }
        if ending == Ending::End && line.is_empty() {
            break;
        }
        lines = number;
        let text = line.trim_ascii();
        if !text.is_empty() {
            account.lines += 1;
            let found = if ending == Ending::TooLong {
                Err(Reason::TooLong)
            } else {
                entry(text, methods, &mut path)
            };
            let is_half =
                |reason: &Reason| matches!(reason, Reason::Unreadable | Reason::Time | Reason::NoRequest);
            let found =
                found.map_err(
                    |reason| if ending == Ending::End && is_half(&reason) { Reason::Cut } else { reason },
                );
            match found {
                Ok(entry) => {
                    account.secrets += path::hide_secrets(&mut path);
                    account.path_bytes_max = account.path_bytes_max.max(path.len() as u64);
                    account.requests += 1;
                    *account.methods.entry(entry.logged.method).or_default() += 1;
                    due.push(&entry.stamp, number);
                    store.push(entry.logged, &path).map_err(|source| AccessLogError::Store { source })?;
                }
                Err(reason) => account.leave_out(reason, number),
            }
        }
        if ending == Ending::End {
            break;
        }
    }
    store.flush().map_err(|source| AccessLogError::Store { source })?;
    finished(account, due, lines)
}

/// Steps back beyond which a log is not in order, rather than its clock set: one of so many lines, and more
/// than a few.
const LINES_A_STEP: u64 = 1_000;
const STEPS_MAX: u64 = 10;

/// - `lines`: number of lines, with empty ones.
fn finished(mut account: Account, due: DueTimes, lines: u64) -> Result<AccessLog, AccessLogError> {
    if account.requests == 0 {
        let reasons =
            if account.lines == 0 { "the log has no entries".to_owned() } else { account.reasons() };
        return Err(AccessLogError::Empty { lines, reasons });
    }
    account.resolution_ns = due.resolution_ns();
    let Steps { late_lines, older, set_back } = due.steps();
    (account.late_lines, account.older, account.set_back) = (late_lines, older, set_back);
    let lines = [older, set_back].into_iter().flatten();
    let steps = lines.clone().map(|back| back.lines).sum::<u64>();
    if steps > STEPS_MAX && steps > account.requests / LINES_A_STEP {
        let first = lines.map(|back| back.first).min().unwrap_or(0);
        return Err(AccessLogError::Unordered { steps, lines: account.requests, first });
    }
    Ok(AccessLog { due_ns: due.finish(), account })
}

/// Parses a line; its path goes to `path`.
fn entry(text: &[u8], methods: Methods, path: &mut Vec<u8>) -> Result<Entry, Reason> {
    let (stamp, method, status) =
        if text.first() == Some(&b'{') { json::read(text, path)? } else { combined::read(text, path)? };
    let method = Method::named(&method).ok_or(Reason::OtherMethod)?;
    if methods == Methods::Safe && !method.is_safe() {
        return Err(Reason::UnsafeMethod);
    }
    path::clean(path)?;
    Ok(Entry { stamp, logged: Logged { method, status } })
}

/// The way in which a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Newline,
    /// The input ended.
    End,
    /// The line was skipped.
    TooLong,
}

/// Reads the next line, without its end. Of a line that is too long, only the beginning is stored.
fn next_line(from: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Ending> {
    let mut is_too_long = false;
    loop {
        let chunk = match from.fill_buf() {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if chunk.is_empty() {
            return Ok(if is_too_long { Ending::TooLong } else { Ending::End });
        }
        let end = chunk.iter().position(|b| *b == b'\n');
        let length = end.unwrap_or(chunk.len());
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&chunk[..length.min(room)]);
        is_too_long |= length > room;
        from.consume(end.map_or(length, |end| end + 1));
        if end.is_some() {
            return Ok(if is_too_long { Ending::TooLong } else { Ending::Newline });
        }
    }
}

fn refuse_packed(head: &[u8]) -> Result<(), AccessLogError> {
    let known: [(&[u8], &str, &str); 4] = [
        (b"\x1f\x8b", "gzip", "gunzip -c"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
        (b"\xfd7zXZ\0", "xz", "xzcat"),
        (b"BZh", "bzip2", "bzcat"),
    ];
    match known.into_iter().find(|(magic, ..)| head.starts_with(magic)) {
        Some((_, format, unpack)) => Err(AccessLogError::Packed { format, unpack }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
