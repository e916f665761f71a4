//! Generated from `cpu_time.bpf.c`.

include!(concat!(env!("OUT_DIR"), "/cpu_time.skel.rs"));
