//! Block I/O: a heat map of latency over time.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use record::block_io::{IoInterval, Powers};

use super::number::{count, time};
use super::panel::{View, panel, why};

pub(super) fn draw(frame: &mut Frame, area: Rect, view: &View) {
    let Ok(intervals) = &view.io else {
        return why(frame, area, "I/O", view.io.as_ref().err());
    };
    let title = intervals.last().map_or("I/O".to_owned(), |last| {
        let per_s = |n: u64| count(n as f64 / last.seconds());
        let p99 = last.total().from_start.quantile_ns(0.99).map_or("-".to_owned(), time);
        let at_least = if last.lost.is_empty() { "" } else { ">=" };
        format!(
            "I/O  {at_least}{} r/s  {at_least}{} w/s  p99 {p99}",
            per_s(last.counts.reads),
            per_s(last.counts.writes)
        )
    });
    let block = panel(&title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let lines = heat_lines(intervals, usize::from(inside.width), usize::from(inside.height));
    frame.render_widget(Paragraph::new(lines.into_iter().map(Line::raw).collect::<Vec<_>>()), inside);
}

pub(super) const LABEL: usize = 8;

const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Latency upward in powers of two, time to the right, the newest at the end; more requests are darker.
///
/// If there are fewer lines than powers, a line holds several powers and bears the bound of its lowest one.
pub(super) fn heat_lines(intervals: &[IoInterval], width: usize, height: usize) -> Vec<String> {
    let columns = width.saturating_sub(LABEL + 1);
    let newest = &intervals[intervals.len().saturating_sub(columns)..];
    let powers: Vec<Powers> = newest.iter().map(by_powers).collect();
    let bounds = || powers.iter().flat_map(|p| p.keys().copied());
    let (Some(low), Some(high)) = (bounds().min(), bounds().max()) else {
        return vec!["no request yet".to_owned()];
    };
    let (low, high) = (low.ilog2(), high.ilog2());
    let Some(together) = u32::try_from(height).ok().filter(|h| *h > 0).map(|h| (high - low + 1).div_ceil(h))
    else {
        return Vec::new();
    };
    let sums = |from: u32| -> Vec<u64> {
        let is_in = |(power, _): &(&u64, &u64)| power.ilog2() < from + together;
        powers.iter().map(|p| p.range(1 << from..).take_while(is_in).map(|(_, n)| n).sum()).collect()
    };
    let rows: Vec<(u32, Vec<u64>)> =
        (low..=high).step_by(together as usize).map(|from| (from, sums(from))).collect();
    let most = rows.iter().flat_map(|(_, sums)| sums).copied().max().unwrap_or(1);
    let line = |(from, sums): &(u32, Vec<u64>)| {
        let cells: String = sums.iter().map(|n| shade(*n, most)).collect();
        let pad = columns - powers.len().min(columns);
        format!("{:>LABEL$} {}{cells}", time((1_u64 << from) as f64), " ".repeat(pad))
    };
    rows.iter().rev().map(line).collect()
}

fn by_powers(interval: &IoInterval) -> Powers {
    let mut powers = Powers::new();
    for bucket in &interval.total().from_start.buckets {
        // Latencies below the first bucket are on the lowest line.
        *powers.entry(1 << bucket.from_ns.max(256).ilog2()).or_default() += bucket.count;
    }
    powers
}

fn shade(n: u64, most: u64) -> char {
    if n == 0 {
        return SHADES[0];
    }
    let share = (1.0 + n as f64).ln() / (1.0 + most as f64).ln();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 4")]
    let step = (share * 4.0).ceil() as usize;
    SHADES[step.clamp(1, 4)]
}
