//! Gates for continuous integration: `JUnit`, job summary, annotations. The text of a plan is not trusted.

#[path = "../../analysis/tests/sample/mod.rs"]
mod sample;

use analysis::{Comparisons, GateOutcome, GateResult, compare};
use bakeoff_report::gates::{answer, github, junit, worst};
use bakeoff_report::text::{self, Style};
use bakeoff_report::{Form, json, page, render};
use record::bakeoff::Bakeoff;
use record::gate::{Gate, OnInconclusive};
use record::missing::Missing;
use sample::Recipe;

fn judged(gates: &[&str]) -> (Bakeoff, Comparisons) {
    let mut bakeoff = Recipe::journal().bake();
    bakeoff.judge.gates = gates.iter().map(|text| Gate::read(text).expect("it is a gate")).collect();
    let mut comparisons = compare(&bakeoff);
    // The third gate loses its values.
    if let Some(third) = comparisons.gates.get_mut(2) {
        (third.found, third.outcome) = (GateOutcome::Inconclusive, GateOutcome::Inconclusive);
        for of in &mut third.comparisons {
            of.outcome = GateOutcome::Inconclusive;
            of.why = Some(Missing::because("trials were lost in 6 of 6 blocks"));
        }
    }
    (bakeoff, comparisons)
}

fn summary_of(bakeoff: &Bakeoff, comparisons: &Comparisons) -> String {
    let said = text::bakeoff_answer(bakeoff, comparisons);
    github::summary(&bakeoff.header.title, &said, None, "", &comparisons.gates)
}

const GATES: [&str; 3] = ["throughput >= 1/s", "throughput >= 100000000/s", "cpu-per-event <= 1ms"];

/// Elements of the XML as a reader sees them; panics if it is not well formed.
fn elements(xml: &str) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    let mut seen = Vec::new();
    let body = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").expect("a declaration");
    assert!(xml.chars().all(|c| c == '\n' || (!c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'))));
    for part in body.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag has an end");
        assert!(!text.contains('>') && tag.matches('"').count() % 2 == 0, "{part}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else {
            let name = tag.split(' ').next().expect("a tag has a name").to_owned();
            seen.push(name.clone());
            open.push(name);
        }
        let entities = ["amp;", "lt;", "gt;", "quot;", "apos;"];
        let is_entity = |after: &str| entities.iter().any(|entity| after.starts_with(entity));
        assert!([tag, text].iter().all(|t| t.split('&').skip(1).all(is_entity)), "{part}");
    }
    assert!(open.is_empty());
    seen
}

#[test]
fn every_gate_is_a_case_and_an_inconclusive_one_is_not_green() {
    let (bakeoff, comparisons) = judged(&GATES);
    let outcomes: Vec<GateOutcome> = comparisons.gates.iter().map(|g| g.outcome).collect();
    assert_eq!(outcomes, [GateOutcome::Pass, GateOutcome::Fail, GateOutcome::Inconclusive]);
    let xml = junit::suite(&bakeoff.header.title, Some(&bakeoff.header), None, &comparisons.gates);
    assert_eq!(
        elements(&xml),
        ["testsuites", "testsuite", "testcase", "system-out", "testcase", "failure", "testcase", "error"]
    );
    assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{xml}");
    assert!(xml.contains("name=\"throughput &gt;= 1/s\""), "{xml}");
    assert_eq!(worst(&comparisons.gates), Some(GateOutcome::Fail));
}

#[test]
fn a_measurement_that_is_not_whole_is_an_error_even_without_gates() {
    let trouble = Some("INVALID: a quota of 50% throttled <the> commands");
    let xml = junit::suite("x", None, trouble, &[]);
    assert_eq!(elements(&xml), ["testsuites", "testsuite", "testcase", "error"]);
    assert!(xml.contains("tests=\"1\" failures=\"0\" errors=\"1\""), "{xml}");
    assert!(xml.contains("message=\"INVALID: a quota of 50% throttled &lt;the&gt; commands\""), "{xml}");
    assert_eq!(
        github::annotations(trouble, &[]),
        ["::error title=bakeoff::INVALID: a quota of 50%25 throttled <the> commands"]
    );
    let summary = github::summary("x", "no difference", Some("2 of 36 trials are not sealed"), "", &[]);
    assert!(summary.contains("**2 of 36 trials are not sealed**"), "{summary}");
    let (_, comparisons) = judged(&GATES);
    assert!(
        junit::suite("x", None, trouble, &comparisons.gates)
            .contains("tests=\"4\" failures=\"1\" errors=\"2\"")
    );
}

#[test]
fn text_of_a_plan_cannot_leave_its_place() {
    let (mut bakeoff, mut comparisons) = judged(&GATES);
    let evil = "a\"/><x>&\u{1b}]0;\u{0}\u{ffff}\n::error::mine|<script>]]>%0A";
    bakeoff.header.title = evil.to_owned();
    for gate in &mut comparisons.gates {
        for of in &mut gate.comparisons {
            of.configuration.insert("evil".to_owned(), evil.to_owned());
        }
    }
    let xml = junit::suite(&bakeoff.header.title, Some(&bakeoff.header), None, &comparisons.gates);
    assert!(!elements(&xml).contains(&"x".to_owned()), "{xml}");
    let summary = summary_of(&bakeoff, &comparisons);
    assert!(!summary.contains("<script>") && !summary.contains('\u{1b}'), "{summary}");
    assert!(summary.lines().all(|line| !line.starts_with("::")), "{summary}");
    let lines = github::annotations(None, &comparisons.gates);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("::error title=bakeoff gate::throughput >= 100000000/s: "), "{lines:?}");
    assert!(lines[1].starts_with("::warning title=bakeoff gate::"), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains(['\n', '\r', '\u{1b}'])), "{lines:?}");
    assert!(!lines[0].contains("%0A") && lines[0].contains("%250A"), "{lines:?}");
}

#[test]
fn a_summary_stays_under_64_kb_whatever_the_size_of_the_plan() {
    let (mut bakeoff, mut comparisons) = judged(&GATES);
    bakeoff.header.title = "|é".repeat(100_000);
    let one = comparisons.gates[1].clone();
    let many = |result: &GateResult| GateResult {
        comparisons: (0..20).flat_map(|_| result.comparisons.clone()).collect(),
        ..result.clone()
    };
    comparisons.gates = (0..2_000).map(|_| many(&one)).collect();
    let summary = summary_of(&bakeoff, &comparisons);
    assert!(summary.len() < 64_000, "{}", summary.len());
    assert!(summary.ends_with("`bakeoff report` has them all.\n"));
    assert!(summary.contains("**Gates: FAIL: 2000 of 2000 gates"), "{}", &summary[summary.len() - 500..]);

    // Of a comparison of long commands the answer stays, and the rows of its table that fit.
    let table = format!(
        "| | Command |\n|:---|:---|\n| A | {} |\n| B | {} |\n",
        "a".repeat(50_000),
        "b".repeat(50_000)
    );
    let summary = github::summary("two", "B is 22 % slower than A", None, &table, &[]);
    assert!(summary.len() < 64_000 && summary.contains("**B is 22 % slower than A**"), "{}", summary.len());
    assert!(summary.contains("| A | aaa") && !summary.contains("| B |"), "{}", summary.len());
    assert!(summary.contains("1 more lines are left out"), "{}", &summary[summary.len() - 200..]);
}

/// Runs of the archive against each other have no common time: 1970 would be a lie.
#[test]
fn a_suite_without_a_run_has_no_time_and_no_id() {
    let (bakeoff, comparisons) = judged(&GATES);
    let xml = junit::suite("old against new", None, None, &comparisons.gates);
    assert!(!xml.contains("timestamp=") && !xml.contains(" id="), "{xml}");
    assert!(elements(&xml).len() == 8);
    let xml = junit::suite("x", Some(&bakeoff.header), None, &comparisons.gates);
    assert!(xml.contains(&format!(" id=\"{}\" timestamp=\"", bakeoff.header.id)), "{xml}");
}

#[test]
fn the_last_line_of_a_run_with_gates_is_their_answer() {
    let (bakeoff, comparisons) = judged(&GATES);
    let mut out = Vec::new();
    text::bakeoff(&mut out, &bakeoff, &comparisons, None, Style { width: 200, color: false })
        .expect("memory");
    let out = String::from_utf8(out).expect("text");
    let last = out.lines().last().expect("a line");
    assert!(last.starts_with("FAIL: 1 of 3 gates: throughput >= 100000000/s: "), "{out}");
    assert_eq!(answer(&comparisons.gates[..1]).as_deref(), Some("PASS: 1 of 1 gate"));
    assert_eq!(answer(&[]), None);
}

#[test]
fn the_page_and_the_document_have_the_gates_and_without_gates_no_section() {
    let (bakeoff, comparisons) = judged(&GATES);
    let written = render(&page::bakeoff(&bakeoff, &comparisons), Form::Markdown);
    assert!(written.contains("## Gates\n") && written.contains("*throughput &gt;= 1/s: pass*"), "{written}");
    let document = json::run(&bakeoff, &comparisons);
    assert_eq!(document["gates"][1]["outcome"], "fail");
    assert_eq!(document["gates"][2]["found"], "inconclusive");
    assert!(document["gates"][1]["comparisons"][0]["low"].is_number(), "{document}");
    assert!(document["gates"][2]["comparisons"][0]["reason"].is_string(), "{document}");
    let (bakeoff, comparisons) = judged(&[]);
    let written = render(&page::bakeoff(&bakeoff, &comparisons), Form::Markdown);
    assert!(!written.contains("## Gates"));
}

#[test]
fn an_unfinished_bakeoff_passes_no_gate() {
    let mut bakeoff = Recipe::journal().bake();
    bakeoff.judge.gates =
        vec![Gate { on_inconclusive: OnInconclusive::Inconclusive, ..Gate::read(GATES[0]).expect("a gate") }];
    bakeoff.header.state = record::run::RunState::Interrupted;
    let comparisons = compare(&bakeoff);
    assert_eq!(comparisons.gates[0].found, GateOutcome::Inconclusive);
    let why = comparisons.gates[0].comparisons[0].why.as_ref().expect("a reason");
    assert_eq!(why.reason, "the bake-off is not over");
}
