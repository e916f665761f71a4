/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* When something began and ended on a CPU. None nests in its own kind. */
#ifndef SPANS_BPF_H
#define SPANS_BPF_H

enum {
	/* A sample comes up to some 100 us late where a host has to wake the CPU up, and interrupts
	 * may come every 10 us. */
	SPANS = 16,
};

struct spans {
	__u64 number;  /* of the present one; the last SPANS are kept */
	__u64 is_open; /* 1: the present one has not ended */
	__u64 began_ns[SPANS];
	__u64 ended_ns[SPANS]; /* 0: it has not ended */
};

/* When a CPU left idle for tasks: the program at the switch writes it, and the samplers read it. */
struct task_spans {
	struct spans tasks;
	__u64 unused[6];
};
_Static_assert(sizeof(struct task_spans) % 64 == 0, "no two CPUs share a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs; set before loading */
	__type(key, __u32);
	__type(value, struct task_spans);
} spans_of_tasks SEC(".maps");

static __always_inline struct spans *spans_of_tasks_here(void)
{
	__u32 number = bpf_get_smp_processor_id();
	struct task_spans *here = bpf_map_lookup_elem(&spans_of_tasks, &number);

	return here ? &here->tasks : NULL;
}

static __always_inline void begin_span(struct spans *s, __u64 now_ns)
{
	__u32 i = ++s->number % SPANS;

	s->ended_ns[i] = 0;
	s->began_ns[i] = now_ns;
	s->is_open = 1;
}

static __always_inline void end_span(struct spans *s, __u64 now_ns)
{
	s->ended_ns[s->number % SPANS] = now_ns;
	s->is_open = 0;
}

#endif
