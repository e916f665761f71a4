//! Gates as `JUnit` XML: one test case a gate, its comparisons in the message, and one for a measurement that
//! is not whole.
//!
//! A failed gate is a `failure`, an inconclusive one an `error`: consumers show both in red, and a skipped
//! test in green.

use std::fmt::Write;

use analysis::{GateOutcome, GateResult};
use record::printable::printable;
use record::run::RunHeader;

use super::{comparison, count, name, outcome, reason};
use crate::number::rfc3339;

/// The document of gates.
///
/// - `header`: the run that they judge, if it is one.
/// - `trouble`: the reason that the measurement is not whole, if it is not: a separate case, which is an
///   error. Without gates it is the only one.
///
/// # Source
///
/// `junit-10.xsd` of the Jenkins xUnit plugin, which other consumers read too.
pub fn suite(
    title: &str,
    header: Option<&RunHeader>,
    trouble: Option<&str>,
    results: &[GateResult],
) -> String {
    let more = usize::from(trouble.is_some());
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        results.len() + more,
        count(results, GateOutcome::Fail),
        count(results, GateOutcome::Inconclusive) + more,
    );
    // Archived runs against each other have neither one id nor one time.
    let of_run = |header: &RunHeader| {
        let at = rfc3339(header.anchor.unix_ns);
        format!(" id=\"{}\" timestamp=\"{}\"", header.id, at.get(..19).unwrap_or_default())
    };
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"bakeoff\" {counts} time=\"0\">\n  <testsuite \
         name=\"{}\"{} {counts} skipped=\"0\" time=\"0\">\n",
        escape(title),
        header.map_or_else(String::new, of_run),
    );
    if let Some(trouble) = trouble {
        let error = format!("<error type=\"measurement\" message=\"{}\">", escape(trouble));
        case(&mut out, ("measurement", "bakeoff"), (&error, "", "</error>"));
    }
    for result in results {
        gate(&mut out, result);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn gate(out: &mut String, result: &GateResult) {
    let all: Vec<String> = result.comparisons.iter().map(|c| escape(&comparison(result, c))).collect();
    let all = all.join("\n");
    let message = escape(&format!("{}: {}", outcome(result), reason(result)));
    let (open, close) = match result.outcome {
        GateOutcome::Pass => ("<system-out>".to_owned(), "</system-out>"),
        GateOutcome::Fail => (format!("<failure type=\"fail\" message=\"{message}\">"), "</failure>"),
        GateOutcome::Inconclusive => {
            (format!("<error type=\"inconclusive\" message=\"{message}\">"), "</error>")
        }
    };
    case(out, (&escape(&name(&result.gate)), "bakeoff.gates"), (&open, &all, close));
}

/// Writes a case from text that is escaped.
fn case(out: &mut String, (name, class): (&str, &str), (open, text, close): (&str, &str, &str)) {
    writeln!(
        out,
        "    <testcase name=\"{name}\" classname=\"{class}\" time=\"0\">\n      {open}{text}{close}\n    </testcase>"
    )
    .expect("a String takes all that is written to it");
}

/// Text on one line, for an attribute or between tags. XML 1.0 has no form for most control characters, so
/// they are written as people read them: `\x1b`.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in printable(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // The two characters that XML forbids beside the controls.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}
