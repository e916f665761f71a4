//! The dashboard as a function of its values: nothing here reads a clock, a key or a machine.

mod cpu;
mod io;
mod locks;
mod nic;
mod number;
mod panel;

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use self::number::{percent, time};
pub(crate) use self::panel::View;
use self::panel::{bad, strong};

/// The smallest terminal in which every panel has a row with complete numbers.
const NEEDED: (u16, u16) = (74, 15);

/// Draws the dashboard, or the size that it needs.
pub(crate) fn draw(frame: &mut Frame, view: &View) {
    let area = frame.area();
    if area.width < NEEDED.0 || area.height < NEEDED.1 {
        let text = format!("too small: needs {}x{}; q quit", NEEDED.0, NEEDED.1);
        let wrapped = Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true });
        return frame.render_widget(wrapped, area);
    }
    let load_lines = u16::from(view.load.is_some());
    let cpu_lines = cpu::height(view, area);
    let lost_text = lost(view);
    let [head, load, cpu_area, middle, lost_line, foot] = Layout::vertical([
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
    cpu::draw(frame, cpu_area, view);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(middle);
    io::draw(frame, left, view);
    let [locks_area, ulocks_area, nic_area] = Layout::vertical(right_heights(right.height)).areas(right);
    locks::of_kernel(frame, locks_area, view);
    locks::of_programs(frame, ulocks_area, view);
    nic::draw(frame, nic_area, view);
    if let Some(text) = lost_text {
        frame.render_widget(Line::styled(text, bad()), lost_line);
    }
    ends(frame, foot, &format!(" {}", view.keys), &view.time);
}

/// Heights of three panels: kernel locks 2/5, programs' locks 1/5, network 2/5; at least one row each.
fn right_heights(all: u16) -> [Constraint; 3] {
    let locks = (2 * all + 2) / 5;
    let ulocks = ((3 * all + 2) / 5 - locks).max(2);
    [Constraint::Length(locks), Constraint::Length(ulocks), Constraint::Fill(1)]
}

/// CPU share of the dashboard itself.
fn corner(view: &View) -> String {
    let own = view.own_ratio.map_or(String::new(), |r| format!("own CPU {}", percent(r)));
    if view.paused { format!("PAUSED  {own}") } else { own }
}

/// Lost events of the shown interval, by instrument and reason: they explain a `>=`.
fn lost(view: &View) -> Option<String> {
    let last_io = view.io.as_ref().ok().and_then(|intervals| intervals.last());
    let all = [
        ("CPU", view.cpu.as_ref().ok().map(|i| &i.lost)),
        ("I/O", last_io.map(|i| &i.lost)),
        ("locks", view.locks.as_ref().ok().map(|i| &i.lost)),
        ("program locks", view.ulocks.as_ref().ok().map(|i| &i.lost)),
    ];
    let of = |(name, lost): (&str, Option<&BTreeMap<String, u64>>)| {
        // Some losses are a time, not a number of events.
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

/// Writes one line with a word at either end.
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

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use record::block_io::{IoCounts, IoEvents, IoGroup, IoInterval, Latencies, LatencyBucket, Powers};
    use record::cpu::{CpuInterval, CpuSample, Rung, TopThread};
    use record::locks::{UserLockInterval, UserLockKind, UserLockSample, Waits};
    use record::missing::Missing;
    use record::nic::{Duplex, InterfaceSample, LinkCounts, NicInterval};

    use super::io::{LABEL, heat_lines};
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
            waker: Err(Missing::because("no waker was observed")),
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
        let unknown = Missing::because("its driver does not report it");
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
        // The saturated CPU is named among hundreds.
        assert!(screen(80, 24, 512).contains("CPU 1 is saturated: mariadbd"));
    }
}
