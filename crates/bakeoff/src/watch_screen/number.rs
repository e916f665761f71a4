//! Numbers in the few columns of a panel.

pub(super) fn percent(ratio: f64) -> String {
    let text = format!("{:.1} %", ratio * 100.0);
    if text == "-0.0 %" { "0.0 %".to_owned() } else { text }
}

/// `12.3us`: three significant digits.
pub(super) fn time(ns: f64) -> String {
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

/// A count in at most seven columns.
pub(super) fn count(n: f64) -> String {
    match n {
        n if n < 9.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n if n < 99_999.5 => format!("{n:.0}"),
        n if n < 99_999_500.0 => format!("{:.0}k", n / 1e3),
        n => format!("{:.0}M", n / 1e6),
    }
}
