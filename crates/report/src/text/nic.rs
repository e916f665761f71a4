//! The network interfaces at a terminal, in the columns and order of nicstat.

use std::io::{self, Write};

use record::missing::Maybe;
use record::nic::{InterfaceSample, LinkCounts, NicInterval};
use record::printable::printable;

use super::table::{Align, Table};
use super::{Style, paragraph};

/// Parts of an interval to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that the user may give or not")]
pub struct NicView {
    /// The interfaces.
    pub interfaces: bool,
    /// Errors, collisions and drops instead of mean packet sizes.
    pub extended: bool,
    /// TCP counters.
    pub tcp: bool,
    /// UDP counters.
    pub udp: bool,
    /// One line of colon-separated values each, for programs.
    pub parseable: bool,
    /// Heads of the columns.
    pub heads: bool,
}

/// A column: head, width, and rank for dropping on a narrow terminal (0 is never dropped, the highest goes
/// first). If the first column has no head, the time is printed there, and the names below it are
/// left-aligned.
type Column = (&'static str, usize, u8);

const PLAIN: [Column; 10] = [
    ("Time", 8, 4),
    ("Int", 8, 0),
    ("rKB/s", 7, 0),
    ("wKB/s", 7, 0),
    ("rPk/s", 7, 2),
    ("wPk/s", 7, 2),
    ("rAvs", 7, 3),
    ("wAvs", 7, 3),
    ("%Util", 5, 0),
    ("Sat", 6, 1),
];

const EXTENDED: [Column; 11] = [
    ("", 9, 0),
    ("RdKB", 7, 0),
    ("WrKB", 7, 0),
    ("RdPkt", 7, 3),
    ("WrPkt", 7, 3),
    ("IErr", 5, 2),
    ("OErr", 5, 2),
    ("Coll", 5, 4),
    ("NoCP", 5, 1),
    ("Defer", 5, 4),
    ("%Util", 5, 0),
];

const TCP: [Column; 11] = [
    ("", 8, 0),
    ("InKB", 7, 5),
    ("OutKB", 7, 5),
    ("InSeg", 7, 0),
    ("OutSeg", 7, 0),
    ("Reset", 5, 1),
    ("AttF", 5, 4),
    ("%ReTX", 5, 0),
    ("InConn", 6, 2),
    ("OutCon", 6, 2),
    ("Drops", 5, 0),
];

const UDP: [Column; 5] = [("", 8, 0), ("InDG", 7, 0), ("OutDG", 7, 0), ("InErr", 7, 0), ("OutErr", 7, 0)];

/// Writes one interval as the view asks; an unknown value is a dash.
///
/// - `time`: end of the interval on the user's clock: `07:42:45`.
/// - `unix_s`: the same, for programs.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn nic_interval(
    out: &mut dyn Write,
    interval: &NicInterval,
    (time, unix_s): (&str, u64),
    view: NicView,
    style: Style,
) -> io::Result<()> {
    let width = if view.parseable { usize::MAX } else { style.width };
    let lead = if view.parseable { unix_s.to_string() } else { time.to_owned() };
    let mut block = |columns: &[Column], rows: Vec<Vec<String>>| {
        if view.parseable {
            return rows.iter().try_for_each(|row| writeln!(out, "{}", printable(&row.join(":"))));
        }
        let shown = shown(columns, width);
        if view.heads {
            let head = |c: &Column| if c.0.is_empty() { time.to_owned() } else { c.0.to_owned() };
            line(out, columns, &shown, columns.iter().map(head))?;
        }
        rows.into_iter().try_for_each(|row| line(out, columns, &shown, row.into_iter()))
    };
    if view.tcp {
        block(&TCP, vec![tcp(interval, view.parseable.then_some(&lead))])?;
    }
    if view.udp {
        block(&UDP, vec![udp(interval, view.parseable.then_some(&lead))])?;
    }
    if view.interfaces {
        let samples = interval.interfaces.as_deref().unwrap_or_default();
        let columns: &[Column] = if view.extended { &EXTENDED } else { &PLAIN };
        let row = |s: &InterfaceSample| match (view.parseable, view.extended) {
            (true, extended) => parseable(s, interval.seconds(), &lead, extended),
            (false, true) => extended(s, interval.seconds()),
            (false, false) => plain(s, interval.seconds(), &lead),
        };
        block(columns, samples.iter().map(row).collect())?;
    }
    if view.parseable {
        return Ok(());
    }
    if interval.missed_deadline {
        let text = format!("deadline missed: these are rates over {:.3} s", interval.seconds());
        paragraph(out, &text, 2, style)?;
    }
    let reasons = [
        (view.interfaces, interval.interfaces.as_ref().err()),
        (view.tcp, interval.tcp.as_ref().err()),
        (view.udp, interval.udp.as_ref().err()),
    ];
    for missing in reasons.into_iter().filter(|(shown, _)| *shown).filter_map(|(_, missing)| missing) {
        paragraph(out, &format!("missing: {missing}"), 2, style)?;
    }
    Ok(())
}

/// Writes the existing interfaces: speed, duplex, state, and the reason for each unknown value.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn nic_list(out: &mut dyn Write, interfaces: &[InterfaceSample], style: Style) -> io::Result<()> {
    let mut table = Table::default()
        .column("Int", Align::Left, 0)
        .column("Loopback", Align::Right, 2)
        .column("Mbit/s", Align::Right, 0)
        .column("Duplex", Align::Right, 1)
        .column("State", Align::Right, 0)
        .column("Kind", Align::Left, 3)
        .column("", Align::Elastic, 4);
    for s in interfaces {
        let speed = s.speed_bits_per_s.as_ref().map_or("-".to_owned(), |v| megabits(*v));
        let duplex = s.duplex.as_ref().map_or("unkn", |d| d.word());
        let cells = [
            s.name.clone(),
            if s.loopback { "Yes" } else { "No" }.to_owned(),
            speed,
            duplex.to_owned(),
            if s.up { "up" } else { "down" }.to_owned(),
            s.kind.clone().unwrap_or_default(),
            s.speed_bits_per_s.as_ref().err().map_or(String::new(), |why| format!("speed unknown: {why}")),
        ];
        table.row(cells.into_iter().map(|c| (c, None)).collect());
    }
    table.write(out, style)
}

fn plain(s: &InterfaceSample, seconds: f64, time: &str) -> Vec<String> {
    let mean = |bytes: u64, packets: u64| if packets == 0 { 0.0 } else { bytes as f64 / packets as f64 };
    let mut row = vec![time.to_owned(), s.name.clone()];
    row.extend(rates(s, seconds, digits));
    row.push(cell(&s.counts, |c| digits(mean(c.rx_bytes, c.rx_packets))));
    row.push(cell(&s.counts, |c| digits(mean(c.tx_bytes, c.tx_packets))));
    row.push(util(s, seconds));
    row.push(cell(&s.counts, |c| digits(c.saturation() as f64 / seconds)));
    row
}

fn extended(s: &InterfaceSample, seconds: f64) -> Vec<String> {
    let per_s = |of: fn(&LinkCounts) -> u64| cell(&s.counts, |c| digits_4(of(c) as f64 / seconds));
    let mut row = vec![s.name.clone()];
    row.extend(rates(s, seconds, digits));
    row.extend([
        per_s(|c| c.rx_errors),
        per_s(|c| c.tx_errors),
        per_s(|c| c.collisions),
        per_s(|c| c.rx_dropped),
        per_s(|c| c.tx_dropped),
        util(s, seconds),
    ]);
    row
}

/// nicstat's order of fields: time, name, rates, utilization, saturation, and with `-x` the errors.
fn parseable(s: &InterfaceSample, seconds: f64, time: &str, extended: bool) -> Vec<String> {
    let per_s = |of: fn(&LinkCounts) -> u64| cell(&s.counts, |c| digits(of(c) as f64 / seconds));
    let mut row = vec![time.to_owned(), s.name.clone()];
    row.extend(rates(s, seconds, digits_p));
    row.push(util(s, seconds));
    row.push(per_s(LinkCounts::saturation));
    if extended {
        row.extend([
            per_s(|c| c.rx_errors),
            per_s(|c| c.tx_errors),
            per_s(|c| c.collisions),
            per_s(|c| c.rx_dropped),
            per_s(|c| c.tx_dropped),
        ]);
    }
    row
}

/// Kilobytes and packets per second, in and out.
fn rates(s: &InterfaceSample, seconds: f64, digits: fn(f64) -> String) -> [String; 4] {
    let of = |value: fn(&LinkCounts) -> f64| cell(&s.counts, |c| digits(value(c) / seconds));
    [
        of(|c| c.rx_bytes as f64 / 1024.0),
        of(|c| c.tx_bytes as f64 / 1024.0),
        of(|c| c.rx_packets as f64),
        of(|c| c.tx_packets as f64),
    ]
}

fn util(s: &InterfaceSample, seconds: f64) -> String {
    cell(&s.util_ratio(seconds), |r| digits_4(r * 100.0))
}

/// - `lead`: prefix of a line for programs.
fn tcp(interval: &NicInterval, lead: Option<&String>) -> Vec<String> {
    let seconds = interval.seconds();
    let wide: fn(f64) -> String = if lead.is_some() { digits_p } else { digits };
    let narrow: fn(f64) -> String = if lead.is_some() { digits_p } else { digits_4 };
    let rate = |of: fn(&record::nic::TcpCounts) -> u64, digits: fn(f64) -> String| {
        cell(&interval.tcp, |c| digits(of(c) as f64 / seconds))
    };
    let mut row: Vec<String> = lead.cloned().into_iter().chain(["TCP".to_owned()]).collect();
    // Linux counts segments, not bytes.
    row.extend(["-".to_owned(), "-".to_owned()]);
    row.extend([
        rate(|c| c.in_segments, wide),
        rate(|c| c.out_segments, wide),
        rate(|c| c.resets, narrow),
        rate(|c| c.attempts_failed, narrow),
        cell(
            &interval
                .tcp
                .as_ref()
                .map_err(Clone::clone)
                .and_then(record::nic::TcpCounts::retransmitted_ratio),
            |r| digits_p(r * 100.0),
        ),
        rate(|c| c.passive_opens, narrow),
        rate(|c| c.active_opens, narrow),
        rate(|c| c.listen_drops, narrow),
    ]);
    row
}

/// - `lead`: prefix of a line for programs.
fn udp(interval: &NicInterval, lead: Option<&String>) -> Vec<String> {
    let seconds = interval.seconds();
    let digits: fn(f64) -> String = if lead.is_some() { digits_p } else { digits };
    let rate =
        |of: fn(&record::nic::UdpCounts) -> u64| cell(&interval.udp, |c| digits(of(c) as f64 / seconds));
    let mut row: Vec<String> = lead.cloned().into_iter().chain(["UDP".to_owned()]).collect();
    row.extend([
        rate(|c| c.in_datagrams),
        rate(|c| c.out_datagrams),
        rate(|c| c.in_errors),
        rate(|c| c.send_buffer_errors),
    ]);
    row
}

fn cell<T>(value: &Maybe<T>, text: impl FnOnce(&T) -> String) -> String {
    value.as_ref().map_or("-".to_owned(), text)
}

/// Columns that fit in `width`.
fn shown(columns: &[Column], width: usize) -> Vec<bool> {
    let mut shown = vec![true; columns.len()];
    let taken = |shown: &[bool]| {
        let widths = columns.iter().zip(shown).filter(|(_, shown)| **shown).map(|(c, _)| c.1 + 1);
        widths.sum::<usize>().saturating_sub(1)
    };
    while taken(&shown) > width {
        let goes =
            (0..columns.len()).filter(|i| shown[*i] && columns[*i].2 > 0).max_by_key(|i| columns[*i].2);
        let Some(goes) = goes else { break };
        shown[goes] = false;
    }
    shown
}

fn line(
    out: &mut dyn Write,
    columns: &[Column],
    shown: &[bool],
    cells: impl Iterator<Item = String>,
) -> io::Result<()> {
    let kept = columns.iter().zip(shown).zip(cells).filter(|((_, shown), _)| **shown);
    let pad = |((column, _), cell): ((&Column, &bool), String)| {
        let cell = printable(&cell);
        if column.0.is_empty() { format!("{cell:<0$}", column.1) } else { format!("{cell:>0$}", column.1) }
    };
    writeln!(out, "{}", kept.map(pad).collect::<Vec<_>>().join(" "))
}

/// A value with as many decimals as nicstat prints at this size.
fn digits(value: f64) -> String {
    match value {
        v if v < 100.0 => format!("{v:.2}"),
        v if v < 100_000.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Variant of [`digits`] for narrow columns.
fn digits_4(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// Variant of [`digits`] for programs.
fn digits_p(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.3}"),
        v if v < 100.0 => format!("{v:.2}"),
        v if v < 10_000.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn megabits(bits_per_s: u64) -> String {
    let text = format!("{:.3}", bits_per_s as f64 * 1e-6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::missing::Missing;
    use record::nic::{Duplex, TcpCounts, UdpCounts};

    fn interface(name: &str, speed: Maybe<u64>, counts: LinkCounts) -> InterfaceSample {
        InterfaceSample {
            index: 1,
            name: name.into(),
            kind: None,
            loopback: name == "lo",
            up: true,
            speed_bits_per_s: speed,
            duplex: Ok(Duplex::Full),
            counts: Ok(counts),
        }
    }

    fn example() -> NicInterval {
        let unknown = || Err(Missing::because("its driver does not report it"));
        let fast = LinkCounts {
            rx_bytes: 12_500_000_000,
            tx_bytes: 1_024,
            rx_packets: 8_333_333,
            tx_packets: 10,
            rx_dropped: 4,
            ..LinkCounts::default()
        };
        let slow = LinkCounts { rx_bytes: 2_048, rx_packets: 2, ..LinkCounts::default() };
        let mut gone = interface("gone0", unknown(), LinkCounts::default());
        gone.counts = Err(Missing::because("it disappeared in this interval"));
        NicInterval {
            from_ns: 0,
            until_ns: 2_000_000_000,
            missed_deadline: true,
            interfaces: Ok(vec![
                interface("eth0", Ok(100_000_000_000), fast),
                interface("lo", unknown(), slow),
                gone,
            ]),
            tcp: Ok(TcpCounts {
                in_segments: 200,
                out_segments: 99,
                retransmitted_segments: 1,
                ..TcpCounts::default()
            }),
            udp: Ok(UdpCounts {
                in_datagrams: 7,
                receive_buffer_errors: 3,
                in_errors: 3,
                ..UdpCounts::default()
            }),
        }
    }

    fn shown_as(view: NicView, width: usize) -> String {
        let mut out = Vec::new();
        let style = Style { width, color: false };
        nic_interval(&mut out, &example(), ("07:42:45", 1_795_246_965), view, style).unwrap();
        String::from_utf8(out).unwrap()
    }

    const VIEW: NicView =
        NicView { interfaces: true, extended: false, tcp: false, udp: false, parseable: false, heads: true };

    #[test]
    fn the_columns_are_nicstats_and_an_unknown_speed_is_a_dash() {
        insta::assert_snapshot!(shown_as(VIEW, 80));
        insta::assert_snapshot!("extended", shown_as(NicView { extended: true, ..VIEW }, 80));
        insta::assert_snapshot!(
            "protocols",
            shown_as(NicView { tcp: true, udp: true, interfaces: false, ..VIEW }, 80)
        );
        insta::assert_snapshot!(
            "parseable",
            shown_as(NicView { tcp: true, udp: true, extended: true, parseable: true, ..VIEW }, 10)
        );
    }

    #[test]
    fn where_no_segment_was_sent_no_share_of_them_was_sent_again() {
        let quiet = NicInterval { tcp: Ok(TcpCounts::default()), ..example() };
        assert_eq!(tcp(&quiet, None)[7], "-");
        assert_eq!(tcp(&example(), None)[7], "1.000");
    }

    #[test]
    fn every_line_fits_into_40_columns() {
        let view = NicView { tcp: true, udp: true, ..VIEW };
        for view in [view, NicView { extended: true, ..view }] {
            for line in shown_as(view, 40).lines() {
                assert!(line.chars().count() <= 40, "{line:?}");
            }
        }
    }
}
