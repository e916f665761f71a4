//! Machines at a terminal, side by side.

use std::io::{self, Write};

use record::environment::Environment;

use super::table::{Align, Table};
use super::{Style, Tint, labelled, paragraph};
use crate::page::{differs, facts};

/// Writes the facts of one machine, or of several side by side, with the differences first and marked.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn hosts(out: &mut dyn Write, hosts: &[(String, &Environment)], style: Style) -> io::Result<()> {
    match hosts {
        [(_, host)] => one(out, host, style),
        _ => several(out, hosts, style),
    }
}

fn one(out: &mut dyn Write, host: &Environment, style: Style) -> io::Result<()> {
    let widest = host.facts.keys().map(String::len).max().unwrap_or(0);
    let indent = (widest + 2).min(style.width / 2);
    for (name, value) in &host.facts {
        let (tint, text) = match value {
            Ok(value) => (Some(Tint::Strong), value.clone()),
            Err(why) => (None, format!("unknown: {why}")),
        };
        labelled(out, (&format!("{name} "), tint), &text, indent, style)?;
    }
    Ok(())
}

fn several(out: &mut dyn Write, hosts: &[(String, &Environment)], style: Style) -> io::Result<()> {
    let mut table = hosts.iter().fold(
        Table::default().column("", Align::Left, 0).column("fact", Align::Elastic, 0),
        |table, (name, _)| table.column(name.as_str(), Align::Elastic, 0),
    );
    let (differing, same): (Vec<&str>, Vec<&str>) =
        facts(hosts).into_iter().partition(|fact| differs(hosts, fact));
    let rows = differing.iter().map(|f| (f, true)).chain(same.iter().map(|f| (f, false)));
    for (fact, differs) in rows {
        let cells = hosts.iter().map(|(_, host)| {
            let text = host.fact(fact).map_or("unknown".to_owned(), str::to_owned);
            (text, differs.then_some(Tint::Doubt))
        });
        let mark = (if differs { "*" } else { "" }.to_owned(), None);
        table.row([mark, ((*fact).to_owned(), None)].into_iter().chain(cells).collect());
    }
    table.write(out, style)?;
    paragraph(
        out,
        &format!("* {} of {} facts differ", differing.len(), differing.len() + same.len()),
        2,
        style,
    )
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;

    #[test]
    fn what_differs_stands_first_and_is_marked() {
        let host = |kernel: &str, governor: Option<&str>| Environment {
            facts: [
                ("cpu.governor".to_owned(), governor.map(str::to_owned).ok_or(Missing::because("no file"))),
                ("cpu.model".to_owned(), Ok("Some CPU".to_owned())),
                ("kernel.release".to_owned(), Ok(kernel.to_owned())),
            ]
            .into(),
            calibration: Vec::new(),
        };
        let (a, b) = (host("6.1", None), host("6.18", Some("powersave")));
        let written = |hosts_of: &[(String, &Environment)], width| {
            let mut out = Vec::new();
            hosts(&mut out, hosts_of, Style { width, color: false }).unwrap();
            String::from_utf8(out).unwrap()
        };
        let both = [("one".to_owned(), &a), ("other".to_owned(), &b)];
        let text = written(&both, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("*  cpu.governor") && lines[2].starts_with("*  kernel.release"),
            "{text}"
        );
        assert!(lines[3].starts_with("   cpu.model") && lines[4].contains("2 of 3 facts differ"), "{text}");
        for line in written(&both, 60).lines() {
            assert!(line.chars().count() <= 60, "{line}");
        }
        assert!(written(&both[..1], 80).contains("unknown: no file"));
        // Three machines, each with a line of many words: every line must still fit.
        let mut wordy = host("6.1", None);
        wordy.facts.insert("kernel.cmdline".to_owned(), Ok("word ".repeat(60)));
        let three = ["one", "other", "third"].map(|name| (name.to_owned(), &wordy));
        let text = written(&three, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
