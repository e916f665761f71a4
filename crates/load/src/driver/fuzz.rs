//! Properties of the readers for any bytes that a server may send; fuzz targets and tests call them.
//!
//! A reader gives the same result however its input is split, consumes at most its input, stores at most its
//! limit, and never panics.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use record::target::Target;
use socket2::Socket;

use crate::driver::readers;
use crate::net::{Dialogue, Parsed};
use crate::schedule::random::Random;

/// Most bytes that a reader may store in these checks.
const BYTES_MAX: usize = 64 << 10;

/// Result of reading an input.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Incomplete answer.
    Open,
    /// Complete answer.
    Answer,
    /// Not an answer.
    Refused,
}

/// Answers to statements of MySQL and MariaDB, prepared ones and text, and their rows as scripts read them.
pub fn mysql(input: &[u8]) {
    for form in [readers::MySqlForm::Passed, readers::MySqlForm::Binary, readers::MySqlForm::Text] {
        alike(input, || {
            let mut hear = readers::mysql(form, BYTES_MAX);
            move |input: &[u8], _: bool| hear(input)
        });
    }
    #[cfg(feature = "lua")]
    for is_binary in [false, true] {
        alike(input, || {
            let mut hear = readers::mysql_rows(is_binary, BYTES_MAX);
            move |input: &[u8], _: bool| hear(input)
        });
    }
}

/// Answers to statements of PostgreSQL, and their rows as scripts read them.
pub fn postgres(input: &[u8]) {
    for keeps in [false, true] {
        alike(input, || readers::postgres(keeps, BYTES_MAX));
    }
    #[cfg(feature = "lua")]
    for fields in [0, 3] {
        alike(input, || readers::postgres_rows(fields, BYTES_MAX));
    }
}

/// Answers of Redis in both versions of its protocol.
pub fn redis(input: &[u8]) {
    dialogue(input, "redis://127.0.0.1");
    dialogue(input, "redis://127.0.0.1?resp=3");
}

/// Answers of memcached in both of its protocols.
pub fn memcached(input: &[u8]) {
    dialogue(input, "memcached://127.0.0.1");
    dialogue(input, "memcached://127.0.0.1?protocol=meta");
}

/// Answers of HTTP/1.1.
pub fn http_one(input: &[u8]) {
    alike(input, || spoken(readers::http(false)));
}

/// Answers of HTTP/2. The library that reads them may report an error at a different piece.
pub fn http_two(input: &[u8]) {
    for step in [usize::MAX, 7] {
        end_of(input, step, spoken(readers::http(true)));
    }
}

/// The server's side of a login to MySQL or MariaDB.
pub fn mysql_login(input: &[u8]) {
    login(input, readers::mysql_login);
}

/// The server's side of a login to PostgreSQL.
pub fn postgres_login(input: &[u8]) {
    login(input, readers::postgres_login);
}

/// A server that sends `input`, whatever it hears, and then closes. A login ends, and never panics.
fn login(input: &[u8], log_in: fn(Socket) -> bool) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair is created");
    // Bytes that do not fit the socket's buffer are not sent.
    theirs.set_nonblocking(true).expect("the socket does not block");
    let _ = (&theirs).write(input);
    theirs.shutdown(Shutdown::Write).expect("the socket is connected");
    log_in(OwnedFd::from(ours).into());
}

fn dialogue(input: &[u8], target: &str) {
    let target = Target::new(target);
    alike(input, || {
        let dialogue = readers::cache(&target, BYTES_MAX as u64);
        spoken(dialogue)
    });
    // The same input as the answer to a greeting.
    alike(input, || {
        let mut dialogue = readers::cache(&target, BYTES_MAX as u64);
        dialogue.greet(&mut Vec::new());
        move |input: &[u8], _: bool| found(dialogue.hear_greeting(input))
    });
}

/// A dialogue after its first request.
fn spoken(mut dialogue: Box<dyn Dialogue>) -> impl FnMut(&[u8], bool) -> (usize, Option<bool>) {
    let mut out = Vec::new();
    dialogue.greet(&mut out);
    dialogue.ask(Random::of(1, 1), &mut out);
    move |input, is_end| {
        let heard = found(dialogue.hear(input, is_end));
        out.clear();
        dialogue.reply(&mut out);
        heard
    }
}

fn found(heard: Parsed) -> (usize, Option<bool>) {
    (heard.taken, heard.answer.map(|answer| answer.is_ok()))
}

/// Reads the input whole and in pieces; the results must be equal.
fn alike<H: FnMut(&[u8], bool) -> (usize, Option<bool>)>(input: &[u8], mut reader: impl FnMut() -> H) {
    let whole = end_of(input, usize::MAX, reader());
    for step in [1, 5, 1_000] {
        assert_eq!(whole, end_of(input, step, reader()), "in pieces of {step}");
    }
}

fn end_of(input: &[u8], step: usize, mut hear: impl FnMut(&[u8], bool) -> (usize, Option<bool>)) -> End {
    let mut left = Vec::new();
    for piece in input.chunks(step.min(input.len().max(1))).chain([&[][..]]) {
        left.extend_from_slice(piece);
        let (taken, end) = hear(&left, piece.is_empty());
        assert!(taken <= left.len(), "more is taken than there is");
        left.drain(..taken);
        match end {
            Some(true) => return End::Answer,
            Some(false) => return End::Refused,
            None => {}
        }
        let kept_max = 2 * BYTES_MAX + piece.len();
        assert!(left.len() <= kept_max, "{} bytes are kept", left.len());
    }
    End::Open
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A protocol's reader, and an answer of its servers.
    type Answer = (fn(&[u8]), &'static [u8]);

    /// Valid answers, from which damaged ones are derived.
    fn answers() -> Vec<Answer> {
        vec![
            (mysql, MYSQL_TEXT),
            (mysql, MYSQL_BINARY),
            (mysql, b"\x17\0\0\x01\xff\xbd\x04#40001Deadlock found"),
            (mysql, b"\x07\0\0\x01\0\0\0\x02\0\0\0"),
            (mysql_login, MYSQL_LOGIN),
            (postgres_login, POSTGRES_LOGIN),
            (postgres_login, b"R\0\0\0\x17\0\0\0\nSCRAM-SHA-256\0\0"),
            (postgres, POSTGRES_ROWS),
            (postgres, b"E\0\0\0\x23SERROR\0C40P01\0Mdeadlock found\0\0Z\0\0\0\x05I"),
            (redis, b"$4\r\na\r\nb\r\n"),
            (redis, b"%1\r\n$1\r\na\r\n*2\r\n:1\r\n+b\r\n"),
            (redis, b"*1\r\n*1\r\n*1\r\n$-1\r\n"),
            (memcached, b"VALUE k 0 5\r\nE\r\nND\r\nEND\r\n"),
            (memcached, b"VA 3 kfoo\r\nabc\r\n"),
            (http_one, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n"),
            (http_one, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
            (http_two, b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x88"),
        ]
    }

    /// A greeting, a request for another method of login, and the acceptance.
    const MYSQL_LOGIN: &[u8] = b"\x59\0\0\0\x0a5.5.5-10.11.6-MariaDB\0\x04\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0mysql_native_password\0\x2c\0\0\x02\xfemysql_native_password\0abcdefghijklmnopqrst\0\x07\0\0\x04\0\0\0\x02\0\0\0";
    /// A request for an MD5 password, and the acceptance with the session's settings.
    const POSTGRES_LOGIN: &[u8] = b"R\0\0\0\x0c\0\0\0\x05saltR\0\0\0\x08\0\0\0\0S\0\0\0\x16server_version\x0015\0K\0\0\0\x0c\0\0\0\x07\0\0\0\x08Z\0\0\0\x05I";

    const MYSQL_TEXT: &[u8] = b"\x01\0\0\x01\x01\x1b\0\0\x02\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\0\x0b\0\0\0\x03\0\0\0\0\0\x05\0\0\x03\xfe\0\0\x02\0\x03\0\0\x04\x0277\x05\0\0\x05\xfe\0\0\x02\0";
    const POSTGRES_ROWS: &[u8] = b"2\0\0\0\x04T\0\0\0\x1a\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0D\0\0\0\x0b\0\x01\0\0\0\x017C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
    /// A number, a text and a moment in the form of a prepared statement, a row of NULL, and another result
    /// without columns.
    const MYSQL_BINARY: &[u8] = b"\x01\0\0\x01\x03\x1b\0\0\x02\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\0\x0b\0\0\0\x03\0\0\0\0\0\x1b\0\0\x03\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\0\x0b\0\0\0\xfd\0\0\0\0\0\x1b\0\0\x04\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\0\x0b\0\0\0\x0c\0\0\0\0\0\x05\0\0\x05\xfe\0\0\x02\0\x11\0\0\x06\0\0\x07\0\0\0\x02hi\x07\xea\x07\x0b\x1b\x16\x05\0\x02\0\0\x07\0\x1c\x05\0\0\x08\xfe\0\0\x0a\0\x07\0\0\x09\0\0\0\x02\0\0\0";

    /// Otherwise damage would be done to what readers refuse at once.
    #[test]
    fn the_rows_that_are_damaged_are_answers() {
        for (form, answer) in
            [(readers::MySqlForm::Text, MYSQL_TEXT), (readers::MySqlForm::Binary, MYSQL_BINARY)]
        {
            let mut hear = readers::mysql(form, BYTES_MAX);
            assert_eq!(end_of(answer, usize::MAX, |input, _| hear(input)), End::Answer, "{form:?}");
        }
        assert_eq!(end_of(POSTGRES_ROWS, usize::MAX, readers::postgres(true, BYTES_MAX)), End::Answer);
    }

    #[cfg(feature = "lua")]
    #[test]
    fn rows_of_answers_are_decoded_and_an_answer_of_empty_rows_has_an_end() {
        /// Descriptions of the columns, with their end.
        const HEAD_BYTES: usize = 107;
        for (is_binary, answer) in [(false, MYSQL_TEXT), (true, MYSQL_BINARY)] {
            let mut rows = readers::mysql_rows(is_binary, BYTES_MAX);
            assert_eq!(end_of(answer, usize::MAX, |input, _| rows(input)), End::Answer);
        }
        assert_eq!(end_of(POSTGRES_ROWS, usize::MAX, readers::postgres_rows(0, BYTES_MAX)), End::Answer);
        let endless = [&MYSQL_BINARY[..HEAD_BYTES], &b"\0\0\0\x06".repeat(BYTES_MAX)].concat();
        let mut rows = readers::mysql_rows(true, BYTES_MAX);
        assert_eq!(end_of(&endless, usize::MAX, |input, _| rows(input)), End::Refused);
        for endless in [&b"D\0\0\0\x04"[..], b"C\0\0\0\x04"] {
            let endless = endless.repeat(BYTES_MAX);
            let end = end_of(&endless, usize::MAX, readers::postgres_rows(0, BYTES_MAX));
            assert_eq!(end, End::Refused);
        }
    }

    #[test]
    fn logins_are_accepted_as_servers_send_them() {
        for (log_in, input) in [
            (readers::mysql_login as fn(Socket) -> bool, MYSQL_LOGIN),
            (readers::postgres_login, POSTGRES_LOGIN),
        ] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (&theirs).write_all(input).unwrap();
            theirs.shutdown(Shutdown::Write).unwrap();
            assert!(log_in(OwnedFd::from(ours).into()));
        }
    }

    #[test]
    fn a_server_that_requests_a_password_without_end_is_left() {
        // Each answer takes space in the socket of a server that reads nothing: a client that went on would
        // wait for it.
        let endless = b"R\0\0\0\x0c\0\0\0\x05salt".repeat(2_000);
        login(&endless, |socket| {
            assert!(!readers::postgres_login(socket));
            false
        });
    }

    /// Replacement bytes: readers tend to fail at lengths and counts.
    const TELLING: [u8; 12] = [0, 1, 2, 0x7f, 0x80, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, b'9'];

    #[test]
    fn no_damage_to_an_answer_makes_a_reader_fail() {
        for (number, (check, answer)) in (0..).zip(answers()) {
            check(answer);
            let mut random = Random::of(7, number);
            for _ in 0..3_000 {
                let mut damaged = answer.to_vec();
                for _ in 0..=random.bits() % 4 {
                    damage(&mut damaged, &mut random);
                }
                check(&damaged);
            }
        }
    }

    fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
        let mut below = |limit: usize| usize::try_from(random.bits() % (limit.max(1) as u64)).unwrap();
        let (at, how) = (below(bytes.len() + 1), below(5));
        let telling = TELLING[below(TELLING.len())];
        match how {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, telling),
            2 if at < bytes.len() => bytes[at] = telling,
            3 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                let tail = bytes[at.min(bytes.len())..].to_vec();
                bytes.extend_from_slice(&tail);
            }
        }
    }
}
