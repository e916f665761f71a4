//! Identity and role of a request: from a token, a client certificate, or the user at the other end of a
//! local connection.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use nix::unistd::{Uid, User, geteuid};
use record::clock::{Clock as _, Monotonic};
use rustls::crypto::ring;
use sha2::{Digest as _, Sha256};

use crate::error::ServeError;

/// Life of a browser's session.
const SESSION_NS: u64 = 12 * 3_600 * 1_000_000_000;
/// Most sessions.
const SESSIONS_MAX: usize = 1_000;
/// Shortest token.
const TOKEN_LENGTH_MIN: usize = 20;
/// Largest token file, in bytes.
const TOKEN_FILE_MAX: u64 = 1 << 20;
/// Name of the cookie. Browsers accept the prefix over TLS only, without a domain.
pub(crate) const SESSION_COOKIE: &str = "__Host-bakeoff";

/// Actions that a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Looks at the archive and the queue.
    Read,
    /// The same, and submits plans, which run commands, and removes runs.
    Run,
}

/// Origin of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) role: Role,
    /// Name in the queue and in the audit log.
    pub(crate) name: String,
}

/// Other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A process of this machine, through the socket in the archive.
    Local { uid: u32 },
    /// A TCP connection.
    Tcp {
        address: SocketAddr,
        /// User of a process of this machine at the other end.
        uid: Option<u32>,
        /// Fingerprint of a client certificate that the authority has signed.
        certificate: Option<String>,
    },
}

impl Peer {
    /// Key for limits. Users of this machine have one address and separate limits.
    pub(crate) fn key(&self) -> String {
        self.with_user(network_of)
    }

    /// Name in the audit log.
    pub(crate) fn name(&self) -> String {
        self.with_user(|ip| ip.to_string())
    }

    fn with_user(&self, text: impl Fn(IpAddr) -> String) -> String {
        match self {
            Self::Local { uid } => format!("user {uid}"),
            Self::Tcp { address, uid: Some(uid), .. } => format!("{} user {uid}", text(address.ip())),
            Self::Tcp { address, .. } => text(address.ip()),
        }
    }
}

/// Addresses that one host has: a host chooses the last 64 bits of its IPv6 address.
///
/// # Source
///
/// RFC 4291, section 2.5.1.
fn network_of(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{}/64", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        ip => ip.to_string(),
    }
}

/// Reason that a request has no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// A request without a token.
    NoToken,
    /// A request with a wrong token.
    WrongToken,
    /// Another user of this machine sent it.
    OtherUser,
}

/// Rules by which requests get an identity.
#[derive(Debug)]
pub(crate) struct Access {
    tokens: Option<Vec<Token>>,
    needs_certificate: bool,
    may_run: bool,
    sessions: Mutex<HashMap<String, (Identity, u64)>>,
    /// Value that every form of our pages holds.
    pub(crate) csrf: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    role: Role,
    name: String,
    sha256: String,
}

impl Access {
    /// - `may_run`: whether the server runs plans at all.
    pub(crate) fn new(
        token_file: Option<&Path>,
        needs_certificate: bool,
        may_run: bool,
    ) -> Result<Self, ServeError> {
        let tokens = token_file.map(read_tokens).transpose()?;
        Ok(Self { tokens, needs_certificate, may_run, sessions: Mutex::default(), csrf: secret() })
    }

    /// Whether a browser gets its identity from a token.
    pub(crate) fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// The identity of a request.
    pub(crate) fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<Identity, Unknown> {
        let limited = |identity: Identity| Identity {
            role: if self.may_run { identity.role } else { Role::Read },
            ..identity
        };
        let (uid, certificate) = match peer {
            Peer::Local { uid } => return local(*uid).map(limited).ok_or(Unknown::OtherUser),
            Peer::Tcp { uid, certificate, .. } => (uid, certificate),
        };
        if self.needs_certificate && certificate.is_none() {
            return Err(Unknown::NoToken);
        }
        if let Some(tokens) = &self.tokens {
            return self.by_token(tokens, headers).map(limited);
        }
        if let Some(fingerprint) = certificate {
            return Ok(limited(Identity { role: Role::Run, name: format!("certificate {fingerprint}") }));
        }
        uid.and_then(local).map(limited).ok_or(Unknown::OtherUser)
    }

    fn by_token(&self, tokens: &[Token], headers: &HeaderMap) -> Result<Identity, Unknown> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let given = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
            return given.and_then(|given| holder(tokens, given)).ok_or(Unknown::WrongToken);
        }
        let session = session_in(headers).ok_or(Unknown::NoToken)?;
        let sessions = self.sessions.lock().expect(LOCK);
        let found = sessions.get(&digest(session)).filter(|(_, until)| *until > Monotonic.now_ns());
        found.map(|(identity, _)| identity.clone()).ok_or(Unknown::NoToken)
    }

    /// Whether a request that has an identity would get one now: its session may be over.
    pub(crate) fn still_knows(&self, peer: &Peer, headers: &HeaderMap) -> bool {
        match (&self.tokens, peer) {
            (Some(tokens), Peer::Tcp { .. }) => self.by_token(tokens, headers).is_ok(),
            _ => true,
        }
    }

    /// Ends the session of a request, if it has one.
    pub(crate) fn log_out(&self, headers: &HeaderMap) {
        if let Some(session) = session_in(headers) {
            self.sessions.lock().expect(LOCK).remove(&digest(session));
        }
    }

    /// Whether a form holds the value of our pages. Checksums are compared, as for tokens.
    pub(crate) fn is_own_form(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| digest(value) == digest(&self.csrf))
    }

    /// Begins a session for the holder of a token; returns its secret.
    pub(crate) fn log_in(&self, token: &str) -> Option<String> {
        let identity = holder(self.tokens.as_ref()?, token)?;
        let (session, now_ns) = (secret(), Monotonic.now_ns());
        let mut sessions = self.sessions.lock().expect(LOCK);
        sessions.retain(|_, (_, until)| *until > now_ns);
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, (_, until))| *until).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                sessions.remove(&oldest);
            }
        }
        sessions.insert(digest(&session), (identity, now_ns + SESSION_NS));
        Some(session)
    }
}

const LOCK: &str = "no thread panics while it holds this lock";

/// Secret of the session in a request's cookies.
fn session_in(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == SESSION_COOKIE).map(|(_, session)| session)
}

/// Identity of a user of this machine; `None` if it is neither this process's user nor root.
fn local(uid: u32) -> Option<Identity> {
    if uid != geteuid().as_raw() && uid != 0 {
        return None;
    }
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let name = user.map_or_else(|| format!("user {uid}"), |user| user.name);
    Some(Identity { role: Role::Run, name })
}

fn holder(tokens: &[Token], given: &str) -> Option<Identity> {
    // Checksums are compared, so the time of the comparison says nothing about a token.
    let sha256 = digest(given);
    let found = tokens.iter().find(|token| token.sha256 == sha256)?;
    Some(Identity { role: found.role, name: found.name.clone() })
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// A random text that cannot be guessed.
fn secret() -> String {
    let mut bytes = [0; 32];
    let random = ring::default_provider().secure_random;
    random.fill(&mut bytes).expect("the kernel has randomness");
    hex(&bytes)
}

/// Reads lines `ROLE NAME TOKEN`.
fn read_tokens(path: &Path) -> Result<Vec<Token>, ServeError> {
    let wrong = |why: String| ServeError::Credential { path: path.to_owned(), why };
    let found = std::fs::metadata(path).map_err(|e| wrong(e.to_string()))?;
    if found.mode() & 0o077 != 0 {
        return Err(wrong("other users can read it: run chmod 600".into()));
    }
    if !found.is_file() || found.len() > TOKEN_FILE_MAX {
        return Err(wrong("it is not a file of tokens".into()));
    }
    tokens(&std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?).map_err(wrong)
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read = |(number, line): (usize, &str)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [role, name, token] = words[..] else {
            return Err(format!(
                "line {number}: expected a role, a name and a token, as in `read ann TOKEN`"
            ));
        };
        let role = match role {
            "read" => Role::Read,
            "run" => Role::Run,
            other => return Err(format!("line {number}: `{other}` is not a role, expected `read` or `run`")),
        };
        if token.len() < TOKEN_LENGTH_MIN {
            return Err(format!("line {number}: a token has at least {TOKEN_LENGTH_MIN} characters"));
        }
        Ok(Token { role, name: name.to_owned(), sha256: digest(token) })
    };
    let read: Vec<Token> = lines.map(read).collect::<Result<_, _>>()?;
    if read.is_empty() { Err("it has no token".into()) } else { Ok(read) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a-token-of-twenty-letters";

    fn access(text: &str, may_run: bool) -> Access {
        let tokens = Some(tokens(text).unwrap());
        Access { tokens, needs_certificate: false, may_run, sessions: Mutex::default(), csrf: secret() }
    }

    fn far() -> Peer {
        Peer::Tcp { address: "192.0.2.7:9999".parse().unwrap(), uid: None, certificate: None }
    }

    fn bearer(token: &str) -> HeaderMap {
        [(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn a_token_gives_its_role_and_a_wrong_one_gives_nothing() {
        let access = access(&format!("# people\nread ann {TOKEN}\nrun bob {TOKEN}-2\n"), true);
        let of = |token: &str| access.identify(&far(), &bearer(token));
        assert_eq!(of(TOKEN).unwrap(), Identity { role: Role::Read, name: "ann".into() });
        assert_eq!(of(&format!("{TOKEN}-2")).unwrap().role, Role::Run);
        for wrong in ["", "a", &TOKEN[1..], &format!("{TOKEN} "), "null"] {
            assert_eq!(of(wrong), Err(Unknown::WrongToken), "{wrong}");
        }
        assert_eq!(access.identify(&far(), &HeaderMap::new()), Err(Unknown::NoToken));
    }

    #[test]
    fn one_host_has_one_key_however_many_addresses_it_chooses() {
        let peer =
            |address: &str| Peer::Tcp { address: address.parse().unwrap(), uid: None, certificate: None };
        let key = |address: &str| peer(address).key();
        assert_eq!(key("[2001:db8:1:2::7]:9"), key("[2001:db8:1:2:aaaa:bbbb:cccc:dddd]:9"));
        assert_ne!(key("[2001:db8:1:2::7]:9"), key("[2001:db8:1:3::7]:9"), "another network");
        assert_eq!(key("[::ffff:192.0.2.7]:9"), key("192.0.2.7:9"), "an IPv4 address in the form of IPv6");
        assert_ne!(key("[::ffff:192.0.2.7]:9"), key("[::ffff:192.0.2.8]:9"));
        assert_eq!([key("[::1]:9"), key("192.0.2.7:9")], ["::1", "192.0.2.7"]);
        assert_eq!(peer("[2001:db8:1:2::7]:9").name(), "2001:db8:1:2::7", "the log has the address");
    }

    #[test]
    fn without_a_queue_no_token_may_run_anything() {
        let access = access(&format!("run bob {TOKEN}"), false);
        assert_eq!(access.identify(&far(), &bearer(TOKEN)).unwrap().role, Role::Read);
    }

    #[test]
    fn a_session_is_its_secret_and_not_a_token() {
        let access = access(&format!("run bob {TOKEN}"), true);
        let cookie = |value: &str| -> HeaderMap {
            [(COOKIE, format!("x=y; {SESSION_COOKIE}={value}").parse().unwrap())].into_iter().collect()
        };
        assert_eq!(access.log_in("guess"), None);
        let session = access.log_in(TOKEN).unwrap();
        assert_eq!(access.identify(&far(), &cookie(&session)).unwrap().name, "bob");
        for wrong in [TOKEN, "", &session[1..], &access.csrf] {
            assert_eq!(access.identify(&far(), &cookie(wrong)), Err(Unknown::NoToken), "{wrong}");
        }
    }

    #[test]
    fn a_token_file_says_which_line_is_wrong() {
        for (text, part) in [
            ("read ann", "line 1: expected a role"),
            ("\nadmin ann a-token-of-twenty-letters", "line 2: `admin` is not a role"),
            ("read ann short", "line 1: a token has at least 20"),
            ("# nothing\n", "it has no token"),
        ] {
            assert!(tokens(text).unwrap_err().starts_with(part), "{text}");
        }
    }

    #[test]
    fn other_users_of_this_machine_get_nothing() {
        let access = Access::new(None, false, true).unwrap();
        let other = geteuid().as_raw() + 1;
        let peer = |uid| Peer::Tcp { address: "127.0.0.1:9".parse().unwrap(), uid, certificate: None };
        for peer in [peer(Some(other)), peer(None), Peer::Local { uid: other }] {
            assert_eq!(access.identify(&peer, &HeaderMap::new()), Err(Unknown::OtherUser), "{peer:?}");
        }
        let own = access.identify(&peer(Some(geteuid().as_raw())), &HeaderMap::new());
        assert_eq!(own.unwrap().role, Role::Run);
    }
}
