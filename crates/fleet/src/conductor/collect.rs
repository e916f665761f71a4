//! After the load: reads the clocks again, and what did not arrive from the agents' spools.

use std::time::Duration;

use async_nats::connection::State;
use load::StopLevel;

use super::office::{Conductor, Tell, Told};
use crate::clock::Offset;
use crate::wire::{End, Order, SpoolFile};

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
        for index in 0..self.members.len() {
            let agent = self.members[index].hello.agent.clone();
            let is_gone = self.members[index].lost_ns.is_some();
            if !is_gone {
                self.members[index].after = self.offset_again(&agent, tries.min(CLOCK_TRIES)).await;
            }
            if self.members[index].received.is_complete() {
                continue;
            }
            let had = self.members[index].received.count();
            // One that was lost may be back.
            self.read_end(index, &agent, if is_gone { 1 } else { tries }).await;
            self.read_lines(index, &agent, if is_gone { 1 } else { tries }).await;
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

    async fn offset_again(&self, agent: &str, tries: u32) -> Option<Offset> {
        for _ in 1..tries {
            if let Some(offset) = self.offset(agent).await {
                return Some(offset);
            }
            tokio::time::sleep(AGAIN).await;
        }
        self.offset(agent).await
    }

    async fn read_end(&mut self, index: usize, agent: &str, tries: u32) {
        if self.members[index].received.end.is_some() || self.members[index].failed.is_some() {
            return;
        }
        let mut bytes = Vec::new();
        let mut tries_left = tries;
        while tries_left > 0 {
            match self.read(agent, SpoolFile::End, bytes.len() as u64).await {
                Some(more) if more.is_empty() => {
                    // The file appears whole, so it has been read, or is not there yet.
                    self.members[index].received.end = serde_json::from_slice::<End>(&bytes).ok();
                    if self.members[index].received.end.is_some() {
                        return;
                    }
                    bytes.clear();
                }
                Some(more) => {
                    bytes.extend_from_slice(&more);
                    continue;
                }
                None => {}
            }
            tries_left -= 1;
            if tries_left > 0 {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn read_lines(&mut self, index: usize, agent: &str, tries: u32) {
        let mut tries_left = tries;
        while tries_left > 0 {
            let received = &self.members[index].received;
            if received.is_complete() || received.is_damaged() {
                return;
            }
            let offset = received.read_from();
            match self.read(agent, SpoolFile::Slices, offset).await {
                Some(bytes) if !bytes.is_empty() => {
                    if self.members[index].received.take_bytes(&bytes).is_err() {
                        return;
                    }
                    continue;
                }
                // The agent has no more: what is missing is nowhere.
                Some(_) => return,
                None => {}
            }
            tries_left -= 1;
            if tries_left > 0 {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// A part of a file of the agent; `None` if it does not answer.
    async fn read(&self, agent: &str, file: SpoolFile, offset: u64) -> Option<Vec<u8>> {
        let order = Order::Read { run: self.fleet.run.clone(), file, offset };
        self.ask_bytes(agent, &order).await.ok().map(|bytes| bytes.to_vec())
    }
}
