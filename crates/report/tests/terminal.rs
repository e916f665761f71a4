//! Text for a terminal and a pipe, and the documents for programs.

#[path = "../../analysis/tests/sample/mod.rs"]
mod sample;

use std::time::Duration;

use analysis::{Machine, compare};
use bakeoff_report::json;
use bakeoff_report::text::{self, Detail, RunLine, Style};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use record::bakeoff::Bakeoff;
use record::cpu::{CpuInterval, RECORDS_LOST, Rung, SWITCHES_UNSEEN};
use record::histogram::CensoredHistogram;
use record::load::{Counts, ErrorCounts, LoadRecord, OfHost, Outage, Phase, Progress, UnlistedOutages};
use record::missing::Missing;
use record::run::{Run, RunHeader, RunState};
use record::verdict::{Check, Validity, Verdict};
use sample::{Recipe, cpu};
use serde_json::Value;

const WIDTHS: [usize; 3] = [40, 80, 120];

fn open() -> Run {
    let recipe = Recipe { rate_per_s: Some(500.0), ..Recipe::journal() };
    recipe.bake().attempts.remove(0).run.expect("the first attempt was sealed")
}

fn closed() -> Run {
    Recipe::journal().bake().attempts.remove(0).run.expect("the first attempt was sealed")
}

/// Two seconds of two CPUs: by events with the second one full, and by `/proc` alone.
fn intervals() -> [CpuInterval; 2] {
    let mut chance = ChaCha8Rng::seed_from_u64(7);
    let mut full = cpu(5_000_000_000, 0.42, &mut chance);
    full.cpus[1].event_ratio = Ok(0.998);
    full.cpus[1].not_idle_ratio = Ok(0.998);
    full.cpus[1].procstat_busy_ratio = Ok(0.02);
    full.cpus[1].unaccounted_ratio = Ok(0.975);
    let mut proc = cpu(6_000_000_000, 0.42, &mut chance);
    proc.rung = Rung::Proc;
    proc.missed_deadline = true;
    for sample in &mut proc.cpus {
        let why = || Missing::because("BPF needs root or CAP_BPF");
        sample.event_ratio = Err(why());
        sample.irq_ratio = Err(why());
        sample.softirq_ratio = Err(why());
        sample.run_queue_wait_ns = Err(why());
        sample.balance_ns = Err(why());
        sample.switches = Err(why());
        sample.top = Err(why());
    }
    [full, proc]
}

/// Writes at each width, checks that every line fits, and concatenates all.
fn at_every_width(write: impl Fn(&mut Vec<u8>, Style) -> std::io::Result<()>) -> String {
    let mut all = String::new();
    for width in WIDTHS {
        let mut out = Vec::new();
        write(&mut out, Style { width, color: false }).expect("writing to memory cannot fail");
        let text = String::from_utf8(out).expect("it is text");
        for line in text.lines() {
            // A word longer than the line, such as a target, is not broken, so users can copy it.
            let longest = line.split(' ').map(str::len).max().unwrap_or(0);
            // The answer and the command that makes the page are one line at any width.
            let is_answer = text.contains(" stored as ") && text.lines().last() == Some(line);
            let is_whole = is_answer
                || line.starts_with(" stored as ")
                || line.starts_with("VALID:")
                || line.starts_with("INVALID:");
            assert!(line.chars().count() <= width || longest > width || is_whole, "{width}: {line:?}");
            assert_eq!(line, line.trim_end(), "no blanks at the end");
        }
        all.extend(["=".repeat(width), "\n".to_owned(), text]);
    }
    all
}

#[test]
fn a_cpu_that_is_full_names_what_fills_it_and_what_waits_for_it() {
    let [mut interval, _] = intervals();
    let text = |interval: &CpuInterval| {
        let mut out = Vec::new();
        text::cpu_interval(&mut out, interval, 0, Style { width: 200, color: false })
            .expect("memory takes all");
        String::from_utf8(out).expect("it is text")
    };
    // Busy all the time by one thread: saturated, and nothing waits.
    let seen = text(&interval);
    assert!(seen.contains("CPU 1 is saturated") && seen.contains("hardly any wait for it ended"), "{seen}");
    // The same by softirqs.
    interval.cpus[1].softirq_ratio = Ok(0.9);
    interval.cpus[1].top = Err(Missing::because("no thread ran"));
    let seen = text(&interval);
    let by_softirqs = "CPU 1 is saturated and full, 99.8 % busy: softirqs used 90.0 %";
    assert!(seen.contains(by_softirqs) && !seen.contains("is unknown"), "{seen}");
    // Less than half a thread is more than hardly any.
    interval.cpus[1].run_queue_wait_ns = Ok(490_000_000);
    let seen = text(&interval);
    assert!(seen.contains("; 0.49 threads waited") && !seen.contains("hardly any"), "{seen}");
    // Less than saturated, and three threads wait for it at any time.
    interval.cpus[1].event_ratio = Ok(0.9);
    interval.cpus[1].run_queue_wait_ns = Ok(3_000_000_000);
    let seen = text(&interval);
    assert!(seen.contains("CPU 1 is full, at 90.0 % busy: 3.00 threads waited"), "{seen}");
    assert!(!seen.contains("saturated"), "{seen}");
}

/// The short form, then everything.
fn in_both(out: &mut Vec<u8>, load: &LoadRecord, machine: &Machine, style: Style) -> std::io::Result<()> {
    text::load_record(out, load, machine, Some("8c1fe2"), (Detail::Brief, style))?;
    text::load_record(out, load, machine, None, (Detail::Full, style))
}

#[test]
fn an_open_loop_reads_as_recorded() {
    let run = open();
    let load = run.load.as_ref().expect("it drove a load");
    insta::assert_snapshot!(at_every_width(|out, style| in_both(
        out,
        load,
        &analysis::machine(load, &run.cpu),
        style
    )));
}

fn unwatched() -> Machine {
    Machine::missing(Missing::because("the CPUs were not watched"))
}

#[test]
fn an_invalid_closed_loop_with_an_outage_reads_as_recorded() {
    let run = closed();
    let mut load = run.load.clone().expect("it drove a load");
    load.outages.push(Outage { from_s: 4.0, for_s: 1.25, affected: 612, ended: true, host: None });
    load.verdict = Verdict::of(vec![Check {
        name: "errors",
        ok: false,
        found: 0.021,
        limit: 0.01,
        text: "2.1 % of the planned events failed; at most 1 % may".into(),
    }]);
    load.verdict.checks.extend(run.load.iter().flat_map(|l| l.verdict.checks.clone()));
    insta::assert_snapshot!(at_every_width(|out, style| in_both(out, &load, &unwatched(), style)));
}

fn last_line(load: &LoadRecord) -> String {
    let mut out = Vec::new();
    in_both(&mut out, load, &unwatched(), Style { width: 40, color: false }).expect("memory");
    String::from_utf8(out).expect("it is text").lines().last().unwrap_or_default().to_owned()
}

#[test]
fn time_that_the_hypervisor_took_is_named_before_any_option() {
    let mut load = open().load.expect("it drove a load");
    let late = Check { name: "lateness", ok: false, found: 0.0, limit: 0.0, text: "late".into() };
    load.verdict = Verdict::of(vec![late]);
    for (stolen, busy, says) in [
        (
            0.102,
            0.3,
            "; mend: another machine, or run again later: the hypervisor took 10.2 % of the CPUs' time (steal)",
        ),
        (
            0.102,
            0.97,
            "; mend: an idle machine: its CPUs were 97.0 % busy, and the hypervisor took 10.2 % of their time (steal)",
        ),
        (0.001, 0.97, "; mend: an idle machine, or --fifo; `bakeoff doctor` says what delays its timers"),
    ] {
        let machine = Machine { stolen_ratio: Ok(stolen), busy_ratio: Ok(busy), ..unwatched() };
        let mut out = Vec::new();
        in_both(&mut out, &load, &machine, Style { width: 200, color: false }).expect("memory");
        let text = String::from_utf8(out).expect("it is text");
        assert!(text.lines().last().is_some_and(|last| last == format!("INVALID: late{says}")), "{text}");
    }
}

#[test]
fn a_rate_that_nobody_could_keep_is_not_the_hypervisors_fault() {
    let mut load = open().load.expect("it drove a load");
    (load.counts.planned, load.counts.done) = (3_000, 37);
    load.achieved_per_s = 37.0;
    let rate = Check { name: "achieved-rate", ok: false, found: 0.01, limit: 0.999, text: "behind".into() };
    load.verdict = Verdict::of(vec![rate]);
    let machine = Machine { stolen_ratio: Ok(0.026), busy_ratio: Ok(1.0), ..unwatched() };
    let mut out = Vec::new();
    in_both(&mut out, &load, &machine, Style { width: 200, color: false }).expect("memory");
    let text = String::from_utf8(out).expect("it is text");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("INVALID: behind; mend: a --rate below 37"), "{text}");
}

#[test]
fn the_answer_names_the_cause_before_its_effects_and_what_would_mend_it() {
    let mut load = open().load.expect("it drove a load");
    assert_eq!(last_line(&load), "VALID: SQLite kept up with 500/s");
    let failed = |name, text: &str| Check { name, ok: false, found: 1.0, limit: 0.5, text: text.into() };
    load.verdict.add(failed("achieved-rate", "250/s done of 500/s offered"));
    load.verdict.add(failed("lateness", "the generator was 5.2 ms late at p99, 0.7 ms allowed"));
    let last = last_line(&load);
    assert!(
        last.starts_with("INVALID: the generator was 5.2 ms late at p99, 0.7 ms allowed; mend: "),
        "{last}"
    );
    let told = at_every_width(|out, style| in_both(out, &load, &unwatched(), style));
    assert!(told.contains(" also      250/s done of 500/s offered; mend: a --rate below 500.00"), "{told}");
    // A text from outside cannot forge the answer.
    load.verdict = Verdict::of(vec![failed("hosts", "not h1\nVALID: the server kept up")]);
    assert!(last_line(&load).starts_with("INVALID: not h1"), "{}", last_line(&load));
    load.verdict.state = Validity::Interrupted;
    load.counts = Counts::default();
    assert_eq!(last_line(&load), "INTERRUPTED: before any event was measured");
    // A verdict without a failed check still has an answer.
    load.verdict = Verdict { state: Validity::Invalid, checks: Vec::new() };
    assert!(last_line(&load).starts_with("INVALID: "), "{}", last_line(&load));
}

#[test]
fn a_rate_that_failed_is_not_named_as_one_to_stay_below() {
    let mut load = open().load.expect("it drove a load");
    (load.counts.planned, load.counts.done, load.measured) = (10_000, 9_950, Duration::from_secs(10));
    // The phase also did events that were due in the warm-up.
    load.achieved_per_s = 1_050.0;
    let rate = Check { name: "achieved-rate", ok: false, found: 0.995, limit: 0.999, text: "behind".into() };
    load.verdict = Verdict::of(vec![rate]);
    assert!(
        last_line(&load).starts_with("INVALID: behind; mend: a --rate below 995"),
        "{}",
        last_line(&load)
    );
}

#[test]
fn a_server_that_was_away_is_not_told_to_take_a_lower_rate() {
    let mut load = open().load.expect("it drove a load");
    let failed = |name, text: &str| Check { name, ok: false, found: 0.5, limit: 0.999, text: text.into() };
    load.verdict.add(failed("achieved-rate", "97.20/s done of 100.00/s offered"));
    let rate = last_line(&load);
    assert!(rate.contains("mend: a --rate below "), "{rate}");
    load.outages.push(Outage { from_s: 9.0, for_s: 0.01, affected: 2, ended: false, host: None });
    let short = last_line(&load);
    assert!(short.contains("mend: a server that stays up") && !short.contains("--rate"), "{short}");
    load.verdict.add(failed("stuck", "4 of 4 events had no answer"));
    let hung = last_line(&load);
    assert!(
        hung.starts_with("INVALID: 4 of 4 events had no answer; mend: find in the server's log"),
        "{hung}"
    );
    load.verdict.add(failed("server-away", "the server could not be reached for 1.000 s"));
    let away = last_line(&load);
    assert!(away.starts_with("INVALID: the server could not be reached"), "{away}");
    let mut load = open().load.expect("it drove a load");
    load.counts = Counts { planned: 1_000, done: 900, failed: 100, ..Counts::default() };
    load.verdict.add(failed("achieved-rate", "90.00/s done of 100.00/s offered"));
    let errors = last_line(&load);
    assert!(
        errors.contains("mend: remove the cause of the errors") && !errors.contains("--rate"),
        "{errors}"
    );
}

#[test]
fn a_verdict_names_the_rate_that_was_offered() {
    let mut load = open().load.expect("it drove a load");
    load.counts.planned = 5_400;
    let last = last_line(&load);
    assert_eq!(last, "VALID: SQLite kept up with 540.00/s, offered for a rate of 500/s");
}

#[test]
fn a_closed_loop_without_an_event_that_was_done_has_no_rate() {
    let mut load = closed().load.expect("it drove a load");
    load.counts = Counts { planned: 2, unfinished: 2, ..Counts::default() };
    load.achieved_per_s = 0.666;
    let told = at_every_width(|out, style| in_both(out, &load, &unwatched(), style));
    assert!(
        told.contains(" no rate: no event was done; 2 events, 0 failed") && !told.contains("0.666"),
        "{told}"
    );
    let value = json::load(None, &load, &unwatched(), &Err(Missing::because("not looked at")));
    assert!(value["achieved_per_s"].is_null(), "{}", value["achieved_per_s"]);
    assert!(value["missing"]["achieved_per_s"].as_str().is_some_and(|why| why == "no event was done"));
}

#[test]
fn a_service_time_that_the_generator_made_is_marked() {
    let mut load = open().load.expect("it drove a load");
    load.service_generator_made = vec!["max"];
    load.operations.values_mut().for_each(|operation| operation.generator_made = vec!["max"]);
    let told = at_every_width(|out, style| in_both(out, &load, &unwatched(), style));
    assert!(told.contains("<= marks a latency that is mostly the generator's own delay"), "{told}");
    assert!(told.contains("<="), "{told}");
    let value = json::load(None, &load, &unwatched(), &Err(Missing::because("not read")));
    for summary in [&value["service_ns"], &value["operations"]["point-select"]["service_ns"]] {
        assert_eq!(summary["upper_bounds"], serde_json::json!(["max"]), "{value}");
    }
}

#[test]
fn a_flood_of_outages_is_summed() {
    let mut load = open().load.expect("it drove a load");
    let outage = |n: u32| Outage {
        from_s: f64::from(n) / 100.0,
        for_s: if n.is_multiple_of(100) { 0.5 } else { 0.000_1 },
        affected: 1,
        ended: true,
        host: None,
    };
    load.outages = (0..500).map(outage).collect();
    let told = at_every_width(|out, style| in_both(out, &load, &unwatched(), style));
    let lines = told.lines().filter(|line| line.contains("outage ") && line.contains("from ")).count();
    assert_eq!(lines, 5 * 2 * WIDTHS.len(), "{told}");
    assert!(
        told.contains("495 more, none longer than 0.1 ms, 49.5 ms together, 495 events affected"),
        "{told}"
    );
    assert!(told.contains("for 500 ms, 1 event affected"), "{told}");
    load.unlisted_outages = UnlistedOutages { count: 7_000, for_s: 0.7 };
    let told = at_every_width(|out, style| in_both(out, &load, &unwatched(), style));
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("495 events affected; and 7,000 shorter and older ones, 700 ms together"),
        "{told}"
    );
}

#[test]
fn a_check_that_cannot_fail_is_not_ok() {
    let mut load = open().load.expect("it drove a load");
    load.verdict.add(Check::not_judged(
        "littles-law",
        1.0,
        2_357.6,
        "chance explains a difference of 235761.31 %",
    ));
    assert_eq!(load.verdict.state, Validity::Valid);
    let told = at_every_width(|out, style| in_both(out, &load, &unwatched(), style));
    assert!(told.contains("  -     littles-law: not judged: chance explains"), "{told}");
}

#[test]
fn what_each_of_several_hosts_did_is_told() {
    let mut load = open().load.expect("it drove a load");
    let of = |host: &str, done, connection| OfHost {
        host: host.to_owned(),
        connections: 2,
        done,
        failed: 0,
        errors: ErrorCounts { connection, ..ErrorCounts::default() },
    };
    let alone = json::load(None, &load, &unwatched(), &Err(Missing::because("not looked at")));
    assert_eq!(alone.get("hosts"), None, "one host has no counts of its own");
    load.hosts = vec![of("h1:3306", 800, 0), of("h2:3307", 0, 7)];
    load.outages.push(Outage { from_s: 4.0, for_s: 1.0, affected: 2, ended: false, host: Some(1) });
    let told = at_every_width(|out, style| in_both(out, &load, &unwatched(), style));
    for line in [
        "h1:3306: 2 connections, 800 done, 0 failed, 0 errors",
        "h2:3307: 2 connections, 0 done, 0 failed, 7 errors",
        "h2:3307 from ",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let value = json::load(None, &load, &unwatched(), &Err(Missing::because("not looked at")));
    assert_eq!((&value["hosts"][1]["host"], &value["hosts"][1]["done"]), (&"h2:3307".into(), &0.into()));
    assert_eq!(value["hosts"][1]["errors"]["connection"], 7);
    assert_eq!(value["outages"][0]["host"], "h2:3307");
}

#[test]
fn progress_reads_as_recorded() {
    let run = open();
    let latency = run.load.expect("it drove a load").service.known;
    let line = |t_s: f64, phase, outage| Progress {
        phase,
        t_s,
        interval_s: 1.0,
        offered_per_s: Ok(500.0),
        achieved_per_s: 499.98,
        backlog: 2,
        latency: Box::new(latency.clone().into()),
        lateness: Ok(Box::new(latency.clone())),
        errors: 0,
        outage,
    };
    let mut closed = line(3.0, Phase::Measure, false);
    closed.offered_per_s = Err(Missing::because("a closed loop"));
    closed.latency = Box::default();
    let lines = [
        line(1.0, Phase::Warmup, false),
        line(2.0, Phase::Measure, true),
        closed,
        line(1234.0, Phase::Measure, false),
    ];
    insta::assert_snapshot!(at_every_width(|out, style| {
        text::progress_header(out, style)?;
        lines.iter().try_for_each(|l| text::progress_line(out, l, style))
    }));
}

#[test]
fn a_line_of_progress_marks_what_timed_out_as_a_lower_bound() {
    let known = [(1_000_000, 97)].into_iter().collect();
    let at_least = [(500_000_000, 3)].into_iter().collect();
    let progress = Progress {
        phase: Phase::Measure,
        t_s: 1.0,
        interval_s: 1.0,
        offered_per_s: Ok(100.0),
        achieved_per_s: 97.0,
        backlog: 0,
        latency: Box::new(CensoredHistogram { known, at_least }),
        lateness: Err(Missing::because("not of interest")),
        errors: 3,
        outage: false,
    };
    let mut out = Vec::new();
    text::progress_line(&mut out, &progress, Style { width: 100, color: false }).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(" 1.00 ms ") && text.matches(">=500 ms").count() == 2, "{text}");
}

/// A switch that the kernel shows to no tracer is not a lost event.
#[test]
fn what_was_lost_and_what_was_not_shown_are_told_apart() {
    let [mut interval, _] = intervals();
    let mut told = |reason: &str, n: u64| {
        interval.lost.insert(reason.to_owned(), n);
        let mut out = Vec::new();
        text::cpu_interval(&mut out, &interval, 0, Style { width: 200, color: false }).unwrap();
        String::from_utf8(out).unwrap()
    };
    let seen = told(SWITCHES_UNSEEN, 1);
    assert!(
        seen.contains("not shown by the kernel: 1 switch; busy or idle is off by") && !seen.contains("lost")
    );
    let seen = told(RECORDS_LOST, 7);
    assert!(
        seen.contains("lost: 7 switch-record; not shown by the kernel: 1 switch; busy or idle"),
        "{seen}"
    );
}

#[test]
fn cpus_read_as_recorded() {
    let intervals = intervals();
    insta::assert_snapshot!(at_every_width(|out, style| {
        intervals.iter().try_for_each(|i| text::cpu_interval(out, i, 5_000_000_000, style))
    }));
}

#[test]
fn a_bake_off_reads_as_recorded() {
    let bakeoff = Recipe::journal().bake();
    let comparisons = compare(&bakeoff);
    insta::assert_snapshot!(at_every_width(|out, style| text::bakeoff(
        out,
        &bakeoff,
        &comparisons,
        Some("8c1fe2"),
        style
    )));
}

#[test]
fn a_bake_off_without_a_reference_shows_its_cells() {
    let mut bakeoff = Recipe::journal().bake();
    bakeoff.factors[0].reference = None;
    let comparisons = compare(&bakeoff);
    insta::assert_snapshot!(at_every_width(|out, style| text::bakeoff(
        out,
        &bakeoff,
        &comparisons,
        Some("8c1fe2"),
        style
    )));
}

fn headers() -> Vec<RunHeader> {
    let mut bakeoff: Bakeoff = Recipe::journal().bake();
    let mut invalid = bakeoff.attempts.remove(0).run.expect("sealed").header;
    invalid.state = RunState::Invalid;
    invalid.reason = Some("lateness p99 1.2 ms is over its limit".into());
    vec![bakeoff.header, invalid]
}

#[test]
fn the_list_of_runs_reads_as_recorded() {
    let headers = headers();
    let line = |header| RunLine { header, name: "8c1fe2".to_owned(), load: None };
    let mut lines: Vec<RunLine<'_>> = headers.iter().map(line).collect();
    lines[1].load = open().load;
    insta::assert_snapshot!(at_every_width(|out, style| text::runs_list(out, &lines, style)));
    let mut out = Vec::new();
    text::runs_list(&mut out, &[], Style::PIPE).expect("writing to memory cannot fail");
    assert_eq!(out, b"no runs\n");
}

#[test]
fn color_adds_codes_and_changes_no_word() {
    let bakeoff = Recipe::journal().bake();
    let comparisons = compare(&bakeoff);
    let written = |color| {
        let mut out = Vec::new();
        text::bakeoff(&mut out, &bakeoff, &comparisons, None, Style { width: 100, color }).expect("memory");
        String::from_utf8(out).expect("it is text")
    };
    let mut plain = written(true);
    while let Some(at) = plain.find('\u{1b}') {
        let end = plain[at..].find('m').expect("a code ends") + at;
        plain.replace_range(at..=end, "");
    }
    assert_eq!(plain, written(false));
    assert_ne!(written(true), written(false));
}

#[test]
fn the_document_of_a_load_is_as_recorded() {
    let run = open();
    let load = run.load.as_ref().expect("it drove a load");
    insta::assert_snapshot!(pretty(&json::load(
        Some(run.header.id),
        load,
        &analysis::machine(load, &run.cpu),
        &run.throttled
    )));
}

#[test]
fn the_document_of_a_closed_loop_says_why_it_has_no_response_time() {
    let run = closed();
    let load = run.load.as_ref().expect("it drove a load");
    let document = json::load(None, load, &unwatched(), &run.throttled);
    for (name, reason) in [
        ("response_ns", "a closed loop has no intended start"),
        ("offered_per_s", "a closed loop has no offered rate"),
        ("arrivals", "events have no due times in a closed loop"),
        ("schedule", "events have no due times in a closed loop"),
        ("late", "events have no due times in a closed loop"),
        ("spin_budget_ratio", "events have no due times in a closed loop"),
        ("fifo", "events have no due times in a closed loop"),
        ("run", "the run was not archived"),
    ] {
        assert!(document[name].is_null(), "{name}");
        assert_eq!(document["missing"][name], reason);
    }
    assert_eq!(document["machine"]["missing"]["busy_ratio"], "the CPUs were not watched");
}

#[test]
fn the_documents_of_cpus_are_as_recorded() {
    let documents = intervals().map(|i| pretty(&json::cpu(&i, 5_000_000_000)));
    insta::assert_snapshot!(documents.join("\n"));
}

#[test]
fn the_document_of_runs_is_as_recorded() {
    insta::assert_snapshot!(pretty(&json::runs(&headers())));
}

#[test]
fn the_document_of_a_bake_off_is_as_recorded() {
    let bakeoff = Recipe::journal().bake();
    let comparisons = compare(&bakeoff);
    insta::assert_snapshot!(pretty(&json::run(&bakeoff, &comparisons)));
    let pairs = &json::compare(&comparisons)["pairs"];
    assert_eq!(pairs, &json::run(&bakeoff, &comparisons)["comparisons"]);
}

/// The document with six digits of each fraction: the last ones differ between mathematical libraries.
fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(&rounded(value.clone())).expect("a document can be written")
}

fn rounded(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Number(n) if n.is_f64() => {
            let short = format!("{:.5e}", n.as_f64().expect("it is one"));
            short.parse::<f64>().expect("what was written reads back").into()
        }
        other => other,
    }
}
