// SPDX-License-Identifier: GPL-2.0
/* /sys/devices/virtual/misc/kumiki-osnode: see docs/design/node.md, file by file. */

#include <linux/slab.h>
#include <linux/sysfs.h>
#include <asm/tsc.h>

#include "osnode.h"

static struct kobject *nodes;
static struct kobject *images;

/*
 * What follows reads without the lock, so that it can be waited for under the lock:
 * when a holding's folder is gone nobody reads the holding any more.
 */
static struct holding *of(struct kobject *kobj)
{
	return container_of(kobj, struct holding, kobj);
}

static ssize_t memory_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	struct holding *holding = of(kobj);
	unsigned int n, pieces = smp_load_acquire(&holding->pieces);
	ssize_t length = 0;

	for (n = 0; n < pieces; n++)
		length += sysfs_emit_at(to, length, "%#llx %#zx\n",
					(u64)holding->piece[n].address, holding->piece[n].bytes);
	return length;
}

static ssize_t cpus_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	struct holding *holding = of(kobj);
	unsigned int n, cpus = smp_load_acquire(&holding->cpus);
	ssize_t length = 0;

	for (n = 0; n < cpus; n++)
		length += sysfs_emit_at(to, length, "%u %u\n", holding->cpu[n],
					cpu_apic_id(holding->cpu[n]));
	return length;
}

static ssize_t slice_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	return sysfs_emit(to, "%#llx\n", (u64)of(kobj)->slice);
}

static ssize_t owner_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	return sysfs_emit(to, "%d\n", READ_ONCE(of(kobj)->owner));
}

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	static const char *const names[] = { "created", "running", "stopped", "running" };
	struct holding *holding = of(kobj);

	if (holding->kind == OSNODE_NODE)
		return sysfs_emit(to, "%s\n", names[READ_ONCE(holding->state)]);
	return sysfs_emit(to, "%s\n", READ_ONCE(holding->sealed) ? "sealed" : "created");
}

static ssize_t word_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	struct osnode_window *window;
	u32 word;

	rcu_read_lock();
	window = smp_load_acquire(&of(kobj)->window);
	word = window ? READ_ONCE(window->state) : OSNODE_SILENT;
	rcu_read_unlock();
	return sysfs_emit(to, "%u\n", word);
}

/* Where physical memory is, is root's to know. */
static struct kobj_attribute memory = __ATTR_RO_MODE(memory, 0400);
static struct kobj_attribute cpus = __ATTR_RO(cpus);
static struct kobj_attribute slice = __ATTR_RO_MODE(slice, 0400);
static struct kobj_attribute owner = __ATTR_RO(owner);
static struct kobj_attribute state = __ATTR_RO(state);
static struct kobj_attribute word = __ATTR_RO(word);

static ssize_t tsc_khz_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	return sysfs_emit(to, "%u\n", tsc_khz);
}

static struct kobj_attribute tsc = __ATTR(tsc_khz, 0444, tsc_khz_show, NULL);

static ssize_t slices_free_show(struct kobject *kobj, struct kobj_attribute *attribute, char *to)
{
	phys_addr_t first;
	unsigned int free;

	mutex_lock(&osnode_lock);
	free = slices_free(&first);
	mutex_unlock(&osnode_lock);
	return sysfs_emit(to, "%u\n", free);
}

static struct kobj_attribute slices = __ATTR(slices_free, 0444, slices_free_show, NULL);

/* Of an image, which has no cpus, no slice and says nothing, the last three are empty or 0. */
static struct attribute *holding_attrs[] = {
	&memory.attr, &owner.attr, &state.attr, &cpus.attr, &slice.attr, &word.attr, NULL,
};

ATTRIBUTE_GROUPS(holding);

static void release(struct kobject *kobj)
{
	kfree(of(kobj));
}

static const struct kobj_type holding_type = {
	.release = release,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = holding_groups,
};

/* On failure the holding is freed. */
int tree_add(struct holding *holding)
{
	struct kobject *parent = holding->kind == OSNODE_NODE ? nodes : images;
	int error;

	error = kobject_init_and_add(&holding->kobj, &holding_type, parent, "%s", holding->name);
	if (error)
		kobject_put(&holding->kobj);
	return error;
}

int tree_init(struct kobject *parent)
{
	nodes = kobject_create_and_add("nodes", parent);
	images = kobject_create_and_add("images", parent);
	if (nodes && images && !sysfs_create_file(parent, &tsc.attr) &&
	    !sysfs_create_file(parent, &slices.attr))
		return 0;
	tree_exit();
	return -ENOMEM;
}

void tree_exit(void)
{
	kobject_put(nodes);
	kobject_put(images);
}
