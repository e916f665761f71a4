/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Busy and idle time of each CPU, by context switches.
 *
 * Every program here runs on the CPU whose books it writes, with interrupts off: sched_switch fires
 * under the run queue's lock, test runs and timers arrive by interrupt. So plain loads and stores
 * are enough.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "cpu_time.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct cpu_time now[CPU_TIME_CPUS];
/* A copy of now[] as of the last closing. Only a closing writes it, so user space, which orders the
 * closings, reads it without a lock. */
struct cpu_time closed[CPU_TIME_CPUS];
/* One half is in use, the other holds the interval that was closed last. */
struct contest contests[2][CPU_TIME_CPUS][CONTEST_SETS];
struct contender contenders[2][CPU_TIME_CPUS][CONTEST_SETS][CONTEST_WAYS];

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

/* Books the time since the last event to the task that had the CPU until now. */
static __always_inline void book(struct cpu_time *c, __u32 cpu, const struct who *who)
{
	__u64 now_ns = bpf_ktime_get_ns(), ns;

	if (c->since_ns == 0) {
		c->since_ns = now_ns;
		return;
	}
	if (c->running != who->task)
		c->unseen++;
	if (now_ns < c->since_ns) {
		c->backward++;
		return;
	}
	ns = now_ns - c->since_ns;
	c->since_ns = now_ns;
	if (who->tid == 0) {
		c->idle_ns += ns;
	} else {
		c->busy_ns += ns;
		compete(c, cpu, who, ns);
	}
}

static __always_inline int switched(const struct who *prev, __u64 next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_time *c;

	if (cpu >= CPU_TIME_CPUS)
		return 0;
	c = &now[cpu];
	book(c, cpu, prev);
	c->running = next;
	c->switches++;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct who who = {.task = (__u64)prev, .tid = prev->pid, .tgid = prev->tgid};

	return switched(&who, (__u64)next);
}

/* The same without BTF: at a switch the task that leaves is still the current one. */
SEC("raw_tp/sched_switch")
int on_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct who who = {.task = ctx->args[1], .tid = ids, .tgid = ids >> 32};

	return switched(&who, ctx->args[2]);
}

/* Closes the books of the CPU it runs on: user space sends it to each CPU at a window's edges
 * (BPF_PROG_TEST_RUN with BPF_F_TEST_RUN_ON_CPU), so that a CPU that never switches balances too.
 */
SEC("raw_tp")
int close_books(void *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct who who = {.task = bpf_get_current_task(), .tid = ids, .tgid = ids >> 32};
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_time *c;

	if (cpu >= CPU_TIME_CPUS)
		return 0;
	c = &now[cpu];
	if (c->since_ns == 0)
		c->running = who.task;
	book(c, cpu, &who);
	c->running = who.task;
	closed[cpu] = *c;
	c->closings++;
	__builtin_memset(contests[c->closings & 1][cpu], 0, sizeof(contests[0][0]));
	return 0;
}

/* What the kernel's run statistics cost by themselves, to be taken off what they say of on_switch. */
SEC("raw_tp/sched_switch")
int on_switch_nothing(void *ctx)
{
	return 0;
}
