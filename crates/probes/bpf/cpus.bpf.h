/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a program keeps of each CPU: a `struct cpu`, which is to be declared before this is
 * included. User space sets the number of possible CPUs before loading, and maps the values. */
#ifndef CPUS_BPF_H
#define CPUS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* That of the CPU that runs this. A program looks it up once: the verifier makes a few instructions
 * of it, which still take longer than to pass it on. */
static __always_inline struct cpu *cpu_here(void)
{
	__u32 number = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&cpus, &number);
}

#endif
