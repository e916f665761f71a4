//! Loads of different intensity are not compared.

use super::*;

fn at_rate(i: u64, value: f64, rate: &str) -> Observed {
    point(i, value, &[("load.rate", rate), ("load.threads", "8"), ("command", rate)])
}

/// The p99 at five times the rate is higher on any server: no change of the server.
#[test]
fn a_load_that_changes_is_a_break_with_its_setting_and_no_change() {
    let mut chance = SplitMix(7);
    let mut value = |i: u64| {
        let (level, rate) = if i < 30 { (1.0, "1000/s") } else { (3.0, "5000/s") };
        at_rate(i, level * (1.0 + 0.02 * chance.normal()), rate)
    };
    let found = histories((0..60).map(&mut value).collect(), RULES);
    assert_eq!((found.len(), found[0].breaks.len(), found[0].changes.len()), (1, 1, 0), "{found:?}");
    let Break { at, what } = &found[0].breaks[0];
    let told: Vec<_> =
        what.iter().map(|s| (s.what.as_str(), s.before.as_deref(), s.after.as_deref())).collect();
    assert_eq!((*at, told), (30, vec![("load.rate", Some("1000/s"), Some("5000/s"))]));
}
