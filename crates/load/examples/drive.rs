//! The engine alone, without observers and archive, for `scripts/bench-load`: one run, one line.
//!
//! `drive TARGET WORKLOAD|FILE.sql|FILE.lua RATE|max THREADS SECONDS ROWS TABLES [connections=N] [fifo]
//! [seed=N] [spin=USEC] [budget=PERCENT] [keep-awake] [--OPTION=VALUE of FILE.lua]...`
//!
//! Prints the number of events, their rate, the rate offered, lateness at p50, p99 and p99.9 in microseconds,
//! the CPU time of a report in microseconds (the median of all), and that of the threads that keep the CPUs
//! awake, in seconds.
#![expect(clippy::print_stdout, reason = "its one line is what the script reads")]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use bakeoff_load as load;
use record::load::{
    Arrivals, ClientSettings, DataCheck, Distribution, LoadSettings, Loop, OltpMix, OltpSettings, OpenLoop,
    PreparePolicy, ScriptFile, ScriptSettings, Workload,
};
use record::requests::{ExecSettings, HttpSettings, KvSettings};
use record::target::Target;

fn main() -> Result<(), Box<dyn Error>> {
    let settings = settings(&std::env::args().skip(1).collect::<Vec<_>>())?;
    let mut reports = Vec::new();
    let record = load::run(&settings, &load::Stop::new(), &mut |event| {
        if let load::Event::Reported { cpu } = event {
            reports.push(cpu.as_micros());
        }
    })?;
    reports.sort_unstable();
    let report_us = reports.get(reports.len() / 2).map_or_else(|| "-".to_owned(), u128::to_string);
    let awake_s =
        record.client.as_ref().ok().and_then(|c| c.keep_awake_cpu).map_or(0.0, |cpu| cpu.as_secs_f64());
    let lateness = record.lateness.ok();
    let late_us = |quantile| {
        let ns = lateness.as_ref().and_then(|h| h.quantile_ns(quantile));
        ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3))
    };
    let offered_per_s = record.counts.planned as f64 / record.measured.as_secs_f64();
    println!(
        "{} {:.2} {:.2} {} {} {} {report_us} {awake_s:.2}",
        record.counts.done,
        record.achieved_per_s,
        offered_per_s,
        late_us(0.5),
        late_us(0.99),
        late_us(0.999)
    );
    Ok(())
}

/// The load of the arguments.
fn settings(arguments: &[String]) -> Result<LoadSettings, Box<dyn Error>> {
    let [target, workload, rate, threads, seconds, rows, tables, switches @ ..] = arguments else {
        return Err("usage: drive TARGET WORKLOAD RATE|max THREADS SECONDS ROWS TABLES [connections=N] [fifo] [seed=N] [spin=USEC] [budget=PERCENT] [keep-awake]".into());
    };
    let seed = switches.iter().find_map(|s| s.strip_prefix("seed=")).map_or(Ok(1), str::parse)?;
    let spin_us = switches.iter().find_map(|s| s.strip_prefix("spin=")).map_or(Ok(0), str::parse)?;
    let budget_pct: f64 =
        switches.iter().find_map(|s| s.strip_prefix("budget=")).map_or(Ok(0.0), str::parse)?;
    let connections = switches.iter().find_map(|s| s.strip_prefix("connections=")).map(str::parse);
    let is_on = |name: &str| switches.iter().any(|s| s == name);
    let client = ClientSettings { spin: Duration::from_micros(spin_us), keep_awake: is_on("keep-awake") };
    let pace = if rate == "max" {
        Loop::CLOSED
    } else {
        // The arrivals of sysbench, so both make the same bursts.
        let arrivals = Arrivals::Poisson;
        let spin_budget_ratio = budget_pct / 100.0;
        Loop::Open(OpenLoop {
            arrivals,
            spin_budget_ratio,
            fifo: is_on("fifo"),
            ..OpenLoop::plain(rate.parse()?)
        })
    };
    let oltp = OltpSettings {
        tables: tables.parse()?,
        rows: rows.parse()?,
        point_selects: 10,
        range_size: 100,
        mix: OltpMix::USUAL,
        distribution: Distribution::Special,
        skip_transaction: false,
        prepared: true,
    };
    let scripts = scripts(workload, switches)?;
    let word = if scripts.files.is_empty() { workload } else { Workload::Script.word() };
    Ok(LoadSettings {
        target: Target::new(target),
        workload: Workload::from_word(word).ok_or("unknown workload")?,
        oltp,
        scripts,
        kv: KvSettings::usual(),
        http: HttpSettings::plain(),
        exec: ExecSettings::plain(),
        verify: false,
        prepare: PreparePolicy::Auto,
        check: DataCheck::Quick,
        answer_bytes_max: LoadSettings::ANSWER_BYTES_MAX,
        threads: threads.parse()?,
        connections: connections.transpose()?,
        pace,
        warmup: Duration::ZERO,
        time: Duration::from_secs(seconds.parse()?),
        events_max: None,
        interval: Duration::from_secs(1),
        retries_max: 10,
        drain: Duration::from_secs(5),
        seed,
        draws: 0,
        connects_at_once: 16,
        errors_ratio_max: 0.0,
        ramp_up: Duration::ZERO,
        ramp_down: Duration::ZERO,
        client,
    })
}

/// The script of a workload that is a file, with its options.
fn scripts(workload: &str, switches: &[String]) -> Result<ScriptSettings, Box<dyn Error>> {
    let mut scripts = ScriptSettings::default();
    match Path::new(workload).extension().and_then(|extension| extension.to_str()) {
        Some("lua") => scripts.files = load::LuaScript::read(workload)?.into_files(),
        Some("sql") => {
            let text = std::fs::read_to_string(workload)?;
            scripts.files.push(ScriptFile { name: workload.to_owned(), weight: 1, text });
        }
        _ => {}
    }
    let options = switches.iter().filter_map(|switch| switch.strip_prefix("--")?.split_once('='));
    scripts.defines.extend(options.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(scripts)
}
