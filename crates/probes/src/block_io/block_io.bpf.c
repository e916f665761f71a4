/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Every request to a block device, from its start over its issue to its end.
 *
 * A request is known by its own address, never by device and sector: two requests may go to one
 * sector at once, and merging changes it. The sums of an interval are in one of two maps; user
 * space turns to the other one, waits until no program adds to the first any more, and empties it.
 * So what is read is whole: its counts and its histograms tell of the same requests.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "block_io.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What to sum by, and what to look at; 0 or empty: everything. */
const volatile bool by_comm;
const volatile bool by_file;
const volatile __u32 only_dev;
const volatile __u32 only_pid;
const volatile __u32 only_ops; /* one bit for each enum io_op */
const volatile char only_comm[COMM_BYTES];
const volatile bool filters_comm;

/* Which of the two maps is in use. */
__u32 half;
struct io_lost lost;
static struct group nothing;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct flight);
} flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct group_key);
	__type(value, struct group);
} groups_even SEC(".maps"), groups_odd SEC(".maps");

/* Where the request that was issued last on a device ends. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} ends SEC(".maps");

/* Parts of the kernel's interface to itself: linux/blk_types.h. */
enum {
	OP_MASK = 0xff,
	OP_READ = 0,
	OP_WRITE = 1,
	OP_FLUSH = 2,
	OP_DISCARD = 3,
	OP_SECURE_ERASE = 5,
	OP_ZONE_APPEND = 7,
	OP_WRITE_ZEROES = 9,
	FLAG_SYNC = 1 << 11,
	FLAG_FUA = 1 << 17,
	FLAG_PREFLUSH = 1 << 18,
	FLAG_RAHEAD = 1 << 19,
	/* In page->mapping and page->compound_head. */
	NOT_A_FILE = 1,
	A_TAIL = 1,
};

extern const void iomap_dio_bio_end_io __ksym __weak;

static __always_inline __u32 op_of(__u32 flags, __u32 bytes)
{
	switch (flags & OP_MASK) {
	case OP_READ:
		return IO_READ;
	case OP_WRITE:
	case OP_ZONE_APPEND:
		/* An fsync that has nothing to write is a write of nothing that flushes. */
		return bytes == 0 && (flags & FLAG_PREFLUSH) ? IO_FLUSH : IO_WRITE;
	case OP_FLUSH:
		return IO_FLUSH;
	case OP_DISCARD:
	case OP_SECURE_ERASE:
	case OP_WRITE_ZEROES:
		return IO_DISCARD;
	default:
		return IO_OTHER;
	}
}

static __always_inline __u32 flags_of(__u32 flags)
{
	bool waited_for =
		(flags & OP_MASK) == OP_READ || (flags & (FLAG_SYNC | FLAG_FUA | FLAG_PREFLUSH));
	__u32 found = 0;

	if (!waited_for || (flags & FLAG_RAHEAD))
		found |= IO_ASYNC;
	if (flags & FLAG_PREFLUSH)
		found |= IO_PREFLUSH;
	return found;
}

static __always_inline bool is_wanted_comm(const char *comm)
{
#pragma unroll
	for (int i = 0; i < COMM_BYTES; i++) {
		if (comm[i] != only_comm[i])
			return false;
		if (comm[i] == 0)
			return true;
	}
	return true;
}

/* The file whose page is read or written: of the page cache, or of a direct read or write by way of
 * iomap. As far as it can be known: a page without a mapping belongs to no file, or was truncated.
 */
static __always_inline struct inode *inode_of(struct request *rq)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct bio_vec *vec;
	struct page *page;
	__u64 mapping, head;

	if (!bio)
		return 0;
	if (&iomap_dio_bio_end_io && bpf_core_type_exists(struct iomap_dio) &&
	    (void *)BPF_CORE_READ(bio, bi_end_io) == &iomap_dio_bio_end_io) {
		struct iomap_dio *dio = BPF_CORE_READ(bio, bi_private);

		return BPF_CORE_READ(dio, iocb, ki_filp, f_inode);
	}
	vec = BPF_CORE_READ(bio, bi_io_vec);
	page = BPF_CORE_READ(vec, bv_page);
	if (!page)
		return 0;
	head = BPF_CORE_READ(page, compound_head);
	if (head & A_TAIL)
		page = (struct page *)(head & ~(__u64)A_TAIL);
	mapping = (__u64)BPF_CORE_READ(page, mapping);
	if (mapping == 0 || (mapping & NOT_A_FILE))
		return 0;
	return BPF_CORE_READ((struct address_space *)mapping, host);
}

static __always_inline void read_file(struct flight *f, struct request *rq)
{
	struct inode *inode = inode_of(rq);
	struct hlist_node *alias;
	struct dentry *dentry;

	if (!inode)
		return;
	f->inode = BPF_CORE_READ(inode, i_ino);
	f->inode_dev = BPF_CORE_READ(inode, i_sb, s_dev);
	alias = BPF_CORE_READ(inode, i_dentry.first);
	if (!alias)
		return;
	dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	bpf_probe_read_kernel_str(f->file, sizeof(f->file), BPF_CORE_READ(dentry, d_name.name));
}

static __always_inline __u32 dev_of(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;

	if (!disk)
		return 0;
	return ((__u32)disk->major << 20) | (__u32)disk->first_minor;
}

static __always_inline void begin(struct request *rq)
{
	__u32 flags = rq->cmd_flags, bytes = rq->__data_len, dev = dev_of(rq);
	__u64 key = (__u64)rq;
	struct flight f = {};

	if (only_dev && dev != only_dev)
		return;
	f.op = op_of(flags, bytes);
	if (only_ops && !(only_ops & (1 << f.op)))
		return;
	if (only_pid && bpf_get_current_pid_tgid() >> 32 != only_pid)
		return;
	if (by_comm || filters_comm) {
		bpf_get_current_comm(f.comm, sizeof(f.comm));
		if (filters_comm && !is_wanted_comm(f.comm))
			return;
		if (!by_comm)
			__builtin_memset(f.comm, 0, sizeof(f.comm));
	}
	if (by_file)
		read_file(&f, rq);
	f.start_ns = bpf_ktime_get_ns();
	f.sector = rq->__sector;
	f.bytes = bytes;
	f.dev = dev;
	f.flags = flags_of(flags);
	if (bpf_map_update_elem(&flights, &key, &f, BPF_NOEXIST) == 0)
		return;
	/* It is there: the one before it was given up without an end. Or there is no room. */
	if (bpf_map_update_elem(&flights, &key, &f, BPF_EXIST) == 0)
		__sync_fetch_and_add(&lost.abandoned, 1);
	else
		__sync_fetch_and_add(&lost.flights_full, 1);
}

static __always_inline void issue(struct request *rq, struct flight *f)
{
	__u64 *end, now_end;

	f->issue_ns = bpf_ktime_get_ns();
	/* Merging made it larger, and may have moved its begin. */
	f->bytes = rq->__data_len;
	f->sector = rq->__sector;
	if (f->op != IO_READ && f->op != IO_WRITE)
		return;
	now_end = f->sector + (f->bytes >> 9);
	/* Two CPUs that issue to one device at once may both measure from the same end: a distance
	 * says what the device was asked to do next, and there was no next. */
	end = bpf_map_lookup_elem(&ends, &f->dev);
	if (end) {
		f->seek_sectors = (__s64)(f->sector - *end);
		*end = now_end;
	} else {
		bpf_map_update_elem(&ends, &f->dev, &now_end, BPF_ANY);
	}
}

static __always_inline __u32 log2_of(__u64 v)
{
	__u32 n = 0;

	if (v >> 32) {
		v >>= 32;
		n += 32;
	}
	if (v >> 16) {
		v >>= 16;
		n += 16;
	}
	if (v >> 8) {
		v >>= 8;
		n += 8;
	}
	if (v >> 4) {
		v >>= 4;
		n += 4;
	}
	if (v >> 2) {
		v >>= 2;
		n += 2;
	}
	return n + (v >> 1);
}

/* 0 for 0, else b with 2^(b-1) <= v < 2^b. */
static __always_inline __u32 power_of(__u64 v)
{
	return v ? log2_of(v) + 1 : 0;
}

static __always_inline void count_in(__u32 *buckets, __u32 n, __u32 bucket)
{
	if (bucket >= n)
		bucket = n - 1;
	__sync_fetch_and_add(&buckets[bucket], 1);
}

static __always_inline __u32 latency_bucket(__u64 ns)
{
	__u32 power = log2_of(ns);

	if (power < LATENCY_LOG2_MIN)
		return 0;
	if (power >= LATENCY_LOG2_MAX)
		return LATENCY_BUCKETS - 1;
	return (power - LATENCY_LOG2_MIN) * FINE + ((ns >> (power - FINE_BITS)) & (FINE - 1));
}

static __always_inline void raise_to(__u64 *max, __u64 ns)
{
	__u64 seen = *max;

	/* Each turn is lost to a CPU that raised it meanwhile; eight in a row are not seen in
	 * practice, and then the maximum is that of one of them. */
#pragma unroll
	for (int i = 0; i < 8; i++) {
		__u64 found;

		if (seen >= ns)
			return;
		found = __sync_val_compare_and_swap(max, seen, ns);
		if (found == seen)
			return;
		seen = found;
	}
}

static __always_inline struct group *group_of(const struct group_key *key)
{
	void *groups = half & 1 ? (void *)&groups_odd : (void *)&groups_even;
	struct group *g = bpf_map_lookup_elem(groups, key);

	if (g)
		return g;
	/* Another CPU may add it first. */
	bpf_map_update_elem(groups, key, &nothing, BPF_NOEXIST);
	return bpf_map_lookup_elem(groups, key);
}

static __always_inline void book(const struct flight *f)
{
	__u64 now_ns = bpf_ktime_get_ns(), ns;
	struct group_key key = {
		.inode = f->inode, .inode_dev = f->inode_dev, .dev = f->dev, .op = f->op};
	struct group *g;

	__builtin_memcpy(key.comm, f->comm, sizeof(key.comm));
	g = group_of(&key);
	if (!g) {
		__sync_fetch_and_add(&lost.groups_full, 1);
		return;
	}
	/* All that tell of one file write the same. */
	if (by_file && f->file[0] && !g->file[0])
		__builtin_memcpy(g->file, f->file, sizeof(g->file));
	__sync_fetch_and_add(&g->count, 1);
	__sync_fetch_and_add(&g->bytes, f->bytes);
	if (f->flags & IO_ASYNC)
		__sync_fetch_and_add(&g->asynchronous, 1);
	if (f->flags & IO_PREFLUSH)
		__sync_fetch_and_add(&g->preflush, 1);
	if (f->flags & IO_FAILED)
		__sync_fetch_and_add(&g->errors, 1);
	count_in(g->sizes, SIZE_BUCKETS, power_of(f->bytes));
	ns = now_ns - f->start_ns;
	__sync_fetch_and_add(&g->start_ns_sum, ns);
	raise_to(&g->start_ns_max, ns);
	count_in(g->from_start, LATENCY_BUCKETS, latency_bucket(ns));
	if (!f->issue_ns) {
		__sync_fetch_and_add(&g->not_issued, 1);
		return;
	}
	ns = now_ns - f->issue_ns;
	__sync_fetch_and_add(&g->issue_ns_sum, ns);
	raise_to(&g->issue_ns_max, ns);
	count_in(g->from_issue, LATENCY_BUCKETS, latency_bucket(ns));
	if (f->op != IO_READ && f->op != IO_WRITE)
		return;
	count_in(g->addresses, ADDRESS_BUCKETS, power_of(f->sector));
	if (f->seek_sectors >= 0)
		count_in(g->seeks_ahead, SEEK_BUCKETS, power_of(f->seek_sectors));
	else
		count_in(g->seeks_back, SEEK_BUCKETS, power_of(-f->seek_sectors));
}

static __always_inline void end(struct request *rq)
{
	__u64 key = (__u64)rq;
	struct flight *f = bpf_map_lookup_elem(&flights, &key);

	if (!f) {
		/* The flush that the kernel makes of a write's flag has an end only, and with a
		 * filter there are many that we let go. */
		if ((rq->cmd_flags & OP_MASK) != OP_FLUSH && !only_ops && !only_pid &&
		    !filters_comm && (!only_dev || dev_of(rq) == only_dev))
			__sync_fetch_and_add(&lost.unmatched, 1);
		return;
	}
	book(f);
	bpf_map_delete_elem(&flights, &key);
}

/* Since Linux 6.5: every request has a start and an end of its own. */

SEC("tp_btf/block_io_start")
int BPF_PROG(on_start, struct request *rq)
{
	begin(rq);
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(on_done, struct request *rq)
{
	end(rq);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *rq)
{
	__u64 key = (__u64)rq;
	struct flight *f = bpf_map_lookup_elem(&flights, &key);

	/* A request that is put back and issued again counts from the first time. */
	if (f && !f->issue_ns)
		issue(rq, f);
	return 0;
}

/* Before: it starts where it is put into a scheduler's queue, else where it is issued. */

SEC("tp_btf/block_rq_insert")
int BPF_PROG(on_insert_old, struct request *rq)
{
	begin(rq);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue_old, struct request *rq)
{
	__u64 key = (__u64)rq;
	struct flight *f = bpf_map_lookup_elem(&flights, &key);

	if (!f) {
		begin(rq);
		f = bpf_map_lookup_elem(&flights, &key);
	}
	if (f && !f->issue_ns)
		issue(rq, f);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete_old, struct request *rq, int error, unsigned int bytes)
{
	__u64 key = (__u64)rq;

	/* A request may end in parts. */
	if (bytes < rq->__data_len)
		return 0;
	if (error) {
		struct flight *f = bpf_map_lookup_elem(&flights, &key);

		if (f)
			f->flags |= IO_FAILED;
	}
	end(rq);
	return 0;
}

SEC("tp_btf/block_rq_error")
int BPF_PROG(on_error, struct request *rq)
{
	__u64 key = (__u64)rq;
	struct flight *f = bpf_map_lookup_elem(&flights, &key);

	if (f)
		f->flags |= IO_FAILED;
	return 0;
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_merge, struct request *rq)
{
	__u64 key = (__u64)rq;

	/* It lives on in another one, and has no end of its own. */
	if (bpf_map_delete_elem(&flights, &key) == 0)
		__sync_fetch_and_add(&lost.merged, 1);
	return 0;
}

static __always_inline void merged(void)
{
	/* A bio tells neither its device's number nor its process cheaply. */
	if (!only_dev && !only_pid && !only_ops && !filters_comm)
		__sync_fetch_and_add(&lost.merged, 1);
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(on_backmerge)
{
	merged();
	return 0;
}

SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(on_frontmerge)
{
	merged();
	return 0;
}

/* Only to find out what the kernel's statistics of a program cost by themselves. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue_nothing)
{
	return 0;
}
