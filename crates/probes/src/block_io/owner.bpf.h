/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Owner of a request: the thread that started it, its control group, and the file. */
#ifndef OWNER_BPF_H
#define OWNER_BPF_H

#include "block_io.h"

/* Parts of the owner that were requested, set before loading. */
const volatile bool by_comm;
const volatile bool by_file;
const volatile bool by_cgroup;

/* One for each place, or a single one if owners were not requested. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct owner);
} owners SEC(".maps");

/* Maximum number of splits of a request that is too large for a device. */
enum {
	SPLITS_MAX = 4,
};

extern const void iomap_dio_bio_end_io __ksym __weak;
extern const void bio_chain_endio __ksym __weak;
/* The file whose page is read or written: of the page cache, or of a direct read or write by way of
 * iomap. As far as it can be known: a page without a mapping belongs to no file, or was truncated;
 * and other direct requests carry the pages of a buffer, which may be mapped from a file of another
 * device: user space compares the devices. */
static __always_inline struct inode *inode_of(struct request *rq)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);
	struct bio *whole = bio;
	struct bio_vec *vec;
	struct page *page;
	__u64 mapping, head;

	if (!bio)
		return 0;
	/* A part of what was split ends in the whole, which is there until all its parts have
	 * ended. */
	for (__u32 i = 0; i < SPLITS_MAX && &bio_chain_endio; i++) {
		if ((void *)BPF_CORE_READ(whole, bi_end_io) != &bio_chain_endio)
			break;
		whole = BPF_CORE_READ(whole, bi_private);
	}
	if (&iomap_dio_bio_end_io && bpf_core_type_exists(struct iomap_dio) &&
	    (void *)BPF_CORE_READ(whole, bi_end_io) == &iomap_dio_bio_end_io) {
		struct iomap_dio *dio = BPF_CORE_READ(whole, bi_private);

		return BPF_CORE_READ(dio, iocb, ki_filp, f_inode);
	}
	vec = BPF_CORE_READ(bio, bi_io_vec);
	page = BPF_CORE_READ(vec, bv_page);
	if (!page)
		return 0;
	head = BPF_CORE_READ(page, compound_head);
	if (head & A_TAIL)
		page = (struct page *)(head & ~(__u64)A_TAIL);
	mapping = (__u64)BPF_CORE_READ(page, mapping);
	if (mapping == 0 || (mapping & NOT_A_FILE))
		return 0;
	return BPF_CORE_READ((struct address_space *)mapping, host);
}

static __always_inline void read_file(struct owner *o, struct request *rq)
{
	struct inode *inode = inode_of(rq);
	struct hlist_node *alias;
	struct dentry *dentry;

	o->inode = 0;
	o->inode_dev = 0;
	o->file[0] = 0;
	if (!inode)
		return;
	/* A page of a device has that device as its file. */
	if ((BPF_CORE_READ(inode, i_mode) & MODE_MASK) == MODE_BLOCK_DEVICE)
		o->inode_dev = BPF_CORE_READ(inode, i_rdev);
	else if (BPF_CORE_READ(inode, i_sb, s_bdev))
		o->inode_dev = BPF_CORE_READ(inode, i_sb, s_dev);
	else
		/* A file without a device, as shared memory is: the page is only where the data of
		 * the request lie. */
		return;
	o->inode = BPF_CORE_READ(inode, i_ino);
	alias = BPF_CORE_READ(inode, i_dentry.first);
	if (!alias)
		return;
	dentry = (void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	bpf_probe_read_kernel_str(o->file, sizeof(o->file), BPF_CORE_READ(dentry, d_name.name));
}

/* Whether owners were requested. */
static __always_inline bool has_owner(void)
{
	return by_comm || by_file || by_cgroup;
}

static __always_inline void read_owner(struct owner *o, struct request *rq)
{
	if (by_comm)
		bpf_get_current_comm(o->comm, sizeof(o->comm));
	if (by_cgroup)
		o->cgroup = bpf_get_current_cgroup_id();
	if (by_file)
		read_file(o, rq);
}

#endif
