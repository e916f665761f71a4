//! Whether the whole may be used: every check of every agent, and those that only a fleet has.

use std::time::Duration;

use record::agents::OfAgent;
use record::load::OfHost;
use record::verdict::{Check, Validity, Verdict};

/// The clocks' bound may be this share of an interval: intervals of agents are added as if they were one.
const CLOCK_MAX: f64 = 0.01;

/// Findings that only a fleet can have.
pub(super) struct Findings<'a> {
    /// Length of an interval.
    pub(super) interval: Duration,
    pub(super) agents: &'a [OfAgent],
    /// Agents that failed, with the reason.
    pub(super) failed: Vec<(String, String)>,
    /// Agents that gave no account of their end.
    pub(super) silent: Vec<String>,
    /// Agents with other intervals than they say.
    pub(super) damaged: Vec<String>,
    /// Agents with intervals that do not add up to their record.
    pub(super) disagrees: Vec<String>,
    /// Agents that ended early, with the seconds that they measured; empty if the load was stopped.
    pub(super) early: Vec<(String, f64)>,
    pub(super) is_stopped: bool,
}

/// The verdict on the whole.
///
/// - `hosts`: of all agents together.
/// - `late`: the check of the lateness of the whole, if it fails: a percentile of the whole is that of no
///   agent.
pub(super) fn of(
    findings: &Findings<'_>,
    hosts: &[OfHost],
    late: Option<Check>,
    verdicts: &[(String, Verdict)],
) -> Verdict {
    let mut checks = vec![agents(findings), slices(findings), sums(findings), clocks(findings)];
    // A host need not do an event of each agent.
    let of_hosts = load::hosts_check(hosts);
    let is_of_hosts = |check: &&Check| of_hosts.as_ref().is_some_and(|of_hosts| of_hosts.name == check.name);
    for (agent, verdict) in verdicts {
        for check in verdict.checks.iter().filter(|check| !is_of_hosts(check)) {
            // Of each check, the first that failed stands for all.
            match checks.iter_mut().find(|known| known.name == check.name) {
                None => checks.push(named(agent, check)),
                Some(known) if known.ok && !check.ok => *known = named(agent, check),
                Some(_) => {}
            }
        }
    }
    checks.extend(of_hosts);
    if let Some(late) = late
        && let Some(known) = checks.iter_mut().find(|known| known.name == late.name && known.ok)
    {
        *known = late;
    }
    let has_all_agents = checks[0].ok;
    let mut verdict = Verdict::of(checks);
    if findings.is_stopped && has_all_agents {
        verdict.state = Validity::Interrupted;
    }
    verdict
}

fn named(agent: &str, check: &Check) -> Check {
    Check { text: format!("agent {agent}: {}", check.text), ..check.clone() }
}

fn agents(f: &Findings<'_>) -> Check {
    let mut told = Vec::new();
    for agent in f.agents {
        if let Some(at_s) = agent.lost_at_s {
            told.push(format!("agent {} was lost {at_s:.2} s into the measured phase", agent.agent));
        } else if let Some((_, why)) = f.failed.iter().find(|(name, _)| *name == agent.agent) {
            told.push(format!("agent {} failed: {why}", agent.agent));
        } else if f.silent.contains(&agent.agent) {
            told.push(format!("agent {} sent no final report", agent.agent));
        } else if let Some((_, after_s)) = f.early.iter().find(|(name, _)| *name == agent.agent) {
            told.push(format!("agent {} was stopped {after_s:.2} s into the measured phase", agent.agent));
        }
    }
    let (lost, of) = (told.len(), f.agents.len());
    let mut text = format!("{} of {of} agents ran to the end", of - lost);
    if lost > 0 {
        text = format!("{text}: {}; the rest of their share of the load is missing", told.join(", "));
    }
    Check { name: "agents", ok: lost == 0, found: lost as f64, limit: 0.0, text }
}

fn slices(f: &Findings<'_>) -> Check {
    let missing: usize = f.agents.iter().map(|agent| agent.missing_slices.len()).sum();
    let of_whom: Vec<String> = f
        .agents
        .iter()
        .filter(|agent| !agent.missing_slices.is_empty())
        .map(|agent| format!("agent {} lacks {}", agent.agent, ranges(&agent.missing_slices)))
        .collect();
    let text = match (missing, f.damaged.as_slice()) {
        (0, []) => "every interval of every agent has arrived".to_owned(),
        (0, damaged) => format!("the intervals of agent {} differ from its spool", damaged.join(", ")),
        _ => format!("{missing} intervals are missing: {}", of_whom.join(", ")),
    };
    let ok = missing == 0 && f.damaged.is_empty();
    Check { name: "slices", ok, found: (missing + f.damaged.len()) as f64, limit: 0.0, text }
}

fn sums(f: &Findings<'_>) -> Check {
    let text = if f.disagrees.is_empty() {
        "the intervals add up to the totals, bucket by bucket".to_owned()
    } else {
        format!("the intervals of agent {} do not add up to its totals", f.disagrees.join(", "))
    };
    let found = f.disagrees.len() as f64;
    Check { name: "slice-sums", ok: f.disagrees.is_empty(), found, limit: 0.0, text }
}

fn clocks(f: &Findings<'_>) -> Check {
    let limit_s = f.interval.as_secs_f64() * CLOCK_MAX;
    let worst =
        f.agents.iter().filter_map(|agent| Some((agent.clock.as_ref().ok()?.bound_ns, &agent.agent))).max();
    let unread = f.agents.iter().filter(|agent| agent.clock.is_err()).count();
    let (found_s, mut text) = match worst {
        None => (f64::INFINITY, "no clock could be read".to_owned()),
        Some((bound_ns, agent)) => {
            let found_s = bound_ns as f64 / 1e9;
            let text = format!(
                "agent {agent} has the worst clock bound: {:.0} us, at most {:.0} us allowed",
                found_s * 1e6,
                limit_s * 1e6
            );
            (found_s, text)
        }
    };
    if unread > 0 && worst.is_some() {
        text = format!("{text}; the clocks of {unread} agents could not be read before and after the load");
    }
    Check { name: "clock-bound", ok: unread == 0 && found_s <= limit_s, found: found_s, limit: limit_s, text }
}

/// Numbers in few words: `3-7, 9`.
fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use record::load::ErrorCounts;

    use super::*;

    fn findings() -> Findings<'static> {
        Findings {
            interval: Duration::from_secs(1),
            agents: &[],
            failed: Vec::new(),
            silent: Vec::new(),
            damaged: Vec::new(),
            disagrees: Vec::new(),
            early: Vec::new(),
            is_stopped: false,
        }
    }

    #[test]
    fn a_whole_that_is_late_although_no_agent_is_says_so() {
        let check =
            |ok, text: &str| Check { name: "lateness", ok, found: 0.0, limit: 0.0, text: text.to_owned() };
        let verdicts = |ok| [("a1".to_owned(), Verdict::of(vec![check(ok, "of one")]))];
        for (of_agent, whole, expected) in [
            (true, None, "agent a1: of one"),
            (true, Some(check(false, "of all")), "of all"),
            (false, Some(check(false, "of all")), "agent a1: of one"),
        ] {
            let found = of(&findings(), &[], whole, &verdicts(of_agent));
            let late: Vec<_> = found.checks.iter().filter(|check| check.name == "lateness").collect();
            assert_eq!(late.iter().map(|check| check.text.as_str()).collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn a_host_needs_no_event_of_each_agent_but_one_of_any() {
        let host = |name: &str, done| OfHost {
            host: name.to_owned(),
            connections: 2,
            done,
            failed: 0,
            errors: ErrorCounts::default(),
        };
        let of_one = load::hosts_check(&[host("h1", 0), host("h2", 3)]).unwrap();
        assert!(!of_one.ok);
        let findings = findings();
        let verdicts = [("a1".to_owned(), Verdict::of(vec![of_one]))];
        for (done, ok) in [(1, true), (0, false)] {
            let found = of(&findings, &[host("h1", done), host("h2", 6)], None, &verdicts);
            let hosts: Vec<&Check> = found.checks.iter().filter(|check| check.name == "hosts").collect();
            assert_eq!(hosts.iter().map(|check| check.ok).collect::<Vec<_>>(), [ok], "{hosts:?}");
        }
    }

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(ranges(&[1, 2, 3, 5, 8, 9]), "1-3, 5, 8-9");
        assert_eq!(ranges(&[]), "");
    }
}
