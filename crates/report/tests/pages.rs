//! Pages as readers get them: well formed, self-contained, reproducible, and with the right words.

#[path = "../../analysis/tests/sample/mod.rs"]
mod sample;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use analysis::compare;
use bakeoff_report::{PAGE_SCRIPT, Standing, claim, page, render};
use record::bakeoff::{Bakeoff, TrialState};
use record::locks::{
    LockInterval, LockKind, LockSample, UserLockInterval, UserLockKind, UserLockSample, Waits,
};
use record::metric::Metric;
use record::missing::Missing;
use record::run::RunState;
use record::series::Sample;
use sample::Recipe;

fn html(page: &page::Page) -> String {
    render(page, bakeoff_report::Form::Html)
}

fn markdown(page: &page::Page) -> String {
    render(page, bakeoff_report::Form::Markdown)
}

/// Pages of every kind, by name.
static PAGES: LazyLock<Vec<(&'static str, String)>> = LazyLock::new(|| {
    let of = |bakeoff: &Bakeoff| html(&page::bakeoff(bakeoff, &compare(bakeoff)));
    let journal = Recipe::journal().bake();
    let open = Recipe { rate_per_s: Some(500.0), ..Recipe::journal() }.bake();
    let many = Recipe {
        values: vec!["libc", "jemalloc", "tcmalloc", "mimalloc"],
        threads: vec![1, 2, 4, 8, 16, 32],
        effect_ln: |value, threads| [0.0, 0.02, 0.06, -0.03][value] * f64::from(threads).sqrt() / 2.0,
        ..Recipe::journal()
    }
    .bake();
    let sized = Recipe {
        values: vec!["gzip -1", "lz4 -1", "zstd -1"],
        threads: vec![1, 2],
        with_trouble: false,
        ..Recipe::journal()
    };
    let sized = with_values(sized.bake(), |levels| match levels {
        of if of.contains("gzip") => 72.0,
        of if of.contains("lz4") => 67.5,
        _ => 75.5,
    });
    let mut alone = Recipe { threads: vec![4], with_trouble: false, ..Recipe::journal() }.bake();
    alone.factors.remove(1);
    for trial in &mut alone.trials {
        trial.levels.remove("threads");
    }
    let mut nothing = Recipe::journal().bake();
    for attempt in &mut nothing.attempts {
        attempt.state = TrialState::Invalid;
        attempt.reason = Some("the CPU was busy with <others> & \"more\"".into());
    }
    nothing.environment.facts.insert("cpu.model".into(), Err(Missing::because("not there")));
    let run = open.attempts[0].run.clone().expect("the first attempt was sealed");
    let mut empty = run.clone();
    empty.load = None;
    empty.cpu.clear();
    empty.series.clear();
    let mut recorded = empty.clone();
    for (i, name) in
        ["tool_usr_ratio", "tool_sys_ratio", "tool_calls_per_s", "tool_none_per_s"].iter().enumerate()
    {
        for t in 0..700_i32 {
            let value = f64::from(t % 50) / 100.0 * if i == 3 { 0.0 } else { 1.0 };
            recorded.series.push(Sample {
                t_ms: i64::from(t) * 1_000,
                host: "h".into(),
                name: (*name).into(),
                labels: "".into(),
                value,
            });
        }
    }
    for lock in 0..30 {
        let labels = format!("lock=<a & b>{lock}").into();
        let sample =
            Sample { t_ms: 0, host: "h".into(), name: "lock_s".into(), labels, value: f64::from(lock) };
        recorded.series.push(sample);
    }
    let mut locked = empty.clone();
    locked.instruments.locks = (0..5).map(locks).collect();
    locked.instruments.ulocks = (0..5).map(user_locks).collect();
    let mut elsewhere = Recipe { blocks: 8, ..Recipe::journal() }.bake();
    elsewhere.header.title = "The same <elsewhere>".into();
    elsewhere.environment.facts.insert("kernel.release".into(), Ok("5.10 & older".into()));
    let verdicts = [compare(&journal), compare(&elsewhere), compare(&many)];
    let members: Vec<page::Member<'_>> = [&journal, &elsewhere, &many]
        .into_iter()
        .zip(&verdicts)
        .map(|(bakeoff, comparisons)| page::Member {
            name: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            bakeoff,
            comparisons,
        })
        .collect();
    vec![
        ("several", html(&page::several(&members))),
        ("locked", html(&page::load(&locked))),
        ("journal", of(&journal)),
        ("open", of(&open)),
        ("many", of(&many)),
        ("sized", of(&sized)),
        ("exploratory", of(&Recipe { blocks: 3, with_trouble: false, ..Recipe::journal() }.bake())),
        ("single", of(&Recipe { blocks: 1, with_trouble: false, ..Recipe::journal() }.bake())),
        ("alone", of(&alone)),
        ("nothing", of(&nothing)),
        ("run", html(&page::load(&run))),
        ("closed-run", html(&page::load(journal.attempts[0].run.as_ref().expect("sealed")))),
        ("no-load", html(&page::load(&empty))),
        ("recorded", html(&page::load(&recorded))),
    ]
});

fn waits(count: u64) -> Waits {
    Waits { count, ns_total: count * 12_345, ns_max: 50_000, histogram: [(8_192, count)].into() }
}

fn locks(k: u64) -> LockInterval {
    let lock = |kind, caller: &str, count| LockSample {
        cgroup: None,
        kind,
        address: 0xffff_8880,
        name: Err(Missing::because("it was allocated")),
        caller: Ok(caller.into()),
        stack: Vec::new(),
        waits: waits(count),
        spin_ns_total: count * 10_000,
    };
    let locks = (0..40).map(|n| lock(LockKind::Mutex, &format!("caller_<{n}>"), 10 * (k + 1) * (40 - n)));
    LockInterval {
        from_ns: k * 1_000_000_000,
        until_ns: (k + 1) * 1_000_000_000,
        cpus: 2,
        missed_deadline: false,
        locks: locks.collect(),
        lost: [("no-room".to_owned(), 3)].into(),
    }
    .at_most(30)
}

fn user_locks(k: u64) -> UserLockInterval {
    let lock = |comm: &str, count| UserLockSample {
        cgroup: None,
        pid: 4_711,
        comm: comm.into(),
        address: 0x5589_cc6c,
        kind: UserLockKind::Mutex,
        call: Ok("lock_contended".into()),
        caller: Err(Missing::because("its program was gone")),
        stack: Vec::new(),
        waker: Err(Missing::because("no waker was observed")),
        waits: waits(count),
        spin_ns_total: Ok(count * 1_000),
        not_slept: 0,
        timed_out: 0,
    };
    UserLockInterval {
        from_ns: k * 1_000_000_000,
        until_ns: (k + 1) * 1_000_000_000,
        cpus: 2,
        missed_deadline: false,
        locks: vec![lock("mariadbd", 20 * (k + 1)), lock("a & b", 3)],
        lost: std::collections::BTreeMap::new(),
    }
}

/// All configurations get the same offered rate: their latencies are compared at equal load.
#[test]
fn an_open_loop_has_its_latency_against_the_numeric_factor() {
    let closed = Recipe { with_trouble: false, ..Recipe::journal() };
    let open = Recipe { rate_per_s: Some(500.0), with_trouble: false, ..Recipe::journal() };
    let has_figure = |bakeoff: &Bakeoff| {
        html(&page::bakeoff(bakeoff, &compare(bakeoff))).contains("P99 latency against threads")
    };
    assert!(has_figure(&open.bake()) && !has_figure(&closed.bake()));
}

#[test]
fn locks_have_a_section_each_with_the_top_lines_one_figure_and_what_was_lost() {
    let text = page("locked");
    for words in [
        "Locks of the kernel",
        "caller_&lt;0&gt;",
        "Waiting for locks of the kernel over time",
        "Waits were LOST: 15 no-room",
        "Locks of programs",
        "mariadbd/4711",
        "lock_contended",
        "Waiting for locks of programs over time",
    ] {
        assert!(text.contains(words), "{words}");
    }
    // All forty callers are in the sum: 10 waits times (1 + ... + 40) times (1 + ... + 5).
    assert!(text.contains("≥\u{202f}123,000"), "the sum of all");
}

#[test]
fn several_bakeoffs_stand_side_by_side_and_nothing_is_claimed_between_them() {
    let text = page("several");
    for words in [
        "3 bake-offs, each with its own claims; between them nothing is claimed.",
        "not randomized",
        "The same &lt;elsewhere&gt;",
        "5.10 &amp; older",
        "wal against delete, threads 4",
        "The claim of each",
    ] {
        assert!(text.contains(words), "{words}");
    }
    // A comparison of one bake-off alone has an empty cell for the others.
    assert!(text.contains("jemalloc against libc") && text.contains("<td>-</td>"), "{text}");
}

#[test]
fn several_bakeoffs_tell_a_difference_of_shares_in_percentage_points() {
    let bakeoff = Recipe::journal().bake();
    let mut comparisons = compare(&bakeoff);
    comparisons.pairs.retain(|pair| pair.metric == Metric::Throughput);
    comparisons.pairs.iter_mut().for_each(|pair| pair.metric = Metric::LockCpu);
    let member = |name| page::Member { name, bakeoff: &bakeoff, comparisons: &comparisons };
    let text = markdown(&page::several(&[member("a"), member("b")]));
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| wal against")).collect();
    assert!(rows.len() > 2, "{text}");
    for row in rows {
        assert!(row.contains(" pp") && !row.contains('%'), "{row}");
    }
}

/// The bake-off with a value in every sealed run, by its configuration.
fn with_values(mut bakeoff: Bakeoff, value_of: fn(&str) -> f64) -> Bakeoff {
    for attempt in &mut bakeoff.attempts {
        let trial = bakeoff.trials.iter().find(|t| t.index == attempt.trial).expect("attempts are at trials");
        let levels: Vec<&str> = trial.levels.values().map(String::as_str).collect();
        let (name, labels) = ("reduction_pct".into(), Sample::OF_TRIAL.into());
        let sample =
            Sample { t_ms: 1_000, host: "h".into(), name, labels, value: value_of(&levels.join(" ")) };
        attempt.run.as_mut().expect("all were sealed").series = vec![sample];
    }
    bakeoff
}

fn page(name: &str) -> &'static str {
    &PAGES.iter().find(|(n, _)| *n == name).expect("the tests name pages that there are").1
}

#[test]
fn every_page_is_well_formed_alone_and_has_each_id_once() {
    for (name, page) in &*PAGES {
        let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
        std::fs::write(left, page).expect("the target folder can be written");
        check(name, page);
    }
}

/// A page without its script: the one that all pages with figures over time have, and only they.
fn without_script(name: &str, page: &str) -> String {
    let script = format!("<script>{PAGE_SCRIPT}</script>\n");
    let expected = usize::from(page.contains(" data-lines="));
    assert_eq!(page.matches(&script).count(), expected, "{name}");
    page.replace(&script, "")
}

#[test]
fn the_script_of_pages_asks_no_host_and_ends_where_it_should() {
    for wrong in ["fetch(", "XMLHttpRequest", "WebSocket", "import(", "eval(", "</", "<!--", "innerHTML="] {
        assert!(!PAGE_SCRIPT.contains(wrong), "{wrong}");
    }
    for of_the_licence in ["MIT License", "Leon Sorokin", "v1.6.32"] {
        assert!(PAGE_SCRIPT.contains(of_the_licence), "{of_the_licence}");
    }
    let with_script = PAGES.iter().filter(|(_, page)| page.contains(" data-lines=")).count();
    assert!(with_script > 0 && with_script < PAGES.len(), "{with_script} pages have figures over time");
}

fn check(name: &str, page: &str) {
    assert!(page.len() < 1_500_000, "{name}: {} bytes", page.len());
    let page = &*without_script(name, page);
    let mut open: Vec<String> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut links = BTreeSet::new();
    for tag in tags(page) {
        for (attribute, value) in &tag.attributes {
            match attribute.as_str() {
                "id" => assert!(ids.insert(value.clone()), "{name}: id {value} twice"),
                "href" => assert!(links.insert(value.clone()) && value.starts_with('#'), "{name}: {value}"),
                "aria-labelledby" => links.extend(value.split(' ').map(|id| format!("#{id}"))),
                "src" | "srcset" | "action" | "data" => panic!("{name}: <{} {attribute}>", tag.name),
                other => assert!(!other.starts_with("on"), "{name}: script in {other}"),
            }
        }
        assert!(
            !["script", "link", "iframe", "object", "img"].contains(&tag.name.as_str()),
            "{name}: {}",
            tag.name
        );
        match tag.form {
            Form::Open => open.push(tag.name),
            Form::Close => assert_eq!(open.pop().as_deref(), Some(tag.name.as_str()), "{name}"),
            Form::Empty => {}
        }
    }
    assert!(open.is_empty(), "{name}: {open:?} never closed");
    for link in links {
        assert!(ids.contains(&link[1..]), "{name}: {link} leads nowhere");
    }
    for outside in ["http://", "https://", "url(", "@import"] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(outside), "{name}: {outside}");
    }
    for wrong in ["NaN", "inf\"", ">inf<", "secret"] {
        assert!(!page.contains(wrong), "{name}: {wrong}");
    }
}

enum Form {
    Open,
    Close,
    Empty,
}

struct Tag {
    name: String,
    form: Form,
    attributes: Vec<(String, String)>,
}

/// The tags of a page in XML syntax; panics if the syntax is wrong.
fn tags(page: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at]);
        let end = rest[at..].find('>').expect("every tag ends") + at;
        tags.push(tag(&rest[at + 1..end]));
        rest = &rest[end + 1..];
        if tags.last().is_some_and(|t| t.name == "style" && matches!(t.form, Form::Open)) {
            rest = &rest[rest.find("</style>").expect("styles end")..];
        }
    }
    check_text(rest);
    tags
}

fn check_text(text: &str) {
    assert!(!text.contains('>'), "a bare > in {text:?}");
    for part in text.split('&').skip(1) {
        let name = part.split(';').next().unwrap_or_default();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "&{name} in {text:?}");
    }
}

fn tag(inside: &str) -> Tag {
    if let Some(name) = inside.strip_prefix('/') {
        return Tag { name: name.to_owned(), form: Form::Close, attributes: Vec::new() };
    }
    let (inside, form) = inside.strip_suffix('/').map_or((inside, Form::Open), |i| (i, Form::Empty));
    let (name, mut rest) = inside.split_once([' ', '\n']).unwrap_or((inside, ""));
    let mut attributes = Vec::new();
    while let Some((key, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"').expect("attributes are quoted");
        check_text(value);
        attributes.push((key.trim().to_owned(), value.to_owned()));
        rest = after;
    }
    assert!(rest.trim().is_empty(), "{inside:?}");
    Tag { name: name.to_owned(), form, attributes }
}

#[test]
fn the_same_bake_off_gives_the_same_bytes() {
    let again = Recipe::journal().bake();
    assert_eq!(html(&page::bakeoff(&again, &compare(&again))), page("journal"));
}

/// The page of a reader without pictures, styles and scripts.
#[test]
fn the_page_of_a_bake_off_reads_as_recorded() {
    insta::assert_snapshot!(words(page("journal")));
}

#[test]
fn the_page_of_a_load_reads_as_recorded() {
    insta::assert_snapshot!(words(page("run")));
}

#[test]
fn the_markdown_of_a_bake_off_reads_as_recorded() {
    let bakeoff = Recipe::journal().bake();
    insta::assert_snapshot!(markdown(&page::bakeoff(&bakeoff, &compare(&bakeoff))));
}

#[test]
fn the_markdown_of_a_load_reads_as_recorded() {
    let bakeoff = Recipe::journal().bake();
    insta::assert_snapshot!(markdown(&page::load(bakeoff.attempts[0].run.as_ref().expect("sealed"))));
}

/// A percentile that is mostly the generator's own lateness is a bound in every place of the page.
#[test]
fn a_percentile_that_the_generator_may_have_made_is_a_bound_everywhere() {
    let bakeoff = Recipe { rate_per_s: Some(500.0), ..Recipe::journal() }.bake();
    let mut run = bakeoff.attempts[0].run.clone().expect("sealed");
    let marks =
        |run: &record::run::Run| markdown(&page::load(run)).replace("&lt;", "<").matches("<=").count();
    let before = marks(&run);
    run.load.as_mut().expect("the run drove a load").generator_made = vec!["p99"];
    let text = markdown(&page::load(&run));
    assert!(marks(&run) >= before + 2, "{before} marks before, {} after:\n{text}", marks(&run));
    assert!(text.contains("response time at most "), "{text}");
}

/// The text between the tags, one line per block, without pictures, styles and scripts.
fn words(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        out.push_str(rest[..at].trim_start_matches('\n'));
        let end = rest[at..].find('>').expect("every tag ends") + at;
        let name = rest[at + 1..end].split([' ', '\n']).next().unwrap_or_default();
        rest = &rest[end + 1..];
        if let "style" | "svg" | "script" = name {
            rest = &rest[rest.find(&format!("</{name}>")).expect("it ends")..];
        } else if let "/td" | "/th" = name {
            out.push_str(" | ");
        } else if name.starts_with('/') && !matches!(name, "/span" | "/b" | "/a") && !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

#[test]
fn the_worst_news_comes_first() {
    let standing = |bakeoff: &Bakeoff| claim(bakeoff, &compare(bakeoff)).standing;
    let good = Recipe::journal().bake();
    assert_eq!(standing(&good), Standing::Difference);
    let mut interrupted = good.clone();
    interrupted.header.state = RunState::Interrupted;
    assert_eq!(standing(&interrupted), Standing::Unfinished);
    let mut invalid = good.clone();
    invalid.header.state = RunState::Invalid;
    assert_eq!(standing(&invalid), Standing::Invalid);
    invalid.header.state = RunState::Failed;
    assert_eq!(standing(&invalid).word(), "FAILED");
    assert_eq!(standing(&Recipe { blocks: 5, ..Recipe::journal() }.bake()), Standing::Exploratory);
    let same = Recipe { effect_ln: |_, _| 0.0, noise_ln: 0.001, ..Recipe::journal() };
    let mut same = same.bake();
    same.judge.metrics.truncate(1);
    assert_eq!(standing(&same), Standing::Equivalent);
    let noisy = Recipe { effect_ln: |_, _| 0.0, noise_ln: 0.05, ..Recipe::journal() };
    assert_eq!(standing(&noisy.bake()), Standing::NothingFound);
    let mut nothing = good;
    for attempt in &mut nothing.attempts {
        attempt.state = TrialState::Failed;
    }
    assert_eq!(standing(&nothing), Standing::Invalid);
}

#[test]
fn a_value_of_trials_stands_against_throughput_with_every_name_in_the_picture() {
    let page = page("sized");
    assert_eq!(
        words(page).matches("Reduction against throughput. ").count(),
        1,
        "one figure with two styles"
    );
    let picture = page.split("<svg").find(|svg| svg.contains("reduction, %")).expect("it is drawn");
    for text in ["threads 1", "threads 2", ">gzip -1<", ">lz4 -1<", ">zstd -1<"] {
        assert!(picture.contains(text), "{text}");
    }
    for row in ["gzip -1 | 1 | 72.00 |", "lz4 -1 | 2 | 67.50 |", "zstd -1 | 2 | 75.50 |"] {
        assert!(words(page).split_whitespace().collect::<Vec<_>>().join(" ").contains(row), "{row}");
    }
}

#[test]
fn what_was_recorded_is_drawn_and_told() {
    let page = page("recorded");
    assert!(page.contains("34 series of up to 700 values over 11 min 39 s."));
    assert!(page.contains("tool: shares over time") && page.contains("tool over time"));
    assert!(page.contains("lock_s, the 20 greatest of 30") && page.contains("lock=&lt;a &amp; b&gt;29"));
}

#[test]
fn a_run_that_recorded_nothing_says_so() {
    assert!(page("no-load").contains("Nothing was recorded over time."));
}
