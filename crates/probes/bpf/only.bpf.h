/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Whom the user wants to see: a process, threads of a name. */
#ifndef ONLY_BPF_H
#define ONLY_BPF_H

enum {
	NAME_BYTES = 16,
};

/* 0 and empty: everyone. The last byte of the name stays 0, as in the kernel. */
const volatile __u32 only_tgid = 0;
const volatile char only_comm[NAME_BYTES] = {};

static __always_inline bool is_wanted_process(void)
{
	return !only_tgid || only_tgid == bpf_get_current_pid_tgid() >> 32;
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
