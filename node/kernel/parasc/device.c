// SPDX-License-Identifier: GPL-2.0
/* The device: who may enter, and from which address space. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/entry-common.h>
#include <linux/file.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "module.h"

unsigned int widen_ns;
module_param(widen_ns, uint, 0600);
MODULE_PARM_DESC(widen_ns, "for tests: waits so many ns before and after each claim, 100000 at most");

/* Of stays that are over: whether anybody uses it. */
atomic_long_t calls_made;

static int show_count(char *buffer, const struct kernel_param *parameter)
{
	return sysfs_emit(buffer, "%ld\n", atomic_long_read(parameter->arg));
}

const struct kernel_param_ops count_operations = { .get = show_count };
module_param_cb(calls_made, &count_operations, &calls_made, 0444);
MODULE_PARM_DESC(calls_made, "calls made by it so far");

static DEFINE_MUTEX(spaces_lock);
static LIST_HEAD(spaces);

static struct space *space_get(struct mm_struct *mm)
{
	struct space *space;

	list_for_each_entry(space, &spaces, list) {
		if (space->mm == mm) {
			space->files++;
			return space;
		}
	}
	space = kzalloc(sizeof(*space), GFP_KERNEL_ACCOUNT);
	if (!space)
		return NULL;
	/* Its address is not to be another one's while this is here. */
	mmgrab(mm);
	space->mm = mm;
	space->files = 1;
	init_waitqueue_head(&space->sleepers);
	init_waitqueue_head(&space->waiters);
	list_add(&space->list, &spaces);
	return space;
}

static int device_open(struct inode *inode, struct file *file)
{
	mutex_lock(&spaces_lock);
	file->private_data = current->mm ? space_get(current->mm) : NULL;
	mutex_unlock(&spaces_lock);
	return file->private_data ? 0 : -ENOMEM;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct space *space = file->private_data;
	bool last;

	mutex_lock(&spaces_lock);
	last = !--space->files;
	if (last)
		list_del(&space->list);
	mutex_unlock(&spaces_lock);
	if (last) {
		mmdrop(space->mm);
		kfree(space);
	}
	return 0;
}

static long serve(struct space *space, void __user *user)
{
	struct parasc_proc proc;
	long ended;

	if (copy_from_user(&proc, user, sizeof(proc)))
		return -EFAULT;
	ended = proc_serve(space, &proc);
	if ((ended == PARASC_OVER || ended == PARASC_CALLS) && copy_to_user(user, &proc, sizeof(proc)))
		return -EFAULT;
	return ended;
}

static long make(struct space *space, void __user *user)
{
	struct parasc_wait wait;
	long ended;

	if (copy_from_user(&wait, user, sizeof(wait)))
		return -EFAULT;
	ended = wait_make(space, &wait);
	/* A wait that a signal has interrupted goes on with what is left of it. */
	if (ended && copy_to_user(user, &wait, sizeof(wait)))
		return -EFAULT;
	return ended;
}

static long device_ioctl(struct file *file, unsigned int request, unsigned long value)
{
	struct space *space = file->private_data;
	void __user *user = (void __user *)value;
	long ended;

	if (request == PARASC_IOC_VERSION)
		return put_user(PARASC_VERSION, (u32 __user *)user);
	/* After fork or exec, or handed to another process. */
	if (current->mm != space->mm)
		return -EPERM;
	/* It makes no call. */
	if (request == PARASC_IOC_WAKE_UP)
		return value > INT_MAX ? -EINVAL : proc_wake_up(space, value);
	if (READ_ONCE(current_thread_info()->syscall_work) & SYSCALL_WORK_ENTER)
		return -EPERM;
	/* A call may close the descriptor, of which a process of one thread holds no reference here. */
	get_file(file);
	switch (request) {
	case PARASC_IOC_PROC:
		ended = serve(space, user);
		break;
	case PARASC_IOC_WAIT:
		ended = make(space, user);
		break;
	default:
		ended = -ENOTTY;
	}
	fput(file);
	return ended;
}

/* Of 64-bit programs only: a call's number has one meaning. */
static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kumiki-parasc",
	.fops = &device_operations,
	.mode = 0600,
};

static int __init parasc_init(void)
{
	int error = calls_init();

	if (error)
		return error;
	error = mwait_init();
	if (error)
		return error;
	error = misc_register(&device);
	if (error)
		mwait_exit();
	return error;
}

/* No descriptor is open: each holds the module. */
static void __exit parasc_exit(void)
{
	misc_deregister(&device);
	mwait_exit();
}

module_init(parasc_init);
module_exit(parasc_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Kumiki: parallel system calls inside the kernel");
MODULE_VERSION("0.1.0");
