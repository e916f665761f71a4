//! Makes text of other origin (process and file names, titles, labels, server messages) safe to print.
//!
//! A terminal obeys control characters: an escape sequence sets its title, fills its clipboard or overwrites
//! the line above, and bidirectional controls reorder the text. All code that prints such text uses this
//! module; [`Guarded`] is the second line of defense, around a whole stream.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Whether a character controls the terminal, reorders text, or is invisible.
///
/// False for zero-width joiners: words of some languages need them.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Text on one line, with every unseen character escaped: `\n`, `\x1b`, `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push(&mut out, c);
    }
    Cow::Owned(out)
}

/// Variant of [`printable`] that keeps line ends; every further line is indented, so none can pass for
/// bakeoff's own.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text.lines().map(printable).collect();
    lines.join("\n  ")
}

/// Variant of [`printable`] that keeps line ends and tabs, for text in a block of several lines.
pub fn printable_block(text: &str) -> Cow<'_, str> {
    let is_wrong = |c: char| is_unseen(c) && !matches!(c, '\n' | '\t');
    if !has_wrong(text, is_wrong) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_wrong(c) { push(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Whether a text of many kilobytes, most of them plain, has a character that is wrong.
fn has_wrong(text: &str, is_wrong: impl Fn(char) -> bool) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| !is_plain(&byte)) {
        let mut others = rest[at..].chars();
        if others.next().is_some_and(&is_wrong) {
            return true;
        }
        rest = others.as_str();
    }
    false
}

fn push(out: &mut String, c: char) {
    let written = match c {
        '\n' => return out.push_str("\\n"),
        '\r' => return out.push_str("\\r"),
        '\t' => return out.push_str("\\t"),
        c if !is_unseen(c) => return out.push(c),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    };
    written.expect("a String takes all that is written to it");
}

/// Escapes that [`Guarded`] writes for an unseen character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text: `\x1b`.
    Plain,
    /// Text in which bakeoff's own colors, `ESC [ digits m`, pass.
    Colored,
    /// JSON, where such characters occur only in strings: `\u001b`, so the document's meaning stays the same.
    Json,
}

/// Stream that passes only lines, tabs and visible characters.
///
/// It cannot tell bakeoff's own line ends and colors from others: text goes through [`printable`] first.
#[derive(Debug)]
pub struct Guarded<W: Write> {
    out: W,
    form: Form,
    /// Incomplete character or color at the end of the last write.
    held: Vec<u8>,
}

/// Length of bakeoff's longest color sequence, in bytes.
const COLOR_BYTES_MAX: usize = 16;

impl<W: Write> Guarded<W> {
    /// Guards `out`.
    pub fn new(out: W, form: Form) -> Self {
        Self { out, form, held: Vec::new() }
    }

    /// Writes `bytes` except an incomplete end, which stays in `held`; `last`: nothing follows.
    fn pass(&mut self, bytes: &[u8], last: bool) -> io::Result<()> {
        let is_plain = |b: &u8| matches!(b, b' '..=b'~' | b'\n' | b'\t');
        if self.held.is_empty() && bytes.iter().all(is_plain) {
            return self.out.write_all(bytes);
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut safe = String::with_capacity(all.len() + 16);
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (taken, c) = match next_char(rest) {
                Next::Char(c, bytes) => (bytes, c),
                Next::Unfinished if !last => break,
                Next::Unfinished | Next::Wrong => (1, char::REPLACEMENT_CHARACTER),
            };
            if c == '\u{1b}' && self.form == Form::Colored {
                match color(rest) {
                    Color::Whole(bytes) => {
                        safe.push_str(str::from_utf8(&rest[..bytes]).expect("a color is ASCII"));
                        rest = &rest[bytes..];
                        continue;
                    }
                    Color::Unfinished if !last => break,
                    Color::Unfinished | Color::Not => {}
                }
            }
            self.put(&mut safe, c);
            rest = &rest[taken..];
        }
        self.held = rest.to_vec();
        self.out.write_all(safe.as_bytes())
    }

    fn put(&self, safe: &mut String, c: char) {
        if matches!(c, '\n' | '\t') || !is_unseen(c) {
            safe.push(c);
        } else if self.form == Form::Json {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(safe, "\\u{unit:04x}").expect("a String takes all that is written to it");
            }
        } else {
            push(safe, c);
        }
    }
}

impl<W: Write> Write for Guarded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass(bytes, false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(&[], true)?;
        self.out.flush()
    }
}

enum Next {
    Char(char, usize),
    Unfinished,
    Wrong,
}

fn next_char(bytes: &[u8]) -> Next {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match str::from_utf8(head) {
        Ok(text) => text,
        Err(e) if e.valid_up_to() > 0 => str::from_utf8(&head[..e.valid_up_to()]).unwrap_or_default(),
        Err(e) if e.error_len().is_none() => return Next::Unfinished,
        Err(_) => return Next::Wrong,
    };
    valid.chars().next().map_or(Next::Wrong, |c| Next::Char(c, c.len_utf8()))
}

enum Color {
    Whole(usize),
    Unfinished,
    Not,
}

/// Whether `bytes`, which begin with ESC, begin with a color.
fn color(bytes: &[u8]) -> Color {
    for (at, byte) in bytes.iter().enumerate().skip(1).take(COLOR_BYTES_MAX) {
        match (at, byte) {
            (1, b'[') | (2.., b'0'..=b'9' | b';') => {}
            (2.., b'm') => return Color::Whole(at + 1),
            _ => return Color::Not,
        }
    }
    if bytes.len() > COLOR_BYTES_MAX { Color::Not } else { Color::Unfinished }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_is_written_out_and_words_are_not_changed() {
        assert_eq!(printable("a\nb\tc\r\u{1b}]0;x\u{7}"), r"a\nb\tc\r\x1b]0;x\x07");
        assert_eq!(printable("\u{9b}31m\u{202e}abc\u{2066}\u{7f}"), r"\u{9b}31m\u{202e}abc\u{2066}\x7f");
        for text in ["", "mariadbd", "größer · 数据 🦀", "می‌خواهم", r"C:\x"] {
            assert_eq!(printable(text), text);
        }
        for code in (0..0x20).chain(0x7f..0xa0).chain(0x202a..=0x202e).chain(0x2066..=0x2069) {
            let c = char::from_u32(code).unwrap();
            assert!(!printable(&format!("a{c}b")).contains(c), "{code:#x}");
        }
    }

    #[test]
    fn further_lines_are_indented() {
        assert_eq!(printable_lines("one\nVALID: two\u{1b}[m\n"), "one\n  VALID: two\\x1b[m");
        assert_eq!(printable_block("one\n\ttwo\u{1b}"), "one\n\ttwo\\x1b");
    }

    fn guarded(form: Form, pieces: &[&[u8]]) -> String {
        let mut out = Guarded::new(Vec::new(), form);
        for piece in pieces {
            out.write_all(piece).unwrap();
        }
        out.flush().unwrap();
        String::from_utf8(out.out).unwrap()
    }

    #[test]
    fn only_lines_and_our_colors_pass_the_guard_however_the_stream_is_cut() {
        let text = "ok\t\u{1b}[1;31mred\u{1b}[0m\n\u{1b}]0;t\u{7}größe\u{9b}\u{202e}\u{1b}[2J\u{1b}";
        let colored = "ok\t\u{1b}[1;31mred\u{1b}[0m\n\\x1b]0;t\\x07größe\\u{9b}\\u{202e}\\x1b[2J\\x1b";
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(guarded(Form::Colored, &[a, b]), colored, "cut at {cut}");
        }
        assert!(!guarded(Form::Plain, &[text.as_bytes()]).contains('\u{1b}'));
        assert_eq!(guarded(Form::Plain, &[b"a\xff\xc3", b"("]), "a\u{fffd}\u{fffd}(");
    }

    #[test]
    fn a_document_says_the_same_after_the_guard() {
        assert_eq!(
            guarded(Form::Json, &["\"a\u{9b}\u{202e}\u{e0041}\"".as_bytes()]),
            r#""a\u009b\u202e\udb40\udc41""#
        );
    }
}
