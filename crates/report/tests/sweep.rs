//! The output of `dder` for machines with a known truth.

#[path = "../../analysis/tests/reads/mod.rs"]
mod reads;
mod widths;

use bakeoff_report::{Form, json, page, render, text};
use reads::{Machine, measured, smooth, still};
use record::bakeoff::Bakeoff;
use widths::narrow_and_wide;

/// A machine that is slower above 32 KiB, sleeps at every multiple of 4096, and is slower as a whole for a
/// while.
fn disturbed() -> Bakeoff {
    let call_ns = |size: u64| {
        smooth(size) * if size > 32_768 { 1.05 } else { 1.0 }
            + if size.is_multiple_of(4_096) { 60_000.0 } else { 0.0 }
    };
    measured(&Machine { seed: 3, call_ns, slowness: |t| if (1.0..1.4).contains(&t) { 1.3 } else { 1.0 } })
}

#[test]
fn a_sweep_at_a_terminal_says_what_is_of_the_size_and_what_of_the_moment() {
    let run = disturbed();
    let sweep = analysis::sweep::sweep(&run);
    let other = measured(&Machine { seed: 4, call_ns: smooth, slowness: still });
    let versus = analysis::sweep::versus(&run, &other);
    let printed =
        narrow_and_wide(|out, style| text::sweep(out, &run, &sweep, &versus, Some("8c1fe2"), style));
    insta::assert_snapshot!("sweep_at_a_terminal", printed);
    let page = render(&page::sweep(&run, &sweep, &versus), Form::Html);
    for part in ["Every buffer size", "Shifts by time", "Against the other run", "class=\"dots s0\""] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.len() < 1_500_000, "{}", page.len());
    let document = json::sweep(&run, &sweep, &versus);
    assert_eq!(document["cells"][0]["points"].as_array().map(Vec::len), Some(sweep.cells[0].points.len()));
    assert_eq!(document["compared"][0]["same"], false);
}
