//! The headline of a bake-off claims what the judged comparisons imply, and nothing more.

#[path = "../../analysis/tests/sample/mod.rs"]
mod sample;

use analysis::{Comparisons, Verdict, compare};
use bakeoff_report::{Form, Standing, claim, page, render};
use record::bakeoff::{Bakeoff, Metric};
use sample::Recipe;

const VERDICTS: [Verdict; 4] = [Verdict::Better, Verdict::Worse, Verdict::Equivalent, Verdict::Inconclusive];

fn judged() -> (Bakeoff, Comparisons) {
    let bakeoff = Recipe { with_trouble: false, ..Recipe::journal() }.bake();
    let comparisons = compare(&bakeoff);
    assert_eq!(comparisons.pairs.len(), 6, "three levels by two metrics");
    (bakeoff, comparisons)
}

/// The levels that a part of the sentence names; all of them if it names none.
fn levels_in(part: &str, all: &[String]) -> Vec<String> {
    match part.split_once(" at threads ") {
        None => all.to_vec(),
        Some((_, named)) => {
            let named = named.split([':', '.', '(']).next().unwrap_or_default().replace(" and ", ", ");
            named.split(", ").map(|level| level.trim().to_owned()).collect()
        }
    }
}

#[test]
fn for_every_combination_of_verdicts_each_part_of_the_headline_is_what_was_judged() {
    let (bakeoff, mut comparisons) = judged();
    for combination in 0..4_usize.pow(6) {
        for (i, pair) in comparisons.pairs.iter_mut().enumerate() {
            pair.verdict = VERDICTS[combination / 4_usize.pow(u32::try_from(i).expect("six")) % 4];
            // The direction of the numbers follows the verdict, as it does in a judgement.
            if let Ok(e) = &mut pair.estimate {
                let up = (pair.verdict == Verdict::Better) == pair.metric.more_is_better();
                (e.ratio, e.low, e.high) = if up { (1.5, 1.4, 1.6) } else { (0.6, 0.5, 0.7) };
            }
        }
        check(&claim(&bakeoff, &comparisons), &comparisons);
    }
}

fn check(told: &bakeoff_report::Claim, comparisons: &Comparisons) {
    let headline = &told.headline;
    let claims = comparisons.count(Verdict::Better) + comparisons.count(Verdict::Worse);
    assert_eq!(told.standing == Standing::Difference, claims > 0, "{headline}");
    let Some(metric) = told.metric else {
        let differs = ["faster", "slower", "higher", "lower", "times"];
        assert!(differs.iter().all(|word| !headline.contains(word)), "{headline}");
        for (name, metric) in [("throughput", Metric::Throughput), ("p99 latency", Metric::P99)] {
            let mut pairs = comparisons.pairs.iter().filter(|p| p.metric == metric);
            let equal = pairs.all(|p| p.verdict == Verdict::Equivalent);
            let (same, open) = match headline.split_once("annot tell yet") {
                Some((same, open)) => (same, open),
                None => (headline.as_str(), ""),
            };
            assert_eq!((same.contains(name), open.contains(name)), (equal, !equal), "{headline}");
        }
        return;
    };
    let of: Vec<_> = comparisons.pairs.iter().filter(|p| p.metric == metric).collect();
    let all: Vec<String> = of.iter().map(|p| p.levels["threads"].clone()).collect();
    let mut named = 0;
    for part in headline.trim_end_matches('.').split("; ") {
        let verdict = if part.contains("no difference that matters") {
            Verdict::Equivalent
        } else if part.contains("cannot tell yet") {
            Verdict::Inconclusive
        } else if part.contains(" faster") || part.contains(" lower") {
            Verdict::Better
        } else {
            assert!(part.contains("slower") || part.contains("higher"), "{part}");
            Verdict::Worse
        };
        for level in levels_in(part, &all) {
            let pair = of.iter().find(|p| p.levels["threads"] == level).expect("a level of the plan");
            assert_eq!(pair.verdict, verdict, "{headline}: {part}: {level}");
            named += 1;
        }
    }
    assert_eq!(named, of.len(), "{headline}: every level of the metric is told once");
}

#[test]
fn the_range_over_levels_has_one_form_and_holds_every_ratio() {
    let (bakeoff, mut comparisons) = judged();
    let ratios = [(6.6, 5.2, 7.5), (7.3, 6.0, 10.1), (6.98, 5.5, 8.9)];
    for (pair, (ratio, low, high)) in comparisons.pairs.iter_mut().zip(ratios) {
        let estimate = pair.estimate.as_mut().expect("nothing fell out");
        (estimate.ratio, estimate.low_adjusted, estimate.high_adjusted) = (ratio, low, high);
        pair.verdict = Verdict::Better;
    }
    let told = claim(&bakeoff, &comparisons).headline;
    assert_eq!(told, "wal is 6.6 to 7.3 times as fast as delete (95 %: 5.2 to 10.1).");
    let estimate = comparisons.pairs[0].estimate.as_mut().expect("nothing fell out");
    (estimate.ratio, estimate.low_adjusted) = (1.3, 1.2);
    let told = claim(&bakeoff, &comparisons).headline;
    assert_eq!(told, "wal is 1.30 to 7.3 times as fast as delete (95 %: 1.20 to 10.1).");
    // An interval that excludes no difference does not read as if it included it.
    let estimate = comparisons.pairs[0].estimate.as_mut().expect("nothing fell out");
    (estimate.ratio, estimate.low_adjusted) = (1.3, 1.001_2);
    let told = claim(&bakeoff, &comparisons).headline;
    assert_eq!(told, "wal is 1.30 to 7.3 times as fast as delete (95 %: 1.001 to 10.1).");
}

#[test]
fn unkind_bake_offs_have_a_page_that_claims_nothing() {
    let single = Recipe { values: vec!["delete"], with_trouble: false, ..Recipe::journal() }.bake();
    let mut first_block = Recipe { with_trouble: false, ..Recipe::journal() }.bake();
    first_block.header.state = record::run::RunState::Interrupted;
    first_block.attempts.truncate(6);
    let mut titled = Recipe { blocks: 2, with_trouble: false, ..Recipe::journal() }.bake();
    titled.header.title = "<script>alert(1)</script> & \"quotes\"".into();
    for bakeoff in [single, first_block, titled] {
        let comparisons = compare(&bakeoff);
        let told = claim(&bakeoff, &comparisons);
        assert_eq!(told.metric, None, "{}", told.headline);
        let html = render(&page::bakeoff(&bakeoff, &comparisons), Form::Html);
        assert!(!html.contains("<script") && !html.contains("▲") && html.len() < 1_500_000);
    }
}

#[test]
fn twelve_configurations_at_eight_levels_have_one_row_each_in_the_leading_figure() {
    let values = [
        "reference",
        "b",
        "c",
        "d",
        "e",
        "f",
        "g",
        "h",
        "i",
        "j",
        "k",
        "a name of very many letters, and more",
    ];
    let bakeoff = Recipe {
        values: values.to_vec(),
        threads: vec![1, 2, 4, 8, 16, 32, 64, 128],
        effect_ln: |value, _| {
            if value == 0 { 0.0 } else { 0.2 * f64::from(u32::try_from(value).unwrap_or(0)) - 0.5 }
        },
        with_trouble: false,
        ..Recipe::journal()
    }
    .bake();
    let html = render(&page::bakeoff(&bakeoff, &compare(&bakeoff)), Form::Html);
    let lead = &html[html.find("<figure id=\"figure-1\"").expect("it leads")..];
    let height = lead.split("viewBox=\"0 0 880 ").nth(1).and_then(|rest| rest.split('"').next());
    let height: f64 = height.expect("a wide drawing").parse().expect("a number");
    assert!(height < 650.0, "{height}");
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
}

/// A share has points, however many: e to the share is no multiple.
#[test]
fn memory_that_grows_by_more_than_all_of_it_is_no_multiple_of_its_growth() {
    let (mut bakeoff, mut comparisons) = judged();
    bakeoff.judge.metrics = vec![Metric::MemoryGrowth];
    for pair in &mut comparisons.pairs {
        (pair.metric, pair.verdict) = (Metric::MemoryGrowth, Verdict::Worse);
        let e = pair.estimate.as_mut().unwrap();
        (e.ratio, e.low_adjusted, e.high_adjusted) = (1.5_f64.exp(), 1.45_f64.exp(), 1.55_f64.exp());
    }
    let headline = claim(&bakeoff, &comparisons).headline;
    assert!(headline.contains("that is 150 % of its memory more"), "{headline}");
    assert!(headline.contains("145 to 155 %") && !headline.contains("times"), "{headline}");
}

/// `memory` is measured with one and with two threads.
#[test]
fn a_configuration_that_lacks_conditions_is_not_better_everywhere() {
    let mut bakeoff = Recipe {
        values: vec!["delete", "wal", "memory"],
        effect_ln: |value, _| [0.0, 0.3, 0.6][value],
        with_trouble: false,
        ..Recipe::journal()
    }
    .bake();
    let is_left_out =
        |t: &record::bakeoff::Trial| t.levels["journal_mode"] == "memory" && t.levels["threads"] == "4";
    let left_out: Vec<u32> = bakeoff.trials.iter().filter(|t| is_left_out(t)).map(|t| t.index).collect();
    bakeoff.trials.retain(|trial| !left_out.contains(&trial.index));
    bakeoff.attempts.retain(|attempt| !left_out.contains(&attempt.trial));
    let comparisons = compare(&bakeoff);
    let told = claim(&bakeoff, &comparisons);
    let of = |arm: &str| {
        let is_it =
            |f: &&bakeoff_report::Finding| f.metric == Metric::Throughput && f.a["journal_mode"] == arm;
        told.findings.iter().find(is_it).expect("it is compared").text.clone()
    };
    assert!(of("memory").contains(" at threads 1 and 2"), "{}", of("memory"));
    assert!(!of("wal").contains(" at "), "{}", of("wal"));
    assert!(told.caveats.iter().all(|caveat| !caveat.contains("no sealed run")), "{:?}", told.caveats);
    let html = render(&page::bakeoff(&bakeoff, &comparisons), Form::Html);
    assert!(html.contains("measures 8 of the 9 combinations"));
}

/// `wal` is a fifth slower: it is dropped after six of ten blocks. Its other trials are not missing.
#[test]
fn dropped_trials_are_not_missing_and_only_a_verdict_says_worse() {
    let effect_ln = |value: usize, _: u32| if value == 1 { -0.2 } else { 0.0 };
    let mut bakeoff = Recipe { blocks: 10, effect_ln, with_trouble: false, ..Recipe::journal() }.bake();
    bakeoff.judge.sequential = true;
    let is_left_out = |t: &&record::bakeoff::Trial| t.block > 6 && t.levels["journal_mode"] == "wal";
    let left_out: Vec<u32> = bakeoff.trials.iter().filter(is_left_out).map(|t| t.index).collect();
    bakeoff.attempts.retain(|attempt| !left_out.contains(&attempt.trial));
    let told = |bakeoff: &Bakeoff| {
        let comparisons = compare(bakeoff);
        let told = claim(bakeoff, &comparisons);
        let page = render(&page::bakeoff(bakeoff, &comparisons), Form::Markdown);
        assert!(!page.contains("These cells have no sealed run"), "{page}");
        (told.headline, told.caveats.join(" "))
    };
    let (_, caveats) = told(&bakeoff);
    assert!(
        caveats.contains("dropped after block 6 of 10: it is worse than the reference in throughput"),
        "{caveats}"
    );
    bakeoff.exploratory = true;
    let (_, caveats) = told(&bakeoff);
    assert!(caveats.contains("dropped after block 6 of 10 by its throughput; no claim"), "{caveats}");
    assert!(!caveats.contains("worse"), "{caveats}");
    bakeoff.header.state = record::run::RunState::Interrupted;
    let (headline, _) = told(&bakeoff);
    assert!(headline.contains("48 of 48 cells are sealed"), "{headline}");
}
