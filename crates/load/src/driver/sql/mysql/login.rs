//! Login to MySQL or MariaDB.
//!
//! Methods: `mysql_native_password`, `caching_sha2_password`, `client_ed25519` and, only over TLS that
//! verifies the server or a socket of this machine, the cleartext password.
//!
//! # Source
//!
//! <https://mariadb.com/kb/en/connection/>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html>

use super::answer::{self, Broken, ERR, OK, packet};
use super::codec::write_header;
use super::cursor::Cursor;
use super::format::HEADER_BYTES;
use super::proof;
use super::refusal::broken_failure;
use crate::connection::{Failure, FailureClass};
use crate::net::Wire;
use crate::net::tls::Plan;

/// Length limit of a packet in a login.
const LOGIN_BYTES_MAX: usize = 64 << 10;
/// Limit of steps in a login, so a server cannot keep it going forever; no login needs this many.
const STEPS_MAX: usize = 20;

/// Capabilities of client and server.
mod capability {
    /// Server flag: this is MySQL; its clients do not know MariaDB's capabilities.
    pub(super) const MYSQL: u32 = 1;
    pub(super) const LONG_FLAG: u32 = 1 << 2;
    pub(super) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(super) const PROTOCOL_41: u32 = 1 << 9;
    pub(super) const TLS: u32 = 1 << 11;
    pub(super) const TRANSACTIONS: u32 = 1 << 13;
    pub(super) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(super) const MULTI_STATEMENTS: u32 = 1 << 16;
    pub(super) const MULTI_RESULTS: u32 = 1 << 17;
    pub(super) const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub(super) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(super) const PLUGIN_AUTH_LENGTH: u32 = 1 << 21;
    /// MariaDB flag: the server may omit the columns of a prepared statement.
    pub(super) const MARIADB_CACHE_METADATA: u32 = 1 << 4;
}

/// `utf8mb4_general_ci`, which all versions of both know.
const COLLATION: u8 = 45;
const AUTH_SWITCH: u8 = 0xfe;
const AUTH_MORE: u8 = 0x01;
/// Replies of `caching_sha2_password`: the password is cached, or the client must send it in cleartext.
const SHA2_KNOWN: u8 = 3;
const SHA2_SHOW: u8 = 4;

/// User, password and database of a login.
pub(super) struct Credentials<'a> {
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    pub(super) database: &'a str,
    /// The connection cannot be read by others: TLS that verifies the server, or a socket of this machine, in
    /// a place that no other user can write to.
    pub(super) is_private: bool,
}

/// First message of a server.
#[derive(Debug, PartialEq, Eq)]
struct Greeting {
    version: String,
    capabilities: u32,
    mariadb_capabilities: u32,
    nonce: Vec<u8>,
    plugin: String,
}

/// Logs in on a new connection; returns the server's version.
pub(super) fn log_in(wire: &mut Wire, who: &Credentials<'_>, tls: Option<&Plan>) -> Result<String, Failure> {
    let (payload, _) = receive(wire)?;
    let greeting = Greeting::read(&payload).map_err(broken_failure)?;
    let is_mysql = greeting.capabilities & capability::MYSQL != 0;
    let mut capabilities = capability::LONG_FLAG
        | capability::CONNECT_WITH_DB
        | capability::PROTOCOL_41
        | capability::TRANSACTIONS
        | capability::SECURE_CONNECTION
        | capability::MULTI_STATEMENTS
        | capability::MULTI_RESULTS
        | capability::PS_MULTI_RESULTS
        | capability::PLUGIN_AUTH
        | capability::PLUGIN_AUTH_LENGTH;
    if is_mysql {
        capabilities |= capability::MYSQL;
    }
    let mut number = 1;
    let mut head = Vec::new();
    if let Some(plan) = tls {
        if greeting.capabilities & capability::TLS == 0 {
            return Err(configuration(
                "the server does not support TLS: give it a certificate, or leave tls= out",
            ));
        }
        capabilities |= capability::TLS;
        write_head(capabilities, &greeting, &mut head);
        send(wire, &head, number)?;
        number += 1;
        wire.start_tls(plan)?;
    } else {
        write_head(capabilities, &greeting, &mut head);
    }
    let mut session = Session { wire, who, plugin: greeting.plugin, nonce: greeting.nonce };
    let proof = session.proof()?;
    head.extend_from_slice(who.user.as_bytes());
    head.push(0);
    write_bytes(&proof, &mut head);
    head.extend_from_slice(who.database.as_bytes());
    head.push(0);
    head.extend_from_slice(session.plugin.as_bytes());
    head.push(0);
    send(session.wire, &head, number)?;
    session.prove()?;
    Ok(greeting.version)
}

/// A login in progress.
struct Session<'a> {
    wire: &'a mut Wire,
    who: &'a Credentials<'a>,
    plugin: String,
    nonce: Vec<u8>,
}

impl Session<'_> {
    /// Answers the server's requests until it accepts the login.
    fn prove(&mut self) -> Result<(), Failure> {
        for _ in 0..STEPS_MAX {
            let (payload, number) = receive(self.wire)?;
            match payload.split_first() {
                Some((&OK, _)) => return Ok(()),
                Some((&ERR, _)) => return Err(broken_failure(answer::refusal(&payload))),
                Some((&AUTH_SWITCH, rest)) => {
                    let (plugin, nonce) = split_at_zero(rest);
                    self.plugin = String::from_utf8_lossy(plugin).into_owned();
                    self.nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce).to_vec();
                    let proof = self.proof()?;
                    send(self.wire, &proof, number.wrapping_add(1))?;
                }
                Some((&AUTH_MORE, [SHA2_KNOWN])) => {}
                Some((&AUTH_MORE, [SHA2_SHOW])) => {
                    let password = self.shown()?;
                    send(self.wire, &password, number.wrapping_add(1))?;
                }
                _ => return Err(garbled("the server sent an unexpected packet during the login")),
            }
        }
        Err(garbled("the login takes too many steps"))
    }

    /// Proof of the password for the plugin.
    fn proof(&self) -> Result<Vec<u8>, Failure> {
        let password = self.who.password.as_bytes();
        match self.plugin.as_str() {
            "mysql_native_password" | "" => Ok(proof::native(password, &self.nonce)),
            "caching_sha2_password" => Ok(proof::caching_sha2(password, &self.nonce)),
            "client_ed25519" => Ok(proof::ed25519(password, &self.nonce)),
            "mysql_clear_password" | "sha256_password" => self.shown(),
            other => Err(configuration(&format!(
                "the server requests the authentication plugin `{other}`, which is not supported: use \
                 mysql_native_password, caching_sha2_password or ed25519 for this user"
            ))),
        }
    }

    /// The password in cleartext.
    fn shown(&self) -> Result<Vec<u8>, Failure> {
        if !self.who.is_private {
            return Err(configuration(
                "the server requests the password in cleartext, which an attacker on the network could read: \
                 add ?tls=verify-full to the target, or connect through the server's Unix socket, in a directory \
                 that no other user can write to",
            ));
        }
        Ok([self.who.password.as_bytes(), &[0]].concat())
    }
}

impl Greeting {
    fn read(payload: &[u8]) -> Result<Self, Broken> {
        const NO_SERVER: Broken = Broken::Garbled("this is not a MariaDB or MySQL server");
        match payload.first() {
            Some(&ERR) => return Err(answer::refusal(payload)),
            Some(10) => {}
            _ => return Err(NO_SERVER),
        }
        let (version, rest) = split_at_zero(&payload[1..]);
        let mut rest = Cursor(rest);
        let _thread: [u8; 4] = rest.array()?;
        let first: [u8; 8] = rest.array()?;
        let [_filler, low0, low1, _collation, _status0, _status1, high0, high1, nonce_bytes] =
            rest.array()?;
        let [_, _, _, _, _, _, mariadb @ ..] = rest.array::<10>()?;
        let second_bytes = usize::from(nonce_bytes).saturating_sub(first.len()).max(13).min(rest.0.len());
        let second = rest.split(second_bytes)?;
        let (plugin, _) = split_at_zero(rest.0);
        let capabilities = u32::from_le_bytes([low0, low1, high0, high1]);
        let mariadb_capabilities =
            if capabilities & capability::MYSQL == 0 { u32::from_le_bytes(mariadb) } else { 0 };
        Ok(Self {
            version: String::from_utf8_lossy(version).into_owned(),
            capabilities,
            mariadb_capabilities,
            nonce: [&first, second.strip_suffix(&[0]).unwrap_or(second)].concat(),
            plugin: String::from_utf8_lossy(plugin).into_owned(),
        })
    }
}

/// Writes the capabilities, the packet limit, the collation and MariaDB's extensions.
fn write_head(capabilities: u32, greeting: &Greeting, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&capabilities.to_le_bytes());
    out.extend_from_slice(&(1u32 << 30).to_le_bytes());
    out.push(COLLATION);
    out.extend_from_slice(&[0; 19]);
    let mariadb = greeting.mariadb_capabilities & capability::MARIADB_CACHE_METADATA;
    out.extend_from_slice(&mariadb.to_le_bytes());
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    // A proof or a password; its length is encoded in one byte or in three.
    match u8::try_from(bytes.len()) {
        Ok(length) if length < 0xfb => out.push(length),
        _ => {
            out.push(0xfc);
            out.extend_from_slice(&bytes.len().to_le_bytes()[..2]);
        }
    }
    out.extend_from_slice(bytes);
}

fn send(wire: &mut Wire, payload: &[u8], number: u8) -> Result<(), Failure> {
    let mut out = vec![0; HEADER_BYTES];
    write_header(&mut out, payload.len(), number.into());
    out.extend_from_slice(payload);
    wire.send(&out)
}

/// The next packet and its sequence number.
fn receive(wire: &mut Wire) -> Result<(Vec<u8>, u8), Failure> {
    let heard = wire.hear(|input, _| match packet(input, LOGIN_BYTES_MAX) {
        Ok(None) => (0, None),
        Ok(Some((payload, taken))) => (taken, Some(Ok((payload.to_vec(), input[3])))),
        Err(broken) => (0, Some(Err(broken))),
    });
    heard?.map_err(broken_failure)
}

fn garbled(text: &str) -> Failure {
    Failure::new(FailureClass::Connection, text)
}

fn configuration(text: &str) -> Failure {
    Failure::new(FailureClass::Configuration, text)
}

fn split_at_zero(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A greeting of MariaDB 10.11.
    const GREETING: &[u8] = b"\x0a5.5.5-10.11.6-MariaDB\0\x04\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0mysql_native_password\0";

    #[test]
    fn a_greeting_is_read_and_any_part_of_it_is_not_one() {
        let greeting = Greeting::read(GREETING).unwrap();
        assert_eq!(greeting.version, "5.5.5-10.11.6-MariaDB");
        assert_eq!(
            (greeting.nonce.as_slice(), greeting.plugin.as_str()),
            (&b"abcdefghijklmnopqrst"[..], "mysql_native_password")
        );
        assert_eq!(greeting.capabilities & capability::MYSQL, 0);
        assert_ne!(greeting.mariadb_capabilities & capability::MARIADB_CACHE_METADATA, 0);
        for cut in 0..GREETING.len() {
            // The prefix may be refused or parsed as a greeting without a plugin; it must not panic.
            let _ = Greeting::read(&GREETING[..cut]);
        }
        assert!(matches!(
            Greeting::read(b"\xff\x10\x04Too many connections"),
            Err(Broken::Refused { code: 1040, .. })
        ));
        assert!(matches!(Greeting::read(b"SSH-2.0-OpenSSH"), Err(Broken::Garbled(_))));
    }
}
