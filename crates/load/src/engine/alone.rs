//! Values that share no cache line with others.

use std::ops::Deref;

/// A value alone in its cache lines, of which processors fetch two together: threads that write it do not
/// slow down those that read its neighbors.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Alone<T>(T);

impl<T> Alone<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Alone<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
