//! A translated command line while it is written.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use record::quantity::written_duration;

use super::error::LikeError;
use super::options::Item;
use super::translation::{Remark, RemarkKind, Translation, Word};

/// A translated command line while it is written: verb, target, then options in the order of their calls.
#[derive(Debug)]
pub(super) struct Draft {
    tool: &'static str,
    verb: Vec<Word>,
    target: Option<String>,
    options: Vec<Word>,
    remarks: Vec<Remark>,
}

impl Draft {
    pub(super) fn new(tool: &'static str) -> Self {
        let verb = vec![Word::Plain("load".to_owned())];
        Self { tool, verb, target: None, options: Vec::new(), remarks: Vec::new() }
    }

    /// Name of the tool.
    pub(super) fn tool(&self) -> &'static str {
        self.tool
    }

    /// Replaces `load` by another command.
    pub(super) fn verb<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) {
        self.verb = words.into_iter().map(|word| Word::Plain(word.to_owned())).collect();
    }

    pub(super) fn target(&mut self, target: String) {
        self.target = Some(target);
    }

    /// Adds an option with its value.
    #[expect(clippy::needless_pass_by_value, reason = "calls write texts and numbers alike")]
    pub(super) fn put(&mut self, name: &str, value: impl ToString) {
        self.flag(name);
        self.options.push(Word::Plain(value.to_string()));
    }

    /// Adds an option of a script, `name=value`.
    pub(super) fn script_option(&mut self, text: &str) {
        self.options.push(Word::Plain(format!("--{text}")));
    }

    /// Adds an option without a value.
    pub(super) fn flag(&mut self, name: &str) {
        self.options.push(Word::Plain(format!("--{name}")));
    }

    pub(super) fn duration(&mut self, name: &str, time: Duration) {
        // Another tool's zero has a unit in ours.
        self.put(name, if time.is_zero() { "0s".to_owned() } else { written_duration(time) });
    }

    pub(super) fn header(&mut self, header: &str) {
        self.flag("header");
        self.options.push(Word::Header(literal(header)));
    }

    /// Adds an option with the contents of a file, with a remark on the printed line.
    pub(super) fn file(&mut self, name: &str, path: &str) {
        let text = "--like sends the file unchanged; in the printed line, a shell removes the file's last line \
                    breaks, and bakeoff replaces `${...}`";
        self.differs(path, text);
        self.flag(name);
        self.options.push(Word::File(PathBuf::from(path)));
    }

    pub(super) fn missing(&mut self, part: &str, text: &str) {
        self.remark(RemarkKind::Missing, part, text);
    }

    pub(super) fn differs(&mut self, part: &str, text: &str) {
        self.remark(RemarkKind::Differs, part, text);
    }

    pub(super) fn left_out(&mut self, part: &str, text: &str) {
        self.remark(RemarkKind::LeftOut, part, text);
    }

    fn remark(&mut self, kind: RemarkKind, part: &str, text: &str) {
        let remark = Remark { kind, part: part.to_owned(), text: text.to_owned() };
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Remarks that bakeoff warms up before a load that lasts for a time.
    pub(super) fn warms_up(&mut self) {
        let text = "bakeoff warms up for 1 s before it measures; --warmup 0s turns it off";
        self.differs("warm-up", text);
    }

    /// Remarks that the tool draws other random numbers in each run.
    pub(super) fn has_fixed_seed(&mut self, part: &str) {
        let text = format!(
            "{} draws other numbers in each run; bakeoff's are those of the seed 1 (--seed)",
            self.tool
        );
        self.differs(part, &text);
    }

    pub(super) fn malformed(&self, problem: impl Into<String>) -> LikeError {
        LikeError::Malformed { tool: self.tool, problem: problem.into() }
    }

    pub(super) fn into_translation(self) -> Translation {
        let target = self.target.map(Word::Target);
        let words = self.verb.into_iter().chain(target).chain(self.options).collect();
        Translation { tool: self.tool, words, remarks: self.remarks }
    }
}

/// Options that were given, each with its last value.
pub(super) struct Given<'a> {
    items: &'a [Item],
    tool: &'static str,
}

impl<'a> Given<'a> {
    pub(super) fn new(items: &'a [Item], tool: &'static str) -> Self {
        Self { items, tool }
    }

    /// Value of an option and its written form; the last one counts.
    pub(super) fn last(&self, wanted: &str) -> Option<(&'a str, &'a str)> {
        self.all(wanted).last()
    }

    /// Value of an option.
    pub(super) fn value(&self, wanted: &str) -> Option<&'a str> {
        self.last(wanted).map(|(value, _)| value)
    }

    /// Values of an option that may be repeated, and their written forms.
    pub(super) fn all(&self, wanted: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.items.iter().filter_map(move |item| match item {
            Item::Option { name, written, value } if *name == wanted => {
                Some((value.as_str(), written.as_str()))
            }
            _ => None,
        })
    }

    pub(super) fn has(&self, wanted: &str) -> bool {
        self.last(wanted).is_some()
    }

    /// All options and words, in their order.
    pub(super) fn items(&self) -> &'a [Item] {
        self.items
    }

    /// Words that are not options.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().filter_map(|item| match item {
            Item::Word(word) => Some(word.as_str()),
            _ => None,
        })
    }

    /// Remarks on the options that the tool is not known to have.
    pub(super) fn remark_unknown(&self, draft: &mut Draft) {
        for item in self.items {
            if let Item::Unknown(written) = item {
                draft.missing(written, "bakeoff does not know this option");
            }
        }
    }

    /// Remarks on those of `names` that were given.
    pub(super) fn remark(&self, draft: &mut Draft, kind: RemarkKind, names: &[&str], text: &str) {
        for name in names {
            for (_, written) in self.all(name) {
                draft.remark(kind, written, text);
            }
        }
    }

    /// Reads the value of an option.
    pub(super) fn read<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, LikeError> {
        let Some((value, written)) = self.last(name) else { return Ok(None) };
        let problem = || format!("{written}: expected {expected}");
        let read = read(value).ok_or_else(|| LikeError::Malformed { tool: self.tool, problem: problem() });
        read.map(Some)
    }

    /// Whole number from 0.
    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>, LikeError> {
        self.read(name, "a whole number", |text| text.parse().ok())
    }

    /// Number of things of which there is at least one.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, LikeError> {
        self.read(name, "a whole number from 1", |text| text.parse().ok().filter(|n| *n > 0))
    }

    /// Finite number over 0.
    pub(super) fn rate(&self, name: &str) -> Result<Option<f64>, LikeError> {
        self.read(name, "a rate over 0", rate)
    }
}

/// Finite number over 0.
pub(super) fn rate(text: &str) -> Option<f64> {
    text.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0)
}

/// Product of counts, if it is not too large to be one.
pub(super) fn times(draft: &Draft, a: u64, b: u64) -> Result<u64, LikeError> {
    let product = a.checked_mul(b).filter(|n| i64::try_from(*n).is_ok());
    product.ok_or_else(|| draft.malformed(format!("{a} times {b} is too large")))
}

/// Number of seconds, whole or not, as a duration.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number).ok()
}

/// Duration as Go, wrk or oha read it: `10s`, `1m30s`, `500ms`, and seconds without a unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if let Some(time) = seconds(text) {
        return Some(time);
    }
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let number: f64 = number.parse().ok()?;
        let unit_s = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" | "S" | "sec" | "secs" => 1.0,
            "m" | "M" | "min" | "mins" => 60.0,
            "h" | "H" => 3_600.0,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number * unit_s).ok()?)?;
        rest = after.trim_start();
    }
    (!text.trim().is_empty()).then_some(sum)
}

/// Text as a literal: `${` begins a value in ours, and `$${` stands for it.
pub(super) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// Part of a URL with every reserved character encoded.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing into memory does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_other_tools_are_read() {
        let read = |text| duration(text).map(written_duration);
        for (text, expected) in [
            ("30", Some("30s")),
            ("30s", Some("30s")),
            ("1m30s", Some("90s")),
            ("2h", Some("2h")),
            ("500ms", Some("500ms")),
            ("1m 30s", Some("90s")),
            ("0.5s", Some("500ms")),
            ("", None),
            (" ", None),
            ("s", None),
            ("5x", None),
            ("5s6", None),
            ("-1s", None),
            ("1e400", None),
            ("NaN", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn parts_of_a_url_are_encoded() {
        assert_eq!(encoded("p@ss/w:rd é~"), "p%40ss%2Fw%3Ard%20%C3%A9~");
        assert_eq!(literal("a ${b} $c"), "a $${b} $c");
    }
}
