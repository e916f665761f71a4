//! Conditions of measurement: values under different ones are not compared.
//!
//! Each load is a series, whatever the order in which the loads ran. A machine that changes for good is a
//! break, and its series continues. Machines that alternate are series: a break at each run would leave
//! nothing to test.

use std::collections::{BTreeMap, BTreeSet};

use super::point::Point;
use super::series::Break;
use super::setting::LOAD;
use super::suspect::Suspect;

/// Facts of a machine. A difference in one of them makes another machine.
const MACHINE: [&str; 7] =
    ["cpu.model", "cpu.count", "cpu.sockets", "cpu.cores", "memory.bytes", "numa.nodes", "kernel.release"];

/// Name and value of a condition.
type Named = (String, String);

/// Values of one load, and of one machine if machines alternate.
#[derive(Debug)]
pub(super) struct Part {
    /// Conditions that the other parts do not share.
    pub(super) told_apart: Vec<Named>,
    /// Values in time order.
    pub(super) points: Vec<Point>,
}

/// Sorts the values of one metric and subject by their conditions; the part with the earliest value first.
///
/// - `points`: in time order.
pub(super) fn parts(points: Vec<Point>) -> Vec<Part> {
    let mut loads: BTreeMap<Vec<Named>, Vec<Point>> = BTreeMap::new();
    for point in points {
        loads.entry(load_of(&point)).or_default().push(point);
    }
    let shared = shared(loads.keys());
    let of_load = |(load, points): (Vec<Named>, Vec<Point>)| {
        let own = load.into_iter().filter(|named| !shared.contains(named));
        let own: Vec<Named> =
            own.map(|(name, value)| (name.trim_start_matches(LOAD).to_owned(), value)).collect();
        by_machine(points)
            .into_iter()
            .map(move |part| Part { told_apart: [own.clone(), part.told_apart].concat(), ..part })
    };
    let mut parts: Vec<Part> = loads.into_iter().flat_map(of_load).collect();
    parts.sort_by_key(|part| part.points.first().map(|point| point.at_unix_ns));
    parts
}

fn load_of(point: &Point) -> Vec<Named> {
    let of_load = point.facts.range(LOAD.to_owned()..).take_while(|(name, _)| name.starts_with(LOAD));
    of_load.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Conditions that all have.
fn shared<'a>(all: impl Iterator<Item = &'a Vec<Named>>) -> BTreeSet<Named> {
    let sets = all.map(|one| one.iter().cloned().collect::<BTreeSet<Named>>());
    sets.reduce(|a, b| a.intersection(&b).cloned().collect()).unwrap_or_default()
}

/// The values by machine if one machine comes back after another; otherwise all of them in one part.
fn by_machine(points: Vec<Point>) -> Vec<Part> {
    let (machines, of_each) = machines(&points);
    // Machines are numbered in the order of their first values.
    let is_back = of_each.windows(2).any(|pair| pair[1] < pair[0]);
    if !is_back {
        return vec![Part { told_apart: Vec::new(), points }];
    }
    let is_shared = |name: &str, value: &str| {
        machines.iter().all(|machine| machine.get(name).is_some_and(|other| is_same(name, value, other)))
    };
    let own = |machine: &BTreeMap<String, String>| {
        machine.clone().into_iter().filter(|(name, value)| !is_shared(name, value)).collect()
    };
    let mut parts: Vec<Part> =
        machines.iter().map(|machine| Part { told_apart: own(machine), points: Vec::new() }).collect();
    for (point, machine) in points.into_iter().zip(of_each) {
        parts[machine].points.push(point);
    }
    parts
}

/// The machines, each as far as its values know it, and the machine of each value.
///
/// A value belongs to the machine that was measured last, of those that contradict none of its facts.
fn machines(points: &[Point]) -> (Vec<BTreeMap<String, String>>, Vec<usize>) {
    let mut known: Vec<BTreeMap<String, String>> = Vec::new();
    // The machine that was measured last comes last.
    let (mut recent, mut of_each) = (Vec::new(), Vec::with_capacity(points.len()));
    for point in points {
        let facts = || MACHINE.into_iter().filter_map(|name| Some((name, point.facts.get(name)?)));
        let is_of = |machine: &BTreeMap<String, String>| {
            facts().all(|(name, value)| machine.get(name).is_none_or(|known| is_same(name, known, value)))
        };
        let place = recent.iter().rposition(|machine: &usize| is_of(&known[*machine]));
        let machine = place.map_or(known.len(), |place| recent.remove(place));
        if machine == known.len() {
            known.push(BTreeMap::new());
        }
        for (name, value) in facts() {
            known[machine].entry(name.to_owned()).or_insert_with(|| value.clone());
        }
        recent.push(machine);
        of_each.push(machine);
    }
    (known, of_each)
}

/// Changes of the machine: a fact differs from the last value that knows it. A value that lacks the fact says
/// nothing about it, and does not hide a change.
pub(super) fn breaks(points: &[Point]) -> Vec<Break> {
    let mut known: BTreeMap<&str, &String> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let mut what = Vec::new();
        for name in MACHINE {
            let Some(after) = point.facts.get(name) else { continue };
            let before = known.insert(name, after);
            let Some(before) = before.filter(|before| !is_same(name, before, after)) else { continue };
            let (before, after) = (Some(before.clone()), Some(after.clone()));
            what.push(Suspect { what: name.to_owned(), before, after });
        }
        if !what.is_empty() {
            found.push(Break { at, what });
        }
    }
    found
}

/// Whether two values of a fact are of one machine. Its memory differs by at most 2 % between kernels.
fn is_same(name: &str, a: &str, b: &str) -> bool {
    let are_close = || {
        let (Ok(a), Ok(b)) = (a.parse::<f64>(), b.parse::<f64>()) else { return false };
        (a - b).abs() <= 0.02 * a.max(b)
    };
    a == b || (name == "memory.bytes" && are_close())
}
