//! Arbitrary entries in a seek table behind intact frames.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|entries: &[u8]| tamp_fuzz::check(&tamp_fuzz::behind_frames(entries)));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    tamp_fuzz::each_argument(|entries| tamp_fuzz::check(&tamp_fuzz::behind_frames(entries)))
}
