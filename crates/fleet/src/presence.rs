//! Which agents are lost. Pure: times are passed in.
//!
//! An agent that is silent for half a second is lost, but only while the server passes messages: the
//! conductor sends itself an echo by the same way. If the echo is silent too, the way is gone, not the
//! agents; they carry on, and have a few seconds to be heard again once the echo is back. Only time in which
//! the way was there counts as an agent's silence, so a way that goes again and again does not hide a loss.

/// Interval of beats and echoes.
pub(crate) const BEAT_NS: u64 = 100_000_000;
/// An agent that is silent for longer is lost.
pub(crate) const SILENCE_NS: u64 = 500_000_000;
/// If the echo is silent for longer, the way is gone.
const ECHO_NS: u64 = 300_000_000;
/// Time for agents to be heard after the way was gone.
const RETURN_NS: u64 = 5_000_000_000;

/// Times at which each agent, and the echo, was last heard.
#[derive(Debug)]
pub(crate) struct Presence {
    agents: Vec<Heard>,
    echo_ns: u64,
    /// Time for which the way was gone, as far as it came back.
    gone_ns: u64,
}

/// The last sign of an agent.
#[derive(Debug, Clone, Copy)]
struct Heard {
    at_ns: u64,
    /// Time for which the way had been gone until then.
    gone_ns: u64,
}

impl Presence {
    pub(crate) fn new(agents: usize, now_ns: u64) -> Self {
        Self { agents: vec![Heard { at_ns: now_ns, gone_ns: 0 }; agents], echo_ns: now_ns, gone_ns: 0 }
    }

    pub(crate) fn heard(&mut self, agent: usize, now_ns: u64) {
        let gone_ns = self.gone_ns + self.gap_ns(now_ns);
        self.agents[agent] = Heard { at_ns: now_ns, gone_ns };
    }

    pub(crate) fn echo(&mut self, now_ns: u64) {
        // Also if the conductor did not look meanwhile, as when it was stopped itself.
        self.gone_ns += self.gap_ns(now_ns);
        self.echo_ns = now_ns;
    }

    /// Time for which the way has been gone now; 0 if it is there.
    fn gap_ns(&self, now_ns: u64) -> u64 {
        let silent_ns = now_ns.saturating_sub(self.echo_ns);
        if silent_ns > ECHO_NS { silent_ns } else { 0 }
    }

    /// Whether the way to the agents is gone.
    pub(crate) fn is_away(&self, now_ns: u64) -> bool {
        self.gap_ns(now_ns) > 0
    }

    /// Whether the agent is lost.
    pub(crate) fn is_lost(&self, agent: usize, now_ns: u64) -> bool {
        let Heard { at_ns, gone_ns } = self.agents[agent];
        let gone_ns = self.gone_ns.saturating_sub(gone_ns);
        let silent_ns = now_ns.saturating_sub(at_ns).saturating_sub(gone_ns);
        let is_silent = if gone_ns > 0 { silent_ns >= RETURN_NS } else { silent_ns > SILENCE_NS };
        is_silent && !self.is_away(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Plays `until_ms` in steps of 50 ms; each predicate says whether a beat arrives then. Returns when each
    /// agent was first found lost.
    fn play(
        until_ms: u64,
        echo: impl Fn(u64) -> bool,
        beat: impl Fn(usize, u64) -> bool,
    ) -> [Option<u64>; 3] {
        let mut presence = Presence::new(3, 0);
        let mut lost = [None; 3];
        for ms in (50..=until_ms).step_by(50) {
            if echo(ms) {
                presence.echo(ms * MS);
            }
            for (agent, lost) in lost.iter_mut().enumerate() {
                if beat(agent, ms) {
                    presence.heard(agent, ms * MS);
                }
                if presence.is_lost(agent, ms * MS) {
                    lost.get_or_insert(ms);
                }
            }
        }
        lost
    }

    #[test]
    fn a_silent_agent_is_lost_within_a_second_and_the_others_are_not() {
        let lost = play(5_000, |_| true, |agent, ms| agent != 1 || ms <= 1_000);
        assert_eq!(lost, [None, Some(1_550), None]);
    }

    #[test]
    fn a_fleet_whose_last_agents_die_while_the_server_lives_is_lost() {
        assert_eq!(play(5_000, |_| true, |_, ms| ms <= 1_000), [Some(1_550); 3]);
    }

    #[test]
    fn a_server_that_is_away_loses_no_agent_for_however_long() {
        let away = |ms: u64| !(1_000..20_000).contains(&ms);
        assert_eq!(play(30_000, away, |_, ms| away(ms.saturating_sub(2_000)) && away(ms)), [None; 3]);
    }

    #[test]
    fn an_agent_that_died_while_the_server_was_away_is_lost_when_it_is_back() {
        let away = |ms: u64| !(1_000..3_000).contains(&ms);
        let lost = play(10_000, away, |agent, ms| away(ms) && (agent != 2 || ms < 1_000));
        assert_eq!(lost, [None, None, Some(8_000)]);
    }

    #[test]
    fn an_agent_that_died_is_lost_even_if_the_way_hiccups_again_and_again() {
        let passes = |ms: u64| ms % 4_000 >= 400;
        let lost = play(60_000, passes, |agent, ms| (agent != 1 || ms <= 1_000) && passes(ms));
        assert!(lost[1].is_some_and(|ms| ms <= 8_000), "{lost:?}");
        assert_eq!((lost[0], lost[2]), (None, None));
    }

    #[test]
    fn a_way_that_goes_again_before_the_agents_are_back_loses_none() {
        let passes = |ms: u64| !(1_000..3_000).contains(&ms) && !(3_200..10_000).contains(&ms);
        let lost =
            play(20_000, passes, |agent, ms| passes(ms) && !(1_000..12_000).contains(&ms) && agent < 2);
        assert_eq!((lost[0], lost[1]), (None, None));
        assert!(lost[2].is_some());
    }

    #[test]
    fn a_conductor_that_stood_still_blames_nobody() {
        let awake = |ms: u64| !(1_000..4_000).contains(&ms);
        let mut presence = Presence::new(1, 0);
        for ms in (50..=6_000).step_by(50).filter(|ms| awake(*ms)) {
            // The first look after the pause comes before any message is read.
            assert!(!presence.is_lost(0, ms * MS), "{ms}");
            presence.echo(ms * MS);
            presence.heard(0, ms * MS);
        }
    }
}
