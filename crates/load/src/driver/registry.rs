//! The list of all kinds of target. A new driver is one file or folder here, and one line in [`SCHEMES`].

use record::target::Target;

use super::interface::Scheme;
use super::{cache, exec, http, null, sql};

/// All kinds of target.
pub(crate) const SCHEMES: &[&Scheme] = &[
    &sql::sqlite::SCHEME,
    &sql::mysql::SCHEME,
    &sql::postgres::SCHEME,
    &cache::memcached::SCHEME,
    &cache::memcached::TLS_SCHEME,
    &cache::memcached::UNIX_SCHEME,
    &cache::redis::SCHEME,
    &cache::redis::TLS_SCHEME,
    &cache::redis::UNIX_SCHEME,
    &http::SCHEME,
    &http::TLS_SCHEME,
    &exec::SCHEME,
    &null::SCHEME,
];

/// The kind of `target`.
pub(crate) fn scheme_of(target: &Target) -> Option<&'static Scheme> {
    SCHEMES.iter().copied().find(|s| s.name == target.scheme())
}
