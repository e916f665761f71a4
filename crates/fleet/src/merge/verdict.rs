//! Whether the whole may be used: every check of every agent, and those that only a fleet has.

use std::time::Duration;

use record::agents::{OfAgent, OnLoss};
use record::load::{Counts, OfHost};
use record::verdict::{Check, Validity, Verdict};

/// The clocks' bound may be this share of an interval: intervals of agents are added as if they were one.
const CLOCK_MAX: f64 = 0.01;

/// Findings that only a fleet can have.
pub(super) struct Findings<'a> {
    /// Length of an interval.
    pub(super) interval: Duration,
    pub(super) on_loss: OnLoss,
    /// Whether the number of events is known before the load: not in a closed loop for a time.
    pub(super) is_planned: bool,
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
    let accepts_loss = findings.accepts_loss();
    if findings.is_stopped && (has_all_agents || accepts_loss) {
        verdict.state = Validity::Interrupted;
    } else if verdict.state == Validity::Invalid
        && accepts_loss
        && verdict.failures().all(|check| LOSSES.contains(&check.name))
    {
        verdict.state = Validity::Degraded;
    }
    verdict
}

/// Checks that fail if a part of the load is lost.
const LOSSES: [&str; 2] = ["agents", "slices"];

impl Findings<'_> {
    /// Whether all that is wrong with agents and intervals is that they are lost, and that is accepted. An
    /// agent that failed tells of the load, and other intervals than the agent's are no loss.
    fn accepts_loss(&self) -> bool {
        self.on_loss == OnLoss::Degraded && self.failed.is_empty() && self.damaged.is_empty()
    }

    /// Whether an agent was lost or ended early.
    fn is_gone(&self, agent: &OfAgent) -> bool {
        let name = &agent.agent;
        agent.lost_at_s.is_some()
            || self.silent.contains(name)
            || self.early.iter().any(|(early, _)| early == name)
    }

    /// The events of an agent that are known, of those that it planned.
    fn known(&self, agent: &OfAgent) -> String {
        let Counts { planned, unfinished, .. } = agent.counts;
        let known = planned.saturating_sub(unfinished);
        if self.is_planned {
            format!("{known} of its {planned} planned events are known")
        } else {
            format!("{known} of its events are known, and a closed loop plans no number")
        }
    }
}

fn named(agent: &str, check: &Check) -> Check {
    Check { text: format!("agent {agent}: {}", check.text), ..check.clone() }
}

fn agents(f: &Findings<'_>) -> Check {
    let mut told = Vec::new();
    for agent in f.agents {
        if let Some(at_s) = agent.lost_at_s {
            let known = f.known(agent);
            let name = &agent.agent;
            told.push(format!("agent {name} was lost {at_s:.2} s into the measured phase ({known})"));
        } else if let Some((_, why)) = f.failed.iter().find(|(name, _)| *name == agent.agent) {
            told.push(format!("agent {} failed: {why}", agent.agent));
        } else if f.silent.contains(&agent.agent) {
            told.push(format!("agent {} sent no final report ({})", agent.agent, f.known(agent)));
        } else if let Some((_, after_s)) = f.early.iter().find(|(name, _)| *name == agent.agent) {
            let known = f.known(agent);
            let name = &agent.agent;
            told.push(format!("agent {name} was stopped {after_s:.2} s into the measured phase ({known})"));
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
        .map(|agent| {
            let all = agent.slices + agent.missing_slices.len() as u64;
            format!("agent {} lacks {} of its {all}", agent.agent, ranges(&agent.missing_slices))
        })
        .collect();
    let text = match (missing, f.damaged.as_slice()) {
        (0, []) => "every interval of every agent has arrived".to_owned(),
        (0, damaged) => {
            format!("the intervals of agent {} are damaged, or differ from its spool", damaged.join(", "))
        }
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
    // A lost agent has no clock at the end. If the loss is accepted, so is that.
    let is_asked = |agent: &&OfAgent| !(f.accepts_loss() && f.is_gone(agent));
    let unread = f.agents.iter().filter(is_asked).filter(|agent| agent.clock.is_err()).count();
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
            on_loss: OnLoss::Invalid,
            is_planned: true,
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

    /// The unkind truth: a degraded run is INVALID for every other reason.
    #[test]
    fn only_a_loss_that_is_accepted_makes_a_run_degraded() {
        let of = |name: &str, lost_at_s: Option<f64>, missing_slices: &[u64]| OfAgent {
            agent: name.to_owned(),
            host: "gen1".to_owned(),
            weight: 1,
            counts: Counts { planned: 100, done: 60, unfinished: 40, ..Counts::default() },
            clock: if lost_at_s.is_some() {
                Err(record::missing::Missing::because("it did not answer"))
            } else {
                Ok(record::agents::ClockOffset { offset_ns: 0, bound_ns: 1_000, drift_ns: 0 })
            },
            start_skew_ns: Ok(0),
            slices: 6,
            missing_slices: missing_slices.to_vec(),
            lost_at_s,
        };
        let whole = [of("a1", None, &[]), of("a2", None, &[])];
        let lost = [of("a1", None, &[]), of("a2", Some(1.5), &[6, 7])];
        let sparse = [of("a1", None, &[]), of("a2", None, &[6, 7])];
        let gone = [of("a1", Some(1.5), &[6]), of("a2", Some(1.5), &[6])];
        let late = || {
            let check = Check { name: "lateness", ok: false, found: 1.0, limit: 0.0, text: String::new() };
            vec![("a1".to_owned(), Verdict::of(vec![check]))]
        };
        let failed = vec![("a2".to_owned(), "no space".to_owned())];
        let with = |on_loss, agents| Findings { on_loss, agents, ..findings() };
        let (invalid, degraded) = (OnLoss::Invalid, OnLoss::Degraded);
        for (found, verdicts, state) in [
            (with(degraded, &whole[..]), Vec::new(), Validity::Valid),
            (with(degraded, &lost), Vec::new(), Validity::Degraded),
            (with(degraded, &sparse), Vec::new(), Validity::Degraded),
            (with(invalid, &lost), Vec::new(), Validity::Invalid),
            (with(invalid, &sparse), Vec::new(), Validity::Invalid),
            (with(degraded, &lost), late(), Validity::Invalid),
            (with(degraded, &gone), Vec::new(), Validity::Invalid),
            (Findings { failed, ..with(degraded, &whole) }, Vec::new(), Validity::Invalid),
            (Findings { damaged: vec!["a1".into()], ..with(degraded, &lost) }, Vec::new(), Validity::Invalid),
            (
                Findings { disagrees: vec!["a1".into()], ..with(degraded, &lost) },
                Vec::new(),
                Validity::Invalid,
            ),
            (Findings { is_stopped: true, ..with(degraded, &lost) }, Vec::new(), Validity::Interrupted),
            (Findings { is_stopped: true, ..with(invalid, &lost) }, Vec::new(), Validity::Invalid),
        ] {
            let verdict = of_findings(&found, &verdicts);
            assert_eq!(verdict.state, state, "{verdict:?}");
        }
        let told = of_findings(&with(degraded, &lost), &[]).degraded().unwrap();
        for part in [
            "agent a2 was lost 1.50 s",
            "60 of its 100 planned events are known",
            "agent a2 lacks 6-7 of its 8",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }

    fn of_findings(findings: &Findings<'_>, verdicts: &[(String, Verdict)]) -> Verdict {
        super::of(findings, &[], None, verdicts)
    }

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(ranges(&[1, 2, 3, 5, 8, 9]), "1-3, 5, 8-9");
        assert_eq!(ranges(&[]), "");
    }
}
