//! Input of a connection that was not consumed yet.

use super::Parsed;
use crate::connection::Answer;
use crate::connection::Failure;
use crate::net::held::{self, HeldBytes};

/// Input of a connection that was not consumed yet.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    left: Vec<u8>,
    held: HeldBytes,
}

impl Inbox {
    /// Passes the stored input and `fresh` to `hear`; stores what `hear` does not consume. Fails if this
    /// exceeds the limit.
    pub(crate) fn hear(
        &mut self,
        fresh: &[u8],
        hear: impl FnOnce(&[u8]) -> Parsed,
    ) -> Option<Result<Answer, Failure>> {
        if self.left.is_empty() {
            let heard = hear(fresh);
            self.left.extend_from_slice(&fresh[heard.taken..]);
            return heard.answer;
        }
        self.left.extend_from_slice(fresh);
        let heard = hear(&self.left);
        self.left.drain(..heard.taken);
        let kept = self.account();
        heard.answer.or_else(|| kept.err().map(Err))
    }

    /// Counts the stored input in the total of all connections.
    pub(crate) fn account(&mut self) -> Result<(), Failure> {
        held::shrink(&mut self.left);
        self.held.set(self.left.len())
    }

    /// Variant of [`Self::hear`] that repeats while `hear` reports that another answer may follow; `hear`
    /// returns the number of bytes consumed, and that report.
    pub(crate) fn hear_each(&mut self, fresh: &[u8], mut hear: impl FnMut(&[u8]) -> (usize, bool)) {
        let mut joined = std::mem::take(&mut self.left);
        let is_joined = !joined.is_empty();
        if is_joined {
            joined.extend_from_slice(fresh);
        }
        let input = if is_joined { &joined[..] } else { fresh };
        let mut taken_all = 0;
        loop {
            let (taken, may_go_on) = hear(&input[taken_all..]);
            taken_all += taken;
            if !may_go_on {
                break;
            }
        }
        if is_joined {
            joined.drain(..taken_all);
            self.left = joined;
        } else {
            self.left = joined;
            self.left.extend_from_slice(&fresh[taken_all..]);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_read_stands_before_the_next() {
        let mut inbox = Inbox::default();
        let line = |input: &[u8]| match input.iter().position(|b| *b == b'\n') {
            Some(end) => Parsed::well(end + 1, end, None),
            None => Parsed::MORE,
        };
        let operation = |heard: Option<Result<Answer, Failure>>| heard.map(|a| a.unwrap().operation);
        assert_eq!(operation(inbox.hear(b"ab", line)), None);
        assert_eq!(operation(inbox.hear(b"c\nde", line)), Some(3));
        assert_eq!(operation(inbox.hear(b"\n", line)), Some(2));
        assert!(inbox.is_empty());
    }
}
