//! Any bytes, beginning as a .zst does.

#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| tamp_fuzz::check(file));
