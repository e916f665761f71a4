//! How a session with PostgreSQL begins: who one is, proved as the server asks.
//!
//! Trust, cleartext, MD5 and SCRAM-SHA-256; the arithmetic of the last two is the crate `postgres-protocol`'s.

use std::io;

use bytes::BytesMut;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::frontend;

use super::codec::{self, Broken};
use crate::driver::wire::Wire;

/// Who logs in, and where.
pub(super) struct Credentials<'a> {
    pub(super) user: &'a str,
    pub(super) password: Option<&'a str>,
    pub(super) database: &'a str,
    /// Settings of the session: `-c name=value ...`.
    pub(super) options: Option<&'a str>,
}

/// What the server says at the beginning of a session.
#[derive(Debug, Default)]
pub(super) struct Welcome {
    pub(super) server_version: Option<String>,
    /// By which a running statement can be cancelled from another connection.
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
}

/// Why there is no session.
#[derive(Debug)]
pub(super) enum LoginError {
    Broken(Broken),
    /// The server asks for a password, and the target has none.
    NoPassword,
    /// The server asks for something that is not known here.
    Unknown(String),
    /// The server does not know the password that it accepted.
    Impostor(io::Error),
}

impl From<Broken> for LoginError {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<io::Error> for LoginError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.into())
    }
}

const AUTHENTICATED: u32 = 0;
const CLEARTEXT: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// Begins a session on a connection that was just made.
pub(super) fn log_in(wire: &mut Wire, who: &Credentials<'_>) -> Result<Welcome, LoginError> {
    let mut out = BytesMut::new();
    let parameters = [("user", who.user), ("database", who.database), ("client_encoding", "UTF8")];
    let more = [("application_name", "bakeoff")].into_iter().chain(who.options.map(|o| ("options", o)));
    frontend::startup_message(parameters.into_iter().chain(more), &mut out)?;
    wire.send(&out)?;
    let mut scram = None;
    let mut welcome = Welcome::default();
    loop {
        let (kind, body) = codec::next(wire)?;
        let body = body.to_vec();
        match kind {
            b'R' => authenticate(wire, &body, who, &mut scram)?,
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
            b'E' => return Err(codec::refusal(&body).into()),
            b'Z' => return Ok(welcome),
            b'N' => {}
            _ => return Err(Broken::Garbled("this is no PostgreSQL server").into()),
        }
    }
}

fn authenticate(
    wire: &mut Wire,
    body: &[u8],
    who: &Credentials<'_>,
    scram: &mut Option<sasl::ScramSha256>,
) -> Result<(), LoginError> {
    const CUT_SHORT: LoginError = LoginError::Broken(Broken::Garbled("a message is cut short"));
    let (method, rest) = body.split_first_chunk().ok_or(CUT_SHORT)?;
    let password = || who.password.ok_or(LoginError::NoPassword);
    let mut out = BytesMut::new();
    match u32::from_be_bytes(*method) {
        AUTHENTICATED => return Ok(()),
        CLEARTEXT => frontend::password_message(password()?.as_bytes(), &mut out)?,
        MD5 => {
            let salt = rest.try_into().map_err(|_| CUT_SHORT)?;
            let hash = md5_hash(who.user.as_bytes(), password()?.as_bytes(), salt);
            frontend::password_message(hash.as_bytes(), &mut out)?;
        }
        SASL => {
            let mut mechanisms = rest.split(|b| *b == 0);
            if !mechanisms.any(|m| m == sasl::SCRAM_SHA_256.as_bytes()) {
                let names = String::from_utf8_lossy(rest).replace('\0', " ");
                return Err(LoginError::Unknown(format!("SASL with {}", names.trim())));
            }
            let binding = sasl::ChannelBinding::unsupported();
            let new = scram.insert(sasl::ScramSha256::new(password()?.as_bytes(), binding));
            frontend::sasl_initial_response(sasl::SCRAM_SHA_256, new.message(), &mut out)?;
        }
        SASL_CONTINUE => {
            let scram = scram.as_mut().ok_or(CUT_SHORT)?;
            scram.update(rest).map_err(LoginError::Impostor)?;
            frontend::sasl_response(scram.message(), &mut out)?;
        }
        SASL_FINAL => {
            let scram = scram.as_mut().ok_or(CUT_SHORT)?;
            return scram.finish(rest).map_err(LoginError::Impostor);
        }
        other => {
            let name = match other {
                2 => "Kerberos 5".to_owned(),
                7 => "GSSAPI".to_owned(),
                9 => "SSPI".to_owned(),
                n => format!("method {n}"),
            };
            return Err(LoginError::Unknown(name));
        }
    }
    Ok(wire.send(&out)?)
}
