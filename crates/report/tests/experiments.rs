//! What `scale` and `dder` print, of machines whose truth is known.

#[path = "../../analysis/tests/copies/mod.rs"]
mod copies;
#[path = "../../analysis/tests/reads/mod.rs"]
mod reads;

use bakeoff_report::text::{self, Style};
use bakeoff_report::{html, json, markdown};
use copies::{cpu, machine};
use reads::{Machine, measured, smooth, still};
use record::bakeoff::{Bakeoff, TrialState};

fn narrow_and_wide(write: impl Fn(&mut Vec<u8>, Style) -> std::io::Result<()>) -> String {
    let at = |width| {
        let mut out = Vec::new();
        write(&mut out, Style { width, color: false }).expect("writing to memory cannot fail");
        format!("--- {width} columns\n{}", String::from_utf8(out).expect("it is text"))
    };
    [40, 100].map(at).concat()
}

/// One single-threaded program on 256 CPUs, and two levels of many, of which one has a round that died.
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

/// Slower above 32 KiB, and by a sleep at every multiple of 4096; for a while the machine is slower as a whole.
fn disturbed() -> Bakeoff {
    let call_ns = |size: u64| {
        smooth(size) * if size > 32_768 { 1.05 } else { 1.0 }
            + if size.is_multiple_of(4_096) { 60_000.0 } else { 0.0 }
    };
    measured(&Machine { seed: 3, call_ns, slowness: |t| if (1.0..1.4).contains(&t) { 1.3 } else { 1.0 } })
}

#[test]
fn a_scale_run_at_a_terminal_says_who_is_at_the_limit_first_by_levels() {
    let run = hidden();
    let scale = analysis::scale::scale(&run);
    let printed = narrow_and_wide(|out, style| text::scale(out, &run, &scale, None, style));
    assert!(printed.contains("One copy uses 0.39 % of this machine and is at its limit"), "{printed}");
    insta::assert_snapshot!("scale_at_a_terminal", printed);
    let page = html::scale(&run, &scale, None);
    assert!(page.contains("One copy uses 0.39 % of this machine and is at its limit"));
    assert!(markdown::scale(&run, &scale, None).contains("One copy uses 0.39 %"));
    assert_eq!(
        json::scale(&run, &scale, None)["levels"][1]["invalid"][0],
        "round 1: copy 7 of 64 did not end within 5m (--timeout)"
    );
}

#[test]
fn a_sweep_at_a_terminal_says_what_is_of_the_size_and_what_of_the_moment() {
    let run = disturbed();
    let sweep = analysis::sweep::sweep(&run);
    let other = measured(&Machine { seed: 4, call_ns: smooth, slowness: still });
    let versus = analysis::sweep::versus(&run, &other);
    let printed = narrow_and_wide(|out, style| text::sweep(out, &run, &sweep, &versus, style));
    insta::assert_snapshot!("sweep_at_a_terminal", printed);
    let page = html::sweep(&run, &sweep, &versus);
    for part in ["Every buffer size", "Shifts of the moment", "Against the other run", "class=\"dots s0\""] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.len() < 1_500_000, "{}", page.len());
    let document = json::sweep(&run, &sweep, &versus);
    assert_eq!(document["cells"][0]["points"].as_array().map(Vec::len), Some(sweep.cells[0].points.len()));
    assert_eq!(document["compared"][0]["same"], false);
}
