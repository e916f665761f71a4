//! The chart of a history in characters.

use std::io::{self, Write};

use analysis::history::{Break, Excursion, History, Point};

use crate::number::{axis_value, date_time, named_value};
use crate::text::{Style, paragraph};
use crate::words::plural;

const ROWS: usize = 9;
/// Columns for the numbers beside the chart.
const AXIS: usize = 11;

/// Values in the order of the runs, with the levels. On the axis, `^` marks a change, `~` an excursion, `:` a
/// break; at the edges, `^` and `v` are values beyond them, which a line below names.
pub(super) fn chart(out: &mut dyn Write, history: &History, style: Style) -> io::Result<()> {
    let columns = style.width.min(100).saturating_sub(AXIS + 1);
    let n = history.points.len();
    if columns < 20 || n < 2 {
        return Ok(());
    }
    let values: Vec<f64> = history.points.iter().map(|p| p.value).collect();
    let (low, high) = ends(&values);
    // Few runs get several columns each.
    let column = |i: usize| if n > columns { i * columns / n } else { i * (columns / n) };
    let row = |value: f64| {
        let share = ((high - value) / (high - low)).clamp(0.0, 1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place among the rows")]
        let row = (share * (ROWS - 1) as f64).round() as usize;
        row
    };
    let mut marks = vec![vec![' '; columns]; ROWS];
    for change in &history.changes {
        let before = history.changes.iter().map(|c| c.at).rfind(|at| *at < change.at);
        let from = before.into_iter().chain(history.breaks.iter().map(|b| b.at).rfind(|at| *at < change.at));
        let from = from.max().unwrap_or(0);
        let next = history.changes.iter().map(|c| c.at).find(|at| *at > change.at);
        let to = next.into_iter().chain(history.breaks.iter().map(|b| b.at).find(|at| *at > change.at));
        let to = to.min().unwrap_or(n);
        marks[row(change.before)][column(from)..column(change.at)].fill('-');
        marks[row(change.after)][column(change.at)..=column(to - 1)].fill('-');
    }
    for (i, value) in values.iter().enumerate() {
        let mark = &mut marks[row(*value)][column(i)];
        *mark = match *mark {
            _ if *value > high => '^',
            _ if *value < low => 'v',
            '^' => '^',
            'v' => 'v',
            'o' | '#' => '#',
            _ => 'o',
        };
    }
    for (i, line) in marks.iter().enumerate() {
        let value = high - (high - low) * i as f64 / (ROWS - 1) as f64;
        let label = if i % 4 == 0 { axis_value(&history.key, value) } else { String::new() };
        writeln!(out, "{label:>AXIS$}|{}", line.iter().collect::<String>().trim_end())?;
    }
    let mut axis = vec!['-'; columns];
    for Excursion { from, until, .. } in &history.excursions {
        axis[column(*from)..=column(until - 1)].fill('~');
    }
    history.breaks.iter().for_each(|Break { at, .. }| axis[column(*at)] = ':');
    history.changes.iter().for_each(|change| axis[column(change.at)] = '^');
    writeln!(out, "{:>AXIS$}+{}", "", axis.iter().collect::<String>())?;
    beyond(history, (low, high)).map_or(Ok(()), |text| paragraph(out, &text, 2, style))
}

/// `1 value beyond the chart: 999 on 2026-01-31`; of several, the farthest.
fn beyond(history: &History, (low, high): (f64, f64)) -> Option<String> {
    let over = |point: &Point| (point.value - high).max(low - point.value);
    let all: Vec<&Point> = history.points.iter().filter(|point| over(point) > 0.0).collect();
    let farthest = all.iter().max_by(|a, b| over(a).total_cmp(&over(b)))?;
    let which = if all.len() > 1 { "the farthest is " } else { "" };
    let value = named_value(&history.key, farthest.value);
    let date: String = date_time(farthest.at_unix_ns).chars().take(10).collect();
    Some(format!("{} beyond the chart: {which}{value} on {date}", plural(all.len(), "value")))
}

/// Number of values below which none is an outlier.
const FEW: usize = 5;

/// Ends of the axis: of all values but outliers, which stand at its edge.
fn ends(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // One value in twenty may be an outlier: more of them are a level of the series.
    let outliers = if n < FEW { 0 } else { (n / 20).max(1) };
    let (near, far) = (sorted[outliers], sorted[n - 1 - outliers]);
    let reach = far - near;
    let (low, high) = (sorted[0].max(near - reach), sorted[n - 1].min(far + reach));
    if high > low {
        (low, high)
    } else {
        (low - low.abs().max(1.0) * 0.05, high + high.abs().max(1.0) * 0.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_does_not_flatten_the_chart() {
        let mut values: Vec<f64> = (0..100).map(|i| 10.0 + f64::from(i % 5)).collect();
        values[7] = 1e6;
        let (low, high) = ends(&values);
        assert!(low <= 10.0 && high < 20.0, "{low} {high}");
        assert_eq!(ends(&[5.0, 5.0]), (4.75, 5.25));
        let mut few: Vec<f64> = values[..40].to_vec();
        assert!(ends(&few).1 < 20.0, "{:?}", ends(&few));
        few.push(1e9);
        assert!(ends(&few).1 < 20.0, "{:?}", ends(&few));
        // Two levels are no outliers.
        let levels: Vec<f64> = (0..40).map(|i| if i < 36 { 10.0 } else { 20.0 }).collect();
        assert_eq!(ends(&levels), (10.0, 20.0));
    }
}
