// SPDX-License-Identifier: GPL-2.0
/*
 * In the host: PCI functions that nodes have. A driver to which they are bound by their driver_override.
 * Apart from osnode.ko, which says when a node ends and when its memory goes: a host whose nodes
 * have none has no need of it.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>

#include "osnode.h"
#include "symbols.h"

/*
 * Some node's, or waiting to be. Its own lock: a driver's core holds the device's lock when it
 * calls us, and osnode_lock may be held when a node's functions are silenced. The module stays as
 * long as one is a node's.
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
	if (device->hdr_type || pci_is_root_bus(device->bus) ||
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

	if (function->holding)
		module_put(THIS_MODULE);
	function->holding = NULL;
	/* In a module of its own, which stays as long as something is confined. */
	if (function->confine) {
		function->confine(device, &function->reach, NULL);
		symbol_put(osnode_confine);
	}
	function->confine = confined ? symbol_request(osnode_confine) : NULL;
	if (confined)
		error = function->confine ? function->confine(device, &function->reach, holding) : -ENOPKG;
	if (!error && holding) {
		__module_get(THIS_MODULE);
		function->holding = holding;
	}
	return error;
}

static bool is_in_use(const struct function *function)
{
	bool is;

	mutex_lock(&functions_lock);
	is = function->holding && READ_ONCE(function->holding->state) == RUNNING;
	mutex_unlock(&functions_lock);
	return is;
}

/*
 * A driver of this kernel would drive it beside the node's: whoever unbinds it by hand waits until
 * the node has ended. Of one that was pulled out, or by who is killed, it goes at once, and the node
 * goes on without.
 */
static void function_remove(struct pci_dev *device)
{
	struct function *function = pci_get_drvdata(device);

	while (!(current->flags & PF_KTHREAD) && is_in_use(function) && !fatal_signal_pending(current))
		schedule_timeout_killable(HZ / 10);
	mutex_lock(&functions_lock);
	list_del(&function->list);
	reset(function);
	give(function, NULL, false);
	mutex_unlock(&functions_lock);
	kfree(function->fresh);
}

static struct pci_driver driver = {
	.name = "kumiki-osnode",
	.probe = function_probe,
	.remove = function_remove,
	/* Nobody maps memory for it by the host's IOMMU. */
	.driver_managed_dma = true,
};

static bool is_wanted(const struct function *function, const struct osnode_pci *wanted)
{
	return pci_domain_nr(function->device->bus) == wanted->segment &&
	       pci_dev_id(function->device) == wanted->function;
}

static int take(struct function *function, const struct pci_change *change)
{
	const struct osnode_pci *wanted = change->wanted;

	if (function->holding && function->holding != change->holding)
		return -EBUSY;
	return give(function, wanted->give_back ? NULL : change->holding, wanted->confine);
}

static void end(struct function *function, unsigned long what)
{
	if (what == PCI_RESET && reset(function))
		pci_err(function->device, "was not reset\n");
	pci_clear_master(function->device);
	if (what == PCI_LET_GO)
		give(function, NULL, false);
}

/* Also where it gives up the last function: the end of this module waits for the chain. */
static int changes(struct notifier_block *block, unsigned long what, void *data)
{
	const struct pci_change *change = data;
	struct function *function;
	int error = -ENODEV;

	mutex_lock(&functions_lock);
	list_for_each_entry(function, &functions, list) {
		if (what == PCI_TAKE && is_wanted(function, change->wanted))
			error = take(function, change);
		else if (what != PCI_TAKE && function->holding == change->holding)
			end(function, what);
	}
	mutex_unlock(&functions_lock);
	return what == PCI_TAKE ? notifier_from_errno(error) : NOTIFY_OK;
}

static struct notifier_block block = { .notifier_call = changes };

static int __init functions_init(void)
{
	void **by_memory = (void **)symbol("raw_pci_ext_ops");
	int error;

	if (!by_memory || !*by_memory) {
		pr_err("no PCI configuration by memory (MCFG) here, and a node reaches its functions by no other way\n");
		return -EOPNOTSUPP;
	}
	error = pci_register_driver(&driver);
	return error ?: blocking_notifier_chain_register(&osnode_functions, &block);
}

/* None is a node's: each would hold the module. */
static void __exit functions_exit(void)
{
	blocking_notifier_chain_unregister(&osnode_functions, &block);
	pci_unregister_driver(&driver);
}

module_init(functions_init);
module_exit(functions_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: PCI functions of OS nodes");
MODULE_VERSION("0.1.0");
