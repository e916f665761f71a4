/* Types that the kernel side writes and mod.rs reads. */
#ifndef CPU_TIME_H
#define CPU_TIME_H

enum {
	CACHE_LINE_BYTES = 64,
	/* Threads that compete for "ran most on this CPU": sets by the low bits of the id, ways
	   within. */
	CONTEST_SETS = 8,
	CONTEST_WAYS = 4,
	COMM_BYTES = 16,
	/* Softirqs by the kernel's own numbers, 0 to 9, then interrupts. */
	INTERRUPT_KINDS = 16,
	INTERRUPT_DEVICE = 10,
	INTERRUPT_TIMER = 11,
	INTERRUPT_CALL = 12,
	INTERRUPT_WORK = 13,
	/* Waits by powers of two of nanoseconds. */
	WAIT_BUCKETS = 40,
};

/* One CPU's books since the programs were attached. Written by that CPU alone, interrupts off. */
struct cpu_time {
	/* What every switch touches: one cache line. */
	__u64 since_ns; /* last switch or closing, by the clock in use; 0: none seen yet */
	__u64 busy_ns;	/* a task was on the CPU */
	__u64 idle_ns;	/* the idle task was */
	__u64 switches; /* context switches */
	__u64 running;	/* the task since since_ns, as an opaque word */
	__u64 closings; /* times that the books were closed; its low bit names the contest in use */
	__u64 comparisons; /* switches since the last closing that read both clocks */
	__u64 came_task;   /* the task since since_ns, if it came on from idle; else 0 */

	/* The rest is touched now and then. */
	__u64 epoch;	  /* number of the last closing, as user space counts them */
	__u64 unseen;	  /* times that another task came off the CPU than the one we saw go on */
	__u64 unsure_ns;  /* time before such a moment, of which part may be idle and part busy */
	__u64 unowned_ns; /* busy time before such a moment that is booked to no task */
	__u64 backward;	  /* times that the clock stood before since_ns */
	__u64 idle_task;  /* the idle task, as an opaque word; 0: not seen to come off yet */
	__u64 lost_tasks; /* stints that no task's sums could be found for */
	__u64 lost_core;  /* stints whose core's clocks were held by another CPU for too long */
	__u64 lost_ended; /* tasks that ended, and nobody had read of the ones before */
	__u64 member_ns;  /* the part of busy_ns that members had: a command and all it started */
	__u64 closed_ns;  /* when the books were closed last, CLOCK_MONOTONIC */
	__s64 ahead_ns;	  /* by which CLOCK_MONOTONIC is ahead of the scheduler's clock */
	__s64 least_ns;	  /* the least such difference since the last closing, of `comparisons` */
	__u64 compared;	  /* 1: ahead_ns is known */
	__u64 irq_ns;	  /* in handlers of interrupts, as of the last closing; part of busy_ns */
	__u64 softirq_ns; /* in softirqs, as of the last closing; part of busy_ns */
	__u64 interrupted_ns;	     /* of the stretch that was booked last, what interrupts took */
	__u64 wait_ns;		     /* threads that came on here had waited for it */
	__u64 member_interrupted_ns; /* interrupts while members had the CPU */
	__u64 cut;		     /* interrupts whose end was not seen, as of the last closing */
	__u64 interrupts;	     /* ... how many there were, softirqs included */
	__u64 idle_since_ns; /* the idle task came on last, by the run queue's clock; 0: not seen */
	__u64 idle_until_ns; /* ... and went off last */
	__u64 came_sum_ns;   /* what came_task had run for when it came on */
};
_Static_assert(sizeof(struct cpu_time) == 4 * CACHE_LINE_BYTES, "bpf.rs expects 256 bytes");

/* Interrupts on one CPU since the programs were attached; written by that CPU alone. */
struct interrupts {
	__u64 irq_since_ns;	/* a handler of an interrupt runs since then; 0: none does */
	__u64 irq_ns;		/* handlers that have ended */
	__u64 softirq_since_ns; /* a softirq runs since then; 0: none does */
	__u64 softirq_ns;	/* softirqs that have ended, without the interrupts in them */
	__u64 booked_ns;	/* the part of both that the books of the CPU know of */
	__u64 irq_depth;	/* handlers within each other */
	__u64 softirq_irq_ns;	/* irq_ns when the softirq began */
	__u64 softirq_is_ending;
	__u64 irq_kind;
	__u64 softirq_kind;
	__u64 entries;
	__u64 softirq_entries;
	__u64 cut; /* they were under way at a switch */
	__u64 unused[3];
	__u64 by_kind[INTERRUPT_KINDS];
};
_Static_assert(sizeof(struct interrupts) == 4 * CACHE_LINE_BYTES, "bpf.rs expects 256 bytes");

/* Waits of threads that came on one CPU; written by that CPU alone, read by others without a lock:
 * each count by itself is whole. */
struct wait_books {
	__u64 ns_max;
	__u64 unused[3];
	__u32 histogram[WAIT_BUCKETS];
};
_Static_assert(__builtin_offsetof(struct cpu_time, epoch) == CACHE_LINE_BYTES,
	       "a switch touches one line");

/* The threads of one set that ran most, by the space-saving rule: a newcomer takes the place of the
 * one with the least time and inherits that time as its possible error. */
struct contest {
	__u32 tid[CONTEST_WAYS];
	__u64 ns[CONTEST_WAYS]; /* at most the contender's over_ns too high, never too low */
	__u64 unused[2];
};
_Static_assert(sizeof(struct contest) == CACHE_LINE_BYTES, "bpf.rs expects 64 bytes");

/* Identity of a competing thread; written when it takes a place, so off the usual path. */
struct contender {
	__u64 over_ns; /* what was inherited */
	__u32 tgid;
	__u32 own_tid; /* in the reader's PID namespace, and so is tgid; 0: the thread has none
			  there */
	char comm[COMM_BYTES];
};
_Static_assert(sizeof(struct contender) == 32, "bpf.rs expects 32 bytes");

/* A core's clocks as its CPU's current stint began. */
struct stint {
	__u64 alone_ns;
	__u64 share;
	__u64 counted; /* 1: the CPU is one of its core's busy ones */
};

/* Everything of one CPU, what a switch touches first. A page, and so no part of a page is shared by
 * two CPUs. */
struct cpu {
	struct cpu_time books;
	struct interrupts irq;
	struct stint stint;
	__u64 core; /* the number of its core plus one; 0: the CPU has its core for itself */
	__u64 unused[4];
	/* One half is in use, the other holds the interval that was closed last. */
	struct contest contests[2][CONTEST_SETS];
	struct wait_books waits;
	/* A copy of the books as of the last closing. Only a closing writes it, so user space,
	 * which orders the closings, reads it without a lock. */
	struct cpu_time closed;
	struct contender contenders[2][CONTEST_SETS][CONTEST_WAYS];
};
_Static_assert(sizeof(struct cpu) == 64 * CACHE_LINE_BYTES, "bpf.rs expects 4096 bytes");
_Static_assert(__builtin_offsetof(struct cpu, contests) % CACHE_LINE_BYTES == 0,
	       "a contest is one line");

enum {
	/* Shares of a core are counted in 1/840 ns: 840 can be divided by 1 to 8. */
	SHARE_UNITS = 840,
	SIBLINGS_MAX = 8,
};

/* The sums of one task since the programs were attached. */
struct task_time {
	__u64 on_cpu_ns; /* it was dispatched */
	__u64 alone_ns;	 /* ... and no sibling of its core was busy */
	__u64 share;	 /* ... divided by the number of busy siblings, itself included; 1/840 ns */
	__u64 stints;	 /* times that it came off a CPU */
	__u64 interrupted_ns; /* interrupts took the CPU from it; not in on_cpu_ns */
};

enum {
	/* Its end was told: it may be walked by until its parent has waited for it. */
	HAS_ENDED = ~0ULL,
};

/* A task's sums as they are, and as of the closing before which they were not touched again. */
struct task_books {
	__u64 epoch;		/* of the CPU that touched them last */
	__u64 member;		/* 1: of the command that is watched, or started by a member */
	__u64 waited_before_ns; /* what it had waited when its sums began */
	__u64 told;		/* number of the last walk that told of it, or HAS_ENDED */
	struct task_time now;
	struct task_time then;
	__u64 held_ns;	/* of its waits since its sums began: while its CPU idled */
	__u32 own_tgid; /* its ids in the reader's PID namespace; 0: it has none there */
	__u32 own_tid;
};

/* Record of a task at an edge or at its end. */
struct task_record {
	struct task_books books;
	__u64 started_ns;	/* with the id, its name for ever */
	__u64 utime_ns;		/* in user mode, by ticks */
	__u64 stime_ns;		/* in the kernel, by ticks */
	__u64 waited_ns;	/* for a CPU, since its sums began */
	__u64 cgroups[CGROUPS]; /* of version 2, by their ids; 0: not known, or no more */
	__u64 lives;		/* 1: a walk tells of it; 0: it ended */
	__u32 tid;
	__u32 tgid;
	char comm[COMM_BYTES];
};
_Static_assert(sizeof(struct task_record) == 232, "bpf.rs expects 232 bytes");

/* The clocks of one core that several CPUs share. */
struct core_clock {
	__u64 last_ns;
	__u64 busy_ns;	/* at least one of its CPUs was busy */
	__u64 alone_ns; /* just one was */
	__u64 share;	/* busy time divided by how many were; 1/840 ns */
	__u32 busy;	/* how many are */
	__u32 lock;	/* 1: a CPU is at it */
};

#endif
