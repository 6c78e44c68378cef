/* The scenes of raw.c, and what they share. Each runs in a process of its own. */
#ifndef SCENES_H
#define SCENES_H

#include "raw.h"

#define FAILS(error, request, argument) CHECK(ioctl(device, request, argument) == -1 && errno == (error))

void one_call_by_a_thread_inside(void);
void a_batch_by_one_entry(void);
void what_is_wrong_is_refused(void);
void calls_that_break_a_thread_are_not_made(void);
void closed_inside_is_closed(void);
void interrupted_calls_say_so(void);
void what_the_kernel_makes_again_has_no_error(void);
void requests_do_not_see_signals_of_who_serves(void);
void the_way_back_into_the_module_is_from_outside(void);
void an_io_uring_does_nothing_with_the_device(void);
void a_wait_ends_when_enough_is_made(void);
void who_sleeps_is_woken_by_any_descriptor(void);
void who_is_woken_inside_stays_there(void);
void memory_that_goes_is_an_error(void);
void a_filter_sees_what_it_would_see_without(void);
void a_tracer_sees_what_it_would_see_without(void);
void a_process_ends_with_threads_inside(void);
void none_is_made_twice(void);
void a_store_ends_a_wait(void);
void a_wait_is_for_the_page_that_is_stored_to(void);
void no_cpu_rests_that_is_to_come_back_at_once(void);
void calls_are_made_by_the_kernel_s_own_branches(void);
void calls_without_end_let_others_run(void);

static struct call calls[MOST] __attribute__((unused));
static int64_t results[MOST] __attribute__((unused));
static atomic_int handled;

static inline void handler(int signal)
{
	(void)signal;
	handled++;
}

/* What a parameter of the module says. */
static inline const char *parameter(const char *name)
{
	static char path[64], text[64];

	snprintf(path, sizeof(path), "/sys/module/parasc/parameters/%s", name);
	FILE *file = fopen(path, "r");

	CHECK(file && fscanf(file, "%63s", text) == 1 && !fclose(file));
	return text;
}

static inline void fill(unsigned int count, struct call call)
{
	for (unsigned int at = 0; at < count; at++) {
		calls[at] = call;
		results[at] = -1;
	}
}

/* Whether all of them gave this. */
static inline bool all_are(unsigned int count, int64_t result)
{
	for (unsigned int at = 0; at < count; at++)
		if (results[at] != result) {
			fprintf(stderr, "result %u: %lld\n", at, (long long)results[at]);
			return false;
		}
	return true;
}

#endif
