//! Listing of a plan for reviewers: every key that can start a program, as parsed.

use toml::{Table, Value};

/// Tables and keys that only affect how results are judged and shown.
const HARMLESS: [&str; 6] = ["schema", "title", "question", "design", "judge", "gates"];

/// One line per key and value of the TOML `text`, except harmless keys: `server.command = "redis-server"`.
///
/// The lines come from the parsed text, so the listing includes keys in another notation (`"r\u0075n"`, a
/// string of several lines). Control characters are escaped.
///
/// # Errors
///
/// If the text is not TOML.
pub fn listing(text: &str) -> Result<Vec<String>, toml::de::Error> {
    let table: Table = text.parse()?;
    let mut lines = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| !HARMLESS.contains(&key.as_str())) {
        add(&escaped(key), value, &mut lines);
    }
    Ok(lines)
}

fn add(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| add(&format!("{path}.{}", escaped(key)), value, lines));
        }
        Value::Array(values) => {
            (1..).zip(values).for_each(|(n, value): (u32, _)| add(&format!("{path}[{n}]"), value, lines));
        }
        Value::String(text) => lines.push(format!("{path} = \"{}\"", escaped(text))),
        other => lines.push(format!("{path} = {other}")),
    }
}

/// Escapes everything that moves a cursor or hides text.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_ascii_graphic() || c == ' ' { vec![c] } else { c.escape_default().collect() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_or_value_in_another_spelling_is_shown_all_the_same() {
        let text = "title = \"t\"\n[factors.x]\nvalues = [\"; id\", 2]\n[server]\ncommand = \"s {x|raw}\"\n\
                    [server.env]\nPATH = \"/tmp\"\n[phases]\nsetup = { \"r\\u0075n\" = \"id\" }\n\
                    [values.a_bytes]\nrun = \"\"\"\n\nid >\u{202e} x\\u001b[2K\"\"\"\n";
        let expected = [
            "factors.x.values[1] = \"; id\"",
            "factors.x.values[2] = 2",
            "phases.setup.run = \"id\"",
            "server.command = \"s {x|raw}\"",
            "server.env.PATH = \"/tmp\"",
            "values.a_bytes.run = \"\\nid >\\u{202e} x\\u{1b}[2K\"",
        ];
        assert_eq!(listing(text).unwrap(), expected);
        assert!(listing("[").is_err());
    }
}
