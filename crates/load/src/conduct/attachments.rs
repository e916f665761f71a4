//! Inputs and outputs of a load beside its settings.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use record::event::EventRow;

use crate::control::Control;
use crate::control::bound::ThreadCpus;
use crate::control::start_line::StartLine;
use crate::control::turns::Turns;
use crate::schedule::share::Share;

/// Inputs and outputs of a load beside its settings.
#[derive(Debug, Clone, Default)]
pub struct Attachments {
    /// The due times of [`record::load::Arrivals::File`]: in order, the first of them 0.
    pub recorded: Option<Arc<[u64]>>,
    /// The socket that controls the load while it runs.
    pub control: Option<Arc<Control>>,
    /// The receiver of events as they end, in no order; see [`crate::operations`] for the meaning of their
    /// numbers.
    pub log: Option<SyncSender<Vec<EventRow>>>,
    /// The share of the load that this generator plays; the whole if `None`.
    pub share: Option<Share>,
    /// The line at which the load waits, once it is connected, for the time to begin.
    pub start: Option<StartLine>,
    /// The turns in which the load goes on; in one piece if `None`.
    pub turns: Option<Arc<Turns>>,
    /// The CPUs of its threads; all if `None`.
    pub cpus: Option<ThreadCpus>,
}
