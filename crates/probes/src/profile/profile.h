/* Types that the kernel side writes and bpf.rs reads. */
#ifndef PROFILE_H
#define PROFILE_H

enum {
	/* As deep as the kernel walks by default (kernel.perf_event_max_stack). */
	PROFILE_FRAMES = 127,
	PROFILE_COMM = 16,
};

enum {
	PROFILE_RAN,	 /* had the CPU */
	PROFILE_BLOCKED, /* had given it up, for something that was not there yet */
	PROFILE_WAITED,	 /* was runnable, and another thread had the CPU */
	/* With one of the above: tgid is the machine's, the process has no id in the reader's PID
	   namespace. */
	PROFILE_OUTSIDE = 256,
};

/* What is summed up: where threads of a process were, by name. */
struct profile_key {
	__u64 user;   /* name of a stack: a hash of its frames; 0: none */
	__u64 kernel; /* likewise */
	__u32 tgid;
	__u32 state;
	char comm[PROFILE_COMM];
};
_Static_assert(sizeof(struct profile_key) == 40, "bpf.rs expects 40 bytes");

struct profile_sum {
	__u64 count; /* samples, or times off the CPU */
	__u64 ns;    /* of samples 0: each stands for the same time */
};
_Static_assert(sizeof(struct profile_sum) == 16, "bpf.rs expects 16 bytes");

struct profile_stack {
	__u64 depth;
	__u64 frames[PROFILE_FRAMES]; /* innermost first; those from `depth` on are leftovers */
};
_Static_assert(sizeof(struct profile_stack) == 1024, "bpf.rs expects 1024 bytes");

/* A thread that went off a CPU, or came back to one since. */
struct away {
	struct profile_key key; /* of the last time that it went off */
	__u64 since_ns;
	__u64 ran_ns; /* what it had run for by then, as the scheduler counts */
	__u64 is_back;
};
_Static_assert(sizeof(struct away) == 64, "bpf.rs expects 64 bytes");

/* Samples that came on one CPU, of all threads. */
struct cpu {
	__u64 samples;
	__u64 unused[7];
};
_Static_assert(sizeof(struct cpu) == 64, "bpf.rs expects 64 bytes: a cache line");

enum {
	PROFILE_LOST_SUMS_FULL,	  /* a combination more than there is room for */
	PROFILE_LOST_STACKS_FULL, /* the time counts, where it was spent is unknown */
	PROFILE_LOST_AWAY_FULL,	  /* a thread that went off the CPU, not timed */
	PROFILE_LOST_UNSEEN,	  /* it went off unseen: the time counts, its stack is unknown */
	PROFILE_LOST_REASONS,
};

#endif
