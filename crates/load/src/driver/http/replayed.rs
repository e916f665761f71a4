//! Requests of an access log, each once and in order.

use std::sync::Arc;

use record::replay::{Method, Replay, ReplaySource};

use super::requests::{Asked, Request};

/// Requests of an access log, as one connection sends them.
#[derive(Debug)]
pub(super) struct Replayed {
    source: Arc<dyn ReplaySource>,
    requests: u64,
    methods: Vec<Method>,
    /// Path of the request of the current event.
    path: Vec<u8>,
}

impl Replayed {
    /// The requests of a log; `None` if they are not there.
    pub(super) fn of(replay: &Replay) -> Option<Self> {
        let path = Vec::with_capacity(usize::try_from(replay.path_bytes_max).unwrap_or(0));
        let source = Arc::clone(replay.source.as_ref()?);
        let (requests, methods) = (replay.requests, replay.methods.clone());
        (requests > 0).then_some(Self { source, requests, methods, path })
    }

    /// Reads the request of an event. The events of a warm-up are those at the beginning of the log.
    pub(super) fn take(&mut self, event: u64) -> Result<Asked, String> {
        let logged = self.source.read(event % self.requests, &mut self.path)?;
        // Requests are in the order of their methods.
        let request = self.methods.iter().position(|method| *method == logged.method);
        let request = request.ok_or("the log has a method that was not announced")?;
        Ok(Asked { request, logged_status: logged.status })
    }

    /// Writes the head of the request without its final empty line.
    ///
    /// - `request`: the request of the method, for the path `/`.
    pub(super) fn write(&self, request: &Request, out: &mut Vec<u8>) {
        let head = &request.bytes[..request.head_bytes()];
        let path = head.iter().position(|b| *b == b'/').expect("a request has a path");
        out.extend_from_slice(&head[..path]);
        out.extend_from_slice(&self.path);
        out.extend_from_slice(&head[path + 1..]);
    }
}
