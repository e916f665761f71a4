//! Ten levels, each an option of one digit.

use clap::ArgMatches;
use clap::parser::ValueSource;
use std::ffi::OsString;
use tamp::Level;

pub(super) const LEVELS: [&str; 10] = ["-0", "-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9"];

/// Returns a word such as `-19`, which zstd reads as one level and gzip as two.
pub(super) fn joined_level(words: &[OsString]) -> Option<String> {
    const TAKE_A_VALUE: [char; 5] = ['o', 'T', 'p', 'S', 'D'];
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    while let Some(word) = words.next().filter(|&word| word != "--") {
        let Some(switches) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else { continue };
        let end = switches.find(TAKE_A_VALUE);
        let switches_end = end.unwrap_or(switches.len());
        let digits: Vec<bool> = switches[..switches_end].chars().map(|char| char.is_ascii_digit()).collect();
        if digits.windows(2).any(|pair| pair[0] && pair[1]) {
            return Some(word.to_owned());
        }
        if end.is_some_and(|end| end + 1 == switches.len()) {
            // The next word is the value.
            words.next();
        }
    }
    None
}

/// The last of several levels, which applies, as with gzip.
pub(super) fn last_level(matches: &ArgMatches) -> Option<Level> {
    (0..10_u8)
        .filter(|&level| matches.value_source(LEVELS[usize::from(level)]) == Some(ValueSource::CommandLine))
        .max_by_key(|&level| matches.index_of(LEVELS[usize::from(level)]))
        .and_then(Level::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::args::Args;

    #[test]
    fn two_digits_are_not_a_level() {
        for line in ["tamp -19 x", "tamp -12 x", "tamp -k10 x", "tamp -T4 -22c x"] {
            let words = line.split(' ').map(OsString::from);
            let error = Args::from_command_line(words).unwrap_err().to_string();
            assert!(error.contains("levels are -0 to -9"), "{line}: {error}");
        }
        for line in ["tamp -1 -9 x", "tamp -1k9 x", "tamp -T16 x", "tamp -p 16 x", "tamp -- -19"] {
            assert!(Args::from_command_line(line.split(' ').map(OsString::from)).is_ok(), "{line}");
        }
    }
}
