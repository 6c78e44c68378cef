// SPDX-License-Identifier: GPL-2.0
/* Loads, says its parameter, and warns on request. */
#include <linux/module.h>

static int answer;
module_param(answer, int, 0444);

static int warn_set(const char *text, const struct kernel_param *param)
{
	WARN(1, "kumiki_lab_test was asked to: %s", text);
	return 0;
}

static const struct kernel_param_ops warn_ops = { .set = warn_set };
module_param_cb(warn, &warn_ops, NULL, 0200);

static int __init begin(void)
{
	pr_info("the answer is %d\n", answer);
	return 0;
}

static void __exit end(void)
{
}

module_init(begin);
module_exit(end);
MODULE_DESCRIPTION("A module for the tests of Kumiki's lab");
MODULE_LICENSE("GPL");
