/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Apache-2.0 OR MIT */
/*
 * OS nodes: several Linux kernels on one machine, each on its own cpus and memory.
 *
 * The module keeps *holdings*, each with a name: a node (cpus, memory, 128 KiB
 * below 1 MiB) or an image (memory). A holding stays when its owner dies; a
 * descriptor that is opened later attaches to it. What is in the memory is the
 * owner's affair.
 *
 *   created --START--> running --STOP--> stopped --START--> running ...
 *   created, stopped --RELEASE--> gone
 *
 * Names are 1 to 31 of [a-z0-9._-], not beginning with '.', and end in zeros.
 * Reserved fields and unknown bits must be zero, else -EINVAL; an unknown
 * request is -ENOTTY. All fields are in the machine's byte order.
 */
#ifndef KUMIKI_UAPI_OSNODE_H
#define KUMIKI_UAPI_OSNODE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define OSNODE_DEVICE "/dev/kumiki-osnode"
#define OSNODE_VERSION 2
#define OSNODE_NAME_BYTES 32
#define OSNODE_PIECES 64
#define OSNODE_CPUS 64
#define OSNODE_SLICE_BYTES 0x20000
#define OSNODE_PIECE_UNIT (2u << 20) /* size and place of memory are multiples */

enum osnode_kind { OSNODE_NODE = 1, OSNODE_IMAGE = 2 };

enum osnode_mode {
	OSNODE_OWN = 1, /* one descriptor at a time: everything */
	OSNODE_READ = 2, /* any number: map a sealed image, or a node's window, read only */
	OSNODE_TALK = 3, /* of a running node: map the window, claim one of its channels */
};

struct osnode_create { /* this descriptor owns it */
	__u8 name[OSNODE_NAME_BYTES];
	__u32 kind;
	__u32 reserved;
	__u64 slice; /* out: physical address of the low slice; 0 of an image */
};

struct osnode_attach {
	__u8 name[OSNODE_NAME_BYTES];
	__u32 kind;
	__u32 mode;
	__u32 channel; /* out, OSNODE_TALK: closed when the descriptor is */
	__u32 reserved;
};

struct osnode_memory { /* one more contiguous piece */
	__u64 bytes;
	__u32 numa_node;
	__u32 reserved;
	__u64 address; /* in: 0, or of RAM that is off line or was kept from this kernel at its
			  start, no page of which anybody uses; out: physical, also the
			  offset for mmap(2) */
};

struct osnode_cpu { /* one more cpu, which must be offline; the first starts first */
	__u32 cpu;
	__u32 apic_id; /* out */
};

struct osnode_link { /* an image that has no memory yet: one more name for a sealed one */
	__u8 name[OSNODE_NAME_BYTES];
};

#define OSNODE_IOC_TYPE 0xbe
#define OSNODE_IOC_VERSION _IOR(OSNODE_IOC_TYPE, 0, __u32) /* never changes */
#define OSNODE_IOC_CREATE _IOWR(OSNODE_IOC_TYPE, 1, struct osnode_create)
#define OSNODE_IOC_ATTACH _IOWR(OSNODE_IOC_TYPE, 2, struct osnode_attach)
#define OSNODE_IOC_MEMORY _IOWR(OSNODE_IOC_TYPE, 3, struct osnode_memory)
#define OSNODE_IOC_CPU _IOWR(OSNODE_IOC_TYPE, 4, struct osnode_cpu)
#define OSNODE_IOC_SEAL _IO(OSNODE_IOC_TYPE, 5) /* an image: nobody maps it writable again */
#define OSNODE_IOC_START _IO(OSNODE_IOC_TYPE, 6) /* INIT, SIPI to the low slice */
#define OSNODE_IOC_STOP _IO(OSNODE_IOC_TYPE, 7) /* INIT to every cpu */
#define OSNODE_IOC_RELEASE _IO(OSNODE_IOC_TYPE, 8) /* nothing of it may be mapped */
#define OSNODE_IOC_BELL _IO(OSNODE_IOC_TYPE, 9) /* interrupts the other side */
#define OSNODE_IOC_LINK _IOW(OSNODE_IOC_TYPE, 10, struct osnode_link)
#define OSNODE_IOC_LEND _IO(OSNODE_IOC_TYPE, 11) /* as START; another node sends INIT and SIPI */

/*
 * Doorbells: read(2) of 8 bytes gives how often any other side has rung since
 * the last read, a __u64, and waits for the first; poll(2) says if there was one.
 *
 * The shared window is the last 2 MiB of a node's first piece. Each field has
 * one writer. A ring holds bytes: what was written is `head`, what was read
 * `tail`, both count for ever and index modulo the ring's size.
 */
#define OSNODE_WINDOW_BYTES (2u << 20)
#define OSNODE_WINDOW_MAGIC 0x65646f6e736fULL /* "osnode" */
#define OSNODE_CHANNELS 8
#define OSNODE_LOG_AT 0x10000
#define OSNODE_LOG_BYTES 0x40000 /* the kernel's log, oldest overwritten */
#define OSNODE_RINGS_AT 0x80000
#define OSNODE_RING_BYTES 0x10000 /* channel n: to the node, then to the host */

enum osnode_word { /* what a node last said of itself */
	OSNODE_SILENT = 0,
	OSNODE_BOOTING = 1, /* its module is there */
	OSNODE_READY = 2, /* its agent answers */
	OSNODE_HALTED = 3,
	OSNODE_POWERED_OFF = 4,
	OSNODE_RESTART = 5, /* asks to be started again */
	OSNODE_PANIC = 6, /* see message */
	OSNODE_STOPPED = 7, /* by the host's module at STOP of a node that ran, or by its starter */
};

enum osnode_stamp { /* time stamp counter at stages of a start */
	OSNODE_STAMP_SIPI = 0, /* by the module of the host */
	OSNODE_STAMP_TRAMPOLINE = 1,
	OSNODE_STAMP_MODULE = 2,
	OSNODE_STAMP_READY = 3,
	OSNODE_STAMP_INIT = 4, /* the first process begins; written when it has the window */
};

enum osnode_channel_state {
	OSNODE_CHANNEL_FREE = 0, /* -> OPEN by the client that has claimed it */
	OSNODE_CHANNEL_OPEN = 1, /* -> CLOSED by the client, or by the module when it dies */
	OSNODE_CHANNEL_CLOSED = 2, /* -> FREE by the agent: session ended, rings empty */
};

/*
 * A node that is lent is `running` until STOP takes it back. Who starts it holds
 * STARTING from before its first write to the node's memory until after the
 * SIPI; STOP answers -EBUSY meanwhile.
 */
enum osnode_lent {
	OSNODE_NOT_LENT = 0, /* -> LENT by the host's module at LEND */
	OSNODE_LENT = 1, /* -> STARTING by the other node; -> NOT_LENT by the module at STOP */
	OSNODE_STARTING = 2, /* -> LENT by the other node, or by the owner when that has ended */
};

struct osnode_ring {
	__u32 head;
	__u32 reserved0[15];
	__u32 tail;
	__u32 reserved1[15];
};

struct osnode_channel {
	__u32 state;
	__u32 reserved0;
	__u64 signals; /* bit n - 1: signal n; set by the client, cleared by the agent */
	__u32 reserved2[12];
	struct osnode_ring to_node;
	struct osnode_ring to_host;
	__u32 reserved1[48];
};

struct osnode_window {
	__u64 magic; /* host */
	__u32 version; /* host: OSNODE_VERSION */
	__u32 state; /* node, the host's module at STOP, who starts it when lent: enum osnode_word */
	__u32 host_apic_id; /* host: whom the node's bell interrupts */
	__u8 reset; /* node: not 0 if its kernel asked the firmware for a restart */
	__u8 reserved0[3];
	__u64 log_head; /* node: bytes of log so far */
	__u32 lent; /* enum osnode_lent */
	__u32 cpus; /* host, as the next and apic_ids: how many */
	__u64 slice; /* where the first begins */
	__u32 reserved1[4];
	__u64 stamps[8]; /* at 0x40 */
	__u8 message[256]; /* node: the panic's text, ends in a zero */
	__u32 apic_ids[OSNODE_CPUS]; /* at 0x180 */
	__u32 reserved2[864];
	struct osnode_channel channels[OSNODE_CHANNELS]; /* at 0x1000 */
};

/*
 * The device in a node, of osnode-guest: mmap(2) at 0 gives the window; read, poll,
 * BELL as above. The others take the physical address of the window of a node in
 * STARTING as their argument itself; -ESTALE: it is not.
 */
#define OSNODE_GUEST_DEVICE "/dev/kumiki-osnode-guest"
#define OSNODE_GUEST_IOC_INIT _IO(OSNODE_IOC_TYPE, 12) /* its cpus execute nothing more */
#define OSNODE_GUEST_IOC_START _IO(OSNODE_IOC_TYPE, 13) /* the first begins */

#endif /* KUMIKI_UAPI_OSNODE_H */
