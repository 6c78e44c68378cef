// SPDX-License-Identifier: GPL-2.0
/*
 * In a node: suspend to memory with platform operations of our own. The stock kernel syncs,
 * freezes, has its devices sleep, stops its other cpus; the last one says KEPT and halts.
 * The host copies the memory. In a copy the start's trampoline jumps to osnode_wake, and the
 * kernel goes on as after any sleep. docs/design/node-snapshots.md has the sequence.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/objtool.h>
#include <linux/random.h>
#include <linux/suspend.h>
#include <linux/timekeeping.h>
#include <linux/version.h>
#include <asm/apicdef.h>
#include <asm/desc.h>
#include <asm/ibt.h>
#include <asm/io.h>
#include <asm/msr.h>
#include <asm/tsc.h>

#include "sleep.h"
#include "symbols.h"

/* As they were called before. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#define rdmsrq rdmsrl
#define wrmsrq wrmsrl
#endif

#ifdef CONFIG_SUSPEND

static struct osnode_window *window;
static struct osnode_sleep *note;
static void (*say)(enum osnode_word word);
static unsigned long save_state, restore_state, reseed;

/* Who sleeps by our request: a sleep by /sys/power has nobody who wakes it. */
static struct task_struct *asker;
/* It came back from `sleep_enter`, and not all is done that follows from that. */
static bool awake, slept;

/*
 * What the first cpu was doing: where it returns to, stack, rbx, rbp, r12 to r15, page tables,
 * its per-cpu base. Not on the stack, which goes on being used until it halts.
 */
static u64 osnode_kept[10] __used;
static struct desc_ptr osnode_kept_gdt __used;

/* Returns 0, and once more 1 when the node wakes up. */
int osnode_twice(void) __attribute__((returns_twice));
/* In 64-bit mode by the start's page tables, of which the upper half is this kernel's. */
void osnode_wake(void);
/* Of a function that is not to be called. */
void osnode_return(void);

asm(".pushsection .text\n"
    ".type osnode_twice, @function\n"
    "osnode_twice:\n\t"
	ASM_ENDBR
    "	movq (%rsp), %rax\n"
    "	movq %rax, osnode_kept(%rip)\n"
    "	leaq 8(%rsp), %rax\n"
    "	movq %rax, osnode_kept+8(%rip)\n"
    "	movq %rbx, osnode_kept+16(%rip)\n"
    "	movq %rbp, osnode_kept+24(%rip)\n"
    "	movq %r12, osnode_kept+32(%rip)\n"
    "	movq %r13, osnode_kept+40(%rip)\n"
    "	movq %r14, osnode_kept+48(%rip)\n"
    "	movq %r15, osnode_kept+56(%rip)\n"
    "	xorl %eax, %eax\n\t"
	ASM_RET
    ".size osnode_twice, . - osnode_twice\n"
    ".type osnode_wake, @function\n"
    "osnode_wake:\n\t"
	ASM_ENDBR
    "	movq osnode_kept+64(%rip), %rax\n"
    "	movq %rax, %cr3\n"
    "	lgdt osnode_kept_gdt(%rip)\n"
    "	movl $" __stringify(__KERNEL_DS) ", %eax\n"
    "	movl %eax, %ds\n"
    "	movl %eax, %es\n"
    "	movl %eax, %ss\n"
    "	xorl %eax, %eax\n"
    "	movl %eax, %fs\n"
    "	movl %eax, %gs\n"
    "	movq osnode_kept+8(%rip), %rsp\n"
    "	pushq $" __stringify(__KERNEL_CS) "\n"
    "	leaq 1f(%rip), %rax\n"
    "	pushq %rax\n"
    "	lretq\n"
    "1:	movl $" __stringify(MSR_GS_BASE) ", %ecx\n"
    "	movl osnode_kept+72(%rip), %eax\n"
    "	movl osnode_kept+76(%rip), %edx\n"
    "	wrmsr\n"
    "	movq osnode_kept+16(%rip), %rbx\n"
    "	movq osnode_kept+24(%rip), %rbp\n"
    "	movq osnode_kept+32(%rip), %r12\n"
    "	movq osnode_kept+40(%rip), %r13\n"
    "	movq osnode_kept+48(%rip), %r14\n"
    "	movq osnode_kept+56(%rip), %r15\n"
    "	movl $1, %eax\n"
    "	pushq osnode_kept(%rip)\n\t"
	ASM_RET
    ".size osnode_wake, . - osnode_wake\n"
    ".type osnode_return, @function\n"
    "osnode_return:\n\t"
	ASM_ENDBR
	ASM_RET
    ".size osnode_return, . - osnode_return\n"
    ".popsection\n");
STACK_FRAME_NON_STANDARD(osnode_twice);
STACK_FRAME_NON_STANDARD(osnode_wake);

/*
 * Runs of at least so many free pages; how many runs, or 0: there are more than have room.
 * With interrupts off on the last cpu nothing takes or frees a page.
 */
static unsigned int free_runs(u64 *runs, unsigned long least)
{
	unsigned long pfn, end, first = 0, pages = 0, more;
	unsigned int node, count = 0;
	struct zone *zone;

	for_each_online_node(node)
	for (zone = NODE_DATA(node)->node_zones;
	     zone < NODE_DATA(node)->node_zones + MAX_NR_ZONES; zone++) {
		end = zone_end_pfn(zone);
		for (pfn = zone->zone_start_pfn; pfn < end; pfn += more) {
			more = 1;
			if (!pfn_valid(pfn)) {
				more = ALIGN(pfn + 1, PAGES_PER_SUBSECTION) - pfn;
				continue;
			}
			if (!PageBuddy(pfn_to_page(pfn)))
				continue;
			more = 1UL << page_private(pfn_to_page(pfn));
			if (first + pages == pfn && pages + more < BIT(64 - OSNODE_RUN_SHIFT)) {
				pages += more;
				continue;
			}
			if (pages >= least) {
				if (count == OSNODE_FREE_RUNS)
					return 0;
				runs[count++] = (u64)pages << OSNODE_RUN_SHIFT | first;
			}
			first = pfn;
			pages = more;
		}
	}
	if (pages >= least && count < OSNODE_FREE_RUNS)
		runs[count++] = (u64)pages << OSNODE_RUN_SHIFT | first;
	return count;
}

/* Free pages may hold anything when the node wakes, unless the kernel relies on what they hold. */
static void note_free(void)
{
	u64 *runs = (void *)window + OSNODE_FREE_AT;
	unsigned long least;

	note->runs = 0;
	if (want_init_on_free() || page_poisoning_enabled_static())
		return;
	/* What is left out is kept, small runs first: that costs memory alone. */
	for (least = 1; !note->runs && least < BIT(20); least *= 4)
		note->runs = free_runs(runs, least);
}

/* The state that a cpu has after INIT and that no function of the kernel's restores. */
struct bare {
	u64 apic, tsc_aux;
};

static void bare_save(struct bare *bare)
{
	rdmsrq(MSR_IA32_APICBASE, bare->apic);
	if (boot_cpu_has(X86_FEATURE_RDTSCP))
		rdmsrq(MSR_TSC_AUX, bare->tsc_aux);
}

static void bare_restore(const struct bare *bare)
{
	u64 apic;

	rdmsrq(MSR_IA32_APICBASE, apic);
	if (bare->apic & ~apic & X2APIC_ENABLE)
		wrmsrq(MSR_IA32_APICBASE, bare->apic);
	if (boot_cpu_has(X86_FEATURE_RDTSCP))
		wrmsrq(MSR_TSC_AUX, bare->tsc_aux);
}

/* But for this one: whoever starts a node again and again leaves its last run's words there. */
static void cpus_are_off(void)
{
	unsigned int n;

	for (n = 0; n < OSNODE_APIC_IDS; n++)
		if (window->cpu[n] == OSNODE_CPU_ON && n != window->apic_ids[0])
			window->cpu[n] = OSNODE_CPU_OFF;
}

/* On the last cpu, with interrupts off. */
static noinline int sleep_enter(suspend_state_t state)
{
	static struct bare bare;

	call_sealed(save_state, 0, 0, 0, 0);
	bare_save(&bare);
	native_store_gdt(&osnode_kept_gdt);
	/* Without the bits of a process: those need CR4 as it is now. */
	osnode_kept[8] = __read_cr3() & ~0xfffUL;
	rdmsrq(MSR_GS_BASE, osnode_kept[9]);
	if (osnode_twice()) {
		/* CR0 does not protect what is read only yet: the node's own trampoline is. */
		memcpy(phys_to_virt(window->slice), note->covered, sizeof(note->covered));
		bare_restore(&bare);
		call_sealed(restore_state, 0, 0, 0, 0);
		cpus_are_off();
		window->stamp_init = rdtsc_ordered();
		awake = true;
		return 0;
	}
	note_free();
	note->wake = (unsigned long)osnode_wake;
	note->tables = osnode_kept[8];
	say(OSNODE_KEPT);
	for (;;)
		asm volatile("cli; hlt");
}
STACK_FRAME_NON_STANDARD(sleep_enter);

static int sleep_begin(suspend_state_t state)
{
	return READ_ONCE(asker) == current ? 0 : -EPERM;
}

/*
 * Before a device or a program goes on: two copies of one memory must not draw the same
 * numbers. The kernel's own notifier reseeds, too, but after programs have been thawed.
 */
static void sleep_wake(void)
{
	if (!awake)
		return;
	awake = false;
	slept = true;
	add_device_randomness(note->random, sizeof(note->random));
	memzero_explicit(note->random, sizeof(note->random));
	call_sealed(reseed, 0, PM_POST_SUSPEND, 0, 0);
	window->stamp_module = rdtsc_ordered();
	/* The host's bells are heard from now on. */
	say(OSNODE_BOOTING);
}

static const struct platform_suspend_ops operations = {
	.valid = suspend_valid_only_mem,
	.begin = sleep_begin,
	.enter = sleep_enter,
	.wake = sleep_wake,
};

/* The hardware's clock is the host's: what it would say is reckoned. */
static int clock_is_read(struct kprobe *probe, struct pt_regs *registers)
{
	struct timespec64 *time = (void *)registers->di;
	u64 ticks;

	if (!READ_ONCE(asker))
		return 0;
	if (awake) {
		ticks = rdtsc_ordered() - note->now_ticks;
		*time = ns_to_timespec64(note->now_ns +
					 mul_u64_u64_div_u64(ticks, NSEC_PER_MSEC, tsc_khz));
	} else {
		*time = ns_to_timespec64(ktime_get_real_fast_ns());
	}
	registers->ip = (unsigned long)osnode_return;
	return 1;
}

/* The host's controller for DMA: a node that wakes would reset it. */
static int is_not_called(struct kprobe *probe, struct pt_regs *registers)
{
	registers->ip = (unsigned long)osnode_return;
	return 1;
}

/* With it a probe is no jump, and may change where its function goes on. */
static void nothing(struct kprobe *probe, struct pt_regs *registers, unsigned long flags)
{
}

static struct kprobe clock = {
	.symbol_name = "read_persistent_clock64",
	.pre_handler = clock_is_read,
	.post_handler = nothing,
};
static struct kprobe dma = {
	.symbol_name = "i8237A_resume",
	.pre_handler = is_not_called,
	.post_handler = nothing,
};

int sleep_now(void)
{
	int error;

	if (!note || native_read_cr4() & X86_CR4_LA57)
		return -EOPNOTSUPP;
	if (cmpxchg(&asker, NULL, current))
		return -EBUSY;
	slept = false;
	error = pm_suspend(PM_SUSPEND_MEM);
	smp_store_release(&asker, NULL);
	/* By /sys/power/pm_test it comes back without having slept. */
	return error ?: slept ? 0 : -EAGAIN;
}

void sleep_init(struct osnode_window *of, void (*by)(enum osnode_word word))
{
	BUILD_BUG_ON(sizeof(struct osnode_sleep) != OSNODE_FREE_AT - OSNODE_SLEEP_AT);
	window = of;
	say = by;
	save_state = symbol("save_processor_state");
	restore_state = symbol("restore_processor_state");
	reseed = symbol("random_pm_notification");
	if (!save_state || !restore_state || !reseed || register_kprobe(&clock)) {
		pr_warn("this kernel cannot be kept: it lacks save_processor_state, restore_processor_state, random_pm_notification or read_persistent_clock64\n");
		return;
	}
	/* Cloud flavours have none. */
	register_kprobe(&dma);
	note = (void *)window + OSNODE_SLEEP_AT;
	suspend_set_ops(&operations);
}

#else

int sleep_now(void)
{
	return -EOPNOTSUPP;
}

void sleep_init(struct osnode_window *of, void (*by)(enum osnode_word word))
{
}

#endif
