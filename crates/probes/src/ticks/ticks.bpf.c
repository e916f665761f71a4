/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Three samplers that can be held against the truth: at the tick, after the tick, and out of phase.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "spans.bpf.h"
#include "ticks.h"
#include "cpus.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The tick's handler, by the name that it has had since Linux 6.9 and by the one before. */
extern const void tick_nohz_handler __ksym __weak;
extern const void tick_sched_timer __ksym __weak;
/* That of a sample. */
extern const void perf_swevent_hrtimer __ksym __weak;

static __always_inline bool is_tick(const struct hrtimer *timer)
{
	const void *function = (const void *)timer->function;

	return function == &tick_nohz_handler || function == &tick_sched_timer;
}

/* On a CPU that has a task, samples count in any case. */
static __always_inline bool is_idle(void)
{
	return (__u32)bpf_get_current_pid_tgid() == 0;
}

static __always_inline bool is_sample(const struct cpu_ticks *t, const struct hrtimer *timer)
{
	const struct perf_event *event;

	if ((const void *)timer->function != &perf_swevent_hrtimer)
		return false;
	event = (const void *)timer - bpf_core_field_offset(struct perf_event, hw.hrtimer);
	return BPF_CORE_READ(event, id) == t->sample_id;
}

static __always_inline int begin(struct spans *s)
{
	begin_span(s, bpf_ktime_get_ns());
	return 0;
}

static __always_inline int end(struct spans *s)
{
	if (s->is_open)
		end_span(s, bpf_ktime_get_ns());
	return 0;
}

/* A span whose end a kernel hid tells nothing. */
static __always_inline bool was_in(const struct spans *s, __u64 due_ns, bool lasts)
{
	for (__u32 i = 0; i < SPANS; i++) {
		if (s->began_ns[i] == 0 || due_ns < s->began_ns[i])
			continue;
		if (s->ended_ns[i] == 0 ? lasts && i == s->number % SPANS : due_ns < s->ended_ns[i])
			return true;
	}
	return false;
}

/* A sample of an idle CPU comes late, and not by chance: one that is due while the CPU wakes up for
 * another interrupt comes between that one's handler and the softirq that it raised, or behind the
 * task that it woke up, and one that is due in a short softirq of a virtual machine comes behind
 * it, or behind several. So it counts for what ran when it was due. */
static __always_inline void take_sample(struct cpu *cpu, __u64 due_ns)
{
	const struct spans *last = spans_of_tasks_here();
	bool unseen, task;

	if (!last)
		return;
	/* Before the first change, or where a kernel hid one, nothing is known but the present. */
	unseen = last->number == 0 || (!is_idle() && !last->is_open);
	task = unseen ? !is_idle() : was_in(last, due_ns, !is_idle());
	cpu->ticks.samples++;
	if (task || was_in(&cpu->softirqs, due_ns, true) || was_in(&cpu->handlers, due_ns, true))
		cpu->ticks.sampled++;
}

/* Before the tick's own work: who was running as it came. Samples are taken at their timer too: on
 * an idle CPU it expires, and some kernels (6.18) do not go on to the event. */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_tick, struct hrtimer *timer)
{
	struct cpu *cpu = cpu_here();
	__u64 due_ns, since_ns;
	struct cpu_ticks *t;

	if (!cpu)
		return 0;
	t = &cpu->ticks;
	t->timers++;
	if (is_sample(t, timer))
		take_sample(cpu, timer->node.expires);
	if (!is_tick(timer))
		return 0;
	t->ticks++;
	if ((__u32)bpf_get_current_pid_tgid() != 0)
		t->before++;
	t->in_tick = 1;
	/* Where ticks were left out in between, this is a multiple of the period. */
	due_ns = timer->node.expires;
	since_ns = due_ns - t->due_ns;
	if (t->due_ns != 0 && since_ns != 0 && (t->period_ns == 0 || since_ns < t->period_ns))
		t->period_ns = since_ns;
	t->due_ns = due_ns;
	return 0;
}

/* After everything that the tick's interrupt did, sleepers woken included: is there anything to
 * run? */
SEC("tp_btf/local_timer_exit")
int BPF_PROG(on_tick_end)
{
	struct cpu *cpu = cpu_here();
	struct task_struct *task;
	struct cpu_ticks *t;

	if (!cpu || !cpu->ticks.in_tick)
		return 0;
	t = &cpu->ticks;
	t->in_tick = 0;
	t->ends++;
	task = bpf_get_current_task_btf();
	if (task->se.cfs_rq->rq->nr_running > 0)
		t->after++;
	return 0;
}

SEC("raw_tp/softirq_entry")
int on_softirq_entry(void *ctx)
{
	struct cpu *cpu = is_idle() ? cpu_here() : NULL;

	return cpu ? begin(&cpu->softirqs) : 0;
}

SEC("raw_tp/softirq_exit")
int on_softirq_exit(void *ctx)
{
	struct cpu *cpu = cpu_here();

	return cpu ? end(&cpu->softirqs) : 0;
}

/* Attached to each kind of interrupt. */
SEC("raw_tp")
int on_handler_entry(void *ctx)
{
	struct cpu *cpu = is_idle() ? cpu_here() : NULL;

	return cpu ? begin(&cpu->handlers) : 0;
}

SEC("raw_tp")
int on_handler_exit(void *ctx)
{
	struct cpu *cpu = cpu_here();

	return cpu ? end(&cpu->handlers) : 0;
}

/* Where the kernel does not name the timer of samples. While another interrupt's handler runs, none
 * comes. */
SEC("perf_event")
int on_sample(void *ctx)
{
	struct cpu *cpu = &perf_swevent_hrtimer ? NULL : cpu_here();

	if (cpu)
		take_sample(cpu, bpf_ktime_get_ns());
	return 0;
}
