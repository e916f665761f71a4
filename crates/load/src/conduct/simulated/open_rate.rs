//! The rate of an open loop if the ends of the phase cut events.

use super::*;

fn open(workers: u32, warmup_ms: u64, time_ms: u64) -> LoadSettings {
    // Each worker plays by its own schedule: see [`play_by`].
    let pace = Loop::Open(OpenLoop { schedule: Schedule::Own, ..OpenLoop::plain(10.0) });
    let (warmup, time) = (Duration::from_millis(warmup_ms), Duration::from_millis(time_ms));
    LoadSettings { threads: workers, warmup, time, drain: Duration::from_secs(10), ..settings(pace, 1) }
}

#[test]
fn the_rate_is_within_one_event_of_the_offered_one_wherever_the_phase_begins_and_ends() {
    for (service_ms, workers) in [(1, 1), (130, 2), (200, 4), (900, 16), (1_300, 32)] {
        for time_ms in [2_000, 3_170, 10_050] {
            for warmup_ms in [1_310, 1_430, 2_000, 7_770] {
                let record = simulate(open(workers, warmup_ms, time_ms), move |_| (service_ms * MS, Ok(())));
                let about =
                    format!("{service_ms} ms, {time_ms} ms after {warmup_ms} ms: {:?}", record.counts);
                let n = 10.0 * time_ms as f64 / 1e3;
                let found = record.achieved_per_s;
                assert!((found / 10.0 - 1.0).abs() <= 1.0 / n + 1e-9, "{about}: {found}/s");
                assert!(record.counts.balance(), "{about}");
                let said = record.verdict.checks.iter().find(|c| c.name == "achieved-rate").unwrap();
                assert!(said.text.starts_with(&format!("{found:.2}/s done of")), "{about}: {}", said.text);
            }
        }
    }
}

#[test]
fn the_rate_of_a_server_that_cannot_keep_up_is_its_own() {
    // Two workers, 400 ms each: 5 of the 10 a second.
    for (warmup_ms, time_ms) in [(0, 2_000), (310, 3_170), (5_000, 10_050)] {
        let record = simulate(open(2, warmup_ms, time_ms), |_| (400 * MS, Ok(())));
        let n = 5.0 * time_ms as f64 / 1e3;
        assert!((record.achieved_per_s / 5.0 - 1.0).abs() <= 1.0 / n + 1e-9, "{}/s", record.achieved_per_s);
        assert!(!check(&record, "achieved-rate"));
    }
}

/// Events in the slices of whole events that are completions of the phase.
fn completions(record: &LoadRecord) -> u64 {
    let is_ended = |kind| matches!(kind, LatencyKind::Response | LatencyKind::CarriedIn);
    let ended = record.slices.iter().filter(|s| s.operation.is_empty() && is_ended(s.kind));
    ended.map(|s| s.histogram.count()).sum()
}

#[test]
fn the_completions_of_the_series_include_what_was_due_before_the_phase() {
    // Nearly all that ends in the phase was due before it. Two workers do 5 of the 10 a second, and what they
    // end after the phase was due before it, too.
    for (workers, warmup_ms, time_ms, service_ms) in [(16, 2_000, 1_000, 900), (2, 10_000, 2_000, 400)] {
        let truth = Arc::new(AtomicU64::new(0));
        let ended = Arc::clone(&truth);
        let record = simulate(open(workers, warmup_ms, time_ms), move |scene| {
            let phase_ns = warmup_ms * MS..(warmup_ms + time_ms) * MS;
            ended
                .fetch_add(u64::from(phase_ns.contains(&(scene.now_ns + service_ms * MS))), Ordering::SeqCst);
            (service_ms * MS, Ok(()))
        });
        let truth = truth.load(Ordering::SeqCst);
        assert!(truth >= 9 && record.counts.done <= 1, "{truth} {:?}", record.counts);
        assert_eq!(completions(&record), truth, "{:?}", record.counts);
    }
}

#[test]
fn a_phase_that_begins_with_the_load_lacks_what_would_have_been_in_flight() {
    // Of 20 events of 200 ms the last two end with the phase and 100 ms after it.
    let record = simulate(open(4, 0, 2_000), |_| (200 * MS, Ok(())));
    assert!((record.achieved_per_s - 9.75).abs() <= 0.25, "{}/s", record.achieved_per_s);
    // Ten in flight: the phase has half of each, and is too short to say more.
    let record = simulate(open(16, 0, 2_000), |_| (SECOND, Ok(())));
    assert!((record.achieved_per_s - 7.5).abs() <= 0.5, "{}/s", record.achieved_per_s);
    assert!(!check(&record, "achieved-rate"));
}
