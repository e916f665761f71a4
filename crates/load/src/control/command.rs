//! The commands that a running load accepts.

use record::quantity;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Command {
    Rate(RateCommand),
    Status,
    Stop,
    Help,
}

/// A new rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RateCommand {
    /// An absolute rate.
    PerSecond(f64),
    /// A factor on the current rate.
    Times(f64),
}

pub(super) const HELP: &str = "rate 2000/s | rate +10% | rate -10% | rate x2 | status | stop | help";

/// Reads one line.
pub(super) fn parse(line: &str) -> Result<Command, String> {
    let mut words = line.split_whitespace();
    let ask = match (words.next(), words.next(), words.next()) {
        (Some("rate"), Some(rate), None) => Command::Rate(rate_ask(rate)?),
        (Some("rate"), ..) => return Err("`rate` takes one value, such as `rate 2000/s`".to_owned()),
        (Some("status"), None, _) => Command::Status,
        (Some("stop"), None, _) => Command::Stop,
        (Some("help"), None, _) => Command::Help,
        _ => return Err(format!("unknown command `{}`: expected {HELP}", shown(line))),
    };
    Ok(ask)
}

fn rate_ask(text: &str) -> Result<RateCommand, String> {
    let over_zero = |times: f64| {
        let is_good = times.is_finite() && times > 0.0;
        is_good
            .then_some(RateCommand::Times(times))
            .ok_or_else(|| format!("`{text}` does not leave a rate over 0"))
    };
    if let Some(times) = text.strip_prefix('x') {
        return over_zero(times.parse().map_err(|_| format!("`{text}` is not a factor such as x2"))?);
    }
    let share = |share: &str| {
        quantity::ratio(share).map_err(|_| format!("`{text}` is not a percentage such as +10% or -10%"))
    };
    if let Some(more) = text.strip_prefix('+') {
        return over_zero(1.0 + share(more)?);
    }
    if let Some(less) = text.strip_prefix('-') {
        return over_zero(1.0 - share(less)?);
    }
    quantity::rate_per_s(text).map(RateCommand::PerSecond).map_err(|e| e.to_string())
}

/// The line that a client sent, shortened and without control characters.
fn shown(line: &str) -> String {
    line.trim().chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_a_person_writes_them() {
        for (line, ask) in [
            ("rate 2000/s\n", Command::Rate(RateCommand::PerSecond(2_000.0))),
            ("rate 30/m", Command::Rate(RateCommand::PerSecond(0.5))),
            (" rate  +10% ", Command::Rate(RateCommand::Times(1.1))),
            ("rate -50%", Command::Rate(RateCommand::Times(0.5))),
            ("rate x2", Command::Rate(RateCommand::Times(2.0))),
            ("status", Command::Status),
            ("stop\r\n", Command::Stop),
            ("help", Command::Help),
        ] {
            assert_eq!(parse(line), Ok(ask), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_share_is_told_as_it_was_written() {
        for line in ["rate -5", "rate +5", "rate -x%"] {
            let problem = parse(line).unwrap_err();
            assert!(problem.starts_with(&format!("`{}` is not a percentage", &line[5..])), "{problem}");
        }
    }

    #[test]
    fn what_is_no_request_is_told_on_one_line() {
        for line in [
            "",
            "rate",
            "rate 0",
            "rate -100%",
            "rate x0",
            "rate xnan",
            "rate fast",
            "rate 1 2",
            "go",
            "a\u{1b}b",
            "status now",
        ] {
            let problem = parse(line).unwrap_err();
            assert!(!problem.contains(['\n', '\u{1b}']) && !problem.is_empty(), "{line:?}: {problem}");
        }
    }
}
