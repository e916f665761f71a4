//! Caches: the key-value workload on memcached and on Redis.

mod caching;
mod codec;
mod fill;
pub(crate) mod memcached;
pub(crate) mod redis;
