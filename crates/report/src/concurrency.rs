//! Throughput against the number of workers, in the words that text and pages share.

use analysis::concurrency::{Clue, Concurrency, Evidence, FULL_RATIO};

use crate::names::Names;
use crate::number::{change, change_interval, percent, significant};
use crate::words::{cliff_sentence, law_sentence};

/// Efficiency below which throughput does not grow with the number of workers.
const EFFICIENCY_MIN: f64 = 0.9;

/// `wal`, `wal at rate 500`: a configuration and its condition.
pub(crate) fn name(of: &Concurrency, names: &Names) -> String {
    let condition = names.condition(&of.levels);
    let at = if condition.is_empty() { String::new() } else { format!(" at {condition}") };
    format!("{}{at}", names.configuration(&of.a))
}

/// The law, the cliff and the evidence for what limits throughput, one sentence each.
pub(crate) fn sentences(of: &Concurrency) -> Vec<String> {
    // A round of these is a block.
    let laws = law_sentence(&of.scaling, &of.factor).into_iter().map(|text| text.replace("rounds", "blocks"));
    let cliff = of.scaling.cliff.as_ref().map(|cliff| cliff_sentence(cliff, &of.factor));
    laws.chain(cliff).chain(causes(of)).collect()
}

fn clue(of: &Concurrency, clue: Clue) -> Option<&Evidence> {
    of.evidence.iter().find(|evidence| evidence.clue == clue)
}

/// Evidence for what limits throughput with the most workers; empty if it grows with their number.
fn causes(of: &Concurrency) -> Vec<String> {
    let (Some(first), Some(last)) = (of.steps.first(), of.steps.last()) else { return Vec::new() };
    let Ok(efficiency) = last.efficiency else { return Vec::new() };
    if efficiency >= EFFICIENCY_MIN {
        return Vec::new();
    }
    let (fewest, most) = (first.workers, last.workers);
    let mut told = vec![format!(
        "With {most} {}, each has {} of the throughput that it has with {fewest}.",
        of.factor,
        percent(efficiency)
    )];
    let grew = |which: Clue| clue(of, which).filter(|evidence| evidence.grew());
    if let Some(cpu) = grew(Clue::CpuPerEvent) {
        let interval =
            cpu.interval.as_ref().map_or(String::new(), |(low, high)| change_interval(*low, *high));
        told.push(format!("An event takes {} {interval} CPU time there.", change(cpu.change)));
    }
    if let Some(locks) = grew(Clue::LockCpu) {
        let (from, to) = (percent(locks.ends.0), percent(locks.ends.1));
        told.push(format!("Time spun for locks of the kernel grows from {from} to {to} of all CPUs."));
    }
    let busy = clue(of, Clue::Busy).map(|evidence| evidence.ends.1);
    let waiting = clue(of, Clue::Waiting).map_or(String::new(), |evidence| {
        format!("; {} threads wait for a CPU, on average", significant(evidence.ends.1))
    });
    match busy {
        Some(busy) if busy >= FULL_RATIO => {
            told.push(format!("The machine has no CPU time left: its CPUs are {} busy{waiting}.", percent(busy)));
        }
        Some(busy) if grew(Clue::CpuPerEvent).is_none() => told.push(format!(
            "The machine has CPU time left: its CPUs are {} busy{waiting}, and an event does not clearly take more CPU time. \
             Workers wait for something else, or for one thread that keeps its CPU full; the instruments `off-cpu` and \
             `ulocks` show where.",
            percent(busy)
        )),
        Some(busy) => told.push(format!("The CPUs are {} busy{waiting}.", percent(busy))),
        None => {}
    }
    told
}
