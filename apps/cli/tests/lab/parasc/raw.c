/* What <kumiki/uapi/parasc.h> says of the module, one scene after the other; the first that does not hold ends it. */
#include "scenes.h"

static const struct {
	const char *name;
	void (*scene)(void);
} scenes[] = {
	{ "one call by a thread inside", one_call_by_a_thread_inside },
	{ "a batch by one entry", a_batch_by_one_entry },
	{ "calls are made by the kernel's own branches", calls_are_made_by_the_kernel_s_own_branches },
	{ "what is wrong is refused", what_is_wrong_is_refused },
	{ "calls that break a thread are not made", calls_that_break_a_thread_are_not_made },
	{ "closed inside is closed", closed_inside_is_closed },
	{ "interrupted calls say so", interrupted_calls_say_so },
	{ "what the kernel makes again has no error", what_the_kernel_makes_again_has_no_error },
	{ "requests do not see signals of who serves", requests_do_not_see_signals_of_who_serves },
	{ "the way back into the module is from outside", the_way_back_into_the_module_is_from_outside },
	{ "an io_uring does nothing with the device", an_io_uring_does_nothing_with_the_device },
	{ "a wait ends when enough is made", a_wait_ends_when_enough_is_made },
	{ "who sleeps is woken by any descriptor", who_sleeps_is_woken_by_any_descriptor },
	{ "who is woken inside stays there", who_is_woken_inside_stays_there },
	{ "memory that goes is an error", memory_that_goes_is_an_error },
	{ "a filter sees what it would see without", a_filter_sees_what_it_would_see_without },
	{ "a tracer sees what it would see without", a_tracer_sees_what_it_would_see_without },
	{ "a process ends with threads inside", a_process_ends_with_threads_inside },
	{ "none is made twice", none_is_made_twice },
	{ "calls without end let others run", calls_without_end_let_others_run },
	{ "a store ends a wait", a_store_ends_a_wait },
	{ "a wait is for the page that is stored to", a_wait_is_for_the_page_that_is_stored_to },
	{ "no cpu rests that is to come back at once", no_cpu_rests_that_is_to_come_back_at_once },
};

/* Each in a process of its own, which must not be there after it; or those of a name with these words. */
int main(int count, char **words)
{
	for (size_t at = 0; at < sizeof(scenes) / sizeof(*scenes); at++) {
		if (count > 1 && !strstr(scenes[at].name, words[1]))
			continue;
		pid_t child = fork();
		int status;

		if (!child) {
			/* A kernel that looks for its own faults is slow. */
			alarm(300);
			scenes[at].scene();
			exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		printf("%s: %s\n", scenes[at].name, status ? "not so" : "as it should");
		fflush(stdout);
		if (status) {
			fprintf(stderr, "status %#x\n", status);
			return 1;
		}
	}
	return 0;
}
