//! `bakeoff.record/1`: a command, or a stretch of time, with instruments around it.

use record::command::{CommandEnd, Recorded};
use record::cpu::CpuInterval;
use record::limits::Throttled;
use record::missing::{Maybe, Missing};
use record::run::RunId;
use serde_json::Value;

use super::cpu::cpu;
use super::object::Object;

/// The document; `run` is present if the run is archived. The machine's window has the form of
/// `bakeoff.cpu/1`.
pub fn command(
    run: Option<RunId>,
    words: &str,
    recorded: &Recorded,
    samples: Maybe<usize>,
    throttled: &Maybe<Throttled>,
) -> Value {
    let none = |what: &str| Missing::because(format!("it {what}"));
    let (exit_code, signal) = match recorded.end {
        CommandEnd::Code(code) => (Ok(code), Err(none("ended with an exit code"))),
        CommandEnd::Signal(signal) => (Err(none("was ended by a signal")), Ok(signal)),
        CommandEnd::NoCommand => (Err(none("was not a command")), Err(none("was not a command"))),
    };
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let rusage = &recorded.by_rusage;
    Object::default()
        .with("schema", "bakeoff.record/1")
        .with("run", run.map(|id| id.to_string()))
        .with("command", words)
        .maybe("exit_code", exit_code)
        .maybe("signal", signal)
        .maybe("wall_s", recorded.window.as_ref().map(CpuInterval::seconds).map_err(Clone::clone))
        .maybe("cpu_by_events_s", recorded.by_events_ns.clone().map(seconds))
        .maybe("interrupted_s", recorded.interrupted_ns.clone().map(seconds))
        .maybe("cpu_by_proc_s", recorded.by_proc_ns.clone().map(seconds))
        .maybe("cpu_by_rusage_s", rusage.clone().map(|s| seconds(s.sum_ns())))
        .maybe("user_s", rusage.clone().map(|s| seconds(s.user_ns)))
        .maybe("system_s", rusage.clone().map(|s| seconds(s.system_ns)))
        .maybe("machine", recorded.window.as_ref().map(|w| cpu(w, w.from_ns)).map_err(Clone::clone))
        .maybe("throttled", super::throttled::throttled(throttled))
        .maybe("samples", samples)
        .finish()
}
