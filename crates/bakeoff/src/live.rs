//! The live file of a bake-off or a load, which `bakeoff serve` shows while it runs.

use archive::{Archive, Live};
use record::load::LoadSettings;
use record::run::RunId;
use runner::Event;
use serde_json::{Value, json};

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
            Event::Load(event) => tell_of_load(live, event),
            Event::Doing(what) => live.add(json!({"doing": what})),
            Event::Watched(_) | Event::Ended { .. } => {}
        }
    }
}

/// Begins the live file of a single load.
pub(crate) fn of_load(archive: &Archive, id: RunId, settings: &LoadSettings) -> Live {
    let mut live = archive.live(id);
    // A number of events may end it earlier.
    let lasts = settings.warmup + settings.ramp_up + settings.time + settings.ramp_down;
    let lasts_s = settings.events_max.is_none().then_some(lasts.as_secs_f64());
    live.add(json!({"lasts_s": lasts_s}));
    live
}

/// Writes one event of a load.
pub(crate) fn tell_of_load(live: &mut Live, event: &load::Event) {
    if let Some(line) = line_of(event) {
        live.add(line);
    }
}

fn line_of(event: &load::Event) -> Option<Value> {
    match event {
        load::Event::PhaseStarts { phase, .. } => Some(json!({"phase": phase.word()})),
        load::Event::Interval(progress) => Some(report::json::progress(progress)),
        _ => None,
    }
}
