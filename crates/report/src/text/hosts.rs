//! Machines at a terminal, side by side.

use std::io::{self, Write};

use record::environment::Environment;

use super::table::{Align, Table};
use super::{Style, Tint, labelled, paragraph};
use crate::page::{differs, facts};

/// The facts of one machine, or of several beside each other, with what differs first and marked.
///
/// # Errors
///
/// Those of `out`.
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
    // In a pipe there is no width to keep to; what is side by side is to be seen at one glance still.
    let style = Style { width: style.width.min(WIDTH_MAX), ..style };
    table.write(out, style)?;
    paragraph(
        out,
        &format!("* {} of {} facts differ", differing.len(), differing.len() + same.len()),
        2,
        style,
    )?;
    for fact in differing {
        in_full(out, fact, hosts, style)?;
    }
    Ok(())
}

const WIDTH_MAX: usize = 160;

/// A fact too long for its cells, which the table may have cut where it differs.
fn in_full(
    out: &mut dyn Write,
    fact: &str,
    hosts: &[(String, &Environment)],
    style: Style,
) -> io::Result<()> {
    let room = style.width.saturating_sub(fact.len()) / hosts.len();
    if hosts.iter().filter_map(|(_, host)| host.fact(fact)).all(|text| text.len() < room.saturating_sub(4)) {
        return Ok(());
    }
    for (name, host) in hosts {
        paragraph(out, &format!("{fact}, {name}: {}", host.fact(fact).unwrap_or("unknown")), 2, style)?;
    }
    Ok(())
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
    }

    #[test]
    fn what_differs_and_is_too_long_for_its_cell_is_told_in_full_below() {
        let host = |last: &str| Environment {
            facts: [("kernel.cmdline".to_owned(), Ok(format!("{} {last}", "quiet ".repeat(40))))].into(),
            calibration: Vec::new(),
        };
        let (a, b) = (host("psi=1"), host("nosmt"));
        let mut out = Vec::new();
        let both = [("one".to_owned(), &a), ("other".to_owned(), &b)];
        hosts(&mut out, &both, Style { width: usize::MAX, color: false }).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("psi=1") && text.contains("nosmt"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
    }
}
