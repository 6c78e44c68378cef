/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An interrupt of this kernel's that another kernel sends: a vector of the domain from which
 * devices have theirs. So it is handled as theirs are, by a thread where interrupts are threads,
 * listed in /proc/interrupts, and on the cpu that a person chooses. Where it is to be sent stands
 * in a word that both kernels see: 0, or the vector and, from bit 32 on, the APIC id.
 */
#ifndef OSNODE_VECTOR_H
#define OSNODE_VECTOR_H

#include <linux/bottom_half.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/version.h>
#include <asm/hw_irq.h>
#include <asm/irqdomain.h>
#include <asm/smp.h>

struct vector {
	unsigned int irq; /* 0: none. Changed while cpus can't go on- or offline */
	u64 *word;
	void (*rung)(struct vector *vector);
	struct irq_affinity_notify moved;
};

static inline void vector_publish(struct vector *vector)
{
	struct irq_data *data = irq_get_irq_data(vector->irq);
	unsigned int cpu = cpumask_first(irq_data_get_effective_affinity_mask(data));

	/* Not by a device's message: that names the cpu by a logical id, and only up to 255. */
	WRITE_ONCE(*vector->word,
		   (u64)per_cpu(x86_cpu_to_apicid, cpu) << 32 | irqd_cfg(data)->vector);
}

/*
 * It is elsewhere; when its cpu has gone the kernel says no word of that. What was sent to where it was
 * may have been lost: vector_settle(), once for all that have moved, and then as if it had come. All of
 * it while cpus can't go on- or offline otherwise.
 */
static inline void vector_follow(struct vector *vector)
{
	if (vector->irq)
		vector_publish(vector);
}

/* Who has read the old word sends at once. May sleep. */
static inline void vector_settle(void)
{
	usleep_range(1000, 2000);
}

static inline void vector_catch_up(struct vector *vector)
{
	if (!vector->irq)
		return;
	local_bh_disable();
	vector->rung(vector);
	local_bh_enable();
}

static inline void vector_again(struct vector *vector)
{
	vector_follow(vector);
	vector_settle();
	vector_catch_up(vector);
}

static inline void vector_moved(struct irq_affinity_notify *moved, const cpumask_t *cpus)
{
	cpus_read_lock();
	vector_again(container_of(moved, struct vector, moved));
	cpus_read_unlock();
}

static inline void vector_let_go(struct kref *ref)
{
}

static inline irqreturn_t vector_rung(int irq, void *data)
{
	struct vector *vector = data;

	vector->rung(vector);
	return IRQ_HANDLED;
}

/* Heard from now on; `word` says where. It is there while this kernel's devices sleep, too. */
static inline int vector_begin(struct vector *vector, const char *name, u64 *word,
			void (*rung)(struct vector *vector))
{
	struct irq_alloc_info info = {};
	int error, irq = irq_domain_alloc_irqs(x86_vector_domain, 1, NUMA_NO_NODE, &info);

	if (irq < 0)
		return irq;
	irq_set_handler(irq, handle_edge_irq);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
	/* Moved when that is asked, as later kernels do it, not when it next comes. */
	irq_set_status_flags(irq, IRQ_MOVE_PCNTXT);
#endif
	vector->word = word;
	vector->rung = rung;
	error = request_irq(irq, vector_rung, IRQF_NO_SUSPEND, name, vector);
	if (error) {
		irq_dispose_mapping(irq);
		return error;
	}
	/* Cpu 0 is not given away and seldom goes offline. */
	irq_set_affinity(irq, cpumask_of(0));
	vector->moved.notify = vector_moved;
	vector->moved.release = vector_let_go;
	cpus_read_lock();
	vector->irq = irq;
	cpus_read_unlock();
	error = irq_set_affinity_notifier(irq, &vector->moved);
	if (!error)
		vector_publish(vector);
	return error;
}

/* Once this has returned nobody is in `rung`. */
static inline void vector_end(struct vector *vector)
{
	unsigned int irq = vector->irq;

	if (!irq)
		return;
	cpus_read_lock();
	vector->irq = 0;
	WRITE_ONCE(*vector->word, 0);
	cpus_read_unlock();
	irq_set_affinity_notifier(irq, NULL);
	free_irq(irq, vector);
	irq_dispose_mapping(irq);
}

#endif
