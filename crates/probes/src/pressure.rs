//! Pressure stall information: the share of time in which some thread of the machine waited for a resource.

use std::fs;
use std::path::Path;

use record::missing::{Maybe, Missing};

/// The time since boot in which some thread waited, in nanoseconds.
///
/// - `resource`: `cpu`, `memory` or `io`.
///
/// # Errors
///
/// Missing if the kernel does not count it.
///
/// # Source
///
/// `Documentation/accounting/psi.rst`; the file counts microseconds.
pub(crate) fn some_ns(root: &Path, resource: &str) -> Maybe<u64> {
    let path = format!("proc/pressure/{resource}");
    let text = fs::read_to_string(root.join(&path)).map_err(|e| {
        Missing::because(format!("/{path} cannot be read ({e}): the boot option psi=1 enables it"))
    })?;
    total_us(&text).map(|us| us * 1_000).ok_or_else(|| Missing::because(format!("/{path} has no total")))
}

/// Share of the time between two readings; each is a pair of the moment and the total so far. At most 1: the
/// kernel rounds its total to microseconds, and reads its clock a little after ours.
pub(crate) fn ratio(before: &Maybe<(u64, u64)>, after: &Maybe<(u64, u64)>) -> Maybe<f64> {
    let ((from_ns, before_ns), (until_ns, after_ns)) = (before.clone()?, after.clone()?);
    if until_ns <= from_ns {
        return Err(Missing::because("the interval has no length"));
    }
    let ns = until_ns - from_ns;
    Ok(after_ns.saturating_sub(before_ns).min(ns) as f64 / ns as f64)
}

fn total_us(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_and_other_words_are_passed_over() {
        let text = "some avg10=98.99 avg60=99.13 avg300=94.53 total=947027377\nfull avg10=0.00 total=5\n";
        assert_eq!(total_us(text), Some(947_027_377));
        assert_eq!(total_us("full total=5\n"), None);
        assert_eq!(total_us(""), None);
    }

    #[test]
    fn the_ratio_is_of_the_time_between_the_readings() {
        assert_eq!(ratio(&Ok((0, 100)), &Ok((1_000, 350))), Ok(0.25));
        // Of 665,001 ns in which some task always waited, the total grew by 666 us.
        assert_eq!(ratio(&Ok((0, 100_000)), &Ok((665_001, 766_000))), Ok(1.0));
        assert!(ratio(&Ok((5, 100)), &Ok((5, 350))).is_err());
    }
}
