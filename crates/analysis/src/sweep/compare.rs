//! Comparison of two sweeps over the same sizes: of two machines, kernels or settings.

use record::bakeoff::Bakeoff;
use record::missing::{Maybe, Missing};

use super::{Round, rounds, smooth, sweep};
use crate::robust::{mean_and_error, median};
use crate::student::t_above;
use crate::usl::SERIES_MIN;

/// One cell of a sweep against the same cell of another.
#[derive(Debug, Clone, PartialEq)]
pub struct Versus {
    /// Name of the call.
    pub how: String,
    /// Amount of data, such as `L2`.
    pub data: String,
    /// The ratio over the sizes, with a simultaneous band; missing if either lacks the cell or has too few
    /// rounds.
    pub places: Maybe<Vec<Place>>,
    /// Conclusion in a sentence.
    pub verdict: String,
    /// Whether the two are the same within the band; `None` if the band is too wide.
    pub same: Option<bool>,
}

/// A stretch of sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Smallest and largest size.
    pub sizes: (u64, u64),
    /// The first run's time of a call divided by the other's.
    pub ratio: f64,
    /// Lower edge of the band.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
}

/// Number of stretches of sizes.
const PLACES: usize = 24;
/// Probability that the band misses the curve anywhere; half of it is for the level and half for the form.
const ALPHA: f64 = 0.05;
/// Largest difference that counts as equal.
const ROPE: f64 = 0.01;
/// Half width of a band, as a share, above which it cannot show equality.
const TOO_WIDE: f64 = 0.15;

/// Compares every cell of `a` with the same cell of `b`.
///
/// Time of a call is the reference's time (the level) times the form. The form of a round is known well, but
/// all measurements of a round share the machine's state of that minute. So the form's error is that of a
/// mean over rounds, and the level's that of one round. The band is simultaneous by Bonferroni's inequality
/// over the stretches.
pub fn versus(a: &Bakeoff, b: &Bakeoff) -> Vec<Versus> {
    let cells = sweep(a).cells;
    cells
        .into_iter()
        .map(|cell| {
            let (x, y) = (rounds(a, &cell.how, &cell.data), rounds(b, &cell.how, &cell.data));
            let places = places(&x, &y);
            let (verdict, same) = verdict(&places);
            Versus { how: cell.how, data: cell.data, places, verdict, same }
        })
        .collect()
}

fn verdict(places: &Maybe<Vec<Place>>) -> (String, Option<bool>) {
    let places = match places {
        Ok(places) => places,
        Err(missing) => return (format!("cannot be compared: {missing}"), None),
    };
    let differs = |p: &Place| p.low.ln() > ROPE || p.high.ln() < -ROPE;
    let widest = places.iter().map(|p| (p.high / p.low).sqrt() - 1.0).fold(0.0, f64::max);
    let differing: Vec<&Place> = places.iter().filter(|p| differs(p)).collect();
    let (Some(first), Some(last)) = (differing.first(), differing.last()) else {
        if widest > TOO_WIDE {
            let text =
                format!("inconclusive: no difference found, but the band is +-{:.1} % wide", 100.0 * widest);
            return (text, None);
        }
        return (format!("same within a band of +-{:.1} %", 100.0 * widest), Some(true));
    };
    let most =
        differing.iter().max_by(|x, y| x.ratio.ln().abs().total_cmp(&y.ratio.ln().abs())).expect("not empty");
    let word = if most.ratio > 1.0 { "slower" } else { "faster" };
    let text = format!(
        "different: from {} to {} bytes this run is up to {:.1} % {word} [{:+.1} %, {:+.1} %]",
        first.sizes.0,
        last.sizes.1,
        100.0 * (most.ratio - 1.0).abs(),
        100.0 * (most.low - 1.0),
        100.0 * (most.high - 1.0)
    );
    (text, Some(false))
}

/// Level of a round's reference, and the form of its curve, stretch by stretch.
struct Said {
    level: f64,
    form: Vec<f64>,
}

fn places(a: &[Round], b: &[Round]) -> Maybe<Vec<Place>> {
    let few = || Missing::because(format!("both runs need this cell with at least {SERIES_MIN} rounds"));
    if a.len() < SERIES_MIN || b.len() < SERIES_MIN {
        return Err(few());
    }
    let sizes = common_sizes(a, b);
    if sizes.len() < PLACES {
        return Err(Missing::because("too few sizes in common: use the same --seed and --max"));
    }
    let stretches: Vec<&[u64]> = sizes.chunks(sizes.len().div_ceil(PLACES)).collect();
    let said =
        |rounds: &[Round]| -> Option<Vec<Said>> { rounds.iter().map(|r| say(r, &stretches)).collect() };
    let (x, y) = (said(a).ok_or_else(few)?, said(b).ok_or_else(few)?);
    let df = (x.len() + y.len() - 2) as f64;
    let spread =
        |said: &[Said], of: &dyn Fn(&Said) -> f64| mean_and_error(&said.iter().map(of).collect::<Vec<_>>());
    let (level_a, error_a) = spread(&x, &|s| s.level);
    let (level_b, error_b) = spread(&y, &|s| s.level);
    let level_sd = (error_a.powi(2) * x.len() as f64 + error_b.powi(2) * y.len() as f64).sqrt();
    let level_half = t_above(ALPHA / 4.0, df) * level_sd;
    let place = |(i, stretch): (usize, &&[u64])| {
        let (form_a, ea) = spread(&x, &|s| s.form[i]);
        let (form_b, eb) = spread(&y, &|s| s.form[i]);
        let middle = level_a + form_a - level_b - form_b;
        let half = level_half + t_above(ALPHA / 4.0 / stretches.len() as f64, df) * ea.hypot(eb);
        Place {
            sizes: (stretch[0], stretch[stretch.len() - 1]),
            ratio: middle.exp(),
            low: (middle - half).exp(),
            high: (middle + half).exp(),
        }
    };
    Ok(stretches.iter().enumerate().map(place).collect())
}

fn common_sizes(a: &[Round], b: &[Round]) -> Vec<u64> {
    let of = |rounds: &[Round]| -> std::collections::BTreeSet<u64> {
        rounds[0].points.iter().map(|p| p.1).collect()
    };
    of(a).intersection(&of(b)).copied().collect()
}

fn say(round: &Round, stretches: &[&[u64]]) -> Option<Said> {
    let references: Vec<f64> = round.references.iter().map(|r| r.1).collect();
    let clock = smooth(&round.references);
    let mut by_size = std::collections::BTreeMap::new();
    for (at_s, size, ns) in &round.points {
        by_size.insert(*size, (ns / super::beside(&clock, *at_s)?).ln());
    }
    let form = |stretch: &&[u64]| {
        let logs: Vec<f64> = stretch.iter().filter_map(|size| by_size.get(size)).copied().collect();
        // The median over the common sizes keeps outliers out of the form.
        median(&logs)
    };
    let form = stretches.iter().map(form).collect::<Option<_>>()?;
    Some(Said { level: median(&references)?.ln(), form })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_that_sees_nothing_calls_nothing_the_same() {
        let band =
            |half: f64| Ok(vec![Place { sizes: (1, 100), ratio: 1.0, low: (-half).exp(), high: half.exp() }]);
        assert_eq!(verdict(&band(0.1)).1, Some(true));
        assert_eq!(
            verdict(&band(0.9)),
            ("inconclusive: no difference found, but the band is +-146.0 % wide".to_owned(), None)
        );
    }
}
