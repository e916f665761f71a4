//! HTTP/1.1 on one connection: a request, and its answer to the last byte, in pieces of any size.
//!
//! # Source
//!
//! RFC 9112, HTTP/1.1.

use std::sync::Arc;

use super::checksum::Checksum;
use super::requests::{Asked, Request, is_close};
use super::writer::{Writer, judge, path_of};
use crate::connection::{Answer, Failure, FailureClass};
use crate::net::{Dialogue, Go, Parsed, judge_early, line};
use crate::schedule::random::Random;

/// Length limit of an answer's head.
const HEAD_MAX: usize = 64 * 1024;

/// Dialogue of one connection.
pub(super) struct DialogueOne {
    requests: Arc<Vec<Request>>,
    weights: f64,
    asked: Asked,
    part: Part,
    status: u16,
    closes: bool,
    body: Checksum,
    /// Whether the `Server` header is read.
    looks: bool,
    server: Option<String>,
    writer: Writer,
    /// Path of the last request, if its answer may set cookies.
    path: Vec<u8>,
    /// Reason if the request could not be written.
    problem: Option<Failure>,
}

/// Next part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    /// A body with this many bytes left.
    Length(u64),
    ChunkHead,
    /// A chunk with this many bytes left, and its line end.
    Chunk(u64),
    Trailer,
    /// All bytes until the server closes.
    Rest,
}

impl Dialogue for DialogueOne {
    fn greet(&mut self, _: &mut Vec<u8>) {}

    fn hear_greeting(&mut self, _: &[u8]) -> Parsed {
        Parsed::MORE
    }

    fn ask(&mut self, mut random: Random, out: &mut Vec<u8>) {
        (self.part, self.closes, self.body) = (Part::Head, false, Checksum::default());
        match self.writer.choose(&self.requests, self.weights, &mut random) {
            Ok(asked) => self.asked = asked,
            Err(problem) => return self.problem = Some(problem),
        }
        let (request, start) = (&self.requests[self.asked.request], out.len());
        if let Err(text) = self.writer.write(request, &mut random, out) {
            out.truncate(start);
            let text = format!("{}: {text}", request.name);
            self.problem = Some(Failure::new(FailureClass::Application, text));
        }
        if self.writer.jar.is_some() {
            self.path.clear();
            self.path.extend_from_slice(path_of(&out[start..]));
        }
    }

    fn go_on(&mut self, _: &mut Vec<u8>) -> Go {
        self.problem.take().map_or(Go::Wait, |problem| Go::Ended(Err(problem)))
    }

    fn has_left(&self) -> bool {
        self.problem.is_some()
    }

    fn hear(&mut self, input: &[u8], is_end: bool) -> Parsed {
        if let Some(problem) = self.problem.take() {
            return Parsed { taken: 0, answer: Some(Err(problem)) };
        }
        let mut taken = 0;
        loop {
            match self.take(&input[taken..], is_end) {
                Step::Took(bytes) => taken += bytes,
                Step::More => return Parsed { taken, answer: None },
                Step::Whole(bytes) => {
                    return Parsed {
                        taken: taken + bytes,
                        answer: Some(judge(&self.requests, self.asked, self.status, self.body)),
                    };
                }
                Step::Garbage => return Parsed::garbage(&input[taken..]),
            }
        }
    }

    /// Some servers announce that they close an idle connection, by an unrequested answer: 408. Any other
    /// answer would be taken for that to the next request.
    fn hear_unasked(&mut self, input: &[u8]) -> Parsed {
        if input.is_empty() {
            return Parsed::MORE;
        }
        if !self.closes && !begins_timeout(input) {
            return Parsed::unrequested();
        }
        self.closes = true;
        Parsed { taken: input.len(), answer: None }
    }

    /// A server may refuse a request before it has all of it, such as a body that is too large (RFC 9112,
    /// section 9.5). The connection ends: bytes of the request may be taken for another one.
    fn judge_early(&mut self, has_begun: bool, answer: Result<Answer, Failure>) -> Result<Answer, Failure> {
        self.closes = true;
        if has_begun && self.status >= 400 { answer } else { judge_early(has_begun, answer) }
    }

    fn asked(&self) -> Option<usize> {
        Some(self.asked.request)
    }

    fn may_repeat(&self) -> bool {
        self.requests[self.asked.request].may_repeat
    }

    fn closes(&self) -> bool {
        self.closes
    }

    fn server(&self) -> Option<String> {
        self.server.clone()
    }
}

/// Result of reading some bytes of an answer.
enum Step {
    /// Number of bytes consumed; the next part begins.
    Took(usize),
    /// The bytes are incomplete.
    More,
    /// Number of bytes after which the answer is complete.
    Whole(usize),
    Garbage,
}

impl DialogueOne {
    pub(super) fn new(requests: Arc<Vec<Request>>, looks: bool, writer: Writer) -> Self {
        let weights = requests.iter().map(|r| r.weight).sum();
        Self {
            requests,
            weights,
            asked: Asked::default(),
            part: Part::Head,
            status: 0,
            closes: false,
            body: Checksum::default(),
            looks,
            server: None,
            writer,
            path: Vec::new(),
            problem: None,
        }
    }

    fn take(&mut self, input: &[u8], is_end: bool) -> Step {
        match self.part {
            Part::Head => self.take_head(input),
            Part::Length(left) => {
                let bytes = within(left, input.len());
                self.sum(&input[..bytes]);
                self.part = Part::Length(left - bytes as u64);
                match self.part {
                    Part::Length(0) => Step::Whole(bytes),
                    _ if bytes == 0 => Step::More,
                    _ => Step::Took(bytes),
                }
            }
            Part::ChunkHead => match line(input) {
                Some((size, taken)) => {
                    let digits = size.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
                    match number(digits, 16) {
                        Some(0) => self.part = Part::Trailer,
                        Some(size) => self.part = Part::Chunk(size),
                        None => return Step::Garbage,
                    }
                    Step::Took(taken)
                }
                None => more_of(input),
            },
            Part::Chunk(0) => match input.strip_prefix(b"\r\n") {
                Some(_) => {
                    self.part = Part::ChunkHead;
                    Step::Took(2)
                }
                None if b"\r\n".starts_with(input) => Step::More,
                None => Step::Garbage,
            },
            Part::Chunk(left) => {
                let bytes = within(left, input.len());
                self.sum(&input[..bytes]);
                self.part = Part::Chunk(left - bytes as u64);
                if bytes == 0 { Step::More } else { Step::Took(bytes) }
            }
            Part::Trailer => match line(input) {
                Some((b"", taken)) => Step::Whole(taken),
                Some((_, taken)) => Step::Took(taken),
                None => more_of(input),
            },
            Part::Rest => {
                self.sum(input);
                match (is_end, input.len()) {
                    (true, bytes) => Step::Whole(bytes),
                    (false, 0) => Step::More,
                    (false, bytes) => Step::Took(bytes),
                }
            }
        }
    }

    fn take_head(&mut self, input: &[u8]) -> Step {
        let head = match Head::read(input) {
            Ok(Some(head)) => head,
            Ok(None) => return more_of(input),
            Err(NoHead) => return Step::Garbage,
        };
        if head.status < 200 {
            // An interim answer: the final one follows.
            return Step::Took(head.bytes);
        }
        self.status = head.status;
        // A server may ignore that the request ends the connection.
        self.closes = head.closes || self.requests[self.asked.request].closes;
        if self.looks {
            let text = String::from_utf8_lossy(&input[..head.bytes]);
            let mut headers = text.lines().filter_map(|header| header.split_once(':'));
            let server = headers.find(|(name, _)| name.eq_ignore_ascii_case("server"));
            self.server = server.map(|(_, name)| name.trim().to_owned());
        }
        if let Some(jar) = &mut self.writer.jar {
            let lines = input[..head.bytes].split(|b| *b == b'\n');
            for cookie in lines.filter_map(set_cookie) {
                jar.take(cookie, &self.path);
            }
        }
        let has_body = self.requests[self.asked.request].has_answer_body && !matches!(head.status, 204 | 304);
        self.part = match (head.length, head.is_chunked) {
            _ if !has_body => return Step::Whole(head.bytes),
            (_, true) => Part::ChunkHead,
            (Some(0), _) => return Step::Whole(head.bytes),
            (Some(length), _) => Part::Length(length),
            (None, _) => {
                self.closes = true;
                Part::Rest
            }
        };
        Step::Took(head.bytes)
    }

    /// Adds to the checksum, but only if the body is checked: an unchecked body costs nothing but its
    /// reading.
    fn sum(&mut self, body: &[u8]) {
        if self.requests[self.asked.request].body_checksum.is_some() {
            self.body.add(body);
        }
    }
}

/// The value of a `Set-Cookie` header.
fn set_cookie(line: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"set-cookie:";
    let (name, value) = line.split_at_checked(NAME.len())?;
    name.eq_ignore_ascii_case(NAME).then(|| value.trim_ascii())
}

/// Whether the input begins an answer 408, Request Timeout, as far as it has come.
fn begins_timeout(input: &[u8]) -> bool {
    let begins = |answer: &[u8]| answer.starts_with(input) || input.starts_with(answer);
    begins(b"HTTP/1.1 408") || begins(b"HTTP/1.0 408")
}

/// A number of digits only: the library would also accept a sign, and servers disagree about it.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let has_sign = digits.first().is_some_and(|first| !first.is_ascii_hexdigit());
    let digits = std::str::from_utf8(digits).ok().filter(|_| !has_sign)?;
    u64::from_str_radix(digits, radix).ok()
}

fn within(left: u64, bytes: usize) -> usize {
    usize::try_from(left).map_or(bytes, |left| left.min(bytes))
}

fn more_of(input: &[u8]) -> Step {
    if input.len() < HEAD_MAX { Step::More } else { Step::Garbage }
}

/// Fields of an answer's head that describe its body.
#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    /// Length of the body, if the head states it.
    length: Option<u64>,
    is_chunked: bool,
    /// The server accepts no other request on this connection.
    closes: bool,
    /// Length of the head itself.
    bytes: usize,
}

/// The bytes are not a head of HTTP/1.
#[derive(Debug, PartialEq, Eq)]
struct NoHead;

impl Head {
    /// Parses a head; `None` if it is incomplete.
    fn read(input: &[u8]) -> Result<Option<Self>, NoHead> {
        const START: &[u8] = b"HTTP/1.";
        let known = input.len().min(START.len());
        if input[..known] != START[..known] {
            return Err(NoHead);
        }
        let Some((first, mut bytes)) = line(input) else { return Ok(None) };
        let status = first.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let status = status.filter(|s| (100..600).contains(s)).ok_or(NoHead)?;
        let is_old = first[START.len()] == b'0';
        let mut head = Self { status, length: None, is_chunked: false, closes: is_old, bytes };
        while let Some((header, taken)) = line(&input[bytes..]) {
            bytes += taken;
            if header.is_empty() {
                return Ok(Some(Self { bytes, ..head }));
            }
            head.take_in(header)?;
        }
        Ok(None)
    }

    /// Most headers are irrelevant here, and their first letter shows it.
    fn take_in(&mut self, header: &[u8]) -> Result<(), NoHead> {
        if !matches!(header[0], b'c' | b'C' | b't' | b'T') {
            return Ok(());
        }
        let Some(colon) = header.iter().position(|b| *b == b':') else { return Ok(()) };
        let (name, value) = (&header[..colon], header[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value, 10).ok_or(NoHead)?;
            // Two different lengths: an attacker can use one of them to forge another answer.
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(NoHead);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let last = value.rsplit(|b| *b == b',').next().unwrap_or_default().trim_ascii();
            self.is_chunked = last.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            self.closes = is_close(value) || self.closes && !value.eq_ignore_ascii_case(b"keep-alive");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use record::requests::HttpSettings;

    use super::*;

    fn asker(method: &str) -> DialogueOne {
        asker_with(method, &[])
    }

    fn asker_with(method: &str, headers: &[&str]) -> DialogueOne {
        let headers = headers.iter().map(|header| (*header).to_owned()).collect();
        let http = HttpSettings { method: method.to_owned(), headers, ..HttpSettings::plain() };
        let requests = Arc::new(vec![Request::of(
            &crate::driver::http::authority::Authority::read("h:1").unwrap(),
            "/x",
            &http,
        )]);
        DialogueOne::new(requests, false, Writer::default())
    }

    /// The end of an answer that arrives in pieces of `step` bytes, and the remaining bytes.
    fn heard(
        method: &str,
        input: &[u8],
        step: usize,
        is_end: bool,
    ) -> Option<Result<(u16, bool, usize), String>> {
        let mut asker = asker(method);
        asker.ask(Random::of(1, 1), &mut Vec::new());
        let mut inbox = crate::net::Inbox::default();
        let mut pieces: Vec<&[u8]> = input.chunks(step).collect();
        if is_end {
            pieces.push(b"");
        }
        for (number, piece) in pieces.iter().enumerate() {
            if let Some(answer) = inbox.hear(piece, |input| asker.hear(input, piece.is_empty())) {
                let left = pieces[number + 1..].iter().map(|p| p.len()).sum();
                return Some(answer.map(|_| (asker.status, asker.closes, left)).map_err(|f| f.text));
            }
        }
        None
    }

    #[test]
    fn an_answer_ends_where_it_says_however_it_is_cut() {
        let ok = |status, closes| Some(Ok((status, closes, 0)));
        for (method, input, is_end, expected) in [
            ("GET", &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..], false, ok(200, false)),
            ("GET", b"HTTP/1.1 200 OK\r\ncontent-length:0\r\nConnection: close\r\n\r\n", false, ok(200, true)),
            (
                "GET",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
                false,
                ok(200, false),
            ),
            ("GET", b"HTTP/1.0 200 OK\r\n\r\nuntil the end", true, ok(200, true)),
            ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, ok(200, false)),
            ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, ok(304, false)),
            ("GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false, ok(204, false)),
            ("GET", b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /y\r\n\r\n", false, ok(302, false)),
        ] {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(heard(method, input, step, is_end), expected, "{step} of {input:?}");
            }
            if !is_end {
                assert_eq!(heard(method, &input[..input.len() - 1], 5, false), None, "one byte less");
            }
        }
    }

    #[test]
    fn a_request_that_closes_is_the_last_on_its_connection_whatever_the_server_says() {
        let answer = |connection: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{connection}\r\n");
        for (header, answered, closes) in [
            ("Connection: close", "", true),
            ("connection:  Close", "Connection: keep-alive\r\n", true),
            ("Connection: TE, close", "", true),
            ("Connection: keep-alive", "", false),
            ("X-Connection: close", "", false),
            ("Accept: */*", "Connection: close, x\r\n", true),
        ] {
            let mut asker = asker_with("GET", &[header]);
            // Before the answer it is open: a fresh connection would otherwise be replaced for ever.
            assert!(!asker.closes());
            asker.ask(Random::of(1, 1), &mut Vec::new());
            assert!(asker.hear(answer(answered).as_bytes(), false).answer.is_some_and(|a| a.is_ok()));
            assert_eq!(asker.closes(), closes, "{header} {answered}");
        }
    }

    #[test]
    fn nothing_but_the_announced_end_of_an_idle_connection_comes_unasked() {
        let heard = |pieces: &[&[u8]]| {
            let mut asker = asker("GET");
            let is_well = pieces.iter().all(|piece| asker.hear_unasked(piece).answer.is_none());
            (is_well, asker.closes())
        };
        assert_eq!(heard(&[b""]), (true, false));
        for pieces in [
            &[&b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"[..]][..],
            &[b"HTTP/1.0 408 Request Time-out\r\n\r\n<html>"],
            &[b"HTTP/1.1 4", b"08 Request Timeout\r\n", b"Connection: close\r\n\r\n"],
        ] {
            assert_eq!(heard(pieces), (true, true), "{pieces:?}");
        }
        for input in
            [&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..], b"HTTP/1.1 40x", b"hello", b"\r\n"]
        {
            assert_eq!(heard(&[input]), (false, false), "{input:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_said_to_be_none() {
        for input in [
            &b"SSH-2.0-OpenSSH\r\n"[..],
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nab\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ] {
            assert!(matches!(heard("GET", input, 1000, false), Some(Err(_))), "{input:?}");
        }
        // Another coding than chunks: the body ends with the connection.
        for coding in ["xchunked", "chunked, gzip", "chunked;x"] {
            let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n");
            assert_eq!(heard("GET", answer.as_bytes(), 1000, false), None, "{coding}");
            assert_eq!(heard("GET", answer.as_bytes(), 1000, true), Some(Ok((200, true, 0))), "{coding}");
        }
        for coding in ["chunked", "gzip, Chunked", "gzip,chunked "] {
            let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n");
            assert_eq!(heard("GET", answer.as_bytes(), 7, false), Some(Ok((200, false, 0))), "{coding}");
        }
        let error = heard("GET", b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 1000, false);
        assert!(matches!(&error, Some(Err(text)) if text.contains("500")), "{error:?}");
    }
}
