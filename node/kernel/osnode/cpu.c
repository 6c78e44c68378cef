// SPDX-License-Identifier: GPL-2.0
/* Cpus: kept from the host, started and stopped by the local APIC, also one by one while their node runs. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/moduleparam.h>
#include <linux/xarray.h>

#include "ipi.h"
#include "osnode.h"
#include "symbols.h"

static bool no_broadcast;
module_param(no_broadcast, bool, 0444);
MODULE_PARM_DESC(no_broadcast, "the host was started with no_ipi_broadcast=1");

/* Written while cpus can't go on- or offline, read by the guard which is part of that. */
static struct cpumask claimed;
static DEFINE_XARRAY(owners); /* of APIC ids: holdings */
static int guard; /* of enum cpuhp_state */
static struct cpumask *booted_once;
static struct static_key *shorthand;

/* Onlining by the host would INIT a cpu that runs a node. */
static int refuse_claimed(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &claimed) ? -EBUSY : 0;
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
					  refuse_claimed, holdings_cpu_gone);
	return min(guard, 0);
}

void cpus_exit(void)
{
	cpuhp_remove_state_nocalls(guard);
}

/* The host's kernel has it off line, and it is nobody's. */
static int claim(struct holding *holding, unsigned int cpu)
{
	int error;

	if (cpu >= nr_cpu_ids || !cpu_present(cpu))
		return -ENODEV;
	if (cpu_online(cpu) || cpumask_test_cpu(cpu, &claimed))
		return -EBUSY;
	if (cpu_apic_id(cpu) >= OSNODE_APIC_IDS)
		return -EOPNOTSUPP;
	error = xa_err(xa_store(&owners, cpu_apic_id(cpu), holding, GFP_KERNEL));
	if (!error)
		cpumask_set_cpu(cpu, &claimed);
	return error;
}

int cpu_claim(struct holding *holding, struct osnode_cpu *request)
{
	unsigned int cpu = request->cpu;
	int error;

	if (holding->kind != OSNODE_NODE || request->apic_id || !cpu)
		return -EINVAL;
	if (!holding_may_change(holding))
		return -EBUSY;
	if (holding->cpus == (holding->shares ? 1 : OSNODE_CPUS))
		return -ENOSPC;
	cpus_read_lock();
	error = claim(holding, cpu);
	cpus_read_unlock();
	if (error)
		return error;
	holding->cpu[holding->cpus] = cpu;
	smp_store_release(&holding->cpus, holding->cpus + 1);
	request->apic_id = cpu_apic_id(cpu);
	if (holding->state == RUNNING) {
		cpu_keep_broadcasts_off(holding);
		smp_store_release(&holding->window->cpu[request->apic_id], OSNODE_CPU_OFF);
	}
	return 0;
}

/* One that waits for a SIPI. Brought online here: who asked for it may be killed meanwhile. */
static void bring_online(unsigned int cpu)
{
	cpus_read_lock();
	xa_erase(&owners, cpu_apic_id(cpu));
	cpumask_clear_cpu(cpu, &claimed);
	cpus_read_unlock();
	/* The machine may have lost it meanwhile. */
	if (!get_cpu_device(cpu) || add_cpu(cpu))
		pr_warn("cpu %u can't be brought online\n", cpu);
}

void cpu_free(struct holding *holding)
{
	while (holding->cpus)
		bring_online(holding->cpu[--holding->cpus]);
}

/* Its kernel has said that it has let go, and cannot take it again from here on. */
static int take_back(struct holding *holding, u32 apic_id)
{
	u8 *word = &holding->window->cpu[apic_id];
	int error;

	if (!holding_may_change(holding) || cmpxchg(word, OSNODE_CPU_OFF, OSNODE_CPU_NONE) != OSNODE_CPU_OFF)
		return -EBUSY;
	/* It is in that kernel's last loop, in memory that may go before the host starts it. */
	error = ipi_init(&apic_id, 1);
	if (error)
		smp_store_release(word, OSNODE_CPU_OFF);
	return error;
}

/* Under the lock, but while the host's kernel brings it online. */
int cpu_back(struct holding *holding, const struct osnode_cpu *request)
{
	unsigned int n = 0, cpu = request->cpu;
	int error;

	if (request->apic_id)
		return -EINVAL;
	while (n < holding->cpus && holding->cpu[n] != cpu)
		n++;
	if (n == holding->cpus)
		return -ENODEV;
	if (holding->state == RUNNING) {
		error = n ? take_back(holding, cpu_apic_id(cpu)) : -EBUSY;
		if (error)
			return error;
	}
	memmove(&holding->cpu[n], &holding->cpu[n + 1],
		(holding->cpus - n - 1) * sizeof(holding->cpu[0]));
	smp_store_release(&holding->cpus, holding->cpus - 1);
	mutex_unlock(&osnode_lock);
	bring_online(cpu);
	mutex_lock(&osnode_lock);
	return 0;
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

int cpu_stop(struct holding *holding)
{
	u32 apic_ids[OSNODE_CPUS];
	unsigned int n;

	for (n = 0; n < holding->cpus; n++)
		apic_ids[n] = cpu_apic_id(holding->cpu[n]);
	return ipi_init(apic_ids, holding->cpus);
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
	if (xa_load(&owners, where >> 32) == holding)
		ipi_bell(where);
	return 0;
}
EXPORT_SYMBOL_GPL(osnode_cpu_bell);
