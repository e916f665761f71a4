//! `bakeoff.dder/1`: reads at every buffer size.

use analysis::sweep::{Band, Cell, Cost, Estimate, Sweep, Versus};
use record::bakeoff::Bakeoff;
use record::missing::Missing;
use serde_json::{Value, json};

use super::object::Object;

/// The document of a sweep and of its comparison with another.
pub fn sweep(bakeoff: &Bakeoff, sweep: &Sweep, versus: &[Versus]) -> Value {
    let starts = sweep.starts.iter().map(|(how, found)| {
        Object::default().with("how", how.clone()).maybe("start_ns", found.clone().map(estimate)).finish()
    });
    let object = Object::default()
        .with("schema", "bakeoff.dder/1")
        .with("run", bakeoff.header.id.to_string())
        .with("state", bakeoff.header.state.word())
        .with("read_from", read_from(bakeoff))
        .with("cells", sweep.cells.iter().map(cell).collect::<Vec<_>>())
        .with("starts", starts.collect::<Vec<_>>())
        .maybe("throttled", super::throttled::of_all(bakeoff));
    if versus.is_empty() {
        return object.finish();
    }
    object.with("compared", versus.iter().map(compared).collect::<Vec<_>>()).finish()
}

/// File system and device of the files, and whether direct reads bypassed the page cache.
fn read_from(bakeoff: &Bakeoff) -> Value {
    let fact = |name: &str| {
        let unknown = || Missing::because("it was not recorded");
        bakeoff.environment.facts.get(name).cloned().unwrap_or_else(|| Err(unknown()))
    };
    Object::default()
        .maybe("file_system", fact("data.file_system"))
        .maybe("device", fact("data.device"))
        .maybe("direct", fact("data.direct"))
        .finish()
}

fn cell(cell: &Cell) -> Value {
    let points = cell.points.iter().map(|p| {
        json!({"size_bytes": p.size_bytes, "bytes_per_s": p.bytes_per_s(), "call_ns": p.call_ns,
               "call_ns_low": p.call_ns_range.0, "call_ns_high": p.call_ns_range.1, "n": p.n})
    });
    let shifts = cell
        .size_shifts
        .iter()
        .map(|s| json!({"at": [s.between.0, s.between.1], "unit": "bytes", "by": "size", "ratio": s.ratio}));
    let moments = cell
        .time_shifts
        .iter()
        .map(|s| json!({"at": s.at_s, "unit": "s", "by": "time", "ratio": s.ratio, "cause": s.cause}));
    let multiples = cell.multiples.iter().map(|m| {
        json!({"of_bytes": m.of_bytes, "ratio": m.ratio, "low": m.low, "high": m.high, "n": m.n, "confirmed": m.confirmed,
               "is_period": m.is_period})
    });
    let peak = cell
        .shape
        .clone()
        .map(|s| json!({"size_bytes": estimate(s.peak_bytes), "bytes_per_s": estimate(s.peak_bytes_per_s)}));
    Object::default()
        .with("how", cell.how.clone())
        .with("data", cell.data.clone())
        .with("rounds", cell.rounds)
        .with("points", points.collect::<Vec<_>>())
        .maybe("cost", cell.cost.as_ref().map(cost).map_err(Clone::clone))
        .maybe("peak", peak)
        .maybe("plateau_bytes_per_s", cell.shape.clone().map(|s| estimate(s.plateau_bytes_per_s)))
        .maybe("knee_bytes", cell.shape.clone().map(|s| estimate(s.knee_bytes)))
        .maybe("still_rises", cell.shape.clone().map(|s| s.still_rises))
        .with("bands", cell.bands.iter().map(band).collect::<Vec<_>>())
        .with("multiples", multiples.collect::<Vec<_>>())
        .with("shifts", shifts.chain(moments).collect::<Vec<_>>())
        .maybe(
            "speed",
            cell.speed
                .clone()
                .map(|s| json!({"is_steady": s.is_steady, "low_ratio": s.low, "high_ratio": s.high})),
        )
        .maybe("smoothness", cell.smoothness.clone())
        .maybe("quietness", cell.quietness.clone())
        .maybe("spread_ratio", cell.spread_ratio.clone())
        .maybe(
            "correlations",
            cell.correlations
                .clone()
                .map(|[time, size, halves]| json!({"time": time, "size": size, "halves": halves})),
        )
        .with("verdict", cell.verdict())
        .finish()
}

fn band(band: &Band) -> Value {
    let waves = band.waves.iter().zip(band.harmonics()).map(|(w, times)| {
        json!({"harmonic": times, "period_bytes": w.length, "strength": w.strength, "amplitude_ratio": w.amplitude,
               "p": w.p})
    });
    json!({"period_bytes": band.period_bytes, "strength": band.strength(), "amplitude_ratio": band.amplitude(),
           "harmonics": waves.collect::<Vec<_>>()})
}

fn cost(cost: &Cost) -> Value {
    Object::default()
        .with("call_ns", estimate(cost.call_ns))
        .with("byte_ns", estimate(cost.byte_ns))
        .maybe("aligned_byte_ns", cost.aligned_byte_ns.clone().map(estimate))
        .with("page_ns", estimate(cost.page_ns))
        .finish()
}

fn estimate(e: Estimate) -> Value {
    json!({"value": e.value, "low": e.interval.map(|i| i.0), "high": e.interval.map(|i| i.1)})
}

fn compared(versus: &Versus) -> Value {
    let places = versus.places.clone().map(|places| {
        let place = |p: &analysis::sweep::Place| {
            json!({"from_bytes": p.sizes.0, "to_bytes": p.sizes.1, "ratio": p.ratio, "low": p.low, "high": p.high})
        };
        places.iter().map(place).collect::<Vec<_>>()
    });
    Object::default()
        .with("how", versus.how.clone())
        .with("data", versus.data.clone())
        .maybe("places", places)
        .with("same", versus.same)
        .with("verdict", versus.verdict.clone())
        .finish()
}
