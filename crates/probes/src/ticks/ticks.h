/* Types that the kernel side writes and mod.rs reads. */
#ifndef TICKS_H
#define TICKS_H

enum {
	/* A sample comes up to some 100 us late where a host has to wake the CPU up, and interrupts
	 * may come every 10 us. */
	SPANS = 16,
};

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

/* When a CPU last left idle for tasks, and when softirqs and handlers of interrupts last ran on it
 * while it was idle. None nests in its own kind. */
struct spans {
	__u64 number; /* of the present one; the last SPANS are kept */
	__u64 began_ns[SPANS];
	__u64 ended_ns[SPANS]; /* 0: it has not ended */
};

/* Everything of one CPU. */
struct cpu {
	struct cpu_ticks ticks;
	struct spans tasks;
	struct spans softirqs;
	struct spans handlers;
	__u64 unused[5];
};
_Static_assert(sizeof(struct cpu) == 15 * 64, "bpf.rs expects 960 bytes: whole cache lines");

#endif
