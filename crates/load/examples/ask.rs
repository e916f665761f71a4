//! The engine alone on caches and web servers, for `scripts/bench-load`: one run, one line.
//!
//! `ask TARGET RATE|max THREADS CONNECTIONS SECONDS [SIZES [auto|never [SPIN_US]]]` prints events done, per
//! second, client CPU per event in microseconds (user and system), and the 50th and 99th percentile of
//! service time in microseconds.
#![expect(clippy::print_stdout, reason = "its one line is what the script reads")]

use std::error::Error;
use std::time::Duration;

use bakeoff_load as load;
use record::load::{
    ClientSettings, DataCheck, Distribution, LoadSettings, Loop, OltpMix, OltpSettings, PreparePolicy,
    ScriptSettings,
};
use record::requests::{ExecSettings, HttpSettings, KvSettings};
use record::target::Target;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, rate, threads, connections, seconds, rest @ ..] = &arguments[..] else {
        return Err(
            "usage: ask TARGET RATE|max THREADS CONNECTIONS SECONDS [SIZES [auto|never [SPIN_US]]]".into()
        );
    };
    let sizes = rest.first().map_or(KvSettings::SIZES, String::as_str);
    let prepare = rest.get(1).map_or("auto", String::as_str);
    let spin_us = rest.get(2).map_or(Ok(0), |us| us.parse())?;
    let target = Target::new(target);
    let settings = LoadSettings {
        workload: load::default_workload(&target),
        target,
        oltp: OltpSettings {
            tables: 1,
            rows: 1,
            point_selects: 1,
            range_size: 1,
            mix: OltpMix::USUAL,
            distribution: Distribution::Uniform,
            skip_transaction: false,
            prepared: false,
        },
        scripts: ScriptSettings::default(),
        kv: KvSettings {
            sizes: KvSettings::parse_sizes(sizes)?,
            distribution: Distribution::Uniform,
            ..KvSettings::usual()
        },
        http: HttpSettings::plain(),
        exec: ExecSettings::plain(),
        verify: false,
        prepare: PreparePolicy::from_word(prepare).ok_or("auto or never")?,
        check: DataCheck::Quick,
        answer_bytes_max: LoadSettings::ANSWER_BYTES_MAX,
        threads: threads.parse()?,
        connections: Some(connections.parse()?),
        pace: if rate == "max" { Loop::CLOSED } else { Loop::open(rate.parse()?) },
        // Peers count their first events too.
        warmup: Duration::ZERO,
        time: Duration::from_secs(seconds.parse()?),
        events_max: None,
        interval: Duration::from_secs(1),
        retries_max: 10,
        drain: Duration::from_secs(5),
        seed: 1,
        draws: 0,
        connects_at_once: 16,
        errors_ratio_max: 0.0,
        ramp_up: Duration::ZERO,
        ramp_down: Duration::ZERO,
        client: ClientSettings { spin: Duration::from_micros(spin_us), ..ClientSettings::PLAIN },
    };
    let record = load::run(&settings, &load::Stop::new(), &mut |_| {})?;
    let client = record.client.map_err(|missing| missing.reason)?;
    let service_us = |quantile| record.service.known.quantile_ns(quantile).unwrap_or(0) as f64 / 1e3;
    println!(
        "{} {:.0} {:.2} {:.2} {:.1} {:.1}",
        record.counts.done,
        record.achieved_per_s,
        client.user_us_per_event,
        client.system_us_per_event,
        service_us(0.5),
        service_us(0.99)
    );
    Ok(())
}
