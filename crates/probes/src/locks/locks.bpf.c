/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Waits for the kernel's locks, summed up by lock and caller. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "hist.bpf.h"
#include "only.bpf.h"
#include "locks.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Whether waits are told apart by their thread's control group. */
const volatile bool by_cgroup = false;

/* Which of sums[] is written now; user space turns it over at an interval's edge. */
__u32 half;
__u64 lost[LOST_REASONS];

/* Never written: so that the types reach user space's side. */
struct wait_key type_of_key;
struct wait_sum type_of_sum;
struct stack type_of_stack;

struct sums {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct wait_key);
	__type(value, struct wait_sum);
};
struct sums sums_even SEC(".maps");
struct sums sums_odd SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct stack);
} stacks SEC(".maps");

/* Those that sleep, or may: a task may go to another CPU meanwhile. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waits);
} of_task SEC(".maps");

/* Those that only spin stay on their CPU, and need no memory that would have to be had first. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waits);
} of_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} scratch SEC(".maps");

static const struct wait_sum nothing;

static __always_inline void lose(__u32 reason)
{
	__sync_fetch_and_add(&lost[reason], 1);
}

static __always_inline bool is_wanted(void)
{
	return is_wanted_process() && is_wanted_thread();
}

/* The name of the stack at hand: a hash of its frames, under which they are kept. */
static __always_inline __u64 stack_of(void *ctx)
{
	__u32 zero = 0;
	struct stack *stack = bpf_map_lookup_elem(&scratch, &zero);
	__u64 hash = 0xcbf29ce484222325;
	long bytes;

	if (!stack)
		return 0;
	bytes = bpf_get_stack(ctx, stack, sizeof(*stack), 0);
	if (bytes <= 0)
		return 0;
	for (int i = 0; i < STACK_FRAMES; i++) {
		if (i * 8 >= bytes)
			stack->frames[i] = 0;
		hash = (hash ^ stack->frames[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	if (bpf_map_lookup_elem(&stacks, &hash))
		return hash;
	if (bpf_map_update_elem(&stacks, &hash, stack, BPF_ANY)) {
		lose(LOST_STACKS_FULL);
		return 0;
	}
	return hash;
}

/* From now on it spins, or sleeps, as the flags say. */
static __always_inline void turn_to(struct wait *wait, __u32 flags, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();

	wait->flags = flags;
	wait->since_ns = now_ns;
	if (flags & WAIT_MUTEX) {
		wait->ran_ns = task->se.sum_exec_runtime;
		wait->switches = task->nvcsw + task->nivcsw;
	}
}

/* Brings a wait to now_ns: what has passed since its last turn was spun away, or slept.
 *
 * Who spins for a mutex may lose the CPU meanwhile, and burns nothing then: what it had is told by
 * the scheduler, as of its switches. */
static __always_inline void step(struct wait *wait, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ns = now_ns - wait->since_ns, ran_ns;

	if (!(wait->flags & WAIT_SPINS))
		return;
	if ((wait->flags & WAIT_MUTEX) && wait->switches != task->nvcsw + task->nivcsw) {
		ran_ns = task->se.sum_exec_runtime - wait->ran_ns;
		if (ran_ns < ns)
			ns = ran_ns;
	}
	wait->spun_ns += ns;
}

static __always_inline struct wait *find(struct waits *waits, __u64 lock)
{
	for (int i = 0; i < WAITS_AT_ONCE; i++) {
		if (waits->at[i].lock == lock)
			return &waits->at[i];
	}
	return NULL;
}

static __always_inline struct wait *place_for(struct waits *waits)
{
	struct wait *free = find(waits, 0);

	if (free)
		return free;
	/* The end of one was missed, or this is deeper than we follow: the first began longest ago.
	 */
	lose(LOST_TOO_MANY);
	return &waits->at[0];
}

static __always_inline struct waits *waits_of(__u32 flags, __u64 create)
{
	__u32 zero = 0;

	if ((flags & WAIT_SPINS) && !(flags & WAIT_MUTEX))
		return bpf_map_lookup_elem(&of_cpu, &zero);
	return bpf_task_storage_get(&of_task, bpf_get_current_task_btf(), 0, create);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(on_begin, void *lock, unsigned int flags)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct waits *cpu, *waits;
	struct wait *wait;
	__u32 zero = 0;

	if (!is_wanted())
		return 0;
	cpu = bpf_map_lookup_elem(&of_cpu, &zero);
	if (!cpu)
		return 0;
	if (cpu->booking) {
		cpu->inside++;
		lose(LOST_INSIDE);
		return 0;
	}
	cpu->booking = 1;
	cpu->inside = 0;
	waits = waits_of(flags, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!waits) {
		lose(LOST_TASK);
		goto out;
	}
	wait = find(waits, (__u64)lock);
	if (wait && (flags & WAIT_MUTEX)) {
		/* A mutex begins anew whenever it turns from spinning to sleeping or back. */
		step(wait, now_ns);
		turn_to(wait, flags, now_ns);
		goto out;
	}
	if (wait)
		lose(LOST_TOO_MANY);
	else
		wait = place_for(waits);
	wait->began_ns = now_ns;
	wait->spun_ns = 0;
	turn_to(wait, flags, now_ns);
	wait->stack = stack_of(ctx);
	wait->lock = (__u64)lock;
out:
	cpu->booking = 0;
	return 0;
}

static __always_inline __u32 role_of(__u64 lock)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 mm = (__u64)BPF_CORE_READ(task, mm);
	__u64 sighand = (__u64)BPF_CORE_READ(task, sighand);

	if (mm && lock == mm + bpf_core_field_offset(struct mm_struct, mmap_lock))
		return LOCK_IS_MMAP;
	if (sighand && lock == sighand + bpf_core_field_offset(struct sighand_struct, siglock))
		return LOCK_IS_SIGNAL;
	return LOCK_IS_OTHER;
}

static __always_inline void sum_up(void *sums, const struct wait *wait, __u64 ns)
{
	struct wait_key key = {.lock = wait->lock, .stack = wait->stack, .flags = wait->flags};
	struct wait_sum *sum;

	if (key.flags & WAIT_MUTEX)
		key.flags &= ~WAIT_SPINS;
	if (by_cgroup)
		key.cgroup = bpf_get_current_cgroup_id();
	sum = bpf_map_lookup_elem(sums, &key);
	if (!sum) {
		/* Fails where another CPU was first, too. */
		bpf_map_update_elem(sums, &key, &nothing, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, &key);
		if (!sum) {
			lose(LOST_SUMS_FULL);
			return;
		}
		sum->role = role_of(key.lock);
	}
	/* Of many CPUs that wait for one lock, several may end at once. */
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->total_ns, ns);
	__sync_fetch_and_add(&sum->spun_ns, wait->spun_ns);
	count_in(sum->buckets, WAIT_BUCKETS, log2_of(ns));
	raise_to(&sum->max_ns, ns);
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_end, void *lock, int result)
{
	__u64 now_ns = bpf_ktime_get_ns(), ns;
	struct waits *cpu, *waits;
	struct wait *wait;
	__u32 zero = 0;

	if (!is_wanted())
		return 0;
	cpu = bpf_map_lookup_elem(&of_cpu, &zero);
	if (!cpu)
		return 0;
	if (cpu->booking) {
		/* That of a beginning that was not looked at either is counted already. */
		if (cpu->inside)
			cpu->inside--;
		else
			lose(LOST_INSIDE);
		return 0;
	}
	cpu->booking = 1;
	cpu->inside = 0;
	wait = find(cpu, (__u64)lock);
	if (!wait) {
		waits = bpf_task_storage_get(&of_task, bpf_get_current_task_btf(), 0, 0);
		wait = waits ? find(waits, (__u64)lock) : NULL;
	}
	if (!wait) {
		lose(LOST_BEGIN);
		goto out;
	}
	step(wait, now_ns);
	ns = now_ns - wait->began_ns;
	if (half & 1)
		sum_up(&sums_odd, wait, ns);
	else
		sum_up(&sums_even, wait, ns);
	wait->lock = 0;
out:
	cpu->booking = 0;
	return 0;
}

/* What the kernel's run statistics cost by themselves, to be taken off what they say of ours. */
SEC("raw_tp/contention_end")
int on_end_nothing(void *ctx)
{
	return 0;
}
