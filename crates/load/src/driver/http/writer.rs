//! Code shared by both versions of HTTP: choosing the request of an event, writing it, and checking the
//! answer.

use std::sync::Arc;

use super::checksum::Checksum;
use super::cookies::Jar;
use super::replayed::Replayed;
use super::requests::{Asked, Request};
use crate::connection::{Answer, Failure, FailureClass};
use crate::schedule::random::Random;
use crate::workload::values::Data;

/// Index of the request that an event sends, drawn by weight.
fn choose(requests: &[Request], weights: f64, random: &mut Random) -> usize {
    if requests.len() == 1 {
        return 0;
    }
    let mut left = random.unit() * weights;
    let found = requests.iter().position(|request| {
        left -= request.weight;
        left < 0.0
    });
    // Rounding may leave the upper edge of the last one open.
    found.unwrap_or(requests.len() - 1)
}

/// Checks an answer against the request's expectations.
pub(super) fn judge(
    requests: &[Request],
    asked: Asked,
    status: u16,
    body: Checksum,
) -> Result<Answer, Failure> {
    let Asked { request: asked, logged_status } = asked;
    let request = &requests[asked];
    let outcome = Some(usize::from(status / 100).clamp(1, OUTCOMES.len()) - 1);
    let is_expected = match request.expected_status {
        Some(expected) => status == expected,
        // A replayed request may fail as it did when the log was written.
        None => status < 400 || logged_status == Some(status),
    };
    if !is_expected {
        let wanted = request.expected_status.map_or("a status below 400".to_owned(), |s| s.to_string());
        let text = format!("{}: the server answered with status {status}, expected {wanted}", request.name);
        return Err(Failure { outcome, ..Failure::new(FailureClass::Application, text) });
    }
    if let Some(expected) = request.body_checksum
        && expected != body.value()
    {
        let text = format!("{}: the body of the answer is not the expected one", request.name);
        return Err(Failure { outcome, ..Failure::new(FailureClass::Verify, text) });
    }
    Ok(Answer { operation: asked, outcome, keys: None })
}

/// State that a connection needs to write requests.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The cookies of the connection, if it sends them.
    pub(super) jar: Option<Jar>,
    pub(super) data: Option<Arc<Data>>,
    /// Buffer for a body.
    pub(super) body: Vec<u8>,
    /// The log that is replayed.
    pub(super) replay: Option<Replayed>,
}

impl Writer {
    /// Whether a request is the same at each event.
    pub(super) fn is_plain(&self, request: &Request) -> bool {
        self.jar.is_none() && request.written.is_none() && self.replay.is_none()
    }

    /// The request that an event sends: the one of the log, or one drawn by weight.
    pub(super) fn choose(
        &mut self,
        requests: &[Request],
        weights: f64,
        random: &mut Random,
    ) -> Result<Asked, Failure> {
        match &mut self.replay {
            Some(replay) => {
                let asked = replay.take(random.event());
                asked.map_err(|text| Failure::new(FailureClass::Application, text))
            }
            None => Ok(Asked { request: choose(requests, weights, random), logged_status: None }),
        }
    }

    /// Writes the request of one event.
    pub(super) fn write(
        &mut self,
        request: &Request,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if self.is_plain(request) {
            out.extend_from_slice(&request.bytes);
            return Ok(());
        }
        let start = out.len();
        let body = match (&request.written, &self.replay) {
            (_, Some(replay)) => {
                replay.write(request, out);
                &[][..]
            }
            (None, None) => {
                let (head, rest) = request.bytes.split_at(request.head_bytes());
                out.extend_from_slice(head);
                &rest[2..]
            }
            (Some(written), None) => {
                written.write(self.data.as_deref(), random, &mut self.body, out)?;
                &self.body
            }
        };
        if let Some(jar) = &self.jar {
            let asked = path_of(&out[start..]).to_vec();
            let before = out.len();
            out.extend_from_slice(b"Cookie: ");
            let named = out.len();
            jar.write(&asked, out);
            if out.len() == named {
                out.truncate(before);
            } else {
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        Ok(())
    }
}

/// Path of a request, with its query.
pub(super) fn path_of(request: &[u8]) -> &[u8] {
    request.split(|b| *b == b' ').nth(1).unwrap_or_default()
}

/// Outcomes of a request, by the class of its status.
pub(super) const OUTCOMES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
