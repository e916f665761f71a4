/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where threads spend their time: stacks of those that have a CPU, by samples, and of those that
 * have none, by context switches. One of the two programs is loaded at a time. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "hist.bpf.h"
#include "kernels.bpf.h"
#include "namespace.bpf.h"
#include "only.bpf.h"
#include "profile.h"
#include "cpus.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Threads of this process are left out; 0: none are. */
const volatile __u32 but_tgid = 0;

/* For tests: each so manyeth switch of the process that is wanted is not looked at; 0: none. */
const volatile __u32 leave_out = 0;

/* 1 between the start and the end of the profile. */
__u32 running;
/* Half of the sums that is written now. */
__u32 half;
__u64 lost[PROFILE_LOST_REASONS];
/* Switches that leave_out counts; by a race a few more. */
__u32 switches;
/* Stacks that were stored so far. */
__u64 stored;

/* Never written: so that the types reach user space's side. */
struct profile_key type_of_key;
struct profile_sum type_of_sum;
struct profile_stack type_of_stack;
struct away type_of_away;

struct sums {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct profile_key);
	__type(value, struct profile_sum);
};
struct sums sums_even SEC(".maps");
struct sums sums_odd SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct profile_stack);
} stacks SEC(".maps");

/* By thread: storage of tasks cannot be had under the run queue's lock before Linux 6.4. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct away);
} off_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profile_stack);
} scratch SEC(".maps");

static const struct profile_sum nothing;

static __always_inline void lose(__u32 reason)
{
	__sync_fetch_and_add(&lost[reason], 1);
}

static __always_inline bool is_wanted(void)
{
	if (but_tgid && but_tgid == bpf_get_current_pid_tgid() >> 32)
		return false;
	return is_wanted_process() && is_wanted_thread();
}

/* The name of the current thread's stack, under which it is stored; 0 where there is none. */
static __always_inline __u64 stack_of(void *ctx, __u64 flags)
{
	__u64 hash = 0xcbf29ce484222325 ^ flags;
	struct profile_stack *stack;
	__u32 zero = 0;
	long bytes;

	stack = bpf_map_lookup_elem(&scratch, &zero);
	if (!stack)
		return 0;
	bytes = bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), flags);
	if (bytes < 8)
		return 0;
	stack->depth = (__u64)bytes / 8;
	for (int i = 0; i < PROFILE_FRAMES; i++) {
		if (i >= stack->depth)
			break;
		hash = (hash ^ stack->frames[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	if (bpf_map_lookup_elem(&stacks, &hash))
		return hash;
	if (bpf_map_update_elem(&stacks, &hash, stack, BPF_ANY)) {
		lose(PROFILE_LOST_STACKS_FULL);
		return hash;
	}
	__sync_fetch_and_add(&stored, 1);
	return hash;
}

/* Where the current thread is. */
static __always_inline void describe(void *ctx, struct profile_key *key, __u32 state)
{
	key->tgid = tgid_for_reader((void *)bpf_get_current_task());
	key->state = state;
	if (key->tgid == 0) {
		key->tgid = bpf_get_current_pid_tgid() >> 32;
		key->state |= reader_namespace ? PROFILE_OUTSIDE : 0;
	}
	bpf_get_current_comm(key->comm, sizeof(key->comm));
	key->user = stack_of(ctx, BPF_F_USER_STACK);
	key->kernel = stack_of(ctx, 0);
}

static __always_inline void sum_up(void *sums, const struct profile_key *key, __u64 ns)
{
	struct profile_sum *sum = bpf_map_lookup_elem(sums, key);

	if (!sum) {
		/* Fails where another CPU was first, too. */
		bpf_map_update_elem(sums, key, &nothing, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, key);
		if (!sum) {
			lose(PROFILE_LOST_SUMS_FULL);
			return;
		}
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->ns, ns);
}

/* By an interrupt: while another one's handler runs, no sample comes. Idle CPUs are sampled too: a
 * softirq may run there, and samples that do not come show. */
SEC("perf_event")
int on_sample(void *ctx)
{
	struct cpu *cpu = running ? cpu_here() : NULL;
	struct profile_key key = {};

	if (!cpu)
		return 0;
	cpu->samples++;
	if (!is_wanted())
		return 0;
	describe(ctx, &key, PROFILE_RAN);
	if (half & 1)
		sum_up(&sums_odd, &key, 0);
	else
		sum_up(&sums_even, &key, 0);
	return 0;
}

/* Some kernels show tracers not every switch. What a thread ran for since it went off tells: that
 * was no time off the CPU. */
static __always_inline void comes_back(const struct away *away, struct task_struct *task,
				       __u64 now_ns)
{
	__u64 ns = now_ns - away->since_ns, ran_ns = task->se.sum_exec_runtime - away->ran_ns;

	ns = ran_ns < ns ? ns - ran_ns : 0;
	if (half & 1)
		sum_up(&sums_odd, &away->key, ns);
	else
		sum_up(&sums_even, &away->key, ns);
}

static __always_inline void goes_off(void *ctx, struct task_struct *task, bool preempt)
{
	struct away away = {}, *before;
	__u32 tid = task->pid;

	if (tid == 0)
		return;
	before = bpf_map_lookup_elem(&off_cpu, &tid);
	if (before && !before->is_back) {
		away = *before;
		comes_back(&away, task, bpf_ktime_get_ns());
	}
	if (!is_wanted() || will_not_come_back(task)) {
		if (before)
			bpf_map_delete_elem(&off_cpu, &tid);
		return;
	}
	away.key = (struct profile_key){};
	describe(ctx, &away.key, preempt || is_runnable(task) ? PROFILE_WAITED : PROFILE_BLOCKED);
	away.ran_ns = task->se.sum_exec_runtime;
	/* After the walk, whose time is the profile's and not the thread's. */
	away.since_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&off_cpu, &tid, &away, BPF_ANY))
		lose(PROFILE_LOST_AWAY_FULL);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 tid = next->pid;
	struct away *away;
	struct away then;
	__u64 now_ns;

	/* A thread that is off at the end stays off: user space asks for it. */
	if (!running)
		return 0;
	if (leave_out && (prev->tgid == only_tgid || next->tgid == only_tgid) &&
	    ++switches % leave_out == 0)
		return 0;
	goes_off(ctx, prev, preempt);
	if (tid == 0)
		return 0;
	away = bpf_map_lookup_elem(&off_cpu, &tid);
	if (!away)
		return 0;
	now_ns = bpf_ktime_get_ns();
	then = *away;
	away->since_ns = now_ns;
	away->ran_ns = next->se.sum_exec_runtime;
	away->is_back = 1;
	if (then.is_back) {
		/* It went off unseen, from somewhere. */
		then.key.user = then.key.kernel = 0;
		then.key.state = PROFILE_BLOCKED;
		lose(PROFILE_LOST_UNSEEN);
	}
	comes_back(&then, next, now_ns);
	return 0;
}
