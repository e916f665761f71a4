//! Data files: rows of named values, for the `${name}` of a request.
//!
//! The format is CSV with a header line, or JSON lines: an object per line. A value is inserted as written in
//! the file; from JSON, a string without its quotes, and any other value in JSON's notation.
//!
//! # Source
//!
//! RFC 4180, CSV; jsonlines.org.

use std::fs::File;
use std::io::Read as _;

use serde_json::{Map, Value};

use crate::schedule::random::Random;

/// Size limit of a file, since it is held in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads a file; it may be a pipe or a device, with a size that is unknown until the end.
pub(crate) fn text_of(file: &str, bytes_max: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|opened| opened.take(bytes_max + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > bytes_max => {
            Err(format!("{file} is larger than {bytes_max} bytes, the limit for this kind of file"))
        }
        Ok(_) => Ok(text),
        Err(e) => Err(format!("cannot read {file}: {e}")),
    }
}

/// The rows of a data file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) columns: Vec<String>,
    /// Each row has as many values as `columns`.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Data {
    /// Reads a file; the error names file and line.
    pub(crate) fn read_file(file: &str) -> Result<Self, String> {
        let text = text_of(file, FILE_BYTES_MAX)?;
        Self::read(&text).map_err(|(line, problem)| format!("{file}:{line}: {problem}"))
    }

    /// Draws the row of an event.
    pub(crate) fn draw(&self, random: &mut Random) -> &[String] {
        let place = random.below(self.rows.len() as u64);
        &self.rows[usize::try_from(place).expect("a place among rows")]
    }

    fn read(text: &str) -> Result<Self, (usize, String)> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let data =
            if text.trim_start().starts_with('{') { Self::of_json(text)? } else { Self::of_csv(text)? };
        if data.rows.is_empty() {
            return Err((1, "the file has no rows of data".to_owned()));
        }
        Ok(data)
    }

    fn of_json(text: &str) -> Result<Self, (usize, String)> {
        let mut data = Self { columns: Vec::new(), rows: Vec::new() };
        for (line, written) in (1..).zip(text.lines()).filter(|(_, written)| !written.trim().is_empty()) {
            let object: Map<String, Value> =
                serde_json::from_str(written).map_err(|e| (line, format!("expected a JSON object: {e}")))?;
            if data.columns.is_empty() {
                data.columns = object.keys().cloned().collect();
            }
            let value = |name: &String| match object.get(name) {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(other) => Ok(other.to_string()),
                None => Err((line, format!("the key `{name}` of the first line is missing"))),
            };
            data.rows.push(data.columns.iter().map(value).collect::<Result<_, _>>()?);
        }
        Ok(data)
    }

    fn of_csv(text: &str) -> Result<Self, (usize, String)> {
        let mut reader = Csv { left: text, line: 1 };
        reader.skip_empty_lines();
        let columns = reader.row()?.unwrap_or_default();
        if let Some(name) =
            columns.iter().enumerate().find_map(|(n, name)| columns[..n].contains(name).then_some(name))
        {
            return Err((1, format!("two columns have the name `{name}`")));
        }
        let mut rows = Vec::new();
        loop {
            reader.skip_empty_lines();
            let line = reader.line;
            let Some(row) = reader.row()? else { return Ok(Self { columns, rows }) };
            if row.len() != columns.len() {
                let text =
                    format!("expected {} values, as in the first line, found {}", columns.len(), row.len());
                return Err((line, text));
            }
            rows.push(row);
        }
    }
}

/// The unread rest of a file.
struct Csv<'a> {
    left: &'a str,
    line: usize,
}

impl Csv<'_> {
    fn skip_empty_lines(&mut self) {
        while let Some(rest) = self.left.strip_prefix('\n').or_else(|| self.left.strip_prefix("\r\n")) {
            (self.left, self.line) = (rest, self.line + 1);
        }
    }

    /// The values of the next line; `None` at the end.
    fn row(&mut self) -> Result<Option<Vec<String>>, (usize, String)> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let mut row = Vec::new();
        loop {
            row.push(self.value()?);
            if let Some(rest) = self.left.strip_prefix(',') {
                self.left = rest;
                continue;
            }
            let end = self.left.strip_prefix("\r\n").or_else(|| self.left.strip_prefix('\n'));
            match end {
                Some(rest) => (self.left, self.line) = (rest, self.line + 1),
                None if self.left.is_empty() => {}
                None => return Err((self.line, "expected a comma after a quoted value".to_owned())),
            }
            return Ok(Some(row));
        }
    }

    fn value(&mut self) -> Result<String, (usize, String)> {
        let Some(quoted) = self.left.strip_prefix('"') else {
            let end = self.left.find([',', '\n']).unwrap_or(self.left.len());
            let (value, rest) = self.left.split_at(end);
            let value =
                if rest.starts_with('\n') { value.strip_suffix('\r').unwrap_or(value) } else { value };
            self.left = &self.left[value.len()..];
            return Ok(value.to_owned());
        };
        let (mut value, mut rest, line) = (String::new(), quoted, self.line);
        loop {
            let Some(end) = rest.find('"') else {
                return Err((line, "a quoted value is not closed".to_owned()));
            };
            value.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix('"') {
                Some(more) => {
                    value.push('"');
                    rest = more;
                }
                None => break,
            }
        }
        self.line += value.matches('\n').count();
        self.left = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Vec<String>> {
        Data::read(text).unwrap().rows
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        let expected = vec![vec!["1", "a,b"], vec!["2", "say \"x\"\nand go"], vec!["3", ""]];
        let csv = "id,text\r\n1,\"a,b\"\r\n\r\n2,\"say \"\"x\"\"\nand go\"\n3,";
        assert_eq!(rows(csv), expected);
        assert_eq!(Data::read(csv).unwrap().columns, ["id", "text"]);
        let json = "{\"id\": 1, \"text\": \"a,b\"}\n\n{\"text\": \"say \\\"x\\\"\\nand go\", \"id\": 2}\n{\"id\":3,\"text\":\"\",\"x\":1}\n";
        assert_eq!(rows(json), expected);
        assert_eq!(rows("{\"a\": {\"b\": [1, null]}, \"c\": true}"), [["{\"b\":[1,null]}", "true"]]);
        assert_eq!(rows("a\n\"1\"\n"), [["1"]]);
    }

    #[test]
    fn a_problem_has_its_line() {
        for (text, line, says) in [
            ("", 1, "no row"),
            ("id\n", 1, "no row"),
            ("id,id\n1,2\n", 1, "two columns"),
            ("id,x\n1,2\n\n1\n", 4, "expected 2 values"),
            ("id\n\"a\nb\"\n\"1\"2\n", 4, "expected a comma"),
            ("id\n\"1\n2\n", 2, "not closed"),
            ("{\"a\":1}\n{\"b\":1}\n", 2, "the key `a`"),
            ("{\"a\":1}\n[1]\n", 2, "expected a JSON object"),
        ] {
            let (found, problem) = Data::read(text).unwrap_err();
            assert!(found == line && problem.contains(says), "{text:?}: {found}: {problem}");
        }
    }

    #[test]
    fn a_device_without_end_is_read_up_to_the_limit() {
        assert!(text_of("/dev/zero", 1_000).unwrap_err().contains("larger than 1000 bytes"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, "x".repeat(1_000)).unwrap();
        let file = path.to_str().unwrap();
        assert_eq!(text_of(file, 1_000).unwrap().len(), 1_000);
        assert!(text_of(file, 999).is_err());
    }
}
