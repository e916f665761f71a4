//! The path in the tree of Poisson events to the event found last, from which its neighbor is found quickly.

/// A stretch of time, and the events in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Identifies the halves of a window, the halves of the halves, and so on; 1 for the window.
    pub(super) id: u128,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
}

/// The nodes from a window down to the event that was found last.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// Seed, span and count of the arrivals that the nodes belong to.
    pub(super) key: (u64, u64, u64),
    pub(super) window: usize,
    pub(super) nodes: Vec<Node>,
}
