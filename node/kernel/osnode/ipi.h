/* SPDX-License-Identifier: GPL-2.0 */
/* Interrupts to one cpu of the machine, whichever kernel it runs. */
#ifndef OSNODE_IPI_H
#define OSNODE_IPI_H

#include <linux/delay.h>
#include <asm/apic.h>
#include <asm/barrier.h>
#include <asm/irq_vectors.h>

/* What memory shows before an interrupt is there when that comes, also where it is sent by an MSR. */
static void ipi_send(u32 apic_id, u32 command)
{
	unsigned int waits;

	weak_wrmsr_fence();
	/* What this cpu has sent before must have gone. */
	for (waits = 0; waits < 1000 && apic->icr_read() & APIC_ICR_BUSY; waits++)
		udelay(1);
	apic->icr_write(command, apic_id);
}

static int ipi(u32 apic_id, u32 command)
{
	unsigned long flags;
	unsigned int turns = 0;

	local_irq_save(flags);
	ipi_send(apic_id, command);
	while (apic->icr_read() & APIC_ICR_BUSY && turns < 1000) {
		udelay(1);
		turns++;
	}
	local_irq_restore(flags);
	return turns < 1000 ? 0 : -EIO;
}

/* A bell, to where a word of the window says; without a look at whether it arrives. */
static inline void ipi_bell(u64 where)
{
	unsigned long flags;

	/* Those below are the processor's own. */
	if ((u8)where < FIRST_EXTERNAL_VECTOR)
		return;
	local_irq_save(flags);
	ipi_send(where >> 32, APIC_DM_FIXED | (u8)where);
	local_irq_restore(flags);
}

/*
 * The cpus execute nothing more and wait for a SIPI. Each is tried, and one wait is for all; the first
 * error counts. May sleep.
 */
static int ipi_init(const u32 *apic_ids, unsigned int cpus)
{
	unsigned int n;
	int now, error = 0;

	for (n = 0; n < cpus; n++) {
		now = ipi(apic_ids[n], APIC_INT_LEVELTRIG | APIC_INT_ASSERT | APIC_DM_INIT);
		error = error ?: now;
	}
	msleep(10);
	for (n = 0; n < cpus; n++)
		ipi(apic_ids[n], APIC_INT_LEVELTRIG | APIC_DM_INIT);
	return error;
}

/*
 * It begins at an address below 1 MiB, and then writes to `begun`. A SIPI that finds a cpu
 * not waiting for one is lost, so it is sent again: to one that has begun it does nothing.
 */
static int ipi_start(u32 apic_id, phys_addr_t address, const u64 *begun)
{
	u32 sipi = APIC_DM_STARTUP | address >> PAGE_SHIFT;
	int error = ipi_init(&apic_id, 1) ?: ipi(apic_id, sipi);
	unsigned int turns;

	udelay(300);
	for (turns = 0; !error && !READ_ONCE(*begun) && turns < 200; turns++) {
		error = ipi(apic_id, sipi);
		msleep(turns < 10 ? 1 : 20);
	}
	return error;
}

#endif
