//! The values of all panels, and the frame around each.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use ratatui::widgets::{Block, Borders, Paragraph};
use record::block_io::IoInterval;
use record::cpu::CpuInterval;
use record::locks::{LockInterval, UserLockInterval};
use record::missing::{Maybe, Missing};
use record::nic::NicInterval;

/// All content of the screen.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The source: `live, every 1 s`, or the replayed run and the position in it.
    pub(crate) source: String,
    /// The time of the shown interval.
    pub(crate) time: String,
    /// Whether the screen is paused.
    pub(crate) paused: bool,
    pub(crate) cpu: Maybe<&'a CpuInterval>,
    pub(crate) locks: Maybe<&'a LockInterval>,
    pub(crate) ulocks: Maybe<&'a UserLockInterval>,
    /// Intervals, the newest last; as many are shown as fit.
    pub(crate) io: Maybe<&'a [IoInterval]>,
    pub(crate) nic: Maybe<&'a NicInterval>,
    /// The load that runs on this machine, if any.
    pub(crate) load: Option<String>,
    /// Share of the machine that this dashboard uses.
    pub(crate) own_ratio: Option<f64>,
    pub(crate) keys: &'static str,
}

pub(super) fn panel(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(Span::styled(format!(" {title} "), strong()))
}

pub(super) fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub(super) fn bad() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// Draws a panel that shows why its instrument is missing.
pub(super) fn why(frame: &mut Frame, area: Rect, name: &str, missing: Option<&Missing>) {
    let block = panel(name);
    let text = missing.map_or(String::new(), |m| m.reason.clone());
    let wrapped = Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }).block(block);
    frame.render_widget(wrapped, area);
}
