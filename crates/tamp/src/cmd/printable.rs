//! Names of files as a person may safely read them: a terminal obeys control characters.

use std::fmt::Write as _;

/// Whether a character is an order to the terminal, changes the order of others, or cannot be seen.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line, every unseen character written out: `\n`, `\x1b`, `\u{202e}`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_an_order_to_the_terminal() {
        assert_eq!(printable("a\nb\u{1b}]0;x\u{7}\u{9b}m\u{202e}.gz"), r"a\nb\x1b]0;x\x07\u{9b}m\u{202e}.gz");
        assert_eq!(printable("größe 数据.zst"), "größe 数据.zst");
    }
}
