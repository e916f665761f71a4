/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Ids of processes and threads in the PID namespace of the reader, read while they live: a walk
 * over the living later misses those that ended. */
#ifndef NAMESPACE_BPF_H
#define NAMESPACE_BPF_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Inode number of the reader's PID namespace; 0: it has the machine's ids. Set before loading. */
const volatile __u32 reader_namespace = 0;

enum {
	PIDS_OF_TGID = 1, /* PIDTYPE_TGID */
	/* Namespaces within each other that are looked at, the machine's own included. */
	NAMESPACES_MAX = 8,
};

/* In the reader's namespace; 0: it is outside, or the reader has the machine's ids. */
static __always_inline __u32 id_for_reader(struct pid *pid)
{
	__u32 level, deepest;
	void *numbers;

	if (!reader_namespace || !pid)
		return 0;
	deepest = BPF_CORE_READ(pid, level);
	numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	for (level = 1; level < NAMESPACES_MAX && level <= deepest; level++) {
		void *at = numbers + level * bpf_core_type_size(struct upid);
		struct pid_namespace *namespace = NULL;
		__u32 id = 0;

		bpf_probe_read_kernel(&namespace, sizeof(namespace),
				      at + bpf_core_field_offset(struct upid, ns));
		/* Without `continue`: verifiers before Linux 6.2 want a loop's way back to be a
		 * jump. */
		if (namespace && BPF_CORE_READ(namespace, ns.inum) == reader_namespace) {
			bpf_probe_read_kernel(&id, sizeof(id),
					      at + bpf_core_field_offset(struct upid, nr));
			return id;
		}
	}
	return 0;
}

static __always_inline __u32 tid_for_reader(struct task_struct *task)
{
	return reader_namespace ? id_for_reader(BPF_CORE_READ(task, thread_pid)) : 0;
}

static __always_inline __u32 tgid_for_reader(struct task_struct *task)
{
	return reader_namespace ? id_for_reader(BPF_CORE_READ(task, signal, pids[PIDS_OF_TGID]))
				: 0;
}

#endif
