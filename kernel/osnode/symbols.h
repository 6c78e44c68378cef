/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Symbols that the kernel does not export, found while the module loads, so that
 * one source serves every version: what is missing is told by its name.
 */
#ifndef OSNODE_SYMBOLS_H
#define OSNODE_SYMBOLS_H

#include <linux/kprobes.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>

/*
 * Calls a function that may lack the ENDBR that an indirect call needs under
 * IBT: the processor checks calls and jumps, not returns.
 */
static noinline unsigned long call_sealed(unsigned long function, unsigned long a,
					  unsigned long b, unsigned long c, unsigned long d)
{
	unsigned long result;

	asm volatile("leaq 1f(%%rip), %%rax\n\t"
		     "pushq %%rax\n\t"
		     "pushq %[function]\n\t"
		     ANNOTATE_RETPOLINE_SAFE
		     "ret\n\t"
		     "int3\n"
		     "1:"
		     : "=&a"(result), "+D"(a), "+S"(b), "+d"(c), "+c"(d), ASM_CALL_CONSTRAINT
		     : [function] "r"(function)
		     : "r8", "r9", "r10", "r11", "memory", "cc");
	return result;
}
STACK_FRAME_NON_STANDARD(call_sealed);

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
