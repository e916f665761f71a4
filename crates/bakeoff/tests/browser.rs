//! The pages of `bakeoff serve` in a real browser: one test, which lasts as long as many others.

#![cfg(feature = "serve")]

#[test]
fn a_user_finds_the_way_through_the_pages_in_a_real_browser() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/check-serve");
    let mut command = std::process::Command::new("bash");
    let ended = command.arg(script).env("BAKEOFF", env!("CARGO_BIN_EXE_bakeoff")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    println!("{out}");
    assert!(ended.status.success(), "{out}{err}");
    // CI installs a browser. A registry that cannot be reached says nothing about the pages.
    let is_ci = std::env::var("CI").is_ok_and(|is| is == "true");
    let may_be_skipped = if is_ci { "skipped: npm cannot fetch" } else { "skipped: " };
    let is_skipped = out.lines().any(|line| line.starts_with(may_be_skipped));
    assert!(out.contains("pages checked") || is_skipped, "{out}{err}");
}
