//! Load settings of one cell: every placeholder and every default resolved.

use std::path::{Path, PathBuf};
use std::time::Duration;

use record::arrivals::Arrivals;
use record::bakeoff::Levels;
use record::load::{
    ClientSettings, LoadSettings, OltpMix, OltpSettings, PreparePolicy, ScriptFile, ScriptSettings, rules,
};
use record::loops::LoopOptions;
use record::requests::{CacheCommand, ClientFiles, ExecSettings, HttpSettings, KvSettings};
use record::target::Target;

use super::values::{Rate, script_file};
use super::{LoadKeys, ParsedRate};
use crate::error::Located;
use crate::template::{Templated, of_instance, text_of};

/// Load settings of a trial from other tables of the plan.
pub(crate) struct PhaseSettings {
    pub(crate) prepare: PreparePolicy,
    pub(crate) warmup: Duration,
    pub(crate) time: Duration,
    pub(crate) interval: Duration,
    /// Seed of the data set.
    pub(crate) seed: u64,
    /// Tells the events of the trial from others on its data set.
    pub(crate) draws: u64,
    /// Rate that was found for the cell, if the plan's rate is one that must be found.
    pub(crate) found_per_s: Option<f64>,
    /// Instances of the server.
    pub(crate) instances: u32,
}

/// Folder of an instance: that of the series if there is one.
pub(crate) fn instance_folder(scratch: &Path, instances: u32, number: u32) -> PathBuf {
    if instances == 1 { scratch.to_owned() } else { scratch.join(number.to_string()) }
}

/// Rate in the settings of a plan before its rate is found: they are checked, and never offered.
const UNKNOWN_PER_S: f64 = 1.0;

/// Values of placeholders in one cell.
pub(super) struct Cell<'a> {
    pub(super) levels: &'a Levels,
    pub(super) scratch: &'a str,
}

impl Cell<'_> {
    /// Value that is given or has a default.
    fn of<T>(&self, value: Option<&Templated<T>>) -> T {
        self.some(value).expect("checked to be there")
    }

    fn some<T>(&self, value: Option<&Templated<T>>) -> Option<T> {
        value.map(|value| value.of(self.levels, self.scratch))
    }
}

impl LoadKeys {
    /// Target of the load of a cell: of several instances, one line for each that differs.
    pub(crate) fn target_of(&self, levels: &Levels, scratch: &Path, instances: u32) -> Target {
        let mut lines: Vec<String> = Vec::new();
        for number in 1..=instances {
            let (levels, scratch) =
                (of_instance(levels, number), instance_folder(scratch, instances, number));
            let line = Cell { levels: &levels, scratch: &text_of(&scratch) }.of(self.target.as_ref());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        Target::new(lines.join("\n"))
    }

    /// Settings of one cell, all resolved.
    pub(crate) fn settings(&self, levels: &Levels, scratch: &Path, phases: &PhaseSettings) -> LoadSettings {
        let target = self.target_of(levels, scratch, phases.instances);
        let scratch = text_of(scratch);
        let cell = Cell { levels, scratch: &scratch };
        let options = self.loop_options(&cell, phases.found_per_s);
        LoadSettings {
            workload: cell
                .some(self.workload.as_ref())
                .unwrap_or_else(|| rules::default_workload(&target, |name| self.position_of(name).is_some())),
            target,
            oltp: OltpSettings {
                tables: cell.of(self.tables.as_ref()),
                rows: cell.of(self.rows.as_ref()),
                point_selects: cell.of(self.point_selects.as_ref()),
                range_size: cell.of(self.range_size.as_ref()),
                mix: self.oltp_mix(&cell),
                distribution: cell.of(self.distribution.as_ref()),
                skip_transaction: cell.of(self.skip_trx.as_ref()),
                prepared: cell.of(self.prepared.as_ref()),
            },
            scripts: ScriptSettings {
                files: self.scripts(),
                defines: cell.some(self.define.as_ref()).unwrap_or_default(),
            },
            kv: self.kv(&cell),
            http: self.http(&cell),
            exec: ExecSettings {
                environment: self
                    .env
                    .iter()
                    .flat_map(|env| &env.value)
                    .filter_map(|e| ExecSettings::parse_variable(e))
                    .collect(),
                expected_status: cell.of(self.expect_exit.as_ref()),
            },
            verify: cell.of(self.verify.as_ref()),
            prepare: phases.prepare,
            check: cell.of(self.check.as_ref()),
            answer_bytes_max: cell.of(self.answer_max.as_ref()),
            threads: cell.of(self.threads.as_ref()),
            connections: cell.some(self.connections.as_ref()),
            pace: options.resolved(phases.time).expect("the plan was checked"),
            warmup: phases.warmup,
            time: phases.time,
            events_max: None,
            interval: phases.interval,
            retries_max: cell.of(self.retry.as_ref()),
            drain: cell.of(self.drain.as_ref()),
            seed: phases.seed,
            draws: phases.draws,
            connects_at_once: cell.of(self.connects_at_once.as_ref()),
            errors_ratio_max: cell.of(self.max_errors.as_ref()),
            ramp_up: cell.of(self.ramp_up.as_ref()),
            ramp_down: cell.of(self.ramp_down.as_ref()),
            client: ClientSettings {
                spin: Duration::from_micros(cell.of(self.spin_us.as_ref())),
                keep_awake: cell.of(self.keep_awake.as_ref()),
            },
        }
    }

    /// Loop settings of a cell.
    ///
    /// If the rate varies, settings that only open loops have apply to the cells with a rate. If no cell has
    /// one, they count as given and are refused. Similarly, if the arrivals vary, jitter applies to those
    /// that support it.
    ///
    /// - `found_per_s`: the rate, if it must be found.
    pub(super) fn loop_options(&self, cell: &Cell<'_>, found_per_s: Option<f64>) -> LoopOptions {
        let (per_s, is_max) = match &self.rate {
            Some(ParsedRate::Plain(rate)) => {
                let Rate(per_s) = cell.of(Some(rate));
                (per_s, rate.template.is("max"))
            }
            _ => (Some(found_per_s.unwrap_or(UNKNOWN_PER_S)), false),
        };
        let arrivals = cell.some(self.arrivals.as_ref());
        let is_open = per_s.is_some() || arrivals.as_ref().is_some_and(Arrivals::say_their_rate);
        let is_never_open = !is_open && is_max;
        let counts = |is_default: bool| is_open || (is_never_open && !is_default);
        let jitters = matches!(arrivals, None | Some(Arrivals::Jitter { .. }));
        let arrivals_vary = self.arrivals.as_ref().is_some_and(|a| a.template.names().next().is_some());
        let moves = |is_default: bool| jitters || (!arrivals_vary && !is_default);
        let jitter =
            self.jitter.as_ref().filter(|jitter| moves(jitter.is_default) && counts(jitter.is_default));
        LoopOptions {
            per_s,
            arrivals: arrivals.filter(|_| self.arrivals.as_ref().is_some_and(|a| counts(a.is_default))),
            jitter_ratio: cell.some(jitter),
            schedule: cell.some(self.schedule.as_ref().filter(|schedule| counts(schedule.is_default))),
            late: cell.some(self.late.as_ref().filter(|late| counts(late.is_default))),
            spin_budget_ratio: cell
                .some(self.spin_budget.as_ref().filter(|budget| counts(budget.is_default))),
            fifo: cell.of(self.fifo.as_ref()),
            think: cell.some(self.think.as_ref()),
        }
    }

    fn scripts(&self) -> Vec<ScriptFile> {
        match (&self.script, self.script_path()) {
            (_, Some(path)) if self.script_files.is_empty() => vec![script_file(path)],
            (_, Some(_)) => self.script_files.clone(),
            (Some(Located { value: text, .. }), None) => {
                vec![ScriptFile { text: text.clone(), ..script_file("script") }]
            }
            (None, None) => Vec::new(),
        }
    }

    fn oltp_mix(&self, cell: &Cell<'_>) -> OltpMix {
        OltpMix {
            range_selects: cell.of(self.range_selects.as_ref()),
            index_updates: cell.of(self.index_updates.as_ref()),
            non_index_updates: cell.of(self.non_index_updates.as_ref()),
            delete_inserts: cell.of(self.delete_inserts.as_ref()),
            random_points: cell.of(self.random_points.as_ref()),
            number_of_ranges: cell.of(self.number_of_ranges.as_ref()),
            delta: cell.of(self.delta.as_ref()),
            bulk_rows: cell.of(self.bulk_rows.as_ref()),
        }
    }

    fn kv(&self, cell: &Cell<'_>) -> KvSettings {
        KvSettings {
            keys: cell.of(self.keys.as_ref()),
            get_ratio: cell.of(self.mix.as_ref()),
            sizes: cell.of(self.sizes.as_ref()),
            distribution: cell.of(self.key_distribution.as_ref()),
            pipeline: cell.of(self.pipeline.as_ref()),
            multi_get: cell.of(self.multi_get.as_ref()),
            ttl: cell.some(self.ttl.as_ref()),
            commands: self
                .command
                .iter()
                .flat_map(|list| &list.value)
                .map(|c| CacheCommand::parse(c))
                .collect(),
        }
    }

    fn http(&self, cell: &Cell<'_>) -> HttpSettings {
        HttpSettings {
            method: cell.of(self.method.as_ref()),
            headers: self.header.as_ref().map(|h| h.value.clone()).unwrap_or_default(),
            body: cell.some(self.body.as_ref()).unwrap_or_default(),
            expected_status: cell.some(self.expect_status.as_ref()),
            requests: cell.some(self.requests.as_ref()),
            // The requests of a log are read by the command line.
            replay: None,
            version: cell.of(self.http_version.as_ref()),
            ca: cell.some(self.ca.as_ref()),
            insecure: cell.of(self.insecure.as_ref()),
            identity: self
                .cert
                .as_ref()
                .zip(self.key.as_ref())
                .map(|(cert, key)| ClientFiles { cert: cell.of(Some(cert)), key: cell.of(Some(key)) }),
            unix_socket: cell.some(self.unix_socket.as_ref()),
            timeout: cell.some(self.timeout.as_ref()),
            cookies: cell.of(self.cookies.as_ref()),
            data: cell.some(self.data.as_ref()),
            streams: cell.of(self.streams.as_ref()),
        }
    }
}
