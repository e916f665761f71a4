//! Any text, as the command line of another tool.
//!
//! The lines of the test are the seeds: `split -l 3 testdata/like/lines.txt fuzz/corpus/like/`, and
//! `cargo +nightly fuzz run like`

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plan_fuzz::check(bytes));

/// Checks the files that the command line names.
#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    std::env::args_os().skip(1).try_for_each(|path| std::fs::read(path).map(|bytes| plan_fuzz::check(&bytes)))
}
