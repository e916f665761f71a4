//! Translates any text as the command line of another tool: a translation or an error, never a panic.

use plan::like::{self, Word};

/// Translates `bytes`, if they are text.
///
/// # Panics
///
/// If the translated line is not split into its words again, or because of a defect in the translator.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(translation) = like::translate(text) else { return };
    let _ = translation.shown();
    assert!(!translation.words.is_empty(), "a translation has a command");
    // A shell that reads the printed line sees the same words; ours stands in for it.
    let typed = translation.typed();
    if !translation.words.iter().any(|word| matches!(word, Word::File(_))) {
        let rest = typed.strip_prefix("bakeoff ").expect("the line begins with our name");
        let plain = |word: &Word| match word {
            Word::Plain(text) | Word::Target(text) | Word::Header(text) => text.clone(),
            Word::File(path) => path.display().to_string(),
        };
        let words: Vec<String> = translation.words.iter().map(plain).collect();
        assert_eq!(like::split(rest).expect("the line is complete"), words, "{typed}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = include_str!("../../testdata/like/lines.txt");

    #[test]
    fn lines_cut_and_with_a_byte_changed_are_a_translation_or_an_error() {
        for entry in LINES.split("\n\n") {
            let line = entry.trim_matches('\n').split_once('\n').map_or(entry, |(_, line)| line).as_bytes();
            check(line);
            for at in 0..line.len() {
                check(&line[..at]);
                for byte in [b'\'', b'"', b'\\', b'$', b'=', b'-', b'0', b' ', b'\n', b'@', b':'] {
                    let mut changed = line.to_vec();
                    changed[at] = byte;
                    check(&changed);
                }
            }
        }
    }
}
