//! A badge: a label and a result, as SVG and as the document that badge services read.

use std::fmt::Write as _;

use analysis::GateOutcome;
use serde_json::{Value, json};

/// Width of a letter at the badge's size, in pixels: a mean that fits sans-serif fonts.
const LETTER_PX: f64 = 6.6;
/// Space on both sides of a text, in pixels.
const MARGIN_PX: f64 = 6.0;
/// Longest message, in letters.
const LETTERS_MAX: usize = 60;

/// Meaning of a badge, by color; its message carries the same meaning in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// Every gate passes; without gates, the comparison is whole and has an answer.
    Good,
    /// A gate fails, or the measurement is INVALID.
    Bad,
    /// The data do not decide.
    Doubt,
}

impl Sense {
    /// The sense of the worst gate.
    pub fn of_gates(worst: GateOutcome) -> Self {
        match worst {
            GateOutcome::Pass => Self::Good,
            GateOutcome::Fail => Self::Bad,
            GateOutcome::Inconclusive => Self::Doubt,
        }
    }

    fn color(self) -> &'static str {
        match self {
            Self::Good => "#2e7d32",
            Self::Bad => "#b71c1c",
            Self::Doubt => "#8a6d00",
        }
    }

    /// Color names of the document.
    fn word(self) -> &'static str {
        match self {
            Self::Good => "green",
            Self::Bad => "red",
            Self::Doubt => "yellow",
        }
    }
}

/// The document of the *endpoint badge* of Shields.
///
/// # Source
///
/// Shields.io, *Endpoint Badge*, schema version 1.
pub fn endpoint(label: &str, message: &str, sense: Sense) -> Value {
    json!({
        "schemaVersion": 1,
        "label": label,
        "message": cut(message),
        "color": sense.word(),
        "isError": sense == Sense::Bad,
    })
}

/// The badge as SVG, without scripts and links.
pub fn svg(label: &str, message: &str, sense: Sense) -> String {
    let message = cut(message);
    let width = |text: &str| text.chars().count() as f64 * LETTER_PX + 2.0 * MARGIN_PX;
    let (left, right) = (width(label), width(&message));
    let (label, message) = (escape(label), escape(&message));
    let mut out = String::new();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all:.0}\" height=\"20\" role=\"img\" \
         aria-label=\"{label}: {message}\"><title>{label}: {message}</title><rect width=\"{all:.0}\" height=\"20\" rx=\"3\" \
         fill=\"#555\"/><rect x=\"{left:.0}\" width=\"{right:.0}\" height=\"20\" rx=\"3\" fill=\"{color}\"/><g fill=\"#fff\" \
         font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\" text-anchor=\"middle\"><text x=\"{x:.1}\" \
         y=\"14\">{label}</text><text x=\"{y:.1}\" y=\"14\">{message}</text></g></svg>",
        all = left + right,
        color = sense.color(),
        x = left / 2.0,
        y = left + right / 2.0,
    )
    .expect("a String takes all that is written to it");
    out
}

fn cut(message: &str) -> String {
    if message.chars().count() <= LETTERS_MAX {
        return message.to_owned();
    }
    message.chars().take(LETTERS_MAX - 1).chain(['…']).collect()
}

fn escape(text: &str) -> String {
    crate::gates::junit::escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_badge_says_in_words_what_its_color_says_and_takes_no_markup() {
        let text = svg("bakeoff", "B is <b>22 %</b> slower", Sense::Bad);
        assert!(text.contains("B is &lt;b&gt;22 %&lt;/b&gt; slower") && text.contains("#b71c1c"), "{text}");
        assert_eq!(text.matches("<svg").count(), 1);
        let document = endpoint("bakeoff", &"x".repeat(100), Sense::of_gates(GateOutcome::Pass));
        assert_eq!(document["message"].as_str().unwrap().chars().count(), LETTERS_MAX);
        assert_eq!((&document["schemaVersion"], &document["color"]), (&json!(1), &json!("green")));
    }
}
