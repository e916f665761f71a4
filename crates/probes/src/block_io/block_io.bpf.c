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
#include "hist.bpf.h"
#include "only.bpf.h"
#include "block_io.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What to sum by, and what to look at; 0 or empty: everything. */
const volatile bool by_comm;
const volatile bool by_file;
const volatile bool by_cgroup;
const volatile __u32 only_dev;
const volatile __u32 only_ops; /* one bit for each enum io_op */
/* Sets of WAYS that are in use, less one; a power of two less one. */
const volatile __u32 sets_mask = WAYS_SETS_MAX - 1;
/* Of SLOTS, those that there is memory for, less one; a power of two less one. None where somebody
 * asked for owners. */
const volatile __u32 slots_mask = SLOTS - 1;
const volatile bool has_slots = true;

/* Which of the two halves is in use. */
__u32 half;
struct io_lost lost;
static struct group nothing;

/* Requests under way, by a number for each: a place is free where it is 0. Kept outside of a map,
 * since making, finding and deleting an element there is what most of the time of a request would
 * go to. */
__u64 requests[PLACES];
struct flight flights[PLACES];
struct last lasts[LASTS];
/* Requests that their driver took and put back, for want of room, and that it was not given again
 * yet. Nobody looks for them while there are none. */
__u64 put_back;

/* One for each place, or one where nobody asked. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct owner);
} owners SEC(".maps");

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

/* How often what is too large for a device may have been split. */
enum {
	SPLITS_MAX = 4,
};

extern const void iomap_dio_bio_end_io __ksym __weak;
extern const void bio_chain_endio __ksym __weak;
/* Linux 6.14. */
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;

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

/* The file whose page is read or written: of the page cache, or of a direct read or write by way of
 * iomap. As far as it can be known: a page without a mapping belongs to no file, or was truncated.
 */
static __always_inline struct inode *inode_of(struct request *rq)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct bio *whole = bio;
	struct bio_vec *vec;
	struct page *page;
	__u64 mapping, head;

	if (!bio)
		return 0;
	/* A part of what was split ends in the whole, which is there until all its parts have
	 * ended. */
	for (__u32 i = 0; i < SPLITS_MAX && &bio_chain_endio; i++) {
		if ((void *)BPF_CORE_READ(whole, bi_end_io) != &bio_chain_endio)
			break;
		whole = BPF_CORE_READ(whole, bi_private);
	}
	if (&iomap_dio_bio_end_io && bpf_core_type_exists(struct iomap_dio) &&
	    (void *)BPF_CORE_READ(whole, bi_end_io) == &iomap_dio_bio_end_io) {
		struct iomap_dio *dio = BPF_CORE_READ(whole, bi_private);

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

static __always_inline void read_file(struct owner *o, struct request *rq)
{
	struct inode *inode = inode_of(rq);
	struct hlist_node *alias;
	struct dentry *dentry;

	o->inode = 0;
	o->inode_dev = 0;
	o->file[0] = 0;
	if (!inode)
		return;
	o->inode = BPF_CORE_READ(inode, i_ino);
	o->inode_dev = BPF_CORE_READ(inode, i_sb, s_dev);
	alias = BPF_CORE_READ(inode, i_dentry.first);
	if (!alias)
		return;
	dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	bpf_probe_read_kernel_str(o->file, sizeof(o->file), BPF_CORE_READ(dentry, d_name.name));
}

static __always_inline __u32 dev_of(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;

	if (!disk)
		return 0;
	return ((__u32)disk->major << 20) | (__u32)disk->first_minor;
}

/* A request's address as a number to reckon with, which the verifier allows of the distance between
 * two pointers only. */
static __always_inline __u64 number_of(struct request *rq)
{
	__u64 number = (__u64)rq - (__u64)&half;

	asm volatile("" : "+r"(number));
	return number;
}

/* The first of the places where a request may be. */
static __always_inline __u32 first_place(__u64 number)
{
	return (((number * 0x9e3779b97f4a7c15) >> 40) & sets_mask) * WAYS;
}

/* Where it is; PLACES: nowhere. */
static __always_inline __u32 place_of(struct request *rq)
{
	__u64 number = number_of(rq);
	__u32 first = first_place(number);

	for (__u32 i = 0; i < WAYS; i++) {
		if (requests[first + i] == number)
			return first + i;
	}
	return PLACES;
}

static __always_inline struct flight *flight_at(__u32 place)
{
	/* For the verifier, which forgets how large it is. */
	asm volatile("" : "+r"(place));
	return &flights[place & (PLACES - 1)];
}

static __always_inline struct flight *flight_of(struct request *rq)
{
	__u32 place = place_of(rq);

	return place < PLACES ? flight_at(place) : NULL;
}

/* A place for it; PLACES: there is none left. */
static __always_inline __u32 new_place(struct request *rq)
{
	__u64 number = number_of(rq);
	__u32 first = first_place(number), place = place_of(rq);

	if (place < PLACES) {
		/* The one before it was given up without an end, or its end was not shown to us. */
		__sync_fetch_and_add(&lost.abandoned, 1);
		return place;
	}
	for (__u32 i = 0; i < WAYS; i++) {
		__u64 *at = &requests[first + i];

		/* Another CPU may be quicker. */
		if (*at == 0 && __sync_val_compare_and_swap(at, 0, number) == 0)
			return first + i;
	}
	__sync_fetch_and_add(&lost.flights_full, 1);
	return PLACES;
}

static __always_inline void leave(__u32 place)
{
	asm volatile("" : "+r"(place));
	/* Not before what was there has been read. */
	__sync_lock_test_and_set(&requests[place & (PLACES - 1)], 0);
}

static __always_inline bool is_wanted(struct request *rq)
{
	if (only_dev && dev_of(rq) != only_dev)
		return false;
	if (only_ops && !(only_ops & (1 << op_of(rq->cmd_flags, rq->__data_len))))
		return false;
	return is_wanted_process() && is_wanted_thread();
}

/* Whether all requests are looked at, of one device or of all. */
static __always_inline bool wants_everyones(void)
{
	return !only_ops && !only_tgid && !only_cgroup && only_comm[0] == 0;
}

static __always_inline void look_at(struct flight *f, struct request *rq)
{
	f->bytes = rq->__data_len;
	f->sector = rq->__sector;
	f->op = op_of(rq->cmd_flags, f->bytes);
	f->flags = flags_of(rq->cmd_flags);
	f->dev = dev_of(rq);
	f->seek_sectors = 0;
}

/* Whether somebody asked whose requests are. */
static __always_inline bool has_owner(void)
{
	return by_comm || by_file || by_cgroup;
}

static __always_inline void read_owner(struct owner *o, struct request *rq)
{
	if (by_comm)
		bpf_get_current_comm(o->comm, sizeof(o->comm));
	if (by_cgroup)
		o->cgroup = bpf_get_current_cgroup_id();
	if (by_file)
		read_file(o, rq);
}

/* It is under way from now on. */
static __always_inline struct flight *begin(struct request *rq)
{
	struct flight *f;
	__u32 place;

	if (!is_wanted(rq))
		return NULL;
	place = new_place(rq);
	if (place >= PLACES)
		return NULL;
	if (has_owner()) {
		struct owner *o = bpf_map_lookup_elem(&owners, &place);

		if (o)
			read_owner(o, rq);
	}
	f = flight_at(place);
	look_at(f, rq);
	f->issue_ns = 0;
	f->start_ns = 0;
	return f;
}

/* Where the one before it ended; its own end takes that place. */
static __always_inline __u64 end_before(__u32 dev, __u64 begins, __u64 ends)
{
	__u32 first = (dev * 0x9e3779b1u) >> 22;
	struct last *last;
	__u64 before;

	for (__u32 i = 0; i < LASTS_TRIED; i++) {
		last = &lasts[(first + i) & (LASTS - 1)];
		if (last->dev == 0 && __sync_val_compare_and_swap(&last->dev, 0, dev) == 0) {
			last->end = ends;
			return begins;
		}
		if (last->dev != dev)
			continue;
		/* Two CPUs that issue to one device at once may both measure from the same end: a
		 * distance says what the device was asked to do next, and there was no next. */
		before = last->end;
		last->end = ends;
		return before;
	}
	/* More than a thousand devices: this one's requests count as if each followed the other. */
	return begins;
}

static __always_inline void measure_seek(struct flight *f)
{
	if (f->op == IO_READ || f->op == IO_WRITE)
		f->seek_sectors = (__s64)(f->sector - end_before(f->dev, f->sector,
								 f->sector + (f->bytes >> 9)));
}

static __always_inline void issue(struct request *rq, struct flight *f)
{
	f->issue_ns = bpf_ktime_get_ns();
	/* Merging made it larger, and may have moved its begin. */
	f->bytes = rq->__data_len;
	f->sector = rq->__sector;
	measure_seek(f);
}

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

static __always_inline void end(struct request *rq)
{
	__u32 place = place_of(rq);
	struct owner *o = NULL;

	if (place >= PLACES) {
		/* The flush that the kernel makes of a write's flag has an end only, as the write
		 * of nothing has that asked for it; and with a filter there are many that we let
		 * go. */
		if ((rq->cmd_flags & OP_MASK) != OP_FLUSH && wants_everyones() &&
		    (!only_dev || dev_of(rq) == only_dev))
			__sync_fetch_and_add(&lost.unmatched, 1);
		return;
	}
	if (has_owner())
		o = bpf_map_lookup_elem(&owners, &place);
	book(flight_at(place), o);
	if (flight_at(place)->flags & IO_PUT_BACK)
		__sync_fetch_and_add(&put_back, -1);
	leave(place);
}

/* The kernel runs no program on a CPU that is in it already: the end that an interrupt brings while
 * another one is looked at would pass by unseen. */
static __always_inline void end_undisturbed(struct request *rq)
{
	bool can_wait = bpf_ksym_exists(bpf_local_irq_save);
	unsigned long flags;

	if (can_wait)
		bpf_local_irq_save(&flags);
	end(rq);
	if (can_wait)
		bpf_local_irq_restore(&flags);
}

/* Since Linux 6.5: every request has a start and an end of its own. */

SEC("tp_btf/block_io_start")
int BPF_PROG(on_start, struct request *rq)
{
	struct flight *f = begin(rq);

	if (f)
		f->start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/block_io_done")
int BPF_PROG(on_done, struct request *rq)
{
	end_undisturbed(rq);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *rq)
{
	struct flight *f = flight_of(rq);

	/* A request that is put back and issued again counts from the first time. */
	if (f && !f->issue_ns)
		issue(rq, f);
	return 0;
}

/* Before: it starts where it is put into a scheduler's queue, else where it is issued. */

SEC("tp_btf/block_rq_insert")
int BPF_PROG(on_insert, struct request *rq)
{
	struct flight *f = begin(rq);

	if (f)
		f->start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue_or_begin, struct request *rq)
{
	struct flight *f = flight_of(rq);

	if (!f) {
		f = begin(rq);
		if (f)
			f->start_ns = bpf_ktime_get_ns();
	}
	if (f && !f->issue_ns)
		issue(rq, f);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *rq, int error, unsigned int bytes)
{
	/* A request may end in parts, and what has no bytes may have been a request for a flush. */
	if (bytes < rq->__data_len)
		return 0;
	if (error) {
		struct flight *f = flight_of(rq);

		if (f)
			f->flags |= IO_FAILED;
	}
	end_undisturbed(rq);
	return 0;
}

/* Without a latency from the start: it is followed from its issue on. */

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue_begin, struct request *rq)
{
	struct flight *f = put_back ? flight_of(rq) : NULL;

	if (f && (f->flags & IO_PUT_BACK)) {
		/* It counts from the first time. */
		f->flags &= ~IO_PUT_BACK;
		__sync_fetch_and_add(&put_back, -1);
		return 0;
	}
	f = begin(rq);
	if (f)
		issue(rq, f);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(on_requeue, struct request *rq)
{
	struct flight *f = flight_of(rq);

	if (f && !(f->flags & IO_PUT_BACK)) {
		f->flags |= IO_PUT_BACK;
		__sync_fetch_and_add(&put_back, 1);
	}
	return 0;
}

/* Without any latency: what is known at its issue is all that is wanted. */

/* Whether it was counted already when it was issued before; then it is forgotten. One that ended
 * without a second issue may have left its address behind: a new request there is another one, as
 * far as the kernel keeps the time of its making. */
static __always_inline bool was_put_back(struct request *rq)
{
	__u32 place = place_of(rq);
	bool is_same;

	if (place >= PLACES)
		return false;
	is_same = flight_at(place)->start_ns == rq->start_time_ns;
	leave(place);
	__sync_fetch_and_add(&put_back, -1);
	return is_same;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue_only, struct request *rq)
{
	struct owner o = {};
	struct flight f;
	struct group *g;

	if (put_back && was_put_back(rq))
		return 0;
	if (!is_wanted(rq))
		return 0;
	look_at(&f, rq);
	measure_seek(&f);
	g = slot_for(&f);
	if (g) {
		book_request(g, &f, ONE_CPU);
		book_place(g, &f, ONE_CPU);
		return 0;
	}
	read_owner(&o, rq);
	g = group_for(&f, &o);
	if (g) {
		book_request(g, &f, ALL_CPUS);
		book_place(g, &f, ALL_CPUS);
	}
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(on_requeue_only, struct request *rq)
{
	__u32 place = place_of(rq);

	if (place >= PLACES) {
		place = new_place(rq);
		if (place >= PLACES)
			return 0;
		__sync_fetch_and_add(&put_back, 1);
	}
	flight_at(place)->start_ns = rq->start_time_ns;
	return 0;
}

SEC("tp_btf/block_rq_error")
int BPF_PROG(on_error, struct request *rq)
{
	struct flight *f = flight_of(rq);

	if (f)
		f->flags |= IO_FAILED;
	return 0;
}

/* A bio tells neither its device's number nor its process cheaply: with a filter, user space takes
 * the number for unknown. */
static __always_inline void merged(void)
{
	__sync_fetch_and_add(&lost.merged, 1);
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_merge, struct request *rq)
{
	__u32 place = place_of(rq);

	/* It lives on in another one, and has no end of its own. */
	if (place < PLACES)
		leave(place);
	merged();
	return 0;
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
