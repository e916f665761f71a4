//! Searches of targets with a known capacity, beside generators that limit some tries.

use super::*;
use crate::schedule::random::Random;

/// A search with runs so long that one event more or less is negligible.
fn search(start_per_s: f64, floor_per_s: f64, ceiling_per_s: f64) -> Search {
    Search::new(start_per_s, Room { floor_per_s, ceiling_per_s, time_s: 1e6 })
}

/// Plays a search to its end on a target that answers by `answer`; returns the answer and the number of runs.
fn play(mut search: Search, mut answer: impl FnMut(f64) -> ProbeEnd) -> (Answer, u32) {
    let mut runs = 0;
    loop {
        match search.next() {
            Next::Done(answer) => return (answer, runs),
            Next::Probe { rate_per_s, .. } => {
                runs += 1;
                search.note(answer(rate_per_s));
            }
        }
    }
}

#[test]
fn a_target_that_gets_slower_is_said_to_have_changed() {
    // Its capacity halves with every third try: 200, 400 and 800 are kept, then less and less.
    let mut tries = 0;
    let decaying = move |per_s: f64| {
        tries += 1;
        let capacity = if tries <= 3 { 1_000.0 } else { 1_000.0 * 0.5_f64.powi((tries - 1) / 3) };
        if per_s <= capacity { ProbeEnd::Kept } else { ProbeEnd::Broken }
    };
    let (answer, _) = play(search(200.0, 33.3, 1e6), decaying);
    let Answer::Changed { kept, broken, again } = answer else { panic!("{answer:?}") };
    assert_eq!(kept, Try { number: 3, rate_per_s: 800.0 });
    assert!(broken.rate_per_s <= 200.0 && again.rate_per_s.total_cmp(&800.0).is_eq(), "{answer:?}");
    assert!(kept.number < broken.number && broken.number < again.number, "{answer:?}");
    // A target that falls to a third of its capacity and stays there: earlier results contradict later ones.
    let mut tries = 0;
    let fallen = move |per_s: f64| {
        tries += 1;
        let capacity = if tries <= 8 { 700.0 } else { 230.0 };
        if per_s <= capacity { ProbeEnd::Kept } else { ProbeEnd::Broken }
    };
    let (answer, _) = play(search(10.0, 1.0, 1e6), fallen);
    assert!(matches!(answer, Answer::Changed { .. }), "{answer:?}");
}

#[test]
fn three_kept_tries_come_first_of_ten_by_chance_once_in_120() {
    // By hand: 3! x 7! / 10!.
    assert!((first_by_chance(3, 7) - 1.0 / 120.0).abs() < 1e-15);
    assert_eq!((first_by_chance(0, 5), first_by_chance(2, 0)), (1.0, 1.0));
}

#[test]
fn a_steady_target_that_keeps_a_promise_by_chance_near_its_capacity_is_rarely_called_changed() {
    let (mut found, mut wrong, mut false_alarms) = (0, 0, 0);
    for seed in 0..1_000 {
        let mut draws = 0;
        // Kept half the time at the capacity, with a chance that changes over 3 % of it.
        let chancy = move |per_s: f64| {
            let chance = 1.0 / (1.0 + ((per_s / 500.0 - 1.0) / 0.03).exp());
            draws += 1;
            let drawn = Random::of(seed, draws).unit();
            if drawn < chance { ProbeEnd::Kept } else { ProbeEnd::Broken }
        };
        match play(search(10.0, 1.0, 1e6), chancy).0 {
            Answer::Found { rate_per_s, .. } if (400.0..550.0).contains(&rate_per_s) => found += 1,
            Answer::Found { .. } => wrong += 1,
            Answer::Changed { .. } => false_alarms += 1,
            _ => {}
        }
    }
    // The rest is unsettled: a target with random results at its capacity has no capacity known to 1 %.
    let of = format!("{false_alarms} false alarms, {found} found, {wrong} wrong, of 1000");
    assert!(false_alarms <= 20 && found >= 300 && wrong <= 10, "{of}");
}

/// Results of 1000 searches: right, wrong, changed, unsettled, unreachable, the generator's limit.
///
/// `target` decides whether a try keeps the promise, from its rate, its number and a drawn value. An answer
/// from 80 to 110 % of the `capacity` is right.
fn answers(capacity: f64, target: impl Fn(f64, u64, f64) -> bool) -> [u32; 6] {
    answers_beside(capacity, target, |_, _| false)
}

/// Variant of [`answers`] with a generator that limits some tries, by their rate and a drawn value.
fn answers_beside(
    capacity: f64,
    target: impl Fn(f64, u64, f64) -> bool,
    is_in_the_way: impl Fn(f64, f64) -> bool,
) -> [u32; 6] {
    let mut ends = [0; 6];
    for seed in 0..1_000 {
        let mut tries = 0;
        let try_at = |per_s: f64| {
            tries += 1;
            let mut drawn = Random::of(seed, tries);
            let kept = target(per_s, tries, drawn.unit());
            match kept {
                // A try that the generator limits is unclear, whatever the target would have done.
                _ if is_in_the_way(per_s, drawn.unit()) => ProbeEnd::Unclear,
                true => ProbeEnd::Kept,
                false => ProbeEnd::Broken,
            }
        };
        let end = match play(search(10.0, 1.0, 1e6), try_at).0 {
            Answer::Found { rate_per_s, .. } => {
                usize::from(!(0.8 * capacity..1.1 * capacity).contains(&rate_per_s))
            }
            Answer::Changed { .. } => 2,
            Answer::Unsettled { .. } => 3,
            Answer::Unreachable { .. } | Answer::TooShort { .. } => 4,
            Answer::GeneratorLimit { .. } | Answer::Stopped => 5,
        };
        ends[end] += 1;
    }
    ends
}

/// The chance that a try keeps the promise; it falls from 1 to 0 about the capacity, over 3 % of it.
fn near(per_s: f64, capacity: f64) -> f64 {
    1.0 / (1.0 + ((per_s / capacity - 1.0) / 0.03).exp())
}

#[test]
fn a_search_beside_wild_tries_finds_the_capacity_or_says_that_it_does_not() {
    // A percentile of heavy tails: some tries break the promise by chance, at any rate. If one try in five
    // does, an answer that is too low is the target's doing.
    for (wild, wrong_max) in [(0.01, 10), (0.05, 20), (0.2, 150)] {
        let ends = answers(500.0, |per_s, _, drawn| drawn < near(per_s, 500.0) * (1.0 - wild));
        let [right, wrong, changed, _, unreachable, limit] = ends;
        assert!(right >= 250 && wrong <= wrong_max, "{wild}: {ends:?}");
        assert!(changed <= 20 && unreachable <= 10 && limit == 0, "{wild}: {ends:?}");
    }
    // A target that never keeps the promise, and one that keeps it once in fifty tries, at any rate.
    assert_eq!(answers(500.0, |_, _, _| false), [0, 0, 0, 0, 1_000, 0]);
    let [right, wrong, changed, _, unreachable, _] = answers(500.0, |_, _, drawn| drawn < 0.02);
    assert!(
        right + wrong <= 10 && changed <= 10 && unreachable >= 800,
        "{right} {wrong} {changed} {unreachable}"
    );
}

#[test]
fn a_search_beside_a_capacity_that_drifts_or_jumps_prints_no_other_one() {
    // The capacity falls by a share with each try, or jumps at the tenth.
    for (drift, jump) in [(0.001, 1.0), (0.005, 1.0), (0.02, 1.0), (0.0, 0.8), (0.0, 0.5), (0.0, 2.0)] {
        let ends = answers(500.0 * jump, |per_s, tries, drawn| {
            let fallen: f64 = (0..tries).map(|_| 1.0 - drift).product();
            let capacity = 500.0 * fallen * if tries < 10 { 1.0 } else { jump };
            drawn < near(per_s, capacity)
        });
        let [_, wrong, _, _, unreachable, limit] = ends;
        assert!(wrong <= 10 && unreachable <= 10 && limit == 0, "{drift} {jump}: {ends:?}");
    }
}

#[test]
fn a_generator_that_is_in_the_way_of_single_tries_is_rarely_called_the_limit() {
    for (share, limit_max) in [(0.01, 5), (0.05, 10), (0.2, 50), (0.4, 150)] {
        let ends =
            answers_beside(500.0, |per_s, _, drawn| drawn < near(per_s, 500.0), |_, drawn| drawn < share);
        let [_, wrong, changed, _, unreachable, limit] = ends;
        assert!(wrong == 0 && changed <= 20 && unreachable == 0 && limit <= limit_max, "{share}: {ends:?}");
    }
}

#[test]
fn a_generator_that_cannot_do_more_is_called_the_limit_and_no_capacity_of_the_target_is_printed() {
    for limit_per_s in [100.0, 300.0, 450.0, 500.0, 600.0] {
        let ends = answers_beside(
            500.0,
            |per_s, _, drawn| drawn < near(per_s, 500.0),
            |per_s, drawn| drawn > near(per_s, limit_per_s),
        );
        let [right, wrong, changed, _, unreachable, _] = ends;
        assert!(wrong == 0 && changed <= 20 && unreachable == 0, "{limit_per_s}: {ends:?}");
        assert!(right == 0 || limit_per_s > 400.0, "{limit_per_s}: {ends:?}");
    }
    // Far above the target's capacity the generator changes nothing.
    let ends = answers_beside(
        500.0,
        |per_s, _, drawn| drawn < near(per_s, 500.0),
        |per_s, drawn| drawn > near(per_s, 800.0),
    );
    assert!(ends[5] <= 20 && ends[1] == 0, "{ends:?}");
}

fn up_to(capacity: f64) -> impl FnMut(f64) -> ProbeEnd {
    move |rate| if rate <= capacity { ProbeEnd::Kept } else { ProbeEnd::Broken }
}

#[test]
fn a_capacity_is_found_within_one_percent_wherever_the_search_begins() {
    for capacity in [3.0, 99.0, 500.0, 12_345.0, 2e6] {
        for start in [1.0, 10.0, 4_000.0] {
            let (answer, runs) = play(search(start, 1.0, 1e7), up_to(capacity));
            let Answer::Found { rate_per_s, broken_at_per_s } = answer else { panic!("{answer:?}") };
            assert!(rate_per_s <= capacity && capacity < broken_at_per_s, "{capacity} {start}");
            assert!(broken_at_per_s <= rate_per_s * RESOLUTION);
            assert!(runs <= 45, "{runs} runs for {capacity} from {start}");
        }
    }
}

#[test]
fn what_cannot_be_found_is_said() {
    let (answer, _) = play(search(10.0, 1.0, 1e7), |_| ProbeEnd::Broken);
    assert_eq!(answer, Answer::Unreachable { at_per_s: 1.0 });
    let (answer, _) = play(search(100.0, 1.0, 1e3), |_| ProbeEnd::Kept);
    assert_eq!(answer, Answer::GeneratorLimit { kept_per_s: Some(1e3), at_per_s: 1e3 });
    let weak = |rate| if rate < 1e4 { ProbeEnd::Kept } else { ProbeEnd::Unclear };
    let (answer, _) = play(search(5e3, 1.0, 1e7), weak);
    assert_eq!(answer, Answer::GeneratorLimit { kept_per_s: Some(5e3), at_per_s: 1e4 });
}

#[test]
fn one_hiccup_does_not_hide_the_rates_above_it() {
    for hiccup in 1..=12 {
        let (mut runs, mut answer) = (0, up_to(1_000.0));
        let (answer, _) = play(search(100.0, 1.0, 1e7), |rate| {
            runs += 1;
            if runs == hiccup { ProbeEnd::Broken } else { answer(rate) }
        });
        let Answer::Found { rate_per_s, broken_at_per_s } = answer else { panic!("{answer:?}") };
        assert!(rate_per_s * RESOLUTION >= 1_000.0 && broken_at_per_s > 1_000.0, "{hiccup}: {rate_per_s}");
    }
}

#[test]
fn a_machine_that_is_disturbed_for_a_while_does_not_hide_the_rates_above() {
    for (first, last) in [(1, 2), (3, 5), (4, 9), (5, 12), (10, 14)] {
        let (mut runs, mut answer) = (0, up_to(1_000.0));
        let (answer, _) = play(search(100.0, 1.0, 1e7), |rate| {
            runs += 1;
            if (first..=last).contains(&runs) { ProbeEnd::Broken } else { answer(rate) }
        });
        let Answer::Found { rate_per_s, broken_at_per_s } = answer else { panic!("{answer:?}") };
        assert!(
            rate_per_s * RESOLUTION >= 1_000.0 && broken_at_per_s > 1_000.0,
            "disturbed from {first} to {last}: {rate_per_s}"
        );
    }
}

#[test]
fn an_answer_names_only_rates_that_were_tried_and_the_tries_that_contradict_each_other() {
    let ends = [ProbeEnd::Kept, ProbeEnd::Broken, ProbeEnd::Unclear, ProbeEnd::Invalid];
    // Every mixture of results, without a consistent target.
    for seed in 0..3_000 {
        let (mut tries, mut search) = (Vec::new(), search(10.0, 1.0, 5_000.0));
        let shares = Random::of(seed, 0).unit();
        let answer = loop {
            let (rate_per_s, stage) = match search.next() {
                Next::Done(answer) => break answer,
                Next::Probe { rate_per_s, stage } => (rate_per_s, stage),
            };
            let mut drawn = Random::of(seed, 1 + tries.len() as u64);
            let is_evidence = drawn.unit() < 0.3 + 0.7 * shares;
            let end = match drawn.below(2) {
                which if is_evidence => ends[usize::from(which == 1)],
                which => ends[2 + usize::from(which == 1)],
            };
            tries.push((rate_per_s, end));
            search.note(end);
            assert!(tries.len() <= TRIES_MAX + 3 || stage == Stage::Recheck, "{seed}");
        };
        let is_rate = |rate_per_s: f64| tries.iter().any(|(tried, _)| tried.total_cmp(&rate_per_s).is_eq());
        let is_try =
            |tried: Try, end: ProbeEnd| tries.get(tried.number - 1) == Some(&(tried.rate_per_s, end));
        let is_right = match &answer {
            Answer::Found { rate_per_s, broken_at_per_s } => {
                is_rate(*rate_per_s) && is_rate(*broken_at_per_s)
            }
            Answer::Unreachable { at_per_s } => is_rate(*at_per_s),
            Answer::GeneratorLimit { kept_per_s, at_per_s } => {
                kept_per_s.is_none_or(is_rate) && is_rate(*at_per_s)
            }
            Answer::Unsettled { kept, broken } => {
                kept.is_none_or(|kept| is_try(kept, ProbeEnd::Kept))
                    && broken.is_none_or(|broken| is_try(broken, ProbeEnd::Broken))
            }
            Answer::Changed { kept, broken, again } => {
                is_try(*kept, ProbeEnd::Kept)
                    && is_try(*broken, ProbeEnd::Broken)
                    && is_try(*again, ProbeEnd::Broken)
                    && kept.number < broken.number
                    && again.rate_per_s.total_cmp(&kept.rate_per_s).is_eq()
            }
            Answer::Stopped | Answer::TooShort { .. } => false,
        };
        assert!(is_right, "{seed}: {answer:?} of {tries:?}");
    }
}

#[test]
fn a_search_without_evidence_to_its_last_try_names_no_rate_that_was_not_tried() {
    // Two of three tries give no evidence, and the third breaks the promise: the floor is too far for 64
    // tries.
    let mut tries = 0;
    let (answer, _) = play(search(4e6, 1e-3, 5e6), |_| {
        tries += 1;
        if tries % 3 == 0 { ProbeEnd::Broken } else { ProbeEnd::Invalid }
    });
    let Answer::Unsettled { kept: None, broken: Some(broken) } = answer else { panic!("{answer:?}") };
    assert_eq!(broken.number, 63);
}

#[test]
fn tries_that_tell_nothing_do_not_break_the_promise_at_the_upper_end() {
    for end in [ProbeEnd::Unclear, ProbeEnd::Invalid] {
        // Broken above 1000/s while the search approaches; at the second look, no try there gives evidence.
        let mut search = search(100.0, 1.0, 1e7);
        let mut answer = up_to(1_000.0);
        let answer = loop {
            match search.next() {
                Next::Done(answer) => break answer,
                Next::Probe { rate_per_s, stage: Stage::Confirm } if rate_per_s > 1_000.0 => search.note(end),
                Next::Probe { rate_per_s, .. } => search.note(answer(rate_per_s)),
            }
        };
        let Answer::GeneratorLimit { kept_per_s: Some(kept), at_per_s } = answer else {
            panic!("{answer:?}")
        };
        assert!(kept <= 1_000.0 && at_per_s > 1_000.0, "{answer:?}");
    }
}

#[test]
fn a_rate_that_was_kept_contradicts_a_generator_that_cannot_do_a_tenth_of_it() {
    // Kept up to 800/s, then broken down to 200/s, then the generator limits every try.
    let mut tries = 0;
    let (answer, _) = play(search(200.0, 10.0, 1e6), |per_s| {
        tries += 1;
        match tries {
            1..=3 => ProbeEnd::Kept,
            _ if per_s > 190.0 => ProbeEnd::Broken,
            _ => ProbeEnd::Unclear,
        }
    });
    let Answer::Changed { kept, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(kept, Try { number: 3, rate_per_s: 800.0 });
}

#[test]
fn luck_does_not_survive_the_confirmation() {
    // Kept at any rate below 1000 on its first try, but in truth only up to 800.
    let mut tried = std::collections::BTreeSet::new();
    let lucky = move |rate: f64| {
        let is_first = tried.insert(rate.to_bits());
        if rate <= 800.0 || (is_first && rate < 1_000.0) { ProbeEnd::Kept } else { ProbeEnd::Broken }
    };
    let (answer, _) = play(search(100.0, 1.0, 1e7), lucky);
    match answer {
        Answer::Found { rate_per_s, .. } => assert!(rate_per_s <= 800.0, "{rate_per_s}"),
        Answer::Unsettled { kept, .. } => assert!(kept.is_some_and(|kept| kept.rate_per_s < 1_000.0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_two_rates_are_told_apart_that_have_the_same_events() {
    for capacity in [19.2, 20.0, 31.4, 99.9] {
        let room = Room { floor_per_s: 5.0, ceiling_per_s: 1e6, time_s: 2.0 };
        let mut tried = Vec::new();
        let (answer, _) = play(Search::new(8.0, room), |rate| {
            tried.push(rate);
            up_to(capacity)(rate)
        });
        let Answer::Found { rate_per_s, broken_at_per_s } = answer else { panic!("{answer:?}") };
        assert!(rate_per_s <= capacity && capacity < broken_at_per_s, "{rate_per_s} {broken_at_per_s}");
        assert!(broken_at_per_s <= (rate_per_s * RESOLUTION).max(rate_per_s + 0.5), "{capacity}");
        tried.sort_by(f64::total_cmp);
        tried.dedup();
        let events: Vec<f64> = tried.iter().map(|rate| room.events(*rate)).collect();
        assert!(events.is_sorted_by(|a, b| a < b), "{tried:?}");
    }
}

#[test]
fn a_run_has_as_many_events_as_the_promise_needs() {
    for (promise, events) in [
        ("mean<1s", 10),
        ("max<1s", 10),
        ("p50<1s", 10),
        ("p99<1s", 100),
        ("p99.9<1s", 1_000),
        ("p99.99<1s,p50<1ms", 10_000),
    ] {
        let promise = Promise::parse(promise).unwrap();
        assert_eq!(events_needed(&promise), events, "{promise}");
        let room = Room::above_floor(&promise, 2.0, 1e6);
        assert_eq!(room.events(room.floor_per_s).to_string(), events.to_string());
    }
}
