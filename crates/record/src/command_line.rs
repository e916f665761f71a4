//! Splits command lines without a shell.

/// Splits a command line at blanks, as a shell does: quotes of either kind hold words together; a backslash
/// outside single quotes escapes the next character. Outside quotes, `${...}` stays whole, including its
/// blanks. `None` if a quote is not closed, or if the text ends after a backslash.
pub fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (None, '$') if letters.peek() == Some(&'{') && letters.clone().any(|c| c == '}') => {
                let word = word.get_or_insert_default();
                word.push('$');
                for inner in letters.by_ref() {
                    word.push(inner);
                    if inner == '}' {
                        break;
                    }
                }
            }
            (Some(q), _) if c == q => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().push(letters.next()?),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_none() { Some(words) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_splits_as_in_a_shell() {
        let split = |text| split(text).map(|w| w.join("|"));
        assert_eq!(split("mariadbd  --a=1 --b").as_deref(), Some("mariadbd|--a=1|--b"));
        assert_eq!(split(r#"x "a b" 'c "d"' e\ f "" g'h'"#).as_deref(), Some(r#"x|a b|c "d"|e f||gh"#));
        assert_eq!(split(r"'a\b'").as_deref(), Some(r"a\b"));
        assert_eq!(
            split("ZADD b ${random(1, 9)} 'm ${2 * 3}'").as_deref(),
            Some("ZADD|b|${random(1, 9)}|m ${2 * 3}")
        );
        assert_eq!(split("'${' 'a b' ${ c").as_deref(), Some("${|a b|${|c"));
        assert_eq!(split("x 'a"), None);
        assert_eq!(split("x \\"), None);
        assert_eq!(split("  ").as_deref(), Some(""));
    }
}
