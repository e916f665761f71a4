//! Replay of an access log, as stored in the manifest: the log by name, and none of its requests.

use record::replay::{Method, Replay};
use serde::{Deserialize, Serialize};

use super::super::{Real, Wrong};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReplayForm {
    log: String,
    speed: Real,
    requests: u64,
    methods: Vec<String>,
    left_out: u64,
    path_bytes_max: u64,
}

impl ReplayForm {
    pub(super) fn of(replay: &Replay) -> Self {
        let Replay { log, speed, requests, methods, left_out, path_bytes_max, source: _ } = replay;
        Self {
            log: log.clone(),
            speed: Real(*speed),
            requests: *requests,
            methods: methods.iter().map(|method| method.name().to_owned()).collect(),
            left_out: *left_out,
            path_bytes_max: *path_bytes_max,
        }
    }

    pub(super) fn read(self) -> Result<Replay, Wrong> {
        let method = |name: &String| {
            Method::named(name.as_bytes()).ok_or_else(|| Wrong(format!("unknown replay method `{name}`")))
        };
        let methods: Result<Vec<Method>, Wrong> = self.methods.iter().map(method).collect();
        Ok(Replay {
            log: self.log,
            speed: self.speed.0,
            requests: self.requests,
            methods: methods?,
            left_out: self.left_out,
            path_bytes_max: self.path_bytes_max,
            source: None,
        })
    }
}
