//! A picture file of its own: latency of block I/O over time.

use record::block_io::{IoInterval, Latencies};

use crate::chart::{Drawing, Heat, HeatColumn, heat};
use crate::number::latency;

/// What the page gives its pictures, for one that stands alone.
const STYLE: &str = "\
svg{font:13px \"Liberation Sans\",Arial,sans-serif;background:#fdfdfb;color-scheme:light dark}\
.grid{stroke:#d9dbd6}.axis{stroke:#5c6168}.tick,.axis-title{fill:#5c6168}.heat{fill:#0068b3}\
@media (prefers-color-scheme:dark){svg{background:#16181b}.grid{stroke:#353a40}.axis{stroke:#a2a7ae}\
.tick,.axis-title{fill:#a2a7ae}.heat{fill:#58b4f5}}";

/// Latency from start to end of every request over time, as an SVG document; `None` where there was no request.
///
/// - `start_ns`: the moment that the time axis counts from.
pub fn io_heat_map(intervals: &[IoInterval], start_ns: u64) -> Option<String> {
    let svg = io_heat(intervals, start_ns)?.wide;
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\" role=\"img\">\n<title>Latency of block \
         I/O over time</title>\n<style>{STYLE}</style>\n{}</svg>\n",
        svg.width, svg.height, svg.body
    ))
}

/// The same as a drawing of a page.
pub(crate) fn io_heat(intervals: &[IoInterval], start_ns: u64) -> Option<Drawing> {
    let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 * 1e-9;
    let column = |i: &IoInterval| HeatColumn {
        from: seconds(i.from_ns),
        until: seconds(i.until_ns),
        cells: cells(&i.total().from_start),
    };
    let columns: Vec<HeatColumn> = intervals.iter().map(column).collect();
    if columns.iter().all(|c| c.cells.is_empty()) {
        return None;
    }
    Some(heat(&Heat { x_title: "seconds", y_title: "latency", y_label: |s| latency(s * 1e9), columns }))
}

/// Four cells to each power of two: as fine as the eye can tell.
fn cells(l: &Latencies) -> Vec<(f64, f64, f64)> {
    let mut cells: Vec<(f64, f64, f64)> = Vec::new();
    for b in &l.buckets {
        // What is shorter than the shortest bucket is drawn in a cell of its own.
        let (power, place) = match b.from_ns.checked_ilog2() {
            Some(power) => (power, ((b.from_ns - (1 << power)) * 4) >> power),
            None => (8, 0),
        };
        let width = 2.0_f64.powi(power.cast_signed()) / 4.0;
        let from = (2.0_f64.powi(power.cast_signed()) + place as f64 * width) * 1e-9;
        match cells.last_mut().filter(|c| c.0.to_bits() == from.to_bits()) {
            Some(cell) => cell.2 += b.count as f64,
            None => cells.push((from, from + width * 1e-9, b.count as f64)),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::block_io::LatencyBucket;

    #[test]
    fn cells_hold_what_their_buckets_held() {
        let bucket = |from_ns: u64, count| LatencyBucket { from_ns, until_ns: from_ns + 1, count };
        let l = Latencies {
            buckets: vec![bucket(0, 1), bucket(1024, 2), bucket(1024 + 255, 3), bucket(1024 + 256, 4)],
            sum_ns: 0,
            max_ns: 1300,
        };
        let counts: Vec<f64> = cells(&l).iter().map(|c| c.2).collect();
        assert_eq!(counts, [1.0, 5.0, 4.0]);
    }
}
