//! Student's t distribution for tests and intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Two-sided p of a t value with `df` degrees of freedom.
pub(crate) fn p_two_sided(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    (2.0 * of(df).sf(t.abs())).min(1.0)
}

/// Share of the distribution above `t`.
pub(crate) fn p_above(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    of(df).sf(t)
}

/// The t with the share `tail` in (0, 0.5] of the distribution above it.
pub(crate) fn t_above(tail: f64, df: f64) -> f64 {
    assert!(tail > 0.0 && tail <= 0.5, "a tail is a share in (0, 0.5]: {tail}");
    let mut t = of(df).inverse_cdf(1.0 - tail);
    // The library's inverse is accurate to about 1e-6; two Newton steps on its more accurate tail reach
    // 1e-12.
    for _ in 0..2 {
        t += (of(df).sf(t) - tail) / density(t, df);
    }
    t
}

fn of(df: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, df).expect("degrees of freedom are positive: callers have two values or more")
}

fn density(t: f64, df: f64) -> f64 {
    use statrs::distribution::Continuous;
    of(df).pdf(t)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scipy 1.17.1: `scipy.stats.t.isf(tail, df)`.
    #[test]
    fn quantiles_and_tails_are_those_of_scipy() {
        for (tail, df, t) in [
            (0.025, 5.0, 2.570_581_835_636_314),
            (0.05, 5.0, 2.015_048_373_333_023),
            (0.025, 1.0, 12.706_204_736_174_7),
            (0.000_5, 9.0, 4.780_912_585_931_141),
            (0.2, 11.0, 0.875_529_978_071_09),
            (1e-6, 5.0, 24.771_029_720_515_948),
            (0.5, 4.0, 0.0),
        ] {
            assert!((t_above(tail, df) - t).abs() < 1e-9, "{tail} {df}: {}", t_above(tail, df));
            assert!((p_two_sided(t, df) - 2.0 * tail).abs() < 1e-10);
        }
        assert!(p_two_sided(f64::INFINITY, 5.0).abs() < f64::MIN_POSITIVE);
    }
}
