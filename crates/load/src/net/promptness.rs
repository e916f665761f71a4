//! Whether answers are usually there when they are read.

/// Tries that succeeded, less those that failed, up to this number.
const SCORE_MAX: u8 = 8;
/// Number of reads of which one is tried while most tries fail.
const READS_PER_TRY: u8 = 32;

/// Whether to read an answer without a wait before.
///
/// A try that finds the answer saves the call of the wait, and one that finds nothing costs a call. Reads are
/// tried while most tries succeed, and otherwise now and then: a wait does not tell how long it took.
#[derive(Debug, Default)]
pub(super) struct Promptness {
    score: u8,
    untried: u8,
}

impl Promptness {
    /// Whether to try the next read.
    pub(super) fn tries(&mut self) -> bool {
        if self.score == 0 {
            self.untried = (self.untried + 1) % READS_PER_TRY;
        }
        self.score > 0 || self.untried == 0
    }

    /// Notes the outcome of a try.
    pub(super) fn tried(&mut self, has_found: bool) {
        self.score = if has_found { (self.score + 1).min(SCORE_MAX) } else { self.score.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries, and those that found nothing, of some reads.
    fn tries(reads: u32, is_there: impl Fn(u32) -> bool) -> (u32, u32) {
        let (mut promptness, mut tries, mut vain) = (Promptness::default(), 0, 0);
        for read in 0..reads {
            if promptness.tries() {
                tries += 1;
                vain += u32::from(!is_there(read));
                promptness.tried(is_there(read));
            }
        }
        (tries, vain)
    }

    #[test]
    fn reads_are_tried_while_most_tries_find_the_answer() {
        // A server that is slower than we are: one call in vain for 32 reads.
        assert_eq!(tries(3_200, |_| false), (100, 100));
        // One that is faster.
        assert_eq!(tries(3_200, |_| true), (3_169, 0));
        // Four of five: the one in vain does not end the tries.
        assert_eq!(tries(3_200, |read| read % 5 != 0), (3_169, 633));
        // It becomes slow, and fast again.
        let (tried, vain) = tries(3_000, |read| !(1_000..2_000).contains(&read));
        assert!(vain < 45 && tried > 1_900, "{tried} {vain}");
    }
}
