/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Apache-2.0 OR MIT */
/*
 * OS nodes: several Linux kernels on one machine. docs/design/node.md says why and how.
 *
 * A *holding* has a name: a node (cpus, memory, a slice below 1 MiB) or an image
 * (memory). It stays when its owner dies; a later descriptor attaches to it. An image
 * that is not sealed goes with the last descriptor that is attached to it.
 *
 *   created --START--> running --STOP--> stopped --START--> ...   not running --RELEASE--> gone
 *
 * Names are 1 to 31 of [a-z0-9._-], not beginning with '.', and end in zeros. Addresses
 * are physical, byte order is the machine's. Reserved fields and unknown bits must be
 * zero, else -EINVAL; an unknown request is -ENOTTY, one that this descriptor's mode does
 * not allow -EPERM; -ENOTCONN: it has no holding yet, -EISCONN: it has or had one.
 */
#ifndef KUMIKI_UAPI_OSNODE_H
#define KUMIKI_UAPI_OSNODE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define OSNODE_DEVICE "/dev/kumiki-osnode"
#define OSNODE_VERSION 7
#define OSNODE_NAME_BYTES 32
#define OSNODE_PIECES 64
#define OSNODE_CPUS 64
#define OSNODE_APIC_IDS 1024 /* of cpus that can be given */
#define OSNODE_SLICE_BYTES 0x8000
#define OSNODE_PIECE_UNIT (2u << 20) /* size and address of memory are multiples */

enum osnode_kind { OSNODE_NODE = 1, OSNODE_IMAGE = 2 };
enum osnode_mode {
	OSNODE_OWN = 1, /* one descriptor at a time: everything; else -EBUSY */
	OSNODE_READ = 2, /* any number: map a sealed image, or a node's window, read only */
	OSNODE_TALK = 3, /* of a running node: map its window, claim one of its channels */
	OSNODE_SERVE = 4, /* of a running node, one at a time, until nothing of it is mapped: map its memory, be its devices */
};
/* Whom a bell is for. Of a descriptor: SERVE hears those for devices, all others the rest. */
enum osnode_whom {
	OSNODE_FOR_CHANNELS = 1, OSNODE_FOR_DEVICES = 2,
};

struct osnode_create { /* this descriptor owns it */
	__u8 name[OSNODE_NAME_BYTES];
	__u32 kind; /* enum osnode_kind */
	__u32 shares; /* 1: a node of one cpu for ever, whose slice may be others' like it, too; else 0 */
	__u64 slice; /* out: address of the low slice; 0 of an image */
};
struct osnode_attach {
	__u8 name[OSNODE_NAME_BYTES];
	__u32 kind, mode;
	/* channel: out, for TALK; closed when the descriptor is. In: 1 of who may have the last one,
	   which is for what the host asks, else 0 */
	__u32 channel, reserved;
};
/*
 * One more contiguous piece; of a node that runs, too, while its agent answers and nobody else starts
 * it, else -EBUSY: OSNODE_BLOCKS_AT says how its kernel gets it. PIECE_BACK, by its address: cleared,
 * and the host's again; what maps it does no longer. -ENODEV: it has no such piece, or that is the first;
 * -EBUSY: it runs, and its kernel has not let go.
 */
struct osnode_memory {
	__u64 bytes;
	__u32 numa_node, aligned; /* aligned: to so many times 2 MiB, if it has no address yet */
	/* In: 0, or RAM in nobody's use, else -EBUSY; -ENOPKG: osnode-claim.ko is not loaded. Out: offset for mmap(2); by lseek(2) the
	   file ends where all addresses do. */
	__u64 address;
};
/*
 * One more cpu, which must be offline, else -EBUSY; the first starts first. apic_id: out. Of a node that
 * runs, while its agent answers and nobody else starts it, else -EBUSY: its kernel may bring it online
 * from here on. -ENOSPC: it has OSNODE_CPUS, or one and shares its slice. CPU_BACK: to the host, online;
 * apic_id: 0. -ENODEV: it is none of the node's. Of one that runs -EBUSY: it is the first, or its kernel
 * has not let go.
 */
struct osnode_cpu { __u32 cpu, apic_id; };
/* An image that has no memory yet: one more name for the sealed one of this name. */
struct osnode_link { __u8 name[OSNODE_NAME_BYTES]; };

/*
 * A PCI function that is bound to the driver kumiki-osnode, of osnode-pci.ko, for a node that does not
 * run; again: still its own. Confined, its DMA reaches the pieces that the node has now and nothing else, by the
 * host's IOMMU. -ENODEV: it is not bound; -EBUSY: another node's; -ENOPKG: osnode-iommu.ko is not
 * loaded, -EOPNOTSUPP: no IOMMU is before it. It is reset at each STOP; RELEASE and MEMORY_BACK let go.
 */
struct osnode_pci {
	__u32 segment, function; /* bus in bits 8 to 15, then 5 bits of device, 3 of function */
	__u32 give_back, confine; /* give_back: 1, or 0 to take it; confine: 1 or 0 */
};

#define OSNODE_IOC_TYPE 0xbe
#define OSNODE_IOC_VERSION _IOR(OSNODE_IOC_TYPE, 0, __u32) /* never changes */
#define OSNODE_IOC_CREATE _IOWR(OSNODE_IOC_TYPE, 1, struct osnode_create)
#define OSNODE_IOC_ATTACH _IOWR(OSNODE_IOC_TYPE, 2, struct osnode_attach)
#define OSNODE_IOC_MEMORY _IOWR(OSNODE_IOC_TYPE, 3, struct osnode_memory)
#define OSNODE_IOC_CPU _IOWR(OSNODE_IOC_TYPE, 4, struct osnode_cpu)
#define OSNODE_IOC_SEAL _IO(OSNODE_IOC_TYPE, 5) /* an image: nobody maps it writable again */
/* INIT, SIPI; -EIO: not seen to arrive; -EBUSY: somebody still serves its last run */
#define OSNODE_IOC_START _IO(OSNODE_IOC_TYPE, 6)
#define OSNODE_IOC_STOP _IO(OSNODE_IOC_TYPE, 7) /* INIT to every cpu; -EBUSY: in STARTING */
#define OSNODE_IOC_RELEASE _IO(OSNODE_IOC_TYPE, 8) /* -EBUSY: runs, mapped, or attached to */
#define OSNODE_IOC_BELL _IO(OSNODE_IOC_TYPE, 9) /* interrupts the other side */
#define OSNODE_IOC_LINK _IOW(OSNODE_IOC_TYPE, 10, struct osnode_link)
#define OSNODE_IOC_LEND _IO(OSNODE_IOC_TYPE, 11) /* as START; another node sends INIT and SIPI */
#define OSNODE_IOC_PCI _IOW(OSNODE_IOC_TYPE, 15, struct osnode_pci)
#define OSNODE_IOC_CPUS_BACK _IO(OSNODE_IOC_TYPE, 16) /* to the host, online; -EBUSY: runs */
#define OSNODE_IOC_CPU_BACK _IOW(OSNODE_IOC_TYPE, 21, struct osnode_cpu)
#define OSNODE_IOC_PIECE_BACK _IOW(OSNODE_IOC_TYPE, 24, struct osnode_memory)
/* A node's memory alone, as by RELEASE: name, slice and cpus are its own still */
#define OSNODE_IOC_MEMORY_BACK _IO(OSNODE_IOC_TYPE, 20)

/*
 * Doorbells: read(2) of 8 bytes waits for one and gives how many since the last, a __u64;
 * poll(2). The shared window is the last 2 MiB of a node's first piece.
 */
#define OSNODE_WINDOW_BYTES (2u << 20)
#define OSNODE_WINDOW_MAGIC 0x65646f6e736fULL /* "osnode" */
#define OSNODE_CHANNELS 8
#define OSNODE_LOG_AT 0x10000 /* the kernel's log, oldest overwritten */
#define OSNODE_LOG_BYTES 0x40000
#define OSNODE_RINGS_AT 0x80000 /* channel n: to the node, then to the host */
#define OSNODE_RING_BYTES 0x10000

/*
 * Memory that a node has beside what it is started with. It stays there over a start, so that a kernel
 * that slept finds it; who starts another kernel writes it anew.
 */
#define OSNODE_BLOCKS_AT 0xf000

/* What a node last said of itself: its module is there, its agent answers, how it ended. */
enum osnode_word {
	OSNODE_SILENT = 0, OSNODE_BOOTING = 1, OSNODE_READY = 2, OSNODE_HALTED = 3,
	OSNODE_POWERED_OFF = 4, OSNODE_RESTART = 5, OSNODE_PANIC = 6,
	OSNODE_STOPPED = 7, /* not by itself: by STOP, or by the node that starts it again */
	OSNODE_KEPT = 8, /* asleep, so that its memory can be copied and started again */
};
/*
 * A cpu by its APIC id. NONE -host: it claims it for the node-> OFF -node: before it brings it online-> ON
 * -node: its kernel has seen it in its last loop-> OFF -host: before it takes it back-> NONE. Each step is
 * one compare and exchange, so of a host that takes and a node that uses it one is refused.
 */
enum osnode_cpu_state { OSNODE_CPU_NONE, OSNODE_CPU_OFF, OSNODE_CPU_ON };
/* Of a piece, as of a cpu; owner: a process of the host that owns the node. NONE -owner-> OFF -node: before
   it adds it-> ON -node: it has removed it-> OFF -host's module-> NONE */
enum osnode_block_state { OSNODE_BLOCK_NONE, OSNODE_BLOCK_OFF, OSNODE_BLOCK_ON };
/* FREE -client-> OPEN -client, or the module when it dies-> CLOSED -agent, rings empty-> FREE */
enum osnode_channel_state { OSNODE_CHANNEL_FREE, OSNODE_CHANNEL_OPEN, OSNODE_CHANNEL_CLOSED };
/* NOT_LENT -LEND-> LENT -STOP-> NOT_LENT; LENT -other node, before it writes-> STARTING
   -the same after the SIPI, or the owner when that node has ended-> LENT */
enum osnode_lent { OSNODE_NOT_LENT, OSNODE_LENT, OSNODE_STARTING };

/* Bytes written, bytes read: both count for ever and index modulo the size. */
struct osnode_ring { __u32 head, reserved0[15], tail, reserved1[15]; };
struct osnode_channel {
	__u32 state, reserved0[15];
	struct osnode_ring to_node, to_host;
	__u32 reserved1[48];
};
struct osnode_window { /* of the host's module, but for what says another writer */
	__u64 magic;
	__u32 version;
	__u32 state; /* node, and who stops or starts it: enum osnode_word */
	__u32 reserved4;
	__u8 reset, reserved0[3]; /* reset: node: not 0 if it asked the firmware for a restart */
	__u64 log_head; /* node: bytes of log so far */
	__u32 lent; /* enum osnode_lent */
	__u32 cpus; /* how many it was started with */
	__u64 slice; /* where the first begins */
	/* Where the other side's bell is to be sent, each written by whose it is, as osnode/vector.h has it */
	__u64 host_bell, node_bell;
	/* 0x40: time stamp counter at stages of a start; init: the first process begins */
	__u64 stamp_sipi, stamp_trampoline, stamp_module, stamp_ready, stamp_init;
	/* beat: the agent lives, each second; then its kernel's times in us since it began: in which a task
	   waited for a cpu (PSI), and in which its cpus worked, all together */
	__u64 stamp_beat, waited_us, worked_us;
	__u8 message[256]; /* node: the panic's text, ends in a zero */
	__u32 apic_ids[OSNODE_CPUS]; /* 0x180: as it was started */
	__u8 cpu[OSNODE_APIC_IDS]; /* 0x280: enum osnode_cpu_state, by APIC id */
	/* 0x680: node: as the beat, time in us in which a task waited for memory (PSI), and bytes that programs can have */
	__u64 stalled_us, available;
	__u8 reserved2[2416];
	struct osnode_channel channels[OSNODE_CHANNELS]; /* 0x1000 */
};

struct osnode_block { __u64 address, bytes; __u32 state, reserved; };
struct osnode_blocks {
	__u64 unit, reserved[7]; /* node: sizes and addresses are multiples; 0: its kernel adds none */
	struct osnode_block block[OSNODE_PIECES];
};

/*
 * Devices: a bus and slots for them in the window, all plain words with one writer each but
 * for the masks, which one side sets bits of and the other takes. docs/design/node-devices.md
 * has the protocol.
 */
#define OSNODE_BUS_AT 0x180000
#define OSNODE_SLOTS 63
#define OSNODE_QUEUES 32
#define OSNODE_CONFIG_BYTES 1024
#define OSNODE_CONFIG_BIT 63 /* of kicks and interrupts: the configuration was written */

struct osnode_bus {
	__u64 to_node, reserved0[7]; /* bit n: slot n has interrupts */
	__u64 to_host, reserved1[7]; /* bit n: slot n has kicks, or a request; server, or module, takes */
	__u32 announced; /* server: counts what came or went */
	__u32 bells; /* host's module sets, node takes: enum osnode_whom */
	__u32 calls; /* node sets, host's module takes: the same */
	__u32 reserved2[13];
	__u64 reserved3[488];
};
struct osnode_queue { /* limit: server, 0: there is none; the rest: node, physical addresses */
	__u32 limit, size;
	__u64 descriptors, driver, device;
};
struct osnode_slot {
	__u32 present; /* server: 0, or another number than the last device here had */
	__u32 id; /* and up to answer: server; virtio's number of the kind of device */
	__u64 features;
	__u32 config_bytes, generation;
	__u32 answer, host_status; /* the request that was carried out, and what became of it */
	__u64 reserved0[4];
	__u32 request, status; /* node: counts requests, each to set this status */
	__u64 accepted, reserved1[6]; /* node: of the features */
	__u64 kicks, reserved2[7]; /* bit n: queue n; node sets, server takes */
	__u64 interrupts, reserved3[7]; /* the same the other way */
	struct osnode_queue queues[OSNODE_QUEUES]; /* 0x100 */
	__u8 config[OSNODE_CONFIG_BYTES]; /* 0x500 */
	__u64 reserved4[224];
};

/*
 * Another device of the host's: kicks and calls as eventfds. Of a file that is attached, for the
 * node of a descriptor in mode SERVE, bells are taken here: `left` is signalled when there is
 * something for the server, a request, kicks of other queues, or the node's end. -EISCONN: it is
 * attached, -ENOTCONN: not yet, -EEXIST: this queue is connected. Closed, it lets go of all.
 */
#define OSNODE_EVENTFD_DEVICE "/dev/kumiki-osnode-eventfd"
struct osnode_wires { __s32 server, left; };
struct osnode_wire { __u32 slot, queue; __s32 kick, call; };
#define OSNODE_EVENTFD_IOC_ATTACH _IOW(OSNODE_IOC_TYPE, 17, struct osnode_wires)
#define OSNODE_EVENTFD_IOC_CONNECT _IOW(OSNODE_IOC_TYPE, 18, struct osnode_wire)
#define OSNODE_EVENTFD_IOC_DISCONNECT _IOW(OSNODE_IOC_TYPE, 19, __u32) /* a slot's */

/* Lines between programs of a node and of its host, which claims them with a channel: an eighth
   each. No kernel looks there. docs/design/places.md has what stands in it. */
#define OSNODE_LANES_AT 0x1c0000
#define OSNODE_LANES_BYTES 0x40000

/*
 * A node asleep. What it says stands before the word KEPT; a start of a copy of its memory
 * jumps to `wake` by page tables whose upper half is that of `tables`, once the host has
 * written the rest. docs/design/node-snapshots.md has the sequence.
 */
#define OSNODE_SLEEP_AT 0x50000
#define OSNODE_FREE_AT 0x53000 /* runs of free pages, whose contents nobody needs */
#define OSNODE_FREE_RUNS 23040
#define OSNODE_RUN_SHIFT 40 /* a run, a __u64: how many pages, above the first one's number */

struct osnode_sleep {
	__u64 wake; /* node: virtual address */
	__u64 tables; /* node: physical address of its first page table */
	__u64 runs; /* node: how many at OSNODE_FREE_AT */
	__u64 now_ns, now_ticks; /* host: its wall clock at this time stamp counter */
	__u64 reserved0[3];
	__u8 random[64]; /* host: new ones each time; the node empties it */
	__u8 reserved1[3968];
	__u8 covered[0x2000]; /* host: of the copy, where the start's two pages of the slice lie */
};

/* In a node: mmap(2) at 0 is its window, bells are as above. INIT and START take the address of
   the window of a node that is in STARTING, else -ESTALE. */
#define OSNODE_GUEST_DEVICE "/dev/kumiki-osnode-guest"
#define OSNODE_GUEST_IOC_INIT _IO(OSNODE_IOC_TYPE, 12) /* its cpus execute nothing more */
#define OSNODE_GUEST_IOC_START _IO(OSNODE_IOC_TYPE, 13) /* the first begins */
/* Sleeps, and returns in a copy of this memory. -EBUSY: a task or a device does not sleep;
   -EAGAIN: woken before it slept; -EOPNOTSUPP: not this kernel, or 5-level page tables */
#define OSNODE_GUEST_IOC_SLEEP _IO(OSNODE_IOC_TYPE, 14)
/* The cpu of this APIC id, by /sys's own way. -ENODEV: this kernel was not told of it as it started;
   -EPERM: it is not this node's */
#define OSNODE_GUEST_IOC_CPU_ON _IO(OSNODE_IOC_TYPE, 22)
#define OSNODE_GUEST_IOC_CPU_OFF _IO(OSNODE_IOC_TYPE, 23)
/* Memory of OSNODE_BLOCKS_AT by its address. -ENODEV: it is none; -EPERM: not OFF, or not ON;
   -EOPNOTSUPP: not this kernel. OFF tries until it has it, or a signal comes */
#define OSNODE_GUEST_IOC_MEMORY_ON _IO(OSNODE_IOC_TYPE, 25)
#define OSNODE_GUEST_IOC_MEMORY_OFF _IO(OSNODE_IOC_TYPE, 26)

/*
 * Signs of life of the host, in its own memory, for a node that watches it and reads them where
 * they are; /sys/class/misc/kumiki-osnode-watch/address says where. What a write(2) to the device
 * brings is for the node to know, all of it by one call. docs/design/node-watchman.md.
 */
#define OSNODE_WATCH_DEVICE "/dev/kumiki-osnode-watch"
#define OSNODE_WATCH_MAGIC 0x686374617764ULL /* "dwatch"; something else: the module has gone */
#define OSNODE_BEAT_MS 250
#define OSNODE_WATCH_CPUS 384 /* those beyond are not watched */
#define OSNODE_TOLD_BYTES 0x8000

enum osnode_watch_state { OSNODE_WATCH_ALIVE = 0, OSNODE_WATCH_PANIC = 1 };
struct osnode_watch {
	__u64 magic;
	__u32 version;
	__u32 state; /* written last: enum osnode_watch_state */
	__u32 told; /* counts what was told; the last is text[told % 2] */
	__u32 text_bytes[2];
	__u32 cpu, pid; /* of the panic, and its task */
	__u8 comm[16];
	__u8 reserved0[12];
	__u8 message[256]; /* the panic's text, ends in a zero */
	__u64 ip, sp; /* of the panic's cpu, on its task's stack or one of the cpu's own */
	__u8 reserved1[688];
	__u64 beats[OSNODE_WATCH_CPUS]; /* 0x400: each of its cpu alone; 0: it is off line */
	__u8 text[2][OSNODE_TOLD_BYTES]; /* 0x1000 */
};

#endif /* KUMIKI_UAPI_OSNODE_H */
