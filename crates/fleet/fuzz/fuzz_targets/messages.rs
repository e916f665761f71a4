//! Any bytes, as what a member of a fleet is sent.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fleet::fuzz::messages(bytes));

/// Checks the files that the command line names.
#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    std::env::args_os()
        .skip(1)
        .try_for_each(|path| std::fs::read(path).map(|bytes| fleet::fuzz::messages(&bytes)))
}
