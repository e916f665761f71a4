//! The containers that tamp reads and writes.

pub(crate) mod gz;
pub(crate) mod inflate;
pub(crate) mod lz4;
pub(crate) mod zst;
