//! The dashboard as a function of what was seen: nothing here reads a clock, a key or a machine.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use record::block_io::{IoInterval, Powers};
use record::cpu::{CpuInterval, CpuSample};
use record::locks::{LockInterval, UserLockInterval, UserLockSample};
use record::missing::Maybe;
use record::nic::{NicInterval, TcpCounts};

/// Everything that stands on the screen.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// What is looked at: `live, every 1 s`, or a run that is shown again and where in it.
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

/// The smallest terminal in which every panel has a row, with its numbers whole.
const NEEDED: (u16, u16) = (74, 15);

/// Draws it, or says which size it needs.
pub(crate) fn draw(frame: &mut Frame, view: &View) {
    let area = frame.area();
    if area.width < NEEDED.0 || area.height < NEEDED.1 {
        let text = format!("too small: needs {}x{}; q quit", NEEDED.0, NEEDED.1);
        let wrapped = Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true });
        return frame.render_widget(wrapped, area);
    }
    let load_lines = u16::from(view.load.is_some());
    let cpu_lines = cpu_height(view, area);
    let lost_text = lost(view);
    let [head, load, cpu, middle, lost_line, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(load_lines),
        Constraint::Length(cpu_lines),
        Constraint::Min(0),
        Constraint::Length(u16::from(lost_text.is_some())),
        Constraint::Length(1),
    ])
    .areas(area);
    ends(frame, head, &format!(" bakeoff watch  {}", view.source), &corner(view));
    if let Some(text) = &view.load {
        frame.render_widget(Line::styled(format!(" load: {text}"), strong()), load);
    }
    cpus(frame, cpu, view);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(middle);
    heat_map(frame, left, view);
    let [locks_area, ulocks_area, nic_area] = Layout::vertical(right_heights(right.height)).areas(right);
    locks(frame, locks_area, view);
    program_locks(frame, ulocks_area, view);
    nics(frame, nic_area, view);
    if let Some(text) = lost_text {
        frame.render_widget(Line::styled(text, bad()), lost_line);
    }
    ends(frame, foot, &format!(" {}", view.keys), &view.time);
}

/// The lines of the kernel's locks, programs' locks and the network: two fifths, one, two, and enough for a row in each.
fn right_heights(all: u16) -> [Constraint; 3] {
    let locks = (2 * all + 2) / 5;
    let ulocks = ((3 * all + 2) / 5 - locks).max(2);
    [Constraint::Length(locks), Constraint::Length(ulocks), Constraint::Fill(1)]
}

/// Time that the dashboard itself takes.
fn corner(view: &View) -> String {
    let own = view.own_ratio.map_or(String::new(), |r| format!("own CPU {}", percent(r)));
    if view.paused { format!("PAUSED  {own}") } else { own }
}

/// What was lost in the interval that is shown, by instrument and reason: why there is a `>=`.
fn lost(view: &View) -> Option<String> {
    let last_io = view.io.as_ref().ok().and_then(|intervals| intervals.last());
    let all = [
        ("CPU", view.cpu.as_ref().ok().map(|i| &i.lost)),
        ("I/O", last_io.map(|i| &i.lost)),
        ("locks", view.locks.as_ref().ok().map(|i| &i.lost)),
        ("program locks", view.ulocks.as_ref().ok().map(|i| &i.lost)),
    ];
    let of = |(name, lost): (&str, Option<&BTreeMap<String, u64>>)| {
        // Some are a time, not a number of events.
        let reason = |(why, n): (&String, &u64)| match why.strip_suffix("-ns") {
            Some(what) => format!("{} {what}", time(*n as f64)),
            None => format!("{n} {why}"),
        };
        let reasons: Vec<String> = lost?.iter().map(reason).collect();
        (!reasons.is_empty()).then(|| format!("{name} {}", reasons.join(", ")))
    };
    let told: Vec<String> = all.into_iter().filter_map(of).collect();
    (!told.is_empty()).then(|| format!(" LOST: {}", told.join("; ")))
}

/// One line with a word at either end.
fn ends(frame: &mut Frame, area: Rect, left: &str, right: &str) {
    let width = usize::from(area.width);
    let right: String = right.chars().take(width.saturating_sub(1)).collect();
    let room = width.saturating_sub(right.chars().count() + 2);
    let left: String = left.chars().take(room).collect();
    let line = format!("{left:<room$} {right} ");
    frame.render_widget(
        Paragraph::new(Line::styled(line, Style::new().add_modifier(Modifier::REVERSED))),
        area,
    );
}

fn panel(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(Span::styled(format!(" {title} "), strong()))
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Heads, a line for each CPU as far as there is room, and one for each that is saturated.
fn cpu_height(view: &View, area: Rect) -> u16 {
    let rows =
        view.cpu.as_ref().map_or(1, |c| 1 + c.cpus.len() + c.cpus.iter().filter(|s| s.saturated()).count());
    // The other panels need eight lines, and four are for the ends, the load and what was lost.
    let most = (area.height.saturating_sub(2) / 2).min(area.height.saturating_sub(12));
    u16::try_from(rows + 1).unwrap_or(u16::MAX).min(most.max(3))
}

fn cpus(frame: &mut Frame, area: Rect, view: &View) {
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
    // The saturated ones are named even where not every CPU has a line.
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
        lines.push(Line::styled(format!("CPU {} is saturated: {by}", sample.cpu), bad()));
    }
    frame.render_widget(Paragraph::new(lines), inside);
}

fn busy(sample: &CpuSample) -> f64 {
    sample.busy_ratio().unwrap_or(0.0)
}

fn bad() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// Events as a full bar, and where `/proc/stat` sees less or more, a mark.
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

fn heat_map(frame: &mut Frame, area: Rect, view: &View) {
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

const LABEL: usize = 8;
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Latency upward in powers of two, time to the right, the newest at the end; the more, the darker. Where there is no line
/// for each power, a line holds as many as are needed for all to be seen, and bears the bound of its lowest one.
fn heat_lines(intervals: &[IoInterval], width: usize, height: usize) -> Vec<String> {
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
        // What is shorter than any bucket of its own stands on the lowest line.
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

fn locks(frame: &mut Frame, area: Rect, view: &View) {
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
    // Where there is little room, who asks for a lock tells more than what it is and how long it takes.
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

/// A line for each lock of a program; what is likely waited for because there is nothing to do comes last.
fn program_locks(frame: &mut Frame, area: Rect, view: &View) {
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

fn nics(frame: &mut Frame, area: Rect, view: &View) {
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

/// A panel without its instrument says why.
fn why(frame: &mut Frame, area: Rect, name: &str, missing: Option<&record::missing::Missing>) {
    let block = panel(name);
    let text = missing.map_or(String::new(), |m| m.reason.clone());
    let wrapped = Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }).block(block);
    frame.render_widget(wrapped, area);
}

fn percent(ratio: f64) -> String {
    let text = format!("{:.1} %", ratio * 100.0);
    if text == "-0.0 %" { "0.0 %".to_owned() } else { text }
}

/// `12.3us`: three digits.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        n if n < 999.5 => (n, "ns"),
        n if n < 999.5e3 => (n / 1e3, "us"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    match value {
        v if v < 9.995 && unit != "ns" => format!("{v:.2}{unit}"),
        v if v < 99.95 && unit != "ns" => format!("{v:.1}{unit}"),
        v => format!("{v:.0}{unit}"),
    }
}

/// In at most seven places.
fn count(n: f64) -> String {
    match n {
        n if n < 9.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n if n < 99_999.5 => format!("{n:.0}"),
        n if n < 99_999_500.0 => format!("{:.0}k", n / 1e3),
        n => format!("{:.0}M", n / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use record::block_io::{IoCounts, IoEvents, IoGroup, Latencies, LatencyBucket};
    use record::cpu::{Rung, TopThread};
    use record::locks::{UserLockKind, Waits};
    use record::missing::Missing;
    use record::nic::{Duplex, InterfaceSample, LinkCounts};

    use super::*;

    fn cpu(cpus: u32) -> CpuInterval {
        let sample = |cpu: u32| {
            let event = if cpu == 1 { 0.998 } else { f64::from(cpu % 10) / 10.0 };
            CpuSample {
                event_ratio: Ok(event),
                irq_ratio: Ok(0.01),
                softirq_ratio: Ok(0.02),
                run_queue_wait_ns: Ok(1_000_000),
                procstat_busy_ratio: Ok(event / 2.0),
                unaccounted_ratio: Ok(event / 2.0),
                not_idle_ratio: Ok(event),
                stolen_ratio: Ok(0.0),
                balance_ns: Ok(0),
                switches: Ok(1_234),
                top: Ok(TopThread { pid: 4_711, tid: 4_712, comm: "mariadbd".into(), ratio: event * 0.9 }),
                ..CpuSample::without_values(cpu, "not asked for")
            }
        };
        CpuInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            rung: Rung::Bpf,
            missed_deadline: false,
            cpus: (0..cpus).map(sample).collect(),
            psi_some_ratio: Ok(0.25),
            lost: [(record::cpu::UNOWNED_NS.to_owned(), 8_065_402)].into(),
        }
    }

    fn io(k: u64) -> IoInterval {
        let bucket = |from_ns: u64, count| LatencyBucket { from_ns, until_ns: from_ns + from_ns / 32, count };
        let buckets = vec![bucket(65_536, 100 + k), bucket(131_072, 10), bucket(4_194_304 << (k % 3), 3)];
        let from_start = Latencies { buckets, sum_ns: 0, max_ns: 20_000_000 };
        IoInterval {
            from_ns: k * 1_000_000_000,
            until_ns: (k + 1) * 1_000_000_000,
            missed_deadline: false,
            events: IoEvents::StartToDone,
            counts: IoCounts { reads: 100 + k, writes: 13, ..IoCounts::default() },
            groups: vec![IoGroup { count: 113 + k, from_start, ..IoGroup::default() }],
            in_flight: 0,
            unmatched: Ok(0),
            merged: Ok(0),
            lost: std::collections::BTreeMap::new(),
        }
    }

    fn ulocks() -> UserLockInterval {
        let lock = |kind, caller: &str, count| UserLockSample {
            cgroup: None,
            pid: 4_711,
            comm: "mariadbd".into(),
            address: 0x5589_cc6c,
            kind,
            call: Err(Missing::because("no name")),
            caller: Ok(caller.into()),
            stack: Vec::new(),
            waker: Err(Missing::because("nobody was seen to wake it")),
            waits: Waits { count, ns_total: count * 50_000, ns_max: 90_000, histogram: Powers::new() },
            spin_ns_total: Ok(count * 1_000),
            not_slept: 0,
            timed_out: 0,
        };
        let locks = vec![
            lock(UserLockKind::Condvar, "os_event_wait_low", 400),
            lock(UserLockKind::Mutex, "log_write_up_to", 2_000),
        ];
        UserLockInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            cpus: 2,
            missed_deadline: false,
            locks,
            lost: [("no-room".to_owned(), 7)].into(),
        }
    }

    fn nic() -> NicInterval {
        let counts =
            LinkCounts { rx_bytes: 125_000_000, rx_packets: 90_000, rx_dropped: 7, ..LinkCounts::default() };
        let eth0 = InterfaceSample {
            index: 2,
            name: "eth0".into(),
            kind: None,
            loopback: false,
            up: true,
            speed_bits_per_s: Ok(10_000_000_000),
            duplex: Ok(Duplex::Full),
            counts: Ok(counts),
        };
        let unknown = Missing::because("its driver does not say");
        let lo = InterfaceSample { name: "lo".into(), speed_bits_per_s: Err(unknown), ..eth0.clone() };
        NicInterval {
            from_ns: 0,
            until_ns: 1_000_000_000,
            missed_deadline: false,
            interfaces: Ok(vec![lo, eth0]),
            tcp: Err(Missing::because("not there")),
            udp: Err(Missing::because("not there")),
        }
    }

    fn screen(width: u16, height: u16, cpus: u32) -> String {
        let (cpu, nic, ulocks) = (cpu(cpus), nic(), ulocks());
        let io: Vec<IoInterval> = (0..60).map(io).collect();
        let view = View {
            source: "live, every 1 s".into(),
            time: "13:40:05".into(),
            paused: false,
            cpu: Ok(&cpu),
            locks: Err(Missing::because("no waits by BPF: run it with sudo")),
            ulocks: Ok(&ulocks),
            io: Ok(&io),
            nic: Ok(&nic),
            load: Some("oltp-read-write on mysql://app@db, for 12 s".into()),
            own_ratio: Some(0.0042),
            keys: "q quit  p pause  + - interval",
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn a_small_terminal_shows_every_instrument() {
        insta::assert_snapshot!(screen(80, 24, 2));
    }

    #[test]
    fn a_large_terminal_shows_every_cpu() {
        insta::assert_snapshot!(screen(200, 50, 16));
    }

    #[test]
    fn the_smallest_terminal_has_a_row_in_every_panel_and_a_smaller_one_is_told() {
        insta::assert_snapshot!(screen(NEEDED.0, NEEDED.1, 2));
        assert_eq!(screen(74, 14, 2).trim_end(), "too small: needs 74x15; q quit");
        assert!(screen(73, 15, 2).contains("needs 74x15"));
        for height in NEEDED.1..60 {
            for cpus in [1, 2, 16] {
                let text = screen(80, height, cpus);
                let rows = ["hottest thread", " mutex log_write_up_to", "lo     ", "run it with sudo"];
                assert!(rows.iter().all(|row| text.contains(row)), "{text}");
            }
        }
    }

    #[test]
    fn a_low_heat_map_shows_every_request() {
        let intervals = [io(0)];
        let seen = |height| heat_lines(&intervals, LABEL + 2, height);
        assert_eq!(
            seen(7),
            [
                "  4.19ms ▒",
                "  2.10ms  ",
                "  1.05ms  ",
                "   524us  ",
                "   262us  ",
                "   131us ▓",
                "  65.5us █"
            ]
        );
        assert_eq!(seen(3), ["  4.19ms ▒", "   524us  ", "  65.5us █"]);
        assert_eq!(seen(1), ["  65.5us █"]);
        assert!(seen(0).is_empty());
    }

    #[test]
    fn no_size_is_too_small_and_no_machine_too_large() {
        for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 24), (300, 100)] {
            for cpus in [0, 1, 2, 512] {
                let text = screen(width, height, cpus);
                assert_eq!(text.lines().count(), usize::from(height));
            }
        }
        // The full one is named among hundreds.
        assert!(screen(80, 24, 512).contains("CPU 1 is saturated: mariadbd"));
    }
}
