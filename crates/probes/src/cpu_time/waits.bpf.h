/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How long threads waited for a CPU that they could have used, by the scheduler's own stamps. */
#ifndef WAITS_BPF_H
#define WAITS_BPF_H

#include "cpu_time.h"
#include <bpf/bpf_core_read.h>

/* Set before loading. */
const volatile bool with_wait_histogram = false;

/* 1: the kernel stamps waits (CONFIG_SCHED_INFO); set by the first closing. */
__u32 sees_waits;

static __always_inline void look_for_waits(void)
{
	sees_waits = bpf_core_field_exists(((struct task_struct *)0)->sched_info);
}

/* When a wait for this CPU began. The scheduler's stamp runs on while a quota holds the thread's
 * group; but nobody waits for a CPU that idles, so what was queued before that waits since then. */
static __always_inline __u64 waits_since(const struct cpu_time *c, __u64 queued_ns)
{
	if (queued_ns > c->idle_since_ns)
		return queued_ns;
	return c->idle_until_ns > c->idle_since_ns ? c->idle_until_ns : c->idle_since_ns;
}

/* Books a switch at now_ns, by the run queue's clock, to a thread that was queued at queued_ns; 0:
 * to one that was not, such as the idle task. Yields how long it was held, and did not wait. */
static __always_inline __u64 end_wait(struct cpu *here, bool from_idle, bool to_idle, __u64 now_ns,
				      __u64 queued_ns)
{
	struct cpu_time *c = &here->books;
	__u64 since_ns, ns;

	if (from_idle)
		c->idle_until_ns = now_ns;
	if (to_idle)
		c->idle_since_ns = now_ns;
	if (queued_ns == 0)
		return 0;
	since_ns = waits_since(c, queued_ns);
	ns = now_ns - since_ns;
	if ((__s64)ns > 0) {
		c->wait_ns += ns;
		if (with_wait_histogram) {
			count_in(here->waits.histogram, WAIT_BUCKETS, log2_of(ns));
			if (ns > here->waits.ns_max)
				here->waits.ns_max = ns;
		}
	}
	return since_ns - queued_ns;
}

/* The thread comes on: its wait is over. It is traced before the scheduler books it. A thread that
 * was moved to this CPU while it waited was queued anew. */
static __always_inline __u64 book_wait(struct cpu *here, __u32 from_tid, struct task_struct *next)
{
	__u64 queued_ns;

	if (!bpf_core_field_exists(next->sched_info))
		return 0;
	queued_ns = next->sched_info.last_queued;
	return end_wait(here, from_tid == 0, queued_ns == 0 && next->pid == 0,
			next->se.cfs_rq->rq->clock, queued_ns);
}

/* Time that a thread has been queued since its start, without what it is held for at this moment.
 * Its CPU's books may change meanwhile: the difference is as short as this takes. */
static __always_inline __u64 queued_ns(struct task_struct *task)
{
	__u64 ns, since_ns, now_ns;
	struct cpu *there;
	__u32 number;

	if (!bpf_core_field_exists(task->sched_info))
		return 0;
	ns = task->sched_info.run_delay;
	since_ns = task->sched_info.last_queued;
	if (since_ns == 0)
		return ns;
	now_ns = task->se.cfs_rq->rq->clock;
	if (bpf_core_field_exists(task->se.cfs_rq->rq->cpu)) {
		number = task->se.cfs_rq->rq->cpu;
		there = bpf_map_lookup_elem(&cpus, &number);
		if (there) {
			if (since_ns <= there->books.idle_since_ns &&
			    there->books.idle_until_ns < there->books.idle_since_ns)
				return ns;
			since_ns = waits_since(&there->books, since_ns);
		}
	}
	return now_ns > since_ns ? ns + now_ns - since_ns : ns;
}

/* For tests: a switch at a time of the tester's choice, and how long its thread was held. */
__u64 replayed_held_ns;

SEC("raw_tp")
int replay_wait(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 number = ctx->args[0];
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (cpu)
		replayed_held_ns = end_wait(cpu, ctx->args[1] == 1, ctx->args[1] == 2, ctx->args[2],
					    ctx->args[3]);
	return 0;
}

#endif
