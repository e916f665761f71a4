//! The error that all configurations of a block share: the whole-plot error of a split-plot design.
//!
//! With R blocks of K configurations, the residuals about block and configuration have (R - 1)(K - 1) degrees of freedom
//! where a single pair has R - 1. That holds only if the configurations vary alike. Two tests of this precede the use of
//! the pooled error, over all conditions of a metric together: is one configuration noisier than the others throughout,
//! and is in each condition some configuration noisier? If either says so, each pair keeps the error of its own blocks.
//! A test condition by condition would pool where chance made the configurations look alike, and claim too much.

use crate::chance::SplitMix;
use crate::paired::Pooled;

/// Each of the two tests takes configurations that vary alike for ones that do not once in so many times.
const GATE_ONE_IN: usize = 50;
/// How often configurations that vary alike pass both tests, to within a point.
pub(crate) const GATE_PASSES: f64 = 0.96;
/// Tables drawn to know what configurations that vary alike look like.
const DRAWS: usize = 1_000;

/// One value for each block and configuration of a condition, in logs, none missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// `rows[block][configuration]`.
    rows: Vec<Vec<f64>>,
}

impl Table {
    /// `None` where too little is in it for configurations to share anything: it takes 3 of them and 3 blocks.
    pub(crate) fn of(rows: Vec<Vec<f64>>) -> Option<Self> {
        let columns = rows.first()?.len();
        assert!(rows.iter().all(|row| row.len() == columns), "every block has every configuration");
        (rows.len() >= 3 && columns >= 3).then_some(Self { rows })
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows.len(), self.rows[0].len())
    }

    /// Sum of the squared residuals about block and configuration, by configuration.
    fn squares(&self) -> Vec<f64> {
        let (blocks, columns) = self.shape();
        let mean = |values: &mut dyn Iterator<Item = f64>, n: usize| values.sum::<f64>() / n as f64;
        let of_column: Vec<f64> =
            (0..columns).map(|c| mean(&mut self.rows.iter().map(|row| row[c]), blocks)).collect();
        let all = mean(&mut of_column.iter().copied(), columns);
        let mut squares = vec![0.0; columns];
        for row in &self.rows {
            let of_row = mean(&mut row.iter().copied(), columns);
            for (column, value) in row.iter().enumerate() {
                squares[column] += (value - of_row - of_column[column] + all).powi(2);
            }
        }
        squares
    }

    fn error(&self) -> Pooled {
        let (blocks, columns) = self.shape();
        let df = ((blocks - 1) * (columns - 1)) as f64;
        Pooled { variance: 2.0 * self.squares().iter().sum::<f64>() / df, df }
    }
}

/// The pooled error of each condition; `None` for all where the configurations do not vary alike, or a table lacks.
///
/// - `tables`: one for each condition of one metric.
pub(crate) fn pooled(tables: &[Option<Table>]) -> Vec<Option<Pooled>> {
    let none = vec![None; tables.len()];
    let Some(there) = tables.iter().map(Option::as_ref).collect::<Option<Vec<&Table>>>() else { return none };
    let Some(shape) = there.first().map(|table| table.shape()) else { return none };
    let shares: Option<Vec<Vec<f64>>> = there.iter().map(|table| shares(&table.squares())).collect();
    match shares {
        Some(shares)
            if there.iter().all(|t| t.shape() == shape)
                && Null::drawn(shape, shares.len()).allows(&shares) =>
        {
            there.iter().map(|table| Some(table.error())).collect()
        }
        _ => none,
    }
}

/// Each configuration's share of all squares; `None` where there are none.
fn shares(squares: &[f64]) -> Option<Vec<f64>> {
    let sum: f64 = squares.iter().sum();
    (sum > 0.0).then(|| squares.iter().map(|s| s / sum).collect())
}

/// What shares look like where configurations vary alike: the largest that is allowed.
struct Null {
    /// Of one configuration, in the mean over the conditions.
    same: f64,
    /// Of the noisiest configuration of each condition, in the mean over the conditions.
    any: f64,
}

impl Null {
    fn drawn((blocks, columns): (usize, usize), conditions: usize) -> Self {
        let mut chance = SplitMix(1);
        let mut found = [const { Vec::new() }; 2];
        for _ in 0..DRAWS {
            let drawn: Vec<Vec<f64>> = (0..conditions)
                .filter_map(|_| {
                    let rows = (0..blocks).map(|_| (0..columns).map(|_| chance.normal()).collect()).collect();
                    shares(&Table { rows }.squares())
                })
                .collect();
            found[0].push(same(&drawn));
            found[1].push(any(&drawn));
        }
        let [same, any] = found.map(|mut values| {
            values.sort_by(f64::total_cmp);
            values[DRAWS - DRAWS / GATE_ONE_IN]
        });
        Self { same, any }
    }

    fn allows(&self, shares: &[Vec<f64>]) -> bool {
        same(shares) <= self.same && any(shares) <= self.any
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The largest mean share of one configuration over all conditions.
fn same(shares: &[Vec<f64>]) -> f64 {
    let columns = shares.first().map_or(0, Vec::len);
    let mean = |column: usize| shares.iter().map(|s| s[column]).sum::<f64>() / shares.len() as f64;
    (0..columns).map(mean).fold(0.0, f64::max)
}

/// The mean over all conditions of the largest share.
fn any(shares: &[Vec<f64>]) -> f64 {
    shares.iter().map(|s| largest(s)).sum::<f64>() / shares.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(chance: &mut SplitMix, sd: [f64; 4]) -> Table {
        let row = |chance: &mut SplitMix| sd.iter().map(|sd| sd * chance.normal()).collect();
        Table::of((0..6).map(|_| row(chance)).collect()).unwrap()
    }

    /// By hand: residuals of [1, 2, 3], [2, 3, 7], [3, 4, 2] about rows (2, 4, 3), columns (2, 3, 4) and all (3).
    #[test]
    fn residuals_are_about_block_and_configuration() {
        let table = Table::of(vec![vec![1.0, 2.0, 3.0], vec![2.0, 3.0, 7.0], vec![3.0, 4.0, 2.0]]).unwrap();
        // Rows of residuals: 0 0 0; -1 -1 2; 1 1 -2.
        assert_eq!(table.squares(), [2.0, 2.0, 8.0]);
        assert_eq!(table.error(), Pooled { variance: 2.0 * 12.0 / 4.0, df: 4.0 });
        assert_eq!(Table::of(vec![vec![1.0, 2.0]; 6]), None);
    }

    #[test]
    fn configurations_that_vary_alike_share_their_error_and_a_noisy_one_does_not() {
        let mut chance = SplitMix(20_261_122);
        let mut shared = |sd: [f64; 4]| {
            let families = (0..200).map(|_| {
                let tables: Vec<Option<Table>> = (0..7).map(|_| Some(table(&mut chance, sd))).collect();
                pooled(&tables).iter().flatten().count()
            });
            families.sum::<usize>() as f64 / 1_400.0
        };
        let (alike, noisy) = (shared([1.0; 4]), shared([1.0, 1.0, 1.0, 3.0]));
        println!("shared: {alike} of alike, {noisy} of one three times as noisy");
        // Two tests at 2 %; three standard errors of a share of 200 families are 4 points.
        assert!((alike - GATE_PASSES).abs() < 0.04 && noisy < 0.02, "{alike} {noisy}");
    }

    #[test]
    fn values_that_agree_exactly_and_tables_of_two_shapes_share_nothing() {
        let flat = Table::of(vec![vec![1.0; 4]; 6]);
        let other = Table::of(vec![vec![1.0, 2.0, 3.0], vec![2.0, 3.0, 7.0], vec![3.0, 4.0, 2.0]]);
        assert_eq!(pooled(&[flat, None]), [None, None]);
        assert_eq!(pooled(&[other.clone(), Some(table(&mut SplitMix(1), [1.0; 4]))]), [None, None]);
        assert!(pooled(&[]).is_empty());
    }
}
