//! The locks with the most waiting, of the kernel and of programs.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use record::locks::UserLockSample;

use super::number::{count, percent, time};
use super::panel::{View, panel, why};

pub(super) fn of_kernel(frame: &mut Frame, area: Rect, view: &View) {
    let Ok(interval) = &view.locks else {
        return why(frame, area, "Locks", view.locks.as_ref().err());
    };
    let (waits, spin_ns) = interval.total();
    let at_least = if interval.lost.is_empty() { "" } else { ">=" };
    let title = format!(
        "Locks  {at_least}{} waits/s  CPU-util {at_least}{}",
        count(waits.count as f64 / interval.seconds()),
        percent(interval.cpu_util_ratio(spin_ns))
    );
    let block = panel(&title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let width = usize::from(inside.width);
    // In a narrow panel, the caller is more useful than the kind of the lock and the length of the wait.
    let is_narrow = width < 60;
    let row = |waits: &str, mean: &str, util: &str, name: &str| {
        let mean = if is_narrow { String::new() } else { format!(" {mean:>8}") };
        format!("{waits:>8}{mean} {util:>8} {name}").chars().take(width).collect::<String>()
    };
    let head = row("waits/s", "mean", "CPU-util", if is_narrow { "caller" } else { "caller, kind, lock" });
    let mut lines = vec![Line::styled(head, Style::new().add_modifier(Modifier::DIM))];
    for lock in interval.locks.iter().take(usize::from(inside.height).saturating_sub(1)) {
        let caller = lock.caller.as_ref().map_or("?", String::as_str);
        let place = lock.name.clone().unwrap_or_else(|_| format!("{:#x}", lock.address));
        let name =
            if is_narrow { caller.to_owned() } else { format!("{caller}, {}, {place}", lock.kind.word()) };
        lines.push(Line::raw(row(
            &count(lock.waits.count as f64 / interval.seconds()),
            &time(lock.waits.ns_mean() as f64),
            &percent(interval.cpu_util_ratio(lock.spin_ns_total)),
            &name,
        )));
    }
    frame.render_widget(Paragraph::new(lines), inside);
}

/// Writes a line for each lock of a program; waits that are probably idle come last.
pub(super) fn of_programs(frame: &mut Frame, area: Rect, view: &View) {
    let Ok(interval) = &view.ulocks else {
        return why(frame, area, "Program locks", view.ulocks.as_ref().err());
    };
    let (waits, spin_ns) = interval.total();
    let at_least = if interval.lost.is_empty() { "" } else { ">=" };
    let util = spin_ns.map_or("-".to_owned(), |ns| percent(interval.cpu_util_ratio(ns)));
    let per_s = |waits: u64| count(waits as f64 / interval.seconds());
    let title = format!("Program locks  {at_least}{}/s  CPU {at_least}{util}", per_s(waits.count));
    let block = panel(&title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let (idle, others): (Vec<_>, Vec<_>) = interval.locks.iter().partition(|l| l.is_likely_idleness());
    let line = |lock: &UserLockSample| {
        let caller = lock.caller.as_ref().map_or("?", String::as_str);
        let text = format!("{:>8} {} {} {caller}", per_s(lock.waits.count), lock.comm, lock.kind.word());
        Line::raw(text.chars().take(usize::from(inside.width)).collect::<String>())
    };
    let lines: Vec<Line> =
        others.into_iter().chain(idle).take(usize::from(inside.height)).map(line).collect();
    frame.render_widget(Paragraph::new(lines), inside);
}
