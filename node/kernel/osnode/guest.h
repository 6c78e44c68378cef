/* SPDX-License-Identifier: GPL-2.0 */
/* In a node: what the parts of its modules have of one another. */
#ifndef OSNODE_GUEST_H
#define OSNODE_GUEST_H

#include <osnode.h>

struct osnode_bus *osnode_bus(void);
/* Interrupts the host, for who serves the devices. */
void osnode_ring_server(void);
/* Called in the interrupt of a bell for devices, from now on. */
void osnode_on_bell(void (*call)(void));

/* Memory that comes and goes, by its address; `begin` says in which steps. */
void hotplug_begin(void *window);
int hotplug_change(u64 address, bool on);

#endif
