/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols that the kernel does not export, found while the module loads, so that
 * one source serves every version: what is missing is told by its name.
 */
#ifndef OSNODE_SYMBOLS_H
#define OSNODE_SYMBOLS_H

#include <linux/kprobes.h>
#include <linux/objtool.h>
#include <asm/cpufeature.h>
#include <asm/nospec-branch.h>

/*
 * Calls a function that lacks the ENDBR that an indirect call needs under IBT: the processor
 * checks calls and jumps, not returns. There is a call for each return, so that the
 * processor's own stack of them keeps step; what follows the inner one is never run.
 */
static noinline unsigned long call_past_ibt(unsigned long function, unsigned long a,
					    unsigned long b, unsigned long c, unsigned long d)
{
	unsigned long result;

	asm volatile("call 1f\n\t"
		     "jmp 4f\n"
		     "1:\tcall 3f\n"
		     "2:\tpause\n\t"
		     "lfence\n\t"
		     "jmp 2b\n"
		     "3:\tmovq %[function], (%%rsp)\n\t"
		     ANNOTATE_RETPOLINE_SAFE
		     "\n\tret\n\t"
		     "int3\n"
		     "4:"
		     : "=&a"(result), "+D"(a), "+S"(b), "+d"(c), "+c"(d), ASM_CALL_CONSTRAINT
		     : [function] "r"(function)
		     : "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}
STACK_FRAME_NON_STANDARD(call_past_ibt);

/* Calls a function by its address. */
static __always_inline unsigned long call_sealed(unsigned long function, unsigned long a,
						 unsigned long b, unsigned long c, unsigned long d)
{
	if (cpu_feature_enabled(X86_FEATURE_IBT))
		return call_past_ibt(function, a, b, c, d);
	return ((unsigned long (*)(unsigned long, unsigned long, unsigned long,
				   unsigned long))function)(a, b, c, d);
}

/* The address of a symbol, or 0. */
static unsigned long symbol(const char *name)
{
	static unsigned long lookup;

	if (!lookup) {
		/* Under IBT this is behind the function's ENDBR, which a return needs not. */
		struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };

		if (register_kprobe(&probe))
			return 0;
		lookup = (unsigned long)probe.addr;
		unregister_kprobe(&probe);
	}
	return call_sealed(lookup, (unsigned long)name, 0, 0, 0);
}

#endif
