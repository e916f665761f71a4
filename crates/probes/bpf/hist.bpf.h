/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Distributions by powers of two, and maxima, that many CPUs add to at once. */
#ifndef HIST_BPF_H
#define HIST_BPF_H

/* Of a value below 2^63, 0 for 0. Without a branch: what follows a random value cannot be foreseen.
 */
static __always_inline __u32 log2_of(__u64 v)
{
	__u32 n = 0, step;

	/* The difference is negative, and so its highest bit set, where the value is the larger. */
	step = ((0xffffffffULL - v) >> 63) << 5;
	v >>= step;
	n += step;
	step = ((0xffffULL - v) >> 63) << 4;
	v >>= step;
	n += step;
	step = ((0xffULL - v) >> 63) << 3;
	v >>= step;
	n += step;
	step = ((0xfULL - v) >> 63) << 2;
	v >>= step;
	n += step;
	step = ((0x3ULL - v) >> 63) << 1;
	v >>= step;
	n += step;
	return n + (v >> 1);
}

/* The index, or the last of `n` where it is not below `n`. In assembly: compilers check one
 * register and use a copy of it, which verifiers before Linux 6.8 do not know to be the same. */
static __always_inline __u64 at_most_last(__u64 index, __u64 n)
{
	__u64 last = n - 1;

	asm volatile("if %[index] < %[n] goto +1\n\t%[index] = %[last]"
		     : [index] "+r"(index)
		     : [n] "r"(n), [last] "r"(last));
	return index;
}

/* Into the bucket, or into the last one where there is none of that number. */
static __always_inline void count_in(__u32 *buckets, __u32 n, __u32 bucket)
{
	__sync_fetch_and_add(&buckets[at_most_last(bucket, n)], 1);
}

static __always_inline void raise_to(__u64 *max, __u64 value)
{
	__u64 seen = *max;

	/* Each turn is lost to a CPU that raised it meanwhile; eight in a row are not seen in
	 * practice, and then the maximum is that of one of them. */
	for (int turn = 0; turn < 8 && seen < value; turn++) {
		__u64 found = __sync_val_compare_and_swap(max, seen, value);

		if (found == seen)
			return;
		seen = found;
	}
}

#endif
