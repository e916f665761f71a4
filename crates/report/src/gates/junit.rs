//! Gates as `JUnit` XML: one test case a gate, its comparisons in the message.
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
///
/// # Source
///
/// `junit-10.xsd` of the Jenkins xUnit plugin, which other consumers read too.
pub fn suite(title: &str, header: Option<&RunHeader>, results: &[GateResult]) -> String {
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        results.len(),
        count(results, GateOutcome::Fail),
        count(results, GateOutcome::Inconclusive),
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
    for result in results {
        case(&mut out, result);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, result: &GateResult) {
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
    let name = escape(&name(&result.gate));
    writeln!(
        out,
        "    <testcase name=\"{name}\" classname=\"bakeoff.gates\" time=\"0\">\n      {open}{all}{close}\n    </testcase>"
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
