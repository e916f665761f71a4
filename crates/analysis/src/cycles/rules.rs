//! Rules that the parts of the search share.

/// Fewest cycles that show a repetition.
pub(super) const CYCLES_MIN: f64 = 3.0;
/// Distance from a frequency, in independent frequencies, within which a wave is the same one.
pub(super) const SAME: f64 = 1.5;

/// Subtracts the straight line of least squares.
pub(super) fn detrend(points: &mut [(f64, f64)]) {
    let n = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / n, sum.1 + p.1 / n));
    let (xx, xy) = points
        .iter()
        .fold((0.0, 0.0), |sum, p| (sum.0 + (p.0 - mx).powi(2), sum.1 + (p.0 - mx) * (p.1 - my)));
    for (x, y) in points {
        *y -= my + xy / xx * (*x - mx);
    }
}
