//! Login to PostgreSQL.
//!
//! Methods: trust, cleartext, MD5 and SCRAM-SHA-256; the crate `postgres-protocol` computes the last two.

use std::fmt::Display;
use std::io;

use bytes::BytesMut;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::frontend;

use super::answer;
use super::answer::ASIDE_BYTES_MAX;
use super::refusal::broken_failure;
use crate::connection::{Failure, FailureClass};
use crate::net::Wire;

/// User, password and database of a login.
pub(super) struct Credentials<'a> {
    pub(super) user: &'a str,
    pub(super) password: Option<&'a str>,
    pub(super) database: &'a str,
    /// Settings of the session: `-c name=value ...`.
    pub(super) options: Option<&'a str>,
    /// Whether the password may be sent in cleartext.
    pub(super) may_be_cleartext: bool,
}

/// Data that the server sends at the start of a session.
#[derive(Debug, Default)]
pub(super) struct Welcome {
    pub(super) server_version: Option<String>,
    /// Identifies the session in a cancel request from another connection.
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
}

const AUTHENTICATED: u32 = 0;
const CLEARTEXT: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// Largest number of requests for authentication; SCRAM takes four.
const REQUESTS_MAX: u32 = 8;

/// Asks the server for TLS on a new connection.
pub(super) fn ask_for_tls(wire: &mut Wire) -> Result<(), Failure> {
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    wire.send(&out)?;
    let answer = wire.hear(|input, _| match input.first() {
        None => (0, None),
        Some(answer) => (1, Some(*answer)),
    })?;
    match answer {
        b'S' => Ok(()),
        b'N' => Err(configuration(
            "the server does not support TLS: give it a certificate (ssl = on), or leave tls= out",
        )),
        _ => Err(garbled(NO_SERVER)),
    }
}

/// Logs in on a new connection.
pub(super) fn log_in(wire: &mut Wire, who: &Credentials<'_>) -> Result<Welcome, Failure> {
    let mut out = BytesMut::new();
    let parameters = [("user", who.user), ("database", who.database), ("client_encoding", "UTF8")];
    let more = [("application_name", "bakeoff")].into_iter().chain(who.options.map(|o| ("options", o)));
    frontend::startup_message(parameters.into_iter().chain(more), &mut out).map_err(|e| unwritable(&e))?;
    wire.send(&out)?;
    let (mut scram, mut is_in) = (None, false);
    let (mut welcome, mut requests) = (Welcome::default(), 0);
    loop {
        let (kind, body) = next(wire)?;
        match kind {
            b'R' if requests == REQUESTS_MAX => {
                return Err(garbled("the server requests authentication again and again"));
            }
            b'R' => {
                requests += 1;
                is_in = authenticate(wire, &body, who, &mut scram)?;
            }
            b'S' => {
                let mut words = body.split(|b| *b == 0);
                if words.next() == Some(b"server_version") {
                    welcome.server_version = words.next().map(|v| String::from_utf8_lossy(v).into_owned());
                }
            }
            b'K' => {
                let number = |from: usize| body.get(from..from + 4).and_then(|b| b.try_into().ok());
                welcome.process_id = number(0).map_or(0, i32::from_be_bytes);
                welcome.secret_key = number(4).map_or(0, i32::from_be_bytes);
            }
            b'E' => return Err(broken_failure(answer::refusal(&body))),
            b'Z' if is_in => return Ok(welcome),
            b'Z' => {
                check_proof(scram.as_ref())?;
                return Err(garbled(NO_SERVER));
            }
            b'N' => {}
            _ => return Err(garbled(NO_SERVER)),
        }
    }
}

/// The exchange of a login by SCRAM.
struct Scram {
    exchange: sasl::ScramSha256,
    /// The server has proved that it knows the password.
    is_proven: bool,
}

/// Fails if the server has begun SCRAM and not proved that it knows the password.
fn check_proof(scram: Option<&Scram>) -> Result<(), Failure> {
    match scram {
        Some(Scram { is_proven: false, .. }) => Err(impostor(&"it ended the login before the proof")),
        _ => Ok(()),
    }
}

fn impostor(reason: &dyn Display) -> Failure {
    configuration(&format!("the server did not prove that it knows the password: {reason}"))
}

/// The next message: its type and its body.
fn next(wire: &mut Wire) -> Result<(u8, Vec<u8>), Failure> {
    wire.hear(|input, _| match answer::message(input, ASIDE_BYTES_MAX) {
        Ok(None) => (0, None),
        Ok(Some((kind, body, taken))) => (taken, Some(Ok((kind, body.to_vec())))),
        Err(broken) => (0, Some(Err(broken_failure(broken)))),
    })?
}

/// Answers a request for authentication; returns whether the server lets the client in.
fn authenticate(
    wire: &mut Wire,
    body: &[u8],
    who: &Credentials<'_>,
    scram: &mut Option<Scram>,
) -> Result<bool, Failure> {
    let cut_short = || garbled("a message is truncated");
    let (method, rest) = body.split_first_chunk().ok_or_else(cut_short)?;
    let password = || {
        who.password.map(str::as_bytes).ok_or_else(|| {
            configuration(
                "the server requests a password: add it to the target, as in postgres://USER:PASSWORD@HOST/DATABASE",
            )
        })
    };
    let mut out = BytesMut::new();
    match u32::from_be_bytes(*method) {
        AUTHENTICATED => return check_proof(scram.as_ref()).map(|()| true),
        CLEARTEXT if !who.may_be_cleartext => {
            return Err(configuration(
                "the server requests the password in cleartext, which an attacker could read on the network, \
                 or with a fake socket in a world-writable directory: use scram-sha-256 for this user, \
                 verify the server with ?tls=verify-full, or add ?cleartext=1 to the target to send it anyway",
            ));
        }
        CLEARTEXT => frontend::password_message(password()?, &mut out),
        MD5 => {
            let salt = rest.try_into().map_err(|_| cut_short())?;
            let hash = md5_hash(who.user.as_bytes(), password()?, salt);
            frontend::password_message(hash.as_bytes(), &mut out)
        }
        // A second exchange would hash the password again.
        SASL if scram.is_some() => {
            return Err(garbled("the server started the login a second time"));
        }
        SASL => {
            let mut mechanisms = rest.split(|b| *b == 0);
            if !mechanisms.any(|m| m == sasl::SCRAM_SHA_256.as_bytes()) {
                let names = String::from_utf8_lossy(rest).replace('\0', " ");
                return Err(unknown(&format!("SASL with {}", names.trim())));
            }
            let binding = sasl::ChannelBinding::unsupported();
            let exchange = sasl::ScramSha256::new(password()?, binding);
            let new = scram.insert(Scram { exchange, is_proven: false });
            frontend::sasl_initial_response(sasl::SCRAM_SHA_256, new.exchange.message(), &mut out)
        }
        SASL_CONTINUE => {
            let scram = scram.as_mut().ok_or_else(cut_short)?;
            check_work(rest)?;
            scram.exchange.update(rest).map_err(|e| impostor(&e))?;
            frontend::sasl_response(scram.exchange.message(), &mut out)
        }
        SASL_FINAL => {
            let scram = scram.as_mut().ok_or_else(cut_short)?;
            scram.exchange.finish(rest).map_err(|e| impostor(&e))?;
            scram.is_proven = true;
            return Ok(false);
        }
        other => {
            return Err(match other {
                2 => unknown("Kerberos 5"),
                7 => unknown("GSSAPI"),
                9 => unknown("SSPI"),
                n => unknown(&format!("method {n}")),
            });
        }
    }
    .map_err(|e| unwritable(&e))?;
    wire.send(&out).map(|()| false)
}

/// Limit of hash iterations that a server may request: 4,096 is usual, and a million takes about a second.
const ITERATIONS_MAX: u64 = 1_000_000;

/// Checks that the server requests at most [`ITERATIONS_MAX`] iterations.
///
/// # Source
///
/// RFC 5802, Salted Challenge Response Authentication Mechanism, section 5.1: `i`.
fn check_work(challenge: &[u8]) -> Result<(), Failure> {
    let count = challenge.split(|b| *b == b',').find_map(|part| part.strip_prefix(b"i="));
    let count = count.and_then(|count| std::str::from_utf8(count).ok()?.parse::<u64>().ok());
    match count {
        Some(count) if count > ITERATIONS_MAX => Err(configuration(&format!(
            "the server requests {count} hash iterations of the password, over the limit of {ITERATIONS_MAX}"
        ))),
        _ => Ok(()),
    }
}

const NO_SERVER: &str = "this is not a PostgreSQL server";

fn unknown(method: &str) -> Failure {
    configuration(&format!(
        "the server requests {method}, which is not supported: use scram-sha-256, md5, password or trust for this user"
    ))
}

fn unwritable(error: &io::Error) -> Failure {
    garbled(&error.to_string())
}

fn garbled(text: &str) -> Failure {
    Failure::new(FailureClass::Connection, text)
}

fn configuration(text: &str) -> Failure {
    Failure::new(FailureClass::Configuration, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_not_keep_us_hashing() {
        assert!(check_work(b"r=abc,s=def,i=4096").is_ok());
        for count in ["1000001", "4294967295"] {
            let challenge = format!("r=abc,s=def,i={count}");
            let failure = check_work(challenge.as_bytes()).unwrap_err();
            assert!(failure.text.contains(count), "{}", failure.text);
        }
    }
}
