//! The knee of response against rate, in the words that text and pages share.

use analysis::Comparisons;
use analysis::knee::{Knee, RATES_MIN, RISE_MIN, STEEPER_MIN, knees};
use record::bakeoff::{Bakeoff, Metric};

use crate::names::Names;
use crate::number::{metric_ends, metric_value, share};
use crate::words::plural;

/// Configurations with a sentence.
const SHOWN: usize = 12;

/// A sentence for each configuration; empty if the plan has too few rates for a knee.
pub(crate) fn sentences(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<String> {
    let names = Names::of(comparisons);
    let all = knees(bakeoff, comparisons);
    if all.iter().all(|knee| knee.rates_per_s.len() < RATES_MIN) {
        return Vec::new();
    }
    let level = share(1.0 - comparisons.rules.alpha);
    let mut told: Vec<String> = all.iter().take(SHOWN).map(|knee| sentence(knee, &names, &level)).collect();
    if all.len() > SHOWN {
        told.push(format!("{} are in the document.", plural(all.len() - SHOWN, "more configuration")));
    }
    told
}

fn sentence(knee: &Knee, names: &Names, level: &str) -> String {
    let condition = names.condition(&knee.levels);
    let at = if condition.is_empty() { String::new() } else { format!(" at {condition}") };
    let name = format!("{}{at}", names.configuration(&knee.a));
    let rate = |per_s: f64| metric_value(Metric::Throughput, per_s);
    let (Some(lowest), Some(highest)) = (knee.rates_per_s.first(), knee.rates_per_s.last()) else {
        return format!("{name}: no rate has a p99.");
    };
    let bend = match &knee.bend {
        Ok(bend) => bend,
        Err(why) => {
            return format!(
                "{name}: {why} ({} to {}, {}).",
                rate(*lowest),
                rate(*highest),
                plural(knee.blocks, "block")
            );
        }
    };
    let interval = bend.interval_per_s.as_ref().map_or_else(
        |why| format!(" (no interval: {why})"),
        |ends| {
            let (low, high) = metric_ends(Metric::Throughput, *ends);
            format!(" ({level}: {low} to {high})")
        },
    );
    format!(
        "{name}: the knee is at {}{interval}. p99 is {} there and {} at {}.",
        rate(bend.per_s),
        metric_value(Metric::P99, bend.p99_s),
        metric_value(Metric::P99, bend.p99_at_highest_s),
        rate(*highest)
    )
}

/// The method behind the sentences.
pub(crate) fn method() -> String {
    format!(
        "Knee: two lines that meet, fitted to ln p99 against the rate over the blocks with all rates; its interval is a \
         bootstrap over blocks. It is named if p99 bends upwards for certain, the second line is at least {STEEPER_MIN} \
         times as steep, and p99 at the highest rate is at least {RISE_MIN} times that at the knee. Its position depends on \
         the measured rates."
    )
}
