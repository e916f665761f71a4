//! Losses of programs, by reason.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use super::recursion_misses;

/// Counters of records that programs could not store, which they count by reason in separate words; and of
/// runs that the kernel skipped.
#[derive(Debug)]
pub(crate) struct Losses<const N: usize> {
    reasons: [&'static str; N],
    before: [u64; N],
    kept_out_before: u64,
}

impl<const N: usize> Losses<N> {
    pub(crate) fn new(reasons: [&'static str; N]) -> Self {
        Self { reasons, before: [0; N], kept_out_before: 0 }
    }

    /// Losses since the last call; `counts` are the programs' words in the order of the reasons.
    pub(crate) fn since_last(
        &mut self,
        counts: [u64; N],
        programs: &[BorrowedFd<'_>],
    ) -> BTreeMap<String, u64> {
        let before = std::mem::replace(&mut self.before, counts);
        let told = self
            .reasons
            .iter()
            .zip(counts.iter().zip(before))
            .map(|(reason, (now, was))| (*reason, now - was));
        let kept_out: u64 = programs.iter().map(|p| recursion_misses(*p).unwrap_or(0)).sum();
        let kept_out_now = kept_out.saturating_sub(std::mem::replace(&mut self.kept_out_before, kept_out));
        let all = told.chain([("kept-out-by-the-kernel", kept_out_now)]);
        all.filter(|(_, n)| *n > 0).map(|(reason, n)| (reason.to_owned(), n)).collect()
    }
}

/// Adds to the losses for a reason; `n` = 0 adds no entry.
pub(crate) fn count_in(lost: &mut BTreeMap<String, u64>, reason: &str, n: u64) {
    if n > 0 {
        *lost.entry(reason.to_owned()).or_default() += n;
    }
}
