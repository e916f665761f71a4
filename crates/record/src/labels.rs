//! Labels of a series in one text: `cpu=1,commit=abc`. Any text can be a value.

use std::fmt::Write as _;

/// Writes labels in the order given; commas, `=`, `%` and control characters as in a URL (`%2C`).
pub fn written<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        text += comma;
        escape(name, &mut text);
        text.push('=');
        escape(value, &mut text);
    }
    text
}

/// Reads labels, the inverse of [`written`]. A part without `=` is a name without a value.
pub fn read(text: &str) -> Vec<(String, String)> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (plain(name), plain(value))
        })
        .collect()
}

fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        if matches!(c, ',' | '=' | '%') || c.is_ascii_control() {
            let _ = write!(into, "%{:02X}", u32::from(c));
        } else {
            into.push(c);
        }
    }
}

fn plain(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(char::from(code));
                out += &part[2..];
            }
            // Another program wrote it: it stays as it is.
            None => out.extend(["%", part]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_reads_back() {
        let odd = [("a", ""), ("b=c", "1,2"), ("100 %", "50%2C"), ("x", "ü\n\u{1b}[2J"), ("", "=,%")];
        let text = written(odd);
        assert!(!text.contains('\n') && !text.contains('\u{1b}'), "{text}");
        let read = read(&text);
        let read: Vec<(&str, &str)> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(read, odd);
        assert_eq!(written([("cpu", "1")]), "cpu=1");
    }

    #[test]
    fn text_of_another_program_stays_as_it_is() {
        assert_eq!(
            read("50%,a=%zz,%"),
            [
                ("50%".to_owned(), String::new()),
                ("a".to_owned(), "%zz".to_owned()),
                ("%".to_owned(), String::new())
            ]
        );
        assert!(read("").is_empty());
    }
}
