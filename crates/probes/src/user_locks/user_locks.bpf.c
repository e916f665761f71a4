/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Waits of threads for each other: the futex system calls, summed up by process, lock and stack. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "hist.bpf.h"
#include "namespace.bpf.h"
#include "only.bpf.h"
#include "user_locks.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Numbers of the calls: the kernel's interface to user space. The newer ones are the same on all
 * machines. */
enum {
#if defined(__TARGET_ARCH_x86)
	NR_FUTEX = 202,
#else
	NR_FUTEX = 98,
#endif
	NR_FUTEX_WAITV = 449,
	NR_FUTEX_WAKE = 454,
	NR_FUTEX_WAIT = 455,
	NR_FUTEX_REQUEUE = 456,
};

#if defined(__TARGET_ARCH_x86)
/* Of thread_info: TS_COMPAT (arch/x86/include/asm/thread_info.h). */
enum {
	STATUS_COMPAT = 2,
};
#elif defined(__TARGET_ARCH_arm64)
/* Of thread_info: TIF_32BIT (arch/arm64/include/asm/thread_info.h). */
enum {
	FLAG_32BIT = 1 << 22,
};
#endif

/* Of futex(2). */
enum {
	OP_WAIT = 0,
	OP_LOCK_PI = 6,
	OP_WAIT_BITSET = 9,
	OP_WAIT_REQUEUE_PI = 11,
	OP_LOCK_PI2 = 13,
	OP_MASK = 127,
};

/* Above the stack's end, so many bytes are the stack's. */
enum {
	NEAR_SP = 16384,
};

enum {
	ERROR_AGAIN = -11,
	ERROR_TIMED_OUT = -110,
};

/* Process that is left out; 0: none. */
const volatile __u32 but_tgid = 0;

/* Whether waits are told apart by their thread's control group. */
const volatile bool by_cgroup = false;

/* Which of sums[] is written now; user space turns it over at an interval's edge. */
__u32 half;
__u64 lost[FUTEX_LOST_REASONS];
struct call_count calls[CALL_COUNTS];

/* Never written: so that the types reach user space's side. */
struct futex_key type_of_key;
struct futex_sum type_of_sum;
struct futex_stack type_of_stack;
struct waker type_of_waker;

struct sums {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct futex_key);
	__type(value, struct futex_sum);
};
struct sums sums_even SEC(".maps");
struct sums sums_odd SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct futex_stack);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct waker);
} wakers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct futex_wait);
} of_task SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct futex_stack);
} scratch SEC(".maps");

static const struct futex_sum nothing;

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

/* Whether a word of the stack may be the address that a call returns to: in the program itself
 * every word is taken for one, in its libraries those that lie behind a call, near the code at hand
 * and not on the stack. */
static __always_inline bool returns_to(__u64 word, __u64 ip, __u64 sp, __u64 code, __u64 code_bytes)
{
#if defined(__TARGET_ARCH_x86)
	__u8 before[7];
#elif defined(__TARGET_ARCH_arm64)
	__u32 before;
#endif

	if (word - code < code_bytes)
		return true;
#if defined(__TARGET_ARCH_x86)
	if ((word ^ ip) >> 32 || word - sp < NEAR_SP)
		return false;
	if (bpf_probe_read_user(before, sizeof(before), (void *)(word - sizeof(before))))
		return false;
	/* As user_symbols.rs tells them: `e8` with four bytes, or `ff /2` with zero to five. */
	if (before[2] == 0xe8)
		return true;
	return (before[0] == 0xff && (before[1] >> 3 & 7) == 2) ||
	       (before[1] == 0xff && (before[2] >> 3 & 7) == 2) ||
	       (before[3] == 0xff && (before[4] >> 3 & 7) == 2) ||
	       (before[4] == 0xff && (before[5] >> 3 & 7) == 2) ||
	       (before[5] == 0xff && (before[6] >> 3 & 7) == 2);
#elif defined(__TARGET_ARCH_arm64)
	if ((word ^ ip) >> 32 || word - sp < NEAR_SP || word & 3)
		return false;
	if (bpf_probe_read_user(&before, sizeof(before), (void *)(word - sizeof(before))))
		return false;
	/* As user_symbols.rs tells them: `bl`, or `blr` and its variants. */
	return before >> 26 == 0x25 || (before & 0xfefff000) == 0xd63f0000;
#else
	return false;
#endif
}

/* On 64-bit Arm a function may sign its return address, in the bits above the 48 of an address. The
 * signature differs from thread to thread. */
static __always_inline __u64 without_signature(__u64 word)
{
#if defined(__TARGET_ARCH_arm64)
	return word & ((1ULL << 48) - 1);
#else
	return word;
#endif
}

static __always_inline __u64 mixed(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 32;
}

/* The name of the thread's stack, under which it is kept: what frame pointers tell, and the first
 * words in its window that calls may return to. Code without frame pointers is told apart by these
 * alone. */
static __always_inline __u64 stack_of(void *ctx, struct pt_regs *regs, __u64 address)
{
	__u64 hash = address ^ (bpf_get_current_pid_tgid() >> 32) << 48;
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 ip = PT_REGS_IP(regs), sp = PT_REGS_SP(regs), code, code_bytes;
	struct futex_stack *stack;
	__u32 zero = 0;
	long bytes;

	stack = bpf_map_lookup_elem(&scratch, &zero);
	if (!stack) {
		lose(FUTEX_LOST_STACKS_FULL);
		return 0;
	}
	bytes = bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), BPF_F_USER_STACK);
	if (bytes < 0)
		bytes = 0;
	for (int i = 0; i < FUTEX_FRAMES; i++) {
		if (i * 8 >= bytes)
			stack->frames[i] = 0;
		hash = mixed(hash, stack->frames[i]);
	}
	/* A whole window, or as much of it as lies below the end of the stack. */
	if (bpf_probe_read_user(stack->window, sizeof(stack->window), (void *)sp)) {
		for (int i = 0; i < FUTEX_WINDOW; i++) {
			stack->window[i] = 0;
			bpf_probe_read_user(&stack->window[i], 8, (void *)(sp + i * 8));
		}
	}
	code = BPF_CORE_READ(task, mm, start_code);
	code_bytes = BPF_CORE_READ(task, mm, end_code) - code;
	/* Counted there, until it is written: in a register the verifier would follow every count.
	 */
	stack->sp = 0;
	/* Without `continue`: verifiers before Linux 6.2 want a loop's way back to be a jump. */
	for (int i = 0; i < FUTEX_WINDOW && stack->sp < FUTEX_RETURNS; i++) {
		__u64 word = without_signature(stack->window[i]);

		if (returns_to(word, ip, sp, code, code_bytes)) {
			hash = mixed(hash, word);
			stack->sp++;
		}
	}
	stack->sp = sp;
	if (bpf_map_lookup_elem(&stacks, &hash))
		return hash;
	if (bpf_map_update_elem(&stacks, &hash, stack, BPF_ANY)) {
		lose(FUTEX_LOST_STACKS_FULL);
		return 0;
	}
	return hash;
}

static __always_inline bool op_waits(__u32 op)
{
	return op == OP_WAIT || op == OP_WAIT_BITSET || op == OP_LOCK_PI || op == OP_LOCK_PI2 ||
	       op == OP_WAIT_REQUEUE_PI;
}

/* The thread at hand enters a call that may wake others. Most wake nobody: a mutex that was ever
 * contended is unlocked by one. So whom it wakes is seen at the wake-up itself. */
static __always_inline void wakes(void *ctx, struct pt_regs *regs, __u64 address)
{
	__u64 stack = stack_of(ctx, regs, address);
	struct futex_wait *call;

	call = bpf_task_storage_get(&of_task, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		lose(FUTEX_LOST_WAKERS_FULL);
		return;
	}
	call->began_ns = 0;
	call->address = address;
	call->stack = stack;
	call->has_woken = 0;
	call->wakes_as = mixed(stack ^ address, (__u32)bpf_get_current_pid_tgid()) | 1;
}

/* The thread at hand leaves a call that has woken others: under its name they tell who it was. */
static __always_inline void has_woken(const struct futex_wait *call)
{
	struct waker waker = {.tid = tid_for_reader(bpf_get_current_task_btf()),
			      .stack = call->stack};
	__u64 name = call->wakes_as;

	if (waker.tid == 0)
		waker.tid = bpf_get_current_pid_tgid();

	bpf_get_current_comm(waker.comm, sizeof(waker.comm));
	if (bpf_map_update_elem(&wakers, &name, &waker, BPF_ANY))
		lose(FUTEX_LOST_WAKERS_FULL);
}

/* The thread at hand wakes another one, or an interrupt that found it does: one that ends a wait
 * for another word is told by that. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct task_struct *own = bpf_get_current_task_btf();
	struct futex_wait *call, *wait;

	calls[bpf_get_smp_processor_id() & (CALL_COUNTS - 1)].wakings++;
	call = bpf_task_storage_get(&of_task, own, 0, 0);
	if (!call || !call->wakes_as || task->tgid != own->tgid)
		return 0;
	wait = bpf_task_storage_get(&of_task, task, 0, 0);
	if (wait && wait->began_ns && wait->address == call->address) {
		wait->woken_by = call->wakes_as;
		call->has_woken = 1;
	}
	return 0;
}

/* How often the thread at hand has left its CPU so far. */
static __always_inline __u32 switches_so_far(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->nvcsw + task->nivcsw;
}

/* Whether the call is one of 32-bit code, whose numbers are others. */
static __always_inline bool is_compat(void)
{
#if defined(__TARGET_ARCH_x86)
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread_info.status) & STATUS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread_info.flags) & FLAG_32BIT;
#else
	return false;
#endif
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, struct pt_regs *regs, long id)
{
	__u64 now_ns, address;
	struct futex_wait *wait;
	__u32 op;

	if (id != NR_FUTEX && (id < NR_FUTEX_WAITV || id > NR_FUTEX_REQUEUE))
		return 0;
	if (id > NR_FUTEX_WAITV && id < NR_FUTEX_WAKE)
		return 0;
	if (!is_wanted() || is_compat())
		return 0;
	now_ns = bpf_ktime_get_ns();
	address = PT_REGS_PARM1_CORE_SYSCALL(regs);
	op = id;
	if (id == NR_FUTEX)
		op = PT_REGS_PARM2_CORE_SYSCALL(regs) & OP_MASK;
	else if (id != NR_FUTEX_WAKE)
		/* Of several words that are waited for, the first: the second field of the list. */
		if (id != NR_FUTEX_WAIT &&
		    bpf_probe_read_user(&address, sizeof(address), (void *)(address + 8)))
			return 0;
	if (id == NR_FUTEX ? !op_waits(op) : id != NR_FUTEX_WAIT && id != NR_FUTEX_WAITV) {
		wakes(ctx, regs, address);
		return 0;
	}
	wait = bpf_task_storage_get(&of_task, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!wait) {
		lose(FUTEX_LOST_TASK);
		return 0;
	}
	wait->address = address;
	wait->op = op;
	wait->stack = stack_of(ctx, regs, address);
	wait->switches = switches_so_far();
	wait->woken_by = 0;
	wait->wakes_as = 0;
	wait->began_ns = now_ns;
	return 0;
}

static __always_inline void sum_up(void *sums, const struct futex_wait *wait, __u64 ns, long result)
{
	struct futex_key key = {.address = wait->address,
				.stack = wait->stack,
				.tgid = tgid_for_reader(bpf_get_current_task_btf()),
				.op = wait->op};
	struct futex_sum *sum;

	if (key.tgid == 0) {
		key.tgid = bpf_get_current_pid_tgid() >> 32;
		key.is_outside = reader_namespace != 0;
	}
	if (by_cgroup)
		key.cgroup = bpf_get_current_cgroup_id();
	sum = bpf_map_lookup_elem(sums, &key);
	if (!sum) {
		/* Fails where another CPU was first, too. */
		bpf_map_update_elem(sums, &key, &nothing, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, &key);
		if (!sum) {
			lose(FUTEX_LOST_SUMS_FULL);
			return;
		}
		bpf_get_current_comm(sum->comm, sizeof(sum->comm));
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->total_ns, ns);
	if (wait->switches == switches_so_far())
		__sync_fetch_and_add(&sum->spun_ns, ns);
	count_in(sum->buckets, FUTEX_BUCKETS, log2_of(ns));
	raise_to(&sum->max_ns, ns);
	if (wait->woken_by)
		sum->waker = wait->woken_by;
	if (result == ERROR_AGAIN)
		__sync_fetch_and_add(&sum->not_slept, 1);
	if (result == ERROR_TIMED_OUT)
		__sync_fetch_and_add(&sum->timed_out, 1);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, struct pt_regs *regs, long result)
{
	__u64 now_ns;
	struct futex_wait *wait;

	/* Two CPUs that share a count may lose one now and then: it is a scale for what watching
	 * costs. */
	calls[bpf_get_smp_processor_id() & (CALL_COUNTS - 1)].n++;
	/* A thread that has never waited or woken has no storage; a wait is told by its clock. */
	wait = bpf_task_storage_get(&of_task, bpf_get_current_task_btf(), 0, 0);
	if (!wait)
		return 0;
	if (wait->wakes_as && wait->has_woken)
		has_woken(wait);
	wait->wakes_as = 0;
	if (!wait->began_ns)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (half & 1)
		sum_up(&sums_odd, wait, now_ns - wait->began_ns, result);
	else
		sum_up(&sums_even, wait, now_ns - wait->began_ns, result);
	wait->began_ns = 0;
	return 0;
}

/* What the kernel's run statistics cost by themselves, to be taken off what they say of ours. */
SEC("raw_tp/sys_exit")
int on_exit_nothing(void *ctx)
{
	return 0;
}
