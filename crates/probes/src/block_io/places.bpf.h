/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests in flight, each in a separate place. */
#ifndef PLACES_BPF_H
#define PLACES_BPF_H

#include "block_io.h"

/* Sets of WAYS that are in use, less one; a power of two less one. */
const volatile __u32 sets_mask = WAYS_SETS_MAX - 1;

/* Requests under way, by a number for each: a place is free where it is 0. Kept outside of a map,
 * since making, finding and deleting an element there is what most of the time of a request would
 * go to. */
__u64 requests[PLACES];
struct flight flights[PLACES];
/* Requests that their driver took and put back for want of room, and did not get again yet. Lookups
 * are skipped while there are none. */
__u64 put_back;

/* A request's address as a number to reckon with, which the verifier allows of the distance between
 * two pointers only. */
static __always_inline __u64 number_of(struct request *rq)
{
	__u64 number = (__u64)rq - (__u64)&half;

	asm volatile("" : "+r"(number));
	return number;
}

/* First of the places that a request may have. */
static __always_inline __u32 first_place(__u64 number)
{
	return (((number * 0x9e3779b97f4a7c15) >> 40) & sets_mask) * WAYS;
}

/* Place of a request; PLACES if it has none. */
static __always_inline __u32 place_of(struct request *rq)
{
	__u64 number = number_of(rq);
	__u32 first = first_place(number);

	for (__u32 i = 0; i < WAYS; i++) {
		if (requests[first + i] == number)
			return first + i;
	}
	return PLACES;
}

static __always_inline struct flight *flight_at(__u32 place)
{
	/* For the verifier, which forgets how large it is. */
	asm volatile("" : "+r"(place));
	return &flights[place & (PLACES - 1)];
}

static __always_inline struct flight *flight_of(struct request *rq)
{
	__u32 place = place_of(rq);

	return place < PLACES ? flight_at(place) : NULL;
}

/* Takes a place for a request; PLACES if none is left. */
static __always_inline __u32 new_place(struct request *rq)
{
	__u64 number = number_of(rq);
	__u32 first = first_place(number), place = place_of(rq);

	if (place < PLACES) {
		/* The one before it was given up without an end, or its end was not shown to us. */
		__sync_fetch_and_add(&lost.abandoned, 1);
		return place;
	}
	for (__u32 i = 0; i < WAYS; i++) {
		__u64 *at = &requests[first + i];

		/* Another CPU may be faster. */
		if (*at == 0 && __sync_val_compare_and_swap(at, 0, number) == 0)
			return first + i;
	}
	__sync_fetch_and_add(&lost.flights_full, 1);
	return PLACES;
}

static __always_inline void leave(__u32 place)
{
	asm volatile("" : "+r"(place));
	/* Not before what was there has been read. */
	__sync_lock_test_and_set(&requests[place & (PLACES - 1)], 0);
}

#endif
