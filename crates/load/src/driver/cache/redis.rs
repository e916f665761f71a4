//! `redis://[user:pw@]host:port/db` and `redis+unix:PATH`: the key-value workload on Redis or Valkey, in
//! RESP2 or RESP3.
//!
//! # Source
//!
//! The Redis serialization protocol specification, redis.io.

mod commands;
mod dialect;
mod resp;

use std::sync::Arc;

use record::load::{LoadSettings, Workload};
use record::target::Target;

use self::commands::{Commands, List};
use self::dialect::Dialect;
use super::caching::Caching;
use crate::connection::{Failure, FailureClass};
use crate::driver::Net;
use crate::driver::{Driver, Scheme};
use crate::net::Endpoint;
use crate::net::address::{ServerAddress, decoded};
use crate::net::held;
use crate::net::security::Security;
use crate::workload::values::data_of;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "redis",
    form: "redis://[user:password@]host:port[/db][?resp=2|3&tls=...]",
    workloads: &[Workload::Kv, Workload::Native],
    check: |target| parts(target).map(drop),
    address,
    open,
};

/// The same protocol over TLS.
pub(crate) const TLS_SCHEME: Scheme =
    Scheme { name: "rediss", form: "rediss://[user:password@]host:port[/db][?ca=FILE]", ..SCHEME };

pub(crate) const UNIX_SCHEME: Scheme = Scheme {
    name: "redis+unix",
    form: "redis+unix:PATH[?db=N&resp=2|3&password=...]",
    workloads: &[Workload::Kv, Workload::Native],
    check: |target| parts(target).map(drop),
    address,
    open,
};

const PORT: u16 = 6379;

struct Parts {
    address: ServerAddress,
    words: Dialect,
    security: Security,
}

fn parts(target: &Target) -> Result<Parts, String> {
    let mut words = Dialect { user: None, password: None, db: 0, is_resp3: false };
    let mut security = Security::of_scheme(target.scheme() == TLS_SCHEME.name);
    let rest = target.expose().split_once(':').map_or("", |(_, rest)| rest);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let db_of = |text: &str| {
        text.parse().map_err(|_| format!("`{text}` is not a database: write a number, as in /0"))
    };
    let is_unix = target.scheme() == UNIX_SCHEME.name;
    let address = match rest.strip_prefix("//") {
        None if is_unix && !rest.is_empty() => ServerAddress::Unix(rest.into()),
        _ if is_unix => {
            return Err(
                "the socket after the colon is missing: write `redis+unix:/run/redis/redis.sock`".to_owned()
            );
        }
        None => return Err("write `redis://host:port/db`".to_owned()),
        Some(authority) => {
            // A password may hold `@` and `/`: the host begins after the last `@`.
            let (user_info, host) =
                authority.rsplit_once('@').map_or((None, authority), |(u, h)| (Some(u), h));
            if let Some(user_info) = user_info {
                let (user, password) = user_info.split_once(':').ok_or(
                    "the password is missing: write `redis://user:password@host` or `redis://:password@host`",
                )?;
                words.user = if user.is_empty() { None } else { Some(decoded(user)?) };
                words.password = Some(decoded(password)?);
            }
            let (host, db) = host.split_once('/').unwrap_or((host, ""));
            if !db.is_empty() {
                words.db = db_of(db)?;
            }
            ServerAddress::tcp(host, PORT)?
        }
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("resp", "2")) => words.is_resp3 = false,
            Some(("resp", "3")) => words.is_resp3 = true,
            Some(("db", db)) => words.db = db_of(db)?,
            Some(("user", user)) => words.user = Some(decoded(user)?),
            Some(("password", password)) => words.password = Some(decoded(password)?),
            Some((name, value)) if security.take(name, &decoded(value)?)? => {}
            _ => {
                let name = pair.split('=').next().unwrap_or_default();
                return Err(format!(
                    "unknown option `{name}`, or an invalid value of it: expected resp=2|3, db, user, password, {}",
                    Security::PARAMETERS
                ));
            }
        }
    }
    security.check()?;
    Ok(Parts { address, words, security })
}

/// Address of the server.
fn address(settings: &LoadSettings) -> Option<ServerAddress> {
    parts(&settings.target).ok().map(|parts| parts.address)
}

fn open(settings: &LoadSettings) -> Result<Arc<dyn Driver>, Failure> {
    let wrong = |text| Failure::new(FailureClass::Configuration, text);
    let parts = parts(&settings.target).map_err(wrong)?;
    let tls = parts.security.plan(parts.address.host(), &[]).map_err(wrong)?;
    let shows_password = parts.words.password.is_some() && !parts.security.verifies_server();
    let place = Endpoint::of(parts.address)?.with_password(shows_password);
    if settings.workload == Workload::Kv {
        return Ok(Arc::new(Net(Arc::new(Caching::new(parts.words, place, tls, "Redis", settings)))));
    }
    if settings.kv.commands.is_empty() {
        return Err(wrong("no command is given: add --command, or leave --workload out".to_owned()));
    }
    let data = settings.http.data.as_deref().map(data_of).transpose().map_err(wrong)?;
    let list = List::read(&settings.kv.commands, data).map_err(wrong)?;
    let bytes_max = usize::try_from(settings.answer_bytes_max).unwrap_or(usize::MAX);
    held::allow(bytes_max);
    Ok(Arc::new(Net(Arc::new(Commands { words: parts.words, place, tls, list, bytes_max }))))
}

/// Dialogue without a connection, for [`crate::driver::readers`].
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn speaker(
    target: &Target,
    kv: Arc<crate::workload::kv::Kv>,
    bytes_max: u64,
) -> Box<dyn crate::net::Dialogue> {
    let words = parts(target).expect("a good target").words;
    super::caching::speaker(words, kv, bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::cache::codec::{Codec as _, Read};

    fn words_of(target: &str) -> Dialect {
        parts(&Target::new(target)).unwrap().words
    }

    fn plain() -> Dialect {
        words_of("redis://h")
    }

    #[test]
    fn a_target_is_read_as_people_write_it() {
        let words = words_of("redis://me:s%40cret@h:1/3?resp=3");
        let expected =
            Dialect { user: Some("me".into()), password: Some("s@cret".into()), db: 3, is_resp3: true };
        assert_eq!(words, expected);
        assert_eq!(words_of("redis://:pw@h").password, Some("pw".into()));
        assert_eq!(words_of("redis+unix:/run/redis.sock?db=2").db, 2);
        assert!(
            parts(&Target::new("redis://h/x")).is_err() && parts(&Target::new("redis://h?tls=1")).is_err()
        );
    }

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        plain().write_get(7, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "*2\r\n$3\r\nGET\r\n$18\r\nbakeoff:0000000007\r\n");
        let mut out = Vec::new();
        plain().write_set_head(7, 5, 0, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "*3\r\n$3\r\nSET\r\n$18\r\nbakeoff:0000000007\r\n$5\r\n");
        let mut out = Vec::new();
        words_of("redis://u:p@h/2").write_greeting(&mut out);
        let (auth, select) =
            ("*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n", "*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n");
        assert_eq!(String::from_utf8(out).unwrap(), format!("{auth}{select}*1\r\n$4\r\nPING\r\n"));
    }

    #[test]
    fn answers_are_read_whole_or_not_yet() {
        let whole: [(&[u8], Read<'_>); 6] = [
            (b"$4\r\na\r\nb\r\n", Read::Value { taken: 10, key: None, value: b"a\r\nb" }),
            (b"$-1\r\n", Read::Nothing { taken: 5 }),
            (b"_\r\n", Read::Nothing { taken: 3 }),
            (b"+OK\r\n", Read::Done { taken: 5 }),
            (b":1\r\n", Read::Done { taken: 4 }),
            (b"%1\r\n$1\r\na\r\n*2\r\n:1\r\n+b\r\n", Read::Done { taken: 23 }),
        ];
        for (input, expected) in whole {
            assert_eq!(plain().read(input, 1 << 20), expected);
            for cut in 0..input.len() {
                assert_eq!(plain().read(&input[..cut], 1 << 20), Read::More, "{cut} bytes of {input:?}");
            }
        }
        assert_eq!(plain().read(b"HTTP/1.1 400\r\n", 1 << 20), Read::Garbage);
    }

    #[test]
    fn what_no_server_announces_is_not_waited_for() {
        let read = |input: &[u8]| match plain().read(input, 1 << 20) {
            Read::TooLong { bytes } => Ok(bytes),
            other => Err(format!("{other:?}")),
        };
        assert_eq!(read(b"$4294967295\r\n"), Ok(4_294_967_295));
        assert!(read(b"*4294967295\r\n").is_ok() && read(b"%4294967295\r\n").is_ok());
        assert!(read(b"*1\r\n$4294967295\r\n").is_ok());
        // Any depth: nested members are counted, without recursion.
        let deep = "*1\r\n".repeat(1_000_000);
        assert!(read(deep.as_bytes()).is_ok());
        assert_eq!(plain().read(&deep.as_bytes()[..40_000], 1 << 20), Read::More);
        assert_eq!(plain().read(b"*1\r\n?\r\n", 1 << 20), Read::Garbage);
        assert_eq!(plain().read(b"*2\r\n*-1\r\n$-1\r\n", 1 << 20), Read::Done { taken: 14 });
    }

    #[test]
    fn a_server_that_is_loading_may_be_asked_again() {
        let of = |line: &[u8]| match plain().read(line, 1 << 20) {
            Read::Refused { class, .. } => class,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(b"-LOADING Redis is loading\r\n"), FailureClass::Transient);
        assert_eq!(of(b"-OOM command not allowed\r\n"), FailureClass::Application);
        assert_eq!(of(b"-WRONGPASS invalid\r\n"), FailureClass::Configuration);
    }

    #[test]
    fn evictions_are_found_in_what_the_server_tells() {
        let input = b"$38\r\nredis_version:7.0.15\r\nevicted_keys:3\r\n\r\n";
        let (taken, counters) = plain().read_counters(input).unwrap();
        assert_eq!((taken, counters.evictions), (input.len(), Some(3)));
        assert_eq!(counters.version, Some("7.0.15".into()));
        assert_eq!(plain().read_counters(&input[..20]), None);
    }
}
