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

/// Everything that stands on the screen.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The source: `live, every 1 s`, or the run that is replayed and the position in it.
    pub(crate) source: String,
    /// The moment that is shown.
    pub(crate) time: String,
    /// Whether the screen stands still.
    pub(crate) paused: bool,
    pub(crate) cpu: Maybe<&'a CpuInterval>,
    pub(crate) locks: Maybe<&'a LockInterval>,
    pub(crate) ulocks: Maybe<&'a UserLockInterval>,
    /// The newest last; what there is room for is shown.
    pub(crate) io: Maybe<&'a [IoInterval]>,
    pub(crate) nic: Maybe<&'a NicInterval>,
    /// The load that runs on this machine, where there is one.
    pub(crate) load: Option<String>,
    /// Share of the machine that this dashboard takes.
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

/// A panel without its instrument says why.
pub(super) fn why(frame: &mut Frame, area: Rect, name: &str, missing: Option<&Missing>) {
    let block = panel(name);
    let text = missing.map_or(String::new(), |m| m.reason.clone());
    let wrapped = Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }).block(block);
    frame.render_widget(wrapped, area);
}
