/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Sums of each task, and its share of a core that several CPUs make up. */
#ifndef TASKS_BPF_H
#define TASKS_BPF_H

#include "cpu_time.h"

/* Set before loading; where tasks are not asked for, the verifier removes all of this. */
const volatile bool with_tasks = false;
/* Whether sums can be allocated under the run queue's lock. */
const volatile bool creates_at_switch = false;

/* Never written: so that the type reaches user space's side. */
struct task_record type_of_record;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* cores that several CPUs share; set before loading */
	__type(key, __u32);
	__type(value, struct core_clock);
} cores SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_books);
} task_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024);
} ended SEC(".maps");

/* Brings a core's clocks to now_ns. Its CPUs read their clocks before they get here, so one that
 * comes second may be a little early: it then finds the clocks where the first one left them. */
static __always_inline void advance(struct core_clock *core, __u64 now_ns)
{
	__u64 ns;

	if (now_ns <= core->last_ns)
		return;
	ns = now_ns - core->last_ns;
	core->last_ns = now_ns;
	if (core->busy == 0)
		return;
	core->busy_ns += ns;
	if (core->busy == 1)
		core->alone_ns += ns;
	core->share += ns * SHARE_UNITS / core->busy;
}

/* Each holder of the lock has interrupts off and is done in a few dozen instructions, so only a
 * hypervisor can make this fail. bpf_spin_lock is not allowed in tracing programs. */
static __always_inline bool lock(struct core_clock *core)
{
	for (int tries = 0; tries < 1024; tries++) {
		if (__sync_val_compare_and_swap(&core->lock, 0, 1) == 0)
			return true;
	}
	return false;
}

static __always_inline void unlock(struct core_clock *core)
{
	__sync_val_compare_and_swap(&core->lock, 1, 0);
}

/* Ends one stint on a CPU and begins the next; yields what the one that ended had of the core. */
static __always_inline struct stint next_stint(struct cpu *here, __u64 now_ns, bool busy)
{
	struct stint *stint = &here->stint, had = {};
	__u32 number = here->core - 1;
	struct core_clock *core;

	if (here->core == 0)
		return had;
	core = bpf_map_lookup_elem(&cores, &number);
	if (!core || !lock(core)) {
		here->books.lost_core++;
		return had;
	}
	advance(core, now_ns);
	core->busy += busy - stint->counted;
	had.alone_ns = core->alone_ns - stint->alone_ns;
	had.share = core->share - stint->share;
	unlock(core);
	stint->alone_ns += had.alone_ns;
	stint->share += had.share;
	stint->counted = busy;
	return had;
}

/* 1: user space has walked over all tasks once, so that each has its sums. Set by user space. */
__u32 has_walked;

/* value * part / whole, for values up to SHARE_UNITS times the whole; to a millionth where the
 * whole is less than four minutes. */
static __always_inline __u64 part_of(__u64 value, __u64 part, __u64 whole)
{
	if (whole >> 38)
		return value / 1024 * (part / (whole / 1024));
	return value / whole * part + (value % whole << 20) / whole * part / (1 << 20);
}

/* Without a name there, such as at its end, it keeps the one that it had. */
static __noinline int name_for_reader(struct task_books *books, struct task_struct *task)
{
	__u32 own_tid = tid_for_reader(task);

	if (books && own_tid) {
		books->own_tid = own_tid;
		books->own_tgid = tgid_for_reader(task);
	}
	return 0;
}

/* Adds to a task's sums what it had since they were last added to: `own_ns` of the `ns` for which
 * `had` tells of the core. They differ after switches that we were not shown. */
static __always_inline void credit(struct cpu *here, struct task_struct *task, __u64 own_ns,
				   __u64 ns, struct stint *had, __u64 came_off)
{
	struct cpu_time *c = &here->books;
	struct task_books *books;

	if (own_ns < ns) {
		had->alone_ns = part_of(had->alone_ns, own_ns, ns);
		had->share = part_of(had->share, own_ns, ns);
	}

	/* It was created at the task's fork or by the first walk over all tasks: a switch holds the
	 * run queue's lock, under which kernels before Linux 6.4 cannot allocate it safely. */
	books = bpf_task_storage_get(&task_sums, task, 0, 0);
	if (!books && creates_at_switch) {
		/* In a PID namespace the walk does not come by the tasks outside of it. */
		books = bpf_task_storage_get(&task_sums, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (books) {
			books->waited_before_ns = queued_ns(task);
			name_for_reader(books, task);
		}
	}
	if (!books) {
		c->lost_tasks += has_walked;
		return;
	}
	if (books->epoch != c->epoch) {
		books->then = books->now;
		books->epoch = c->epoch;
	}
	if (books->member) {
		c->member_ns += own_ns;
		c->member_interrupted_ns += c->interrupted_ns;
	}
	books->now.on_cpu_ns += own_ns;
	books->now.interrupted_ns += c->interrupted_ns;
	books->now.stints += came_off;
	if (here->core) {
		books->now.alone_ns += had->alone_ns;
		books->now.share += had->share;
	} else {
		books->now.alone_ns += own_ns;
		books->now.share += own_ns * SHARE_UNITS;
	}
}

/* A thread comes on that a quota held while its CPU idled. */
static __noinline int hold(struct task_struct *task, __u64 ns)
{
	struct task_books *books;

	if (!task)
		return 0;
	books = bpf_task_storage_get(&task_sums, task, 0, 0);
	if (books)
		books->held_ns += ns;
	return 0;
}

/* The process whose next children become members; 0: none. Set and cleared by user space. */
__u32 adopter;

/* A task that a member starts is a member from its first instruction on. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	bool member = parent->tgid == adopter && child->tgid != parent->tgid;
	struct task_books *books;
	struct cpu *here;

	if (!member) {
		books = bpf_task_storage_get(&task_sums, parent, 0, 0);
		member = books && books->member;
	}
	books = bpf_task_storage_get(&task_sums, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (books) {
		books->member = member;
		name_for_reader(books, child);
		return 0;
	}
	here = cpu_here();
	if (here)
		here->books.lost_tasks++;
	return 0;
}

static __always_inline void describe(struct task_record *record, struct task_struct *task,
				     struct task_books *books)
{
	/* The thread that calls execve takes the id of its process. */
	name_for_reader(books, task);
	record->books = *books;
	record->started_ns = task->start_time;
	record->utime_ns = task->utime;
	record->stime_ns = task->stime;
	record->waited_ns = queued_ns(task) - books->waited_before_ns - books->held_ns;
	cgroups_of(task, record->cgroups);
	record->lives = 0;
	record->tid = task->pid;
	record->tgid = task->tgid;
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
}

/* Reports a task that ends: its sums end with it. */
static __always_inline void bury(struct cpu_time *c, struct task_struct *task)
{
	struct task_books *books = bpf_task_storage_get(&task_sums, task, 0, 0);
	struct task_record *record;

	if (!books)
		return;
	record = bpf_ringbuf_reserve(&ended, sizeof(*record), 0);
	if (!record) {
		c->lost_ended++;
		return;
	}
	describe(record, task, books);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	books->told = HAS_ENDED;
}

/* The sums of a task that a walk comes by: it gets some if it has none. */
static __always_inline struct task_books *books_of(struct task_struct *task)
{
	struct task_books *books = bpf_task_storage_get(&task_sums, task, 0, 0);

	if (books)
		return books;
	books = bpf_task_storage_get(&task_sums, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	/* Of one that is older than the programs, only what it waits from now on is of our time. */
	if (books)
		books->waited_before_ns = queued_ns(task);
	return books;
}

/* Tells user space of every task of the reader's PID namespace, and gives sums to those that have
 * none. */
SEC("iter/task")
int tell_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_record record = {};
	struct task_books *books;

	if (!task)
		return 0;
	books = books_of(task);
	if (!books || books->told == HAS_ENDED)
		return 0;
	describe(&record, task, books);
	record.lives = 1;
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

/* Number of the walk over all threads; set by user space. */
__u64 walk;
/* 1: the last run of tell_all_tasks found no more room; the next one goes on. */
__u64 is_cut_short;

enum {
	/* Half of the room is left to tasks that end meanwhile. */
	TOLD_BYTES_MAX = 512 * 1024,
};

/* Tells user space of every task of the machine that this walk has not told of yet. */
SEC("raw_tp")
int tell_all_tasks(void *ctx)
{
	struct bpf_iter_task all;
	struct task_struct *task;
	struct task_record *record;
	struct task_books *books;

	is_cut_short = 0;
	bpf_iter_task_new(&all, NULL, ALL_THREADS);
	while ((task = bpf_iter_task_next(&all))) {
		if (task->pid == 0)
			continue;
		books = books_of(task);
		if (!books || books->told == walk || books->told == HAS_ENDED)
			continue;
		if (bpf_ringbuf_query(&ended, BPF_RB_AVAIL_DATA) > TOLD_BYTES_MAX) {
			is_cut_short = 1;
			break;
		}
		record = bpf_ringbuf_reserve(&ended, sizeof(*record), 0);
		if (!record) {
			is_cut_short = 1;
			break;
		}
		books->told = walk;
		describe(record, task, books);
		record->lives = 1;
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	}
	bpf_iter_task_destroy(&all);
	return 0;
}

/* For tests: a switch on a CPU at a time of the tester's choice. */
struct stint replayed;

SEC("raw_tp")
int replay(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 number = ctx->args[0];
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (cpu)
		replayed = next_stint(cpu, ctx->args[1], ctx->args[2]);
	return 0;
}

#endif
