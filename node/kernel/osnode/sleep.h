/* SPDX-License-Identifier: GPL-2.0 */
/* In a node: its kernel sleeps, so that its memory can be copied, and wakes up in a copy. */
#ifndef OSNODE_SLEEP_H
#define OSNODE_SLEEP_H

#include <osnode.h>

/* `say` tells the host a word. Without what it needs of the kernel the node cannot sleep. */
void sleep_init(struct osnode_window *window, void (*say)(enum osnode_word word));
/* Returns in the copy, with 0, or at once with why not. */
int sleep_now(void);

#endif
