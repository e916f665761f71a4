//! The former home of [`Family`].

pub use crate::load::rules::Family;
