//! The ladder: from BPF over perf down to `/proc`.

use std::path::Path;

use record::cpu::Rung;

#[cfg(feature = "bpf")]
use super::bpf;
use super::options::Options;
use super::perf;
use super::source::Source;

/// Opens the highest available rung, from `highest` down; each unavailable one leaves a note.
pub(super) fn best_source(options: &Options, notes: &mut Vec<String>) -> Option<Box<dyn Source>> {
    if options.root != Path::new("/") {
        notes.push(format!(
            "context switches are not observed: {} is not this machine",
            options.root.display()
        ));
        return None;
    }
    let mut tried = |source: Result<Box<dyn Source>, String>| source.map_err(|why| notes.push(why)).ok();
    let bpf = if options.highest <= Rung::Bpf { tried(bpf_source(options)) } else { None };
    bpf.or_else(|| if options.highest <= Rung::Perf { tried(perf_source(options)) } else { None })
}

#[cfg(feature = "bpf")]
fn bpf_source(options: &Options) -> Result<Box<dyn Source>, String> {
    Ok(Box::new(bpf::Bpf::open(options)?))
}

#[cfg(not(feature = "bpf"))]
fn bpf_source(_: &Options) -> Result<Box<dyn Source>, String> {
    Err("cannot trace context switches: this build lacks BPF; build it with the feature `bpf`".into())
}

fn perf_source(options: &Options) -> Result<Box<dyn Source>, String> {
    let online = options.online();
    Ok(Box::new(perf::Perf::open(&online)?))
}
