//! Families, knees, slopes of memory, throughput per watt, places of threads and the sources of noise: on the
//! page, at a terminal and in the document of a bake-off.

#[path = "../../analysis/tests/sample/mod.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod sample;

use analysis::compare;
use bakeoff_report::text::Style;
use bakeoff_report::{Form, json, page, render, text};
use record::bakeoff::Bakeoff;
use record::gate::Gate;
use record::load::{Loop, OpenLoop};
use record::missing::Missing;
use record::resources::{Resource, SERVER_MEMORY, Used, UsedBy};
use record::run::Run;
use record::series::{HistogramSlice, LatencyKind, Sample};
use record::warm_up::{Course, WarmUp};
use sample::Recipe;
use serde_json::Value;

fn bake(change: impl Fn(u32, &mut Run)) -> Bakeoff {
    let mut bakeoff = Recipe { with_trouble: false, threads: vec![1], ..Recipe::journal() }.bake();
    let runs = bakeoff.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut());
    for (n, run) in (0..).zip(runs) {
        change(n, run);
    }
    bakeoff
}

fn html(bakeoff: &Bakeoff) -> String {
    render(&page::bakeoff(bakeoff, &compare(bakeoff)), Form::Html).replace('\u{a0}', " ")
}

fn document(bakeoff: &Bakeoff) -> Value {
    json::run(bakeoff, &compare(bakeoff))
}

fn printed(bakeoff: &Bakeoff) -> String {
    let mut out = Vec::new();
    let style = Style { width: 120, color: false };
    text::bakeoff(&mut out, bakeoff, &compare(bakeoff), None, style).expect("memory");
    String::from_utf8(out).expect("text").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The rest of the table with a caption that begins like this.
fn table<'a>(page: &'a str, caption: &str) -> &'a str {
    let from = page.find(caption).expect("the page has the table");
    &page[from..from + page[from..].find("</table>").expect("tables end")]
}

#[test]
fn a_page_with_gates_lists_its_families_and_one_without_has_no_list() {
    let mut bakeoff = bake(|_, _| {});
    let plain = html(&bakeoff);
    assert!(plain.contains("(family of the metrics)") && !plain.contains("Families of comparisons"));
    bakeoff.judge.gates = vec![Gate::read("throughput >= 10/s").expect("a gate")];
    let page = html(&bakeoff);
    assert!(
        page.contains("Families of comparisons") && page.contains("gate throughput &gt;= 10/s"),
        "{page}"
    );
    // 5 % of the metrics and 2.5 % of the gate.
    assert!(page.contains("has a probability of at most 7.5 %"), "{page}");
    let families = &document(&bakeoff)["families"];
    assert_eq!(families[0]["family"], "metrics");
    assert_eq!((&families[0]["comparisons"], &families[0]["false_ratio_max"]), (&2.into(), &0.05.into()));
    assert_eq!(
        (&families[1]["family"], &families[1]["gate"]),
        (&"gate".into(), &"throughput >= 10/s".into())
    );
    assert_eq!(families[1]["comparisons"], 2);
}

#[test]
fn throughput_per_watt_is_a_column_only_if_energy_was_read() {
    let with = bake(|_, run| {
        let load = run.load.as_ref().expect("it is a load");
        let from_ns = load.measured_from_ns;
        // 50 W for 10 s.
        let used = Used { amount: 500.0, by: UsedBy::Machine, from_ns, until_ns: from_ns + 10_000_000_000 };
        run.resources.insert(Resource::Energy, Ok(used));
    });
    let page = html(&with);
    assert!(page.contains("per watt"), "{page}");
    // 900 events a second, times the block's luck.
    let compared = compare(&with);
    let energy = compared
        .cells_of(record::bakeoff::Metric::EnergyPerEvent)
        .find(|cell| cell.levels["journal_mode"] == "delete")
        .and_then(|cell| cell.summary.clone().ok())
        .expect("energy is known");
    let per_watt = format!("{:.2}", 1.0 / energy.mean);
    assert!(
        (17.0..19.0).contains(&(1.0 / energy.mean)) && page.contains(&format!(">{per_watt}<")),
        "{per_watt}"
    );
    assert!(!html(&bake(|_, _| {})).contains("per watt"));
}

/// Readings of the server's memory in each trial: 2,000 bytes a second, and a level that swings.
fn grown(readings: u32) -> Bakeoff {
    bake(|n, run| {
        let level = |second: u32| Sample {
            t_ms: 1_000 * i64::from(second),
            host: "".into(),
            name: SERVER_MEMORY.into(),
            labels: "".into(),
            value: 1e8 + 2_000.0 * f64::from(second) + 100.0 * f64::from((7 * second + n) % 5),
        };
        run.series = (0..readings).map(level).collect();
    })
}

#[test]
fn the_servers_memory_has_a_slope_in_each_cell_and_each_trial() {
    // The shipped plans have 11 readings: ten intervals.
    for readings in [11, 20] {
        let grows = grown(readings);
        let page = html(&grows);
        let table = table(&page, "Growth of the server");
        assert!(table.contains("grew for certain"), "{table}");
        assert!(table.matches(">6<").count() >= 2, "six trials in two cells: {table}");
        let trend = &document(&grows)["trials"][0]["memory_trend"];
        let [low, value, high] =
            ["low_bytes_per_s", "bytes_per_s", "high_bytes_per_s"].map(|name| trend[name].as_f64().unwrap());
        assert!(low < 2_000.0 && 2_000.0 < high && (value - 2_000.0).abs() < 60.0, "{readings}: {trend}");
    }
    let page = html(&grown(20));
    let table = table(&page, "Growth of the server");
    assert_eq!(table.matches(">6<").count(), 4, "six trials, all of which grew, in two cells: {table}");
    assert!(document(&bake(|_, _| {}))["trials"][0].get("memory_trend").is_none());
}

#[test]
fn memory_without_a_slope_has_a_reason_on_the_page_and_in_json() {
    let few = grown(7);
    let why = "needs 8 readings, and there are 7";
    let (page, trend) = (html(&few), document(&few)["trials"][0]["memory_trend"].clone());
    assert!(table(&page, "Growth of the server").matches(why).count() == 2, "each cell: {page}");
    assert!(trend["bytes_per_s"].is_null(), "{trend}");
    assert!(trend["missing"]["bytes_per_s"].as_str().unwrap().contains(why), "{trend}");
    // The levels could not be read at all.
    let lost = bake(|_, run| {
        run.instruments.missing.insert(SERVER_MEMORY.into(), Missing::because("no such process"));
    });
    assert!(table(&html(&lost), "Growth of the server").contains("no such process"));
    assert_eq!(document(&lost)["trials"][0]["memory_trend"]["missing"]["low_bytes_per_s"], "no such process");
}

/// Judged warm-ups of the trials, by number.
fn warmed(course: impl Fn(u32) -> Course) -> String {
    let bakeoff = bake(|n, run| {
        run.warm_up =
            Some(WarmUp { course: course(n), took_s: 75.0, batch_s: 1.25, batches: 60, metrics: Vec::new() });
    });
    table(&html(&bakeoff), "Warm-ups, judged").to_owned()
}

#[test]
fn a_cell_whose_trials_disagree_is_inconsistent() {
    let same = warmed(|_| Course::Flat);
    assert!(same.contains(">flat<") && !same.contains("inconsistent"), "{same}");
    let differ = warmed(|n| if n % 3 == 0 { Course::WarmUp } else { Course::Flat });
    assert!(differ.contains("inconsistent: ") && differ.contains(" warm-up"), "{differ}");
}

/// The levels of `threads` stand for rates: p99 is flat up to 600/s and climbs beyond.
fn rates(levels: Vec<u32>) -> Bakeoff {
    let recipe = Recipe {
        with_trouble: false,
        threads: levels,
        effect_ln: |_, _| 0.0,
        rate_per_s: Some(500.0),
        ..Recipe::journal()
    };
    let mut bakeoff = recipe.bake();
    let rate_of: Vec<f64> =
        bakeoff.trials.iter().map(|t| t.levels["threads"].parse().expect("a rate")).collect();
    for attempt in &mut bakeoff.attempts {
        let per_s = rate_of[attempt.trial as usize];
        let load = attempt.run.as_mut().and_then(|run| run.load.as_mut()).expect("it is a load");
        load.settings.pace = Loop::Open(OpenLoop::plain(per_s));
        load.achieved_per_s = per_s;
        let response = load.response.as_mut().expect("an open loop");
        let typical_ns =
            5e6 * (0.02 * (per_s - 600.0).max(0.0)).exp() * (1.0 + 0.01 * f64::from(attempt.trial % 7));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a latency")]
        let typical_ns = typical_ns as u64;
        response.known = [(typical_ns, 20_000)].into_iter().collect();
        response.at_least = record::histogram::Histogram::new();
        load.counts.unfinished = 0;
        load.slices = vec![HistogramSlice {
            from_ns: 0,
            for_ns: 1_000_000_000,
            operation: String::new(),
            kind: LatencyKind::Response,
            histogram: [(typical_ns, 100)].into_iter().collect(),
        }];
    }
    bakeoff
}

#[test]
fn the_knee_is_named_with_its_interval_and_three_rates_say_nothing() {
    let bakeoff = rates(vec![200, 400, 600, 700, 800]);
    let document = document(&bakeoff);
    let knee = &document["knees"][0];
    let [low, value, high] =
        ["low_per_s", "knee_per_s", "high_per_s"].map(|name| knee[name].as_f64().unwrap());
    assert!((value - 600.0).abs() < 15.0 && low <= 600.0 && 600.0 <= high, "{knee}");
    assert_eq!(knee["blocks"], 6);
    let text = printed(&bakeoff);
    for told in [html(&bakeoff), text] {
        assert!(told.contains("delete: the knee is at 60"), "{told}");
        assert!(told.contains("p99 is 5."), "{told}");
    }
    let few = rates(vec![200, 400, 600]);
    assert!(!html(&few).contains("knee") && !printed(&few).contains("knee"));
    let flat = rates(vec![200, 300, 400, 500]);
    assert!(printed(&flat).contains("wal: no knee within the rates"), "{}", printed(&flat));
    assert!(json::run(&flat, &compare(&flat))["knees"][0]["missing"]["knee_per_s"].is_string());
}

#[test]
fn the_document_names_the_sources_of_noise_with_shares_and_evidence() {
    let bakeoff = rates(vec![200, 400]);
    // One interval is too few: the document has an empty list, not a 0.
    assert_eq!(document(&bakeoff)["noise"], Value::Array(Vec::new()));
    let open = Recipe { with_trouble: false, rate_per_s: Some(500.0), ..Recipe::journal() }.bake();
    let noise = document(&open)["noise"].clone();
    let sources: Vec<&str> = noise.as_array().unwrap().iter().filter_map(|s| s["source"].as_str()).collect();
    assert_eq!(sources, ["series", "trials", "within-trials", "stolen-time", "placement", "io"]);
    assert_eq!(noise[5]["missing"]["share_ratio"], "`io` is not among the instruments");
    assert!(html(&open).contains("- I/O"));
}

#[test]
fn the_places_of_threads_are_in_the_table_and_in_each_trial() {
    let placed = bake(|_, run| {
        let share = |name: &str, labels: &str, value: f64| Sample {
            t_ms: 10_000,
            host: "".into(),
            name: name.into(),
            labels: labels.into(),
            value,
        };
        run.series = vec![
            share("client_cpu_share_ratio", "cpu=1,thread=load-0", 1.0),
            share("client_cpu_share_ratio", "cpu=0,thread=load-1", 0.5),
            share("client_cpu_share_ratio", "cpu=1,thread=load-1", 0.5),
            share("server_cpu_share_ratio", "cpu=0", 0.875),
            share("server_cpu_share_ratio", "cpu=1", 0.125),
        ];
    });
    let page = html(&placed);
    let table = table(&page, "Where threads ran");
    assert_eq!(table.matches("CPU 1: 75.0 %, CPU 0: 25.0 %").count(), 2, "{table}");
    assert!(table.contains("CPU 0: 87.5 %, CPU 1: 12.5 %") && table.contains("6 of 12"), "{table}");
    let placement = &document(&placed)["trials"][0]["placement"];
    assert_eq!(placement["client"]["load-1"]["0"], 0.5);
    assert_eq!(placement["server"]["1"], 0.125);
    assert!(!html(&bake(|_, _| {})).contains("Where threads ran"));
}
