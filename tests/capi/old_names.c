/*
 * A program in the names of version 0.1, by <kumiki/old_names.h>; with LINKED as the compiler of that version has
 * left it to the linker: without headers.
 */
#ifdef LINKED
#include <stddef.h>
#include <stdint.h>
struct shadow;
struct parasc_engine;
int shadow_create(struct shadow **shadow, const void *options);
int shadow_fork(struct shadow *shadow, void (*function)(void *argument), void *argument);
int shadow_join(struct shadow *shadow);
int shadow_destroy(struct shadow *shadow);
int parasc_create(struct parasc_engine **engine, const void *config);
int parasc_request(struct parasc_engine *engine, long sysnum, unsigned int args_num,
		   const uint64_t *args, uint64_t *ticket);
int parasc_wait(struct parasc_engine *engine, size_t min_complete, uint64_t timeout_ns);
int parasc_collect(struct parasc_engine *engine, uint64_t ticket, int64_t *ret_val);
int parasc_destroy(struct parasc_engine *engine);
int kumiki_resource_delete(const void *interface, void *resource);
#define PARASC_FOREVER UINT64_MAX
#define OPTIONS NULL
#else
#include <kumiki/parasc.h>
#include <kumiki/resource.h>
#include <kumiki/shadow.h>
static const struct shadow_options options = SHADOW_OPTIONS_INIT;
#define OPTIONS &options
#endif

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

static void theirs(void *sum)
{
	*(long *)sum += 42;
}

int main(void)
{
	struct shadow *shadow;
	struct parasc_engine *engine;
	uint64_t ticket;
	int64_t pid = 0;
	long sum = 0;

	/* On a machine of one cpu there is none. */
	if (shadow_create(&shadow, OPTIONS) == 0) {
		CHECK(shadow_fork(shadow, theirs, &sum) == 0);
		CHECK(shadow_join(shadow) == 0 && sum == 42);
		CHECK(shadow_destroy(shadow) == 0);
	}
	CHECK(parasc_create(&engine, NULL) == 0);
	CHECK(parasc_request(engine, SYS_getpid, 0, NULL, &ticket) == 0);
	CHECK(parasc_wait(engine, 1, PARASC_FOREVER) == 1);
	CHECK(parasc_collect(engine, ticket, &pid) == 1 && pid == getpid());
	CHECK(parasc_destroy(engine) == 0);
	CHECK(kumiki_resource_delete(NULL, NULL) == -EINVAL);
	return failures != 0;
}
