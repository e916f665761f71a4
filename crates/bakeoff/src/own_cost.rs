//! The cost of watching: the programs in the kernel, and this process, which reads and prints.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use probes::cost::Cost;
use record::clock::{Clock as _, Monotonic};
use record::missing::Maybe;
use serde_json::{Value, json};

use crate::screen::Screen;

/// CPU time of this process since a start time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnCost {
    at_ns: u64,
    used_ns: u64,
}

impl OwnCost {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self { at_ns: Monotonic.now_ns(), used_ns: used_ns() }
    }

    /// CPU time as a share of one CPU.
    pub(crate) fn ratio_of_one_cpu(&self) -> f64 {
        let wall_ns = Monotonic.now_ns().saturating_sub(self.at_ns).max(1);
        used_ns().saturating_sub(self.used_ns) as f64 / wall_ns as f64
    }

    /// Prints the cost of watching at the end; `programs`: cost of the programs in the kernel, if this
    /// instrument has any.
    pub(crate) fn tell(&self, command: &str, programs: Option<Maybe<Cost>>) {
        let process = format!("this process {:.3} %", self.ratio_of_one_cpu() * 100.0);
        let text = match programs {
            Some(Ok(cost)) => format!("{cost}; {process}"),
            Some(Err(why)) => format!("in the kernel unknown ({why}); {process} of one CPU"),
            None => format!("{process} of one CPU"),
        };
        Screen::new().line(&format!("bakeoff {command}: watching cost {text}"));
    }

    /// Adds the cost of watching so far to a report.
    pub(crate) fn add_to(&self, document: &mut Value, programs: Option<Maybe<Cost>>) {
        let mut own = json!({ "process_ratio": self.ratio_of_one_cpu() });
        match programs {
            Some(Ok(cost)) => {
                own["programs_ratio"] = json!(cost.ratio_of_one_cpu());
                let events = cost.events.iter();
                own["events"] = events
                    .map(|e| json!({ "event": e.name, "count": e.count, "ns_per_event": e.ns }))
                    .collect();
            }
            Some(Err(why)) => {
                own["programs_ratio"] = Value::Null;
                own["missing"] = json!({ "programs_ratio": why.reason });
            }
            None => {}
        }
        document["own_cost"] = own;
    }
}

/// CPU time of this process so far.
pub(crate) fn used_ns() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    usage.map_or(0, |u| (u.user_time() + u.system_time()).num_nanoseconds().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use probes::cost::OfEvent;
    use record::missing::Missing;

    use super::*;

    #[test]
    fn a_process_that_works_has_a_cost_and_a_missing_one_says_why() {
        let own = OwnCost::start();
        while used_ns() == own.used_ns {
            black_box(0);
        }
        assert!(own.ratio_of_one_cpu() > 0.0);
        let events = vec![OfEvent { name: "a request", ns: 500.0, count: 4 }];
        let mut document = json!({});
        own.add_to(&mut document, Some(Ok(Cost { events, elapsed_ns: 1_000_000 })));
        assert_eq!(document["own_cost"]["programs_ratio"], json!(0.002));
        own.add_to(&mut document, Some(Err(Missing::because("no statistics"))));
        assert_eq!(document["own_cost"]["programs_ratio"], Value::Null);
        assert_eq!(document["own_cost"]["missing"]["programs_ratio"], "no statistics");
    }
}
