//! The functions behind a difference: on the page, at a terminal and in the document of a bake-off.

#[path = "../../analysis/tests/sample/mod.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod sample;

use std::collections::BTreeMap;

use analysis::functions::TrialProfiles;
use analysis::{Comparisons, compare};
use bakeoff_report::page::Stacks;
use bakeoff_report::text::Style;
use bakeoff_report::{Form, json, page, render, text};
use record::bakeoff::Bakeoff;
use record::missing::Missing;
use record::profile::{Profile, ProfileDoubts, ProfileKind, ProfileStack, RunProfile, ThreadState};
use record::resources::UsedBy;
use sample::Recipe;

fn stack(frames: &[&str], count: u64) -> ProfileStack {
    ProfileStack {
        comm: "server".to_owned(),
        state: ThreadState::Running,
        frames: frames.iter().map(|f| (*f).to_owned()).collect(),
        count,
        ns: count * 1_000_000,
    }
}

fn taken(stacks: Vec<ProfileStack>) -> RunProfile {
    let profile = Profile {
        kind: ProfileKind::OnCpu,
        only: Err(Missing::because("not recorded")),
        elapsed_ns: 10_000_000_000,
        cpus: 2,
        period_ns: Ok(1_000_000),
        idle_samples: Ok(0),
        stacks,
        still_off: 0,
        doubts: ProfileDoubts::default(),
        notes: Vec::new(),
        lost: BTreeMap::new(),
        cost: Err(Missing::because("not measured")),
    };
    RunProfile { of: UsedBy::Server, profile, summed_stacks: 0 }
}

/// Samples of 10,000 events in `encode`, `parse` and a function of only one side; `more` takes half more in
/// `encode`.
fn stacks_of(is_more: bool, block: u32, name: &str) -> Vec<ProfileStack> {
    // The blocks differ a little, so that there is a spread.
    let jitter = u64::from(block % 3);
    let encode = if is_more { 6_000 } else { 4_000 };
    let odd = if is_more { "new_path" } else { "old_path" };
    vec![
        stack(&["main", "serve", "encode"], encode + 10 * jitter),
        stack(&["main", "serve", name], 3_000 + 7 * jitter),
        stack(&["main", odd], 300),
    ]
}

/// A bake-off of six blocks in which each event of both sides is one of 9,000.
fn profiled(name: &str, change: &dyn Fn(bool, &mut RunProfile)) -> (Bakeoff, Comparisons, Vec<Stacks>) {
    let recipe = Recipe { with_trouble: false, threads: vec![1], effect_ln: |_, _| 0.0, ..Recipe::journal() };
    let mut bakeoff = recipe.bake();
    for run in bakeoff.attempts.iter_mut().filter_map(|attempt| attempt.run.as_mut()) {
        run.load.as_mut().expect("it is a load").achieved_per_s = 900.0;
    }
    let mut comparisons = compare(&bakeoff);
    let mut profiles = TrialProfiles::default();
    for (trial, run) in bakeoff.sealed() {
        let is_more = trial.levels["journal_mode"] == "wal";
        let mut taken = taken(stacks_of(is_more, trial.block, name));
        change(is_more, &mut taken);
        profiles.add(trial, run, &taken);
    }
    comparisons.add_profiles(&bakeoff, &profiles);
    let sides = [true, false].map(|is_more| stacks_of(is_more, 1, name));
    (bakeoff, comparisons, vec![Stacks { pair: 0, sides }])
}

fn section(page: &str) -> &str {
    let from = page.find("<section id=\"functions\"").expect("the page has the section");
    &page[from..from + page[from..].find("</section>").expect("sections end")]
}

fn html(name: &str, change: &dyn Fn(bool, &mut RunProfile)) -> String {
    let (bakeoff, comparisons, stacks) = profiled(name, change);
    render(&page::bakeoff_with(&bakeoff, &comparisons, &stacks), Form::Html)
}

fn printed(bakeoff: &Bakeoff, comparisons: &Comparisons, width: usize) -> String {
    let mut out = Vec::new();
    text::bakeoff(&mut out, bakeoff, comparisons, None, Style { width, color: false }).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn the_page_has_a_table_with_intervals_and_a_picture_in_the_colors_of_the_difference() {
    let page = html("parse", &|_, _| {});
    let section = section(&page);
    assert!(section.contains("<details class=\"folded\">"), "{section}");
    // 2,000 ms more of 7,300 to 7,334 ms.
    assert!(section.contains("encode +27.3 pp"), "{section}");
    assert!(section.contains("More time in `encode` +27.3 pp [+2"), "{section}");
    assert!(section.contains("Less time in `old_path`"), "{section}");
    assert_eq!(section.matches("<g class=\"flame\">").count(), 2, "for wide and narrow pages");
    // Time of an event: 6,000 ms of 9,000 events in six blocks; the stacks are those of one block.
    assert!(section.contains("an event, reference"), "{section}");
    let fill = |name: &str| {
        let from = section.find(&format!("<title>{name}: ")).unwrap_or_else(|| panic!("{name} is drawn"));
        section[from..]
            .split("fill=\"")
            .nth(1)
            .expect("a color")
            .split('"')
            .next()
            .expect("an end")
            .to_owned()
    };
    assert_eq!(fill("encode"), "rgb(240,105,105)");
    assert!(!section.contains("<title>old_path"), "only the reference has it");
    let markdown = {
        let (bakeoff, comparisons, stacks) = profiled("parse", &|_, _| {});
        render(&page::bakeoff_with(&bakeoff, &comparisons, &stacks), Form::Markdown)
    };
    assert!(
        markdown.contains("Functions behind the differences") && markdown.contains("encode"),
        "{markdown}"
    );
    let (bakeoff, ..) = profiled("parse", &|_, _| {});
    let without = render(&page::bakeoff(&bakeoff, &compare(&bakeoff)), Form::Html);
    assert!(!without.contains("id=\"functions\""), "a bake-off without profiles has no section");
}

#[test]
fn text_and_document_name_the_functions_with_intervals_and_samples() {
    let (bakeoff, comparisons, _) = profiled("parse", &|_, _| {});
    let wide = printed(&bakeoff, &comparisons, 120);
    assert!(wide.contains("CPU time of the server's processes: wal against delete"), "{wide}");
    let row = wide.lines().find(|line| line.starts_with("encode")).expect("a row");
    for words in ["668 us", "446 us", "+27.3 pp", "[+", "36,", "24,", "more"] {
        assert!(row.contains(words), "{words}: {row}");
    }
    let words = wide.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Blocks are the unit, not samples."), "{wide}");
    for width in [40, 80] {
        let narrow = printed(&bakeoff, &comparisons, width);
        // The answer is one line, however narrow the terminal.
        let mut lines: Vec<&str> = narrow.lines().collect();
        lines.pop();
        let longest = lines.iter().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width) && narrow.contains("encode"), "{narrow}");
    }
    let document = json::run(&bakeoff, &comparisons);
    let pair = &document["profiles"]["pairs"][0];
    let first = &pair["functions"][0];
    assert_eq!((&first["function"], &first["time"]), (&"encode".into(), &"more".into()), "{document}");
    let [low, difference, high] = ["low_adjusted_ratio", "difference_ratio", "high_adjusted_ratio"]
        .map(|name| first[name].as_f64().unwrap());
    assert!(low < difference && difference < high && (difference - 0.274).abs() < 0.001, "{first}");
    assert_eq!(pair["a_profiles"]["runs"].as_array().map(Vec::len), Some(6));
    assert!(pair["whole"]["function"].is_null() && pair["refused"].is_null(), "{pair}");
    assert!(json::run(&bakeoff, &compare(&bakeoff)).get("profiles").is_none());
    assert!(!printed(&bakeoff, &compare(&bakeoff), 80).contains("CPU time of the server"));
}

#[test]
fn doubts_losses_and_refusals_are_beside_the_table() {
    let doubtful = |is_more: bool, taken: &mut RunProfile| {
        taken.profile.doubts.unnamed_ns = if is_more { taken.profile.total_ns() / 4 } else { 0 };
        taken.profile.lost.insert("samples-that-did-not-come".to_owned(), if is_more { 70 } else { 0 });
    };
    let (bakeoff, comparisons, stacks) = profiled("parse", &doubtful);
    let page = render(&page::bakeoff_with(&bakeoff, &comparisons, &stacks), Form::Html);
    let text = printed(&bakeoff, &comparisons, 120).split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [section(&page).replace('\u{a0}', " "), text] {
        assert!(told.contains("wal: 25.0 % of the time is in code without symbols"), "{told}");
        assert!(told.contains("wal: 420 samples lost; the intervals include them in proportion"), "{told}");
        assert_eq!(
            told.matches("without symbols").count() + told.matches("samples lost").count(),
            2,
            "{told}"
        );
    }
    let mixed = |is_more: bool, taken: &mut RunProfile| {
        taken.of = if is_more { UsedBy::Machine } else { UsedBy::Server }
    };
    let (bakeoff, comparisons, _) = profiled("parse", &mixed);
    let text = printed(&bakeoff, &comparisons, 120);
    assert!(text.contains("No claim: some profiles are of the server's processes"), "{text}");
    let row = text.lines().find(|line| line.starts_with("encode")).expect("a row");
    assert!(row.contains(" - ") && row.contains("unclear"), "{row}");
}

#[test]
fn names_that_others_chose_are_text() {
    let hostile = "</title><script>alert(1)</script>\u{1b}[2J`|";
    let page = html(hostile, &|_, _| {});
    let section = section(&page);
    assert!(!section.contains("<script") && !section.contains('\u{1b}'), "{section}");
    let (bakeoff, comparisons, stacks) = profiled(hostile, &|_, _| {});
    assert!(!printed(&bakeoff, &comparisons, 100).contains('\u{1b}'));
    let markdown = render(&page::bakeoff_with(&bakeoff, &comparisons, &stacks), Form::Markdown);
    assert!(!markdown.contains("<script") && !markdown.contains('\u{1b}'), "{markdown}");
}
