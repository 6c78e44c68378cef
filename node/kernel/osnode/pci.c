// SPDX-License-Identifier: GPL-2.0
/*
 * PCI: the host's way to configuration space, and who hears of nodes that end. Ports 0xcf8 and 0xcfc
 * are one pair of registers for the whole machine, address and data, and each node's kernel reads by
 * them up to three times before it knows pci=off: between the host's write of an address and its
 * access to the data, that would go elsewhere. So while nodes run the host takes the other
 * way, by memory (ECAM), which has no such state.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/notifier.h>
#include <asm/pci_x86.h>

#include "osnode.h"
#include "symbols.h"

static const struct pci_raw_ops **current_way;
static const struct pci_raw_ops *by_ports, *by_memory;
BLOCKING_NOTIFIER_HEAD(osnode_functions);
EXPORT_SYMBOL_GPL(osnode_functions);

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

int pci_tell(struct holding *holding, enum pci_what what, struct osnode_pci *wanted)
{
	struct pci_change change = { holding, wanted };
	int said = blocking_notifier_call_chain(&osnode_functions, what, &change);

	return said == NOTIFY_DONE ? -ENODEV : notifier_to_errno(said);
}
