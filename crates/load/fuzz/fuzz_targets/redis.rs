//! Any bytes, as the answer of a server.

#![no_main]

libfuzzer_sys::fuzz_target!(|answer: &[u8]| load::fuzz::redis(answer));
