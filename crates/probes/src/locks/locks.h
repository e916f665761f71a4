/* Types that the kernel side writes and bpf.rs reads. */
#ifndef LOCKS_H
#define LOCKS_H

enum {
	/* Waits of one task, or of one CPU, that may be under way at once: an interrupt may wait
	   for one lock while the task it came upon waits for another. */
	WAITS_AT_ONCE = 4,
	/* Frames of a caller's stack. */
	STACK_FRAMES = 24,
	/* Powers of two of a waiting time in ns; the last holds all that is longer. */
	WAIT_BUCKETS = 40,
};

/* The kernel's flags of a wait (include/trace/events/lock.h). */
enum {
	WAIT_SPINS = 1,
	WAIT_READS = 2,
	WAIT_WRITES = 4,
	WAIT_RT = 8,
	WAIT_PERCPU = 16,
	WAIT_MUTEX = 32,
};

/* A lock that a task has of its own, so that it needs no symbol. */
enum {
	LOCK_IS_OTHER = 0,
	LOCK_IS_MMAP = 1,   /* mmap_lock of the address space */
	LOCK_IS_SIGNAL = 2, /* siglock of the process */
};

/* One wait that is under way. */
struct wait {
	__u64 lock; /* 0: nothing is under way here */
	__u64 began_ns;
	__u64 since_ns; /* it spins, or sleeps, since */
	__u64 spun_ns;	/* it has spun before that */
	__u64 stack;
	__u64 ran_ns;	/* what its thread had of the CPUs at since_ns, as of its last switch */
	__u64 switches; /* how often its thread had come off a CPU at since_ns */
	__u32 flags;	/* as of since_ns */
	__u32 unused;
};
_Static_assert(sizeof(struct wait) == 64, "a cache line");

struct waits {
	struct wait at[WAITS_AT_ONCE];
	__u64 booking; /* our own program holds this CPU, so what waits now waits because of it */
	__u64 inside;  /* waits that began meanwhile and have not ended */
};

/* Key by which waits are summed up. */
struct wait_key {
	__u64 lock;
	__u64 stack; /* a hash of its frames; 0: unknown */
	__u32 flags; /* without WAIT_SPINS where WAIT_MUTEX is set */
	__u32 unused;
	__u64 cgroup; /* of the waiting thread; 0: not asked for */
};
_Static_assert(sizeof(struct wait_key) == 32, "bpf.rs expects 32 bytes");

struct wait_sum {
	__u64 count;
	__u64 total_ns;
	__u64 spun_ns; /* the part of it that burned CPU */
	__u64 max_ns;
	__u32 buckets[WAIT_BUCKETS];
	__u32 role;
	__u32 unused;
};
_Static_assert(sizeof(struct wait_sum) == 200, "bpf.rs expects 200 bytes");

struct stack {
	__u64 frames[STACK_FRAMES]; /* innermost first; 0: no more */
};
_Static_assert(sizeof(struct stack) == 192, "bpf.rs expects 192 bytes");

/* Waits, or parts of what is known of them, that were lost. */
enum {
	LOST_SUMS_FULL,	  /* a lock and caller more than there is room for */
	LOST_STACKS_FULL, /* the wait counts, its caller is unknown */
	LOST_TASK,	  /* no room for a task's waits */
	LOST_TOO_MANY, /* more of them at once than there is room for, or the end of one was missed
			*/
	LOST_BEGIN,    /* it ended, and nobody had seen it begin */
	LOST_INSIDE,   /* it was waited for inside of our own program */
	LOST_REASONS,
};

#endif
