//! The live file of a bake-off, which `bakeoff serve` shows while it runs.

use archive::{Archive, Live};
use runner::Event;
use serde_json::json;

/// Writes the progress of a bake-off for viewers.
#[derive(Debug)]
pub(crate) struct Viewers<'a> {
    archive: &'a Archive,
    live: Option<Live>,
}

impl<'a> Viewers<'a> {
    /// Returns a writer that begins with the bake-off.
    pub(crate) fn of(archive: &'a Archive) -> Self {
        Self { archive, live: None }
    }

    /// Writes one event.
    pub(crate) fn tell(&mut self, event: &Event<'_>) {
        if let Event::Started { id, .. } = event {
            self.live = Some(self.archive.live(*id));
        }
        let Some(live) = &mut self.live else { return };
        match event {
            Event::Started { trials, done, .. } => live.add(json!({"trials": trials, "done": done})),
            Event::Note(text) => live.add(json!({"note": text})),
            Event::Series { series, block, step } => {
                live.add(json!({"series": series, "block": block, "step": step}));
            }
            Event::Trial(trial) => {
                live.add(json!({"trial": trial.index, "block": trial.block, "levels": trial.levels}));
            }
            Event::Load(load::Event::PhaseStarts { phase, .. }) => live.add(json!({"phase": phase.word()})),
            Event::Load(load::Event::Interval(progress)) => live.add(report::json::progress(progress)),
            Event::Doing(_) | Event::Load(_) | Event::Ended { .. } => {}
        }
    }
}
