//! The design in slices: the series of a block are alive at once and are loaded in turns.

use std::path::Path;
use std::time::Duration;

use record::bakeoff::{Levels, Trial};
use record::load::{LoadSettings, Loop, Think};
use record::quantity;

use super::Plan;
use crate::matrix;
use crate::order::Stream;
use crate::phases::When;
use crate::server::Ready;
use crate::slices::Slices;

/// Stream that draws the order of the turns of block 1; those of other draws have smaller numbers.
const TURNS_STREAM: u64 = 1 << 48;

/// Draws the order of the turns in every round of a block.
#[derive(Debug)]
pub struct TurnOrder {
    stream: Stream,
    series: usize,
}

impl Iterator for TurnOrder {
    type Item = Vec<usize>;

    /// The order of the next round: numbers of series, from 0.
    fn next(&mut self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.series).collect();
        self.stream.shuffle(&mut order);
        Some(order)
    }
}

impl Plan {
    /// The turns, if the series of a block are alive at once; `None` if one series follows another.
    pub fn slices(&self) -> Option<Slices> {
        self.slices
    }

    /// Order of the turns in a block, drawn from the seed: round by round, without end.
    ///
    /// - `series`: number of series that take turns.
    pub fn turn_order(&self, block: u32, series: usize) -> TurnOrder {
        TurnOrder { stream: Stream::of(self.seed, TURNS_STREAM + u64::from(block)), series }
    }

    /// Reasons that the plan cannot be measured in slices: expected and found text of each.
    pub(crate) fn no_slices(&self) -> Vec<String> {
        let mut refused: Vec<String> = Vec::new();
        let mut refuse = |is: bool, expected: &str| {
            if is {
                refused.push(expected.to_owned());
            }
        };
        refuse(self.server.is_none(), "a [server]: a target that bakeoff does not start cannot be frozen");
        let has_several = self.configurations().iter().any(|levels| self.instances(levels) > 1);
        refuse(has_several, "one server instance per series: `server.instances` is not supported");
        refuse(self.limits().0.is_some(), "no `server.cpu_max`: a quota's periods do not match the turns");
        refuse(self.judge.sequential, "no `design.sequential`");
        refuse(self.control_arm, "no `observe.control_arm`");
        refuse(
            !self.instruments.is_empty(),
            "no `observe.instruments`: they observe the machine, on which the series take turns",
        );
        refuse(self.warmup.is_judged(), "no `phases.warm-up.judge`: a warm-up in turns has a fixed length");
        refuse(
            self.values.iter().any(|value| value.when == When::Interval),
            "no `values.*.when = \"interval\"`: between turns, the server does not answer",
        );
        let all = matrix::series(&self.factors, &self.limits);
        if let Some((_, cells)) = all.iter().find(|(_, cells)| cells.len() > 1) {
            refused.push(format!(
                "one cell per series, found {}: make the sub-plot factors whole-plot factors",
                cells.len()
            ));
        }
        refused.extend(self.load_without_turns().map(str::to_owned));
        if refused.is_empty() {
            refused.extend(self.shared_address());
        }
        refused
    }

    /// Reason that a load of the plan cannot rest between turns.
    fn load_without_turns(&self) -> Option<&'static str> {
        let of = |settings: &LoadSettings| match settings.pace {
            Loop::Open(_) => Some("a closed loop: no `load.rate`, and no `load.arrivals` with rates"),
            Loop::Closed { think } if think != Think::None => Some("no `load.think`"),
            Loop::Closed { .. } if !settings.ramp_up.is_zero() || !settings.ramp_down.is_zero() => {
                Some("no `load.ramp_up` and no `load.ramp_down`")
            }
            Loop::Closed { .. } if settings.has_loops() => {
                Some("a thread for each connection: no `load.connections` and no streams")
            }
            Loop::Closed { .. } if settings.scripts.is_lua() => Some("no script in Lua"),
            Loop::Closed { .. } if settings.client.keep_awake => Some("no `load.keep_awake`"),
            Loop::Closed { .. } => None,
        };
        if self.rate_to_find().is_some() {
            return Some("a closed loop: no `load.rate`, and no `load.arrivals` with rates");
        }
        let first = self.trials().into_iter().filter(|trial| trial.block == 1);
        first
            .map(|trial| self.load_settings(&trial, Path::new("/scratch")))
            .find_map(|settings| of(&settings))
    }

    /// Reason that two servers of a block cannot be alive at once: they would have the same address.
    fn shared_address(&self) -> Option<String> {
        let first: Vec<Trial> = self.trials().into_iter().filter(|trial| trial.block == 1).collect();
        let mut seen: Vec<(Vec<String>, Levels)> = Vec::new();
        for trial in first {
            // As when the plan runs, each series has its own folder.
            let folder = format!("/scratch/{}", trial.series);
            let addresses = self.addresses_of(&trial, Path::new(&folder));
            let same = |known: &&(Vec<String>, Levels)| known.0.iter().any(|one| addresses.contains(one));
            if let Some((known, _)) = seen.iter().find(same) {
                let shared = known.iter().find(|one| addresses.contains(one))?;
                return Some(format!(
                    "a separate address for each server, since all servers of a block are alive at once; two \
                     have {shared}: use a socket in {{scratch}}"
                ));
            }
            seen.push((addresses, trial.levels));
        }
        None
    }

    fn addresses_of(&self, trial: &Trial, scratch: &Path) -> Vec<String> {
        let ready = self.servers(&trial.levels, scratch).into_iter().filter_map(|spec| match spec.ready {
            Ready::Tcp { host, port } => Some(format!("tcp:{host}:{port}")),
            Ready::Socket(path) => Some(format!("socket:{path}")),
            Ready::Command(_) => None,
        });
        let settings = self.load_settings(trial, scratch);
        let connects = !matches!(settings.target.scheme(), "exec" | "null" | "sqlite" | "dd");
        let of_load = settings.http.unix_socket.clone().or_else(|| {
            let target = settings.target.to_string();
            connects.then_some(target)
        });
        ready.chain(of_load).collect()
    }

    /// Remark on the turns, for the user.
    pub(crate) fn slices_remark(&self) -> Option<String> {
        let slices = self.slices?;
        let series = matrix::series(&self.factors, &self.limits).len();
        let turns = |time: Duration| (time.as_secs_f64() / slices.slice.as_secs_f64()).ceil();
        Some(format!(
            "in slices: {} of a block are alive at once and take about {} turns of {} ms each in random order, of \
             which {} warm up; idle servers are frozen, and {} ms after each thaw do not count",
            quantity::plural(series as u64, "server"),
            turns(self.warmup.min + self.measure),
            slices.slice.as_millis(),
            turns(self.warmup.min),
            slices.settle.as_millis(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "schema = 1\ntitle = \"t\"\n[factors.arm]\nvalues = [\"a\", \"b\", \"c\"]\nreference = \"a\"\n\
         level = \"whole-plot\"\n[design]\nblocks = 6\nmode = \"slices\"\n[load]\n\
         target = \"redis+unix:{scratch}/redis.sock\"\n[server]\ncommand = \"redis-server {arm}\"\n\
         ready = \"socket:{scratch}/redis.sock\"\n[phases]\nmeasure = { time = \"3s\" }\n";

    fn read(text: &str) -> Result<Plan, String> {
        crate::read(text, "t.toml").map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_plan_in_slices_says_how_long_it_takes_and_observes_nothing() {
        let plan = read(PLAN).unwrap();
        let slices = plan.slices().unwrap();
        assert_eq!((slices.slice, slices.settle), (Slices::DEFAULT, Slices::SETTLE));
        assert!(plan.instruments().is_empty());
        // 5 s of warm-up and 3 s of measurement, each stretched by a fifteenth; one series follows another.
        let least = 18.0 * 8.0 * (1.0 + 20.0 / 300.0);
        assert!((plan.estimate().time_min.as_secs_f64() - least).abs() < 0.01, "{:?}", plan.estimate());
        let notes: Vec<&str> = plan.notes().iter().map(|note| note.text.as_str()).collect();
        assert!(notes.iter().any(|n| n.contains("3 servers of a block are alive at once")), "{notes:?}");
        let value =
            |key: &str| plan.resolved().iter().find(|r| r.key == key).map(|r| (r.value.as_str(), r.written));
        assert_eq!(value("observe.instruments"), Some(("[]", false)));
        assert_eq!(value("design.slice"), Some(("\"300ms\"", false)));
        let plain = read(&PLAN.replace("mode = \"slices\"\n", "mode = \"series\"\n")).unwrap();
        assert_eq!((plain.slices(), plain.instruments()), (None, &["cpu".to_owned()][..]));
        let short = read(&PLAN.replace("\"slices\"\n", "\"slices\"\nslice = \"100ms\"\n")).unwrap();
        assert_eq!(short.slices().unwrap().slice, Duration::from_millis(100));
    }

    /// The unkind truth: each of these would be measured as something else, or would hang.
    #[test]
    fn what_slices_do_not_support_is_refused_in_one_line() {
        let slices = "mode = \"slices\"\n";
        let server = "[server]\ncommand = \"redis-server {arm}\"\nready = \"socket:{scratch}/redis.sock\"\n";
        let load = "redis.sock\"\n[server]";
        for (from, to, says) in [
            (server, String::new(), "a [server]"),
            (
                "[design]",
                "[factors.threads]\nvalues = [1, 2]\nlevel = \"sub-plot\"\n[design]".to_owned(),
                "one cell per",
            ),
            ("[phases]", "instances = 2\n[phases]".to_owned(), "one server instance"),
            ("[phases]", "cpu_max = 1.5\n[phases]".to_owned(), "no `server.cpu_max`"),
            (slices, format!("{slices}sequential = true\n"), "no `design.sequential`"),
            (load, "redis.sock\"\nrate = 100\n[server]".to_owned(), "a closed loop"),
            (load, "redis.sock\"\nrate = [\"50%\"]\n[server]".to_owned(), "a closed loop"),
            (load, "redis.sock\"\narrivals = \"ramp:1-9\"\n[server]".to_owned(), "a closed loop"),
            (load, "redis.sock\"\nthink = \"10ms\"\n[server]".to_owned(), "no `load.think`"),
            (load, "redis.sock\"\nramp_up = \"1s\"\n[server]".to_owned(), "no `load.ramp_up`"),
            (load, "redis.sock\"\nconnections = 4\n[server]".to_owned(), "a thread for each connection"),
            (load, "redis.sock\"\nkeep_awake = true\n[server]".to_owned(), "no `load.keep_awake`"),
            (
                "[phases]",
                "[phases]\nwarm-up = { min = \"1s\", max = \"9s\", judge = [\"throughput\"] }".to_owned(),
                "a warm-up in turns",
            ),
            (
                "[phases]",
                "[observe]\ninstruments = [\"cpu\"]\n[phases]".to_owned(),
                "no `observe.instruments`",
            ),
            ("[phases]", "[observe]\ncontrol_arm = true\n[phases]".to_owned(), "no `observe.control_arm`"),
            (
                "[phases]",
                "[values.info]\nrun = \"x\"\nwhen = \"interval\"\n[phases]".to_owned(),
                "no `values.*.when",
            ),
            (slices, format!("{slices}slice = \"50ms\"\n"), "from 100ms to 500ms"),
            (slices, format!("{slices}slice = \"600ms\"\n"), "from 100ms to 500ms"),
            (slices, "slice = \"300ms\"\n".to_owned(), "`mode = \"slices\"`"),
            ("redis.sock\"\n[phases]", "redis.sock\"\ninherit_env = true\n[phases]".to_owned(), ""),
            (
                "socket:{scratch}/redis.sock\"\n[phases]",
                "tcp:127.0.0.1:6399\"\n[phases]".to_owned(),
                "a separate address",
            ),
            ("redis+unix:{scratch}/redis.sock", "redis://127.0.0.1:6399".to_owned(), "a separate address"),
        ] {
            assert!(PLAN.contains(from), "{from}");
            match read(&PLAN.replacen(from, &to, 1)) {
                Ok(_) => assert!(says.is_empty(), "{to} is accepted"),
                Err(error) => {
                    assert!(!says.is_empty() && error.contains(says), "{to}: {error}");
                    assert_eq!(error.lines().filter(|line| line.contains("design.")).count(), 1, "{error}");
                }
            }
        }
    }

    #[test]
    fn every_round_has_every_series_once_in_an_order_of_the_seed() {
        let plan = read(PLAN).unwrap();
        let rounds = |block| plan.turn_order(block, 3).take(600).collect::<Vec<_>>();
        let (first, second) = (rounds(1), rounds(2));
        assert_eq!(first, rounds(1));
        assert_ne!(first, second);
        let mut began = [0_u32; 3];
        for mut round in first {
            began[round[0]] += 1;
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2]);
        }
        // 200 each, give or take five standard deviations.
        assert!(began.iter().all(|n| (142..=258).contains(n)), "{began:?}");
    }
}
