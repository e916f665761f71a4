//! Machines side by side.

use record::environment::Environment;

use super::{Block, Page, Section, Table, Tone, Words};

/// Lays out one machine, or several side by side with the differences first.
pub fn hosts(hosts: &[(String, &Environment)]) -> Page {
    let names: Vec<&str> = hosts.iter().map(|(name, _)| name.as_str()).collect();
    let heads: Vec<&str> = std::iter::once("fact").chain(names.iter().copied()).collect();
    let (mut differing, mut same) = (Table::new("What differs", &heads), Table::new("The facts", &heads));
    for fact in facts(hosts) {
        let cells = hosts.iter().map(|(_, host)| match host.facts.get(fact) {
            Some(Ok(value)) => value.clone().into(),
            Some(Err(why)) => Words::toned(format!("unknown: {why}"), Tone::Doubt),
            None => Words::toned("unknown: it was not recorded", Tone::Doubt),
        });
        let row = std::iter::once(fact.into()).chain(cells).collect();
        if differs(hosts, fact) { differing.row(row) } else { same.row(row) }
    }
    let (count, mut blocks) = (differing.rows.len(), Vec::new());
    if count > 0 {
        blocks.push(Block::Table(differing));
    }
    blocks.push(Block::Table(same));
    let claim = match hosts {
        [_] => format!("{} facts.", facts(hosts).len()),
        _ => format!("{count} of {} facts differ.", facts(hosts).len()),
    };
    Page {
        title: names.join(" and "),
        question: String::new(),
        standing: Words::from(if hosts.len() == 1 { "host" } else { "hosts" }),
        claim,
        lead: Vec::new(),
        caveats: Vec::new(),
        byline: Vec::new(),
        sections: vec![Section { id: "hosts", title: "Configuration", blocks }],
        folded: Vec::new(),
    }
}

/// The names of all facts, in alphabetical order.
pub(crate) fn facts<'a>(hosts: &'a [(String, &Environment)]) -> Vec<&'a str> {
    let mut names: Vec<&str> = hosts.iter().flat_map(|(_, h)| h.facts.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether the hosts differ in a fact, or only some have it.
pub(crate) fn differs(hosts: &[(String, &Environment)], fact: &str) -> bool {
    hosts.windows(2).any(|two| two[0].1.fact(fact) != two[1].1.fact(fact))
}
