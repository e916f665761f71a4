//! Settings of a load that define the measurement. Loads that differ in one of them are different series.

use std::fmt::Display;

use record::load::{Arrivals, LoadSettings, Loop, OltpSettings, ScriptFile, Workload};
use record::replay::Replay;
use record::requests::{HttpSettings, KvSettings};

/// Prefix of the facts.
pub(super) const LOAD: &str = "load.";

type Named = (String, String);

/// Settings that decide what a load measures, by name. Loads that differ in one are different series.
pub fn deciding_settings(settings: &LoadSettings) -> Vec<(String, String)> {
    let plain = |(name, value): Named| (name.trim_start_matches(LOAD).to_owned(), value);
    of_load(settings).into_iter().map(plain).collect()
}

/// Settings that decide the work of an event and how many events there are at a time, as facts. Neither the
/// length of a phase nor a seed does; target, workload and kind of loop tell series apart.
pub(super) fn of_load(settings: &LoadSettings) -> Vec<Named> {
    let mut told = of_loop(settings);
    told.extend(match settings.workload {
        Workload::Kv => of_cache(&settings.kv),
        Workload::Script => {
            let defines =
                settings.scripts.defines.iter().map(|(name, value)| named(&format!("define {name}"), value));
            settings.scripts.files.iter().map(of_script).chain(defines).collect()
        }
        Workload::Native => of_requests(&settings.http),
        _ => of_tables(&settings.oltp),
    });
    told
}

fn named(name: &str, value: &dyn Display) -> Named {
    (format!("{LOAD}{name}"), value.to_string())
}

fn of_loop(settings: &LoadSettings) -> Vec<Named> {
    let mut told = vec![
        named("threads", &settings.threads),
        named("connections", &settings.connections_in_all()),
        named("verify", &settings.verify),
        named("retries", &settings.retries_max),
    ];
    match &settings.pace {
        Loop::Closed { think } => told.push(named("think", &think)),
        Loop::Open(open) => told.extend([
            named("rate", &format!("{}/s", open.per_s)),
            named("arrivals", &arrivals(&open.arrivals)),
            named("schedule", &open.schedule.word()),
            named("late", &open.late),
        ]),
    }
    told
}

fn arrivals(arrivals: &Arrivals) -> String {
    let text = arrivals.to_string();
    match arrivals {
        Arrivals::File(_) => format!("file:{}", file_name(&text)),
        _ => text,
    }
}

/// Name of a file without its folder, which may be a temporary one.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path).trim_start_matches("file:")
}

fn of_tables(oltp: &OltpSettings) -> Vec<Named> {
    let mix = oltp.mix;
    vec![
        named("tables", &oltp.tables),
        named("rows", &oltp.rows),
        named("distribution", &oltp.distribution),
        named("point-selects", &oltp.point_selects),
        named("range-size", &oltp.range_size),
        named("range-selects", &mix.range_selects),
        named("index-updates", &mix.index_updates),
        named("non-index-updates", &mix.non_index_updates),
        named("delete-inserts", &mix.delete_inserts),
        named("random-points", &mix.random_points),
        named("number-of-ranges", &mix.number_of_ranges),
        named("delta", &mix.delta),
        named("bulk-rows", &mix.bulk_rows),
        named("skip-trx", &oltp.skip_transaction),
        named("prepared", &oltp.prepared),
    ]
}

fn of_cache(kv: &KvSettings) -> Vec<Named> {
    let commands: Vec<String> = kv.commands.iter().map(|c| format!("{}@{}", c.text, c.weight)).collect();
    vec![
        named("keys", &kv.keys),
        named("sizes", &kv.sizes_text()),
        named("get-ratio", &kv.get_ratio),
        named("key-distribution", &kv.distribution),
        named("pipeline", &kv.pipeline),
        named("multi-get", &kv.multi_get),
        named("ttl", &kv.ttl.map_or_else(|| "none".to_owned(), |ttl| format!("{} s", ttl.as_secs()))),
        named("commands", &if commands.is_empty() { "none".to_owned() } else { commands.join("; ") }),
    ]
}

fn of_requests(http: &HttpSettings) -> Vec<Named> {
    vec![
        named("method", &http.method),
        named("body", &format!("{} bytes", http.body.len())),
        named("requests", &http.requests.as_deref().map_or("none", file_name)),
        named("replay", &http.replay.as_ref().map_or_else(|| "none".to_owned(), replayed)),
        named("data", &http.data.as_deref().map_or("none", file_name)),
        named("unix-socket", &http.unix_socket.as_deref().map_or("none", file_name)),
        named("http-version", &http.version.word()),
        named("streams", &http.streams),
        named("cookies", &http.cookies),
    ]
}

fn replayed(replay: &Replay) -> String {
    format!("{}, {} requests, speed {}", file_name(&replay.log), replay.requests, replay.speed)
}

fn of_script(file: &ScriptFile) -> Named {
    // FNV-1a: a text that changed is another work, whatever its length.
    let hash = file.text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    named(&format!("script {}", file_name(&file.name)), &format!("text {hash:016x}, weight {}", file.weight))
}
