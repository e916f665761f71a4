//! Any bytes, beginning as a .lz4 does.

#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| tamp_fuzz::check(file));
