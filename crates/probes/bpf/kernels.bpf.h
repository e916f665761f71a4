/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What differs between kernels, in one place: each function reads the field that this kernel has.
 */
#ifndef KERNELS_BPF_H
#define KERNELS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* task_struct.state was renamed in Linux 5.14. The part after ___ is not part of the name. */
struct task_struct___since_5_14 {
	unsigned int __state;
} __attribute__((preserve_access_index));
struct task_struct___before_5_14 {
	long state;
} __attribute__((preserve_access_index));

enum {
	TASK_IS_DEAD = 0x80, /* TASK_DEAD */
};

/* Whether the task that goes off the CPU will not come back. The tracepoint tells a task's state
 * since Linux 5.18 only. */
static __always_inline bool will_not_come_back(struct task_struct *task)
{
	struct task_struct___since_5_14 *now = (void *)task;
	struct task_struct___before_5_14 *then = (void *)task;

	if (bpf_core_field_exists(now->__state))
		return BPF_CORE_READ(now, __state) & TASK_IS_DEAD;
	return BPF_CORE_READ(then, state) & TASK_IS_DEAD;
}

/* Whether the task that goes off the CPU could go on: it yields, or is preempted. */
static __always_inline bool is_runnable(struct task_struct *task)
{
	struct task_struct___since_5_14 *now = (void *)task;
	struct task_struct___before_5_14 *then = (void *)task;

	if (bpf_core_field_exists(now->__state))
		return BPF_CORE_READ(now, __state) == 0;
	return BPF_CORE_READ(then, state) == 0;
}

/* Since Linux 6.7 a program walks over all threads of the machine by itself; iter/task shows those
 * of the reader's PID namespace alone. */
struct bpf_iter_task {
	__u64 opaque[3];
} __attribute__((aligned(8)));
enum {
	ALL_THREADS = 1, /* BPF_TASK_ITER_ALL_THREADS */
};
extern int bpf_iter_task_new(struct bpf_iter_task *walk, struct task_struct *task,
			     unsigned int flags) __ksym __weak;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *walk) __ksym __weak;
extern void bpf_iter_task_destroy(struct bpf_iter_task *walk) __ksym __weak;

/* Control groups of version 2 by their ids. */
enum {
	CGROUPS = 5, /* that of a task, and those above it */
};
struct kernfs_node___of_group {
	__u64 id;
} __attribute__((preserve_access_index));
struct cgroup_subsys_state___of_group {
	struct cgroup_subsys_state___of_group *parent;
} __attribute__((preserve_access_index));
struct cgroup___of_task {
	struct cgroup_subsys_state___of_group
		self; /* at offset 0, so a group is found by its own */
	struct kernfs_node___of_group *kn;
} __attribute__((preserve_access_index));
struct css_set___of_task {
	struct cgroup___of_task *dfl_cgrp;
} __attribute__((preserve_access_index));
struct task_struct___in_group {
	struct css_set___of_task *cgroups;
} __attribute__((preserve_access_index));

/* The id of the group that a task is in, then of those above it; 0: there is none. */
static __always_inline void cgroups_of(struct task_struct *task, __u64 ids[CGROUPS])
{
	struct task_struct___in_group *member = (void *)task;
	struct cgroup___of_task *group = NULL;

	if (bpf_core_field_exists(member->cgroups))
		group = BPF_CORE_READ(member, cgroups, dfl_cgrp);
#pragma unroll
	for (int level = 0; level < CGROUPS; level++) {
		ids[level] = group ? BPF_CORE_READ(group, kn, id) : 0;
		group = group ? (void *)BPF_CORE_READ(group, self.parent) : NULL;
	}
}

#endif
