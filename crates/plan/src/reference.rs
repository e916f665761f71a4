//! Reference of all keys of a plan, generated from the declarations that the reader uses.

use std::fmt::Write as _;

use crate::keys::{Key, Need, Placeholders, TABLES, Table};

/// All tables and keys of a plan, as Markdown: content, default, example.
pub fn documentation() -> String {
    TABLES.iter().map(table).collect::<Vec<_>>().join("\n")
}

fn table(table: &Table) -> String {
    let heading = match table.path {
        "" => "At the top".to_owned(),
        path => match (path.strip_suffix(".*"), path.strip_suffix("[]")) {
            (Some(path), _) => format!("`[{path}.NAME]`"),
            (_, Some(path)) => format!("`[[{path}]]`"),
            _ => format!("`[{path}]`"),
        },
    };
    let absent = match table.need {
        Need::Required | Need::Default(_) | Need::Setting { .. } => String::new(),
        Need::Optional(without) => format!(" If absent: {without}."),
    };
    let mut text = format!("### {heading}\n\n{}.{absent}\n\n", capital(table.meaning));
    text.push_str("| key | meaning | values | if absent | example |\n|---|---|---|---|---|\n");
    for key in table.keys {
        writeln!(text, "{}", row(key)).expect("writing to a String cannot fail");
    }
    text
}

fn row(key: &Key) -> String {
    let absent = match key.need {
        Need::Required => "an error".to_owned(),
        Need::Default(_) | Need::Setting { is_listed: true, .. } => {
            format!("`{}`", key.default_toml().unwrap_or_default())
        }
        Need::Setting { default, .. } => default.to_owned(),
        Need::Optional(without) => without.to_owned(),
    };
    let placeholders = match key.placeholders {
        Placeholders::None => "",
        Placeholders::WholePlot { .. } => "; placeholders of whole-plot factors",
        Placeholders::Any => "; placeholders",
    };
    let holds = format!("{}{placeholders}", key.kind.expected());
    let cells = [format!("`{}`", key.name), key.meaning.into(), holds, absent, format!("`{}`", key.example)];
    format!("| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
