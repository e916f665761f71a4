//! Arbitrary bytes behind the beginning of a .gz file.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|file: &[u8]| tamp_fuzz::check(file));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    tamp_fuzz::each_argument(tamp_fuzz::check)
}
