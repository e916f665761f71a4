//! The format of numbers in reports: with units and significant digits only.

use analysis::history::Key;
use record::bakeoff::{Metric, Scale};

/// `850 ns`, `12.3 us`, `4.56 ms`, `1.23 s`: three significant digits.
pub(crate) fn latency(ns: f64) -> String {
    if ns < 0.0 {
        return format!("-{}", latency(-ns));
    }
    let (value, unit) = unit_of(ns);
    if unit == "ns" { format!("{value:.0} ns") } else { format!("{} {unit}", significant(value)) }
}

/// [`latency`] of seconds, of which the nanoseconds may be infinite.
fn latency_of_s(seconds: f64) -> String {
    let ns = seconds * 1e9;
    if ns.is_finite() { latency(ns) } else { format!("{} s", significant(seconds)) }
}

fn unit_of(ns: f64) -> (f64, &'static str) {
    match ns {
        n if n < 999.5 => (n, "ns"),
        n if n < 999.5e3 => (n / 1e3, "us"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    }
}

/// Number from which on digits before the point say nothing: a double does not hold more of them.
const FOREIGN: f64 = 1e15;

/// Three significant digits, or all digits before the point if there are more, in groups of three.
pub(crate) fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.001 => format!("{value:.2e}"),
        v if v < 0.009_995 => format!("{value:.5}"),
        v if v < 0.099_95 => format!("{value:.4}"),
        v if v < 0.999_5 => format!("{value:.3}"),
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        v if v < FOREIGN => grouped(&format!("{value:.0}")),
        _ => format!("{value:.2e}"),
    }
}

/// `30,000`.
pub(crate) fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// `499.98`, `12,345`: events per second, five significant digits.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s.abs() {
        // One event an hour must not print as 0.
        v if v > 0.0 && v < 0.0005 => format!("{per_s:.2e}"),
        v if v < 99.995 => format!("{per_s:.3}"),
        v if v < 999.995 => format!("{per_s:.2}"),
        v if v < 9_999.95 => grouped(&format!("{per_s:.1}")),
        v if v < FOREIGN => grouped(&format!("{per_s:.0}")),
        _ => format!("{per_s:.2e}"),
    }
}

/// `12.3 %`.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{} %", percent_digits(ratio))
}

/// `12.3`: a percentage without its sign, for a column with the sign in its head. Never `-0.0`.
pub(crate) fn percent_digits(ratio: f64) -> String {
    if ratio.abs() * 100.0 >= FOREIGN {
        return significant(ratio * 100.0);
    }
    let text = format!("{:.1}", ratio * 100.0);
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// A spread over a mean: `12.3 %`, from the mean itself on `51x`.
pub(crate) fn spread(ratio: f64) -> String {
    if ratio < 0.999_5 { percent(ratio) } else { format!("{}x", multiple_of(ratio)) }
}

/// `2.0`, `51`, `5.10e20`: a multiple of 1 or more, however large.
pub(crate) fn multiple_of(ratio: f64) -> String {
    if ratio < 99.95 { format!("{ratio:.1}") } else { significant(ratio) }
}

/// A ratio from a plan, as short as possible: `1 %`, `0.5 %`.
pub(crate) fn share(ratio: f64) -> String {
    let text = format!("{:.3}", ratio * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Direction in which the last digit is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    /// A value.
    Nearest,
    /// The lower end of an interval: what is printed covers it.
    Down,
    /// The upper end of an interval.
    Up,
}

/// The value with this number of decimals.
pub(crate) fn fixed(value: f64, decimals: usize, toward: Toward) -> String {
    clear_of(f64::NEG_INFINITY, value, decimals, toward)
}

/// The value with this number of decimals. An end of an interval has as many more as it takes not to read as
/// `none`: an interval that excludes no difference must not read as if it included it.
///
/// - `none`: no difference: 0, or of factors 1.
pub(crate) fn clear_of(none: f64, value: f64, decimals: usize, toward: Toward) -> String {
    const SCALES: [f64; 7] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 1e5, 1e6];
    let by = value - none;
    let inwards = (toward == Toward::Down && by > 0.0) || (toward == Toward::Up && by < 0.0);
    let mut decimals = decimals;
    while inwards && decimals + 1 < SCALES.len() && by.abs() * SCALES[decimals] < 1.0 - 1e-9 {
        decimals += 1;
    }
    let scale = SCALES[decimals];
    let scaled = value * scale;
    // A value with this number of decimals is not exact in binary, and stays as it is.
    let fuzz = scaled.abs() * 1e-9;
    let rounded = match toward {
        Toward::Nearest => value,
        Toward::Down => (scaled + fuzz).floor() / scale,
        Toward::Up => (scaled - fuzz).ceil() / scale,
    };
    format!("{rounded:.decimals$}")
}

/// A ratio as a change: `+16 %`, `-0.34 %`; from twice on as a multiple, `6.6x`.
pub(crate) fn change(ratio: f64) -> String {
    if ratio >= MULTIPLES_FROM {
        return format!("{}x", multiple(ratio, Toward::Nearest));
    }
    small_change(1.0, ratio, Toward::Nearest)
}

/// - `none`: ratio that an end of an interval must not read as.
fn small_change(none: f64, ratio: f64, toward: Toward) -> String {
    let pct = (ratio - 1.0) * 100.0;
    let decimals = match pct.abs() {
        p if p < 0.995 => 2,
        p if p < 9.95 => 1,
        // A remainder of under half a percent must not read as nothing at all.
        _ if ratio < 0.005 => 2,
        _ => 0,
    };
    let text = clear_of((none - 1.0) * 100.0, pct, decimals, toward);
    match text.as_str() {
        "0.00" | "-0.00" => "0 %".to_owned(),
        text if text.starts_with('-') => format!("{text} %"),
        text => format!("+{text} %"),
    }
}

/// The difference of two values of a metric: a change, or percentage points (`+0.31 pp`).
pub(crate) fn change_of(metric: Metric, ratio: f64) -> String {
    match metric.scale() {
        Scale::Ratio => change(ratio),
        Scale::Points => points(1.0, ratio, Toward::Nearest),
    }
}

/// Two differences as an interval, of which neither end reads as no difference unless there may be none.
pub(crate) fn change_interval_of(metric: Metric, low: f64, high: f64) -> String {
    change_interval_beside(metric, 1.0, low, high)
}

/// Two differences as an interval, of which neither end reads as the ratio `limit` unless it is that.
pub(crate) fn change_interval_beside(metric: Metric, limit: f64, low: f64, high: f64) -> String {
    match metric.scale() {
        Scale::Ratio => ratios(limit, low, high),
        Scale::Points => {
            format!("[{}, {}]", points(limit, low, Toward::Down), points(limit, high, Toward::Up))
        }
    }
}

/// `+0.31 pp`: a difference in percentage points.
///
/// - `ratio`: e to the difference.
pub(crate) fn point_change(ratio: f64) -> String {
    points(1.0, ratio, Toward::Nearest)
}

/// A value of a metric, or a ratio of two, in documents and drawings: of a share, 1 plus it.
pub(crate) fn plain(metric: Metric, value: f64) -> f64 {
    match metric.scale() {
        Scale::Ratio => value,
        Scale::Points => 1.0 + value.ln(),
    }
}

/// [`plain`] of a history's value; a number from a file stays as it is.
pub(crate) fn plain_of(key: &Key, value: f64) -> f64 {
    key.own_metric().map_or(value, |metric| plain(metric, value))
}

/// The ends of an interval of a difference in percentage points, rounded outwards.
pub(crate) fn point_ends(low: f64, high: f64) -> (String, String) {
    (points(1.0, low, Toward::Down), points(1.0, high, Toward::Up))
}

/// The ends of an interval of a metric's values, rounded outwards.
pub(crate) fn metric_ends(metric: Metric, ends: (f64, f64)) -> (String, String) {
    metric_ends_beside(metric, f64::INFINITY, ends)
}

/// Variant of [`metric_ends`] in which an end that is close to `limit` has more digits, and does not
/// read as the limit.
pub(crate) fn metric_ends_beside(metric: Metric, limit: f64, (low, high): (f64, f64)) -> (String, String) {
    /// Twice the largest step of three digits.
    const CLOSE: f64 = 0.02;
    let write = |value: f64| match metric {
        _ if (value / limit - 1.0).abs() > CLOSE || value.abs() >= FOREIGN => metric_value(metric, value),
        Metric::Throughput => format!("{value:.3}/s"),
        Metric::P99 | Metric::P999 | Metric::CpuPerEvent | Metric::Time | Metric::Cpu => {
            let (value, unit) = unit_of(value * 1e9);
            format!("{value:.5} {unit}")
        }
        _ => metric_value(metric, value),
    };
    match metric.scale() {
        Scale::Ratio => outward((low, high), write),
        Scale::Points => (stored_share(low, Toward::Down), stored_share(high, Toward::Up)),
    }
}

/// `+0.31 pp`, with at least two digits that are not 0.
fn points(none: f64, ratio: f64, toward: Toward) -> String {
    let points = ratio.ln() * 100.0;
    let decimals = match points.abs() {
        p if p < 0.000_5 => 5,
        p if p < 0.095 => 3,
        p if p < 9.95 => 2,
        _ => 1,
    };
    match clear_of(none.ln() * 100.0, points, decimals, toward) {
        text if is_zero(&text) => "0 pp".to_owned(),
        text if text.starts_with('-') => format!("{text} pp"),
        text => format!("+{text} pp"),
    }
}

/// A share, of which the value is e to it: `0.31 %`.
fn stored_share(value: f64, toward: Toward) -> String {
    let percent = value.ln() * 100.0;
    let decimals = match percent.abs() {
        p if p < 0.095 => 4,
        p if p < 9.95 => 2,
        _ => 1,
    };
    match fixed(percent, decimals, toward) {
        text if is_zero(&text) => "0 %".to_owned(),
        text => format!("{text} %"),
    }
}

fn is_zero(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '0' | '.' | '-'))
}

/// `6.6`, `0.31`, `0.086`: a ratio before the word `times` or the letter `x`.
pub(crate) fn multiple(ratio: f64, toward: Toward) -> String {
    multiple_beside(1.0, ratio, toward)
}

fn multiple_beside(none: f64, ratio: f64, toward: Toward) -> String {
    match ratio {
        r if r > RATIO_SHOWN_MAX => format!("over {}", significant(RATIO_SHOWN_MAX)),
        r if r >= 99.95 => grouped(&clear_of(none, r, 0, toward)),
        r if r >= 1.995 => clear_of(none, r, 1, toward),
        r if r >= 0.0995 => clear_of(none, r, 2, toward),
        r if r >= 0.001 => clear_of(none, r, 3, toward),
        r if r >= 1.0 / RATIO_SHOWN_MAX => format!("{r:.1e}"),
        _ => "0.000".to_owned(),
    }
}

/// The ratio from which a change is written as a multiple; it prints as `2.0x`.
pub(crate) const MULTIPLES_FROM: f64 = 1.995;

/// Largest ratio that is printed; a larger one means only that the value is unknown.
const RATIO_SHOWN_MAX: f64 = 1e6;

/// Two changes as an interval, both in the same form and rounded outwards: `[+7.0 %, +9.2 %]`,
/// `[0.086x, 14.6x]`.
pub(crate) fn change_interval(low: f64, high: f64) -> String {
    ratios(1.0, low, high)
}

fn ratios(none: f64, low: f64, high: f64) -> String {
    let form = |ratio: f64, toward: Toward| {
        if high >= MULTIPLES_FROM {
            format!("{}x", multiple_beside(none, ratio, toward))
        } else {
            small_change(none, ratio, toward)
        }
    };
    format!("[{}, {}]", form(low, Toward::Down), form(high, Toward::Up))
}

/// The ends of an interval as `write` prints them, rounded outwards.
///
/// `write` prints a number first, in the value's unit or in a unit that is a power of ten of it.
pub(crate) fn outward((low, high): (f64, f64), write: impl Fn(f64) -> String) -> (String, String) {
    (widened(low, -1.0, &write), widened(high, 1.0, &write))
}

/// - `sign`: -1 for a lower end, 1 for an upper end.
fn widened(value: f64, sign: f64, write: impl Fn(f64) -> String) -> String {
    let text = write(value);
    let end =
        text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',' | '-' | '+')).unwrap_or(text.len());
    let digits = text[..end].replace(',', "");
    let (Ok(shown), false) = (digits.parse::<f64>(), text[end..].starts_with('e')) else { return text };
    if shown == 0.0 || value == 0.0 || !value.is_finite() {
        return text;
    }
    let unit = 10.0_f64.powf((value / shown).abs().log10().round());
    let short = sign * (value - shown * unit);
    if short <= value.abs() * 1e-9 {
        return text;
    }
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let step = 10.0_f64.powi(-i32::try_from(decimals).unwrap_or(0));
    write((shown + sign * step) * unit)
}

/// `0.031`, `<0.001`.
pub(crate) fn p_value(p: f64) -> String {
    match p {
        p if p < 0.001 => "<0.001".to_owned(),
        p if p < 0.1 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

pub(crate) use record::quantity::span;

/// `2026-11-21 09:52 UTC`.
pub(crate) fn date_time(unix_ns: u64) -> String {
    stamp(unix_ns).strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// `2026-11-21T09:52:03.250Z`, for programs.
pub(crate) fn rfc3339(unix_ns: u64) -> String {
    stamp(unix_ns).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn stamp(unix_ns: u64) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns))
        .expect("64 bits of nanoseconds end in the year 2554, which a timestamp holds")
}

/// A metric's value with its unit: `1,234/s`, `4.56ms`, `123us CPU`.
pub(crate) fn metric_value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => format!("{}/s", significant_4(value)),
        Metric::P99 | Metric::P999 | Metric::CpuPerEvent | Metric::Time | Metric::Cpu => latency_of_s(value),
        Metric::LockCpu | Metric::MemoryGrowth => stored_share(value, Toward::Nearest),
        Metric::IoPerEvent => format!("{} B", significant_4(value)),
        Metric::EnergyPerEvent => format!("{} J", small(value)),
    }
}

/// Three significant digits of a value that may be far below 1.
fn small(value: f64) -> String {
    if value.abs() < 0.001 { format!("{value:.2e}") } else { significant_4(value) }
}

/// A value of a series: of a metric of ours, or a time, in its unit; any other number as it is, with a unit.
pub(crate) fn named_value(key: &Key, value: f64) -> String {
    match key.unit() {
        Some(unit) if key.own_metric().is_none() && unit != "s" => {
            format!("{} {unit}", axis_value(key, value))
        }
        _ => axis_value(key, value),
    }
}

/// Metric of a series, with the unit that the numbers beside its axis lack: `heat (ticks)`.
pub(crate) fn metric_name(key: &Key) -> String {
    match key.unit() {
        Some(unit) if key.own_metric().is_none() && unit != "s" => format!("{} ({unit})", key.metric),
        _ => key.metric.clone(),
    }
}

/// [`named_value`] beside an axis: without a unit that is not ours.
pub(crate) fn axis_value(key: &Key, value: f64) -> String {
    match key.own_metric() {
        Some(metric) => metric_value(metric, value),
        None if key.unit() == Some("s") => latency_of_s(value),
        None if value != 0.0 && value.abs() < 0.1 => significant(value),
        None => significant_4(value),
    }
}

/// A change of a series.
pub(crate) fn change_named(key: &Key, ratio: f64) -> String {
    key.own_metric().map_or_else(|| change(ratio), |metric| change_of(metric, ratio))
}

/// The interval of a change of a series.
pub(crate) fn interval_named(key: &Key, low: f64, high: f64) -> String {
    let ratio = || change_interval(low, high);
    key.own_metric().map_or_else(ratio, |metric| change_interval_of(metric, low, high))
}

/// `90 s`, `5 min`, `13 h 20 min`, `1 day`, `7 days 2 h`: the length of a cycle or of a series.
pub(crate) fn long_span(seconds: f64) -> String {
    const DAY_S: f64 = 86_400.0;
    if seconds < DAY_S - 30.0 {
        return span(seconds);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a span on paper")]
    let hours = (seconds / 3_600.0).round() as u64;
    let (days, hours) = (hours / 24, hours % 24);
    let days = if days == 1 { "1 day".to_owned() } else { format!("{} days", count(days)) };
    if hours == 0 { days } else { format!("{days} {hours} h") }
}

/// Four significant digits.
pub(crate) fn significant_4(value: f64) -> String {
    match value.abs() {
        v if v < 9.999_5 => format!("{value:.3}"),
        v if v < 99.995 => format!("{value:.2}"),
        v if v < 999.95 => format!("{value:.1}"),
        v if v < FOREIGN => grouped(&format!("{value:.0}")),
        _ => format!("{value:.3e}"),
    }
}

/// `850 MB/s`, `12.3 GB/s`: bytes per second, in powers of ten.
pub(crate) fn bandwidth(bytes_per_s: f64) -> String {
    let (value, unit) = match bytes_per_s {
        b if b < 999.5e3 => (b / 1e3, "kB/s"),
        b if b < 999.5e6 => (b / 1e6, "MB/s"),
        b => (b / 1e9, "GB/s"),
    };
    format!("{} {unit}", significant(value))
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |d| ("-", d));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

#[cfg(test)]
mod tests;
