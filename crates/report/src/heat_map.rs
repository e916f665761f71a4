//! A separate picture file: latency of block I/O over time.

use record::block_io::{IoGroup, IoInterval, Latencies};

use crate::chart::{Drawing, Heat, HeatColumn, Kind, heat};
use crate::number::latency;

/// Styles that a page defines for its pictures, for a picture without a page.
const STYLE: &str = "\
svg{font:13px \"Liberation Sans\",Arial,sans-serif;background:#fdfdfb;color-scheme:light dark}\
.grid{stroke:#d9dbd6}.axis{stroke:#5c6168}.tick,.axis-title{fill:#5c6168}.heat{fill:#0068b3}\
@media (prefers-color-scheme:dark){svg{background:#16181b}.grid{stroke:#353a40}.axis{stroke:#a2a7ae}\
.tick,.axis-title{fill:#a2a7ae}.heat{fill:#58b4f5}}";

/// Maximum number of columns; the eye distinguishes fewer on a screen.
const COLUMNS_MAX: usize = 1_024;

/// Latency of every request over time, from start to end, for any number of intervals. Above about 1,000
/// intervals, neighbours share a column, so memory use is bounded.
#[derive(Debug)]
pub struct IoHeatMap {
    columns: Vec<Column>,
    /// Intervals per column; the last column may have fewer.
    each: usize,
    in_last: usize,
}

#[derive(Debug)]
struct Column {
    from_ns: u64,
    until_ns: u64,
    from_start: Latencies,
}

impl Column {
    fn of(interval: &IoInterval) -> Self {
        let IoGroup { from_start, .. } = interval.total();
        Self { from_ns: interval.from_ns, until_ns: interval.until_ns, from_start }
    }

    /// Merges the next column into this one.
    fn join(&mut self, next: &Self) {
        self.until_ns = next.until_ns;
        self.from_start.add(&next.from_start);
    }
}

impl Default for IoHeatMap {
    fn default() -> Self {
        Self { columns: Vec::new(), each: 1, in_last: 1 }
    }
}

impl IoHeatMap {
    /// Adds the next interval.
    pub fn add(&mut self, interval: &IoInterval) {
        let column = Column::of(interval);
        if self.in_last < self.each
            && let Some(last) = self.columns.last_mut()
        {
            last.join(&column);
            self.in_last += 1;
            return;
        }
        if self.columns.len() == COLUMNS_MAX {
            let mut pairs = std::mem::take(&mut self.columns).into_iter();
            while let Some(mut first) = pairs.next() {
                if let Some(second) = pairs.next() {
                    first.join(&second);
                }
                self.columns.push(first);
            }
            self.each *= 2;
        }
        self.columns.push(column);
        self.in_last = 1;
    }

    /// An SVG document; `None` if there was no request.
    ///
    /// - `start_ns`: the origin of the time axis.
    pub fn svg(&self, start_ns: u64) -> Option<String> {
        let svg = drawing(&self.columns, start_ns)?.wide;
        Some(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\" role=\"img\">\n<title>Latency of \
             block I/O over time</title>\n<style>{STYLE}</style>\n{}</svg>\n",
            svg.width, svg.height, svg.body
        ))
    }
}

/// The heat map as a drawing for a page. Neighbouring intervals share a column if there are more than 160:
/// a page has a bounded size.
pub(crate) fn io_heat(intervals: &[IoInterval], start_ns: u64) -> Option<Drawing> {
    const PAGE_COLUMNS_MAX: usize = 160;
    let merged = |some: &[IoInterval]| {
        let mut column = Column::of(&some[0]);
        some[1..].iter().for_each(|next| column.join(&Column::of(next)));
        column
    };
    let each = intervals.len().div_ceil(PAGE_COLUMNS_MAX).max(1);
    drawing(&intervals.chunks(each).map(merged).collect::<Vec<_>>(), start_ns)
}

fn drawing(columns: &[Column], start_ns: u64) -> Option<Drawing> {
    let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 * 1e-9;
    let column = |c: &Column| HeatColumn {
        from: seconds(c.from_ns),
        until: seconds(c.until_ns),
        cells: cells(c.from_start.buckets.iter().map(|b| (b.from_ns, b.count))),
    };
    let columns: Vec<HeatColumn> = columns.iter().map(column).collect();
    if columns.iter().all(|c| c.cells.is_empty()) {
        return None;
    }
    Some(heat(&Heat {
        x_title: "seconds",
        y_title: "latency",
        y_kind: Kind::Log,
        y_range: None,
        y_label: |s| latency(s * 1e9),
        columns,
    }))
}

/// Four cells per power of two, the finest that the eye distinguishes: both ends in seconds, and the count.
///
/// - `buckets`: lowest value in nanoseconds, and count, in rising order.
pub(crate) fn cells(buckets: impl Iterator<Item = (u64, u64)>) -> Vec<(f64, f64, f64)> {
    let mut cells: Vec<(f64, f64, f64)> = Vec::new();
    for (from_ns, count) in buckets {
        // Values below the shortest bucket have a separate cell.
        let (power, place) = match from_ns.checked_ilog2() {
            Some(power @ 0..2) => (power, ((from_ns - (1 << power)) * 4) >> power),
            Some(power) => (power, (from_ns - (1 << power)) >> (power - 2)),
            None => (8, 0),
        };
        let width = 2.0_f64.powi(power.cast_signed()) / 4.0;
        let from = (2.0_f64.powi(power.cast_signed()) + place as f64 * width) * 1e-9;
        match cells.last_mut().filter(|c| c.0.to_bits() == from.to_bits()) {
            Some(cell) => cell.2 += count as f64,
            None => cells.push((from, from + width * 1e-9, count as f64)),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::block_io::{IoCounts, IoEvents, LatencyBucket};

    #[test]
    fn however_long_it_lasts_columns_are_bounded_and_no_request_is_left_out() {
        let interval = |k: u64| {
            let buckets =
                vec![LatencyBucket { from_ns: 1_024 << (k % 3), until_ns: 1_056 << (k % 3), count: 1 }];
            let from_start = Latencies { buckets, sum_ns: 1_030, max_ns: 1_030 };
            IoInterval {
                from_ns: k,
                until_ns: k + 1,
                missed_deadline: false,
                events: IoEvents::StartToDone,
                counts: IoCounts::default(),
                groups: vec![IoGroup { count: 1, from_start, ..IoGroup::default() }],
                in_flight: 0,
                unmatched: Ok(0),
                merged: Ok(0),
                lost: [].into(),
            }
        };
        let mut map = IoHeatMap::default();
        assert_eq!(map.svg(0), None);
        for k in 0..5_000 {
            map.add(&interval(k));
            assert!(map.columns.len() <= COLUMNS_MAX);
        }
        assert_eq!(map.columns.iter().map(|c| c.from_start.count()).sum::<u64>(), 5_000);
        // 8 intervals each, in order; the last column has the remainder.
        let (last, others) = map.columns.split_last().unwrap();
        assert!(others.iter().all(|c| c.until_ns - c.from_ns == 8), "{others:?}");
        assert!(map.columns.windows(2).all(|pair| pair[0].until_ns == pair[1].from_ns));
        assert_eq!((map.columns[0].from_ns, last.until_ns), (0, 5_000));
        assert!(map.svg(0).is_some());
    }

    #[test]
    fn cells_hold_what_their_buckets_held() {
        let bucket = |from_ns: u64, count| LatencyBucket { from_ns, until_ns: from_ns + 1, count };
        let l = Latencies {
            buckets: vec![bucket(0, 1), bucket(1024, 2), bucket(1024 + 255, 3), bucket(1024 + 256, 4)],
            sum_ns: 0,
            max_ns: 1300,
        };
        let counts: Vec<f64> =
            cells(l.buckets.iter().map(|b| (b.from_ns, b.count))).iter().map(|c| c.2).collect();
        assert_eq!(counts, [1.0, 5.0, 4.0]);
    }
}
