/* SPDX-License-Identifier: GPL-2.0 */
#ifndef OSNODE_H
#define OSNODE_H

#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/notifier.h>

#include <asm/smp.h>

#include <osnode.h>
#include "bell.h"
#include "vector.h"

/* STOPPING: it is rung no more, by who rings without the lock; whoever has that never sees it. */
enum holding_state { CREATED, RUNNING, STOPPED, STOPPING };

#define cpu_apic_id(cpu) ((u32)per_cpu(x86_cpu_to_apicid, cpu))

struct piece {
	phys_addr_t address;
	size_t bytes;
	int (*claim)(phys_addr_t address, size_t bytes, bool yes); /* NULL: this kernel has allocated it */
};

/* Of osnode-claim.ko: memory that this kernel does not use is somebody's, or nobody's again. */
int osnode_claim(phys_addr_t address, size_t bytes, bool yes);

/*
 * A node or an image. All fields are written under `osnode_lock`, but for what takes long: memory
 * comes and goes under its owner's lock alone, while others talk. sysfs reads without a lock.
 */
struct holding {
	struct kobject kobj;
	struct list_head list;
	char name[OSNODE_NAME_BYTES];
	enum osnode_kind kind;
	enum holding_state state;
	bool sealed;
	bool shares; /* its slice, with others of one cpu, which need it in turns */
	bool low; /* its slice holds what a start of it has put there, or will */
	pid_t owner; /* 0: nobody's, to be taken over */
	unsigned int attached; /* descriptors */
	struct list_head handles; /* theirs */
	unsigned int servers; /* those of them that are its devices, until nothing of it is mapped */
	atomic_t mapped; /* mappings, of any descriptor; from 0 to 1 under the lock */
	unsigned int channels; /* bit n: a descriptor has channel n */
	phys_addr_t slice;
	struct osnode_window *window; /* of a node with memory: the end of its first piece; from its first start on; read under RCU */
	unsigned int pieces;
	struct piece piece[OSNODE_PIECES];
	unsigned int cpus;
	unsigned int cpu[OSNODE_CPUS];
	struct bells for_channels, for_devices;
	struct vector bell; /* the node's, from its first start on */
	char bell_name[OSNODE_NAME_BYTES + 8]; /* in /proc/interrupts */
};

/* An open file of the device. */
struct handle {
	struct hearer hearer; /* first, for bell_read and bell_poll */
	struct list_head list; /* of its holding */
	struct address_space *mapping; /* of all that is mapped by it */
	struct mutex lock; /* before osnode_lock: of a request. An owner's is its holding's */
	struct holding *heard; /* whose bells they are: kept until the file is closed */
	struct holding *holding; /* NULL: not attached yet, or released */
	enum osnode_mode mode;
	unsigned int channel;
};

static inline phys_addr_t window_address(struct holding *holding)
{
	return holding->piece[0].address + holding->piece[0].bytes - OSNODE_WINDOW_BYTES;
}

static inline struct osnode_bus *bus_of(struct osnode_window *window)
{
	return (void *)window + OSNODE_BUS_AT;
}

extern struct mutex osnode_lock;
extern struct list_head holdings; /* changed under the lock, read under it or RCU */
extern unsigned int holdings_running; /* how many of them; changed under the lock */

int holding_create(struct handle *handle, struct osnode_create *create);
int holding_attach(struct handle *handle, struct osnode_attach *attach);
void holding_detach(struct handle *handle);
int holding_seal(struct holding *holding);
int holding_link(struct holding *holding, const char *name);
int holding_start(struct holding *holding, bool lend);
int holding_stop(struct holding *holding);
int holding_release(struct handle *handle, bool memory_alone);
void holdings_free(void);
bool holding_may_change(struct holding *holding);
void holdings_stop(void);

int memory_init(void);
int memory_add(struct holding *holding, struct osnode_memory *memory);
int memory_back(struct holding *holding, const struct osnode_memory *request);
bool memory_is_linked(struct holding *holding);
void memory_free(struct holding *holding, unsigned int pieces);
void slices_init(phys_addr_t own);
unsigned int slices_free(phys_addr_t *first);
int slice_choose(struct holding *holding);
int slice_claim(struct holding *holding);
int memory_mmap(struct file *file, struct vm_area_struct *vma);

int cpus_init(void);
void cpus_exit(void);
int cpu_claim(struct holding *holding, struct osnode_cpu *request);
int cpu_back(struct holding *holding, const struct osnode_cpu *request);
void cpu_free(struct holding *holding);
void cpu_keep_broadcasts_off(struct holding *holding);
int cpu_start(struct holding *holding);
int cpu_stop(struct holding *holding);
int osnode_cpu_bell(struct holding *holding, u32 whom);

int holdings_cpu_gone(unsigned int cpu);

struct holding *osnode_device_serves(struct file *file);

void pci_init(void);
void pci_by_memory(bool yes);
/* Of a node's functions: taken or given back; bus mastering ends; with it what was under way; and whose they are, with what their DMA reaches. */
enum pci_what { PCI_TAKE, PCI_SILENCE, PCI_RESET, PCI_LET_GO };
int pci_tell(struct holding *holding, enum pci_what what, struct osnode_pci *wanted);
/* What osnode-pci.ko hears, by enum pci_what. */
struct pci_change {
	struct holding *holding;
	struct osnode_pci *wanted; /* of PCI_TAKE */
};
extern struct blocking_notifier_head osnode_functions;

/* Of osnode-iommu.ko: DMA of a device reaches a node's memory alone; NULL: what this kernel lets it. */
struct iommu_domain;
int osnode_confine(struct device *device, struct iommu_domain **reach, const struct holding *holding);

int tree_init(struct kobject *parent);
void tree_exit(void);
int tree_add(struct holding *holding);

#endif
