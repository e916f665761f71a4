//! The last line of a command is its answer, and a short name finds the run again.

mod lab;

use std::process::Stdio;

use lab::{Ended, Lab};

const LOAD: [&str; 9] =
    ["load", "exec:true", "--rate", "20", "--time", "1s", "--warmup", "0", "--no-archive"];

fn last(ended: &Ended) -> &str {
    ended.out.lines().last().unwrap_or_default()
}

#[test]
fn runs_show_prints_what_the_load_printed_by_its_short_name() {
    let lab = Lab::new();
    let ended = lab.run(&LOAD[..8]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let stored = ended.out.lines().rev().nth(1).expect("a line before the answer").trim();
    let name = stored.strip_prefix("stored as ").and_then(|rest| rest.split(' ').next()).expect("its name");
    assert!(stored.ends_with(&format!("bakeoff report {name} -o load.html")), "{stored}");
    assert_eq!(lab.run(&["runs", "show", name]).out, ended.out);
    assert_eq!(lab.run(&["runs", "show", &name.to_uppercase()]).out, ended.out);
    let full = lab.run(&["runs", "show", "-v", name]).out;
    assert!(full.contains("p99.99") && full.contains("  ok"), "{full}");
    assert!(!ended.out.contains("  ok"), "checks that passed are printed with -v only: {}", ended.out);
    assert!(lab.run(&["runs", "list"]).out.contains(name));
    // Fewer characters of the end could also be anyone's.
    let short = lab.run(&["runs", "show", &name[1..]]);
    assert_eq!(short.code, Some(2), "{}{}", short.out, short.err);
    // The page's command works as it was printed.
    let page = lab.path("load.html");
    let made = lab.run(&["report", name, "-o", page.to_str().expect("text")]);
    assert!(made.code == Some(0) && page.exists(), "{}", made.err);
}

#[test]
fn the_last_line_of_every_experiment_is_its_answer() {
    let lab = Lab::new();
    let scale = lab.run(&["scale", "--copies", "1,2", "--rounds", "1", "--time", "200ms", "--", "true"]);
    let is_answer = |line: &str| line.starts_with("VALID: ") || line.starts_with("INVALID: ");
    assert!(is_answer(last(&scale)), "{}{}", scale.out, scale.err);
    let shown = lab.run(&["runs", "show", "latest"]);
    assert_eq!(shown.out, scale.out);
}

#[test]
fn an_experiment_without_a_valid_round_says_so_with_number_limit_and_mend() {
    let lab = Lab::new();
    let words =
        ["scale", "--copies", "1", "--rounds", "2", "--time", "100ms", "--no-observe", "--", "sh", "-c"];
    // It fails in every round but not in the trial of the command.
    let flaky = format!("test -e {0} && exit 7; touch {0}", lab.path("once").display());
    let scale = lab.run(&[&words[..], &[&flaky]].concat());
    let answer = last(&scale);
    let word = if scale.code == Some(5) { "FAILED" } else { "INVALID" };
    assert!(
        answer.starts_with(&format!("{word}: 0 of 2 trials valid, at least 1 needed; the first: ")),
        "{}{}",
        scale.out,
        scale.err
    );
    assert!(answer.contains('7'), "the exit code: {answer}");
    assert!(matches!(scale.code, Some(3 | 5)), "{:?}", scale.code);

    // A bake-off with a rate that its command cannot keep.
    let plan = lab.path("plan.toml");
    let text = "schema = 1\ntitle = \"Too fast\"\n[design]\nblocks = 1\n[load]\ntarget = \"exec:sleep 0.2\"\nrate = 20\nthreads = 1\n\
        [phases]\nwarm-up = { min = \"50ms\" }\nmeasure = { time = \"1s\", interval = \"500ms\" }\n";
    std::fs::write(&plan, text).expect("a plan");
    let run = lab.run(&["run", plan.to_str().expect("text")]);
    let answer = last(&run);
    assert!(
        answer.starts_with("INVALID: 0 of 1 trial valid, at least 1 needed; the first: "),
        "{}{}",
        run.out,
        run.err
    );
    assert!(answer.contains("% needed") && answer.contains("; mend: ") && !answer.contains("--"), "{answer}");
}

#[test]
fn an_overloaded_command_is_not_said_to_have_done_nothing() {
    let lab = Lab::new();
    let load = [
        "load",
        "exec:sleep 0.5",
        "--rate",
        "10",
        "--threads",
        "1",
        "--time",
        "3s",
        "--warmup",
        "3s",
        "--no-archive",
    ];
    let ended = lab.run(&load);
    let answer = last(&ended);
    assert!(answer.starts_with("INVALID: ") && !answer.contains("kept up"), "{answer}");
    assert!(answer.contains("of the events due in the phase ended in it"), "{answer}");
    assert!(answer.contains("the rate includes events that were due before the phase"), "{answer}");
}

#[test]
fn an_answer_does_not_need_a_terminal_a_reader_or_events() {
    let lab = Lab::new();
    let failing =
        lab.run(&["load", "exec:false", "--rate", "20", "--time", "1s", "--warmup", "0", "--no-archive"]);
    assert!(
        last(&failing).starts_with("INVALID: ") && last(&failing).contains("allowed; mend: "),
        "{}",
        failing.out
    );
    assert!(!failing.out.contains("stored as"), "it is not stored: {}", failing.out);
    let closed = lab.run(&["load", "exec:true", "--time", "1s", "--warmup", "0", "--no-archive"]);
    assert!(last(&closed).contains(": ") && !closed.out.contains("offered"), "{}", closed.out);
    // Standard output that nothing reads.
    let mut child =
        lab.command(&LOAD).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
