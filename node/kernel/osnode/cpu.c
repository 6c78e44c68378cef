// SPDX-License-Identifier: GPL-2.0
/* Cpus: kept from the host, started and stopped by the local APIC. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/moduleparam.h>
#include <asm/smp.h>

#include "ipi.h"
#include "osnode.h"
#include "symbols.h"

/* 8 bits hold an id in the table that a node's kernel reads, and 255 is all. */
#define LAST_APIC_ID 254

static bool no_broadcast;
module_param(no_broadcast, bool, 0444);
MODULE_PARM_DESC(no_broadcast, "the host was started with no_ipi_broadcast=1");

/* Written while cpus can't go on- or offline, read by the guard which is part of that. */
static struct cpumask claimed;
static int guard; /* of enum cpuhp_state */
static struct cpumask *booted_once;
static struct static_key *shorthand;

/* Onlining by the host would INIT a cpu that runs a node. */
static int refuse_claimed(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &claimed) ? -EBUSY : 0;
}

static int moved(unsigned int cpu)
{
	holdings_cpu_gone();
	return 0;
}

int cpus_init(void)
{
	booted_once = (void *)symbol("cpus_booted_once_mask");
	shorthand = (void *)symbol("apic_use_ipi_shorthand");
	if ((!booted_once || !shorthand) && !no_broadcast) {
		pr_err("this kernel has no %s, by which broadcasts are kept off nodes: start the host with no_ipi_broadcast=1 and load with no_broadcast=1\n",
		       booted_once ? "apic_use_ipi_shorthand" : "cpus_booted_once_mask");
		return -ENOENT;
	}
	guard = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "kumiki/osnode:guard",
					  refuse_claimed, moved);
	return min(guard, 0);
}

void cpus_exit(void)
{
	cpuhp_remove_state_nocalls(guard);
}

u32 cpu_apic_id(unsigned int cpu)
{
	return per_cpu(x86_cpu_to_apicid, cpu);
}

int cpu_claim(struct holding *holding, struct osnode_cpu *request)
{
	unsigned int cpu = request->cpu;
	int error = 0;

	if (holding->kind != OSNODE_NODE || request->apic_id || !cpu)
		return -EINVAL;
	if (holding->state == RUNNING)
		return -EBUSY;
	if (holding->cpus == OSNODE_CPUS)
		return -ENOSPC;
	cpus_read_lock();
	if (cpu >= nr_cpu_ids || !cpu_present(cpu))
		error = -ENODEV;
	else if (cpu_online(cpu) || cpumask_test_cpu(cpu, &claimed))
		error = -EBUSY;
	else if (cpu_apic_id(cpu) > LAST_APIC_ID)
		error = -EOPNOTSUPP;
	else
		cpumask_set_cpu(cpu, &claimed);
	cpus_read_unlock();
	if (error)
		return error;
	holding->cpu[holding->cpus] = cpu;
	smp_store_release(&holding->cpus, holding->cpus + 1);
	request->apic_id = cpu_apic_id(cpu);
	return 0;
}

/* They wait for a SIPI. Brought online here: who asked for it may be killed meanwhile. */
void cpu_free(struct holding *holding)
{
	unsigned int cpu;

	while (holding->cpus) {
		cpu = holding->cpu[--holding->cpus];
		cpus_read_lock();
		cpumask_clear_cpu(cpu, &claimed);
		cpus_read_unlock();
		/* The machine may have lost it meanwhile. */
		if (!get_cpu_device(cpu) || add_cpu(cpu))
			pr_warn("cpu %u can't be brought online\n", cpu);
	}
}

/*
 * The host sends to "all but self" in one write when it believes that every cpu
 * is its own. To a cpu that waits for a SIPI such an interrupt can be the end of
 * the machine, and to a node it is somebody else's. The key comes back by itself
 * once the host has onlined every cpu.
 */
void cpu_keep_broadcasts_off(struct holding *holding)
{
	unsigned int n;

	if (!booted_once || !shorthand)
		return;
	cpus_read_lock();
	for (n = 0; n < holding->cpus; n++)
		cpumask_clear_cpu(holding->cpu[n], booted_once);
	cpus_read_unlock();
	static_key_disable(shorthand);
}

/* The first cpu alone: the node's kernel starts the others. */
int cpu_start(struct holding *holding)
{
	return ipi_start(cpu_apic_id(holding->cpu[0]), holding->slice,
			 &holding->window->stamp_trampoline);
}

/* Each is tried; the first error counts. */
int cpu_stop(struct holding *holding)
{
	unsigned int n;
	int now, error = 0;

	for (n = 0; n < holding->cpus; n++) {
		now = ipi_init(cpu_apic_id(holding->cpu[n]));
		error = error ?: now;
	}
	return error;
}

static bool has_apic_id(struct holding *holding, u32 apic_id)
{
	unsigned int n;

	for (n = 0; n < holding->cpus; n++)
		if (cpu_apic_id(holding->cpu[n]) == apic_id)
			return true;
	return false;
}

/* Under the lock, or RCU's of a descriptor that is attached. */
int osnode_cpu_bell(struct holding *holding, u32 whom)
{
	struct osnode_window *window = holding->window;
	u64 where;
	u32 word;

	if (READ_ONCE(holding->state) != RUNNING)
		return -ENOTCONN;
	/* A cpu that waits for a SIPI, or whose kernel is not ready for it, hears nothing. */
	word = READ_ONCE(window->state);
	if (READ_ONCE(window->lent) == OSNODE_STARTING || word < OSNODE_BOOTING ||
	    word >= OSNODE_HALTED)
		return 0;
	atomic_or(whom, (atomic_t *)&bus_of(window)->bells);
	/* The node's word: none but its own cpus. */
	where = READ_ONCE(window->node_bell);
	if (has_apic_id(holding, where >> 32))
		ipi_bell(where);
	return 0;
}
EXPORT_SYMBOL_GPL(osnode_cpu_bell);
