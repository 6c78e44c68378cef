/* SPDX-License-Identifier: GPL-2.0 */
/* Doorbells that arrive, and who waits for them; the same in host and node. */
#ifndef OSNODE_BELL_H
#define OSNODE_BELL_H

#include <linux/poll.h>
#include <linux/uaccess.h>

/* Those that some waiters hear, counted. */
struct bells {
	atomic64_t count;
	wait_queue_head_t queue;
};

/* A descriptor's private data begins with it. */
struct hearer {
	struct bells *bells;
	u64 seen; /* how many its readers have been told of */
};

static inline void bells_ring(struct bells *bells)
{
	atomic64_inc(&bells->count);
	wake_up_all(&bells->queue);
}

static inline void hearer_begin(struct hearer *hearer, struct bells *bells)
{
	WRITE_ONCE(hearer->seen, atomic64_read(&bells->count));
	smp_store_release(&hearer->bells, bells);
}

static inline bool bell_has_rung(struct hearer *hearer, struct bells *bells)
{
	return atomic64_read(&bells->count) != READ_ONCE(hearer->seen);
}

static inline ssize_t bell_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	struct hearer *hearer = file->private_data;
	struct bells *bells = smp_load_acquire(&hearer->bells);
	u64 seen, now, news;

	if (size < sizeof(news))
		return -EINVAL;
	do {
		if ((file->f_flags & O_NONBLOCK) && !bell_has_rung(hearer, bells))
			return -EAGAIN;
		if (wait_event_interruptible(bells->queue, bell_has_rung(hearer, bells)))
			return -ERESTARTSYS;
		/* Read before the count, which only grows: of two readers none sets it back. */
		seen = smp_load_acquire(&hearer->seen);
		now = atomic64_read(&bells->count);
	} while (now == seen || cmpxchg(&hearer->seen, seen, now) != seen);
	news = now - seen;
	return copy_to_user(to, &news, sizeof(news)) ? -EFAULT : sizeof(news);
}

static inline __poll_t bell_poll(struct file *file, poll_table *table)
{
	struct hearer *hearer = file->private_data;
	struct bells *bells = smp_load_acquire(&hearer->bells);

	poll_wait(file, &bells->queue, table);
	return bell_has_rung(hearer, bells) ? EPOLLIN | EPOLLRDNORM : 0;
}

#endif
