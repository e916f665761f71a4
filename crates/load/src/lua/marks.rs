//! The parameters in the text of a statement.

use crate::workload::statement::{Quoting, StatementText};

/// Reads the texts around the question marks of a statement, except those in quotes and comments.
///
/// - `quoting`: whether a backslash in quotes escapes the next character.
/// - `statement`: its memory is used again.
pub(crate) fn read(sql: &str, quoting: Quoting, statement: &mut StatementText) {
    let (mut from, mut at) = (0, 0);
    statement.clear();
    while let Some(c) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let end = |close: &str| rest[2..].find(close).map_or(rest.len(), |end| 2 + end + close.len());
        at += match c {
            '?' => {
                statement.push(&sql[from..at]);
                from = at + 1;
                1
            }
            '\'' | '"' | '`' => quoted(rest, c, quoting == Quoting::Backslash && c != '`'),
            '/' if rest.starts_with("/*") => end("*/"),
            '-' if rest.starts_with("--") => end("\n"),
            c => c.len_utf8(),
        };
    }
    statement.push(&sql[from..]);
}

/// Length of a text in quotes, to the end of `sql` if they are not closed.
fn quoted(sql: &str, quote: char, has_escapes: bool) -> usize {
    let mut is_escaped = true;
    for (at, c) in sql.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if has_escapes => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    sql.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(sql: &str, quoting: Quoting) -> Vec<String> {
        let mut statement = StatementText::default();
        read(sql, quoting, &mut statement);
        statement.with_marks(|_| "\n|".to_owned()).split("\n|").map(str::to_owned).collect()
    }

    #[test]
    fn a_question_mark_is_a_parameter_unless_it_is_quoted_or_in_a_comment() {
        let of = |sql| pieces(sql, Quoting::Standard);
        assert_eq!(of("SELECT ? FROM t WHERE a = ?"), ["SELECT ", " FROM t WHERE a = ", ""]);
        assert_eq!(of("SELECT '?', `a?`, \"it''s ?\", ?"), ["SELECT '?', `a?`, \"it''s ?\", ", ""]);
        assert_eq!(of("a /* ? */ ? -- ?\n?"), ["a /* ? */ ", " -- ?\n", ""]);
        assert_eq!(of("ü? -- ?"), ["ü", " -- ?"]);
        for text in ["", "'?", "/*?", "--", "/*", "5 / 2 - 1"] {
            assert_eq!(of(text), [text]);
        }
        // A backslash escapes in MySQL, and in PostgreSQL it does not.
        let text = r"SELECT 'it\'s ?', ?";
        assert_eq!(pieces(text, Quoting::Backslash), [r"SELECT 'it\'s ?', ", ""]);
        assert_eq!(of(r"SELECT 'a\', ?"), [r"SELECT 'a\', ", ""]);
    }
}
