//! Combines the values of factors into cells.

use record::bakeoff::{Factor, Levels, Plot};

/// All combinations of the values of the factors of one level; the last factor changes fastest.
///
/// Without such a factor there is one empty cell.
pub(crate) fn cells(factors: &[Factor], plot: Plot) -> Vec<Levels> {
    let start = vec![Levels::new()];
    factors.iter().filter(|f| f.plot == plot).fold(start, |cells, factor| {
        cells
            .iter()
            .flat_map(|cell| factor.values.iter().map(move |value| with(cell, &factor.name, value)))
            .collect()
    })
}

/// Levels of a cell: those of its configuration and those within the series.
pub(crate) fn merged(whole: &Levels, sub: &Levels) -> Levels {
    whole.iter().chain(sub).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whole-plot factors, with values, that `jemalloc` or `allocator=jemalloc` can mean.
pub(crate) fn owners(only: &str, factors: &[Factor]) -> Vec<(String, String)> {
    let whole = factors.iter().filter(|f| f.plot == Plot::Whole);
    let pairs = whole.flat_map(|f| f.values.iter().map(|v| (f.name.clone(), v.clone())));
    pairs.filter(|(factor, value)| only == value || only == format!("{factor}={value}")).collect()
}

fn with(cell: &Levels, name: &str, value: &str) -> Levels {
    let mut cell = cell.clone();
    cell.insert(name.to_owned(), value.to_owned());
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_all_combinations_with_the_last_factor_fastest() {
        let factor = |name: &str, values: &[&str], plot| Factor {
            name: name.into(),
            values: values.iter().map(|&v| v.into()).collect(),
            reference: None,
            plot,
        };
        let factors = [
            factor("mode", &["delete", "wal"], Plot::Whole),
            factor("sync", &["full", "normal"], Plot::Whole),
            factor("threads", &["1", "2", "4"], Plot::Sub),
        ];
        let shown = |cells: Vec<Levels>| {
            cells.iter().map(|c| c.values().cloned().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(cells(&factors, Plot::Whole)),
            ["delete full", "delete normal", "wal full", "wal normal"]
        );
        assert_eq!(shown(cells(&factors, Plot::Sub)), ["1", "2", "4"]);
        assert_eq!(cells(&factors[..2], Plot::Sub), [Levels::new()]);
    }
}
