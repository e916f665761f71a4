/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How long threads waited for a CPU that they could have used, by the scheduler's own stamps. */
#ifndef WAITS_BPF_H
#define WAITS_BPF_H

#include "cpu_time.h"
#include <bpf/bpf_core_read.h>

/* Set before loading. */
const volatile bool with_wait_histogram = false;

/* The thread comes on: its wait is over. It is traced before the scheduler books it. A thread that
 * was moved to this CPU while it waited was queued anew. */
static __always_inline void book_wait(struct cpu *here, struct task_struct *next)
{
	__u64 queued_ns, ns;

	if (!bpf_core_field_exists(next->sched_info))
		return;
	queued_ns = next->sched_info.last_queued;
	if (queued_ns == 0)
		return;
	ns = next->se.cfs_rq->rq->clock - queued_ns;
	if ((__s64)ns <= 0)
		return;
	here->books.wait_ns += ns;
	if (with_wait_histogram) {
		count_in(here->waits.histogram, WAIT_BUCKETS, log2_of(ns));
		if (ns > here->waits.ns_max)
			here->waits.ns_max = ns;
	}
}

/* Time that a thread has waited since its start, including the current wait. */
static __always_inline __u64 waited_ns(struct task_struct *task)
{
	__u64 ns, queued_ns, now_ns;

	if (!bpf_core_field_exists(task->sched_info))
		return 0;
	ns = task->sched_info.run_delay;
	queued_ns = task->sched_info.last_queued;
	if (queued_ns) {
		now_ns = task->se.cfs_rq->rq->clock;
		if (now_ns > queued_ns)
			ns += now_ns - queued_ns;
	}
	return ns;
}

#endif
