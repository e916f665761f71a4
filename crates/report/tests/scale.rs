//! The output of `scale` for machines with a known truth.

#[path = "../../analysis/tests/copies/mod.rs"]
mod copies;
mod widths;

use bakeoff_report::{Form, json, page, render, text};
use copies::{cpu, machine};
use record::bakeoff::{Bakeoff, TrialState};
use widths::narrow_and_wide;

/// One single-threaded program on 256 CPUs, at three levels; one round of a level died.
fn hidden() -> Bakeoff {
    let mut run = machine(256, &[1, 64, 256], |n| 10.0 * f64::from(n.min(128)), true);
    for attempt in &mut run.attempts {
        let n: u32 = run.trials[attempt.trial as usize].levels["copies"].parse().expect("a number");
        if let Some(run) = &mut attempt.run {
            run.cpu = vec![cpu(256, n.min(128))];
        }
    }
    run.attempts[1].state = TrialState::Invalid;
    run.attempts[1].reason = Some("copy 7 of 64 did not end within 5m (--timeout)".into());
    run
}

#[test]
fn a_scale_run_at_a_terminal_says_who_is_at_the_limit_first_by_levels() {
    let run = hidden();
    let scale = analysis::scale::scale(&run);
    let printed = narrow_and_wide(|out, style| text::scale(out, &run, &scale, None, Some("8c1fe2"), style));
    assert!(
        printed.contains("One copy uses 0.39 % of this machine, the limit of a single thread"),
        "{printed}"
    );
    insta::assert_snapshot!("scale_at_a_terminal", printed);
    let laid_out = page::scale(&run, &scale, None);
    let page = render(&laid_out, Form::Html);
    assert!(page.contains("of this machine, the limit of a single thread"));
    assert!(render(&laid_out, Form::Markdown).contains("One copy uses 0.39 %"));
    assert_eq!(
        json::scale(&run, &scale, None)["levels"][1]["invalid"][0],
        "round 1: copy 7 of 64 did not end within 5m (--timeout)"
    );
}
