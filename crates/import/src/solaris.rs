//! Tools of Solaris and of its descendants.

pub mod lockstat;
pub mod mpstat;
pub mod plockstat;
