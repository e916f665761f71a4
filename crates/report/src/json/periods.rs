//! `bakeoff.periods/1`: cycles in time.

use analysis::cycles::{Cycle, Cycles, Window};
use record::missing::Missing;
use serde_json::{Value, json};

use super::object::Object;
use crate::text::Cells;
use crate::words::by_the_clock;

/// The document of the cycles of a metric.
///
/// - `cells`: what the cells of the file lacked.
pub fn periods(metric: &str, zone: &str, cells: Cells, found: &Cycles) -> Value {
    let background = found.background.as_ref().map_err(Clone::clone);
    let background = background.map(|b| json!({"model": "ar1", "ar1": b.ar1, "variance": b.variance}));
    let cannot_tell = found.cannot_tell.iter().map(|period| {
        Object::default().maybe("period_s", period.period_s.clone()).with("why", period.why.clone()).finish()
    });
    Object::default()
        .with("schema", "bakeoff.periods/1")
        .with("metric", metric)
        .with("zone", zone)
        .with("n", found.n)
        .with("missing", cells.missing)
        .with("in_repeated_hour", cells.in_repeated_hour)
        .with("same_time", found.doubled)
        .with("span_s", found.span_s)
        .with("even", found.even)
        .maybe("background", background)
        .with("periods", found.cycles.iter().map(|c| cycle(c, found.mean)).collect::<Vec<_>>())
        .with("cannot_tell", cannot_tell.collect::<Vec<_>>())
        .finish()
}

fn cycle(cycle: &Cycle, mean: f64) -> Value {
    let ratio = cycle.amplitude / mean.abs();
    let none = || Missing::because("the mean is 0");
    let sine = || Missing::because("the cycle is a sine, described by its amplitude");
    let no_clock = || Missing::because("the period is neither a day nor a week");
    let (local, utc) = match by_the_clock(cycle).ok_or_else(no_clock) {
        Ok(at) if cycle.is_universal => (
            Err(Missing::because("the cycle follows universal time, not a change of the local clock")),
            Ok(at),
        ),
        Ok(at) => (Ok(at), Err(Missing::because("the cycle is described in local time"))),
        Err(why) => (Err(why.clone()), Err(why)),
    };
    Object::default()
        .with("period_s", cycle.period_s)
        .with("p", cycle.p)
        .with("amplitude", cycle.amplitude)
        .maybe("amplitude_ratio", if ratio.is_finite() { Ok(ratio) } else { Err(none()) })
        .with("strength_ratio", cycle.strength)
        .with("harmonics", cycle.harmonics.clone())
        .maybe("window", cycle.window.as_ref().map(window).ok_or_else(sine))
        .maybe("local", local)
        .maybe("utc", utc)
        .finish()
}

/// Part of a cycle, against the rest of it.
fn window(window: &Window) -> Value {
    let ratio = window.change / window.rest.abs();
    let none = || Missing::because("the mean outside the window is 0");
    let interval = window.interval.clone();
    Object::default()
        .with("from_s", window.from_s)
        .with("length_s", window.length_s)
        .with("change", window.change)
        .maybe("change_low", interval.clone().map(|interval| interval.0))
        .maybe("change_high", interval.map(|interval| interval.1))
        .maybe("change_ratio", if ratio.is_finite() { Ok(ratio) } else { Err(none()) })
        .finish()
}
