/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whom the user wants to see: a process, a control group, threads of a name. */
#ifndef ONLY_BPF_H
#define ONLY_BPF_H

enum {
	NAME_BYTES = 16,
};

/* 0 and empty: everyone. The last byte of the name stays 0, as in the kernel. */
const volatile __u32 only_tgid = 0;
const volatile char only_comm[NAME_BYTES] = {};

/* Whether only one control group is asked for: that in asked_cgroup, with all below it. */
const volatile bool only_cgroup = false;

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} asked_cgroup SEC(".maps");

static __always_inline bool is_wanted_process(void)
{
	if (only_tgid && only_tgid != bpf_get_current_pid_tgid() >> 32)
		return false;
	return !only_cgroup || bpf_current_task_under_cgroup(&asked_cgroup, 0) == 1;
}

static __always_inline bool is_wanted_thread(void)
{
	char comm[NAME_BYTES];

	if (only_comm[0] == 0)
		return true;
	bpf_get_current_comm(comm, sizeof(comm));
	for (int i = 0; i < NAME_BYTES; i++) {
		if (comm[i] != only_comm[i])
			return false;
		if (comm[i] == 0)
			break;
	}
	return true;
}

#endif
