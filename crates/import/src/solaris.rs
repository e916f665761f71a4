//! Tools of Solaris and its descendants.

pub mod lockstat;
pub mod mpstat;
pub mod plockstat;
