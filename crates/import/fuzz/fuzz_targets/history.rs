//! Any bytes, as the history of another tool.
//!
//! The samples are the seeds: `cargo +nightly fuzz run history fuzz/corpus/history testdata/history`

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| import_fuzz::read_history(bytes));

/// Checks the files that the command line names.
#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    std::env::args_os()
        .skip(1)
        .try_for_each(|path| std::fs::read(path).map(|bytes| import_fuzz::read_history(&bytes)))
}
