/*
 * What <kumiki/parasc.h> refuses: calls, tickets, pointers, configurations, threads, each with
 * its error. C99 and C++11 alike.
 */
#include "parasc_common.h"

static void refused_calls(void)
{
	const uint16_t list[] = { SYS_getppid };
	struct kumiki_parasc_config config = KUMIKI_PARASC_CONFIG_INIT;
	struct kumiki_parasc_engine *engine = create(NULL);
	struct kumiki_parasc_requester *requester = NULL;
	struct kumiki_parasc_call calls[3];
	int64_t ret_vals[3] = { 7, 7, 7 };
	uint64_t args[7] = { 0 }, ticket = 7;
	int ends[2];
	CHECK(pipe(ends) == 0);
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	CHECK(kumiki_parasc_refusal(SYS_exit) != NULL && strstr(kumiki_parasc_refusal(SYS_exit), "exit") != NULL);
	CHECK(kumiki_parasc_refusal(SYS_execve) != NULL && kumiki_parasc_refusal(SYS_gettid) != NULL);
	CHECK(kumiki_parasc_refusal(SYS_exit) == kumiki_parasc_refusal(SYS_exit));
	CHECK(kumiki_parasc_refusal(SYS_read) == NULL && kumiki_parasc_refusal(-1) == NULL);
	/* Of x32: execve on old kernels. */
	CHECK(kumiki_parasc_refusal(520) != NULL);
	CHECK(kumiki_parasc_refusal(65535) == NULL && kumiki_parasc_refusal(65536 + SYS_exit) == NULL);
	REFUSED(kumiki_parasc_request(engine, SYS_exit, 1, args, &ticket), EPERM);
	CHECK(strstr(kumiki_last_error(), kumiki_parasc_refusal(SYS_exit)) != NULL);
	/* Refused with these arguments only. */
	CHECK(kumiki_parasc_refusal(SYS_sched_setaffinity) == NULL);
	REFUSED(kumiki_parasc_request(engine, SYS_sched_setaffinity, 3, args, &ticket), EPERM);
	REFUSED(kumiki_parasc_request(engine, -1, 0, NULL, &ticket), EINVAL);
	REFUSED(kumiki_parasc_request(engine, 65536 + SYS_getppid, 0, NULL, &ticket), EINVAL);
	REFUSED(kumiki_parasc_request(engine, SYS_getppid, 7, args, &ticket), EINVAL);
	REFUSED(kumiki_parasc_request(engine, SYS_getppid, UINT32_MAX, NULL, &ticket), EINVAL);
	CHECK(ticket == 7);
	/* Nothing of a batch is made. */
	memset(calls, 0, sizeof(calls));
	calls[0].sysnum = calls[2].sysnum = SYS_close;
	calls[0].args_num = calls[2].args_num = 1;
	calls[0].args[0] = (uint64_t)ends[0];
	calls[2].args[0] = (uint64_t)ends[1];
	calls[1].sysnum = SYS_exit_group;
	REFUSED(kumiki_parasc_run(requester, calls, ret_vals, 3), EPERM);
	CHECK(strstr(kumiki_last_error(), "request 1") != NULL);
	REFUSED(kumiki_parasc_run(requester, calls + 1, ret_vals, 1), EPERM);
	calls[1].sysnum = SYS_getppid;
	calls[1].args_num = 0xffff;
	REFUSED(kumiki_parasc_run(requester, calls, ret_vals, 3), EINVAL);
	REFUSED(kumiki_parasc_run(requester, calls + 1, ret_vals, 1), EINVAL);
	CHECK(ret_vals[0] == 7 && ret_vals[1] == 7 && ret_vals[2] == 7);
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	/* A number that no kernel has goes there. */
	calls[1].sysnum = 65535;
	calls[1].args_num = 0;
	CHECK(kumiki_parasc_run(requester, calls + 1, ret_vals, 1) == 0 && ret_vals[0] == -ENOSYS);
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);

	config.allowed = list;
	config.allowed_num = 1;
	config.requesters = 1;
	engine = create(&config);
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	{
		struct kumiki_parasc_requester *other = NULL;
		REFUSED(kumiki_parasc_requester_create(engine, &other), EBUSY);
		CHECK(other == NULL);
	}
	calls[0].sysnum = SYS_getppid;
	calls[0].args_num = 0;
	calls[1].sysnum = SYS_getpid;
	CHECK(kumiki_parasc_run(requester, calls, ret_vals, 1) == 0 && ret_vals[0] == getppid());
	REFUSED(kumiki_parasc_run(requester, calls, ret_vals, 2), EPERM);
	REFUSED(kumiki_parasc_request(engine, SYS_getpid, 0, NULL, &ticket), EPERM);
	CHECK(strstr(kumiki_last_error(), "allow-list") != NULL);
	/* In words of both languages. */
	CHECK(strstr(kumiki_last_error(), "::") == NULL);
	CHECK(strstr(kumiki_last_error(), "batch") == NULL);
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void full(void)
{
	struct kumiki_parasc_config config = KUMIKI_PARASC_CONFIG_INIT;
	struct kumiki_parasc_engine *engine;
	uint64_t ticket, first = 0;
	int placed = 0, error;
	config.flags = KUMIKI_PARASC_NO_THREADS;
	config.slots = 4;
	engine = create(&config);
	while ((error = kumiki_parasc_request(engine, SYS_getppid, 0, NULL, &ticket)) == 0) {
		first = first == 0 ? ticket : first;
		placed++;
	}
	CHECK(error == -EAGAIN && placed >= 4 && placed <= 8);
	REFUSED(kumiki_parasc_request(engine, SYS_getppid, 0, NULL, &ticket), EAGAIN);
	REFUSED(kumiki_parasc_wait(engine, 9, KUMIKI_PARASC_FOREVER), EINVAL);
	CHECK(kumiki_parasc_terminate(engine) == 0);
	CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == placed);
	CHECK(collected(engine, first) == -ECANCELED);
	CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == placed - 1);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void garbage_tickets(void)
{
	struct kumiki_parasc_engine *engine = create(NULL), *other = create(NULL);
	uint64_t ticket = place(engine, SYS_getppid), bit;
	uint64_t foreign = place(other, SYS_getppid);
	int64_t ret_val = 7;
	CHECK(foreign != ticket);
	REFUSED(kumiki_parasc_collect(engine, foreign, &ret_val), ENOENT);
	REFUSED(kumiki_parasc_collect(other, ticket, &ret_val), ENOENT);
	CHECK(kumiki_parasc_destroy(other) == 0);
	REFUSED(kumiki_parasc_collect(engine, 0, &ret_val), ENOENT);
	REFUSED(kumiki_parasc_collect(engine, UINT64_MAX, &ret_val), ENOENT);
	for (bit = 1; bit != 0; bit <<= 1)
		REFUSED(kumiki_parasc_collect(engine, ticket ^ bit, &ret_val), ENOENT);
	CHECK(ret_val == 7);
	CHECK(kumiki_parasc_wait(engine, 1, KUMIKI_PARASC_FOREVER) == 1);
	CHECK(collected(engine, ticket) == getppid());
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void null_pointers(void)
{
	struct kumiki_parasc_engine *engine = create(NULL);
	struct kumiki_parasc_requester *requester = NULL;
	struct kumiki_parasc_call call;
	uint64_t ticket = 7;
	int64_t ret_val = 7;
	memset(&call, 0, sizeof(call));
	call.sysnum = SYS_getppid;
	REFUSED(kumiki_parasc_create(NULL, NULL), EINVAL);
	REFUSED(kumiki_parasc_terminate(NULL), EINVAL);
	REFUSED(kumiki_parasc_proc(NULL), EINVAL);
	REFUSED(kumiki_parasc_wake_up(NULL), EINVAL);
	REFUSED(kumiki_parasc_wait(NULL, 0, 0), EINVAL);
	REFUSED(kumiki_parasc_request(NULL, SYS_getppid, 0, NULL, &ticket), EINVAL);
	REFUSED(kumiki_parasc_request(engine, SYS_read, 3, NULL, &ticket), EINVAL);
	REFUSED(kumiki_parasc_request(engine, SYS_getppid, 0, NULL, NULL), EINVAL);
	REFUSED(kumiki_parasc_collect(NULL, 1, &ret_val), EINVAL);
	REFUSED(kumiki_parasc_collect(engine, 1, NULL), EINVAL);
	REFUSED(kumiki_parasc_requester_create(NULL, &requester), EINVAL);
	REFUSED(kumiki_parasc_requester_create(engine, NULL), EINVAL);
	CHECK(requester == NULL && ticket == 7);
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	REFUSED(kumiki_parasc_run(NULL, &call, &ret_val, 1), EINVAL);
	REFUSED(kumiki_parasc_run(requester, NULL, &ret_val, 1), EINVAL);
	REFUSED(kumiki_parasc_run(requester, &call, NULL, 1), EINVAL);
	REFUSED(kumiki_parasc_run(requester, &call, &ret_val, SIZE_MAX), EINVAL);
	CHECK(ret_val == 7);
	CHECK(kumiki_parasc_requester_destroy(requester) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

static void refused_config(struct kumiki_parasc_config config, int error)
{
	struct kumiki_parasc_engine *const untouched = (struct kumiki_parasc_engine *)&failures;
	struct kumiki_parasc_engine *engine = untouched;
	REFUSED(kumiki_parasc_create(&engine, &config), error);
	CHECK(engine == untouched);
}

static void bad_configs(void)
{
	const struct kumiki_parasc_config init = KUMIKI_PARASC_CONFIG_INIT;
	struct kumiki_parasc_config bad = init;
	uint16_t high = 65535;
	bad.flags = UINT32_C(1) << 31;
	refused_config(bad, EINVAL);
	bad = init;
	bad.reserved = 1;
	refused_config(bad, EINVAL);
	bad = init;
	bad.requesters = 0;
	refused_config(bad, EINVAL);
	bad.requesters = UINT32_MAX;
	refused_config(bad, EINVAL);
	bad = init;
	bad.slots = 4097;
	refused_config(bad, EINVAL);
	bad = init;
	bad.threads = 65;
	refused_config(bad, EINVAL);
	bad = init;
	bad.backend = 4;
	refused_config(bad, EINVAL);
	bad = init;
	bad.allowed_num = 1;
	refused_config(bad, EINVAL);
	bad.allowed = &high;
	refused_config(bad, EINVAL);
	CHECK(strstr(kumiki_last_error(), "0 to 511") != NULL);
	bad.allowed_num = UINT64_MAX;
	refused_config(bad, EINVAL);
	bad = init;
	bad.backend = KUMIKI_PARASC_BACKEND_KERNEL;
	if (access("/dev/kumiki-parasc", F_OK) != 0)
		refused_config(bad, ENOTSUP);
}

static void *use_elsewhere(void *requester)
{
	struct kumiki_parasc_call call;
	int64_t ret_val = 7;
	memset(&call, 0, sizeof(call));
	call.sysnum = SYS_getppid;
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	REFUSED(kumiki_parasc_run((struct kumiki_parasc_requester *)requester, &call, &ret_val, 1), EPERM);
	CHECK(ret_val == 7);
	CHECK(kumiki_parasc_requester_destroy((struct kumiki_parasc_requester *)requester) == 0);
	return NULL;
}

static void use_by_another_thread(void)
{
	struct kumiki_parasc_engine *engine = create(NULL);
	struct kumiki_parasc_requester *requester = NULL;
	pthread_t thread;
	CHECK(kumiki_parasc_requester_create(engine, &requester) == 0);
	CHECK(pthread_create(&thread, NULL, use_elsewhere, requester) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(kumiki_parasc_destroy(engine) == 0);
}

int main(void)
{
	alarm(PATIENCE);
	refused_calls();
	full();
	garbage_tickets();
	null_pointers();
	bad_configs();
	use_by_another_thread();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
