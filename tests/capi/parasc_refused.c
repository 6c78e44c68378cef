/*
 * What <kumiki/parasc.h> refuses: calls, tickets, pointers, configurations, threads, each with
 * its error. C99 and C++11 alike.
 */
#include "parasc_common.h"

static void refused_calls(void)
{
	const uint16_t list[] = { SYS_getppid };
	struct parasc_config config = PARASC_CONFIG_INIT;
	struct parasc_engine *engine = create(NULL);
	struct parasc_requester *requester = NULL;
	struct parasc_call calls[3];
	int64_t ret_vals[3] = { 7, 7, 7 };
	uint64_t args[7] = { 0 }, ticket = 7;
	int ends[2];
	CHECK(pipe(ends) == 0);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	CHECK(parasc_refusal(SYS_exit) != NULL && strstr(parasc_refusal(SYS_exit), "exit") != NULL);
	CHECK(parasc_refusal(SYS_execve) != NULL && parasc_refusal(SYS_gettid) != NULL);
	CHECK(parasc_refusal(SYS_exit) == parasc_refusal(SYS_exit));
	CHECK(parasc_refusal(SYS_read) == NULL && parasc_refusal(-1) == NULL);
	/* Of x32: execve on old kernels. */
	CHECK(parasc_refusal(520) != NULL);
	CHECK(parasc_refusal(65535) == NULL && parasc_refusal(65536 + SYS_exit) == NULL);
	REFUSED(parasc_request(engine, SYS_exit, 1, args, &ticket), EPERM);
	CHECK(strstr(kumiki_last_error(), parasc_refusal(SYS_exit)) != NULL);
	/* Refused with these arguments only. */
	CHECK(parasc_refusal(SYS_sched_setaffinity) == NULL);
	REFUSED(parasc_request(engine, SYS_sched_setaffinity, 3, args, &ticket), EPERM);
	REFUSED(parasc_request(engine, -1, 0, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, 65536 + SYS_getppid, 0, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_getppid, 7, args, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_getppid, UINT32_MAX, NULL, &ticket), EINVAL);
	CHECK(ticket == 7);
	/* Nothing of a batch is made. */
	memset(calls, 0, sizeof(calls));
	calls[0].sysnum = calls[2].sysnum = SYS_close;
	calls[0].args_num = calls[2].args_num = 1;
	calls[0].args[0] = (uint64_t)ends[0];
	calls[2].args[0] = (uint64_t)ends[1];
	calls[1].sysnum = SYS_exit_group;
	REFUSED(parasc_run(requester, calls, ret_vals, 3), EPERM);
	CHECK(strstr(kumiki_last_error(), "request 1") != NULL);
	REFUSED(parasc_run(requester, calls + 1, ret_vals, 1), EPERM);
	calls[1].sysnum = SYS_getppid;
	calls[1].args_num = 0xffff;
	REFUSED(parasc_run(requester, calls, ret_vals, 3), EINVAL);
	REFUSED(parasc_run(requester, calls + 1, ret_vals, 1), EINVAL);
	CHECK(ret_vals[0] == 7 && ret_vals[1] == 7 && ret_vals[2] == 7);
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	/* A number that no kernel has goes there. */
	calls[1].sysnum = 65535;
	calls[1].args_num = 0;
	CHECK(parasc_run(requester, calls + 1, ret_vals, 1) == 0 && ret_vals[0] == -ENOSYS);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);

	config.allowed = list;
	config.allowed_num = 1;
	config.requesters = 1;
	engine = create(&config);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	{
		struct parasc_requester *other = NULL;
		REFUSED(parasc_requester_create(engine, &other), EBUSY);
		CHECK(other == NULL);
	}
	calls[0].sysnum = SYS_getppid;
	calls[0].args_num = 0;
	calls[1].sysnum = SYS_getpid;
	CHECK(parasc_run(requester, calls, ret_vals, 1) == 0 && ret_vals[0] == getppid());
	REFUSED(parasc_run(requester, calls, ret_vals, 2), EPERM);
	REFUSED(parasc_request(engine, SYS_getpid, 0, NULL, &ticket), EPERM);
	CHECK(strstr(kumiki_last_error(), "allow-list") != NULL);
	/* In words of both languages. */
	CHECK(strstr(kumiki_last_error(), "::") == NULL);
	CHECK(strstr(kumiki_last_error(), "batch") == NULL);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static void full(void)
{
	struct parasc_config config = PARASC_CONFIG_INIT;
	struct parasc_engine *engine;
	uint64_t ticket, first = 0;
	int placed = 0, error;
	config.flags = PARASC_NO_THREADS;
	config.slots = 4;
	engine = create(&config);
	while ((error = parasc_request(engine, SYS_getppid, 0, NULL, &ticket)) == 0) {
		first = first == 0 ? ticket : first;
		placed++;
	}
	CHECK(error == -EAGAIN && placed >= 4 && placed <= 8);
	REFUSED(parasc_request(engine, SYS_getppid, 0, NULL, &ticket), EAGAIN);
	REFUSED(parasc_wait(engine, 9, PARASC_FOREVER), EINVAL);
	CHECK(parasc_terminate(engine) == 0);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == placed);
	CHECK(collected(engine, first) == -ECANCELED);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == placed - 1);
	CHECK(parasc_destroy(engine) == 0);
}

static void garbage_tickets(void)
{
	struct parasc_engine *engine = create(NULL), *other = create(NULL);
	uint64_t ticket = place(engine, SYS_getppid), bit;
	uint64_t foreign = place(other, SYS_getppid);
	int64_t ret_val = 7;
	CHECK(foreign != ticket);
	REFUSED(parasc_collect(engine, foreign, &ret_val), ENOENT);
	REFUSED(parasc_collect(other, ticket, &ret_val), ENOENT);
	CHECK(parasc_destroy(other) == 0);
	REFUSED(parasc_collect(engine, 0, &ret_val), ENOENT);
	REFUSED(parasc_collect(engine, UINT64_MAX, &ret_val), ENOENT);
	for (bit = 1; bit != 0; bit <<= 1)
		REFUSED(parasc_collect(engine, ticket ^ bit, &ret_val), ENOENT);
	CHECK(ret_val == 7);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
	CHECK(collected(engine, ticket) == getppid());
	CHECK(parasc_destroy(engine) == 0);
}

static void null_pointers(void)
{
	struct parasc_engine *engine = create(NULL);
	struct parasc_requester *requester = NULL;
	struct parasc_call call;
	uint64_t ticket = 7;
	int64_t ret_val = 7;
	memset(&call, 0, sizeof(call));
	call.sysnum = SYS_getppid;
	REFUSED(parasc_create(NULL, NULL), EINVAL);
	REFUSED(parasc_terminate(NULL), EINVAL);
	REFUSED(parasc_proc(NULL), EINVAL);
	REFUSED(parasc_wake_up(NULL), EINVAL);
	REFUSED(parasc_wait(NULL, 0, 0), EINVAL);
	REFUSED(parasc_request(NULL, SYS_getppid, 0, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_read, 3, NULL, &ticket), EINVAL);
	REFUSED(parasc_request(engine, SYS_getppid, 0, NULL, NULL), EINVAL);
	REFUSED(parasc_collect(NULL, 1, &ret_val), EINVAL);
	REFUSED(parasc_collect(engine, 1, NULL), EINVAL);
	REFUSED(parasc_requester_create(NULL, &requester), EINVAL);
	REFUSED(parasc_requester_create(engine, NULL), EINVAL);
	CHECK(requester == NULL && ticket == 7);
	CHECK(parasc_requester_create(engine, &requester) == 0);
	REFUSED(parasc_run(NULL, &call, &ret_val, 1), EINVAL);
	REFUSED(parasc_run(requester, NULL, &ret_val, 1), EINVAL);
	REFUSED(parasc_run(requester, &call, NULL, 1), EINVAL);
	REFUSED(parasc_run(requester, &call, &ret_val, SIZE_MAX), EINVAL);
	CHECK(ret_val == 7);
	CHECK(parasc_requester_destroy(requester) == 0);
	CHECK(parasc_destroy(engine) == 0);
}

static void refused_config(struct parasc_config config, int error)
{
	struct parasc_engine *const untouched = (struct parasc_engine *)&failures;
	struct parasc_engine *engine = untouched;
	REFUSED(parasc_create(&engine, &config), error);
	CHECK(engine == untouched);
}

static void bad_configs(void)
{
	const struct parasc_config init = PARASC_CONFIG_INIT;
	struct parasc_config bad = init;
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
	bad.backend = PARASC_BACKEND_KERNEL;
	if (access("/dev/kumiki-parasc", F_OK) != 0)
		refused_config(bad, ENOTSUP);
}

static void *use_elsewhere(void *requester)
{
	struct parasc_call call;
	int64_t ret_val = 7;
	memset(&call, 0, sizeof(call));
	call.sysnum = SYS_getppid;
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	REFUSED(parasc_run((struct parasc_requester *)requester, &call, &ret_val, 1), EPERM);
	CHECK(ret_val == 7);
	CHECK(parasc_requester_destroy((struct parasc_requester *)requester) == 0);
	return NULL;
}

static void use_by_another_thread(void)
{
	struct parasc_engine *engine = create(NULL);
	struct parasc_requester *requester = NULL;
	pthread_t thread;
	CHECK(parasc_requester_create(engine, &requester) == 0);
	CHECK(pthread_create(&thread, NULL, use_elsewhere, requester) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(parasc_destroy(engine) == 0);
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
