/* What the kernel side writes and mod.rs reads. */
#ifndef CPU_TIME_H
#define CPU_TIME_H

enum {
	CPU_TIME_CPUS = 1024,
	/* Threads that compete for "ran most on this CPU": sets by the low bits of the id, ways
	   within. */
	CONTEST_SETS = 8,
	CONTEST_WAYS = 4,
	COMM_BYTES = 16,
};

/* One CPU's books since the programs were attached. Written by that CPU alone, interrupts off. */
struct cpu_time {
	__u64 since_ns;	 /* last switch or closing, CLOCK_MONOTONIC; 0: none seen yet */
	__u64 busy_ns;	 /* a task was on the CPU */
	__u64 idle_ns;	 /* the idle task was */
	__u64 switches;	 /* context switches */
	__u64 running;	 /* the task since since_ns, as an opaque word */
	__u64 unseen;	 /* times that another task came off the CPU than the one we saw go on */
	__u64 unsure_ns; /* time before such a moment, of which part may be idle and part busy */
	__u64 idle_task; /* the idle task, as an opaque word; 0: not seen yet */
	__u64 backward;	 /* times that the clock stood before since_ns */
	__u64 closings; /* times that the books were closed; its low bit names the contest in use */
	__u64 ticks;	/* ticks of the scheduler's timer that fired */
	__u64 tick_before; /* ... that found a task running as they came */
	__u64 tick_after;  /* ... after which a task was runnable */
	__u64 samples;	   /* phase-free samples taken */
	__u64 sampled;	   /* ... that found a task running */
	__u64 unused[1];
};
_Static_assert(sizeof(struct cpu_time) == 128,
	       "mod.rs expects 128 bytes: two cache lines, no neighbour in them");

/* The threads of one set that ran most, by the space-saving rule: a newcomer takes the place of the
 * one with the least time and inherits that time as its possible error. */
struct contest {
	__u32 tid[CONTEST_WAYS];
	__u64 ns[CONTEST_WAYS];	  /* at most over[] too high, never too low */
	__u64 over[CONTEST_WAYS]; /* what was inherited */
};
_Static_assert(sizeof(struct contest) == 80, "mod.rs expects 80 bytes");

/* Who a competing thread is; written when it takes a place, so off the usual path. */
struct contender {
	__u32 tgid;
	__u32 unused;
	char comm[COMM_BYTES];
};
_Static_assert(sizeof(struct contender) == 24, "mod.rs expects 24 bytes");

#endif
