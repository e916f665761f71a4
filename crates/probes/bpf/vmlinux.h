/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Made by scripts/vmlinux: the kernel types that our programs name, and of those only the fields. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef short int __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u32 u32;
typedef __u64 u64;
typedef int __kernel_pid_t;
typedef __kernel_pid_t pid_t;
typedef __s64 ktime_t;
typedef __u64 sector_t;
typedef __u32 blk_opf_t;
typedef __u32 dev_t;
struct bio;
typedef void bio_end_io_t(struct bio *);
typedef _Bool bool;
enum hrtimer_restart {
	HRTIMER_NORESTART,
	HRTIMER_RESTART,
};
enum {
	false = 0,
	true = 1,
};

/* Parts of the kernel's interface to user space: fixed, not relocated. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_AVAIL_DATA = 0,
	BPF_F_USER_STACK = 256,
};
#define NULL ((void *)0)
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Written by hand: of these locks only the place is wanted, some fields lie in a struct without a name, and not every
 * machine has the status. */
struct rw_semaphore {};
struct spinlock {};
struct mm_struct {
	struct rw_semaphore mmap_lock;
	long unsigned int start_code;
	long unsigned int end_code;
};
struct thread_info {
	long unsigned int flags;
	u32 status;
};
struct sighand_struct {
	struct spinlock siglock;
};

/* As user space sees them, which differs from machine to machine. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long bp;
	unsigned long r8;
	unsigned long r10;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};
#else
#error "bakeoff's eBPF programs know the registers of x86-64 and 64-bit Arm only"
#endif

struct rq {
	unsigned int nr_running;
	u64 clock;
	int cpu;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	long long unsigned int run_delay;
	long long unsigned int last_arrival;
	long long unsigned int last_queued;
};

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	struct mm_struct *mm;
	pid_t pid;
	pid_t tgid;
	u64 utime;
	u64 stime;
	long unsigned int nvcsw;
	long unsigned int nivcsw;
	u64 start_time;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct sched_info sched_info;
	char comm[16];
};

struct ns_common {
	unsigned int inum;
};
struct pid_namespace {
	struct ns_common ns;
};
struct upid {
	int nr;
	struct pid_namespace *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[0];
};
struct signal_struct {
	struct pid *pids[4];
};

struct timerqueue_node {
	ktime_t expires;
};

struct hrtimer {
	struct timerqueue_node node;
	enum hrtimer_restart (*function)(struct hrtimer *);
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct bio_vec {
	struct page *bv_page;
};

struct bio {
	struct bio_vec *bi_io_vec;
	bio_end_io_t *bi_end_io;
	void *bi_private;
};

struct request {
	struct request_queue *q;
	blk_opf_t cmd_flags;
	unsigned int __data_len;
	sector_t __sector;
	struct bio *bio;
	u64 start_time_ns;
};

struct super_block {
	dev_t s_dev;
	struct block_device *s_bdev;
};

struct kiocb {
	struct file *ki_filp;
};

struct file {
	struct inode *f_inode;
};

struct iomap_dio {
	struct kiocb *iocb;
};

struct qstr {
	const unsigned char *name;
};

/* What an iterator is called with: written by hand, as the kernel wraps each field in a union. */
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* Those below by hand too: here the fields are in unions without a name, through which CO-RE finds them. */
struct hw_perf_event {
	struct hrtimer hrtimer;
};
struct perf_event {
	struct hw_perf_event hw;
	u64 id;
};
struct inode;
struct address_space {
	struct inode *host;
};
struct page {
	struct address_space *mapping;
	unsigned long compound_head;
};
struct hlist_node {
	struct hlist_node *next;
};
struct hlist_head {
	struct hlist_node *first;
};
struct inode {
	unsigned short i_mode;
	dev_t i_rdev;
	struct super_block *i_sb;
	unsigned long i_ino;
	struct hlist_head i_dentry;
};
struct dentry {
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
};

#pragma clang attribute pop

#endif
