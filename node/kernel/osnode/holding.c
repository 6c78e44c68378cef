// SPDX-License-Identifier: GPL-2.0
/* Holdings: their names, owners and states. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/io.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <asm/msr.h>

#include "osnode.h"

DEFINE_MUTEX(osnode_lock);
LIST_HEAD(holdings);
unsigned int holdings_running;

static struct holding *find(const char *name, enum osnode_kind kind)
{
	struct holding *holding;

	list_for_each_entry(holding, &holdings, list)
		if (holding->kind == kind && !strcmp(holding->name, name))
			return holding;
	return NULL;
}

/* In a node's bell: its window says whom of those who look at it that is for. */
static void rung(struct vector *bell)
{
	struct holding *holding = container_of(bell, struct holding, bell);
	u32 whom = xchg(&bus_of(holding->window)->calls, 0);

	if (whom & OSNODE_FOR_CHANNELS)
		bells_ring(&holding->for_channels);
	if (whom & OSNODE_FOR_DEVICES)
		bells_ring(&holding->for_devices);
}

/* While cpus can't go on- or offline otherwise. */
int holdings_cpu_gone(unsigned int cpu)
{
	struct holding *holding;

	rcu_read_lock();
	list_for_each_entry_rcu(holding, &holdings, list)
		vector_follow(&holding->bell);
	rcu_read_unlock();
	/* None gets a vector meanwhile, or loses it. */
	vector_settle();
	rcu_read_lock();
	list_for_each_entry_rcu(holding, &holdings, list)
		vector_catch_up(&holding->bell);
	rcu_read_unlock();
	return 0;
}

/* This descriptor's from now on, and so are those of the holding's bells that are for it. */
static void take(struct handle *handle, struct holding *holding, enum osnode_mode mode)
{
	holding->attached++;
	if (mode == OSNODE_OWN)
		holding->owner = task_tgid_nr(current);
	holding->servers += mode == OSNODE_SERVE;
	list_add(&handle->list, &holding->handles);
	handle->holding = holding;
	handle->mode = mode;
	handle->heard = holding;
	kobject_get(&holding->kobj);
	hearer_begin(&handle->hearer, mode == OSNODE_SERVE ? &holding->for_devices :
							     &holding->for_channels);
}

static bool good_name(const char *name)
{
	size_t length = strnlen(name, OSNODE_NAME_BYTES);
	size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	return length && length < OSNODE_NAME_BYTES && good == length && name[0] != '.' &&
	       !memchr_inv(name + length, 0, OSNODE_NAME_BYTES - length);
}

/* This and what follows up to holding_release(): under the lock. */
int holding_create(struct handle *handle, struct osnode_create *create)
{
	struct holding *holding;
	int error;

	if (!good_name(create->name) || create->shares > (create->kind == OSNODE_NODE))
		return -EINVAL;
	if (create->kind != OSNODE_NODE && create->kind != OSNODE_IMAGE)
		return -EINVAL;
	holding = kzalloc(sizeof(*holding), GFP_KERNEL);
	if (!holding)
		return -ENOMEM;
	strscpy(holding->name, create->name, sizeof(holding->name));
	holding->kind = create->kind;
	holding->shares = create->shares;
	INIT_LIST_HEAD(&holding->handles);
	init_waitqueue_head(&holding->for_channels.queue);
	init_waitqueue_head(&holding->for_devices.queue);

	error = find(holding->name, holding->kind) ? -EEXIST : 0;
	if (!error && holding->kind == OSNODE_NODE)
		error = slice_choose(holding);
	if (error) {
		kfree(holding);
		return error;
	}
	error = tree_add(holding);
	if (error)
		return error; /* the kobject has freed it */
	list_add_tail_rcu(&holding->list, &holdings);
	take(handle, holding, OSNODE_OWN);
	create->slice = holding->slice;
	return 0;
}

static int claim_channel(struct handle *handle, struct holding *holding, bool by_host)
{
	unsigned int n;

	if (holding->state != RUNNING)
		return -ENOTCONN;
	for (n = 0; n < OSNODE_CHANNELS; n++) {
		/* The agent may still be ending the last session there. */
		if (holding->channels & BIT(n) ||
		    READ_ONCE(holding->window->channels[n].state) != OSNODE_CHANNEL_FREE)
			continue;
		/* Not the last one: who stops a node, or asks how it is, finds it. */
		if (!by_host && n == OSNODE_CHANNELS - 1)
			continue;
		holding->channels |= BIT(n);
		handle->channel = n;
		return 0;
	}
	return -EBUSY;
}

int holding_attach(struct handle *handle, struct osnode_attach *attach)
{
	struct holding *holding;
	int error = 0;

	if (!good_name(attach->name) || attach->reserved ||
	    attach->channel > (attach->mode == OSNODE_TALK))
		return -EINVAL;
	holding = find(attach->name, attach->kind);
	if (!holding)
		error = -ENOENT;
	else if (attach->mode == OSNODE_OWN)
		error = holding->owner ? -EBUSY : 0;
	else if (attach->mode == OSNODE_TALK && holding->kind == OSNODE_NODE)
		error = claim_channel(handle, holding, attach->channel);
	else if (attach->mode == OSNODE_SERVE && holding->kind == OSNODE_NODE)
		/* Two would take turns at the same rings. */
		error = holding->state != RUNNING ? -ENOTCONN : holding->servers ? -EBUSY : 0;
	else if (attach->mode != OSNODE_READ)
		error = -EINVAL;
	if (error)
		return error;
	take(handle, holding, attach->mode);
	attach->channel = handle->channel;
	return 0;
}

/* It has none from here on; how many of them are to be freed. Under the lock. */
static unsigned int let_go(struct holding *holding)
{
	unsigned int pieces = memory_is_linked(holding) ? 0 : holding->pieces;

	smp_store_release(&holding->pieces, 0);
	return pieces;
}

/* Nobody finds it from here on, while the kernel takes back what it had without the lock. */
static void give_back(struct holding *holding)
{
	unsigned int pieces;

	/* Waits for who reads its files; its name is free then. */
	kobject_del(&holding->kobj);
	list_del_rcu(&holding->list);
	pieces = let_go(holding);
	mutex_unlock(&osnode_lock);
	cpu_free(holding);
	memory_free(holding, pieces);
	mutex_lock(&osnode_lock);
	kobject_put(&holding->kobj);
}

/* The descriptor is closed, also by death. The holding stays, but for an image that is not complete. */
void holding_detach(struct handle *handle)
{
	struct holding *holding = handle->holding;

	if (!holding)
		return;
	holding->attached--;
	list_del(&handle->list);
	holding->servers -= handle->mode == OSNODE_SERVE;
	if (handle->mode == OSNODE_OWN) {
		holding->owner = 0;
		/* What was to be a start is none. */
		holding->low &= holding->state == RUNNING;
	}
	if (handle->mode == OSNODE_TALK) {
		holding->channels &= ~BIT(handle->channel);
		/* A node that was stopped meanwhile has nobody to free the channel. */
		if (holding->state == RUNNING &&
		    cmpxchg(&holding->window->channels[handle->channel].state, OSNODE_CHANNEL_OPEN,
			    OSNODE_CHANNEL_CLOSED) == OSNODE_CHANNEL_OPEN)
			osnode_cpu_bell(holding, OSNODE_FOR_CHANNELS);
	}
	/* Who made it was killed, and nobody can complete it: no mapping is left, as each holds the descriptor. */
	if (holding->kind == OSNODE_IMAGE && !holding->sealed && !holding->attached)
		give_back(holding);
}

/* Of a node that runs: its agent is there, and nobody but the host starts it. */
bool holding_may_change(struct holding *holding)
{
	struct osnode_window *window = holding->window;

	return holding->state != RUNNING || (READ_ONCE(window->state) == OSNODE_READY &&
					     READ_ONCE(window->lent) == OSNODE_NOT_LENT);
}

/* An image is complete: who reads it must be able to rely on it. */
int holding_seal(struct holding *holding)
{
	if (holding->kind != OSNODE_IMAGE)
		return -EINVAL;
	if (atomic_read(&holding->mapped))
		return -EBUSY;
	holding->sealed = true;
	return 0;
}

/* One more name for what a sealed image holds, which goes with the last of them. */
int holding_link(struct holding *holding, const char *name)
{
	struct holding *image = good_name(name) ? find(name, OSNODE_IMAGE) : NULL;

	if (holding->kind != OSNODE_IMAGE || holding->pieces || holding->sealed)
		return -EINVAL;
	if (!image || !image->sealed)
		return -ENOENT;
	memcpy(holding->piece, image->piece, sizeof(holding->piece));
	smp_store_release(&holding->pieces, image->pieces);
	holding->sealed = true;
	return 0;
}

/* A node that is lent runs for all this module knows: another one sends the interrupts. */
int holding_start(struct holding *holding, bool lend)
{
	struct osnode_window *window;
	unsigned int n;
	int error;

	if (holding->kind != OSNODE_NODE || !holding->cpus || !holding->pieces)
		return -EINVAL;
	if (holding->state == RUNNING)
		return -EALREADY;
	/* It would write what the last kernel asked for into the next one. */
	if (holding->servers)
		return -EBUSY;
	error = slice_claim(holding);
	if (error)
		return error;
	/* Memory that was kept from this kernel is not in its direct map. */
	window = holding->window ?:
		 memremap(window_address(holding), OSNODE_WINDOW_BYTES, MEMREMAP_WB);
	if (!window)
		return -ENOMEM;
	memset(window, 0, sizeof(*window));
	memset(bus_of(window), 0, sizeof(struct osnode_bus) +
	       OSNODE_SLOTS * sizeof(struct osnode_slot));
	smp_store_release(&holding->window, window);
	if (!holding->bell.irq) {
		snprintf(holding->bell_name, sizeof(holding->bell_name), "kumiki-%s", holding->name);
		error = vector_begin(&holding->bell, holding->bell_name, &window->host_bell, rung);
		if (error)
			return error;
	}
	vector_publish(&holding->bell);
	/* A node executes code that nobody else can stop: the module stays. */
	__module_get(THIS_MODULE);
	window->magic = OSNODE_WINDOW_MAGIC;
	window->version = OSNODE_VERSION;
	window->lent = lend ? OSNODE_LENT : OSNODE_NOT_LENT;
	window->slice = holding->slice;
	window->cpus = holding->cpus;
	for (n = 0; n < holding->cpus; n++) {
		window->apic_ids[n] = cpu_apic_id(holding->cpu[n]);
		window->cpu[window->apic_ids[n]] = n ? OSNODE_CPU_OFF : OSNODE_CPU_ON;
	}
	window->stamp_sipi = rdtsc_ordered();
	cpu_keep_broadcasts_off(holding);
	pci_by_memory(++holdings_running);
	/* Also if an interrupt is not seen to arrive: the cpu may run all the same. */
	holding->state = RUNNING;
	return lend ? 0 : cpu_start(holding);
}

int holding_stop(struct holding *holding)
{
	struct osnode_window *window = holding->window;
	int error;

	if (holding->state != RUNNING)
		return holding->kind == OSNODE_NODE ? -EALREADY : -EINVAL;
	/* Another node is writing to its memory, and about to start it. */
	if (cmpxchg(&window->lent, OSNODE_LENT, OSNODE_NOT_LENT) == OSNODE_STARTING)
		return -EBUSY;
	/* First: a cpu that waits for a SIPI must get no interrupt. */
	WRITE_ONCE(holding->state, STOPPING);
	synchronize_rcu();
	pci_tell(holding, PCI_SILENCE, NULL);
	error = cpu_stop(holding);
	WRITE_ONCE(holding->state, error ? RUNNING : STOPPED);
	if (error)
		return error; /* a cpu may still run */
	holding->low = false;
	/* None of them can undo it now, and its memory is still its own. */
	pci_tell(holding, PCI_RESET, NULL);
	pci_by_memory(--holdings_running);
	/* Clients wait for an answer; what the node said last tells more, if it said it. */
	if (READ_ONCE(window->state) < OSNODE_HALTED)
		WRITE_ONCE(window->state, OSNODE_STOPPED);
	bells_ring(&holding->for_channels);
	bells_ring(&holding->for_devices);
	module_put(THIS_MODULE);
	return 0;
}

int holding_release(struct handle *handle, bool memory_alone)
{
	struct holding *holding = handle->holding;
	unsigned int pieces;

	if (holding->state == RUNNING || holding->attached > 1 || atomic_read(&holding->mapped))
		return -EBUSY;
	if (memory_alone && holding->kind != OSNODE_NODE)
		return -EINVAL;
	if (memory_alone) {
		pieces = let_go(holding);
		mutex_unlock(&osnode_lock);
		memory_free(holding, pieces);
		mutex_lock(&osnode_lock);
		return 0;
	}
	handle->holding = NULL;
	give_back(holding);
	return 0;
}

/* The module goes: what is left is nobody's. */
void holdings_free(void)
{
	struct holding *holding, *next;

	mutex_lock(&osnode_lock);
	list_for_each_entry_safe(holding, next, &holdings, list)
		give_back(holding);
	mutex_unlock(&osnode_lock);
}

/* The machine ends, or another kernel begins: no node goes on. */
void holdings_stop(void)
{
	struct holding *holding;

	mutex_lock(&osnode_lock);
	list_for_each_entry(holding, &holdings, list)
		if (holding->state == RUNNING && holding_stop(holding))
			pr_err("node %s was not stopped\n", holding->name);
	mutex_unlock(&osnode_lock);
}
