//! The lab as a place: a queue of plans, a monitor of what runs, and the archive, in a browser and over an
//! API.
//!
//! ```text
//! listen ──► guard ──► pages, api, metrics ──► app ──► listing, monitor, queue
//!                                               ▲
//! worker: one entry at a time, as a process of the same binary
//! ```
//!
//! A process of `bakeoff run` conducts each entry. It outlives this one: if `serve` dies, the next `serve`
//! finds the bake-off by the id in the queue, and waits for it or resumes it.

mod answer;
mod api;
mod app;
mod chart;
mod client;
mod compare;
mod error;
mod executes;
mod export;
mod followed;
mod guard;
mod identity;
mod instruments;
mod limits;
mod listen;
mod listing;
mod memory;
mod metrics;
mod monitor;
mod outcome;
mod pages;
mod place;
mod printer;
mod priority;
mod queue;
mod reasons;
mod render;
mod server;
mod settings;
mod shown;
mod situation;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod traits;
mod urged;
mod view;
mod view_history;
mod view_now;
mod view_page;
mod webhook;
mod worker;

pub use client::Client;
pub use error::ServeError;
pub use instruments::INSTRUMENTS;
pub use place::{Server, Url};
pub use printer::{Histories, HistoryWanted, PrintError, Printer};
pub use server::serve;
pub use settings::{Settings, TlsFiles};
