//! Names of files, safe to print: a terminal obeys control characters.

use std::fmt::Write as _;

/// Whether a character controls the terminal, reorders other characters, or is invisible.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text on one line, with unseen characters escaped: `
/// `, `\x1b`, `\u{202e}`.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let written = match c {
            '\n' => out.write_str("\\n"),
            c if !is_unseen(c) => out.write_char(c),
            c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
        written.expect("a String takes all that is written to it");
    }
    out
}

/// Returns JSON on one line. Unseen characters, which occur only in strings, are escaped as in JSON:
/// `\u202e`.
pub(crate) fn printable_json(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("a String takes all that is written to it");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_an_order_to_the_terminal() {
        assert_eq!(printable("a\nb\u{1b}]0;x\u{7}\u{9b}m\u{202e}.gz"), r"a\nb\x1b]0;x\x07\u{9b}m\u{202e}.gz");
        assert_eq!(printable("größe 数据.zst"), "größe 数据.zst");
    }

    #[test]
    fn json_shows_no_unseen_character_and_reads_as_the_same_value() {
        let value = serde_json::json!({ "a\u{7f}": "\n\u{9b}\u{202e}\u{e0001}\"\\ größe 数据" });
        let text = printable_json(&value);
        assert_eq!(text, r#"{"a\u007f":"\n\u009b\u202e\udb40\udc01\"\\ größe 数据"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
