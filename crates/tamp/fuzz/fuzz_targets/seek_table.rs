//! Any entries in a seek table that is one by its looks, behind frames that are right.

#![no_main]

libfuzzer_sys::fuzz_target!(|entries: &[u8]| tamp_fuzz::check(&tamp_fuzz::behind_frames(entries)));
