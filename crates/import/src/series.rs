//! Converts an import into series of the archive, which makes old runs comparable with new ones.
//!
//! Series names begin with the name of the tool. Rates end in `_per_s`; a value that the tool prints in
//! percent becomes a `_ratio`.

use crate::render::PlockstatLog;
use crate::solaris::lockstat::Machine;
use crate::solaris::lockstat::{Counts, Run, Verdict, judge};
use crate::solaris::mpstat::{self, COLUMNS, FIRST_PERCENTAGE, Rates};
use crate::vmstat_s::{Interval, STATES};
use record::series::Sample;

/// Time and machine of a value.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'h> {
    /// Milliseconds since the run's anchor.
    pub t_ms: i64,
    /// Name of the machine.
    pub host: &'h str,
}

impl Stamp<'_> {
    fn sample(&self, name: String, labels: String, value: f64) -> Sample {
        Sample { t_ms: self.t_ms, host: self.host.into(), name: name.into(), labels: labels.into(), value }
    }
}

/// Adds a block of mpstat: the mean over its CPUs, the utilization of the busiest CPU, and the number of full
/// CPUs.
pub fn mpstat(sample: &mpstat::Sample, full_pct: f64, stamp: Stamp<'_>, into: &mut Vec<Sample>) {
    let aggregate = sample.aggregate(Rates::Mean);
    for (column, (name, value)) in COLUMNS.iter().zip(aggregate.values).enumerate() {
        let Some(value) = value else { continue };
        let is_share = column >= FIRST_PERCENTAGE;
        let (name, value) = if is_share {
            (format!("mpstat_{name}_ratio"), value / 100.0)
        } else {
            (format!("mpstat_{name}_per_s"), value)
        };
        into.push(stamp.sample(name, String::new(), value));
    }
    into.push(stamp.sample("mpstat_cpus".into(), String::new(), f64::from(aggregate.cpus)));
    if sample.columns.has(COLUMNS.len() - 1) {
        let busiest = sample.rows.iter().map(mpstat::Row::busy_pct).max().unwrap_or(0);
        into.push(stamp.sample("mpstat_busiest_cpu_ratio".into(), String::new(), busiest as f64 / 100.0));
        let full = sample.saturated(full_pct).count();
        into.push(stamp.sample("mpstat_full_cpus".into(), String::new(), full as f64));
    }
}

/// Adds a run of lockstat: the cost of each lock, and their total.
///
/// The total of a log that lacks rows or records has the label `bound=lower`. `lockstat_left_out_events`
/// counts the events of the titles that the rows do not contain.
pub fn lockstat(run: &Run, machine: &Machine, stamp: Stamp<'_>, into: &mut Vec<Sample>) {
    let judged = judge(run, machine);
    for Verdict { section, lock, merits } in &judged.verdicts {
        let labels =
            labels(&[("event", &section.event.name), ("lock", &lock.lock), ("caller", &lock.caller)]);
        let count = match section.counts {
            Counts::Events => "lockstat_events",
            Counts::PerSecond => "lockstat_events_per_s",
        };
        into.push(stamp.sample(count.into(), labels.clone(), lock.count as f64));
        for (name, value) in
            [("lockstat_threads", &merits.threads), ("lockstat_cpu_util_ratio", &merits.cpu_util_ratio)]
        {
            if let Ok(value) = value {
                into.push(stamp.sample(name.into(), labels.clone(), *value));
            }
        }
    }
    if let Ok(total) = judged.total {
        let labels = if judged.lower_bound { "bound=lower" } else { "" };
        into.push(stamp.sample("lockstat_total_cpu_util_ratio".into(), labels.into(), total));
    }
    for section in &run.sections {
        if let Some((shown, events)) = section.cut() {
            let labels = labels(&[("event", &section.event.name)]);
            into.push(stamp.sample("lockstat_left_out_events".into(), labels, (events - shown) as f64));
        }
    }
}

/// Adds a plockstat log: seconds of each lock and kind.
pub fn plockstat(log: &PlockstatLog, stamp: Stamp<'_>, into: &mut Vec<Sample>) {
    for section in &log.sections {
        for lock in &section.locks {
            let labels =
                labels(&[("event", section.kind.title()), ("lock", &lock.lock), ("caller", &lock.caller)]);
            into.push(stamp.sample("plockstat_events".into(), labels.clone(), lock.count as f64));
            into.push(stamp.sample("plockstat_s".into(), labels, lock.total_ns() / 1e9));
        }
    }
}

/// Adds an interval between two snapshots of `vmstat -s`.
pub fn vmstat(interval: &Interval, stamp: Stamp<'_>, into: &mut Vec<Sample>) {
    let mut put = |name: &str, value: record::missing::Maybe<f64>| {
        if let Ok(value) = value {
            into.push(stamp.sample(format!("vmstat_{name}_ratio"), String::new(), value));
        }
    };
    for (name, part) in STATES {
        put(name, interval.ratio(part));
    }
    put("busy", interval.busy_ratio());
    put("unaccounted", interval.unaccounted_ratio.clone());
}

/// Formats labels, such as `event=Adaptive mutex spin,lock=pcf,caller=page_free`. A comma within a name would
/// end it, so it becomes `;`.
fn labels(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(key, value)| format!("{key}={}", value.replace(',', ";"))).collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Input;

    #[test]
    fn percentages_become_ratios_and_the_busiest_cpu_is_kept_beside_the_mean() {
        let text = "CPU  intr  usr sys  wt idl\n  0   100   70  30   0   0\n  1   300    0   0   0 100\n";
        let mut series = Vec::new();
        mpstat::read(Input::Whole(Box::new(text.as_bytes())), &mut |event| {
            if let mpstat::Event::Sample(sample) = event {
                mpstat(sample, 99.0, Stamp { t_ms: 3000, host: "h" }, &mut series);
            }
            Ok(())
        })
        .unwrap();
        let of = |name: &str| series.iter().find(|s| s.name == name).map(|s| (s.t_ms, s.value));
        assert_eq!(of("mpstat_intr_per_s"), Some((3000, 200.0)));
        assert_eq!(of("mpstat_usr_ratio"), Some((3000, 0.35)));
        assert_eq!(of("mpstat_busiest_cpu_ratio"), Some((3000, 1.0)));
        assert_eq!(of("mpstat_full_cpus"), Some((3000, 1.0)));
        assert_eq!(of("mpstat_minf_per_s"), None);
    }

    #[test]
    fn a_table_that_was_cut_is_kept_as_a_lower_bound() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/lockstat/solaris-10-kWP-512-cpus.txt");
        let text = std::fs::read(path).unwrap();
        let machine = Machine { cpus: Some(512), elapsed_s: None, spin_ns: None };
        let mut series = Vec::new();
        crate::solaris::lockstat::read(Input::Whole(Box::new(&text[..])), &mut |found| {
            if let crate::solaris::lockstat::Found::Run(run) = found {
                lockstat(run, &machine, Stamp { t_ms: 0, host: "h" }, &mut series);
            }
            Ok(())
        })
        .unwrap();
        let of = |name: &str| {
            let sample = series.iter().find(|s| s.name == name).unwrap();
            (sample.labels.as_str(), sample.value)
        };
        assert_eq!(of("lockstat_total_cpu_util_ratio").0, "bound=lower");
        assert_eq!(
            of("lockstat_left_out_events"),
            ("event=Adaptive mutex spin", f64::from(1_713_116 - 1_635_208))
        );
    }

    #[test]
    fn a_comma_in_a_name_does_not_end_its_label() {
        assert_eq!(labels(&[("lock", "a,b"), ("caller", "c")]), "lock=a;b,caller=c");
    }
}
