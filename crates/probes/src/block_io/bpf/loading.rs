//! Settings of the programs before they are loaded: which of them run, for what, and with how much memory.

use std::fs;

use record::block_io::{IoEvents, IoOp};

use super::skel::OpenBlockIoSkel;
use super::skel::types::group;
use super::sums::IO_OPS;
use crate::block_io::{Device, Options};
use crate::program::comm;

/// Constants of `block_io.h`.
pub(super) const SLOTS: u32 = 64;
const WAYS: u32 = 16;
const WAYS_SETS_MAX: u32 = 2_048;
const KEY_BYTES_WITHOUT_OWNER: u32 = 8;
/// Memory of all slots on all CPUs that the kernel lists as possible.
const SLOTS_BYTES_MAX: usize = 32 << 20;

pub(super) fn choose(open: &mut OpenBlockIoSkel<'_>, events: IoEvents) {
    let progs = &mut open.progs;
    let is = |wanted: &[IoEvents]| wanted.contains(&events);
    for (program, wanted) in [
        (&mut progs.on_start, is(&[IoEvents::StartToDone])),
        (&mut progs.on_issue, is(&[IoEvents::StartToDone])),
        (&mut progs.on_done, is(&[IoEvents::StartToDone])),
        (&mut progs.on_error, is(&[IoEvents::StartToDone])),
        (&mut progs.on_insert, is(&[IoEvents::InsertToComplete])),
        (&mut progs.on_issue_or_begin, is(&[IoEvents::InsertToComplete])),
        (&mut progs.on_complete, is(&[IoEvents::InsertToComplete, IoEvents::IssueToComplete])),
        (&mut progs.on_issue_begin, is(&[IoEvents::IssueToComplete])),
        (&mut progs.on_requeue, is(&[IoEvents::IssueToComplete])),
        (&mut progs.on_issue_only, is(&[IoEvents::Issue])),
        (&mut progs.on_requeue_only, is(&[IoEvents::Issue])),
    ] {
        program.set_autoload(wanted);
    }
}

pub(super) fn set_up(
    open: &mut OpenBlockIoSkel<'_>,
    options: &Options,
    possible: u32,
) -> libbpf_rs::Result<()> {
    let has_owner = options.by.comm || options.by.file || options.by.cgroup;
    if !has_owner {
        open.maps.owners.set_max_entries(1)?;
    }
    let slots = if has_owner { 0 } else { slots(options, possible as usize) };
    open.maps.slots.set_max_entries((2 * slots).max(1))?;
    for groups in [&mut open.maps.groups_even, &mut open.maps.groups_odd] {
        groups.set_max_entries(options.groups_max - slots)?;
        if !has_owner {
            groups.set_key_size(KEY_BYTES_WITHOUT_OWNER)?;
        }
    }
    let sets = options.flights_max.div_ceil(WAYS).next_power_of_two().min(WAYS_SETS_MAX);
    let settings = open.maps.rodata_data.as_deref_mut().expect("our object has a .rodata");
    settings.sets_mask = sets - 1;
    settings.has_slots = slots > 0;
    settings.slots_mask = slots.saturating_sub(1);
    settings.by_comm = options.by.comm;
    settings.by_file = options.by.file;
    settings.by_cgroup = options.by.cgroup;
    settings.only_cgroup = options.cgroup.is_some();
    settings.only_dev = options.device.map_or(0, Device::number);
    settings.only_tgid = options.pid.unwrap_or(0);
    let bit = |op: &IoOp| 1 << IO_OPS.iter().position(|o| o == op).expect("all of them are listed");
    settings.only_ops = options.ops.iter().map(bit).fold(0, |all, bit: u32| all | bit);
    settings.only_comm = comm(options.comm.as_deref());
    Ok(())
}

/// Number of groups with separate sums for each CPU: enough for reads, writes, flushes and discards of each
/// device, limited by [`SLOTS`], [`Options::groups_max`] and [`SLOTS_BYTES_MAX`]; a power of two, or 0. All
/// CPUs share at least one group.
pub(super) fn slots(options: &Options, cpus: usize) -> u32 {
    const OPS: u32 = 4;
    let devices = if options.device.is_some() { 1 } else { with_a_size() };
    let wanted = (devices.min(SLOTS) * OPS).next_power_of_two();
    // Two halves of each.
    let fit = SLOTS_BYTES_MAX / (2 * size_of::<group>() * cpus.max(1));
    let fit = u32::try_from(fit).unwrap_or(u32::MAX);
    let most = SLOTS.min(options.groups_max.saturating_sub(1)).min(fit);
    if most == 0 { 0 } else { wanted.min(1 << most.ilog2()) }
}

/// Number of devices with a size above 0; at least 1.
fn with_a_size() -> u32 {
    let has_a_size = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("size")).is_ok_and(|size| size.trim() != "0")
    };
    let found = fs::read_dir("/sys/block").into_iter().flatten().flatten().filter(has_a_size).count();
    u32::try_from(found).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use record::block_io::IoBy;

    use super::*;

    #[test]
    fn the_memory_of_slots_is_bounded_on_any_number_of_cpus() {
        let options = Options { device: None, ..Options::everything(IoBy { op: true, ..IoBy::default() }) };
        for cpus in [1, 2, 64, 256, 1_024, 8_192] {
            let slots = slots(&options, cpus) as usize;
            let bytes = 2 * slots * size_of::<group>() * cpus;
            assert!(bytes <= SLOTS_BYTES_MAX, "{cpus} CPUs: {slots} slots, {bytes} bytes");
            assert!(slots == 0 || slots.is_power_of_two(), "{cpus} CPUs: {slots} slots");
        }
        assert!(slots(&options, 2) >= 4, "a machine of two CPUs has slots for one device at least");
        assert!(slots(&options, 256) >= 4, "and so has one of 256");
    }
}
