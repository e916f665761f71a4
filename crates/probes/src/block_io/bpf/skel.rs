//! Generated from `block_io.bpf.c`.

include!(concat!(env!("OUT_DIR"), "/block_io.skel.rs"));
