//! Combines the values of factors into cells.

use std::collections::{BTreeMap, BTreeSet};

use record::bakeoff::{Factor, Levels, Plot};

/// Levels of some factors, several of each: a cell matches if it has one of them of every factor.
pub(crate) type Pattern = BTreeMap<String, Vec<String>>;

/// Combinations that a plan leaves out of the full grid of its factors, and adds to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Limits {
    /// Cells that are not measured.
    pub(crate) exclude: Vec<Pattern>,
    /// Cells that are measured in addition, or although `exclude` has them.
    pub(crate) include: Vec<Pattern>,
    /// Levels that only `include` has, by factor.
    pub(crate) extra: BTreeMap<String, BTreeSet<String>>,
    /// Levels of other factors below which a factor exists.
    pub(crate) only: BTreeMap<String, Pattern>,
}

impl Limits {
    /// Whether a combination is measured.
    fn allow(&self, cell: &Levels) -> bool {
        self.is_plain(cell) || self.including(cell).next().is_some()
    }

    /// Place of the one entry of `include` without which a combination would not be measured.
    pub(crate) fn needs(&self, cell: &Levels) -> Option<usize> {
        let mut including = self.including(cell);
        let first = including.next().filter(|_| !self.is_plain(cell));
        first.filter(|_| including.next().is_none())
    }

    fn is_extra(&self, (name, level): (&String, &String)) -> bool {
        self.extra.get(name).is_some_and(|levels| levels.contains(level))
    }

    /// Whether a combination is measured without any entry of `include`.
    fn is_plain(&self, cell: &Levels) -> bool {
        !cell.iter().any(|level| self.is_extra(level))
            && !self.exclude.iter().any(|pattern| matches(pattern, cell))
    }

    /// Places of the entries of `include` that have a combination.
    fn including<'a>(&'a self, cell: &'a Levels) -> impl Iterator<Item = usize> + 'a {
        let has_it = move |pattern: &Pattern| {
            let mut others = cell.iter().filter(|(name, _)| !pattern.contains_key(*name));
            matches(pattern, cell) && !others.any(|level| self.is_extra(level))
        };
        self.include.iter().enumerate().filter(move |&(_, pattern)| has_it(pattern)).map(|(i, _)| i)
    }

    /// Whether a factor exists in a cell with these levels of the factors above it.
    fn exists(&self, factor: &str, cell: &Levels) -> bool {
        self.only.get(factor).is_none_or(|pattern| matches(pattern, cell))
    }
}

/// Whether a cell has one of the levels of every factor in a pattern.
pub(crate) fn matches(pattern: &Pattern, cell: &Levels) -> bool {
    pattern.iter().all(|(name, levels)| cell.get(name).is_some_and(|level| levels.contains(level)))
}

/// The cells of every configuration, in the order of the plan: the last factor changes fastest.
///
/// A configuration is one value of each whole-plot factor that exists in it. Without such a factor there is
/// one empty configuration; without a sub-plot factor, one empty cell.
pub(crate) fn series(factors: &[Factor], limits: &Limits) -> Vec<(Levels, Vec<Levels>)> {
    let mut cells = vec![Levels::new()];
    for factor in parents_first(factors, limits) {
        let each = |cell: Levels| -> Vec<Levels> {
            if limits.exists(&factor.name, &cell) {
                factor.values.iter().map(|value| with(&cell, &factor.name, value)).collect()
            } else {
                vec![cell]
            }
        };
        cells = cells.into_iter().flat_map(each).collect();
    }
    cells.retain(|cell| limits.allow(cell));
    let places: Vec<BTreeMap<&str, usize>> =
        factors.iter().map(|f| f.values.iter().map(String::as_str).zip(0..).collect()).collect();
    let place = |cell: &Levels, plot: Plot| -> Vec<Option<usize>> {
        let of_plot = factors.iter().zip(&places).filter(|(f, _)| f.plot == plot);
        of_plot.map(|(f, places)| places.get(cell.get(&f.name)?.as_str()).copied()).collect()
    };
    cells.sort_by_cached_key(|cell| (place(cell, Plot::Whole), place(cell, Plot::Sub)));
    let mut found: Vec<(Levels, Vec<Levels>)> = Vec::new();
    for cell in cells {
        let (whole, sub): (Levels, Levels) = cell.into_iter().partition(|(name, _)| {
            factors.iter().any(|factor| factor.name == *name && factor.plot == Plot::Whole)
        });
        match found.last_mut().filter(|(last, _)| *last == whole) {
            Some((_, cells)) => cells.push(sub),
            None => found.push((whole, vec![sub])),
        }
    }
    found
}

/// All cells, each with its configuration.
pub(crate) fn cells(factors: &[Factor], limits: &Limits) -> Vec<Levels> {
    let of = |(whole, cells): (Levels, Vec<Levels>)| {
        cells.into_iter().map(move |sub| merged(&whole, &sub)).collect::<Vec<_>>()
    };
    series(factors, limits).into_iter().flat_map(of).collect()
}

/// Splits a cell into its side of a comparison, the compared factors, and its condition, the others.
pub(crate) fn split(cell: &Levels, factors: &[Factor]) -> (Levels, Levels) {
    let is_compared = |name: &str| factors.iter().any(|f| f.name == name && f.reference.is_some());
    cell.clone().into_iter().partition(|(name, _)| is_compared(name))
}

/// Whether a side is the reference: every compared factor that exists in it has its reference level.
pub(crate) fn is_reference(side: &Levels, factors: &[Factor]) -> bool {
    side.iter().all(|(name, level)| {
        factors.iter().any(|factor| factor.name == *name && factor.reference.as_ref() == Some(level))
    })
}

/// Cells in which nothing is compared, because the reference lacks their condition: `arm=b, threads=1 (and 1
/// more cells)`; `None` if there is no such cell.
pub(crate) fn without_reference(cells: &[Levels], factors: &[Factor]) -> Option<String> {
    let sides: Vec<(Levels, Levels)> = cells.iter().map(|cell| split(cell, factors)).collect();
    let known: BTreeSet<&Levels> = sides
        .iter()
        .filter(|(side, _)| is_reference(side, factors))
        .map(|(_, condition)| condition)
        .collect();
    let is_alone =
        |(side, condition): &(Levels, Levels)| !is_reference(side, factors) && !known.contains(condition);
    let alone: Vec<&Levels> =
        cells.iter().zip(&sides).filter(|(_, sides)| is_alone(sides)).map(|(cell, _)| cell).collect();
    let more = if alone.len() > 1 { format!(" (and {} more cells)", alone.len() - 1) } else { String::new() };
    Some(format!("{}{more}", named(alone.first()?)))
}

/// Factors in an order in which each follows those that it exists below. A circle of factors is refused when
/// the plan is checked; here its factors follow in the order of the plan.
fn parents_first<'a>(factors: &'a [Factor], limits: &Limits) -> Vec<&'a Factor> {
    let mut waiting: Vec<&Factor> = factors.iter().collect();
    let mut sorted: Vec<&Factor> = Vec::new();
    while !waiting.is_empty() {
        let is_free = |factor: &&Factor| {
            let mut parents = limits.only.get(&factor.name).into_iter().flatten();
            parents.all(|(parent, _)| !waiting.iter().any(|w| w.name == *parent))
        };
        let next = waiting.iter().position(is_free).unwrap_or(0);
        sorted.push(waiting.remove(next));
    }
    sorted
}

/// Levels of a cell: those of its configuration and those within the series.
pub(crate) fn merged(whole: &Levels, sub: &Levels) -> Levels {
    whole.iter().chain(sub).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Levels as text: `allocator=jemalloc, threads=4`.
pub(crate) fn named(levels: &Levels) -> String {
    let each: Vec<String> = levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
    if each.is_empty() { "every configuration".to_owned() } else { each.join(", ") }
}

/// Whole-plot factors, with values, that `jemalloc` or `allocator=jemalloc` can mean.
pub(crate) fn owners(only: &str, factors: &[Factor]) -> Vec<(String, String)> {
    let whole = factors.iter().filter(|f| f.plot == Plot::Whole);
    let pairs = whole.flat_map(|f| {
        let after_name = only.strip_prefix(f.name.as_str()).and_then(|rest| rest.strip_prefix('='));
        f.values.iter().filter(move |v| *v == only || Some(v.as_str()) == after_name).map(move |v| (f, v))
    });
    pairs.map(|(factor, value)| (factor.name.clone(), value.clone())).collect()
}

fn with(cell: &Levels, name: &str, value: &str) -> Levels {
    let mut cell = cell.clone();
    cell.insert(name.to_owned(), value.to_owned());
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(name: &str, values: &[&str], plot: Plot) -> Factor {
        let reference = (plot == Plot::Whole).then(|| values[0].to_owned());
        Factor { name: name.into(), values: values.iter().map(|&v| v.into()).collect(), reference, plot }
    }

    fn pattern(text: &str) -> Pattern {
        let pair = |word: &str| {
            let (name, levels) = word.split_once('=').unwrap();
            (name.to_owned(), levels.split('|').map(str::to_owned).collect())
        };
        text.split(' ').map(pair).collect()
    }

    fn shown(factors: &[Factor], limits: &Limits) -> Vec<String> {
        let values = |levels: &Levels| levels.values().cloned().collect::<Vec<_>>().join(" ");
        let line = |(whole, cells): &(Levels, Vec<Levels>)| {
            format!("{}: {}", values(whole), cells.iter().map(values).collect::<Vec<_>>().join(", "))
        };
        series(factors, limits).iter().map(line).collect()
    }

    #[test]
    fn cells_are_all_combinations_with_the_last_factor_fastest() {
        // The order of the plan does not matter between the two levels of the design.
        let factors = [
            factor("threads", &["1", "2", "4"], Plot::Sub),
            factor("mode", &["delete", "wal"], Plot::Whole),
            factor("sync", &["full", "normal"], Plot::Whole),
        ];
        assert_eq!(
            shown(&factors, &Limits::default()),
            ["delete full: 1, 2, 4", "delete normal: 1, 2, 4", "wal full: 1, 2, 4", "wal normal: 1, 2, 4"]
        );
        assert_eq!(shown(&factors[1..2], &Limits::default()), ["delete: ", "wal: "]);
        assert_eq!(shown(&factors[..1], &Limits::default()), [": 1, 2, 4"]);
        assert_eq!(shown(&[], &Limits::default()), [": "]);
    }

    #[test]
    fn cells_are_left_out_and_added() {
        let factors =
            [factor("arm", &["a", "b"], Plot::Whole), factor("threads", &["1", "2", "64"], Plot::Sub)];
        let limits = Limits {
            exclude: vec![pattern("arm=b threads=1|2"), pattern("threads=2")],
            include: vec![pattern("arm=b threads=64"), pattern("arm=b threads=2")],
            extra: [("threads".to_owned(), BTreeSet::from(["64".to_owned()]))].into(),
            ..Limits::default()
        };
        assert_eq!(shown(&factors, &limits), ["a: 1", "b: 2, 64"]);
        // A configuration without a cell is absent.
        let limits = Limits { exclude: vec![pattern("arm=b")], ..Limits::default() };
        assert_eq!(shown(&factors, &limits), ["a: 1, 2, 64"]);
        // An extra level is not combined with another extra level that the entry does not name.
        let factors = [factor("arm", &["a", "x"], Plot::Whole), factor("threads", &["1", "64"], Plot::Sub)];
        let limits = Limits {
            include: vec![pattern("arm=x"), pattern("threads=64")],
            extra: [
                ("threads".to_owned(), BTreeSet::from(["64".to_owned()])),
                ("arm".to_owned(), BTreeSet::from(["x".to_owned()])),
            ]
            .into(),
            ..Limits::default()
        };
        assert_eq!(shown(&factors, &limits), ["a: 1, 64", "x: 1"]);
    }

    #[test]
    fn a_nested_factor_exists_below_its_levels_only_wherever_it_is_written() {
        let factors = [
            factor("arenas", &["1", "4"], Plot::Whole),
            factor("allocator", &["libc", "jemalloc"], Plot::Whole),
            factor("threads", &["1", "2"], Plot::Sub),
        ];
        let limits = Limits {
            only: [("arenas".to_owned(), pattern("allocator=jemalloc"))].into(),
            ..Limits::default()
        };
        // The values of a cell are in the order of the factors' names.
        assert_eq!(shown(&factors, &limits), ["libc: 1, 2", "jemalloc 1: 1, 2", "jemalloc 4: 1, 2"]);
        let sides: Vec<bool> = cells(&factors, &limits)
            .iter()
            .map(|cell| is_reference(&split(cell, &factors).0, &factors))
            .collect();
        assert_eq!(sides, [true, true, false, false, false, false]);
    }
}
