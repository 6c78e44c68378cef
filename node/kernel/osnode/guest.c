// SPDX-License-Identifier: GPL-2.0
/*
 * In a node: what would restart or switch off the machine halts the node, its
 * log and last word go to the shared window, and doorbells ring both ways.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/console.h>
#include <linux/cpu.h>
#include <linux/ftrace.h>
#include <linux/io.h>
#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/panic_notifier.h>
#include <linux/platform_device.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <asm/msr.h>
#include <asm/text-patching.h>

#include <osnode.h>
#include "bell.h"
#include "guest.h"
#include "ipi.h"
#include "sleep.h"
#include "vector.h"

static ulong window_address;
module_param_named(window, window_address, ulong, 0444);
MODULE_PARM_DESC(window, "physical address of the shared window");

static ulong root[2];
module_param_array(root, ulong, NULL, 0444);
MODULE_PARM_DESC(root, "physical address and bytes of memory that is to be /dev/pmem0");

static struct osnode_window *window;
static struct osnode_bus *bus;
static struct resource root_resource = {
	.name = "Persistent Memory (legacy)",
	.flags = IORESOURCE_MEM,
	.desc = IORES_DESC_PERSISTENT_MEMORY_LEGACY,
};
static struct vector bell;
static struct bells for_agent = { .queue = __WAIT_QUEUE_HEAD_INITIALIZER(for_agent.queue) };
static void (*device_bell)(void);

static void ring_host(u32 whom)
{
	atomic_or(whom, (atomic_t *)&bus->calls);
	ipi_bell(READ_ONCE(window->host_bell));
}

/* What the module for devices needs of this one. */
struct osnode_bus *osnode_bus(void)
{
	return bus;
}
EXPORT_SYMBOL_GPL(osnode_bus);

void osnode_ring_server(void)
{
	ring_host(OSNODE_FOR_DEVICES);
}
EXPORT_SYMBOL_GPL(osnode_ring_server);

void osnode_on_bell(void (*call)(void))
{
	smp_store_release(&device_bell, call);
}
EXPORT_SYMBOL_GPL(osnode_on_bell);

/* In an interrupt, or in its thread. */
static void bell_rung(struct vector *bell)
{
	u32 whom = xchg(&bus->bells, 0);
	void (*call)(void) = smp_load_acquire(&device_bell);

	if (whom & OSNODE_FOR_CHANNELS)
		bells_ring(&for_agent);
	if (whom & OSNODE_FOR_DEVICES && call)
		call();
}

static void say(enum osnode_word word)
{
	/* Who sleeps wakes to an empty window. */
	if (word == OSNODE_BOOTING) {
		vector_publish(&bell);
		hotplug_begin(window);
	}
	/* The message, if there is one, comes before the word. */
	smp_store_release(&window->state, word);
	ring_host(OSNODE_FOR_CHANNELS | OSNODE_FOR_DEVICES);
}

/* The last word, and nothing after it: the platform is the host's. */
struct ending {
	struct kprobe probe;
	const char *function;
	enum osnode_word word;
};

static void end_with(enum osnode_word word)
{
	local_irq_disable();
	/* A panic that ends in a halt stays a panic. */
	if (READ_ONCE(window->state) != OSNODE_PANIC)
		say(word);
	for (;;)
		asm volatile("cli; hlt");
}

static int end(struct kprobe *probe, struct pt_regs *registers)
{
	end_with(container_of(probe, struct ending, probe)->word);
	return 0;
}

static struct ending endings[] = {
	{ .function = "native_machine_emergency_restart", .word = OSNODE_RESTART },
	{ .function = "machine_real_restart", .word = OSNODE_RESTART },
	{ .function = "native_machine_power_off", .word = OSNODE_POWERED_OFF },
	{ .function = "native_machine_halt", .word = OSNODE_HALTED },
};

/* Not at the function's site for ftrace, where a probe is silent while ftrace is switched off. */
static int ending_begin(struct ending *ending)
{
	static const u8 site[MCOUNT_INSN_SIZE] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	struct kprobe first = { .symbol_name = ending->function };
	int error = register_kprobe(&first);

	if (error)
		return error;
	unregister_kprobe(&first);
	ending->probe.addr = first.addr;
	if (!memcmp(first.addr, site, sizeof(site)) || *(u8 *)first.addr == CALL_INSN_OPCODE)
		ending->probe.addr = (void *)first.addr + MCOUNT_INSN_SIZE;
	ending->probe.pre_handler = end;
	return register_kprobe(&ending->probe);
}

/* Probes can be switched off as well: the instruction is an int3 or a jump while they are not. */
static bool is_armed(const struct ending *ending)
{
	u8 first = READ_ONCE(*(u8 *)ending->probe.addr);

	return first == INT3_INSN_OPCODE || first == JMP32_INSN_OPCODE;
}

/* The last of these, before the kernel shuts its devices down. */
static int reboots(struct notifier_block *block, unsigned long event, void *command)
{
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(endings); n++)
		if (!is_armed(&endings[n]))
			end_with(event == SYS_POWER_OFF ? OSNODE_POWERED_OFF :
				 event == SYS_HALT ? OSNODE_HALTED : OSNODE_RESTART);
	return NOTIFY_DONE;
}

static struct notifier_block reboot_block = { .notifier_call = reboots, .priority = INT_MIN };

static int panicked(struct notifier_block *block, unsigned long event, void *text)
{
	strscpy(window->message, text, sizeof(window->message));
	say(OSNODE_PANIC);
	return NOTIFY_DONE;
}

static struct notifier_block panic_block = { .notifier_call = panicked };

static void log_write(struct console *console, const char *text, unsigned int length)
{
	char *ring = (char *)window + OSNODE_LOG_AT;
	u64 head = window->log_head;

	while (length--)
		ring[head++ % OSNODE_LOG_BYTES] = *text++;
	smp_store_release(&window->log_head, head);
}

static struct console log_console = {
	.name = "osnode",
	.write = log_write,
	.flags = CON_PRINTBUFFER | CON_ENABLED | CON_ANYTIME,
	.index = -1,
};

static u8 *word_of(unsigned int cpu)
{
	u32 apic_id = per_cpu(x86_cpu_to_apicid, cpu);

	return apic_id < OSNODE_APIC_IDS ? &window->cpu[apic_id] : NULL;
}

/* Before anything is sent to it: from here on the host does not take it back. */
static int cpu_comes(unsigned int cpu)
{
	u8 *word = word_of(cpu);

	if (word && cmpxchg(word, OSNODE_CPU_OFF, OSNODE_CPU_ON) == OSNODE_CPU_OFF)
		return 0;
	pr_err("cpu %u is not this node's\n", cpu);
	return -EPERM;
}

/* It has told this kernel, which has waited for it, that it does nothing more but to idle. */
static int cpu_went(unsigned int cpu)
{
	u8 *word = word_of(cpu);

	vector_again(&bell);
	if (word)
		cmpxchg(word, OSNODE_CPU_ON, OSNODE_CPU_OFF);
	return 0;
}

/* Those that the kernel has started before this module, or an earlier one that has ended had. */
static void cpus_begin(void)
{
	unsigned int cpu;
	u8 *word;

	cpus_read_lock();
	for_each_possible_cpu(cpu) {
		word = word_of(cpu);
		if (word && *word != OSNODE_CPU_NONE)
			WRITE_ONCE(*word, cpu_online(cpu) ? OSNODE_CPU_ON : OSNODE_CPU_OFF);
	}
	cpus_read_unlock();
}

/* As a write to its file in /sys does it. */
static int cpu_change(unsigned long apic_id, bool on)
{
	unsigned int cpu;

	for_each_present_cpu(cpu)
		if (per_cpu(x86_cpu_to_apicid, cpu) == apic_id && get_cpu_device(cpu))
			return min(on ? add_cpu(cpu) : remove_cpu(cpu), 0);
	return -ENODEV;
}

/* A descriptor's own is how many doorbells its readers have been told of. */
static int guest_open(struct inode *inode, struct file *file)
{
	struct hearer *hearer = kzalloc(sizeof(*hearer), GFP_KERNEL);

	if (!hearer)
		return -ENOMEM;
	hearer_begin(hearer, &for_agent);
	file->private_data = hearer;
	return 0;
}

static int guest_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

/*
 * Another node, which the host has lent to this one: its cpus and where they
 * begin are as the host's module wrote them, and the host leaves them alone as
 * long as the window says that it is being started.
 */
static int guest_other(unsigned long address, bool start)
{
	struct osnode_window *other = memremap(address, PAGE_SIZE, MEMREMAP_WB);
	int error = -ESTALE;

	if (!other)
		return -ENXIO;
	if (other->magic != OSNODE_WINDOW_MAGIC || other->version != OSNODE_VERSION ||
	    READ_ONCE(other->lent) != OSNODE_STARTING || other->cpus > OSNODE_CPUS)
		goto unmap;
	error = 0;
	if (start) {
		other->stamp_sipi = rdtsc_ordered();
		error = ipi_start(other->apic_ids[0], other->slice,
				  &other->stamp_trampoline);
	} else {
		error = ipi_init(other->apic_ids, other->cpus);
	}
unmap:
	memunmap(other);
	return error;
}

static long guest_ioctl(struct file *file, unsigned int request, unsigned long value)
{
	switch (request) {
	case OSNODE_IOC_BELL:
		if (value)
			return -EINVAL;
		ring_host(OSNODE_FOR_CHANNELS);
		return 0;
	case OSNODE_GUEST_IOC_INIT:
	case OSNODE_GUEST_IOC_START:
		return guest_other(value, request == OSNODE_GUEST_IOC_START);
	case OSNODE_GUEST_IOC_CPU_ON:
	case OSNODE_GUEST_IOC_CPU_OFF:
		return cpu_change(value, request == OSNODE_GUEST_IOC_CPU_ON);
	case OSNODE_GUEST_IOC_MEMORY_ON:
	case OSNODE_GUEST_IOC_MEMORY_OFF:
		return hotplug_change(value, request == OSNODE_GUEST_IOC_MEMORY_ON);
	case OSNODE_GUEST_IOC_SLEEP:
		return value ? -EINVAL : sleep_now();
	default:
		return -ENOTTY;
	}
}

static int guest_mmap(struct file *file, struct vm_area_struct *vma)
{
	return vm_iomap_memory(vma, window_address, OSNODE_WINDOW_BYTES);
}

static const struct file_operations guest_operations = {
	.owner = THIS_MODULE,
	.open = guest_open,
	.release = guest_release,
	.read = bell_read,
	.poll = bell_poll,
	.unlocked_ioctl = guest_ioctl,
	.mmap = guest_mmap,
	.llseek = noop_llseek,
};

static struct miscdevice guest_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kumiki-osnode-guest",
	.fops = &guest_operations,
	.mode = 0600,
};

/*
 * The table of memory names it already, but the kernel makes resources of such ranges while it
 * looks for PCI devices, which a node does not. The driver nd_e820 looks for this device.
 */
static int root_add(void)
{
	struct platform_device *device;
	int error;

	if (!root[1])
		return 0;
	root_resource.start = root[0];
	root_resource.end = root[0] + root[1] - 1;
	error = request_resource(&iomem_resource, &root_resource);
	if (error)
		return error;
	device = platform_device_register_simple("e820_pmem", PLATFORM_DEVID_NONE, NULL, 0);
	return PTR_ERR_OR_ZERO(device);
}

static int __init guest_init(void)
{
	int error, n, moves;

	/* As the host's module and all others have it. */
	BUILD_BUG_ON(offsetof(struct osnode_window, stamp_sipi) != 0x40);
	BUILD_BUG_ON(offsetof(struct osnode_window, apic_ids) != 0x180);
	BUILD_BUG_ON(offsetof(struct osnode_window, cpu) != 0x280);
	BUILD_BUG_ON(offsetof(struct osnode_window, channels) != 0x1000);
	BUILD_BUG_ON(sizeof(struct osnode_channel) != 512);
	BUILD_BUG_ON(sizeof(struct osnode_bus) != 0x1000);
	BUILD_BUG_ON(sizeof(struct osnode_slot) != 0x1000);
	window = memremap(window_address, OSNODE_WINDOW_BYTES, MEMREMAP_WB);
	if (!window)
		return -ENXIO;
	error = -EPROTO;
	if (window->magic != OSNODE_WINDOW_MAGIC || window->version != OSNODE_VERSION) {
		pr_err("no window of version %u at %#lx: this is no node, or another host's module\n",
		       OSNODE_VERSION, window_address);
		goto unmap;
	}
	bus = (void *)window + OSNODE_BUS_AT;
	window->stamp_module = rdtsc_ordered();
	for (n = 0; n < ARRAY_SIZE(endings); n++) {
		error = ending_begin(&endings[n]);
		if (error) {
			pr_err("%s can't be kept from the platform: %d\n",
			       endings[n].function, error);
			goto probes;
		}
	}
	error = vector_begin(&bell, "kumiki-host", &window->node_bell, bell_rung);
	if (error)
		goto probes;
	moves = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "kumiki/osnode:cpus", cpu_comes,
					  cpu_went);
	error = min(moves, 0) ?: misc_register(&guest_device);
	if (error)
		goto bell;
	cpus_begin();
	atomic_notifier_chain_register(&panic_notifier_list, &panic_block);
	register_reboot_notifier(&reboot_block);
	register_console(&log_console);
	sleep_init(window, say);
	say(OSNODE_BOOTING);
	/* A node without it can be asked why. */
	error = root_add();
	if (error)
		pr_err("no device for the root at %#lx: %d\n", root[0], error);
	return 0;
bell:
	if (moves >= 0)
		cpuhp_remove_state_nocalls(moves);
	vector_end(&bell);
probes:
	while (n--)
		unregister_kprobe(&endings[n].probe);
unmap:
	memunmap(window);
	return error;
}

/* No exit: without the module a restart of the node would restart the machine. */
module_init(guest_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: a Linux kernel as an OS node");
MODULE_VERSION("0.1.0");
