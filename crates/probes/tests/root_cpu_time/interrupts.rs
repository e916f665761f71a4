//! Interrupts and softirqs: time that belongs to no task.

use std::time::Duration;

use bakeoff_probes::cpu_time::CpuProbe;
use record::clock::{Clock as _, Monotonic};
use record::cpu::CpuSample;

use crate::hog::Hog;
use crate::{last_cpu, of, probe, sleep, two_cpus};

#[test]
fn root_softirqs_are_busy_time_and_taken_out_of_the_thread_that_they_interrupt() {
    const WINDOWS: usize = 5;
    let Some((mut probe, _alone)) = probe() else { return };
    let Some((cpu, from_cpu)) = two_cpus() else { return };
    // A spinner wants its CPU all the time. Time in which it neither ran nor waited, and no handler ran, went
    // to the host, to exits into it, and to the path to handlers and back: first without packets, so the rest
    // is due to the packets.
    let mut spinner = Hog::start(&["spin", &cpu.to_string(), "60"]);
    let control: Vec<Lost> = (0..WINDOWS).map(|_| lost(&mut probe, &mut spinner, None)).collect();
    spinner.stop();
    let words =
        ["packets", &cpu.to_string(), &from_cpu.to_string(), &PACKETS_PER_S.to_string(), "60", "spin"];
    let mut hog = Hog::start(&words);
    let tid = hog.thread("hog-spinner");
    let windows: Vec<Lost> = (0..WINDOWS).map(|_| lost(&mut probe, &mut hog, Some(tid))).collect();
    hog.stop();
    // Share of the time that it had; if others use the CPU too, that is little.
    let unseen = median(control.iter().map(|w| (w.lost() - w.taken) / w.seen));
    let lost = |w: &Lost| w.lost() - unseen * w.seen;
    let taken = median(windows.iter().map(|w| w.taken));
    let way = median(windows.iter().map(|w| lost(w) - w.taken));
    let lost = median(windows.iter().map(lost));
    // The host takes the CPU from the spinner and from handlers alike.
    let stolen = median(windows.iter().map(|w| w.stolen));
    // This thread's waits for a CPU between two readings, and the variation of the windows: next to nothing
    // on a quiet machine.
    let all = || control.iter().chain(&windows);
    let unsure = median(all().map(|w| (w.most - w.least) / 2.0))
        + middle_half(control.iter().map(|w| w.lost() - w.taken))
        + middle_half(windows.iter().map(|w| w.lost() - w.taken));
    eprintln!(
        "handlers took {:.2} % from the spinner, which lost {:.2} % (+-{:.2}) to packets: the difference is {:.0} ns for each of \
         {INTERRUPTS_PER_S:.0} interrupts a second; without packets it lost {:.2} % of its time",
        taken * 100.0,
        lost * 100.0,
        unsure * 100.0,
        way * 1e9 / INTERRUPTS_PER_S,
        unseen * 100.0
    );
    for window in all() {
        assert!(window.taken <= window.most + 0.01, "{window:?}");
    }
    assert!(taken > 0.001 && way > -0.01 - unsure, "taken {taken}, lost {lost} +- {unsure}: {windows:?}");
    let least = lost / LOST_FOR_EACH_TAKEN - 0.01 - unsure - stolen;
    assert!(taken > least, "taken {taken}, lost {lost} +- {unsure}: {windows:?}");

    let last = &windows[WINDOWS - 1];
    assert!(last.of_cpu > last.taken - 0.005, "{last:?}");
    // The spinner's time is the time that it saw, and the rest is reported beside it.
    assert!((last.seen - 0.01..last.most - last.taken + last.seen + 0.01).contains(&last.had), "{last:?}");
    assert!((last.by_kind - last.of_cpu).abs() < 0.005 && last.has_net_rx, "{last:?}");
}

/// The way to a handler and back, which no event shows, takes a virtual machine up to some 10 us, on a busy
/// host: a fifth of the softirq of some 50 us that delivers 50 packets.
const LOST_FOR_EACH_TAKEN: f64 = 1.3;
const PACKETS_PER_S: u64 = 100_000;
/// Interrupts by packets on the CPU that receives them: 50 packets come under one.
const INTERRUPTS_PER_S: f64 = (PACKETS_PER_S / 50) as f64;

/// Time that a thread that wants a CPU all the time lost in a window of a second, as shares.
#[derive(Debug)]
struct Lost {
    /// Time that it had, by its readings of the clock, and by events.
    seen: f64,
    had: f64,
    /// Time in which it neither ran nor waited for a CPU: minimum and maximum.
    least: f64,
    most: f64,
    /// Time that interrupts took from it, and from whatever had the CPU.
    taken: f64,
    of_cpu: f64,
    /// The same by kind.
    by_kind: f64,
    has_net_rx: bool,
    /// Time that the host stole from that CPU, to 10 ms.
    stolen: f64,
}

impl Lost {
    fn lost(&self) -> f64 {
        self.least.midpoint(self.most)
    }
}

/// - `tid`: the thread of the hog that spins; without it, all of its threads do.
fn lost(probe: &mut CpuProbe, hog: &mut Hog, tid: Option<u32>) -> Lost {
    let cpu = last_cpu();
    let delay_ns = |hog: &Hog| tid.map_or_else(|| hog.run_delay_of_all_ns(), |tid| hog.run_delay_ns(tid));
    let delay_outer_ns = delay_ns(hog);
    probe.start();
    let (began_ns, seen_ns, delay_inner_ns) = (Monotonic.now_ns(), hog.seen_ns(), delay_ns(hog));
    sleep(Duration::from_secs(1));
    let (delay_inner_ns, seen_ns) = (delay_ns(hog) - delay_inner_ns, hog.seen_ns() - seen_ns);
    let inner_ns = Monotonic.now_ns() - began_ns;
    let interval = probe.read();
    let delay_outer_ns = delay_ns(hog) - delay_outer_ns;
    let wall_ns = (interval.until_ns - interval.from_ns) as f64;
    let share = |ns: u64| ns as f64 / wall_ns;
    let pid = hog.child.id();
    let tasks = probe.tasks().unwrap().iter().filter(|t| tid.map_or(t.pid == pid, |tid| t.tid == tid));
    let (had_ns, taken_ns) = tasks.fold((0, 0), |(a, b), t| (a + t.on_cpu_ns, b + t.interrupted_ns));
    let kinds = probe.interrupts().unwrap().iter().filter(|k| k.cpu == cpu);
    let sample = of(&interval, cpu);
    Lost {
        seen: share(seen_ns),
        had: share(had_ns),
        least: (inner_ns as f64 - seen_ns as f64 - delay_outer_ns as f64) / wall_ns,
        most: 1.0 - share(seen_ns + delay_inner_ns),
        taken: share(taken_ns),
        of_cpu: sample.irq_ratio.clone().unwrap() + sample.softirq_ratio.clone().unwrap(),
        by_kind: share(kinds.clone().map(|k| k.ns).sum()),
        has_net_rx: kinds.clone().any(|k| k.kind == "net-rx"),
        stolen: sample.stolen_ratio.clone().unwrap(),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values[values.len() / 2]
}

/// Width of the middle half of the values.
fn middle_half(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values[values.len() * 3 / 4] - values[values.len() / 4]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn root_softirqs_on_an_idle_cpu_are_not_idle_time() {
    const WINDOWS: usize = 8;
    let Some((mut probe, _alone)) = probe() else { return };
    let Some((cpu, from_cpu)) = two_cpus() else { return };
    let rate = PACKETS_PER_S.to_string();
    let mut hog = Hog::start(&["packets", &cpu.to_string(), &from_cpu.to_string(), &rate, "60"]);
    probe.start();
    let windows: Vec<CpuSample> = (0..WINDOWS)
        .map(|_| {
            sleep(Duration::from_secs(1));
            of(&probe.read(), cpu).clone()
        })
        .collect();
    let whole = of(&probe.since_start().unwrap(), cpu).clone();
    hog.stop();
    let event = |sample: &CpuSample| sample.event_ratio.clone().unwrap();
    // The host delays some windows, and samples in them: the median is less disturbed than the mean.
    let sampled = median(windows.iter().map(|w| w.sampled_ratio.clone().unwrap() - event(w)));
    // The kernel counts idle time in ticks of 10 ms, so over the whole time only.
    let not_idle = whole.not_idle_ratio.clone().unwrap() - event(&whole);
    let per_s = INTERRUPTS_PER_S + TIMERS_PER_S;
    eprintln!(
        "by events {:.2} %, of that softirqs {:.2} % and interrupts {:.2} %; sampled is {:+.2} points off, not-idle {:+.2}: \
         {:.0} ns for each of {per_s:.0} interrupts a second",
        event(&whole) * 100.0,
        whole.softirq_ratio.clone().unwrap() * 100.0,
        whole.irq_ratio.clone().unwrap() * 100.0,
        sampled * 100.0,
        not_idle * 100.0,
        not_idle * 1e9 / per_s
    );
    assert!(whole.softirq_ratio.clone().unwrap() > 0.005, "{whole:?}");
    // Three standard errors of a window's samples; the median of eight is closer. A handler of the timer's
    // interrupt, of which most are, is not sampled: the sample comes in one.
    let p = event(&whole);
    let error = 3.0 * (p * (1.0 - p) / 997.0).sqrt() / (WINDOWS as f64).sqrt() * 1.25;
    let missed = whole.irq_ratio.clone().unwrap();
    assert!((-0.01 - error - missed..0.01 + error).contains(&sampled), "{sampled} off: {windows:?}");
    // Idle time stops before the handler's first event and starts after its last.
    assert!((-0.01..0.01 + per_s * IDLE_EXIT_S).contains(&not_idle), "{not_idle} off: {whole:?}");
}

/// Interrupts of that CPU's timer: 997 samples, and up to 300 ticks where HZ is at most 300.
const TIMERS_PER_S: f64 = 1_300.0;
/// Maximum time out of idle into a handler and back, on a virtual machine with a busy host.
const IDLE_EXIT_S: f64 = 3e-6;
