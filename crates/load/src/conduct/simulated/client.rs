//! A generator that is slow itself: the server's times are known, so every value that it made is known too.

use super::*;
use crate::judge::verdict;
use crate::measure::client::CpuShare;

/// Waits for a CPU after the answer: one event in `every` waits 24 ms; none if it is 0.
fn waits_after_the_answer(
    clock: Arc<HandClock>,
    every: u64,
) -> impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) + Send + Sync + 'static {
    let events = AtomicU64::new(0);
    move |_| {
        let is_waiting = every > 0 && events.fetch_add(1, Ordering::SeqCst) % every == 7;
        let waited_ns = if is_waiting { 24 * MS } else { MS / 200 };
        clock.waited_ns.fetch_add(waited_ns, Ordering::SeqCst);
        (MS / 5 + waited_ns, Ok(()))
    }
}

fn under(clock: &Arc<HandClock>, every: u64) -> LoadRecord {
    let settings = settings(Loop::open(20.0), 300);
    play_by(clock, settings, 0..0, Keeping::ALL, Box::new(waits_after_the_answer(Arc::clone(clock), every)))
}

#[test]
fn a_wait_for_a_cpu_after_the_answer_is_not_the_servers() {
    // One event in 50: the starved share of the time is 1 %, far below its limit, and the p99 is the wait.
    let record = under(&Arc::default(), 50);
    assert_near(record.response.as_ref().unwrap().known.quantile_ns(0.99), 24 * MS + MS / 5);
    let failed: Vec<_> = record.verdict.failures().map(|check| check.name).collect();
    assert_eq!(failed, ["lateness"], "{:?}", record.verdict);
    for made in
        [&record.generator_made, &record.service_generator_made, &record.operations["serve"].generator_made]
    {
        assert_eq!(made[..2], ["p99", "p99_9"], "{made:?}");
    }
    assert_near(record.server_part.as_ref().unwrap().quantile_ns(1.0), MS / 5);
    // One in 500 is above the p99.
    let record = under(&Arc::default(), 500);
    assert_eq!(record.verdict.state, Validity::Valid, "{:?}", record.verdict);
    assert!(record.generator_made.contains(&"p99_9") && !record.generator_made.contains(&"p99"));
}

#[test]
fn the_waits_of_a_quiet_machine_are_no_mark() {
    let record = under(&Arc::default(), 0);
    assert_eq!(record.verdict.state, Validity::Valid, "{:?}", record.verdict);
    assert!(record.generator_made.is_empty() && record.service_generator_made.is_empty(), "{record:?}");
}

/// A server that takes 2 ms, and once 102 ms.
///
/// - `is_stop`: whether the generator is stopped then.
fn slow_once(
    is_stop: bool,
) -> impl Fn(&Scene<'_>) -> (u64, Result<(), FailureClass>) + Send + Sync + 'static {
    let events = AtomicU64::new(0);
    move |scene| {
        let is_slow = events.fetch_add(1, Ordering::SeqCst) == 300;
        if is_slow && is_stop {
            scene.engine.stops.wake(Some((scene.now_ns + MS, scene.now_ns + 101 * MS)));
        }
        (if is_slow { 102 * MS } else { 2 * MS }, Ok(()))
    }
}

#[test]
fn a_stop_in_a_closed_loop_marks_what_it_made() {
    let record = simulate(settings(Loop::CLOSED, 1), slow_once(true));
    assert_eq!(record.verdict.state, Validity::Valid, "{:?}", record.verdict);
    assert_eq!(record.service_generator_made, ["p99_9", "p99_99", "max"]);
    assert_eq!(record.operations["serve"].generator_made, ["p99_9", "p99_99", "max"]);
    assert!(record.service_summary().unwrap().upper_bounds.contains(&"max"));
    // A server that stalls is not excused.
    let record = simulate(settings(Loop::CLOSED, 1), slow_once(false));
    assert!(record.service_generator_made.is_empty());
}

#[test]
fn a_stop_that_is_the_p99_of_a_closed_loop_makes_it_invalid() {
    let few = LoadSettings { events_max: Some(90), ..settings(Loop::CLOSED, 10) };
    let events = AtomicU64::new(0);
    let record = simulate(few, move |scene| {
        // Of 90 events, the second longest is judged.
        let is_stopped = events.fetch_add(1, Ordering::SeqCst) < 2;
        if is_stopped {
            scene.engine.stops.wake(Some((scene.now_ns + MS, scene.now_ns + 101 * MS)));
        }
        (if is_stopped { 102 * MS } else { 2 * MS }, Ok(()))
    });
    assert!(!check(&record, "client-paused"), "{:?}", record.verdict);
    let counts = record.verdict.checks.iter().filter(|check| check.name == "client-paused").count();
    assert_eq!(counts, 1, "{:?}", record.verdict);
}

#[test]
fn more_threads_do_not_hide_a_client_that_takes_its_cpus() {
    let settings = settings(Loop::CLOSED, 10);
    let counts = Counts { planned: 1_000, done: 1_000, ..Counts::default() };
    let found = |busiest: f64, used_ratio: f64, idle_ratio: f64| {
        let findings = Findings {
            rate_per_s: None,
            schedule_events: None,
            busiest_ratio: Some(busiest),
            share: Some(CpuShare { cpus: 2, used_ratio, idle_ratio }),
            ..super::end::findings(&settings, &counts, 100.0)
        };
        let checks = verdict::checks(&findings);
        let of = |name: &str| checks.iter().find(|check| check.name == name).cloned();
        (of("client-cpu").unwrap(), of("client-share"))
    };
    // Eight threads, each on a CPU for a quarter of the time, on two CPUs.
    let (cpu, share) = found(0.25, 0.95, 0.0);
    assert!(!cpu.ok && cpu.text.contains("95.00 % of the time of the 2 CPUs") && share.is_none(), "{cpu:?}");
    // The server needs almost half of the CPUs: the usual closed loop on one machine.
    assert!(found(0.3, 0.45, 0.0) == (found(0.3, 0.0, 1.0).0, None));
    let (cpu, share) = found(0.2, 0.6, 0.01);
    assert!(cpu.ok && share.is_some_and(|share| share.ok && !share.is_judged()));
    // CPUs to spare: the server, here or elsewhere, is the limit.
    assert!(found(0.2, 0.6, 0.3).1.is_none());
}
