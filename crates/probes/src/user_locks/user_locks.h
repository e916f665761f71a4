/* Types that the kernel side writes and bpf.rs reads. */
#ifndef USER_LOCKS_H
#define USER_LOCKS_H

enum {
	FUTEX_FRAMES = 24,
	/* Words of the waiting thread's stack, from its end up: for code that keeps no frame
	   pointers. */
	FUTEX_WINDOW = 96,
	/* Of these, as many that calls may return to are a part of a stack's name. */
	FUTEX_RETURNS = 12,
	FUTEX_BUCKETS = 40,
	FUTEX_COMM = 16,
	/* A power of two. */
	CALL_COUNTS = 256,
};

/* System calls that ended on a CPU, and wake-ups from it, a cache line each. */
struct call_count {
	__u64 n;
	__u64 wakings;
	__u64 unused[6];
};

/* The call that a thread is in, which waits or wakes; it cannot be in two. */
struct futex_wait {
	__u64 began_ns; /* of a wait; 0: in none */
	__u64 address;
	__u64 stack;
	__u32 op;
	__u32 switches;	 /* how often the thread had left its CPU before */
	__u64 woken_by;	 /* a name in wakers; 0: nobody was seen to */
	__u64 wakes_as;	 /* its name in wakers, in a call that wakes; 0: in none */
	__u64 has_woken; /* 1: that call has woken a thread that waited */
};
_Static_assert(sizeof(struct futex_wait) == 56, "seven words");

struct futex_key {
	__u64 address;
	__u64 stack; /* a hash of its frames, returns, process and address; 0: unknown */
	__u32 tgid;
	__u32 op; /* as futex(2) numbers it, without its flags; of the newer calls, their number */
	__u32 unused;
	__u32 is_outside; /* 1: tgid is the machine's, it has no id in the reader's PID namespace */
	__u64 cgroup;	  /* of the waiting thread; 0: not asked for */
};
_Static_assert(sizeof(struct futex_key) == 40, "bpf.rs expects 40 bytes");

struct futex_sum {
	__u64 count;
	__u64 total_ns;
	__u64 max_ns;
	__u64 not_slept; /* the word had changed before */
	__u64 timed_out;
	__u64 spun_ns; /* of waits in which the thread did not leave its CPU */
	__u64 waker;   /* who ended the last wait that somebody ended, by its name; 0: none */
	__u32 buckets[FUTEX_BUCKETS];
	char comm[FUTEX_COMM];
};
_Static_assert(sizeof(struct futex_sum) == 232, "bpf.rs expects 232 bytes");

struct futex_stack {
	__u64 sp;
	__u64 frames[FUTEX_FRAMES]; /* innermost first; 0: no more */
	__u64 window[FUTEX_WINDOW]; /* from sp up; 0 where it could not be read */
};
_Static_assert(sizeof(struct futex_stack) == 968, "bpf.rs expects 968 bytes");

/* Thread that woke waiters of a lock. */
struct waker {
	__u64 stack;
	__u32 tid;
	__u32 unused;
	char comm[FUTEX_COMM];
};
_Static_assert(sizeof(struct waker) == 32, "bpf.rs expects 32 bytes");

enum {
	FUTEX_LOST_SUMS_FULL,	/* a lock and caller more than there is room for */
	FUTEX_LOST_STACKS_FULL, /* the wait counts, its caller is unknown */
	FUTEX_LOST_WAKERS_FULL, /* the wait counts, its waker is unknown */
	FUTEX_LOST_TASK,	/* no room for a thread's wait */
	FUTEX_LOST_REASONS,
};

#endif
