//! Machines at a terminal, side by side.

use std::io::{self, Write};

use record::environment::Environment;

use super::table::{Align, Table};
use super::{Style, Tint, labelled, paragraph, tinted};
use crate::page::{differs, facts};

/// Facts of several machines that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facts {
    /// Facts that differ.
    Differing,
    /// All, those that differ first and marked.
    All,
}

/// Writes the facts of one machine, or of several side by side.
///
/// - `shown`: has no effect on a single machine.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn hosts(
    out: &mut dyn Write,
    hosts: &[(String, &Environment)],
    shown: Facts,
    style: Style,
) -> io::Result<()> {
    match hosts {
        [(_, host)] => one(out, host, style),
        _ => several(out, hosts, shown, style),
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

fn several(
    out: &mut dyn Write,
    hosts: &[(String, &Environment)],
    shown: Facts,
    style: Style,
) -> io::Result<()> {
    let (differing, same): (Vec<&str>, Vec<&str>) =
        facts(hosts).into_iter().partition(|fact| differs(hosts, fact));
    let of = differing.len() + same.len();
    let mark = if shown == Facts::All { "* " } else { "" };
    let rows: Vec<(String, &str)> = match shown {
        Facts::Differing => differing.iter().map(|fact| ((*fact).to_owned(), *fact)).collect(),
        Facts::All => {
            let of_differing = differing.iter().map(|fact| (format!("* {fact}"), *fact));
            of_differing.chain(same.iter().map(|fact| (format!("  {fact}"), *fact))).collect()
        }
    };
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let room = style.width.saturating_sub(widest) / hosts.len();
    let fits = |fact: &str| hosts.iter().all(|(_, host)| value(host, fact).chars().count() + 2 <= room);
    let (short, long): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, fact)| fits(fact));
    if !short.is_empty() {
        table(hosts, &short, mark).write(out, style)?;
    }
    for (name, fact) in long {
        stacked(out, name, fact, hosts, style)?;
    }
    let rest =
        if shown == Facts::Differing && !same.is_empty() { "; --all shows the others too" } else { "" };
    paragraph(out, &format!("{mark}{} of {of} facts differ{rest}", differing.len()), 2, style)
}

fn value(host: &Environment, fact: &str) -> String {
    host.fact(fact).map_or("unknown".to_owned(), str::to_owned)
}

fn tint(hosts: &[(String, &Environment)], fact: &str, mark: &str) -> Option<Tint> {
    (!mark.is_empty() && differs(hosts, fact)).then_some(Tint::Doubt)
}

fn table(hosts: &[(String, &Environment)], rows: &[&(String, &str)], mark: &str) -> Table {
    let table = Table::default().column("fact", Align::Left, 0);
    let mut table =
        hosts.iter().fold(table, |table, (name, _)| table.column(name.as_str(), Align::Elastic, 0));
    for (name, fact) in rows {
        let cells = hosts.iter().map(|(_, host)| (value(host, fact), tint(hosts, fact, mark)));
        table.row([(name.clone(), None)].into_iter().chain(cells).collect());
    }
    table
}

/// Writes a fact with values that are too long to stand side by side: a paragraph for each host.
fn stacked(
    out: &mut dyn Write,
    name: &str,
    fact: &str,
    hosts: &[(String, &Environment)],
    style: Style,
) -> io::Result<()> {
    writeln!(out, "{}", tinted(name, Tint::Strong, style))?;
    let widest = hosts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let indent = (widest + 6).min(style.width / 3);
    for (host, environment) in hosts {
        labelled(out, (&format!("    {host} "), None), &value(environment, fact), indent, style)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;

    fn host(kernel: &str, governor: Option<&str>) -> Environment {
        Environment {
            facts: [
                ("cpu.governor".to_owned(), governor.map(str::to_owned).ok_or(Missing::because("no file"))),
                ("cpu.model".to_owned(), Ok("Some CPU".to_owned())),
                ("kernel.release".to_owned(), Ok(kernel.to_owned())),
            ]
            .into(),
            calibration: Vec::new(),
        }
    }

    fn written(hosts_of: &[(String, &Environment)], shown: Facts, width: usize) -> String {
        let mut out = Vec::new();
        hosts(&mut out, hosts_of, shown, Style { width, color: false }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_what_differs_is_shown_and_all_on_request() {
        let (a, b) = (host("6.1", None), host("6.18", Some("powersave")));
        let both = [("one".to_owned(), &a), ("other".to_owned(), &b)];
        let text = written(&both, Facts::Differing, 80);
        assert!(text.contains("cpu.governor") && text.contains("kernel.release"), "{text}");
        assert!(!text.contains("cpu.model") && text.contains("2 of 3 facts differ; --all"), "{text}");
        let text = written(&both, Facts::All, 100);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("* cpu.governor") && lines[2].starts_with("* kernel.release"), "{text}");
        assert!(lines[3].starts_with("  cpu.model") && lines[4].contains("2 of 3 facts differ"), "{text}");
        assert!(written(&both[..1], Facts::Differing, 80).contains("unknown: no file"));
        let same = [("one".to_owned(), &a), ("other".to_owned(), &a)];
        assert_eq!(written(&same, Facts::Differing, 80), "0 of 3 facts differ; --all shows the others too\n");
    }

    #[test]
    fn long_values_are_whole_and_within_the_terminal() {
        let mut wordy = host("6.1", None);
        wordy.facts.insert("kernel.cmdline".to_owned(), Ok("word ".repeat(60) + "last"));
        let plain = host("6.1", None);
        let three = [("one".to_owned(), &wordy), ("other".to_owned(), &plain), ("third".to_owned(), &wordy)];
        for shown in [Facts::Differing, Facts::All] {
            let text = written(&three, shown, 60);
            assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
            assert_eq!(text.matches("last").count(), 2, "{text}");
        }
    }
}
