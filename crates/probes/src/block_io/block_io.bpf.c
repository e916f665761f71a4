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

/* What to look at; 0 or empty: everything. */
const volatile __u32 only_dev;
const volatile __u32 only_ops; /* one bit for each enum io_op */

/* Half of the sums in use. */
__u32 half;
struct io_lost lost;

#include "request.bpf.h"
#include "owner.bpf.h"
#include "places.bpf.h"
#include "sums.bpf.h"

/* Linux 6.14. */
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;

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

/* Starts to follow a request; NULL if it is not wanted or no place is left. */
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

static __always_inline void issue(struct request *rq, struct flight *f)
{
	f->issue_ns = bpf_ktime_get_ns();
	/* Merging made it larger, and may have moved its start. */
	f->bytes = rq->__data_len;
	f->sector = rq->__sector;
	measure_seek(f);
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

	/* A request that is put back and issued again counts from the first issue. */
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
		/* It counts from the first issue. */
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

	/* It continues as part of another one, and has no end. */
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

/* Measures the cost of the kernel's own statistics of a program. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue_nothing)
{
	return 0;
}
