//! Comma-separated values (RFC 4180): one writer for every table.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::printable::printable;

/// Writes one row. Every cell is printable, and a spreadsheet reads no cell as a formula.
///
/// # Errors
///
/// Write errors of `out`.
pub fn write_row<C: AsRef<str>>(
    out: &mut (impl Write + ?Sized),
    cells: impl IntoIterator<Item = C>,
) -> io::Result<()> {
    for (i, text) in cells.into_iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        out.write_all(cell(text.as_ref()).as_bytes())?;
    }
    out.write_all(b"\n")
}

/// A cell: printable, quoted if RFC 4180 requires it, a formula after an apostrophe. Numbers do not change.
fn cell(text: &str) -> Cow<'_, str> {
    let text = printable(text);
    let begins_formula = text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    let is_formula = begins_formula && &*text != "-" && text.parse::<f64>().is_err();
    let text = if is_formula { Cow::Owned(format!("'{text}")) } else { text };
    if text.contains([',', '"']) { Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_gets_an_apostrophe_and_a_number_does_not() {
        for (text, shown) in [
            ("=1+1", "'=1+1"),
            ("+cmd|x", "'+cmd|x"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            (" =1", "' =1"),
            ("\t=1", r"\t=1"),
            ("-3.5", "-3.5"),
            ("+1e9", "+1e9"),
            ("-", "-"),
            ("a=1,b=2", "\"a=1,b=2\""),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("two\nlines", r"two\nlines"),
        ] {
            assert_eq!(cell(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_row_has_a_comma_between_cells_and_quotes_where_it_needs_them() {
        let written = |cells: &[&str]| {
            let mut out = Vec::new();
            write_row(&mut out, cells).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&["a", "b,c", "d\"e", ""]), "a,\"b,c\",\"d\"\"e\",\n");
        assert_eq!(written(&["=cmd|x", "\u{1b}[2J\n", "-7"]), "'=cmd|x,\\x1b[2J\\n,-7\n");
        assert_eq!(written(&["std::map<int, \"x\">"]), "\"std::map<int, \"\"x\"\">\"\n");
    }
}
