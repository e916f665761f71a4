//! Poisson arrivals: independent users, exponential gaps.
//!
//! The number of events in each of some equal windows of the phase is drawn when the phase is laid out.
//! Within a window each event falls into either half with equal chance, and so on down to one event in a
//! stretch of time, in which its due time is uniform. That is a Poisson process. Any of its events is found
//! in a few microseconds, and the neighbor of the last one in some nanoseconds. Neither layout time nor
//! memory grows with the number of events.
//!
//! # Source
//!
//! Kingman, *Poisson Processes* (1993), section 2.4: given their number, the points in an interval are
//! independent and uniform.

use super::due_times::{DueTimes, PaceSettings, Scratch};
use super::path::{Node, Path};
use crate::schedule::random::Random;

const WINDOW_SALT: u64 = 0x0070_6f69_7373_6f6e;
const HALF_SALT: u64 = 0x6861_6c66;
const PLACE_SALT: u64 = 0x0070_6c61_6365;
/// Approximate number of events in a window, if the number of windows allows it.
const WINDOW_EVENTS: f64 = 1_024.0;
/// The counts take 512 KiB.
const WINDOWS_MAX: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct Poisson {
    count: u64,
    span_ns: u64,
    seed: u64,
    /// Events before each window, and before the end of the last.
    before: Box<[u64]>,
}

impl Poisson {
    pub(super) fn new(settings: &PaceSettings) -> Self {
        let count_max = settings.events_max.unwrap_or(u64::MAX);
        let span_ns = crate::schedule::clock::to_ns(settings.span).max(1);
        let mean = settings.rate_per_s * settings.span.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number, over 0")]
        let windows = (mean / WINDOW_EVENTS).ceil().clamp(1.0, WINDOWS_MAX as f64) as u64;
        let mut before = Vec::with_capacity(usize::try_from(windows).expect("at most 65,536") + 1);
        let mut sum = 0;
        before.push(0);
        for window in 0..windows {
            sum += events(mean / windows as f64, &mut Random::of(settings.seed ^ WINDOW_SALT, window));
            before.push(sum);
        }
        Self { count: sum.min(count_max), span_ns, seed: settings.seed, before: before.into_boxed_slice() }
    }

    fn window(&self, window: usize) -> Node {
        let windows = (self.before.len() - 1) as u128;
        let edge_ns = |window: usize| {
            let edge_ns = u128::from(self.span_ns) * window as u128 / windows;
            u64::try_from(edge_ns).expect("within the span")
        };
        Node {
            id: 1,
            first: self.before[window],
            count: self.before[window + 1] - self.before[window],
            from_ns: edge_ns(window),
            until_ns: edge_ns(window + 1),
        }
    }

    /// Cuts the path back to the deepest node that holds the event `rank`.
    fn climb(&self, rank: u64, path: &mut Path) {
        let key = (self.seed, self.span_ns, self.count);
        if path.key != key {
            path.nodes.clear();
            path.key = key;
        }
        while path.nodes.last().is_some_and(|node| !node.has(rank)) {
            path.nodes.pop();
        }
        if path.nodes.is_empty() {
            path.window = self.before.partition_point(|before| *before <= rank) - 1;
            path.nodes.push(self.window(path.window));
        }
    }

    fn chance(&self, salt: u64, window: usize, node: &Node) -> Random {
        let id = (window as u128) << 96 ^ node.id;
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (high, low) = ((id >> 64) as u64, id as u64);
        Random::of(self.seed ^ salt ^ high.wrapping_mul(0x9e37_79b9_7f4a_7c15), low)
    }
}

impl Node {
    fn has(&self, rank: u64) -> bool {
        (self.first..self.first + self.count).contains(&rank)
    }

    /// The halves of the node, the first with `first_half` of its events.
    fn halves(&self, first_half: u64) -> [Self; 2] {
        let middle_ns = self.from_ns.midpoint(self.until_ns);
        [
            Self { id: 2 * self.id, count: first_half, until_ns: middle_ns, ..*self },
            Self {
                id: 2 * self.id + 1,
                first: self.first + first_half,
                count: self.count - first_half,
                from_ns: middle_ns,
                ..*self
            },
        ]
    }
}

impl DueTimes for Poisson {
    fn count(&self) -> u64 {
        self.count
    }

    fn in_order_ns(&self, rank: u64, scratch: &mut Scratch) -> u64 {
        let path = &mut scratch.path;
        self.climb(rank, path);
        loop {
            let node = path.nodes[path.nodes.len() - 1];
            // The node is one nanosecond long, or has one event.
            if node.until_ns - node.from_ns <= 1 {
                return node.from_ns;
            }
            if node.count == 1 {
                let span_ns = node.until_ns - node.from_ns;
                return node.from_ns + self.chance(PLACE_SALT, path.window, &node).below(span_ns);
            }
            let first_half = heads(node.count, &mut self.chance(HALF_SALT, path.window, &node));
            let [first, second] = node.halves(first_half);
            path.nodes.push(if first.has(rank) { first } else { second });
        }
    }

    fn ranks_around(&self, t_ns: u64) -> (u64, u64) {
        let windows = (self.before.len() - 1) as u128;
        let window = (u128::from(t_ns) * windows / u128::from(self.span_ns)).min(windows - 1);
        let window = usize::try_from(window).expect("at most 65,536");
        // An edge is rounded to the nanosecond, so the time may lie in a neighboring window.
        let (low, high) = (window.saturating_sub(1), (window + 2).min(self.before.len() - 1));
        let high = if t_ns >= self.span_ns { u64::MAX } else { self.before[high] };
        (self.before[low].min(self.count), high.min(self.count))
    }
}

/// Number of heads among `coins` fair coins.
fn heads(coins: u64, random: &mut Random) -> u64 {
    let whole: u64 = (0..coins / 64).map(|_| u64::from(random.bits().count_ones())).sum();
    let rest = coins % 64;
    whole + if rest == 0 { 0 } else { u64::from((random.bits() >> (64 - rest)).count_ones()) }
}

/// A random number of events, Poisson-distributed with mean `mean`.
///
/// # Source
///
/// Below 10 the product of uniform numbers: Knuth, *Seminumerical Algorithms*, 3.4.1; from there on Hörmann,
/// *The transformed rejection method for generating Poisson random variables* (1993), algorithm PTRS.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::many_single_char_names,
    reason = "a count, from 0 on; the paper's names"
)]
fn events(mean: f64, random: &mut Random) -> u64 {
    if mean < 10.0 {
        let (mut product, mut count) = (random.unit(), 0);
        while product > (-mean).exp() {
            product *= random.unit();
            count += 1;
        }
        return count;
    }
    let b = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.024_83 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let v_r = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (random.unit() - 0.5, random.unit());
        let u_s = 0.5 - u.abs();
        let k = ((2.0 * a / u_s + b) * u + mean + 0.43).floor();
        if u_s >= 0.07 && v <= v_r {
            return k as u64;
        }
        if k < 0.0 || !k.is_finite() || (u_s < 0.013 && v > u_s) {
            continue;
        }
        let drawn = (v * inverse_alpha / (a / (u_s * u_s) + b)).ln();
        if drawn <= k * mean.ln() - mean - ln_factorial(k) {
            return k as u64;
        }
    }
}

/// The logarithm of `k!`, to 10 digits: Stirling's series from 10 on.
fn ln_factorial(k: f64) -> f64 {
    if k < 10.0 {
        let mut product = 1.0;
        let mut factor = 2.0;
        while factor <= k {
            product *= factor;
            factor += 1.0;
        }
        return f64::ln(product);
    }
    (k + 0.5) * k.ln() - k + 0.5 * std::f64::consts::TAU.ln() + 1.0 / (12.0 * k) - 1.0 / (360.0 * k.powi(3))
        + 1.0 / (1_260.0 * k.powi(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_mean_and_the_variance_of_poissons_law() {
        for mean in [0.3, 5.0, 9.9, 10.0, 40.0, 1_024.0, 55_000.0] {
            let n = 20_000;
            let drawn: Vec<f64> = (0..n).map(|i| events(mean, &mut Random::of(3, i)) as f64).collect();
            let found = drawn.iter().sum::<f64>() / n as f64;
            let variance = drawn.iter().map(|k| (k - found).powi(2)).sum::<f64>() / n as f64;
            // Five standard errors of each.
            assert!((found - mean).abs() < 5.0 * (mean / n as f64).sqrt(), "{mean}: {found}");
            let error = mean * (2.0 / n as f64 + 1.0 / (mean * n as f64)).sqrt();
            assert!((variance - mean).abs() < 5.0 * error, "{mean}: variance {variance}");
        }
    }

    #[test]
    fn the_logarithm_of_a_factorial_is_that_of_the_product() {
        for k in [0u32, 1, 2, 9, 10, 11, 20, 100] {
            let sum: f64 = (1..=k).map(|i| f64::from(i).ln()).sum();
            assert!((ln_factorial(f64::from(k)) - sum).abs() < 1e-8, "{k}");
        }
    }

    #[test]
    fn fair_coins_show_heads_half_of_the_time() {
        for coins in [1, 63, 64, 65, 1_000] {
            let n = 10_000;
            let sum: u64 = (0..n).map(|i| heads(coins, &mut Random::of(5, i))).sum();
            let (mean, error) = (coins as f64 / 2.0, (coins as f64 / 4.0 / n as f64).sqrt());
            assert!((sum as f64 / n as f64 - mean).abs() < 5.0 * error, "{coins}: {sum}");
        }
    }
}
