//! The CPUs: a bar each while there is room, and a line for each saturated CPU.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use record::cpu::CpuSample;
use record::missing::Maybe;

use super::number::percent;
use super::panel::{View, bad, panel, why};

/// Height of the heads, a line for each CPU while there is room, and a line for each saturated CPU.
pub(super) fn height(view: &View, area: Rect) -> u16 {
    let rows =
        view.cpu.as_ref().map_or(1, |c| 1 + c.cpus.len() + c.cpus.iter().filter(|s| s.saturated()).count());
    // The other panels need eight lines; four are for the ends, the load and the losses.
    let most = (area.height.saturating_sub(2) / 2).min(area.height.saturating_sub(12));
    u16::try_from(rows + 1).unwrap_or(u16::MAX).min(most.max(3))
}

pub(super) fn draw(frame: &mut Frame, area: Rect, view: &View) {
    let Ok(interval) = &view.cpu else {
        return why(frame, area, "CPU", view.cpu.as_ref().err());
    };
    let mean = |of: fn(&CpuSample) -> Maybe<f64>| interval.mean(of).map_or("-".to_owned(), percent);
    let title = format!(
        "CPU  event {}  /proc {}  unaccounted {}  by {}",
        mean(|s| s.event_ratio.clone()),
        mean(|s| s.procstat_busy_ratio.clone()),
        mean(|s| s.unaccounted_ratio.clone()),
        interval.rung.word()
    );
    let block = panel(&title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let room = usize::from(inside.height).saturating_sub(1);
    let saturated: Vec<&CpuSample> = interval.cpus.iter().filter(|s| s.saturated()).collect();
    // Saturated CPUs are named even if some CPUs have no line.
    let words = saturated.len().min(room / 2);
    let width = usize::from(inside.width);
    let bar_width = if width >= 120 { 40 } else { 16 };
    let mut lines = vec![Line::styled(
        format!(
            "{:>4} {:<bar_width$} {:>7} {:>7} {:>7}  hottest thread",
            "CPU", "", "event", "/proc", "unacc"
        ),
        Style::new().add_modifier(Modifier::DIM),
    )];
    let mut shown: Vec<&CpuSample> = interval.cpus.iter().collect();
    let rows = room - words;
    if shown.len() > rows {
        shown.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
        shown.truncate(rows);
        shown.sort_by_key(|s| s.cpu);
    }
    for sample in shown {
        lines.push(cpu_line(sample, bar_width));
    }
    for sample in saturated.into_iter().take(words) {
        let by = match &sample.top {
            Ok(top) => {
                format!("{} (pid {}, thread {}) ran {}", top.comm, top.pid, top.tid, percent(top.ratio))
            }
            Err(missing) => format!("by which thread is unknown ({missing})"),
        };
        let by = report::text::by_interrupts(sample).unwrap_or(by);
        lines.push(Line::styled(format!("CPU {} is saturated: {by}", sample.cpu), bad()));
    }
    frame.render_widget(Paragraph::new(lines), inside);
}

fn busy(sample: &CpuSample) -> f64 {
    sample.busy_ratio().unwrap_or(0.0)
}

/// Busy time by events as a full bar, with a mark if `/proc/stat` shows less or more.
fn cpu_line(sample: &CpuSample, bar_width: usize) -> Line<'static> {
    let value = |ratio: &Maybe<f64>| ratio.as_ref().map_or("-".to_owned(), |r| percent(*r));
    let hottest = sample
        .top
        .as_ref()
        .map_or(String::new(), |top| format!("{}/{} {}", top.comm, top.tid, percent(top.ratio)));
    let text = format!(
        "{:>4} {} {:>7} {:>7} {:>7}  {hottest}",
        sample.cpu,
        bar(busy(sample), sample.procstat_busy_ratio.as_ref().ok().copied(), bar_width),
        value(&sample.event_ratio),
        value(&sample.procstat_busy_ratio),
        value(&sample.unaccounted_ratio),
    );
    if sample.saturated() { Line::styled(text, bad()) } else { Line::raw(text) }
}

fn bar(ratio: f64, mark: Option<f64>, width: usize) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the width")]
    let place = |r: f64| (r.clamp(0.0, 1.0) * width as f64).round() as usize;
    let (full, mark) = (place(ratio), mark.map(|m| place(m).min(width.saturating_sub(1))));
    (0..width)
        .map(|i| match (i < full, mark == Some(i)) {
            (_, true) => '|',
            (true, false) => '█',
            (false, false) => '·',
        })
        .collect()
}
