//! Progress of a load for the user: a line per interval, and a bar.

use std::time::Duration;

use load::Event;
use record::load::{LoadSettings, Phase, Progress};

use crate::screen::{self, Screen};

/// Shows the events of one load.
#[derive(Debug)]
pub(crate) struct LoadScreen<'a> {
    settings: &'a LoadSettings,
    screen: Screen,
    has_header: bool,
    /// A line has reported the wait for a steady cache.
    has_waited: bool,
}

impl<'a> LoadScreen<'a> {
    /// Returns a screen that shows nothing yet.
    pub(crate) fn new(settings: &'a LoadSettings) -> Self {
        Self { settings, screen: Screen::new(), has_header: false, has_waited: false }
    }

    /// Prints a permanent line.
    pub(crate) fn line(&mut self, text: &str) {
        self.screen.line(text);
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Event) {
        match event {
            Event::Connected { made, of, .. } => {
                self.screen.parts("connecting", (*of).into());
                self.screen.at((*made).into());
                if made == of && *of > 1 {
                    self.screen.line(&format!("{made} of {of} connected"));
                }
            }
            Event::Preparing { table, unit, rows_done, rows } => {
                self.screen.parts(&format!("building {table}"), *rows);
                self.screen.at(*rows_done);
                if rows_done == rows {
                    self.screen.line(&format!("built {table}: {rows} {unit}"));
                }
            }
            Event::Settling { waited, most } => {
                if !std::mem::replace(&mut self.has_waited, true) {
                    let most_s = most.as_secs();
                    self.screen.line(&format!("waiting until the cache is steady, for at most {most_s} s"));
                }
                self.screen.parts("waiting until the cache is steady", most.as_secs());
                self.screen.at(waited.as_secs());
            }
            Event::PhaseStarts { phase, .. } => self.screen.phase(phase.word(), self.length_of(*phase)),
            Event::Interval(progress) => self.interval(progress),
            Event::RateChanged(change) => self.screen.line(&report::text::rate_change(change)),
            Event::MeasureEnds | Event::IntervalClosed(_) | Event::Reported { .. } | Event::Logged { .. } => {
            }
        }
    }

    /// Removes the bar; returns the screen for the remaining messages.
    pub(crate) fn finish(mut self) -> Screen {
        self.screen.clear();
        self.screen
    }

    fn interval(&mut self, progress: &Progress) {
        let style = screen::stderr_style();
        let mut text = Vec::new();
        let header = if self.has_header { Ok(()) } else { report::text::progress_header(&mut text, style) };
        self.has_header = true;
        header
            .and_then(|()| report::text::progress_line(&mut text, progress, style))
            .expect("a vector takes whatever is written to it");
        self.screen.line(String::from_utf8_lossy(&text).trim_end());
        self.screen.at(Duration::try_from_secs_f64(progress.t_s).unwrap_or_default().as_secs());
    }

    /// Length of the measured phase, or the time that its number of events takes at their rate.
    fn measured(&self) -> Duration {
        let (time, events) = (self.settings.time, self.settings.events_max);
        let of_events =
            |events: u64| Duration::try_from_secs_f64(events as f64 / self.settings.pace.per_s()?).ok();
        events.and_then(of_events).map_or(time, |needed| needed.min(time))
    }

    fn length_of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::RampUp => self.settings.ramp_up,
            Phase::Warmup => self.settings.warmup,
            Phase::Measure => self.measured(),
            Phase::RampDown => self.settings.ramp_down,
            Phase::Drain => self.settings.drain,
        }
    }
}
