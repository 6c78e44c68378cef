/*
 * What the programs on <kumiki/parasc.h> share: an engine, a request placed and collected.
 */
#ifndef _GNU_SOURCE /* g++ defines it */
#define _GNU_SOURCE /* syscall(2) */
#endif
#include <kumiki/parasc.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static inline struct kumiki_parasc_engine *create(const struct kumiki_parasc_config *config)
{
	struct kumiki_parasc_engine *engine = NULL;
	if (kumiki_parasc_create(&engine, config) < 0) {
		fprintf(stderr, "kumiki_parasc_create: %s\n", kumiki_last_error());
		exit(1);
	}
	return engine;
}

/* One whose only processing threads are those of this program. */
static inline struct kumiki_parasc_engine *create_without_threads(void)
{
	struct kumiki_parasc_config config = KUMIKI_PARASC_CONFIG_INIT;
	config.flags = KUMIKI_PARASC_NO_THREADS;
	return create(&config);
}

static inline uint64_t place(struct kumiki_parasc_engine *engine, long sysnum)
{
	uint64_t ticket = 0;
	CHECK(kumiki_parasc_request(engine, sysnum, 0, NULL, &ticket) == 0);
	CHECK(ticket != 0);
	return ticket;
}

static inline int64_t collected(struct kumiki_parasc_engine *engine, uint64_t ticket)
{
	int64_t ret_val = INT64_MIN;
	CHECK(kumiki_parasc_collect(engine, ticket, &ret_val) == 1);
	return ret_val;
}

static inline void *process(void *engine)
{
	CHECK(kumiki_parasc_proc((struct kumiki_parasc_engine *)engine) == 0);
	return NULL;
}
