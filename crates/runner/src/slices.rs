//! A block in slices: its series are alive at once, and their loads take turns of a fraction of a second, in
//! random order. Idle servers are frozen.
//!
//! Drift of the machine then meets all configurations of a block alike, also within a series. The unit of
//! replication is still the series: each trial is stored like any other, with its number of turns.

mod arm;
mod edges;

use plan::Slices;
use record::limits::Throttled;
use record::missing::Maybe;

use self::arm::{Arm, Begun};
use crate::Event;
use crate::conductor::Conductor;
use crate::error::RunnerError;
use crate::queue::Work;
use crate::quotas::Quotas;
use crate::series::{Purpose, Series, SeriesEnd, Trouble};
use crate::surroundings::{self, Edge};
use crate::trial::{TrialEnd, cool_down};

/// Conducts the series of a block that are left.
pub(crate) fn conduct(conductor: &mut Conductor<'_>, works: Vec<Work>) -> Result<SeriesEnd, RunnerError> {
    let slices = conductor.plan.slices().expect("the caller has a design in slices");
    conductor.observe_block(works[0].block);
    let mut block = Block { number: works[0].block, slices, arms: Vec::new() };
    let begun = block.begin(conductor, works);
    let played = match begun {
        Ok(SeriesEnd::Over) => block.play(conductor),
        Ok(SeriesEnd::Stopped) => Ok(Played::Stopped),
        Err(error) => Err(error),
    };
    block.end(conductor, played)
}

struct Block {
    number: u32,
    slices: Slices,
    arms: Vec<Arm>,
}

/// Disturbances during the turns of a block.
struct Disturbances {
    throttled: Maybe<Throttled>,
    other_work: Option<(&'static str, String)>,
}

/// Result of the turns of a block.
enum Played {
    Over(Disturbances),
    Stopped,
}

impl Block {
    /// Starts the servers and connects the loads, one series after another. One that fails has no turns.
    fn begin(&mut self, conductor: &mut Conductor<'_>, works: Vec<Work>) -> Result<SeriesEnd, RunnerError> {
        for work in works {
            if conductor.stop.is_requested() {
                return Ok(SeriesEnd::Stopped);
            }
            let Some(mut series) = Series::open(conductor, work, Purpose::Trials)? else { continue };
            let begun = match series.begin(conductor) {
                Ok(()) => Begun::of(conductor, &series),
                Err(trouble) => Err(trouble),
            };
            match begun {
                Ok(begun) => self.arms.push(Arm::connect(conductor, series, begun)),
                Err(trouble) => {
                    let torn_down = series.tear_down(conductor);
                    if series.conclude(conductor, Some(trouble), torn_down)? == SeriesEnd::Stopped {
                        return Ok(SeriesEnd::Stopped);
                    }
                }
            }
        }
        Ok(SeriesEnd::Over)
    }

    /// Plays rounds of turns until every load has ended.
    fn play(&mut self, conductor: &mut Conductor<'_>) -> Result<Played, RunnerError> {
        let count = u32::try_from(self.arms.len()).expect("plans limit their trials");
        let (number, ms) = (self.number, self.slices.slice.as_millis());
        let doing = format!("block {number}: {count} series in turns of {ms} ms");
        (conductor.on_event)(&Event::Doing(&doing));
        let mut quotas = Quotas::new();
        quotas.open();
        let (edge, before_s) = (Edge::now(), self.servers_s());
        for round in conductor.plan.turn_order(number, self.arms.len()) {
            if conductor.stop.is_requested() {
                return Ok(Played::Stopped);
            }
            if !self.arms.iter_mut().any(Arm::is_playing) {
                break;
            }
            for at in round {
                if self.arms[at].is_playing() && !conductor.stop.is_requested() {
                    self.arms[at].turn(conductor, self.slices, count)?;
                }
            }
        }
        let throttled = quotas.take();
        if let Some(why) = quotas.lost() {
            (conductor.on_event)(&Event::Note(why));
        }
        Ok(Played::Over(Disturbances {
            throttled,
            other_work: surroundings::others_since(&edge, self.servers_s() - before_s),
        }))
    }

    /// Ends all loads, stores the trials, and ends the servers, after any outcome.
    fn end(
        mut self,
        conductor: &mut Conductor<'_>,
        played: Result<Played, RunnerError>,
    ) -> Result<SeriesEnd, RunnerError> {
        for arm in &mut self.arms {
            arm.end_load(conductor.stop);
        }
        let mut end = Ok(SeriesEnd::Over);
        let mut troubles: Vec<Option<Trouble>> = Vec::new();
        match played {
            Ok(Played::Over(disturbances)) => {
                for arm in &mut self.arms {
                    if !matches!(end, Ok(SeriesEnd::Over)) {
                        break;
                    }
                    let of_block = (disturbances.throttled.clone(), disturbances.other_work.clone());
                    let (stopped, trouble) = match arm.store(conductor, self.slices, of_block) {
                        Ok(TrialEnd::Over) => (Ok(SeriesEnd::Over), None),
                        Ok(TrialEnd::Stopped) => (Ok(SeriesEnd::Stopped), None),
                        Ok(TrialEnd::ServerDied(why)) => {
                            (Ok(SeriesEnd::Over), Some(Trouble::ServerDied(why)))
                        }
                        Err(error) => (Err(error), None),
                    };
                    end = stopped;
                    troubles.push(trouble);
                }
                if matches!(end, Ok(SeriesEnd::Over)) {
                    cool_down(conductor);
                }
            }
            Ok(Played::Stopped) => end = Ok(SeriesEnd::Stopped),
            Err(error) => end = Err(error),
        }
        troubles.resize_with(self.arms.len(), || None);
        for (mut arm, trouble) in self.arms.into_iter().zip(troubles) {
            let torn_down = arm.series.tear_down(conductor);
            let concluded = arm.series.conclude(conductor, trouble, torn_down);
            end = end.and_then(|end| concluded.map(|_| end));
        }
        end
    }

    fn servers_s(&self) -> f64 {
        self.arms.iter().map(Arm::server_s).sum()
    }
}
