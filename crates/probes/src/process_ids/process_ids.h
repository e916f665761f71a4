/* Types that the kernel side writes and mod.rs reads. */
#ifndef PROCESS_IDS_H
#define PROCESS_IDS_H

/* One thread. */
struct process_ids {
	__u32 tgid;	/* the machine's id of its process */
	__u32 tid;	/* its own */
	__u32 own_tgid; /* the same in the PID namespace of the reader */
	__u32 own_tid;
};
_Static_assert(sizeof(struct process_ids) == 16, "mod.rs expects 16 bytes");

#endif
