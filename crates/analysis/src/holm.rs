//! One false-alarm rate for a whole family of comparisons.

/// Adjusted p values: comparing them with alpha keeps the rate of *any* false alarm in the family at alpha.
///
/// Holm's step-down: the smallest p times m, the next times m - 1, ..., never falling, never over 1. It makes
/// no assumption about the dependence between comparisons.
///
/// - `p`: one per comparison of the family, in any order; 1 for a comparison that could not be made, so lost
///   data makes no other claim easier.
///
/// # Source
///
/// S. Holm, *Scandinavian Journal of Statistics* 6 (1979), 65-70.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, i) in by_size(p).into_iter().enumerate() {
        largest = largest.max(p[i] * (p.len() - rank) as f64).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}

/// Levels at which Holm's procedure tests each comparison: alpha / (m - rank), with ranks from 0.
///
/// Comparisons after the first that is not rejected are tested at the level of that one.
pub(crate) fn levels(p: &[f64], alpha: f64) -> Vec<f64> {
    let mut levels = vec![alpha; p.len()];
    let mut stopped_at = None;
    for (rank, i) in by_size(p).into_iter().enumerate() {
        let level = stopped_at.unwrap_or(alpha / (p.len() - rank) as f64);
        levels[i] = level;
        if p[i] > level {
            stopped_at = Some(level);
        }
    }
    levels
}

/// Levels at which Hochberg's procedure tests each comparison, and whether it rejects.
///
/// The largest rank k (from 1) with p(k) <= alpha / (m - k + 1) and all before it are rejected at that level;
/// the others are tested at the level of their rank. More powerful than Holm's procedure if all comparisons
/// agree: if every p is at most alpha, all are rejected. The rate of any false rejection is at most alpha for
/// comparisons that are independent or positively dependent, as those with one reference are.
///
/// # Source
///
/// Y. Hochberg, *Biometrika* 75 (1988), 800-802; S. K. Sarkar, *Annals of Statistics* 26 (1998), 494-504.
pub(crate) fn hochberg(p: &[f64], alpha: f64) -> Vec<(f64, bool)> {
    let order = by_size(p);
    let level = |rank: usize| alpha / (p.len() - rank) as f64;
    let last = (0..p.len()).rev().find(|rank| p[order[*rank]] <= level(*rank));
    let mut out = vec![(alpha, false); p.len()];
    for (rank, i) in order.into_iter().enumerate() {
        out[i] = match last {
            Some(last) if rank <= last => (level(last), true),
            _ => (level(rank), false),
        };
    }
    out
}

fn by_size(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// statsmodels: `multipletests([0.01, 0.04, 0.03, 0.005], method="holm")[1]`.
    #[test]
    fn adjusted_values_are_those_of_statsmodels() {
        for (p, expected) in [
            (vec![0.01, 0.04, 0.03, 0.005], vec![0.03, 0.06, 0.06, 0.02]),
            (vec![0.9, 0.8, 0.7], vec![1.0, 1.0, 1.0]),
            (vec![0.02], vec![0.02]),
            (vec![], vec![]),
        ] {
            let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
            assert!(holm(&p).iter().zip(&expected).all(close), "{p:?} -> {:?}", holm(&p));
        }
    }

    /// The rejections are also those of statsmodels 0.15, `multipletests(p, 0.05, "simes-hochberg")`.
    ///
    /// Known answer by hand: 0.03 <= 0.05 / 2 fails, 0.04 <= 0.05 / 1 holds, so all four are rejected at
    /// 0.05; with 0.06 last, the third is tested at 0.025 and fails, the second at 0.05 / 3 holds.
    #[test]
    fn hochberg_starts_from_the_largest() {
        let rejects = |p: &[f64]| hochberg(p, 0.05).into_iter().map(|(_, r)| r).collect::<Vec<_>>();
        assert_eq!(rejects(&[0.01, 0.04, 0.03, 0.005]), [true; 4]);
        assert_eq!(rejects(&[0.01, 0.06, 0.03, 0.005]), [true, false, false, true]);
        assert_eq!(hochberg(&[0.01, 0.06, 0.03, 0.005], 0.05)[2], (0.025, false));
        assert_eq!(rejects(&[0.06]), [false]);
        assert!(hochberg(&[], 0.05).is_empty());
    }

    #[test]
    fn p_against_its_level_and_adjusted_p_against_alpha_decide_alike() {
        for p in [
            vec![0.01, 0.04, 0.03, 0.005],
            vec![0.001, 0.002, 0.5, 0.026, 0.024],
            vec![0.05, 0.05],
            vec![1.0, 0.012],
        ] {
            let by_level: Vec<bool> = p.iter().zip(levels(&p, 0.05)).map(|(p, level)| *p <= level).collect();
            let by_adjusted: Vec<bool> = holm(&p).iter().map(|p| *p <= 0.05).collect();
            assert_eq!(by_level, by_adjusted, "{p:?}");
        }
    }
}
