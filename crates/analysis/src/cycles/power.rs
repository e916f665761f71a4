//! Power spectra: of values at even times by a Fourier transform, at uneven times by least squares.

use std::f64::consts::TAU;

use super::background::Background;

/// A complex number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Unit {
    const ZERO: Self = Self { re: 0.0, im: 0.0 };

    fn turned(turns: f64) -> Self {
        let (im, re) = (TAU * turns).sin_cos();
        Self { re, im }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }

    pub(super) fn scaled(self, by: f64) -> Self {
        Self { re: self.re * by, im: self.im * by }
    }

    fn plus(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }

    fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    fn squared_size(self) -> f64 {
        self.re * self.re + self.im * self.im
    }
}

/// Powers at rising frequencies, each divided by the expected power of the background.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Powers {
    /// Distance of neighbors, and the first frequency, in cycles a step.
    pub(super) step: f64,
    /// Power over background; under the background alone, exponential with mean 1.
    pub(super) ratios: Vec<f64>,
}

/// Powers of the values at even times, from `step` below the highest frequency on.
///
/// - `values`: with mean 0.
pub(super) fn of_even(values: &[f64], background: Background) -> Powers {
    let n = values.len() as f64;
    let length = (4 * values.len()).next_power_of_two();
    let mut padded: Vec<Unit> = values.iter().map(|v| Unit { re: *v, im: 0.0 }).collect();
    padded.resize(length, Unit::ZERO);
    transform(&mut padded);
    let step = 1.0 / length as f64;
    let ratios = padded.iter().take(length / 2).enumerate().skip(1);
    let ratios = ratios.map(|(k, f)| f.squared_size() / n / background.at(k as f64 * step)).collect();
    Powers { step, ratios }
}

/// Fast Fourier transform in place; the length is a power of two.
///
/// # Source
///
/// Cooley and Tukey, *Mathematics of Computation* 19 (1965), 297-301.
pub(super) fn transform(values: &mut [Unit]) {
    let n = values.len();
    assert!(n.is_power_of_two(), "{n} is not a power of two");
    let bits = n.trailing_zeros();
    for i in 1..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            values.swap(i, j);
        }
    }
    let roots: Vec<Unit> = (0..n / 2).map(|k| Unit::turned(-(k as f64) / n as f64)).collect();
    let mut size = 2;
    while size <= n {
        let (half, stride) = (size / 2, n / size);
        for block in values.chunks_exact_mut(size) {
            let (low, high) = block.split_at_mut(half);
            for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let turned = b.times(roots[k * stride]);
                (*a, *b) = (a.plus(turned), a.plus(turned.scaled(-1.0)));
            }
        }
        size *= 2;
    }
}

/// Frequencies between which turns are computed anew, so that rounding does not add up.
const FRESH_EVERY: usize = 64;

/// Powers of values at uneven times: least squares of a sine with a floating mean.
///
/// - `points`: time in steps from 0, rising, and value.
///
/// # Source
///
/// Zechmeister and Kürster, *Astronomy and Astrophysics* 496 (2009), 577-584.
pub(super) fn of_uneven(points: &[(f64, f64)], background: Background) -> Powers {
    /// Frequencies per independent one.
    const OVERSAMPLING: f64 = 4.0;
    let n = points.len() as f64;
    let step = 1.0 / (OVERSAMPLING * points[points.len() - 1].0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the caller")]
    let count = (0.5 / step) as usize;
    let gaps = points.windows(2).map(|w| background.ar1.powf(w[1].0 - w[0].0));
    let kept: Vec<f64> = std::iter::once(0.0).chain(gaps).collect();
    let mean = points.iter().map(|p| p.1).sum::<f64>() / n;
    let turns: Vec<Unit> = points.iter().map(|p| Unit::turned(p.0 * step)).collect();
    let mut now = vec![Unit::ZERO; points.len()];
    let mut ratios = Vec::with_capacity(count);
    for k in 1..=count {
        let fresh = (k - 1).is_multiple_of(FRESH_EVERY);
        let (mut once, mut twice, mut with) = (Unit::ZERO, Unit::ZERO, Unit::ZERO);
        let (mut carried, mut pairs, mut last) = (Unit::ZERO, 0.0, Unit::ZERO);
        for (i, (x, y)) in points.iter().enumerate() {
            let e = if fresh { Unit::turned(x * step * k as f64) } else { now[i].times(turns[i]) };
            now[i] = e;
            once = once.plus(e);
            twice = twice.plus(e.times(e));
            with = with.plus(e.scaled(y - mean));
            if i > 0 {
                // The expected power is the sum over all pairs of their correlation times their turn. The
                // correlation is a product over the gaps between, so a running sum adds all pairs at once.
                let before = Unit { re: carried.re + 1.0, im: carried.im };
                carried = before.times(e.times(last.conjugate())).scaled(kept[i]);
                pairs += carried.re;
            }
            last = e;
        }
        let expected = background.variance * (n + 2.0 * pairs).max(1e-9 * n) / n;
        let (c, s) = (once.re / n, once.im / n);
        let cc = f64::midpoint(n, twice.re) - n * c * c;
        let ss = f64::midpoint(n, -twice.re) - n * s * s;
        let cs = twice.im / 2.0 - n * c * s;
        let determinant = cc * ss - cs * cs;
        // Of the sum of squares of two waves half is a share of each, as of a Fourier transform's power.
        let explained = if determinant > 1e-9 * n * n {
            let (yc, ys) = (with.re, with.im);
            (yc * yc * ss + ys * ys * cc - 2.0 * yc * ys * cs) / determinant
        } else {
            0.0
        };
        ratios.push(explained / 2.0 / expected);
    }
    Powers { step, ratios }
}

/// Probability that the background alone reaches `z` at any frequency.
///
/// - `frequencies`: width of the searched range times the effective length of the series.
///
/// # Source
///
/// R. V. Baluev, *Monthly Notices of the Royal Astronomical Society* 385 (2008), 1279-1285, for a known
/// variance.
pub(super) fn false_alarm(z: f64, frequencies: f64) -> f64 {
    let single = (-z).exp();
    -((-single).ln_1p() - frequencies * single * z.sqrt()).exp_m1()
}
