//! Shares of a schedule: their union is the schedule of one generator.

use std::sync::Arc;
use std::time::Duration;

use record::load::{Arrivals, LoadSettings, Loop, OpenLoop, Schedule, Workload};
use record::target::Target;

use crate::schedule::due::{Due, Row, Slot};
use crate::schedule::pace::Scratch;
use crate::schedule::share::{Share, threads_min};

const SECOND_NS: u64 = 1_000_000_000;

/// A load of 10 threads with all phases.
fn load(open: OpenLoop, seed: u64, events_max: Option<u64>) -> LoadSettings {
    LoadSettings {
        threads: 10,
        seed,
        events_max,
        ramp_up: Duration::from_millis(300),
        warmup: Duration::from_millis(700),
        ramp_down: Duration::from_millis(500),
        ..super::settings(Loop::Open(open), 3)
    }
}

/// Everything that a generator takes, as the engine does: phase events and the falling load's.
fn taken(due: &Due, share: &Share) -> Vec<Slot> {
    let (row, mut scratch) = (due.row(), Scratch::default());
    let mut slots = Vec::new();
    match due.schedule() {
        Schedule::Shared => {
            let each = (0..).map(|k| due.slot(row, share.number(k), 0, &mut scratch));
            slots.extend(each.take_while(|slot| slot.due_ns.is_some()));
        }
        Schedule::Own => {
            for own in 0..share.below(share.threads_of_all().into()) {
                let mut number = share.number(own);
                loop {
                    let slot = due.slot(row, number, usize::try_from(own).unwrap(), &mut scratch);
                    if slot.due_ns.is_none() {
                        break;
                    }
                    number = due.next_own(slot.number);
                    slots.push(slot);
                }
            }
        }
    }
    slots
}

fn every_load() -> impl Iterator<Item = (LoadSettings, OpenLoop)> {
    let arrivals = [
        "jitter",
        "period",
        "poisson",
        "ramp:50-450",
        "step:100@1s,0@500ms,300",
        "burst:10-900@100ms/1s",
        "sine:50-350@1s",
        "file:x",
    ];
    let each = arrivals.into_iter().flat_map(|text| {
        [Schedule::Shared, Schedule::Own].into_iter().flat_map(move |schedule| {
            [(217.0, 1, None), (0.9, 2, None), (1_000.0, 3, Some(250))].map(|(per_s, seed, max)| {
                let arrivals = Arrivals::parse(text).unwrap();
                let open = OpenLoop { arrivals, schedule, ..OpenLoop::plain(per_s) };
                (load(open.clone(), seed, max), open)
            })
        })
    });
    each.chain([0.6, 1.0].map(|ratio| {
        let (arrivals, schedule) = (Arrivals::Jitter { ratio }, Schedule::Own);
        let open = OpenLoop { arrivals, schedule, ..OpenLoop::plain(321.0) };
        (load(open.clone(), 5, None), open)
    }))
}

#[test]
fn the_union_of_all_shares_is_the_schedule_of_one_generator_event_for_event() {
    let recorded: Arc<[u64]> = (0..500u64).map(|k| k * k * 11_000).collect();
    let mut compared = 0;
    for (settings, open) in every_load() {
        let whole = Share::whole(&settings);
        let single = Due::new(&settings, &open, &recorded, whole.clone(), 0);
        let mut expected = taken(&single, &whole);
        expected.sort_by_key(|slot| slot.number);
        let equal = [1, 2, 3, 4, 7, 10].map(|of| vec![1; of]);
        let weighted = [vec![1, 2], vec![1, 9], vec![3, 1, 2], vec![5, 4, 1], vec![2, 2, 1, 1]];
        for weights in equal.into_iter().chain(weighted) {
            let shares: Vec<Share> = (0..u32::try_from(weights.len()).unwrap())
                .map(|i| Share::weighted(i, &weights, &settings).unwrap())
                .collect();
            let dues: Vec<Due> =
                shares.iter().map(|share| Due::new(&settings, &open, &recorded, share.clone(), 0)).collect();
            let mut union: Vec<Slot> =
                dues.iter().zip(&shares).flat_map(|(due, share)| taken(due, share)).collect();
            union.sort_by_key(|slot| slot.number);
            assert_eq!(union, expected, "{} {:?} of {weights:?}", open.arrivals, open.schedule);
            for t_ns in [0, 1, 777_777, SECOND_NS, SECOND_NS + 1, 2_345_678_901, 4 * SECOND_NS, u64::MAX] {
                let sum =
                    |of_row: &dyn Fn(&Row) -> u64| dues.iter().map(|due| of_row(due.row())).sum::<u64>();
                let before = |row: &Row| row.due_before(t_ns, &mut Scratch::default());
                let measured = |row: &Row| row.measured_due_before(t_ns, &mut Scratch::default());
                let after = |row: &Row| row.after_due_before(t_ns, &mut Scratch::default());
                let context = format!("{} {:?} of {weights:?} before {t_ns}", open.arrivals, open.schedule);
                assert_eq!(sum(&before), before(single.row()), "{context}");
                assert_eq!(sum(&measured), measured(single.row()), "{context}");
                assert_eq!(sum(&after), after(single.row()), "{context}");
            }
            compared += union.len();
        }
    }
    assert!(compared > 50_000, "{compared} events were compared");
}

#[test]
fn a_share_counts_what_it_takes_at_every_moment() {
    let recorded: Arc<[u64]> = (0..500u64).map(|k| k * k * 11_000).collect();
    for (settings, open) in every_load() {
        for weights in [&[1, 1, 1][..], &[2, 5, 1]] {
            let share = Share::weighted(1, weights, &settings).unwrap();
            let due = Due::new(&settings, &open, &recorded, share.clone(), 0);
            let slots = taken(&due, &share);
            for t_ns in (0..40).map(|k| k * 101_010_101) {
                let expected = slots.iter().filter(|slot| slot.due_ns.is_some_and(|due| due < t_ns)).count();
                let found = due.row().due_before(t_ns, &mut Scratch::default());
                assert_eq!(found, expected as u64, "{} {:?} before {t_ns}", open.arrivals, open.schedule);
            }
        }
    }
}

#[test]
fn a_fleet_gives_each_host_the_connections_that_one_machine_gives() {
    for (hosts, connections, weights) in [
        (2, 12, vec![1; 4]),
        (3, 10, vec![1; 3]),
        (2, 4, vec![1; 2]),
        (4, 4, vec![1; 4]),
        (1, 5, vec![1; 2]),
        (4, 24, vec![3, 1]),
        (3, 20, vec![1, 2, 3]),
    ] {
        let each: Vec<String> = (1..=hosts).map(|host| format!("127.0.0.1:{host}")).collect();
        let whole = LoadSettings {
            threads: 4,
            connections: Some(connections),
            target: Target::new(format!("redis://{}", each.join(","))),
            workload: Workload::Kv,
            ..load(OpenLoop::plain(10.0), 1, None)
        };
        let open = |settings: &LoadSettings| Arc::unwrap_or_clone(crate::open(settings).unwrap());
        let expected = open(&whole).connections(connections);
        let mut sums = vec![0; expected.len()];
        for index in 0..u32::try_from(weights.len()).unwrap() {
            let share = Share::weighted(index, &weights, &whole).unwrap();
            let own = share.of_settings(&whole);
            let here = open(&own).of_share(Some(share));
            for connection in 0..own.connections_in_all() as usize {
                sums[here.number_of(connection)] += 1;
            }
            let each = here.connections(own.connections_in_all());
            assert_eq!(each.iter().sum::<u32>(), own.connections_in_all());
            let reached = each.iter().filter(|connections| **connections > 0).count();
            assert_eq!(here.reached(own.connections_in_all()), reached);
        }
        assert_eq!(sums, expected, "{hosts} hosts, {connections} connections, weights {weights:?}");
    }
}

#[test]
fn threads_and_connections_are_split_without_a_rest() {
    let open = OpenLoop::plain(10.0);
    for (threads, connections) in [(10, None), (10, Some(10)), (13, Some(1_000)), (4, Some(4))] {
        let whole = LoadSettings { threads, connections, ..load(open.clone(), 1, None) };
        for of in 1..=threads {
            let own: Vec<LoadSettings> =
                (0..of).map(|i| Share::new(i, of, &whole).unwrap().of_settings(&whole)).collect();
            assert_eq!(own.iter().map(|s| s.threads).sum::<u32>(), threads);
            assert_eq!(
                own.iter().map(LoadSettings::connections_in_all).sum::<u32>(),
                connections.unwrap_or(threads)
            );
            assert!(own.iter().all(|s| s.threads > 0 && s.violation() == whole.violation()));
        }
        assert_eq!(Share::new(0, threads + 1, &whole), None);
        assert_eq!(Share::new(2, 2, &whole), None);
    }
}

/// A load of `null:` with so many threads.
fn of_threads(threads: u32) -> LoadSettings {
    LoadSettings { threads, ..load(OpenLoop::plain(10.0), 1, None) }
}

/// Weights of generators.
fn every_fleet() -> impl Iterator<Item = Vec<u32>> {
    let few = [
        vec![1],
        vec![7],
        vec![1, 1, 1],
        vec![1, 2],
        vec![100, 1],
        vec![3, 5, 7],
        vec![6, 10, 14],
        vec![1, 1, 1, 1, 50],
        vec![50, 1, 1, 1, 1],
        vec![97, 89, 83, 1],
        (1..=12).collect(),
    ];
    // Weights without a plan.
    let mut state = 1_u32;
    let mut drawn = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 24
    };
    let random = (0..40).map(move |_| (0..2 + drawn() % 9).map(|_| 1 + drawn() % 100).collect());
    few.into_iter().chain(random)
}

#[test]
fn weights_deal_out_every_number_once_and_each_part_is_right_to_within_one() {
    for weights in every_fleet() {
        let settings = of_threads(threads_min(&weights));
        let all: u32 = weights.iter().sum();
        let shares: Vec<Share> = (0..u32::try_from(weights.len()).unwrap())
            .map(|index| Share::weighted(index, &weights, &settings).unwrap())
            .collect();
        let numbers = u64::from(all) * 2 + 3;
        let mut owners = vec![0; usize::try_from(numbers).unwrap()];
        for share in &shares {
            for own in (0..).map(|own| share.number(own)).take_while(|number| *number < numbers) {
                owners[usize::try_from(own).unwrap()] += 1;
            }
        }
        assert!(owners.iter().all(|count| *count == 1), "{weights:?}: {owners:?}");
        for number in 0..numbers {
            let counts: Vec<u64> = shares.iter().map(|share| share.below(number)).collect();
            assert_eq!(counts.iter().sum::<u64>(), number, "{weights:?}");
            for (count, weight) in counts.iter().zip(&weights) {
                let part = number as f64 * f64::from(*weight) / f64::from(all);
                assert!((*count as f64 - part).abs() < 1.0, "{weights:?}: {count} of {number}");
            }
        }
        for (index, share) in (0..).zip(&shares) {
            // What counts and what names a number agree.
            assert!((0..50).all(|own| share.below(share.number(own)) == own), "{weights:?} {index}");
            assert!(share.of_settings(&settings).threads >= 1, "{weights:?} {index}");
        }
    }
}

#[test]
fn equal_weights_are_no_weights_and_a_thread_too_few_is_refused() {
    let settings = of_threads(12);
    for index in 0..4 {
        let plain = Share::new(index, 4, &settings);
        assert_eq!(Share::weighted(index, &[1; 4], &settings), plain);
        assert_eq!(Share::weighted(index, &[30; 4], &settings), plain);
    }
    let weights = [1, 9, 9];
    let least = threads_min(&weights);
    let with = |threads| Share::weighted(0, &weights, &of_threads(threads));
    assert!(least > 3 && with(least).is_some() && with(least - 1).is_none(), "{least}");
    for wrong in [&[0, 1][..], &[101, 1], &[]] {
        assert_eq!(Share::weighted(0, wrong, &settings), None, "{wrong:?}");
    }
    assert_eq!(Share::weighted(2, &[1, 2], &settings), None);
}
