//! A second count of a load's events, from the rows of its log of events.

use record::event::{EventRow, Fate};
use record::load::Counts;

/// Number of rows by fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Recount {
    done: u64,
    failed: u64,
    skipped: u64,
    unfinished: u64,
}

impl Recount {
    pub(crate) fn add(&mut self, rows: &[EventRow]) {
        for row in rows {
            match row.fate {
                Fate::Done => self.done += 1,
                Fate::Failed => self.failed += 1,
                Fate::Skipped => self.skipped += 1,
                Fate::Unfinished => self.unfinished += 1,
            }
        }
    }

    /// Number of rows of all fates.
    pub(crate) fn rows(&self) -> u64 {
        self.done + self.failed + self.skipped + self.unfinished
    }

    /// Number of events by which the rows and `counts` differ, summed over the fates.
    pub(crate) fn apart(&self, counts: &Counts) -> u64 {
        let Self { done, failed, skipped, unfinished } = *self;
        done.abs_diff(counts.done)
            + failed.abs_diff(counts.failed)
            + skipped.abs_diff(counts.skipped)
            + unfinished.abs_diff(counts.unfinished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_under_another_fate_is_two_apart_and_a_lost_one_is_one() {
        let row = |fate| EventRow {
            due_ns: 1,
            claim_ns: None,
            start_ns: None,
            end_ns: None,
            operation: None,
            fate,
        };
        let mut recount = Recount::default();
        recount.add(&[row(Fate::Done), row(Fate::Done), row(Fate::Skipped), row(Fate::Unfinished)]);
        let counts = Counts { planned: 4, done: 2, failed: 0, skipped: 1, unfinished: 1, retries: 9 };
        assert_eq!((recount.rows(), recount.apart(&counts)), (4, 0));
        assert_eq!(recount.apart(&Counts { done: 1, failed: 1, ..counts }), 2);
        assert_eq!(recount.apart(&Counts { planned: 5, done: 3, ..counts }), 1);
    }
}
