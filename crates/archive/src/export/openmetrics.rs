//! The table as OpenMetrics text.
//!
//! # Source
//!
//! OpenMetrics 1.0, "Text format": samples of a metric are grouped, in the order of their timestamps.

use std::collections::BTreeMap;
use std::io::Write;

use super::Line;

/// A sample of a family: its labels, and its time in milliseconds.
type Point = (String, u64);

/// The samples by metric, in the order of their times.
#[derive(Default)]
pub(super) struct Families {
    // Sorted, because the samples of a metric must be grouped in the order of their times.
    points: BTreeMap<String, BTreeMap<Point, f64>>,
    /// Copies of a point so far: without them, equal rows take a time that grows with their square.
    copies: BTreeMap<(String, Point), u32>,
    label_bytes: usize,
}

impl Families {
    pub(super) fn add(&mut self, line: &Line<'_>) {
        let is_count = line.labels.iter().any(|(name, value)| *name == "stat" && value == "count");
        let (family, value) = if is_count {
            (format!("bakeoff_{}_samples", plain(line.name.trim_end_matches("_ns"))), line.value)
        } else {
            in_base_unit(&plain(&line.name), line.value)
        };
        let start_ms = line.run.header.anchor.unix_ns / 1_000_000;
        let at_ms = start_ms.saturating_add_signed(line.t_ms.unwrap_or(0));
        let mut point = (label_set(line, 0), at_ms);
        let points = self.points.entry(family.clone()).or_default();
        if points.contains_key(&point) {
            // Two rows with equal labels, such as two locks without a name, remain two metrics.
            self.label_bytes += point.0.len();
            let copy = self.copies.entry((family, point)).or_default();
            point = loop {
                *copy += 1;
                let point = (label_set(line, *copy), at_ms);
                if !points.contains_key(&point) {
                    break point;
                }
            };
        }
        self.label_bytes += point.0.len();
        points.insert(point, value);
    }

    /// Bytes of the labels in memory.
    pub(super) fn label_bytes(&self) -> usize {
        self.label_bytes
    }

    pub(super) fn write(self, out: &mut dyn Write) -> std::io::Result<()> {
        for (family, points) in self.points {
            writeln!(out, "# TYPE {family} gauge")?;
            for ((labels, at_ms), value) in points {
                writeln!(out, "{family}{{{labels}}} {} {}.{:03}", number(value), at_ms / 1000, at_ms % 1000)?;
            }
        }
        writeln!(out, "# EOF")
    }
}

fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v => v.to_string(),
    }
}

/// Our own labels. A row's label with such a name (the kind of a lock, of an interface) gets the prefix
/// `sample_`.
const OWN: [&str; 7] = ["run", "kind", "run_state", "block", "bakeoff", "host", "copy_of_row"];

/// Label set `run="...",kind="...",run_state="..."`, each name once.
fn label_set(line: &Line<'_>, copy: u32) -> String {
    let header = &line.run.header;
    let of_row = |name: &str| {
        let name = plain(name);
        if OWN.contains(&name.as_str()) { format!("sample_{name}") } else { name }
    };
    let mut all: BTreeMap<String, String> =
        line.labels.iter().map(|(name, value)| (of_row(name), value.clone())).collect();
    for (factor, level) in line.trial.iter().flat_map(|trial| &trial.levels) {
        all.insert(format!("level_{}", plain(factor)), level.clone());
    }
    all.extend(line.trial.map(|trial| ("block".to_owned(), trial.block.to_string())));
    all.extend(header.bakeoff.map(|bakeoff| ("bakeoff".to_owned(), bakeoff.to_string())));
    all.extend((copy > 0).then(|| ("copy_of_row".to_owned(), copy.to_string())));
    all.extend(
        (line.t_ms.is_some() && !line.host.is_empty()).then(|| ("host".to_owned(), line.host.to_owned())),
    );
    // Not `state`, because samples of a CPU or a task have that label.
    let first = [
        ("run", header.id.to_string()),
        ("kind", header.kind.word().to_owned()),
        ("run_state", header.state.word().to_owned()),
    ];
    let first = first.into_iter().map(|(name, value)| (name.to_owned(), value));
    first
        .chain(all)
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(&value)))
        .collect::<Vec<_>>()
        .join(",")
}

/// Converts to base units, which metric names spell out.
fn in_base_unit(name: &str, value: f64) -> (String, f64) {
    if let Some(stem) = name.strip_suffix("_ns") {
        return (format!("bakeoff_{stem}_seconds"), value * 1e-9);
    }
    if let Some(stem) = name.strip_suffix("_us_per_event") {
        return (format!("bakeoff_{stem}_seconds_per_event"), value * 1e-6);
    }
    if let Some(stem) = name.strip_suffix("_per_s") {
        return (format!("bakeoff_{stem}_per_second"), value);
    }
    (
        format!(
            "bakeoff_{}",
            name.strip_suffix("_s").map_or_else(|| name.to_owned(), |s| format!("{s}_seconds"))
        ),
        value,
    )
}

fn plain(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("_{plain}") } else { plain }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
