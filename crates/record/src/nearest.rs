//! Suggestions for misspelled names: `did you mean ...?`.

/// The known name that `found` probably misspells: at most a third of its letters differ.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = found.chars().count();
    // A text that is much longer than a name does not misspell it, and would take long to compare.
    if letters > NAME_CHARS_MAX {
        return None;
    }
    let close = |(distance, _): &(usize, &str)| *distance <= letters.max(3) / 3;
    // A name may be a megabyte of a plan.
    let names = known.into_iter().filter(|name| name.len() <= NAME_BYTES_MAX);
    let measured = names.map(|name| (distance(found, name), name));
    measured.filter(close).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// The clause that ends a message about the unknown name `found`; empty without a similar name.
pub fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(found, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Longest text that can misspell a name.
const NAME_CHARS_MAX: usize = 64;
/// Longest name that is suggested, in bytes.
const NAME_BYTES_MAX: usize = 1 << 10;

/// Edit distance of two words: letters to insert, delete or replace, or neighbors to swap; `-` and `_` are
/// equal.
fn distance(a: &str, b: &str) -> usize {
    let letters = |s: &str| s.to_lowercase().replace('-', "_").chars().collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    rows[i - 2][j - 2] + 1
                } else {
                    usize::MAX
                };
                replaced.min(swapped).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_finds_its_neighbor_and_a_strange_one_finds_none() {
        let known = ["blocks", "seed", "time_budget", "null", "locks"];
        for (found, meant) in [
            ("blcoks", Some("blocks")),
            ("time-budget", Some("time_budget")),
            ("sede", Some("seed")),
            ("nul", Some("null")),
            ("LOCKS", Some("locks")),
            ("colour", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(found, known), meant, "{found}");
        }
        assert_eq!(nearest(&"seed".repeat(100_000), known), None);
    }

    #[test]
    fn a_clause_names_the_neighbor_or_nothing() {
        assert_eq!(did_you_mean("lokcs", ["locks", "cpu"]), "; did you mean `locks`?");
        assert_eq!(did_you_mean("disk", ["locks", "cpu"]), "");
    }
}
