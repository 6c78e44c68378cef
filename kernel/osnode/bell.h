/* SPDX-License-Identifier: GPL-2.0 */
/* Doorbells that arrive, and who waits for them; the same in host and node. */
#ifndef OSNODE_BELL_H
#define OSNODE_BELL_H

#include <linux/poll.h>
#include <linux/uaccess.h>

static atomic64_t bells;
static DECLARE_WAIT_QUEUE_HEAD(bell_queue);
static void (**platform_ipi_callback)(void);

void bell_rung(void);

/* No word says who has rung, so every reader looks at its own window. */
void bell_rung(void)
{
	atomic64_inc(&bells);
	wake_up_all(&bell_queue);
}

/* A descriptor's private data begins with how many its readers have been told of. */
static ssize_t bell_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	u64 *seen = file->private_data;
	u64 now, news;

	if (size < sizeof(news))
		return -EINVAL;
	if ((file->f_flags & O_NONBLOCK) && atomic64_read(&bells) == READ_ONCE(*seen))
		return -EAGAIN;
	if (wait_event_interruptible(bell_queue, atomic64_read(&bells) != READ_ONCE(*seen)))
		return -ERESTARTSYS;
	now = atomic64_read(&bells);
	news = now - xchg(seen, now);
	return copy_to_user(to, &news, sizeof(news)) ? -EFAULT : sizeof(news);
}

static __poll_t bell_poll(struct file *file, poll_table *table)
{
	u64 *seen = file->private_data;

	poll_wait(file, &bell_queue, table);
	return atomic64_read(&bells) == READ_ONCE(*seen) ? 0 : EPOLLIN | EPOLLRDNORM;
}

#endif
