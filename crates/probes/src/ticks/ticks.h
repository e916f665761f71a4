/* Types that the kernel side writes and mod.rs reads. */
#ifndef TICKS_H
#define TICKS_H

/* What one CPU's ticks and samples found since the programs were attached. Written by that CPU
 * alone, interrupts off, but for the event; read by others without a lock: each count by itself is
 * whole. */
struct cpu_ticks {
	__u64 ticks;	 /* ticks of the scheduler's timer that fired */
	__u64 before;	 /* ... that found a task running as they came */
	__u64 ends;	 /* interrupts of such ticks that we saw end */
	__u64 after;	 /* ... with a task runnable */
	__u64 in_tick;	 /* 1: between a tick and the end of its interrupt */
	__u64 due_ns;	 /* when the last tick was due */
	__u64 period_ns; /* shortest time between two ticks; 0: none seen in a row */
	__u64 samples;	 /* phase-free samples that came */
	__u64 sampled;	 /* ... that found a task, a softirq or an interrupt's handler running */
	__u64 sample_id; /* of the event whose timer takes the samples; 0: not sampled */
	__u64 timers;	 /* of any kind that expired */
	__u64 unused[5];
};
_Static_assert(sizeof(struct cpu_ticks) == 128, "bpf.rs expects 128 bytes: two cache lines");

/* Everything of one CPU: spans are of softirqs and of handlers of interrupts that ran while it was
 * idle. */
struct cpu {
	struct cpu_ticks ticks;
	struct spans softirqs;
	struct spans handlers;
	__u64 unused[4];
};
_Static_assert(sizeof(struct cpu) == 11 * 64, "bpf.rs expects 704 bytes: whole cache lines");

#endif
