/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Busy and idle time of each CPU, by context switches.
 *
 * Every program here runs on the CPU whose books it writes, and all but those of softirqs with
 * interrupts off: sched_switch fires under the run queue's lock, test runs and timers arrive by
 * interrupt. So plain loads and stores are enough. A test run on the CPU of its caller is not an
 * interrupt, but nothing that interrupts it writes the words that it writes.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "hist.bpf.h"
#include "kernels.bpf.h"
#include "namespace.bpf.h"
#include "cpu_time.h"
#include "cpus.bpf.h"
#include "spans.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading: whose clock is in use, and whether the kernel tells where a task's fields
 * are. */
const volatile bool by_scheduler = false;
const volatile bool has_btf = false;
/* Whether the samplers run: they ask whether a task ran when a sample was due. A program of their
 * own at each switch would cost the kernel's way to it once more. */
const volatile bool with_spans = false;

#include "interrupts.bpf.h"
#include "waits.bpf.h"
#include "tasks.bpf.h"

enum {
	/* After a closing, so many switches read both clocks. */
	COMPARISONS = 8,
	/* By the scheduler's clock a switch may lie a little before the closing that it follows. */
	BACKWARD_NS_MAX = 1000000,
	/* A task's arrival by the scheduler's clock may seem to lie so much behind its switch. */
	ARRIVAL_NS_MAX = 100000,
};

/* The current task, which had the CPU until now, takes the place of whoever ran least. Not inlined,
 * like everything that a usual switch does not need: its path then fits in registers.
 */
static __noinline int take_place(struct contest *contest, struct contender *contenders, __u32 tid,
				 __u64 ns)
{
	__u32 least = 0;

	if (!contest || !contenders)
		return 0;
#pragma unroll
	for (int way = 1; way < CONTEST_WAYS; way++) {
		if (contest->ns[way] < contest->ns[least % CONTEST_WAYS])
			least = way;
	}
	least %= CONTEST_WAYS; /* for the verifier */
	contenders[least].over_ns = contest->ns[least];
	contenders[least].tgid = bpf_get_current_pid_tgid() >> 32;
	if (has_btf && reader_namespace) {
		struct task_struct *task = (void *)bpf_get_current_task();

		contenders[least].own_tid = tid_for_reader(task);
		if (contenders[least].own_tid)
			contenders[least].tgid = tgid_for_reader(task);
	}
	bpf_get_current_comm(contenders[least].comm, sizeof(contenders[least].comm));
	contest->tid[least] = tid;
	contest->ns[least] += ns;
	return 0;
}

/* A competing thread gets its new name. A thread that another one renames keeps the old one. */
SEC("raw_tp/task_rename")
int on_rename(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid(), set = tid % CONTEST_SETS;
	struct cpu *here = cpu_here();
	__u32 half;

	if (!here || ctx->args[0] != bpf_get_current_task())
		return 0;
	half = here->books.closings & 1;
	for (int way = 0; way < CONTEST_WAYS; way++) {
		if (here->contests[half][set].tid[way] == tid)
			bpf_probe_read_kernel_str(here->contenders[half][set][way].comm, COMM_BYTES,
						  (void *)ctx->args[1]);
	}
	return 0;
}

static __always_inline void compete(struct cpu *here, __u32 tid, __u64 ns)
{
	__u32 half = here->books.closings & 1, set = tid % CONTEST_SETS;
	struct contest *contest = &here->contests[half][set];

#pragma unroll
	for (int way = 0; way < CONTEST_WAYS; way++) {
		if (contest->tid[way] == tid) {
			contest->ns[way] += ns;
			return;
		}
	}
	take_place(contest, here->contenders[half][set], tid, ns);
}

/* Length of the task's last stint on a CPU, by the scheduler's clock. */
static __always_inline __u64 last_stint_ns(__u64 task)
{
	struct task_struct *t = (void *)task;

	return BPF_CORE_READ(t, se.sum_exec_runtime) - BPF_CORE_READ(t, se.prev_sum_exec_runtime);
}

/* Length of the stint of the current task so far, at a closing: since the scheduler stamped its
 * arrival. -1: not known. */
static __always_inline __s64 stint_so_far_ns(const struct cpu_time *c, __u64 task)
{
	struct task_struct *t = (void *)task;
	__s64 ns;

	if (!has_btf || !c->compared || !bpf_core_field_exists(t->sched_info))
		return -1;
	ns = c->closed_ns - c->ahead_ns - BPF_CORE_READ(t, sched_info.last_arrival);
	return ns > 0 ? ns : 0;
}

/* Length of the stint of the task that we saw go on, from since_ns to its end, which we were not
 * shown. -1: not known, or the task has been on a CPU again since. */
static __always_inline __s64 ended_stint_ns(const struct cpu_time *c, __u64 since_ns,
					    bool is_closing)
{
	struct task_struct *t = (void *)c->running;
	__s64 before_ns, stint_ns;

	if (!has_btf)
		return -1;
	if (c->came_task == c->running)
		stint_ns = BPF_CORE_READ(t, se.sum_exec_runtime) - c->came_sum_ns;
	else
		stint_ns = last_stint_ns(c->running);
	/* The task may be the one that is about to come on: its last stint is over for the
	 * scheduler. */
	if (stint_ns == 0)
		return -1;
	if (!c->compared || !bpf_core_field_exists(t->sched_info))
		return is_closing ? -1 : stint_ns;
	if (!by_scheduler)
		since_ns -= c->ahead_ns;
	/* A closing may lie within the stint. */
	before_ns = since_ns - BPF_CORE_READ(t, sched_info.last_arrival);
	if (before_ns < -ARRIVAL_NS_MAX)
		return -1;
	stint_ns -= before_ns;
	return stint_ns > 0 ? stint_ns : 0;
}

/* Books time in which another task came off than the one that we saw go on: some kernels keep a few
 * tasks from their tracers. Yields the part of whoever came off, who had the CPU for no longer than
 * its stint. Where one of the two is idle, the rest was the idle task's; else it was the other's,
 * or of those unseen. Where the stint is not known, all of the time is in doubt.
 */
static __noinline __u64 book_unseen(struct cpu_time *c, __u64 task, __u32 tid, __u64 ns,
				    bool is_closing)
{
	struct task_struct *running;
	__u64 stint_ns, doubt_ns;
	__s64 known_ns;
	bool was_idle;

	if (!c)
		return 0;
	was_idle = c->running == c->idle_task;
	c->unseen++;
	if (has_btf) {
		running = (void *)c->running;
		was_idle = BPF_CORE_READ(running, pid) == 0;
	}
	if (!tid)
		known_ns = ended_stint_ns(c, c->since_ns - c->interrupted_ns - ns, is_closing);
	else if (is_closing)
		known_ns = stint_so_far_ns(c, task);
	else
		known_ns = has_btf ? last_stint_ns(task) : -1;
	stint_ns = doubt_ns = known_ns;
	if (known_ns < 0) {
		stint_ns = tid ? ns : 0;
		doubt_ns = ns;
	} else if (stint_ns > ns) {
		stint_ns = doubt_ns = ns;
	}
	if (tid && !was_idle) {
		c->busy_ns += ns;
		c->unowned_ns += ns - stint_ns;
		return stint_ns;
	}
	c->busy_ns += stint_ns;
	c->idle_ns += ns - stint_ns;
	c->unsure_ns += doubt_ns;
	if (tid)
		return stint_ns;
	c->unowned_ns += stint_ns;
	return 0;
}

/* Books the time since the last event: what interrupts took is busy and no task's, the rest is of
 * the task that had the CPU until now. Yields the part that is surely its own. What is booked
 * before the first closing means nothing: who reads the books takes differences.
 */
static __always_inline __u64 book(struct cpu *here, __u64 task, __u32 tid, __u64 now_ns,
				  bool is_closing)
{
	struct cpu_time *c = &here->books;
	__u64 ns = now_ns - c->since_ns, own_ns;

	if ((__s64)ns < 0) {
		if (!by_scheduler || -(__s64)ns > BACKWARD_NS_MAX)
			c->backward++;
		c->interrupted_ns = 0;
		return 0;
	}
	c->since_ns = now_ns;
	c->interrupted_ns = take_interrupted(&here->irq, ns);
	c->busy_ns += c->interrupted_ns;
	ns -= c->interrupted_ns;
	own_ns = ns;
	if (c->running != task) {
		own_ns = book_unseen(c, task, tid, ns, is_closing);
	} else if (tid == 0) {
		c->idle_ns += ns;
		return 0;
	} else {
		c->busy_ns += ns;
	}
	if (tid)
		compete(here, tid, own_ns);
	return own_ns;
}

/* The scheduler read its clock a little before us, how long before differs: the least is kept. */
static __noinline int compare_clocks(struct cpu_time *c, __u64 now_ns, __u64 scheduler_ns)
{
	__s64 ahead_ns = now_ns - scheduler_ns;

	if (!c)
		return 0;
	if (c->comparisons++ == 0 || ahead_ns < c->least_ns)
		c->least_ns = ahead_ns;
	return 0;
}

/* The time of a closing, by the clock in use; 0 where that is not known yet. An interrupt finds the
 * scheduler's clock as old as its last use, so there it is derived from ours. */
static __always_inline __u64 closing_ns(struct cpu_time *c)
{
	c->closed_ns = bpf_ktime_get_ns();
	if (c->comparisons) {
		c->ahead_ns = c->least_ns;
		c->compared = 1;
		c->comparisons = 0;
	}
	if (!by_scheduler)
		return c->closed_ns;
	return c->compared ? c->closed_ns - c->ahead_ns : 0;
}

/* What goes on from idle is known by what it had run for: its end may be hidden. */
static __always_inline void note_running(struct cpu_time *c, __u32 from_tid,
					 struct task_struct *next)
{
	c->running = (__u64)next;
	c->came_task = from_tid ? 0 : (__u64)next;
	if (from_tid == 0)
		c->came_sum_ns = next->se.sum_exec_runtime;
	c->switches++;
}

/* The CPU leaves idle for a task, or goes idle; now_ns is 0 where the clock was not read. */
static __always_inline void note_task(__u32 from_tid, struct task_struct *next, __u64 now_ns)
{
	struct spans *tasks;

	if (!with_spans || (from_tid && next->pid))
		return;
	tasks = spans_of_tasks_here();
	if (!tasks)
		return;
	if (now_ns == 0)
		now_ns = bpf_ktime_get_ns();
	if (from_tid == 0)
		begin_span(tasks, now_ns);
	else if (tasks->is_open)
		end_span(tasks, now_ns);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 tid = prev->pid;
	struct cpu *here = cpu_here();
	__u64 now_ns;

	if (!here)
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (here->books.comparisons < COMPARISONS)
		compare_clocks(&here->books, now_ns, next->se.cfs_rq->rq->clock);
	cut_interrupts(&here->irq);
	book(here, (__u64)prev, tid, now_ns, false);
	book_wait(here, tid, next);
	note_task(tid, next, now_ns);
	note_running(&here->books, tid, next);
	return 0;
}

/* Variant by the scheduler's clock. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_by_scheduler, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	__u32 tid = prev->pid;
	struct cpu *here = cpu_here();
	__u64 now_ns;

	if (!here)
		return 0;
	/* As the scheduler read it when it began to switch. */
	now_ns = next->se.cfs_rq->rq->clock;
	if (here->books.comparisons < COMPARISONS)
		compare_clocks(&here->books, bpf_ktime_get_ns(), now_ns);
	cut_interrupts(&here->irq);
	book(here, (__u64)prev, tid, now_ns, false);
	book_wait(here, tid, next);
	note_task(tid, next, 0);
	note_running(&here->books, tid, next);
	return 0;
}

/* Variant with the sums of each task. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch_with_tasks, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 tid = prev->pid;
	struct cpu *here = cpu_here();
	struct cpu_time *c;
	struct stint had;
	__u64 own_ns = 0, ns, held_ns, now_ns;

	if (!here)
		return 0;
	c = &here->books;
	now_ns = bpf_ktime_get_ns();
	if (c->comparisons < COMPARISONS)
		compare_clocks(c, now_ns, next->se.cfs_rq->rq->clock);
	ns = c->since_ns;
	cut_interrupts(&here->irq);
	if (ns != 0)
		own_ns = book(here, (__u64)prev, tid, now_ns, false);
	else
		c->since_ns = ns = now_ns;
	ns = c->since_ns - ns;
	held_ns = book_wait(here, tid, next);
	if (held_ns)
		hold(next, held_ns);
	note_task(tid, next, now_ns);
	note_running(c, tid, next);
	had = next_stint(here, c->since_ns, next->pid != 0);
	if (tid)
		credit(here, prev, own_ns, ns, &had, 1);
	if (will_not_come_back(prev))
		bury(c, prev);
	return 0;
}

/* Variant without BTF, without sums and without samplers. */
SEC("raw_tp/sched_switch")
int on_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 task = ctx->args[1];
	__u32 tid = bpf_get_current_pid_tgid();
	struct cpu *here = cpu_here();

	if (!here)
		return 0;
	if (tid == 0)
		here->books.idle_task = task;
	cut_interrupts(&here->irq);
	book(here, task, tid, bpf_ktime_get_ns(), false);
	here->books.running = ctx->args[2];
	here->books.switches++;
	return 0;
}

/* Closes the books of the CPU it runs on, with the number of the closing as its argument: user
 * space sends it to each CPU at a window's edges (BPF_PROG_TEST_RUN with BPF_F_TEST_RUN_ON_CPU), so
 * that a CPU that never switches balances too.
 */
SEC("raw_tp")
int close_books(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 task = bpf_get_current_task();
	__u32 tid = bpf_get_current_pid_tgid();
	struct cpu *here = cpu_here();
	__u64 own_ns = 0, ns, at_ns;
	struct cpu_time *c;

	if (!here)
		return 0;
	c = &here->books;
	if (tid == 0)
		c->idle_task = task;
	look_for_waits();
	settle_interrupts(&here->irq);
	at_ns = closing_ns(c);
	if (c->since_ns == 0) {
		c->since_ns = at_ns;
		c->running = task;
	}
	ns = c->since_ns;
	if (at_ns)
		own_ns = book(here, task, tid, at_ns, true);
	ns = c->since_ns - ns;
	if (c->running != task)
		c->came_task = 0;
	c->running = task;
	if (with_tasks) {
		struct stint had = next_stint(here, c->since_ns, tid != 0);

		if (tid)
			credit(here, bpf_get_current_task_btf(), own_ns, ns, &had, 0);
	}
	c->irq_ns = here->irq.irq_ns;
	c->softirq_ns = here->irq.softirq_ns;
	c->cut = here->irq.cut;
	c->interrupts = here->irq.entries + here->irq.softirq_entries;
	c->epoch = ctx->args[0];
	here->closed = *c;
	c->closings++;
	__builtin_memset(here->contests[c->closings & 1], 0, sizeof(here->contests[0]));
	return 0;
}

/* The machine's id of the process that runs this: in a PID namespace it knows itself by another
 * one.
 */
__u32 own_tgid;

SEC("raw_tp")
int tell_own_tgid(void *ctx)
{
	own_tgid = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

/* What the kernel's run statistics cost by themselves, to be taken off what they say of on_switch.
 */
SEC("raw_tp/sched_switch")
int on_switch_nothing(void *ctx)
{
	return 0;
}
