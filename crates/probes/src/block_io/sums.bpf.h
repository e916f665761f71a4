/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The sums of an interval, by group: for each CPU apart while there are slots, else shared. */
#ifndef SUMS_BPF_H
#define SUMS_BPF_H

#include "block_io.h"
#include "owner.bpf.h"

/* Of SLOTS, those that there is memory for, less one; a power of two less one. None where somebody
 * asked for owners. */
const volatile __u32 slots_mask = SLOTS - 1;
const volatile bool has_slots = true;

static struct group nothing;

/* Whose sums a slot has: the device's number above SLOT_OP_BITS, below them the operation and one;
 * 0: nobody's. What a slot was taken for it keeps. */
enum {
	SLOT_OP_BITS = 8,
};
__u64 slot_keys[SLOTS];

/* Each slot's two halves. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * SLOTS);
	__type(key, __u32);
	__type(value, struct group);
} slots SEC(".maps");

/* What has no slot. User space makes the key shorter where no owner is asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct group_key);
	__type(value, struct group);
} groups_even SEC(".maps"), groups_odd SEC(".maps");

/* 0 for 0, else b with 2^(b-1) <= v < 2^b. */
static __always_inline __u32 power_of(__u64 v)
{
	return v ? log2_of(v) + 1 : 0;
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

static __always_inline struct group *group_of(const struct group_key *key)
{
	void *groups = half & 1 ? (void *)&groups_odd : (void *)&groups_even;
	struct group *g = bpf_map_lookup_elem(groups, key);

	if (g)
		return g;
	/* Another CPU may add it first. */
	bpf_map_update_elem(groups, key, &nothing, BPF_NOEXIST);
	g = bpf_map_lookup_elem(groups, key);
	if (!g)
		__sync_fetch_and_add(&lost.groups_full, 1);
	return g;
}

/* The slot of requests of this kind; SLOTS: there is none left near its place. */
static __always_inline __u32 slot_of(const struct flight *f)
{
	__u64 wanted = ((__u64)f->dev << SLOT_OP_BITS) | (f->op + 1);
	__u32 first = (__u32)(wanted * 0x9e3779b1u) >> 16;

	for (__u32 i = 0; i < SLOTS_TRIED; i++) {
		__u32 slot = (first + i) & slots_mask & (SLOTS - 1);
		__u64 *at = &slot_keys[slot];

		if (*at == wanted)
			return slot;
		if (*at == 0) {
			__u64 before = __sync_val_compare_and_swap(at, 0, wanted);

			if (before == 0 || before == wanted)
				return slot;
		}
	}
	return SLOTS;
}

static __always_inline struct group *slot_for(const struct flight *f)
{
	__u32 slot;

	if (!has_slots)
		return NULL;
	slot = slot_of(f);
	if (slot >= SLOTS)
		return NULL;
	slot = slot * 2 + (half & 1);
	return bpf_map_lookup_elem(&slots, &slot);
}

static __always_inline struct group *group_for(const struct flight *f, const struct owner *o)
{
	struct group_key key = {.dev = f->dev, .op = f->op};
	struct group *g;

	if (o && by_comm)
		__builtin_memcpy(key.comm, o->comm, sizeof(key.comm));
	if (o && by_cgroup)
		key.cgroup = o->cgroup;
	if (o && by_file) {
		key.inode = o->inode;
		key.inode_dev = o->inode_dev;
	}
	g = group_of(&key);
	/* All that tell of one file write the same. */
	if (g && o && by_file && o->file[0] && !g->file[0])
		__builtin_memcpy(g->file, o->file, sizeof(g->file));
	return g;
}

/* Whether other CPUs add to the same sums. Where they do not, nobody does meanwhile: of the
 * programs that are attached one alone adds to them, and the kernel runs none a second time on a
 * CPU that is in it. */
enum writers {
	ONE_CPU,
	ALL_CPUS,
};

static __always_inline void add(__u64 *sum, __u64 n, enum writers writers)
{
	if (writers == ALL_CPUS)
		__sync_fetch_and_add(sum, n);
	else
		*sum += n;
}

static __always_inline void count(__u32 *buckets, __u32 n, __u32 bucket, enum writers writers)
{
	if (writers == ALL_CPUS)
		return count_in(buckets, n, bucket);
	buckets[at_most_last(bucket, n)]++;
}

static __always_inline void add_latency(__u64 *sum, __u64 *max, __u32 *buckets, __u64 ns,
					enum writers writers)
{
	add(sum, ns, writers);
	if (writers == ALL_CPUS)
		raise_to(max, ns);
	else if (ns > *max)
		*max = ns;
	count(buckets, LATENCY_BUCKETS, latency_bucket(ns), writers);
}

/* What is known of it without its end. */
static __always_inline void book_request(struct group *g, const struct flight *f,
					 enum writers writers)
{
	add(&g->bytes, f->bytes, writers);
	if (f->flags & IO_ASYNC)
		add(&g->asynchronous, 1, writers);
	if (f->flags & IO_PREFLUSH)
		add(&g->preflush, 1, writers);
	count(g->sizes, SIZE_BUCKETS, power_of(f->bytes), writers);
}

static __always_inline void book_place(struct group *g, const struct flight *f,
				       enum writers writers)
{
	if (f->op != IO_READ && f->op != IO_WRITE)
		return;
	count(g->addresses, ADDRESS_BUCKETS, power_of(f->sector), writers);
	if (f->seek_sectors >= 0)
		count(g->seeks_ahead, SEEK_BUCKETS, power_of(f->seek_sectors), writers);
	else
		count(g->seeks_back, SEEK_BUCKETS, power_of(-f->seek_sectors), writers);
}

static __always_inline void book_end(struct group *g, const struct flight *f, __u64 now_ns,
				     enum writers writers)
{
	book_request(g, f, writers);
	if (f->flags & IO_FAILED)
		add(&g->errors, 1, writers);
	if (f->start_ns)
		add_latency(&g->start_ns_sum, &g->start_ns_max, g->from_start, now_ns - f->start_ns,
			    writers);
	if (!f->issue_ns)
		return;
	add_latency(&g->issue_ns_sum, &g->issue_ns_max, g->from_issue, now_ns - f->issue_ns,
		    writers);
	book_place(g, f, writers);
}

static __always_inline void book(const struct flight *f, const struct owner *o)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct group *g = slot_for(f);

	if (g)
		return book_end(g, f, now_ns, ONE_CPU);
	g = group_for(f, o);
	if (g)
		book_end(g, f, now_ns, ALL_CPUS);
}

#endif
