// SPDX-License-Identifier: GPL-2.0
/*
 * PCI: functions that nodes have, and the host's way to configuration space. Ports 0xcf8 and 0xcfc are one pair of
 * registers for the whole machine, address and data, and each node's kernel reads by them
 * up to three times before it knows pci=off: between the host's write of an address and its
 * access to the data, that would go elsewhere. So while nodes run the host takes the other
 * way, by memory (ECAM), which has no such state.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/pci.h>
#include <asm/pci_x86.h>

#include "osnode.h"
#include "symbols.h"

static const struct pci_raw_ops **current_way;
static const struct pci_raw_ops *by_ports, *by_memory;

void pci_init(void)
{
	const struct pci_raw_ops **extended = (void *)symbol("raw_pci_ext_ops");

	current_way = (void *)symbol("raw_pci_ops");
	if (!current_way || !extended || !*extended) {
		pr_warn("no PCI configuration by memory (MCFG) here: the start of a node may divert an access of the host to a device's configuration\n");
		return;
	}
	by_ports = *current_way;
	by_memory = *extended;
}

/* Under the lock. An access under way ends as it began. */
void pci_by_memory(bool yes)
{
	if (by_memory)
		WRITE_ONCE(*current_way, yes ? by_memory : by_ports);
}

/*
 * A function that is bound to this module by its driver_override: some node's, or waiting to be.
 * Its own lock: a driver's core holds the device's lock when it calls us, and osnode_lock may be
 * held when a node's functions are silenced.
 */
struct function {
	struct list_head list;
	struct pci_dev *device;
	struct pci_saved_state *fresh; /* its configuration as it was taken */
	struct holding *holding;
	typeof(&osnode_confine) confine; /* NULL: its DMA is not confined */
	struct iommu_domain *reach;
};

static DEFINE_MUTEX(functions_lock);
static LIST_HEAD(functions);

/* No DMA and no interrupt of it from here on, whatever was under way; its memory is as it was. */
static int reset(struct function *function)
{
	struct pci_dev *device = function->device;
	int error;

	pci_clear_master(device);
	/* A node may have put it to sleep, which this kernel has not seen. */
	device->current_state = PCI_UNKNOWN;
	pci_set_power_state(device, PCI_D0);
	/* Waits for what is under way. */
	error = __pci_reset_function_locked(device);
	/* That has no bus master. */
	pci_load_saved_state(device, function->fresh);
	pci_restore_state(device);
	return error;
}

static int function_probe(struct pci_dev *device, const struct pci_device_id *id)
{
	struct function *function = devm_kzalloc(&device->dev, sizeof(*function), GFP_KERNEL);

	/* Alone on its bus, whose configuration a node is shown, and with interrupts of its own. */
	if (device->hdr_type || pci_is_root_bus(device->bus) || !by_memory ||
	    !list_is_singular(&device->bus->devices) || !(device->msi_cap || device->msix_cap))
		return -EOPNOTSUPP;
	/* The bridges above it as well. */
	if (!function || pcim_enable_device(device))
		return -ENOMEM;
	function->device = device;
	pci_clear_master(device);
	pci_save_state(device);
	function->fresh = pci_store_saved_state(device);
	if (!function->fresh || reset(function)) {
		kfree(function->fresh);
		return -EIO;
	}
	pci_set_drvdata(device, function);
	mutex_lock(&functions_lock);
	list_add(&function->list, &functions);
	mutex_unlock(&functions_lock);
	return 0;
}

/* Whose it is from here on, and with `confined` all that its DMA reaches. */
static int give(struct function *function, struct holding *holding, bool confined)
{
	struct device *device = &function->device->dev;
	int error = 0;

	/* In a module of its own, which stays as long as something is confined. */
	if (function->confine) {
		function->confine(device, &function->reach, NULL);
		symbol_put(osnode_confine);
	}
	function->confine = confined ? symbol_request(osnode_confine) : NULL;
	if (confined)
		error = function->confine ? function->confine(device, &function->reach, holding) : -ENOPKG;
	function->holding = error ? NULL : holding;
	return error;
}

/* Also of one that a running node has: it goes on without. */
static void function_remove(struct pci_dev *device)
{
	struct function *function = pci_get_drvdata(device);

	mutex_lock(&functions_lock);
	list_del(&function->list);
	reset(function);
	give(function, NULL, false);
	mutex_unlock(&functions_lock);
	kfree(function->fresh);
}

struct pci_driver pci_functions = {
	.name = "kumiki-osnode",
	.probe = function_probe,
	.remove = function_remove,
	/* Nobody maps memory for it by the host's IOMMU. */
	.driver_managed_dma = true,
};

int pci_take(struct holding *holding, struct osnode_pci *wanted)
{
	struct function *function;
	int error = -ENODEV;

	if (holding->state == RUNNING)
		return -EBUSY;
	mutex_lock(&functions_lock);
	list_for_each_entry(function, &functions, list) {
		if (pci_domain_nr(function->device->bus) != wanted->segment ||
		    pci_dev_id(function->device) != wanted->function)
			continue;
		error = function->holding && function->holding != holding ? -EBUSY :
			give(function, wanted->give_back ? NULL : holding, wanted->confine);
	}
	mutex_unlock(&functions_lock);
	return error;
}

void pci_each(struct holding *holding, enum pci_what what)
{
	struct function *function;

	mutex_lock(&functions_lock);
	list_for_each_entry(function, &functions, list) {
		if (function->holding != holding)
			continue;
		if (what == PCI_RESET && reset(function))
			pci_err(function->device, "was not reset\n");
		pci_clear_master(function->device);
		if (what == PCI_LET_GO)
			give(function, NULL, false);
	}
	mutex_unlock(&functions_lock);
}
