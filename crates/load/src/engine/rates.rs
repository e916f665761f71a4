//! Changes of the rate while a load runs.

use record::load::RateChange;

use super::shared::Engine;
use crate::control::RateCommand;
use crate::engine::backoff::SLICE_NS;

/// Time between the announcement of a rate change and its effect: every sleeping worker wakes and polls
/// within it.
const NOTICE_NS: u64 = SLICE_NS + 50_000_000;
/// A rate change must be published at least this long before it takes effect.
const MARGIN_NS: u64 = 1_000_000;
/// The lowest rate to change to. Below one event an hour the user probably meant to stop the load.
const CHANGED_RATE_MIN: f64 = 1.0 / 3_600.0;

impl Engine {
    /// The rate of this share as it is now; `None` in a closed loop.
    pub(crate) fn rate_per_s(&self) -> Option<f64> {
        let due = self.timeline().due.as_ref()?;
        Some(self.share.of_rate(due.rate_per_s(), due.schedule()))
    }

    /// Schedules a rate change that takes effect for all workers at once. Only the conductor may call it.
    pub(crate) fn change_rate(&self, ask: RateCommand) -> Result<RateChange, String> {
        let timeline = self.timeline();
        let Some(due) = &timeline.due else { return Err("a closed loop has no rate to change".to_owned()) };
        let from_per_s = due.rate_per_s();
        let per_s = match ask {
            RateCommand::PerSecond(_) if due.arrivals().say_their_rate() => {
                let arrivals = due.arrivals();
                return Err(format!(
                    "{arrivals} defines its own rates: change them by a percentage, as in `rate +10%`"
                ));
            }
            RateCommand::PerSecond(per_s) => per_s,
            RateCommand::Times(times) => in_words(from_per_s * times),
        };
        if !(CHANGED_RATE_MIN..=crate::schedule::pace::RATE_MAX).contains(&per_s) {
            let wrong = if per_s > 1e9 { format!("{per_s:e}/s") } else { format!("{per_s}/s") };
            return Err(format!(
                "cannot change the rate to {wrong}: expected 1/h to {}/s",
                crate::schedule::pace::RATE_MAX
            ));
        }
        let mut notice_ns = NOTICE_NS;
        loop {
            let at_ns = (self.clock.now_ns() + notice_ns).max(timeline.start_ns);
            if at_ns >= timeline.measured_until_ns {
                return Err("the measured phase ends before the rate could change".to_owned());
            }
            let is_in_time = || self.clock.now_ns() + MARGIN_NS < at_ns;
            match due.change(at_ns - timeline.start_ns, per_s, is_in_time) {
                None => return Err("the rate has been changed too many times".to_owned()),
                Some(true) => {
                    let at_s = (at_ns as f64 - timeline.measured_from_ns as f64) / 1e9;
                    return Ok(RateChange { at_s, from_per_s, per_s });
                }
                // Publishing took too long: give longer notice.
                Some(false) => notice_ns *= 4,
            }
        }
    }
}

/// Drops the last digits, which are rounding errors: 440 for 1.1 times 400.
fn in_words(per_s: f64) -> f64 {
    format!("{per_s:.11e}").parse().unwrap_or(per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_rate_is_as_a_person_would_write_it() {
        for (per_s, said) in [(400.0 * 1.1, "440"), (0.3 * 3.0, "0.9"), (1e6 / 3.0, "333333.333333")] {
            assert_eq!(in_words(per_s).to_string(), said);
        }
    }
}
