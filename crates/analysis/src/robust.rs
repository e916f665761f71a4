//! Location and spread that outliers do not move.

/// The median; `None` of an empty slice.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return None;
    }
    Some(sorted[(n - 1) / 2].midpoint(sorted[n / 2]))
}

/// Median absolute deviation from the median, scaled to equal the standard deviation of normal values.
pub(crate) fn mad(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let far: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    Some(median(&far)? * TO_SD)
}

/// Standard deviation of the noise in a series with a changing level, from the differences of neighbors.
pub(crate) fn noise(values: &[f64]) -> Option<f64> {
    let steps: Vec<f64> = values.windows(2).map(|w| w[1] - w[0]).collect();
    let sizes: Vec<f64> = steps.iter().map(|s| s.abs()).collect();
    Some(median(&sizes)? * TO_SD / 2.0_f64.sqrt())
}

/// 1 / the 75 % quantile of the normal distribution.
pub(crate) const TO_SD: f64 = 1.482_602_218_505_602;

/// Mean and its standard error.
pub(crate) fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0) / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wild_value_moves_neither_middle_nor_spread() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0, 1e9]), Some(2.5));
        assert!((mad(&[1.0, 2.0, 3.0, 4.0, 1e9]).unwrap() - TO_SD).abs() < 1e-12);
        let with_a_step: Vec<f64> =
            (0..100).map(|i| f64::from(i % 2) + if i < 50 { 0.0 } else { 100.0 }).collect();
        assert!((noise(&with_a_step).unwrap() - TO_SD / 2.0_f64.sqrt()).abs() < 1e-12);
    }
}
