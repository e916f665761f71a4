//! Caches: the key-value workload on memcached and on Redis.

mod caching;
pub(crate) mod memcached;
pub(crate) mod redis;
