//! Memory at a terminal: a line for the machine and one for each process.

use std::io::{self, Write};

use analysis::growth::Growth;
use record::memory::{MachineMemory, MemoryInterval, ProcessMemory};
use record::missing::Maybe;

use super::table::{Align, Table};
use super::{Style, Tint, paragraph};
use crate::number::{count, percent, significant};

/// Writes one interval: the machine, and a line for each of the largest processes.
///
/// - `growths`: for each process, in the same order.
/// - `top`: number of processes.
/// - `start_ns`: start of the first interval; printed times count from it.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn memory_interval(
    out: &mut dyn Write,
    interval: &MemoryInterval,
    growths: &[Maybe<Growth>],
    (top, start_ns): (usize, u64),
    style: Style,
) -> io::Result<()> {
    let missed = if interval.missed_deadline { ", deadline missed" } else { "" };
    let at_s = interval.until_ns.saturating_sub(start_ns) as f64 * 1e-9;
    let machine = match &interval.machine {
        Ok(machine) => of_machine(machine, interval.seconds()),
        Err(why) => format!("the machine's memory is unknown ({why})"),
    };
    paragraph(out, &format!("{at_s:.1} s, over {:.3} s: {machine}{missed}", interval.seconds()), 2, style)?;
    if interval.processes.is_empty() {
        return Ok(());
    }
    let mut table = Table::default()
        .column("process", Align::Elastic, 0)
        .column("RSS", Align::Right, 0)
        .column("change", Align::Right, 1)
        .column("swap", Align::Right, 5)
        .column("minor/s", Align::Right, 3)
        .column("major/s", Align::Right, 2)
        .column("growth/s (95 %)", Align::Right, 4);
    for (p, growth) in interval.processes.iter().zip(growths).take(top) {
        table.row(row(p, growth, interval.seconds()));
    }
    table.write(out, style)?;
    if interval.processes.len() > top {
        let rest = &interval.processes[top..];
        let rss: u64 = rest.iter().map(|p| p.rss_bytes).sum();
        let words = format!("{} more processes with {} together", count(rest.len() as u64), size(rss as f64));
        paragraph(out, &words, 2, style)?;
    }
    Ok(())
}

fn row(p: &ProcessMemory, growth: &Maybe<Growth>, seconds: f64) -> Vec<(String, Option<Tint>)> {
    let per_s = |n: u64| significant(n as f64 / seconds.max(1e-9));
    let certain = growth.as_ref().is_ok_and(Growth::is_certain);
    let growth = growth
        .as_ref()
        .map_or("-".to_owned(), |g| format!("{} ({} to {})", signed(g.per_s), signed(g.low), signed(g.high)));
    let change = signed(p.rss_change_bytes as f64);
    let cells = [
        format!("{}/{}", p.comm, p.pid),
        size(p.rss_bytes as f64),
        change,
        size(p.swap_bytes as f64),
        per_s(p.minor_faults),
        per_s(p.major_faults),
    ];
    let plain = cells.into_iter().map(|cell| (cell, None));
    plain.chain([(growth, certain.then_some(Tint::Strong))]).collect()
}

fn of_machine(m: &MachineMemory, seconds: f64) -> String {
    let per_s = |n: u64| significant(n as f64 / seconds.max(1e-9));
    let mut parts = vec![
        format!(
            "{} of {} available ({})",
            size(m.available_bytes as f64),
            size(m.total_bytes as f64),
            signed(m.available_change_bytes as f64)
        ),
        format!("{} minor and {} major faults/s", per_s(m.minor_faults), per_s(m.major_faults)),
    ];
    if m.scanned_bytes > 0 || m.stalls > 0 {
        let at_limits = match m.reclaimed_at_limits_bytes {
            0 => String::new(),
            bytes => format!(", {} of it by control groups at their limit", size(bytes as f64)),
        };
        parts.push(format!(
            "reclaimed {}{}, {} of it by threads that waited for free memory of the machine ({} stalls)",
            size(m.reclaimed_bytes as f64),
            at_limits,
            size(m.reclaimed_direct_bytes as f64),
            count(m.stalls)
        ));
    }
    if m.swap_total_bytes > 0 {
        parts.push(format!(
            "swap {} of {} used, {} in, {} out",
            size(m.swap_used_bytes as f64),
            size(m.swap_total_bytes as f64),
            size(m.swapped_in_bytes as f64),
            size(m.swapped_out_bytes as f64)
        ));
    }
    if let Ok(kills @ 1..) = m.oom_kills {
        parts.push(format!("{} processes killed by the OOM killer", count(kills)));
    }
    if let Ok(ratio) = m.pressure_some_ratio {
        parts.push(format!("{} of the time some thread waited for memory", percent(ratio)));
    }
    parts.join("; ")
}

/// `850 B`, `12.3 KiB`, `1.50 GiB`.
fn size(bytes: f64) -> String {
    let (value, unit) = match bytes.abs() {
        b if b < 1023.5 => (bytes, "B"),
        b if b < 1023.5 * 1024.0 => (bytes / 1024.0, "KiB"),
        b if b < 1023.5 * 1_048_576.0 => (bytes / 1_048_576.0, "MiB"),
        _ => (bytes / 1_073_741_824.0, "GiB"),
    };
    format!("{} {unit}", significant(value))
}

fn signed(bytes: f64) -> String {
    let sign = if bytes > 0.0 { "+" } else { "" };
    format!("{sign}{}", size(bytes))
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;

    fn sample() -> MemoryInterval {
        let process = |pid: u32, rss_bytes: u64, change: i64| ProcessMemory {
            pid,
            started: 1,
            comm: "leaks".to_owned(),
            rss_bytes,
            swap_bytes: 0,
            rss_change_bytes: change,
            minor_faults: 2_560,
            major_faults: 0,
        };
        let machine = MachineMemory {
            total_bytes: 8 << 30,
            available_bytes: 5 << 30,
            free_bytes: 1 << 30,
            swap_total_bytes: 0,
            swap_used_bytes: 0,
            available_change_bytes: -(10 << 20),
            minor_faults: 5_000,
            major_faults: 2,
            scanned_bytes: 0,
            reclaimed_bytes: 0,
            reclaimed_at_limits_bytes: 0,
            reclaimed_direct_bytes: 0,
            stalls: 0,
            swapped_in_bytes: 0,
            swapped_out_bytes: 0,
            oom_kills: Ok(0),
            pressure_some_ratio: Err(Missing::because("no psi")),
        };
        MemoryInterval {
            from_ns: 0,
            until_ns: 2_000_000_000,
            missed_deadline: false,
            machine: Ok(machine),
            processes: vec![process(7, 110 << 20, 10 << 20), process(8, 2 << 20, -4096)],
            ended: 0,
        }
    }

    #[test]
    fn sizes_are_in_powers_of_two_and_changes_have_a_sign() {
        let growths = [
            Ok(Growth { per_s: 5_242_880.0, low: 5_000_000.0, high: 5_500_000.0 }),
            Err(Missing::because("few")),
        ];
        let mut out = Vec::new();
        memory_interval(&mut out, &sample(), &growths, (9, 0), Style::PIPE).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    2.0 s, over 2.000 s: 5.00 GiB of 8.00 GiB available (-10.0 MiB); 2,500 minor and 1.00 major faults/s
    process       RSS     change  swap  minor/s  major/s                     growth/s (95 %)
    leaks/7   110 MiB  +10.0 MiB   0 B    1,280        0  +5.00 MiB (+4.77 MiB to +5.25 MiB)
    leaks/8  2.00 MiB  -4.00 KiB   0 B    1,280        0                                   -
    ");
    }

    #[test]
    fn processes_beyond_the_top_are_summed_up() {
        let growths = [Err(Missing::because("few")), Err(Missing::because("few"))];
        let mut out = Vec::new();
        memory_interval(&mut out, &sample(), &growths, (1, 0), Style::PIPE).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("1 more processes with 2.00 MiB together\n"), "{text}");
    }
}
