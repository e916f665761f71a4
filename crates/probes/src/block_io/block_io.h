/* Types that the kernel side writes and bpf.rs reads. */
#ifndef BLOCK_IO_H
#define BLOCK_IO_H

enum {
	COMM_BYTES = 16,
	FILE_BYTES = 40,

	/* Latencies: 32 buckets of equal width to each power of two, from 2^9 ns (what is shorter
	 * counts there) to 2^37 ns, some two minutes (what is longer counts in the last). */
	FINE_BITS = 5,
	FINE = 1 << FINE_BITS,
	LATENCY_LOG2_MIN = 9,
	LATENCY_LOG2_MAX = 37,
	LATENCY_BUCKETS = (LATENCY_LOG2_MAX - LATENCY_LOG2_MIN) * FINE,

	/* Sizes, addresses, distances: bucket 0 is 0, bucket b is [2^(b-1), 2^b). */
	SIZE_BUCKETS = 34,
	ADDRESS_BUCKETS = 50,
	SEEK_BUCKETS = 50,
};

/* What was asked of the device. */
enum io_op {
	IO_READ,
	IO_WRITE,
	IO_FLUSH,
	IO_DISCARD,
	IO_OTHER,
};

enum {
	IO_ASYNC = 1,	 /* nobody waits for it: write-back, read-ahead */
	IO_PREFLUSH = 2, /* the device's cache is flushed before it */
	IO_FAILED = 4,
	IO_PUT_BACK = 8, /* by its driver, which was not given it again yet */
};

/* Places for requests under way. One is looked for among the WAYS that its address leads to. */
enum {
	WAYS = 16,
	WAYS_SETS_MAX = 2048,
	PLACES = WAYS * WAYS_SETS_MAX,
};

/* A request between its start and its end. */
struct flight {
	__u64 start_ns; /* 0: nobody looked */
	__u64 issue_ns; /* 0: not issued to the driver yet */
	__u64 sector;
	__s64 seek_sectors; /* from the end of the one issued before on the device */
	__u32 bytes;
	__u32 dev;
	__u32 op;
	__u32 flags;
};

/* Owner of a request, if owners were requested. */
struct owner {
	__u64 inode; /* 0: not known */
	__u32 inode_dev;
	__u32 unused;
	__u64 cgroup;	       /* that of who started it */
	char comm[COMM_BYTES]; /* who started it */
	char file[FILE_BYTES];
};

/* Key of a group of requests; it includes the owner only if owners were requested. */
struct group_key {
	__u32 dev;
	__u32 op;
	__u64 inode;
	__u32 inode_dev;
	__u32 unused;
	__u64 cgroup;
	char comm[COMM_BYTES];
};
enum {
	KEY_BYTES_WITHOUT_OWNER = 8,
};
_Static_assert(sizeof(struct group_key) == 48, "bpf.rs expects 48 bytes");

/* End of the request that was issued last on a device. */
struct last {
	__u64 end;
	__u32 dev; /* 0: free */
	__u32 unused;
};
enum {
	LASTS = 1024,
	LASTS_TRIED = 8,
};

/* Groups that have sums for each CPU apart, which it adds to without waiting for any other's: at
 * most so many. The others, and all that have owners, share theirs. */
enum {
	SLOTS = 64,
	SLOTS_TRIED = 8,
};

/* The sums of one group, which has as many requests as its sizes have. Where many CPUs add to it at
 * once, each does by atomic additions. */
struct group {
	__u64 bytes;
	__u64 asynchronous;
	__u64 preflush;
	__u64 errors;
	__u64 start_ns_sum;
	__u64 start_ns_max;
	__u64 issue_ns_sum;
	__u64 issue_ns_max;
	char file[FILE_BYTES];
	__u32 sizes[SIZE_BUCKETS];
	__u32 addresses[ADDRESS_BUCKETS];
	__u32 seeks_ahead[SEEK_BUCKETS]; /* bucket 0: none, the next sector */
	__u32 seeks_back[SEEK_BUCKETS];
	__u32 from_start[LATENCY_BUCKETS];
	__u32 from_issue[LATENCY_BUCKETS];
};
_Static_assert(sizeof(struct group) == 8008, "bpf.rs expects 8008 bytes");

/* Losses, by reason. */
struct io_lost {
	__u64 flights_full; /* starts that found no room: their requests are in no sum */
	__u64 groups_full;  /* ends that found no room */
	__u64 unmatched;    /* ends without a start: it was before we attached, or found no room */
	__u64 abandoned;    /* starts without an end: the request was used again */
	__u64 merged;	    /* requests and bios that became part of another request */
};

#endif
