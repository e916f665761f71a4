//! The network interfaces.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use record::nic::TcpCounts;

use super::number::count;
use super::panel::{View, panel, why};

pub(super) fn draw(frame: &mut Frame, area: Rect, view: &View) {
    let (interval, samples) = match &view.nic {
        Ok(interval) => match &interval.interfaces {
            Ok(samples) => (interval, samples),
            Err(missing) => return why(frame, area, "Network", Some(missing)),
        },
        Err(missing) => return why(frame, area, "Network", Some(missing)),
    };
    let tcp = |of: fn(&TcpCounts) -> u64| interval.tcp.as_ref().map_or("-".to_owned(), |t| of(t).to_string());
    let title = format!(
        "Network  TCP resent {}  dropped {}",
        tcp(|t| t.retransmitted_segments),
        tcp(|t| t.listen_drops)
    );
    let block = panel(&title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let seconds = interval.seconds();
    let mut lines = vec![Line::styled(
        format!("{:<9}{:>8}{:>8}{:>7}{:>5}", "", "in KiB/s", "out", "%Util", "Sat"),
        Style::new().add_modifier(Modifier::DIM),
    )];
    let shown = samples.iter().filter(|s| s.up || s.counts.as_ref().is_ok_and(|c| !c.is_idle()));
    for sample in shown.take(usize::from(inside.height).saturating_sub(1)) {
        let of = |value: fn(&record::nic::LinkCounts) -> u64, unit: f64| {
            sample.counts.as_ref().map_or("-".to_owned(), |c| count(value(c) as f64 / seconds / unit))
        };
        let util = sample.util_ratio(seconds).map_or("-".to_owned(), |r| format!("{:.1}", r * 100.0));
        let name: String = sample.name.chars().take(9).collect();
        lines.push(Line::raw(format!(
            "{name:<9}{:>8}{:>8}{util:>7}{:>5}",
            of(|c| c.rx_bytes, 1024.0),
            of(|c| c.tx_bytes, 1024.0),
            of(record::nic::LinkCounts::saturation, 1.0),
        )));
    }
    frame.render_widget(Paragraph::new(lines), inside);
}
