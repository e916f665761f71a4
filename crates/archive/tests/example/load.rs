//! Loads from a seed.

use std::time::Duration;

use record::agents::ClockOffset;
use record::histogram::CompactHistogram;
use record::load::{
    Arrivals, ClientCost, ClientSettings, Counts, DataCheck, Distribution, ErrorCounts, LatePolicy,
    LoadRecord, LoadSettings, Loop, OfAgent, OfHost, OltpMix, OltpSettings, OpenLoop, Operation, Outage,
    PreparePolicy, RateChange, Schedule, ScriptFile, ScriptSettings, Think, UnlistedOutages, WakeUp,
    Workload,
};
use record::replay::{Method, Replay};
use record::requests::{
    CacheCommand, ClientFiles, ExecSettings, HttpSettings, HttpVersion, KvSettings, SizeClass,
};
use record::series::{HistogramSlice, LatencyKind};
use record::target::Target;
use record::verdict::{Check, Validity, Verdict};

use super::Dice;

fn operation(dice: &mut Dice) -> Operation {
    Operation { service: dice.censored(), in_flight: dice.next(), generator_made: vec!["p99_99"] }
}

pub(crate) fn load(dice: &mut Dice) -> LoadRecord {
    LoadRecord {
        settings: settings(dice),
        server_version: dice.maybe(Dice::text),
        measured_from_ns: dice.next() >> 2,
        measured: dice.span(),
        achieved_per_s: dice.real(),
        counts: Counts {
            planned: dice.next(),
            done: dice.next(),
            failed: dice.next(),
            skipped: dice.next(),
            unfinished: dice.next(),
            retries: dice.next(),
        },
        response: dice.maybe(Dice::censored),
        service: dice.censored(),
        wait: dice.maybe(Dice::censored),
        lateness: dice.maybe(Dice::histogram),
        generator_made: vec!["p99_9", "max"],
        service_generator_made: vec!["max"],
        // From separate dice: an older golden file has the draws of the rest.
        server_part: Dice(dice.0).maybe(Dice::histogram),
        connect: dice.maybe(Dice::histogram),
        failure: dice.histogram(),
        operations: dice.some(3, |d| (d.text(), operation(d))).into_iter().collect(),
        outcomes: dice.some(3, |d| (d.text(), d.next())).into_iter().collect(),
        errors: ErrorCounts {
            transient: dice.next(),
            connection: dice.next(),
            application: dice.next(),
            verify: dice.next(),
            timeout: dice.next(),
        },
        error_samples: dice.some(3, Dice::text),
        outages: dice.some(3, |d| Outage {
            from_s: d.real(),
            for_s: d.real(),
            affected: d.next(),
            ended: d.flip(),
            host: Some(0).filter(|_| d.flip()),
        }),
        unlisted_outages: UnlistedOutages { count: 3, for_s: 0.25 },
        backlog_after_warmup: dice.next(),
        found_no_worker: dice.next(),
        hosts: dice.some(3, |d| OfHost {
            host: d.text(),
            connections: d.small(),
            done: d.next(),
            failed: d.next(),
            errors: ErrorCounts { connection: d.next(), ..ErrorCounts::default() },
        }),
        agents: dice.some(2, of_agent),
        probe: None,
        rate_changes: dice.some(3, |d| RateChange { at_s: d.real(), from_per_s: d.real(), per_s: d.real() }),
        connected: Ok(dice.small()),
        client: dice.maybe(client_cost),
        slices: dice.some(20, |d| HistogramSlice {
            from_ns: d.next() >> 10,
            for_ns: d.next() >> 30,
            operation: d.text(),
            kind: d.one_of(&LatencyKind::ALL),
            histogram: CompactHistogram::from(&d.histogram()),
        }),
        verdict: verdict(dice),
    }
}

fn of_agent(d: &mut Dice) -> OfAgent {
    OfAgent {
        agent: d.text(),
        host: d.text(),
        weight: 1 + u32::from(d.flip()),
        counts: Counts { planned: d.next(), done: d.next(), ..Counts::default() },
        clock: d.maybe(|d| ClockOffset {
            offset_ns: d.next().cast_signed(),
            bound_ns: d.next(),
            drift_ns: -7,
        }),
        start_skew_ns: d.maybe(|d| d.next().cast_signed()),
        slices: d.next(),
        missing_slices: vec![d.next()],
        lost_at_s: Some(d.real()).filter(|_| d.flip()),
    }
}

fn client_cost(d: &mut Dice) -> ClientCost {
    ClientCost {
        user_us_per_event: d.real(),
        system_us_per_event: d.real(),
        switches_per_event: d.real(),
        starved_ratio: d.maybe(Dice::real),
        run_queue_wait_us_per_event: d.maybe(Dice::real),
        keep_awake_cpu: d.option(Dice::span),
        wake_up: d.option(|d| WakeUp { lead: d.span(), spun_ratio: d.real() }),
    }
}

fn verdict(dice: &mut Dice) -> Verdict {
    Verdict {
        state: dice.one_of(&Validity::ALL),
        checks: dice.some(3, |d| Check {
            name: d.one_of(&["achieved-rate", "lateness", "little"]),
            ok: d.flip(),
            found: d.real(),
            limit: d.real(),
            text: d.text(),
        }),
    }
}

fn settings(dice: &mut Dice) -> LoadSettings {
    let ratio = dice.real();
    LoadSettings {
        target: Target::new(dice.one_of(&[
            "null:",
            "sqlite:/tmp/a b.db?journal_mode=wal",
            "mysql://app@h/bench",
        ])),
        workload: dice.one_of(Workload::ALL),
        oltp: oltp(dice, ratio),
        scripts: ScriptSettings {
            files: vec![ScriptFile {
                name: "transfer.sql".to_owned(),
                weight: dice.small(),
                text: "\\set id random(1, 10)\nSELECT :id;\n".to_owned(),
            }],
            defines: vec![("scale".to_owned(), "10".to_owned())],
        },
        kv: kv(dice, ratio),
        http: http(dice),
        exec: ExecSettings { environment: vec![("TZ".to_owned(), "UTC=0".to_owned())], expected_status: 3 },
        verify: dice.flip(),
        prepare: dice.one_of(PreparePolicy::ALL),
        check: dice.one_of(DataCheck::ALL),
        answer_bytes_max: dice.next(),
        threads: dice.small(),
        connections: dice.option(Dice::small),
        pace: if dice.flip() { open(dice, ratio) } else { closed(dice) },
        warmup: dice.span(),
        time: dice.span(),
        events_max: dice.option(Dice::next),
        interval: dice.span(),
        retries_max: dice.small(),
        drain: dice.span(),
        seed: dice.next(),
        draws: dice.next(),
        connects_at_once: dice.small(),
        errors_ratio_max: dice.real(),
        ramp_up: dice.span(),
        ramp_down: dice.span(),
        client: ClientSettings { spin: dice.span(), keep_awake: dice.flip() },
    }
}

fn oltp(dice: &mut Dice, ratio: f64) -> OltpSettings {
    OltpSettings {
        tables: dice.small(),
        rows: dice.next(),
        point_selects: dice.small(),
        range_size: dice.next(),
        mix: OltpMix {
            range_selects: dice.flip(),
            index_updates: dice.small(),
            non_index_updates: dice.small(),
            delete_inserts: dice.small(),
            random_points: dice.small(),
            number_of_ranges: dice.small(),
            delta: dice.small(),
            bulk_rows: dice.small(),
        },
        distribution: dice.one_of(&[
            Distribution::Uniform,
            Distribution::Zipfian { exponent: ratio },
            Distribution::Special,
            Distribution::Pareto { h: ratio },
        ]),
        skip_transaction: dice.flip(),
        prepared: dice.flip(),
    }
}

fn kv(dice: &mut Dice, ratio: f64) -> KvSettings {
    KvSettings {
        keys: dice.next(),
        get_ratio: dice.real(),
        sizes: vec![
            SizeClass { bytes_min: 4, bytes_max: 100, weight: 0.25 },
            SizeClass { bytes_min: 1024, bytes_max: 2048, weight: 60.0 },
        ],
        distribution: dice.one_of(&[Distribution::Uniform, Distribution::Zipfian { exponent: ratio }]),
        pipeline: dice.small(),
        multi_get: dice.small(),
        ttl: dice.option(Dice::span),
        commands: vec![CacheCommand { text: dice.text(), weight: dice.small() }],
    }
}

fn http(dice: &mut Dice) -> HttpSettings {
    HttpSettings {
        method: dice.text(),
        headers: vec!["Accept: */*".to_owned()],
        body: "{}".to_owned(),
        expected_status: dice.option(|_| 204),
        requests: dice.option(Dice::text),
        replay: dice.option(replay),
        version: dice.one_of(HttpVersion::ALL),
        ca: dice.option(Dice::text),
        insecure: dice.flip(),
        identity: dice.option(|dice| ClientFiles { cert: dice.text(), key: dice.text() }),
        unix_socket: dice.option(Dice::text),
        timeout: dice.option(Dice::span),
        cookies: dice.flip(),
        data: dice.option(Dice::text),
        streams: 1,
    }
}

fn replay(dice: &mut Dice) -> Replay {
    Replay {
        log: dice.text(),
        speed: dice.real(),
        requests: dice.next(),
        methods: vec![Method::Get, Method::Delete],
        left_out: dice.next(),
        path_bytes_max: dice.next(),
        source: None,
    }
}

/// An open loop.
pub(crate) fn open(dice: &mut Dice, per_s: f64) -> Loop {
    let (limit, times) = (dice.span(), dice.real());
    let late = [LatePolicy::Queue, LatePolicy::Skip { limit }, LatePolicy::Drop, LatePolicy::Pace { times }];
    Loop::Open(OpenLoop {
        per_s,
        arrivals: arrivals(dice, times),
        schedule: dice.one_of(Schedule::ALL),
        late: dice.one_of(&late),
        spin_budget_ratio: dice.real(),
        fifo: dice.flip(),
    })
}

fn closed(dice: &mut Dice) -> Loop {
    let (rest, mean) = (Duration::from_micros(1_500), Duration::from_secs(2));
    let think = dice.one_of(&[Think::None, Think::Constant(rest), Think::Exponential(mean)]);
    Loop::Closed { think }
}

fn arrivals(dice: &mut Dice, ratio: f64) -> Arrivals {
    let file = record::arrivals::Recorded {
        path: "events of monday.parquet".into(),
        events: dice.next(),
        span: dice.span(),
        sha256: "00ff".into(),
    };
    let shapes = ["ramp:0-100", "step:10@1s,0@2500ms,30", "burst:0-50@1s/10s", "sine:1-2@1m"];
    match dice.one_of(&[0, 1, 2, 3, 4]) {
        0 => Arrivals::Jitter { ratio },
        1 => Arrivals::Period,
        2 => Arrivals::Poisson,
        3 => Arrivals::File(file),
        _ => Arrivals::parse(dice.one_of(&shapes)).unwrap(),
    }
}
