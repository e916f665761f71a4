//! The readers of every protocol without a connection, for [`crate::driver::fuzz`].

use std::sync::{Arc, OnceLock};

use record::requests::KvSettings;
use record::target::Target;
use socket2::Socket;

use super::http;
use crate::driver::cache::{memcached, redis};
use crate::driver::sql::{mysql, postgres};
use crate::net::{Dialogue, Wire};
use crate::workload::kv::Kv;

pub(crate) use mysql::ReadForm as MySqlForm;

/// A reader of answers to statements: returns the bytes consumed, and at the end whether they are a valid
/// answer.
pub(crate) fn mysql(form: MySqlForm, bytes_max: usize) -> impl FnMut(&[u8]) -> (usize, Option<bool>) {
    mysql::reader(form, bytes_max)
}

/// A reader of whole answers to statements of scripts in Lua, which decodes each row.
#[cfg(feature = "lua")]
pub(crate) fn mysql_rows(is_binary: bool, bytes_max: usize) -> impl FnMut(&[u8]) -> (usize, Option<bool>) {
    mysql::reader_of_all(is_binary, bytes_max)
}

/// Logs in to MySQL at the other end of `socket`; returns whether the server accepted.
pub(crate) fn mysql_login(socket: Socket) -> bool {
    mysql::log_in_plain(&mut Wire::new(socket))
}

/// Logs in to PostgreSQL at the other end of `socket`; returns whether the server accepted.
pub(crate) fn postgres_login(socket: Socket) -> bool {
    postgres::log_in_plain(&mut Wire::new(socket))
}

/// - `keeps`: the rows are stored.
pub(crate) fn postgres(keeps: bool, bytes_max: usize) -> impl FnMut(&[u8], bool) -> (usize, Option<bool>) {
    postgres::reader(keeps, bytes_max)
}

/// Variant of [`mysql_rows`] for PostgreSQL.
///
/// - `fields`: fields of the rows, if the server does not describe them.
#[cfg(feature = "lua")]
pub(crate) fn postgres_rows(
    fields: usize,
    bytes_max: usize,
) -> impl FnMut(&[u8], bool) -> (usize, Option<bool>) {
    postgres::reader_of_all(fields, bytes_max)
}

/// The dialogue with a cache, by the target's scheme.
pub(crate) fn cache(target: &Target, bytes_max: u64) -> Box<dyn Dialogue> {
    static KV: OnceLock<Arc<Kv>> = OnceLock::new();
    let kv = Arc::clone(KV.get_or_init(|| Arc::new(Kv::new(&KvSettings::usual(), 1, true))));
    if target.scheme() == redis::SCHEME.name {
        redis::speaker(target, kv, bytes_max)
    } else {
        memcached::speaker(target, kv, bytes_max)
    }
}

/// The dialogue of a plain request.
pub(crate) fn http(is_two: bool) -> Box<dyn Dialogue> {
    http::plain_dialogue(is_two)
}
