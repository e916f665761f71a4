/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Time in interrupts, which is no task's and not idle.
 *
 * Handlers of interrupts run with interrupts off. Softirqs do not: an interrupt may come in the
 * middle of the two programs that time them. So each side writes words of its own only, and the
 * softirq's side takes off what interrupts took meanwhile. A closing arrives by interrupt too.
 */
#ifndef INTERRUPTS_BPF_H
#define INTERRUPTS_BPF_H

#include "cpu_time.h"

static __always_inline struct interrupts *interrupts_here(void)
{
	struct cpu *here = cpu_here();

	return here ? &here->irq : NULL;
}

static __always_inline int enter_irq(__u32 kind)
{
	struct interrupts *i = interrupts_here();

	if (!i)
		return 0;
	i->entries++;
	if (i->irq_depth++ == 0) {
		i->irq_kind = kind;
		i->irq_since_ns = bpf_ktime_get_ns();
	}
	return 0;
}

static __always_inline int leave_irq(void)
{
	struct interrupts *i = interrupts_here();
	__u64 ns;

	/* 0: it began before the programs were attached. */
	if (!i || i->irq_depth == 0 || --i->irq_depth != 0)
		return 0;
	ns = bpf_ktime_get_ns() - i->irq_since_ns;
	i->irq_since_ns = 0;
	i->irq_ns += ns;
	i->by_kind[i->irq_kind % INTERRUPT_KINDS] += ns;
	return 0;
}

/* The time, and what interrupts took until then: an interrupt between the two readings would count
 * on one side only. */
static __always_inline __u64 read_both(struct interrupts *i, __u64 *irq_ns)
{
	__u64 at_ns = 0;

	for (int turn = 0; turn < 4; turn++) {
		*irq_ns = *(volatile __u64 *)&i->irq_ns;
		at_ns = bpf_ktime_get_ns();
		if (*(volatile __u64 *)&i->irq_ns == *irq_ns)
			break;
	}
	return at_ns;
}

static __always_inline void book_softirq(struct interrupts *i, __u64 at_ns, __u64 irq_ns)
{
	__u64 ns = at_ns - i->softirq_since_ns, irq = irq_ns - i->softirq_irq_ns;

	ns = irq < ns ? ns - irq : 0;
	i->softirq_ns += ns;
	i->by_kind[i->softirq_kind % INTERRUPT_KINDS] += ns;
}

SEC("raw_tp/softirq_entry")
int on_softirq_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct interrupts *i = interrupts_here();
	__u64 at_ns;

	if (!i)
		return 0;
	i->softirq_kind = ctx->args[0];
	i->softirq_entries++;
	at_ns = read_both(i, &i->softirq_irq_ns);
	barrier();
	*(volatile __u64 *)&i->softirq_since_ns = at_ns;
	return 0;
}

SEC("raw_tp/softirq_exit")
int on_softirq_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct interrupts *i = interrupts_here();
	__u64 at_ns, irq_ns;

	if (!i)
		return 0;
	/* A closing leaves the softirq to us from here on. */
	*(volatile __u64 *)&i->softirq_is_ending = 1;
	barrier();
	if (i->softirq_since_ns) {
		at_ns = read_both(i, &irq_ns);
		book_softirq(i, at_ns, irq_ns);
	}
	*(volatile __u64 *)&i->softirq_since_ns = 0;
	barrier();
	*(volatile __u64 *)&i->softirq_is_ending = 0;
	return 0;
}

SEC("raw_tp/irq_handler_entry")
int on_device_entry(void *ctx)
{
	return enter_irq(INTERRUPT_DEVICE);
}

SEC("raw_tp/irq_handler_exit")
int on_device_exit(void *ctx)
{
	return leave_irq();
}

/* Those below are not handled as devices are, and only x86 traces them. On 64-bit Arm the timer and
 * the interrupts between CPUs are devices (seen on Linux 6.1 and 6.12). */
SEC("raw_tp/local_timer_entry")
int on_timer_entry(void *ctx)
{
	return enter_irq(INTERRUPT_TIMER);
}

SEC("raw_tp/local_timer_exit")
int on_timer_exit(void *ctx)
{
	return leave_irq();
}

SEC("raw_tp/call_function_single_entry")
int on_call_entry(void *ctx)
{
	return enter_irq(INTERRUPT_CALL);
}

SEC("raw_tp/call_function_single_exit")
int on_call_exit(void *ctx)
{
	return leave_irq();
}

SEC("raw_tp/call_function_entry")
int on_call_all_entry(void *ctx)
{
	return enter_irq(INTERRUPT_CALL);
}

SEC("raw_tp/call_function_exit")
int on_call_all_exit(void *ctx)
{
	return leave_irq();
}

SEC("raw_tp/irq_work_entry")
int on_work_entry(void *ctx)
{
	return enter_irq(INTERRUPT_WORK);
}

SEC("raw_tp/irq_work_exit")
int on_work_exit(void *ctx)
{
	return leave_irq();
}

/* At a switch neither can be under way. Where softirqs run in threads that can be preempted
 * (PREEMPT_RT), they are: what is left of this one is then the thread's. */
static __always_inline void cut_interrupts(struct interrupts *i)
{
	if (i->irq_depth | i->softirq_since_ns) {
		i->irq_depth = 0;
		i->irq_since_ns = 0;
		i->softirq_since_ns = 0;
		i->cut++;
	}
}

/* At a closing: books what is under way so far. */
static __noinline int settle_interrupts(struct interrupts *i)
{
	__u64 at_ns = bpf_ktime_get_ns(), ns;

	if (!i)
		return 0;
	if (i->irq_since_ns) {
		ns = at_ns - i->irq_since_ns;
		i->irq_since_ns = at_ns;
		i->irq_ns += ns;
		i->by_kind[i->irq_kind % INTERRUPT_KINDS] += ns;
	}
	if (i->softirq_since_ns && !i->softirq_is_ending) {
		book_softirq(i, at_ns, i->irq_ns);
		i->softirq_since_ns = at_ns;
		i->softirq_irq_ns = i->irq_ns;
	}
	return 0;
}

/* The part of the last `ns` in which interrupts had the CPU. What does not fit is left for the next
 * time: they are timed by CLOCK_MONOTONIC, switches maybe by another clock. */
static __always_inline __u64 take_interrupted(struct interrupts *i, __u64 ns)
{
	__u64 taken_ns = i->irq_ns + i->softirq_ns - i->booked_ns;

	if (taken_ns > ns)
		taken_ns = ns;
	i->booked_ns += taken_ns;
	return taken_ns;
}

#endif
