/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Busy and idle time of each CPU, by context switches.
 *
 * Every program here runs on the CPU whose books it writes, with interrupts off: sched_switch fires
 * under the run queue's lock, test runs and timers arrive by interrupt. So plain loads and stores
 * are enough.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "cpu_time.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct cpu_time now[CPU_TIME_CPUS];

#include "tasks.bpf.h"

/* A copy of now[] as of the last closing. Only a closing writes it, so user space, which orders the
 * closings, reads it without a lock. */
struct cpu_time closed[CPU_TIME_CPUS];
/* One half is in use, the other holds the interval that was closed last. */
struct contest contests[2][CPU_TIME_CPUS][CONTEST_SETS];
struct contender contenders[2][CPU_TIME_CPUS][CONTEST_SETS][CONTEST_WAYS];

enum {
	/* In prev_state: the task will not come back (TASK_DEAD). */
	TASK_IS_DEAD = 0x80,
};

struct who {
	__u64 task; /* its address, used as a name only */
	__u32 tid;  /* 0: the idle task */
	__u32 tgid;
};

static __always_inline void compete(const struct cpu_time *c, __u32 cpu, const struct who *who,
				    __u64 ns)
{
	__u32 half = c->closings & 1, set = who->tid % CONTEST_SETS, least = 0;
	struct contest *contest = &contests[half][cpu][set];
	struct contender *contender;

#pragma unroll
	for (int way = 0; way < CONTEST_WAYS; way++) {
		if (contest->tid[way] == who->tid) {
			contest->ns[way] += ns;
			return;
		}
	}
#pragma unroll
	for (int way = 1; way < CONTEST_WAYS; way++) {
		if (contest->ns[way] < contest->ns[least % CONTEST_WAYS])
			least = way;
	}
	least %= CONTEST_WAYS; /* for the verifier */
	contest->tid[least] = who->tid;
	contest->over[least] = contest->ns[least];
	contest->ns[least] += ns;
	contender = &contenders[half][cpu][set][least];
	contender->tgid = who->tgid;
	/* At a switch the task that leaves is still the current one. */
	bpf_get_current_comm(contender->comm, sizeof(contender->comm));
}

/* How long a task had the CPU when it last had one, by the scheduler's own clock. */
static __always_inline __u64 last_stint_ns(__u64 task)
{
	struct task_struct *t = (void *)task;

	return BPF_CORE_READ(t, se.sum_exec_runtime) - BPF_CORE_READ(t, se.prev_sum_exec_runtime);
}

/* Some kernels keep a few tasks from their tracers, so now and then another task comes off than the
 * one that went on. Where one of them is idle, the other had the CPU for no longer than its stint.
 */
static __always_inline __u64 busy_part(struct cpu_time *c, const struct who *who, __u64 ns,
				       bool with_btf)
{
	__u64 task = who->tid ? who->task : c->running;
	__u64 whole = who->tid ? ns : 0, stint;

	if (c->running == who->task)
		return whole;
	c->unseen++;
	if (who->tid && c->running != c->idle_task)
		return whole;
	if (!with_btf) {
		c->unsure_ns += ns;
		return whole;
	}
	stint = last_stint_ns(task);
	if (stint > ns)
		stint = ns;
	c->unsure_ns += stint;
	return stint;
}

/* Books the time since the last event to the task that had the CPU until now; yields the busy part.
 */
static __always_inline __u64 book(struct cpu_time *c, __u32 cpu, const struct who *who,
				  bool with_btf)
{
	__u64 now_ns = bpf_ktime_get_ns(), ns, busy_ns;

	if (who->tid == 0)
		c->idle_task = who->task;
	if (c->since_ns == 0) {
		c->since_ns = now_ns;
		return 0;
	}
	if (now_ns < c->since_ns) {
		c->backward++;
		return 0;
	}
	ns = now_ns - c->since_ns;
	c->since_ns = now_ns;
	busy_ns = busy_part(c, who, ns, with_btf);
	c->busy_ns += busy_ns;
	c->idle_ns += ns - busy_ns;
	if (who->tid)
		compete(c, cpu, who, busy_ns);
	return busy_ns;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct who who = {.task = (__u64)prev, .tid = prev->pid, .tgid = prev->tgid};
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_time *c;
	__u64 busy_ns;

	if (cpu >= CPU_TIME_CPUS)
		return 0;
	c = &now[cpu];
	busy_ns = book(c, cpu, &who, true);
	c->running = (__u64)next;
	c->switches++;
	if (with_tasks) {
		struct stint had = next_stint(c, cpu, c->since_ns, next->pid != 0);

		if (who.tid)
			credit(c, cpu, prev, busy_ns, &had, 1);
		if (prev_state & TASK_IS_DEAD)
			bury(c, prev);
	}
	return 0;
}

/* The same without BTF: at a switch the task that leaves is still the current one. */
SEC("raw_tp/sched_switch")
int on_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct who who = {.task = ctx->args[1], .tid = ids, .tgid = ids >> 32};
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_time *c;

	if (cpu >= CPU_TIME_CPUS)
		return 0;
	c = &now[cpu];
	book(c, cpu, &who, false);
	c->running = ctx->args[2];
	c->switches++;
	return 0;
}

/* Closes the books of the CPU it runs on, with the number of the closing as its argument: user
 * space sends it to each CPU at a window's edges (BPF_PROG_TEST_RUN with BPF_F_TEST_RUN_ON_CPU), so
 * that a CPU that never switches balances too.
 */
SEC("raw_tp")
int close_books(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct who who = {.task = bpf_get_current_task(), .tid = ids, .tgid = ids >> 32};
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_time *c;
	__u64 busy_ns;

	if (cpu >= CPU_TIME_CPUS)
		return 0;
	c = &now[cpu];
	if (c->since_ns == 0)
		c->running = who.task;
	busy_ns = book(c, cpu, &who, false);
	c->running = who.task;
	if (with_tasks) {
		struct stint had = next_stint(c, cpu, c->since_ns, who.tid != 0);

		if (who.tid)
			credit(c, cpu, bpf_get_current_task_btf(), busy_ns, &had, 0);
	}
	c->epoch = ctx->args[0];
	closed[cpu] = *c;
	c->closings++;
	__builtin_memset(contests[c->closings & 1][cpu], 0, sizeof(contests[0][0]));
	return 0;
}

/* What the kernel's run statistics cost by themselves, to be taken off what they say of on_switch.
 */
SEC("raw_tp/sched_switch")
int on_switch_nothing(void *ctx)
{
	return 0;
}
