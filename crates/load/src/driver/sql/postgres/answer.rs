//! Incremental parser of answers of PostgreSQL: reads each byte once, in pieces of any size.
//!
//! Unwanted rows are skipped without being stored. At most one message is stored, and never more than the
//! limit.
//!
//! # Source
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use crate::driver::sql::broken::{self, shortened, state_of, text_of};
#[cfg(feature = "lua")]
use crate::lua::rows::Rows;
use crate::workload::statement::ResultRow;

/// Length limit of a message in a login, and in an answer to a request outside of events.
pub(super) const ASIDE_BYTES_MAX: usize = 1 << 20;

/// Size of a message's type and its length; the length includes itself.
const HEADER_BYTES: usize = 5;

/// Type of the message that completes a statement.
pub(super) const COMMAND_COMPLETE: u8 = b'C';

/// Type of the message that completes a statement without text.
const EMPTY_QUERY: u8 = b'I';

const INCOMPLETE: &str = "an answer ends without its completion";

/// Reason why there is no usable answer, with the SQLSTATE.
pub(super) type Broken = broken::Broken<Code>;

/// An SQLSTATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code([u8; 5]);

impl Code {
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("HY000")
    }
}

/// Transaction status in the server's `ReadyForQuery` message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    Idle,
    InTransaction,
    /// The server only accepts a rollback.
    InFailedTransaction,
}

/// Destination of the rows of an answer.
pub(super) struct Wanted<'a> {
    pub(super) keep: Keep<'a>,
    /// Names of the columns; an answer that describes them replaces them.
    pub(super) columns: &'a mut Vec<String>,
}

/// The rows of an answer that are stored.
pub(super) enum Keep<'a> {
    Last(&'a mut ResultRow),
    /// All, as the server sent them.
    #[cfg(feature = "lua")]
    All(&'a mut Rows),
}

impl Keep<'_> {
    /// Whether the number of rows that a statement changed is of use.
    fn counts(&self) -> bool {
        match self {
            Self::Last(_) => false,
            #[cfg(feature = "lua")]
            Self::All(_) => true,
        }
    }

    /// Bytes of an answer that is stored whole.
    fn stored_bytes(&self) -> usize {
        match self {
            Self::Last(_) => 0,
            #[cfg(feature = "lua")]
            Self::All(rows) => rows.stored_bytes(),
        }
    }
}

/// Reads one answer, until the server is ready for the next request.
#[derive(Debug)]
pub(super) struct Reader {
    /// Length limit of a message.
    bytes_max: usize,
    /// Bytes to skip that have not arrived yet.
    skip: usize,
    /// Type of the message that completes the request.
    completion: u8,
    is_complete: bool,
    refused: Option<Broken>,
}

impl Reader {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, skip: 0, completion: COMMAND_COMPLETE, is_complete: false, refused: None }
    }

    /// Begins the next answer.
    ///
    /// - `completion`: type of the message that completes the request.
    pub(super) fn begin(&mut self, completion: u8) {
        *self = Self { completion, ..Self::new(self.bytes_max) };
    }

    /// Reads the next bytes; returns the number of bytes consumed, and the transaction status at the end of
    /// the answer.
    ///
    /// - `is_end`: the server has closed its side. It sends the reason, if any, before.
    pub(super) fn hear(
        &mut self,
        input: &[u8],
        is_end: bool,
        wanted: &mut Option<Wanted<'_>>,
    ) -> (usize, Option<Result<Ready, Broken>>) {
        let mut taken = 0;
        let end = loop {
            let skipped = self.skip.min(input.len() - taken);
            (taken, self.skip) = (taken + skipped, self.skip - skipped);
            if self.skip > 0 {
                break None;
            }
            match self.step(&input[taken..], wanted) {
                Ok(Step::More) => break None,
                Ok(Step::Took(bytes)) => taken += bytes,
                Ok(Step::Ready(bytes, ready)) => {
                    taken += bytes;
                    break Some(match self.refused.take() {
                        Some(refused) => Err(refused),
                        // A server that is ready without having done anything has executed no statement.
                        None if !self.is_complete => Err(Broken::Garbled(INCOMPLETE)),
                        None => Ok(ready),
                    });
                }
                Err(broken) => break Some(Err(self.refused.take().unwrap_or(broken))),
            }
        };
        match end {
            None if is_end => (taken, self.refused.take().map(Err)),
            end => (taken, end),
        }
    }

    fn step(&mut self, input: &[u8], wanted: &mut Option<Wanted<'_>>) -> Result<Step, Broken> {
        let Some((kind, length)) = header(input, self.bytes_max)? else { return Ok(Step::More) };
        self.is_complete |=
            kind == self.completion || kind == EMPTY_QUERY && self.completion == COMMAND_COMPLETE;
        let is_unseen = match kind {
            b'D' | b'T' => wanted.is_none(),
            b'C' => !wanted.as_ref().is_some_and(|wanted| wanted.keep.counts()),
            // Completions, notices, settings, notifications, rows of a COPY.
            b'Z' | b'E' | b'G' | b'W' => false,
            _ => true,
        };
        if is_unseen {
            self.skip = length;
            return Ok(Step::Took(HEADER_BYTES));
        }
        let Some(body) = input[HEADER_BYTES..].get(..length) else { return Ok(Step::More) };
        let bytes = HEADER_BYTES + length;
        match (kind, &mut *wanted) {
            (b'Z', _) => {
                let ready = match body {
                    b"I" => Ready::Idle,
                    b"T" => Ready::InTransaction,
                    _ => Ready::InFailedTransaction,
                };
                return Ok(Step::Ready(bytes, ready));
            }
            (b'E', _) => self.refused = self.refused.take().or(Some(refusal(body))),
            (b'D', Some(wanted)) => wanted.take_row(body)?,
            (b'T', Some(wanted)) => wanted.take_names(body)?,
            (b'C', Some(wanted)) => wanted.take_end(body),
            _ => return Err(Broken::Garbled("the server requests COPY data: COPY is not supported")),
        }
        wanted.as_ref().map_or(Ok(()), |wanted| wanted.check(self.bytes_max))?;
        Ok(Step::Took(bytes))
    }
}

/// Result of reading a message.
enum Step {
    /// The message is incomplete.
    More,
    /// Number of bytes consumed.
    Took(usize),
    /// Number of bytes after which the answer ends, and the transaction status.
    Ready(usize, Ready),
}

/// The type of the next message and the length of its body; `None` if they have not arrived.
fn header(input: &[u8], bytes_max: usize) -> Result<Option<(u8, usize)>, Broken> {
    let Some(([kind, length @ ..], _)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    let length = length.checked_sub(4).ok_or(INVALID_LENGTH)?;
    if length > bytes_max {
        return Err(Broken::too_long(length, bytes_max));
    }
    Ok(Some((*kind, length)))
}

/// A message: its type, its body, and its length in bytes.
pub(super) type Message<'a> = (u8, &'a [u8], usize);

/// The next message; `None` if it is incomplete.
pub(super) fn message(input: &[u8], bytes_max: usize) -> Result<Option<Message<'_>>, Broken> {
    let Some((kind, length)) = header(input, bytes_max)? else { return Ok(None) };
    Ok(input[HEADER_BYTES..].get(..length).map(|body| (kind, body, HEADER_BYTES + length)))
}

/// An error with its SQLSTATE and message.
pub(super) fn refusal(body: &[u8]) -> Broken {
    let field = |wanted: u8| {
        let mut fields = body.split(|b| *b == 0);
        fields.find_map(|field| field.strip_prefix(&[wanted])).unwrap_or_default()
    };
    let state = state_of(field(b'C'));
    Broken::Refused { state, code: Code(state), message: shortened(field(b'M')) }
}

const CUT_SHORT: Broken = Broken::Garbled("a message is truncated");
const INVALID_LENGTH: Broken = Broken::Garbled("a message has an invalid length");

fn read_names(body: &[u8], names: &mut Vec<String>) -> Result<(), Broken> {
    names.clear();
    let (count, mut rest) = body.split_first_chunk().ok_or(CUT_SHORT)?;
    for _ in 0..u16::from_be_bytes(*count) {
        let end = rest.iter().position(|b| *b == 0).ok_or(CUT_SHORT)?;
        names.push(text_of(&rest[..end]));
        // Table, number, type, its size and modifier, format.
        rest = rest.get(end + 1 + 18..).ok_or(CUT_SHORT)?;
    }
    Ok(())
}

impl Wanted<'_> {
    fn take_names(&mut self, body: &[u8]) -> Result<(), Broken> {
        match &mut self.keep {
            Keep::Last(_) => read_names(body, self.columns),
            #[cfg(feature = "lua")]
            Keep::All(rows) => {
                let (count, _) = body.split_first_chunk().ok_or(CUT_SHORT)?;
                rows.begin_set(u16::from_be_bytes(*count).into());
                Ok(())
            }
        }
    }

    fn take_row(&mut self, body: &[u8]) -> Result<(), Broken> {
        match &mut self.keep {
            Keep::Last(row) => read_row(body, row, self.columns),
            #[cfg(feature = "lua")]
            Keep::All(rows) => {
                rows.push_row(body);
                Ok(())
            }
        }
    }

    /// Refuses an answer that takes more memory than the limit.
    fn check(&self, bytes_max: usize) -> Result<(), Broken> {
        let bytes = self.keep.stored_bytes();
        if bytes > bytes_max { Err(Broken::too_long(bytes, bytes_max)) } else { Ok(()) }
    }

    /// Reads the end of a statement, such as `UPDATE 3`: the last word is a number of rows, if there is any.
    #[cfg_attr(
        not(feature = "lua"),
        expect(unused_variables, clippy::unused_self, reason = "only Lua keeps whole answers")
    )]
    fn take_end(&mut self, tag: &[u8]) {
        #[cfg(feature = "lua")]
        if let Keep::All(rows) = &mut self.keep
            && !rows.close_set()
        {
            let tag = std::str::from_utf8(tag).unwrap_or_default().trim_end_matches('\0');
            rows.push_done(tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0));
        }
    }
}

/// Length of a field; `None`: NULL.
pub(super) fn field_length(bytes: [u8; 4]) -> Result<Option<usize>, Broken> {
    match i32::from_be_bytes(bytes) {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| INVALID_LENGTH),
    }
}

fn read_row(body: &[u8], row: &mut ResultRow, columns: &[String]) -> Result<(), Broken> {
    if row.rows == 0 {
        row.names.clear();
        row.names.extend_from_slice(columns);
    }
    row.rows += 1;
    row.values.clear();
    let (count, mut rest) = body.split_first_chunk().ok_or(CUT_SHORT)?;
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk().ok_or(CUT_SHORT)?;
        let Some(length) = field_length(*length)? else {
            row.values.push(None);
            rest = after;
            continue;
        };
        let (value, after) = after.split_at_checked(length).ok_or(CUT_SHORT)?;
        row.values.push(Some(text_of(value)));
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of an answer that arrives in pieces of `step` bytes, followed by the end of the connection.
    fn end_of(input: &[u8], step: usize, mut wanted: Option<Wanted<'_>>) -> Option<Result<Ready, Broken>> {
        let mut reader = Reader::new(1 << 20);
        let mut left = Vec::new();
        for piece in input.chunks(step).chain([&[][..]]) {
            left.extend_from_slice(piece);
            let (taken, end) = reader.hear(&left, piece.is_empty(), &mut wanted);
            left.drain(..taken);
            if end.is_some() {
                return end;
            }
        }
        None
    }

    #[test]
    fn an_answer_is_read_to_its_end_however_it_is_cut_and_its_last_row_kept() {
        let sent =
            b"2\0\0\0\x04D\0\0\0\x0f\0\x02\0\0\0\x01\x37\xff\xff\xff\xffC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05T";
        for step in [1, 2, 5, 7, 1000] {
            let (mut row, mut columns) = (ResultRow::default(), vec!["n".to_owned(), "t".to_owned()]);
            let wanted = Wanted { keep: Keep::Last(&mut row), columns: &mut columns };
            assert_eq!(end_of(sent, step, Some(wanted)).unwrap().unwrap(), Ready::InTransaction);
            assert_eq!((row.rows, row.names, row.values), (1, columns, vec![Some("7".to_owned()), None]));
            assert_eq!(end_of(sent, step, None).unwrap().unwrap(), Ready::InTransaction);
            for cut in 0..sent.len() {
                assert!(end_of(&sent[..cut], step, None).is_none(), "{cut} bytes are no whole answer");
            }
        }
    }

    #[test]
    fn a_field_shorter_than_null_is_damage() {
        for length in [-2, i32::MIN] {
            let sent = [b"D\0\0\0\x0a\0\x01", &length.to_be_bytes()[..]].concat();
            let (mut row, mut columns) = (ResultRow::default(), Vec::new());
            let wanted = Wanted { keep: Keep::Last(&mut row), columns: &mut columns };
            let end = end_of(&sent, 100, Some(wanted));
            assert!(matches!(end, Some(Err(Broken::Garbled(_)))), "{length}");
        }
    }

    #[test]
    fn of_a_long_answer_nothing_is_held_but_the_beginning_of_a_message() {
        let mut whole = b"D\0\0\0\x0b\0\x01\0\0\0\x017".repeat(300_000);
        whole.extend_from_slice(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
        let (mut reader, mut left, mut ended) = (Reader::new(1 << 20), Vec::new(), false);
        for piece in whole.chunks(64 << 10) {
            left.extend_from_slice(piece);
            let (taken, end) = reader.hear(&left, false, &mut None);
            left.drain(..taken);
            // No byte is parsed twice.
            assert!(left.len() < HEADER_BYTES, "{} bytes are held", left.len());
            ended = end.is_some();
        }
        assert!(ended);
    }

    #[test]
    fn an_error_is_told_also_where_the_server_closes_after_it() {
        let error = b"E\0\0\0\x23SERROR\0C40P01\0Mdeadlock found\0\0";
        for after in [&b"Z\0\0\0\x05I"[..], b"", b"Z\0"] {
            let sent = [&error[..], after].concat();
            let Some(Err(Broken::Refused { code, message, .. })) = end_of(&sent, 3, None) else { panic!() };
            assert_eq!((code.as_str(), message.as_str()), ("40P01", "deadlock found"));
        }
        assert!(end_of(b"Z\0\0", 1, None).is_none());
    }

    #[test]
    fn an_answer_without_its_completion_is_none() {
        let ends = |completion: u8, sent: &[u8]| {
            let mut reader = Reader::new(1 << 20);
            reader.begin(completion);
            reader.hear(sent, false, &mut None).1.unwrap()
        };
        let (end, row) = (b"Z\0\0\0\x05I", b"D\0\0\0\x0b\0\x01\0\0\0\x017");
        let (done, empty) = (b"C\0\0\0\x0dSELECT 1\0", b"I\0\0\0\x04");
        let (parsed, closed) = (b"1\0\0\0\x04", b"3\0\0\0\x04");
        for (completion, said, is_well) in [
            (b'C', &b""[..], false),
            (b'C', row, false),
            (b'C', b"2\0\0\0\x04", false),
            (b'C', parsed, false),
            (b'C', closed, false),
            (b'C', done, true),
            (b'C', empty, true),
            (b'1', b"", false),
            (b'1', done, false),
            (b'1', empty, false),
            (b'1', parsed, true),
            (b'3', b"", false),
            (b'3', closed, true),
        ] {
            let ended = ends(completion, &[said, end].concat());
            assert_eq!(ended.is_ok(), is_well, "{} {said:?}", char::from(completion));
            assert!(is_well || matches!(ended, Err(Broken::Garbled(text)) if text.contains("completion")));
        }
        // The next answer needs its own.
        let mut reader = Reader::new(1 << 20);
        assert!(reader.hear(&[&done[..], end].concat(), false, &mut None).1.unwrap().is_ok());
        reader.begin(b'C');
        assert!(reader.hear(end, false, &mut None).1.unwrap().is_err());
    }

    #[test]
    fn what_no_server_announces_is_refused_before_it_has_come() {
        let refused = |sent: &[u8]| end_of(sent, 100, None).unwrap().unwrap_err();
        assert!(matches!(refused(b"Z\0\0\0\x01"), Broken::Garbled(_)));
        for kind in [b'D', b'T', b'E', b'Z', b'S'] {
            assert!(matches!(refused(&[kind, 0x7f, 0xff, 0xff, 0xff]), Broken::TooLong { .. }));
        }
        assert!(matches!(refused(b"G\0\0\0\x07\0\0\0"), Broken::Garbled(_)));
    }
}
