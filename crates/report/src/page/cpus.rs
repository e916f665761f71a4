//! The CPUs over time: how busy each of them was.

use record::cpu::CpuInterval;

use super::{Figure, Table};
use crate::chart::{Heat, HeatColumn, Kind, heat};
use crate::number::percent;

/// Bands of the utilisation.
const BANDS: u32 = 20;
/// Columns at most; more intervals share a column, in which every CPU has a place for each interval.
const COLUMNS_MAX: usize = 80;
/// ... and at least: fewer show no course.
const COLUMNS_MIN: usize = 5;

/// A heat map of the utilisation of all CPUs; `None` for few intervals, or if it was not measured.
pub(super) fn cpus_over_time(intervals: &[CpuInterval]) -> Option<Figure> {
    let start_ns = intervals.first()?.from_ns;
    let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 * 1e-9;
    if intervals.len() < COLUMNS_MIN {
        return None;
    }
    let mut data =
        Table::new("Utilisation of the CPUs", &["#until", "#CPUs", "#least busy", "#mean", "#busiest"])
            .over_time(&["least busy", "mean", "busiest"], Kind::Linear);
    let mut columns = Vec::new();
    for some in intervals.chunks(intervals.len().div_ceil(COLUMNS_MAX)) {
        let busy: Vec<f64> =
            some.iter().flat_map(|i| &i.cpus).filter_map(|cpu| cpu.busy_ratio().ok()).collect();
        let (from, until) = (seconds(some[0].from_ns), seconds(some[some.len() - 1].until_ns));
        let cpus = some.iter().map(|i| i.cpus.len()).max().unwrap_or(0);
        let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
        data.row(vec![
            format!("{until:.1} s").into(),
            cpus.to_string().into(),
            of(busy.iter().copied().reduce(f64::min)).into(),
            of((!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64)).into(),
            of(busy.iter().copied().reduce(f64::max)).into(),
        ]);
        columns.push(HeatColumn { from, until, cells: bands(&busy) });
    }
    if columns.iter().all(|column| column.cells.is_empty()) {
        return None;
    }
    Some(Figure {
        title: "Utilisation of the CPUs over time".into(),
        caption: "Each cell is a time and a utilisation; the more CPUs have it, the darker it is. One CPU that is full \
                  beside idle ones is a line at the top and one at the bottom."
            .into(),
        description: "Heat map of the busy share of each CPU; the table has the least, the mean and the greatest."
            .into(),
        drawing: heat(&Heat {
            x_title: "seconds",
            y_title: "busy",
            y_kind: Kind::Linear,
            y_range: Some((0.0, 1.0)),
            y_label: |ratio| format!("{:.0} %", ratio * 100.0),
            columns,
        }),
        data,
    })
}

/// Both ends of each band that has a CPU, and their number.
fn bands(busy: &[f64]) -> Vec<(f64, f64, f64)> {
    let end = |of: u32| f64::from(of) / f64::from(BANDS);
    let is_in =
        |of: u32, ratio: f64| (of == 0 || ratio >= end(of)) && (of + 1 == BANDS || ratio < end(of + 1));
    let count = |of: u32| busy.iter().filter(|ratio| is_in(of, **ratio)).count();
    let all = (0..BANDS).map(|of| (end(of), end(of + 1), count(of) as f64));
    all.filter(|(.., count)| *count > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use record::cpu::{CpuSample, Rung};
    use record::missing::Missing;

    use super::*;

    fn interval(k: u64, busy: &[f64]) -> CpuInterval {
        let cpu = |(i, ratio): (usize, &f64)| {
            let number = u32::try_from(i).unwrap();
            CpuSample { event_ratio: Ok(*ratio), ..CpuSample::without_values(number, "not measured") }
        };
        CpuInterval {
            from_ns: k * 1_000_000_000,
            until_ns: (k + 1) * 1_000_000_000,
            rung: Rung::Bpf,
            missed_deadline: false,
            cpus: busy.iter().enumerate().map(cpu).collect(),
            psi_some_ratio: Err(Missing::because("not measured")),
            lost: BTreeMap::new(),
        }
    }

    #[test]
    fn a_full_cpu_beside_idle_ones_is_not_averaged_away() {
        assert_eq!(bands(&[1.0, 0.0, 0.0, 0.02, 1.001]), [(0.0, 0.05, 3.0), (0.95, 1.0, 2.0)]);
        let all: Vec<CpuInterval> = (0..400).map(|k| interval(k, &[1.0, 0.0])).collect();
        let figure = cpus_over_time(&all).unwrap();
        let svg = figure.drawing.wide.body;
        let of_cells =
            svg.split(r#"<path class="heat""#).skip(1).map(|path| path.split("/>").next().unwrap());
        let cells: usize = of_cells.map(|path| path.matches('M').count()).sum();
        assert_eq!(cells, 2 * COLUMNS_MAX, "a cell at each end");
        assert!(svg.contains("100 %") && svg.contains("0 %"), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_for_few_intervals_or_without_values() {
        let few: Vec<CpuInterval> = (0..4).map(|k| interval(k, &[1.0])).collect();
        assert!(cpus_over_time(&few).is_none() && cpus_over_time(&[]).is_none());
        let none: Vec<CpuInterval> = (0..9).map(|k| interval(k, &[])).collect();
        assert!(cpus_over_time(&none).is_none());
    }
}
