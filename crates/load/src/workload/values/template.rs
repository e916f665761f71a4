//! Texts with values that differ from event to event: `/item/${id}`, `{"amount": ${random(1, 100)}}`.
//!
//! `${name}` is a column of the data file, in a row that the event draws. Any other `${...}` is an expression
//! of the script language, without variables. `$${` stands for `${` itself. All random values depend on the
//! seed and the event's number.

use std::io::Write as _;

use super::data::Data;
use crate::schedule::random::Random;
use crate::workload::script::Formula;

/// A text, as a list of pieces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Column(usize),
    Formula(Formula),
}

/// Part of a request to which a text belongs: it determines the escaping of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Characters that are invalid in a path are written as `%XX`, all others unchanged.
    Path,
    /// A header cannot contain a line end.
    Header,
    Body,
}

/// Whether a text contains values.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("${")
}

/// The text around the values.
pub(crate) fn around(text: &str) -> String {
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    out + rest
}

impl Template {
    pub(crate) fn read(text: &str, part: Part, data: Option<&Data>) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                pieces.push(Piece::Text(format!("{before}${{")));
                rest = after;
                continue;
            }
            let (inside, left) = after
                .split_once('}')
                .ok_or_else(|| format!("`${{{after}` is not closed: `}}` is missing"))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::read(inside.trim(), part, data)?);
            rest = left;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Writes the text for one event.
    ///
    /// - `row`: the row that the event has drawn; empty if there is no data.
    pub(crate) fn write(
        &self,
        part: Part,
        row: &[String],
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Column(column) if part == Part::Path => write_in_path(&row[*column], out),
                Piece::Column(column) => out.extend_from_slice(row[*column].as_bytes()),
                Piece::Formula(formula) => formula.write(random, out)?,
            }
        }
        Ok(())
    }
}

impl Piece {
    fn read(inside: &str, part: Part, data: Option<&Data>) -> Result<Self, String> {
        let is_name =
            !inside.is_empty() && inside.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let is_number = inside.parse::<f64>().is_ok();
        if !is_name || is_number {
            return Formula::read(inside)
                .map(Self::Formula)
                .map_err(|problem| format!("`${{{inside}}}`: {problem}"));
        }
        let Some(data) = data else {
            return Err(format!("`${{{inside}}}` needs a data file (--data) with a column `{inside}`"));
        };
        let column = data.columns.iter().position(|name| name == inside);
        let column = column.ok_or_else(|| {
            format!(
                "`${{{inside}}}` is not a column of the data file: expected one of {}",
                data.columns.join(", ")
            )
        })?;
        if part == Part::Header
            && let Some(value) =
                data.rows.iter().map(|row| &row[column]).find(|value| value.contains(['\r', '\n', '\0']))
        {
            return Err(format!(
                "`${{{inside}}}` is in a header, but one of its values contains a line break: {value:?}"
            ));
        }
        Ok(Self::Column(column))
    }
}

/// # Source
///
/// RFC 3986, section 2; characters that browsers leave unchanged: URL, whatwg.org, the query percent-encode
/// set.
fn write_in_path(value: &str, out: &mut Vec<u8>) {
    for byte in value.bytes() {
        if matches!(byte, b'!' | b'$'..=b';' | b'=' | b'?'..=b'Z' | b'_' | b'a'..=b'z' | b'~' | b'[' | b']' | b'|')
        {
            out.push(byte);
        } else {
            // A write into memory cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Data {
        let rows = [["7", "a b&c=ü/%20"], ["8", "x\ny"]];
        let rows = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        Data { columns: vec!["id".to_owned(), "the-name".to_owned()], rows }
    }

    fn written(text: &str, part: Part) -> String {
        let data = data();
        let mut out = Vec::new();
        let template = Template::read(text, part, Some(&data)).unwrap();
        template.write(part, &data.rows[0], &mut Random::of(1, 1), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_stand_where_they_are_named() {
        assert_eq!(written("/item/${id}?q=${ the-name }", Part::Path), "/item/7?q=a%20b&c=%C3%BC/%20");
        assert_eq!(written("{\"n\": \"${the-name}\"}", Part::Body), "{\"n\": \"a b&c=ü/%20\"}");
        assert_eq!(written("no $values {here} $", Part::Body), "no $values {here} $");
        assert_eq!(written("a $${id} ${id}", Part::Body), "a ${id} 7");
        assert_eq!(written("${2 * 3}${4}", Part::Body), "64");
        let number: u32 = written("${random(10, 12)}", Part::Path).parse().unwrap();
        assert!((10..=12).contains(&number));
        assert_eq!(around("/a b/${random(1, 2)}/c"), "/a b//c");
    }

    #[test]
    fn what_has_no_value_is_refused_when_it_is_read() {
        for (text, part, says) in [
            ("${id", Part::Body, "not closed"),
            ("${nobody}", Part::Body, "is not a column of the data file: expected one of id, the-name"),
            ("X: ${the-name}", Part::Header, "contains a line break"),
            ("${random(1)}", Part::Body, "takes 2"),
            ("${random(5, 1)}", Part::Body, "random"),
            ("${:id + 1}", Part::Body, "not supported here"),
        ] {
            let problem = Template::read(text, part, Some(&data())).unwrap_err();
            assert!(problem.contains(says), "{text}: {problem}");
        }
        assert!(Template::read("${id}", Part::Body, None).unwrap_err().contains("--data"));
    }
}
