/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Operation, device and address of a request, and its distance from the previous one. */
#ifndef REQUEST_BPF_H
#define REQUEST_BPF_H

#include "block_io.h"

/* Parts of the kernel's interface to itself: linux/blk_types.h. */
enum {
	OP_MASK = 0xff,
	OP_READ = 0,
	OP_WRITE = 1,
	OP_FLUSH = 2,
	OP_DISCARD = 3,
	OP_SECURE_ERASE = 5,
	OP_ZONE_APPEND = 7,
	OP_WRITE_ZEROES = 9,
	FLAG_SYNC = 1 << 11,
	FLAG_FUA = 1 << 17,
	FLAG_PREFLUSH = 1 << 18,
	FLAG_RAHEAD = 1 << 19,
	/* In page->mapping and page->compound_head. */
	NOT_A_FILE = 1,
	A_TAIL = 1,
	/* In inode->i_mode. */
	MODE_MASK = 0xf000,
	MODE_BLOCK_DEVICE = 0x6000,
};

static __always_inline __u32 op_of(__u32 flags, __u32 bytes)
{
	switch (flags & OP_MASK) {
	case OP_READ:
		return IO_READ;
	case OP_WRITE:
	case OP_ZONE_APPEND:
		/* An fsync that has nothing to write is a write of nothing that flushes. */
		return bytes == 0 && (flags & FLAG_PREFLUSH) ? IO_FLUSH : IO_WRITE;
	case OP_FLUSH:
		return IO_FLUSH;
	case OP_DISCARD:
	case OP_SECURE_ERASE:
	case OP_WRITE_ZEROES:
		return IO_DISCARD;
	default:
		return IO_OTHER;
	}
}

static __always_inline __u32 flags_of(__u32 flags)
{
	bool waited_for =
		(flags & OP_MASK) == OP_READ || (flags & (FLAG_SYNC | FLAG_FUA | FLAG_PREFLUSH));
	__u32 found = 0;

	if (!waited_for || (flags & FLAG_RAHEAD))
		found |= IO_ASYNC;
	if (flags & FLAG_PREFLUSH)
		found |= IO_PREFLUSH;
	return found;
}

static __always_inline __u32 dev_of(struct request *rq)
{
	struct gendisk *disk = rq->q->disk;

	if (!disk)
		return 0;
	return ((__u32)disk->major << 20) | (__u32)disk->first_minor;
}

struct last lasts[LASTS];

/* Returns the end of the previous request, and stores the end of this one. */
static __always_inline __u64 end_before(__u32 dev, __u64 begins, __u64 ends)
{
	__u32 first = (dev * 0x9e3779b1u) >> 22;
	struct last *last;
	__u64 before;

	for (__u32 i = 0; i < LASTS_TRIED; i++) {
		last = &lasts[(first + i) & (LASTS - 1)];
		if (last->dev == 0 && __sync_val_compare_and_swap(&last->dev, 0, dev) == 0) {
			last->end = ends;
			return begins;
		}
		if (last->dev != dev)
			continue;
		/* Two CPUs that issue to one device at once may both measure from the same end: a
		 * distance says what the device was asked to do next, and there was no next. */
		before = last->end;
		last->end = ends;
		return before;
	}
	/* More than a thousand devices: this one's requests count as if each followed the other. */
	return begins;
}

static __always_inline void measure_seek(struct flight *f)
{
	if (f->op == IO_READ || f->op == IO_WRITE)
		f->seek_sectors = (__s64)(f->sector - end_before(f->dev, f->sector,
								 f->sector + (f->bytes >> 9)));
}

#endif
