//! After the load: reads the clocks again, and what did not arrive from the agents' spools.

use std::time::Duration;

use async_nats::connection::State;
use futures_util::{StreamExt as _, stream};
use load::StopLevel;

use super::gather::CLOCKS_AT_ONCE;
use super::office::{self, Conductor, Tell, Told};
use super::parts::{Limit, is_last};
use crate::clock::Offset;
use crate::wire::{Hello, SpoolFile};

/// Attempts to read on, at the server or at an agent that has gone away.
const TRIES: u32 = 20;
/// Attempts to read a clock.
const CLOCK_TRIES: u32 = 4;
const AGAIN: Duration = Duration::from_millis(250);

impl Conductor<'_> {
    /// Reads the clocks, then whatever is missing, of every agent that can still answer.
    pub(super) async fn collect(&mut self, tell: Tell<'_>) {
        let tries = if self.fleet.stop.level() >= StopLevel::Now { 1 } else { TRIES };
        self.await_server(tries).await;
        let present = self.members.iter().filter(|member| member.lost_ns.is_none());
        let clocks = stream::iter(present.map(|member| &member.hello));
        let clocks = clocks.map(|hello| self.offset_again(hello, tries.min(CLOCK_TRIES)));
        let mut after = clocks.buffered(CLOCKS_AT_ONCE).collect::<Vec<_>>().await.into_iter();
        for index in 0..self.members.len() {
            let agent = self.members[index].hello.agent.clone();
            let is_gone = self.members[index].lost_ns.is_some();
            if !is_gone {
                self.members[index].after = after.next().flatten();
            }
            if self.members[index].received.is_complete() {
                continue;
            }
            let had = self.members[index].received.count();
            // One that was lost may be back.
            let tries = if is_gone { 1 } else { tries };
            let limit = self.limit();
            self.read_end(index, tries, &limit).await;
            self.read_lines(index, tries, &limit).await;
            let received = &self.members[index].received;
            let read = received.count().saturating_sub(had);
            if read > 0 {
                tell(&Told::Note(format!("{read} intervals were read from the spool of agent {agent}")));
            }
        }
    }

    /// Waits until the server is there.
    async fn await_server(&self, tries: u32) {
        for _ in 0..tries {
            if self.client.connection_state() == State::Connected {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn offset_again(&self, hello: &Hello, tries: u32) -> Option<Offset> {
        for _ in 1..tries {
            if let Some(offset) = office::offset(&self.client, hello).await {
                return Some(offset);
            }
            tokio::time::sleep(AGAIN).await;
        }
        office::offset(&self.client, hello).await
    }

    /// Reads the account of a member's end.
    pub(super) async fn read_end(&mut self, index: usize, tries: u32, limit: &Limit<'_>) {
        let member = &self.members[index];
        if member.received.end.is_some() || member.received.is_damaged() || member.failed.is_some() {
            return;
        }
        let mut tries_left = tries;
        while tries_left > 0 && limit.reached().is_none() {
            // The file appears whole, so it has been read, or is not there yet.
            if let Some(bytes) = self.end_account(index, limit).await {
                let received = &mut self.members[index].received;
                received.take_end(&bytes);
                if received.end.is_some() || received.is_damaged() {
                    return;
                }
            }
            tries_left -= 1;
            if tries_left > 0 {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Reads the lines of a member that are not here.
    pub(super) async fn read_lines(&mut self, index: usize, tries: u32, limit: &Limit<'_>) {
        let mut tries_left = tries;
        while tries_left > 0 && limit.reached().is_none() {
            let received = &self.members[index].received;
            if received.is_complete() || received.is_damaged() {
                return;
            }
            let offset = received.read_from();
            if let Some(part) = self.read(index, SpoolFile::Slices, offset).await {
                // The last part has been read: missing lines are lost.
                if self.members[index].received.take_bytes(&part).is_err() || is_last(&part) {
                    return;
                }
                continue;
            }
            tries_left -= 1;
            if tries_left > 0 {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
