//! The server's CPU time over a measured phase, as stored in the manifest.

use record::missing::Maybe;
use record::server_cpu::{ServerCpu, ServerTasks};
use serde::{Deserialize, Serialize};

use super::{Real, Reasons, Wrong, word};

/// A value, or the reason that it is missing; neither in runs of versions that did not measure it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ServerCpuForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    cpu_s: Real,
    from_ns: u64,
    until_ns: u64,
    tasks: String,
}

impl ServerCpuForm {
    pub(crate) fn of(cpu: &Maybe<ServerCpu>) -> Self {
        if *cpu == ServerCpu::not_measured() {
            return Self::default();
        }
        let mut missing = Reasons::default();
        let measured = missing.split("measured", cpu, |cpu| {
            let ServerCpu { cpu_s, from_ns, until_ns, tasks } = *cpu;
            Measured { cpu_s: Real(cpu_s), from_ns, until_ns, tasks: tasks.word().to_owned() }
        });
        Self { measured, missing }
    }

    pub(crate) fn is_unsaid(&self) -> bool {
        self.measured.is_none() && self.missing.is_empty()
    }

    pub(crate) fn read(self) -> Result<Maybe<ServerCpu>, Wrong> {
        if self.is_unsaid() {
            return Ok(ServerCpu::not_measured());
        }
        self.missing.join("measured", self.measured, |Measured { cpu_s, from_ns, until_ns, tasks }| {
            let tasks = word("tasks", &tasks, ServerTasks::from_word)?;
            Ok(ServerCpu { cpu_s: cpu_s.0, from_ns, until_ns, tasks })
        })
    }
}
