//! The archive's own gate against passwords: whatever a caller forgot to mask is masked before it reaches a file.

use std::io::{self, BufRead, Read as _};

use record::target::{self, Target};

/// A longer line of a log is masked in pieces: memory has its bound whatever a server prints.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The text of a document with every password masked: those of URLs, and `target` wherever it stands.
///
/// Works on the text rather than on its fields, so that a field that is added later is covered.
pub(crate) fn mask(document: Vec<u8>, target: Option<&Target>) -> Vec<u8> {
    let mut text = String::from_utf8(document).expect("serde_json writes UTF-8");
    if let Some(target) = target.filter(|t| t.expose() != t.masked()) {
        text = text.replace(&in_json(target.expose()), &in_json(&target.masked()));
    }
    target::mask_text(&mask_texts(&text)).into_bytes()
}

/// The document with each of its texts masked by itself: as its lines, without the signs that stand for their ends.
fn mask_texts(document: &str) -> String {
    let mut masked = String::with_capacity(document.len());
    let mut rest = document;
    while let Some(begin) = rest.find('"') {
        let Some(end) = text_end(rest, begin) else { break };
        let written = &rest[begin..end];
        masked.push_str(&rest[..begin]);
        let text: Option<String> = serde_json::from_str(written).ok();
        match text.map(|text| (target::mask_text(&text), text)) {
            Some((hidden, text)) if hidden != text => {
                masked.push_str(&serde_json::to_string(&hidden).expect("text is always JSON"));
            }
            _ => masked.push_str(written),
        }
        rest = &rest[end..];
    }
    masked.push_str(rest);
    masked
}

/// Behind the quote that closes the one at `begin`.
fn text_end(document: &str, begin: usize) -> Option<usize> {
    let mut is_escaped = false;
    let closes = |byte: u8| {
        let closes = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        closes
    };
    document[begin + 1..].bytes().position(closes).map(|at| begin + 1 + at + 1)
}

/// The next line of a log with its end, passwords masked and every other byte as it was; `None` at the end.
pub(crate) fn next_line(log: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    log.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then(|| mask_line(line)))
}

fn mask_line(line: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(line) {
        Ok(text) => target::mask_text(&text).into_bytes(),
        // As Latin-1, in which every byte is a character, and back.
        Err(other) => {
            let text: String = other.as_bytes().iter().map(|b| char::from(*b)).collect();
            let masked = target::mask_text(&text);
            masked.chars().map(|c| u8::try_from(c).expect("masking adds only stars")).collect()
        }
    }
}

/// As it stands inside a JSON string.
fn in_json(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("text is always JSON");
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_stays_a_document_and_loses_its_passwords() {
        let target = Target::new(r#"mysql://app:se"cr\et pass@localhost/bench"#);
        let shown = serde_json::json!({
            "command": format!("load {} --rate 5", target.expose()),
            "also": "saw postgres://u:hush@h/db, then failed",
        });
        let text = mask(serde_json::to_vec(&shown).unwrap(), Some(&target));
        let again: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(again["command"], "load mysql://app:***@localhost/bench --rate 5");
        assert_eq!(again["also"], "saw postgres://u:***@h/db, then failed");
    }

    #[test]
    fn a_text_of_several_lines_is_masked_line_by_line() {
        let text =
            "--password hush1\n--password\thush2\n--token $(echo hush3)\nnext \"--token\" 'hush4 x'\nlast";
        let shown = serde_json::json!({ "a": text, "b": 1 });
        let masked = mask(serde_json::to_vec(&shown).unwrap(), None);
        let again: serde_json::Value = serde_json::from_slice(&masked).unwrap();
        assert_eq!(again["a"], "--password ***\n--password\t***\n--token ***\nnext \"--token\" '***'\nlast");
        assert_eq!(again["b"], 1);
    }

    #[test]
    fn a_log_loses_its_passwords_and_nothing_else() {
        let mut log: &[u8] = b"one  two\r\n\n\xff\x85 mysql://u:hu\xffsh@h/db \0\npassword=hush";
        let mut masked = Vec::new();
        while let Some(line) = next_line(&mut log).unwrap() {
            masked.extend(line);
        }
        assert_eq!(masked, b"one  two\r\n\n\xff\x85 mysql://u:***@h/db \0\npassword=***");
    }
}
