//! Judgement of a load that has ended: its checks, the search for a rate, and proofs of the generator itself.

pub mod prove;
pub mod search;
pub(crate) mod verdict;
