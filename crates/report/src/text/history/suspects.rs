//! What is new with a change, in a line.

use analysis::history::Suspect;

/// Suspects in a line.
pub(crate) fn all_suspects(suspects: &[Suspect]) -> String {
    suspects.iter().map(suspect).collect::<Vec<_>>().join("; ")
}

/// `cpu.governor performance -> powersave`; of long values, what differs.
fn suspect(suspect: &Suspect) -> String {
    let (before, after) = (suspect.before.as_deref(), suspect.after.as_deref());
    let (before, after) = (before.unwrap_or("unknown"), after.unwrap_or("unknown"));
    let is_long = before.chars().count().max(after.chars().count()) > VALUE_MAX;
    let from = if is_long { first_difference(before, after) } else { 0 };
    format!("{} {} -> {}", suspect.what, cut(before, from), cut(after, from))
}

/// Most characters of a value that are shown.
const VALUE_MAX: usize = 48;

/// Start of the first word that differs, in bytes.
fn first_difference(a: &str, b: &str) -> usize {
    let mut start = 0;
    for ((at, x), y) in a.char_indices().zip(b.chars()) {
        if x != y {
            break;
        }
        if x == ' ' {
            start = at + 1;
        }
    }
    start
}

fn cut(value: &str, from: usize) -> String {
    let short: String = value[from..].chars().take(VALUE_MAX).collect();
    let (before, after) =
        (if from > 0 { "..." } else { "" }, if from + short.len() < value.len() { "..." } else { "" });
    format!("{before}{short}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_values_the_first_word_that_differs_is_shown() {
        let told = |before: &str, after: &str| {
            let side = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            suspect(&Suspect { what: "command".into(), before: side(before), after: side(after) })
        };
        assert_eq!(told("a", ""), "command a -> unknown");
        let long = "bakeoff record --title 'a nightly run of everything' -- sleep ";
        assert_eq!(told(&format!("{long}1"), &format!("{long}2")), "command ...1 -> ...2");
        assert_eq!(told(&"ä".repeat(60), "b"), format!("command {}... -> b", "ä".repeat(48)));
        assert_eq!(told(long, &format!("{long}ü")), "command ... -> ...ü");
    }
}
