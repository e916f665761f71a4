/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The ids of the threads of a PID namespace: the machine's and the namespace's. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "process_ids.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Never written: so that the type reaches user space's side. */
struct process_ids type_of_ids;

enum {
	PIDS_OF_TGID = 1, /* PIDTYPE_TGID */
};

static __always_inline __u32 id_at(struct pid *pid, __u32 level)
{
	__u32 id = 0;
	void *numbers;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	numbers += level * bpf_core_type_size(struct upid) + bpf_core_field_offset(struct upid, nr);
	bpf_probe_read_kernel(&id, sizeof(id), numbers);
	return id;
}

/* The kernel walks the threads of the reader's own namespace. */
SEC("iter/task")
int tell_ids(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *reader = (void *)bpf_get_current_task();
	struct process_ids ids = {};
	__u32 level;

	if (!task)
		return 0;
	level = BPF_CORE_READ(reader, thread_pid, level);
	ids.tgid = task->tgid;
	ids.tid = task->pid;
	ids.own_tgid = id_at(BPF_CORE_READ(task, signal, pids[PIDS_OF_TGID]), level);
	ids.own_tid = id_at(BPF_CORE_READ(task, thread_pid), level);
	bpf_seq_write(ctx->meta->seq, &ids, sizeof(ids));
	return 0;
}
