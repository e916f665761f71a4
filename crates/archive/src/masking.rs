//! The archive's own protection of passwords: it masks those that a caller forgot before they reach a file.

use std::io::{self, BufRead, Read as _};

use record::target::{self, Target};

/// Longest line of a log; longer ones are masked in pieces, which bounds memory.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Masks every password in a document: those in URLs, and `target` anywhere.
///
/// This works on the text rather than on fields, so it covers fields that are added later. It masks each
/// string separately, and the result is still a valid document.
pub(crate) fn mask(document: Vec<u8>, target: Option<&Target>) -> Vec<u8> {
    let mut text = String::from_utf8(document).expect("serde_json writes UTF-8");
    if let Some(target) = target.filter(|t| t.expose() != t.masked()) {
        text = text.replace(&in_json(target.expose()), &in_json(&target.masked()));
    }
    mask_texts(&text).into_bytes()
}

/// Container of a string in a document.
enum Context {
    /// Object, with the name of the current field.
    Object(String),
    /// List, with the last few strings before.
    List(Vec<String>),
}

/// Maximum number of preceding strings in a list that may show that the next is secret: `["mysql", "-u",
/// "root", "-pSECRET"]`.
const WORDS_BEFORE_MAX: usize = 8;

/// Masks each string of the document line by line, after unescaping.
fn mask_texts(document: &str) -> String {
    let mut masked = String::with_capacity(document.len());
    let mut inside: Vec<Context> = Vec::new();
    let mut rest = document;
    while let Some(begin) = rest.find('"') {
        let Some(end) = text_end(rest, begin) else { break };
        let (between, written) = (&rest[..begin], &rest[begin..end]);
        for sign in between.chars() {
            match sign {
                '{' => inside.push(Context::Object(String::new())),
                '[' => inside.push(Context::List(Vec::new())),
                '}' | ']' => drop(inside.pop()),
                _ => {}
            }
        }
        masked.push_str(between);
        rest = &rest[end..];
        let Ok(text) = serde_json::from_str::<String>(written) else {
            masked.push_str(written);
            continue;
        };
        let mut hidden = target::mask_text(&text);
        match inside.last_mut() {
            Some(Context::Object(name)) if rest.trim_start().starts_with(':') => name.clone_from(&text),
            Some(Context::Object(name)) => hidden = hidden_in_field(name, &hidden),
            Some(Context::List(before)) => {
                hidden = hidden_in_list(before, &hidden);
                before.push(text.clone());
                if before.len() > WORDS_BEFORE_MAX {
                    before.remove(0);
                }
            }
            None => {}
        }
        if hidden == text {
            masked.push_str(written);
        } else {
            masked.push_str(&serde_json::to_string(&hidden).expect("text is always JSON"));
        }
    }
    masked.push_str(rest);
    masked
}

/// Masks the value of a field; the field's name may show that it is secret.
fn hidden_in_field(name: &str, value: &str) -> String {
    let field = serde_json::json!({ name: value });
    let hidden: Option<serde_json::Value> = serde_json::from_str(&target::mask_text(&field.to_string())).ok();
    let hidden = hidden.and_then(|field| Some(field.get(name)?.as_str()?.to_owned()));
    hidden.unwrap_or_else(|| HIDDEN.to_owned())
}

/// Masks a string of a list; the strings before it may show that it is secret.
fn hidden_in_list(before: &[String], text: &str) -> String {
    let list: Vec<&str> = before.iter().map(String::as_str).chain([text]).collect();
    let list = serde_json::to_string(&list).expect("texts are always JSON");
    let hidden: Option<Vec<String>> = serde_json::from_str(&target::mask_text(&list)).ok();
    let hidden = hidden.filter(|hidden| hidden.len() == before.len() + 1).and_then(|mut list| list.pop());
    hidden.unwrap_or_else(|| HIDDEN.to_owned())
}

/// Replacement for a string that cannot be shown in part.
const HIDDEN: &str = "***";

/// Position after the quote that closes the one at `begin`.
fn text_end(document: &str, begin: usize) -> Option<usize> {
    let mut is_escaped = false;
    let closes = |byte: u8| {
        let closes = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        closes
    };
    document[begin + 1..].bytes().position(closes).map(|at| begin + 1 + at + 1)
}

/// Next line of a log with its end, passwords masked and every other byte unchanged; `None` at the end.
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

/// The text with the escapes of a JSON string.
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

    /// A string may end with the announcement of a secret: the text after it in the document is not secret.
    #[test]
    fn whatever_its_texts_say_a_document_keeps_its_names_and_its_numbers() {
        for said in [
            "the cost of --token",
            "x --password",
            "mysql -p",
            "AUTH",
            "identified by",
            "password=",
            "\"",
            "Cookie:",
        ] {
            let shown = serde_json::json!({
                "title": said, "environment": { "a": said, "b": "x" }, "password": 7,
                "labels": { said: said, "token": said }, "list": [said, { "c": said }, "d"], "last": 1,
            });
            let text = mask(serde_json::to_vec_pretty(&shown).unwrap(), None);
            let again: serde_json::Value =
                serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{said}: {e}"));
            assert_eq!(
                (&again["environment"]["b"], &again["password"]),
                (&shown["environment"]["b"], &7.into())
            );
            assert_eq!(again["last"], 1, "{said}");
            assert!(again["list"][1]["c"].is_string(), "{said}");
        }
    }

    #[test]
    fn names_and_lists_tell_what_a_secret_is() {
        let shown = serde_json::json!({
            "labels": { "db-password": "hush1 x", "user": "bob" },
            "words": ["mysql", "-u", "root", "-phush2", "--token", "hush3 y", "z"],
            "password": "{env:PW}",
        });
        let text = mask(serde_json::to_vec(&shown).unwrap(), None);
        let again: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(again["labels"], serde_json::json!({ "db-password": "***", "user": "bob" }));
        assert_eq!(
            again["words"],
            serde_json::json!(["mysql", "-u", "root", "-p***", "--token", "***", "z"])
        );
        assert_eq!(again["password"], "{env:PW}");
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
