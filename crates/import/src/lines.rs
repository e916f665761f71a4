//! An input, line by line, in constant memory.

use crate::error::{ImportError, Place, Tool};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Maximum length of a line. No tool prints longer ones, so a longer line is not text.
const LINE_BYTES_MAX: usize = 64 * 1024;

const BUFFER_BYTES: usize = 64 * 1024;

/// Source of the text.
#[expect(missing_debug_implementations, reason = "a reader has nothing to show")]
pub enum Input<'a> {
    /// A file or another reader that ends.
    Whole(Box<dyn Read + 'a>),
    /// A tool that still runs. After a silence of `pause`, the parser passes on the sample that it has read
    /// so far.
    Live {
        /// Output of the tool.
        from: Box<dyn Read + Send>,
        /// Silence after which a sample counts as complete.
        pause: Duration,
    },
}

/// One line, without its end (`\n` or `\r\n`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Line number, from 1.
    pub(crate) number: u64,
    /// Bytes of the line.
    pub(crate) bytes: &'a [u8],
    /// Whether a line end follows. The last line of a truncated file has none.
    pub(crate) ended: bool,
}

impl Line<'_> {
    /// Returns the place of byte `at` of this line, counted from 0.
    pub(crate) fn place(&self, at: usize) -> Place {
        Place { line: self.number, column: at as u64 + 1 }
    }
}

/// A parser that receives the input line by line.
pub(crate) trait LineParser {
    /// Takes the next line.
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError>;

    /// Called when a live input pauses: a parser that waits for the end of a sample passes it on.
    fn pause(&mut self) -> Result<(), ImportError> {
        Ok(())
    }

    /// Called at the end of the input, after `lines` lines.
    fn end(&mut self, lines: u64) -> Result<(), ImportError>;
}

/// Passes every line of `input` to `parser`.
pub(crate) fn parse(input: Input<'_>, tool: Tool, parser: &mut dyn LineParser) -> Result<(), ImportError> {
    let mut lines = Lines { tool, number: 0, line: Vec::new() };
    match input {
        Input::Whole(from) => lines.feed(&mut BufReader::with_capacity(BUFFER_BYTES, from), parser)?,
        Input::Live { from, pause } => {
            let mut chunks = Chunks { receiver: receive(from), rest: Vec::new(), at: 0 };
            loop {
                match chunks.wait(pause) {
                    Wait::Data => lines.feed_buffered(&mut chunks, parser)?,
                    Wait::Nothing => parser.pause()?,
                    Wait::End(None) => break,
                    Wait::End(Some(source)) => {
                        return Err(ImportError::Read { line: lines.number + 1, source });
                    }
                }
            }
            lines.finish(parser)?;
        }
    }
    parser.end(lines.number)
}

/// Splits bytes into lines. Stores the beginning of a line until its end arrives.
struct Lines {
    tool: Tool,
    number: u64,
    line: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, from: &mut dyn BufRead, parser: &mut dyn LineParser) -> Result<(), ImportError> {
        loop {
            match from.fill_buf() {
                Ok([]) => return self.finish(parser),
                Ok(_) => self.feed_buffered(from, parser)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(ImportError::Read { line: self.number + 1, source }),
            }
        }
    }

    /// Consumes only the bytes that `from` has buffered.
    fn feed_buffered(
        &mut self,
        from: &mut dyn BufRead,
        parser: &mut dyn LineParser,
    ) -> Result<(), ImportError> {
        // The caller has filled the buffer: this call cannot fail and does not read.
        let chunk = from.fill_buf().map_err(|source| ImportError::Read { line: self.number + 1, source })?;
        let length = chunk.len();
        let mut rest = chunk;
        while let Some(end) = newline(rest) {
            if self.line.is_empty() {
                self.deliver(&rest[..end], true, parser)?;
            } else {
                self.line.extend_from_slice(&rest[..end]);
                let line = std::mem::take(&mut self.line);
                self.deliver(&line, true, parser)?;
                self.line = line;
                self.line.clear();
            }
            rest = &rest[end + 1..];
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LINE_BYTES_MAX {
            return Err(self.too_long());
        }
        from.consume(length);
        Ok(())
    }

    /// Passes on the rest of the input, a line without an end.
    fn finish(&mut self, parser: &mut dyn LineParser) -> Result<(), ImportError> {
        if self.line.is_empty() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.line);
        self.deliver(&line, false, parser)
    }

    fn deliver(&mut self, bytes: &[u8], ended: bool, parser: &mut dyn LineParser) -> Result<(), ImportError> {
        if bytes.len() > LINE_BYTES_MAX {
            return Err(self.too_long());
        }
        self.number += 1;
        let mut bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if self.number == 1 {
            refuse_packed(bytes, self.tool)?;
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        parser.line(Line { number: self.number, bytes, ended })
    }

    fn too_long(&self) -> ImportError {
        ImportError::Unexpected {
            place: Place { line: self.number + 1, column: LINE_BYTES_MAX as u64 + 1 },
            found: format!("a line of more than {LINE_BYTES_MAX} bytes"),
            expected: format!("the text of {}", self.tool).into(),
        }
    }
}

/// Returns the offset of the first line end.
fn newline(bytes: &[u8]) -> Option<usize> {
    // Eight bytes at a time: exclusive-or turns a newline into a zero byte, and the usual bit trick finds
    // zero bytes.
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    const NEWLINES: u64 = ONES * b'\n' as u64;
    let (words, tail) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let zeroed = u64::from_le_bytes(*word) ^ NEWLINES;
        let zeros = zeroed.wrapping_sub(ONES) & !zeroed & HIGHS;
        if zeros != 0 {
            return Some(8 * i + zeros.trailing_zeros() as usize / 8);
        }
    }
    tail.iter().position(|&b| b == b'\n').map(|at| 8 * words.len() + at)
}

/// Refuses compressed input and wide text, which their first bytes identify.
fn refuse_packed(line: &[u8], tool: Tool) -> Result<(), ImportError> {
    const MAGIC: [(&[u8], &str, &str); 8] = [
        (b"\x1f\x8b", "gzip data", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstd data", "zstdcat"),
        (b"\xfd7zXZ", "xz data", "xzcat"),
        (b"BZh", "bzip2 data", "bzcat"),
        (b"\x1f\x9d", "compress data", "zcat"),
        (b"\x04\x22\x4d\x18", "lz4 data", "lz4cat"),
        (b"PK\x03\x04", "a zip archive", "unzip -p"),
        (b"\xff\xfe", "UTF-16 text", "iconv -f UTF-16 -t UTF-8"),
    ];
    match MAGIC.iter().find(|(magic, ..)| line.starts_with(magic)) {
        Some(&(_, format, unpack)) => Err(ImportError::Packed { format, unpack, tool }),
        None => Ok(()),
    }
}

/// Message from the thread that reads a live input.
type Chunk = Result<Vec<u8>, std::io::Error>;

/// Reads in a separate thread, so the parser can wait with a timeout.
fn receive(mut from: Box<dyn Read + Send>) -> Receiver<Chunk> {
    let (sender, receiver) = sync_channel(4);
    // The thread ends with its input, or when the receiver has been dropped.
    std::thread::spawn(move || {
        loop {
            let mut chunk = vec![0; BUFFER_BYTES];
            let read = match from.read(&mut chunk) {
                Ok(0) => return,
                Ok(n) => {
                    chunk.truncate(n);
                    Ok(chunk)
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            let failed = read.is_err();
            if sender.send(read).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// A live input as a buffered reader.
struct Chunks {
    receiver: Receiver<Chunk>,
    rest: Vec<u8>,
    at: usize,
}

enum Wait {
    Data,
    Nothing,
    End(Option<std::io::Error>),
}

impl Chunks {
    fn wait(&mut self, pause: Duration) -> Wait {
        match self.receiver.recv_timeout(pause) {
            Ok(Ok(chunk)) => {
                self.rest = chunk;
                self.at = 0;
                Wait::Data
            }
            Ok(Err(e)) => Wait::End(Some(e)),
            Err(RecvTimeoutError::Timeout) => Wait::Nothing,
            Err(RecvTimeoutError::Disconnected) => Wait::End(None),
        }
    }
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = (&self.rest[self.at..]).read(into)?;
        self.at += n;
        Ok(n)
    }
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        Ok(&self.rest[self.at..])
    }

    fn consume(&mut self, n: usize) {
        self.at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the calls.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl LineParser for Log {
        fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
            let end = if line.ended { "$" } else { "" };
            self.0.push(format!("{} {}{end}", line.number, String::from_utf8_lossy(line.bytes)));
            Ok(())
        }

        fn pause(&mut self) -> Result<(), ImportError> {
            self.0.push("pause".into());
            Ok(())
        }

        fn end(&mut self, lines: u64) -> Result<(), ImportError> {
            self.0.push(format!("end {lines}"));
            Ok(())
        }
    }

    fn log(bytes: &[u8]) -> Vec<String> {
        let mut log = Log::default();
        parse(Input::Whole(Box::new(bytes)), Tool::Mpstat, &mut log).unwrap();
        log.0
    }

    #[test]
    fn both_line_ends_and_none_at_the_end_make_lines() {
        assert_eq!(log(b"a\r\n\nb"), ["1 a$", "2 $", "3 b", "end 3"]);
        assert_eq!(log(b""), ["end 0"]);
        assert_eq!(log(b"\xef\xbb\xbfa\n"), ["1 a$", "end 1"]);
    }

    #[test]
    fn lines_longer_than_the_buffer_are_whole_or_refused() {
        let line = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(log(&line)[0].len(), 2 + LINE_BYTES_MAX);
        let longer = vec![b'x'; LINE_BYTES_MAX + 1];
        let refused = parse(Input::Whole(Box::new(&longer[..])), Tool::Mpstat, &mut Log::default());
        assert!(refused.unwrap_err().to_string().contains("more than 65536 bytes"));
    }

    #[test]
    fn the_newline_is_found_at_every_offset() {
        for length in 0..40 {
            for at in 0..length {
                let mut bytes = vec![0x8a; length];
                bytes[at] = b'\n';
                assert_eq!(newline(&bytes), Some(at));
                bytes[at] = 0x0b;
                assert_eq!(newline(&bytes), None);
            }
        }
    }

    #[test]
    fn packed_input_is_refused_with_the_command_that_unpacks_it() {
        let refused =
            parse(Input::Whole(Box::new(&b"\x1f\x8b\x08"[..])), Tool::Lockstat, &mut Log::default());
        assert_eq!(
            refused.unwrap_err().to_string(),
            "1:1: found gzip data, expected text: unpack it first, as in `zcat FILE | bakeoff import lockstat -`"
        );
    }

    #[test]
    fn a_live_input_pauses_where_its_writer_does() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let pause = Duration::from_millis(1);
        let reading = std::thread::spawn(move || {
            let mut log = Log::default();
            parse(Input::Live { from: Box::new(reader), pause }, Tool::Mpstat, &mut log).unwrap();
            log.0
        });
        std::io::Write::write_all(&mut writer, b"a\nb").unwrap();
        drop(writer);
        let mut seen = reading.join().unwrap();
        seen.retain(|line| line != "pause");
        assert_eq!(seen, ["1 a$", "2 b", "end 2"]);
    }
}
