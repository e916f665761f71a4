//! Files of agents' spools, read in parts, within limits of time and size.

use std::time::Duration;

use async_nats::Client;
use load::{Stop, StopLevel};
use record::missing::{Maybe, Missing};
use tokio::time::Instant;

use super::office::{self, Conductor, Helper};
use crate::received::ACCOUNT_BYTES_MAX;
use crate::spool::READ_BYTES;
use crate::wire::{Order, SpoolFile};

/// Time in which the files of one agent are read.
const TIME: Duration = Duration::from_mins(5);
/// Share of the attempts to find the end of a helper's work that an order without an answer costs.
const NO_ANSWER_COSTS: u32 = 5;
const HELPER_AGAIN: Duration = Duration::from_millis(250);

/// End of the time for one agent, and of the patience of the user.
pub(super) struct Limit<'a> {
    until: Instant,
    stop: &'a Stop,
    at: StopLevel,
}

impl<'a> Limit<'a> {
    /// - `at`: the request that ends the reading.
    pub(super) fn new(stop: &'a Stop, at: StopLevel) -> Self {
        Self { until: Instant::now() + TIME, stop, at }
    }

    /// The reason to read no further.
    pub(super) fn reached(&self) -> Option<Missing> {
        if self.stop.level() >= self.at {
            return Some(Missing::because("interrupted before its numbers were read"));
        }
        let is_late = Instant::now() >= self.until;
        is_late.then(|| Missing::because(format!("its numbers were not read within {TIME:?}")))
    }
}

/// A file of a spool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The agent that answers for the spool.
    pub(super) agent: &'a str,
    /// The agent that left it, if that is another one.
    pub(super) owner: Option<&'a str>,
    pub(super) run: &'a str,
    pub(super) file: SpoolFile,
}

impl Place<'_> {
    fn read_from(&self, offset: u64) -> Order {
        let owner = self.owner.map(str::to_owned);
        Order::Read { run: self.run.to_owned(), file: self.file, offset, owner }
    }
}

/// Hands over a file part by part, from its beginning; the reason if it does not come whole.
pub(super) async fn each_part(
    client: &Client,
    place: Place<'_>,
    limit: &Limit<'_>,
    bytes_max: usize,
    take: &mut dyn FnMut(&[u8]),
) -> Maybe<()> {
    let mut bytes = 0;
    loop {
        if let Some(missing) = limit.reached() {
            return Err(missing);
        }
        let part = office::ask_bytes(client, place.agent, None, place.read_from(bytes as u64)).await;
        let part = part.map_err(|_| Missing::because("it was lost before its numbers were read"))?;
        take(&part);
        bytes += part.len();
        if bytes > bytes_max {
            return Err(Missing::because(format!("it has more than {} MiB of numbers", bytes_max >> 20)));
        }
        if is_last(&part) {
            return Ok(());
        }
    }
}

/// Whether a file ends with this part. Every other has the full length: no agent can send a byte at a time.
pub(super) fn is_last(part: &[u8]) -> bool {
    part.len() < READ_BYTES
}

/// An account of a start or of an end; the reason if it does not come whole.
pub(super) async fn account(client: &Client, place: Place<'_>, limit: &Limit<'_>) -> Maybe<Vec<u8>> {
    let mut bytes = Vec::new();
    each_part(client, place, limit, ACCOUNT_BYTES_MAX, &mut |part| bytes.extend_from_slice(part)).await?;
    Ok(bytes)
}

impl Helper {
    /// A file of the helper's spool.
    pub(super) fn place(&self, file: SpoolFile) -> Place<'_> {
        Place { agent: &self.hello.agent, owner: self.owner.as_deref(), run: &self.run, file }
    }
}

impl<'a> Conductor<'a> {
    /// The limit for the next agent. The first request to stop ends the load, the second the reading.
    pub(super) fn limit(&self) -> Limit<'a> {
        Limit::new(self.fleet.stop, StopLevel::Now)
    }
}

impl Conductor<'_> {
    /// The end of a helper's work; the reason if it does not come.
    pub(super) async fn end_of(&self, helper: &Helper, tries: u32, limit: &Limit<'_>) -> Maybe<Vec<u8>> {
        let mut tries_left = tries;
        loop {
            let found = account(&self.client, helper.place(SpoolFile::End), limit).await;
            if let Some(missing) = limit.reached() {
                return Err(missing);
            }
            match found {
                Ok(bytes) if !bytes.is_empty() => return Ok(bytes),
                found => {
                    let costs = if found.is_err() { tries.div_ceil(NO_ANSWER_COSTS) } else { 1 };
                    tries_left = tries_left.saturating_sub(costs);
                }
            }
            if tries_left == 0 {
                return Err(Missing::because("it did not end its work"));
            }
            tokio::time::sleep(HELPER_AGAIN).await;
        }
    }

    /// A part of a file of the member's, also if its process was started again; `None` if none answers.
    pub(super) async fn read(&self, index: usize, file: SpoolFile, offset: u64) -> Option<Vec<u8>> {
        let (agent, owner) = self.members[index].asked();
        let place = Place { agent: &agent, owner: owner.as_deref(), run: &self.fleet.run, file };
        let part = office::ask_bytes(&self.client, &agent, None, place.read_from(offset)).await;
        part.ok().map(|bytes| bytes.to_vec())
    }

    /// The account of the member's end; `None` if it does not come, and more than the limit if it is longer.
    pub(super) async fn end_account(&self, index: usize, limit: &Limit<'_>) -> Option<Vec<u8>> {
        let (agent, owner) = self.members[index].asked();
        let place =
            Place { agent: &agent, owner: owner.as_deref(), run: &self.fleet.run, file: SpoolFile::End };
        let mut bytes = Vec::new();
        let mut take = |part: &[u8]| bytes.extend_from_slice(part);
        let read = each_part(&self.client, place, limit, ACCOUNT_BYTES_MAX, &mut take).await;
        (read.is_ok() || bytes.len() > ACCOUNT_BYTES_MAX).then_some(bytes)
    }
}
