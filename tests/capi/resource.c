/*
 * What <kumiki/resource.h> promises: every function, the errors that it names.
 * C99 and C++11 alike. Ends with 0 if all holds; what does not is on stderr.
 */
#ifndef _GNU_SOURCE /* g++ defines it */
#define _GNU_SOURCE /* sched_getcpu(3) */
#endif
#include <kumiki/resource.h>
#include <kumiki/spawn.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static struct kumiki_resource_interface *create(uint32_t flags)
{
	struct kumiki_resource_interface *interface = NULL;
	if (kumiki_resource_interface_create(&interface, NULL, 0, flags) < 0) {
		fprintf(stderr, "kumiki_resource_interface_create: %s\n", kumiki_last_error());
		exit(1);
	}
	return interface;
}

/* The last of the places, and how many there are. */
static uint16_t last_place(const struct kumiki_resource_interface *interface, int *count)
{
	uint16_t places[1024];
	*count = kumiki_resource_places(interface, places, 1024);
	CHECK(*count >= 1 && *count <= 1024);
	return places[*count - 1];
}

/* ---- objects and calls ---- */

struct counter {
	long value;
	int cpu;
	int destroyed;
};

static void add(void *object, void *argument)
{
	struct counter *counter = (struct counter *)object;
	counter->value += *(const long *)argument;
	counter->cpu = sched_getcpu();
}

static void destroyed(void *object)
{
	((struct counter *)object)->destroyed++;
}

struct nested {
	const struct kumiki_resource_interface *interface;
	const struct kumiki_resource *resource;
	int result;
};

static void nest(void *object, void *argument)
{
	struct nested *nested = (struct nested *)argument;
	long one = 1;
	(void)object;
	nested->result = kumiki_resource_call(nested->interface, nested->resource, add, &one);
}

struct adding {
	const struct kumiki_resource_interface *interface;
	const struct kumiki_resource *resource;
};

static void *add_often(void *argument)
{
	const struct adding *adding = (const struct adding *)argument;
	long one = 1;
	for (int i = 0; i < 1000; i++)
		CHECK(kumiki_resource_call(adding->interface, adding->resource, add, &one) == 0);
	return NULL;
}

static void objects(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct counter counter = { 0, -1, 0 }, left = { 0, -1, 0 };
	struct kumiki_resource *resource = NULL, *other = NULL, *user = NULL;
	struct adding adding;
	struct nested nested;
	pthread_t threads[3];
	char name[64];
	long two = 2;
	int count;
	uint16_t place = last_place(interface, &count);

	CHECK(kumiki_resource_object_create(interface, place, "hits", &counter, destroyed, &resource) == 0);
	REFUSED(kumiki_resource_object_create(interface, place, "hits", &left, destroyed, &other), EEXIST);
	CHECK(other == NULL && left.destroyed == 0);
	CHECK(kumiki_resource_call(interface, resource, add, &two) == 0);
	CHECK(counter.value == 2);
	CHECK(counter.cpu == place);

	adding.interface = interface;
	adding.resource = resource;
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, add_often, &adding) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(counter.value == 3002);

	nested.interface = interface;
	nested.resource = resource;
	nested.result = 0;
	CHECK(kumiki_resource_call(interface, resource, nest, &nested) == 0);
	CHECK(nested.result == -EDEADLK);

	snprintf(name, sizeof(name), "core%d/object/hits", place);
	CHECK(kumiki_resource_open(interface, name, &other) == 0);
	CHECK(kumiki_resource_id(other) == kumiki_resource_id(resource) && kumiki_resource_id(NULL) == 0);
	CHECK(kumiki_resource_call(interface, other, add, &two) == 0);
	/* What is opened is to use and to share. */
	REFUSED(kumiki_resource_destroy(interface, other), EACCES);
	CHECK(kumiki_resource_share(other, KUMIKI_RESOURCE_USE, &user) == 0);
	REFUSED(kumiki_resource_share(user, KUMIKI_RESOURCE_USE, &resource), EACCES);
	REFUSED(kumiki_resource_share(other, 8, &resource), EINVAL);
	REFUSED(kumiki_resource_share(other, KUMIKI_RESOURCE_USE | KUMIKI_RESOURCE_DESTROY, &resource), EACCES);
	CHECK(kumiki_resource_call(interface, user, add, &two) == 0);
	CHECK(counter.value == 3006 && counter.destroyed == 0);

	CHECK(kumiki_resource_destroy(interface, resource) == 0);
	CHECK(counter.destroyed == 1);
	REFUSED(kumiki_resource_call(interface, user, add, &two), ESTALE);
	REFUSED(kumiki_resource_open(interface, name, &resource), ENOENT);
	CHECK(counter.value == 3006);
	kumiki_resource_close(user);
	kumiki_resource_close(other);
	kumiki_resource_close(NULL);

	CHECK(kumiki_resource_object_create(interface, place, NULL, &left, destroyed, &other) == 0);
	kumiki_resource_close(other);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
	CHECK(left.destroyed == 1);
}

/* ---- calls that are not waited for, or not for long ---- */

struct gate {
	int entered, open;
};

static void hold(void *object, void *argument)
{
	struct gate *gate = (struct gate *)argument;
	(void)object;
	__atomic_store_n(&gate->entered, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void enter(struct gate *gate)
{
	while (!__atomic_load_n(&gate->entered, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void started(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct counter counter = { 0, -1, 0 };
	struct gate first = { 0, 0 }, second = { 0, 0 };
	struct kumiki_resource *resource = NULL;
	struct kumiki_resource_answer *held = NULL, *all[31], *more = NULL;
	struct kumiki_resource_manager *manager = NULL;
	long two = 2;
	int count, result;
	uint16_t place = last_place(interface, &count);

	CHECK(kumiki_resource_object_create(interface, place, NULL, &counter, NULL, &resource) == 0);
	CHECK(kumiki_resource_start(interface, resource, hold, &first, &held) == 0);
	enter(&first);
	CHECK(kumiki_resource_answer_is_done(held) == 0);
	/* Its owner is busy: what has not begun is not called any more. */
	REFUSED(kumiki_resource_call_timed(interface, resource, add, &two, 1000000), ETIMEDOUT);
	for (int i = 0; i < 31; i++)
		CHECK(kumiki_resource_start(interface, resource, add, &two, &all[i]) == 0);
	REFUSED(kumiki_resource_start(interface, resource, add, &two, &more), EAGAIN);
	for (int i = 1; i < 31; i++)
		CHECK(kumiki_resource_answer_cancel(all[i]) == 1);
	CHECK(kumiki_resource_answer_detach(all[0]) == 0);
	__atomic_store_n(&first.open, 1, __ATOMIC_RELEASE);
	CHECK(kumiki_resource_answer_wait(held) == 0);
	CHECK(kumiki_resource_call_timed(interface, resource, add, &two, KUMIKI_RESOURCE_FOREVER) == 0);
	CHECK(counter.value == 4);
	/* What has begun goes on. */
	do
		result = kumiki_resource_call_timed(interface, resource, hold, &second, 50000000);
	while (result == -ETIMEDOUT);
	CHECK(result == -EINPROGRESS && strlen(kumiki_last_error()) > 20);
	enter(&second);
	__atomic_store_n(&second.open, 1, __ATOMIC_RELEASE);
	CHECK(kumiki_resource_start(interface, resource, add, &two, &more) == 0);
	while (kumiki_resource_answer_is_done(more) == 0)
		usleep(100);
	CHECK(counter.value == 6 && kumiki_resource_answer_cancel(more) == 0);
	CHECK(kumiki_resource_destroy(interface, resource) == 0);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);

	/* At its own place a manager calls at once. */
	interface = create(KUMIKI_RESOURCE_ADOPTED);
	place = last_place(interface, &count);
	CHECK(kumiki_resource_manager_create(interface, place, &manager) == 0);
	CHECK(kumiki_resource_object_create(interface, place, NULL, &counter, NULL, &resource) == 0);
	CHECK(kumiki_resource_call_timed(interface, resource, add, &two, 0) == 0);
	CHECK(kumiki_resource_start(interface, resource, add, &two, &more) == 0);
	CHECK(kumiki_resource_answer_is_done(more) == 1 && counter.value == 10);
	CHECK(kumiki_resource_answer_wait(more) == 0);
	REFUSED(kumiki_resource_call_timed(interface, resource, NULL, NULL, 0), EINVAL);
	REFUSED(kumiki_resource_start(interface, resource, NULL, NULL, &more), EINVAL);
	REFUSED(kumiki_resource_start(interface, resource, add, &two, NULL), EINVAL);
	REFUSED(kumiki_resource_answer_is_done(NULL), EINVAL);
	REFUSED(kumiki_resource_answer_wait(NULL), EINVAL);
	REFUSED(kumiki_resource_answer_cancel(NULL), EINVAL);
	REFUSED(kumiki_resource_answer_detach(NULL), EINVAL);
	kumiki_resource_close(resource);
	CHECK(kumiki_resource_manager_destroy(manager) == 0);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
}

/* ---- names ---- */

static void changes(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct kumiki_resource *resource = NULL;
	struct kumiki_resource_watch *watch = NULL;
	struct kumiki_resource_change change;
	char name[64];
	uint64_t id;
	int count;
	uint16_t place = last_place(interface, &count);

	CHECK(kumiki_resource_watch(interface, "*/memory/b*", &watch) == 0);
	REFUSED(kumiki_resource_watch_next(watch, 0, &change), ETIMEDOUT);
	CHECK(kumiki_resource_memory_create(interface, place, "other", 1, &resource) == 0);
	kumiki_resource_close(resource);
	CHECK(kumiki_resource_memory_create(interface, place, "buffer", 1, &resource) == 0);
	id = kumiki_resource_id(resource);
	snprintf(name, sizeof(name), "core%d/memory/buffer", place);
	CHECK(kumiki_resource_watch_next(watch, KUMIKI_RESOURCE_FOREVER, &change) == 0);
	CHECK(change.created == 1 && change.id == id && strcmp(change.name, name) == 0);
	CHECK(kumiki_resource_destroy(interface, resource) == 0);
	CHECK(kumiki_resource_watch_next(watch, KUMIKI_RESOURCE_FOREVER, &change) == 0);
	CHECK(change.created == 0 && change.id == id && strcmp(change.name, name) == 0);
	REFUSED(kumiki_resource_watch_next(watch, 1000000, &change), ETIMEDOUT);
	REFUSED(kumiki_resource_watch_next(watch, 0, NULL), EINVAL);
	REFUSED(kumiki_resource_watch_next(NULL, 0, &change), EINVAL);
	REFUSED(kumiki_resource_watch(interface, NULL, NULL), EINVAL);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
	REFUSED(kumiki_resource_watch_next(watch, KUMIKI_RESOURCE_FOREVER, &change), ESHUTDOWN);
	kumiki_resource_watch_end(watch);
	kumiki_resource_watch_end(NULL);
}

static void count_named(const struct kumiki_resource_listed *listed, void *argument)
{
	if (strstr(listed->name, "/memory/") != NULL) {
		CHECK(listed->bytes == 3 * 4096 && strcmp(listed->state, "3 frames") == 0);
		CHECK(listed->id != 0 && strncmp(listed->owner, "core", 4) == 0);
		(*(int *)argument)++;
	}
}

static void names(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct kumiki_resource *resource = NULL, *opened = NULL;
	struct kumiki_resource_published *published = NULL, *second = NULL;
	int count, seen = 0;
	uint16_t place = last_place(interface, &count);

	CHECK(kumiki_resource_memory_create(interface, place, "buffer", 3, &resource) == 0);
	CHECK(kumiki_resource_ls(interface, NULL, count_named, &seen) > count && seen == 1);
	CHECK(kumiki_resource_ls(interface, "*/memory/b*", NULL, NULL) == 1);
	CHECK(kumiki_resource_ls(interface, "*/memory/c*", NULL, NULL) == 0);
	CHECK(kumiki_resource_ls(interface, "*/server/*", NULL, NULL) >= count);
	REFUSED(kumiki_resource_ls(interface, "[", NULL, NULL), EINVAL);
	REFUSED(kumiki_resource_open(interface, "core0/memory", &opened), EINVAL);
	REFUSED(kumiki_resource_open(interface, "core0/nothing/a", &opened), ENODEV);
	REFUSED(kumiki_resource_open(interface, "core65535/memory/a", &opened), ENXIO);
	REFUSED(kumiki_resource_memory_create(interface, place, "a/b", 1, &opened), EINVAL);
	REFUSED(kumiki_resource_memory_create(interface, place, "\xff", 1, &opened), EINVAL);
	REFUSED(kumiki_resource_memory_create(interface, UINT16_MAX, NULL, 1, &opened), ENXIO);

	CHECK(kumiki_resource_open_id(interface, kumiki_resource_id(resource), &opened) == 0);
	REFUSED(kumiki_resource_call(interface, opened, add, NULL), EPROTOTYPE);
	kumiki_resource_close(opened);
	/* One that is never given out, of that kind and place. */
	CHECK(kumiki_resource_open_id(interface, kumiki_resource_id(resource) + 1, &opened) == 0);
	REFUSED(kumiki_resource_memory_frame(interface, opened, 0, (void **)&opened), ENOENT);
	kumiki_resource_close(opened);
	REFUSED(kumiki_resource_open_id(interface, UINT64_MAX, &opened), ENODEV);

	if (kumiki_resource_publish(interface, &published) == 0) {
		REFUSED(kumiki_resource_publish(interface, &second), EADDRINUSE);
		kumiki_resource_withdraw(published);
		CHECK(kumiki_resource_publish(interface, &published) == 0);
	}
	kumiki_resource_withdraw(published);
	kumiki_resource_withdraw(NULL);
	CHECK(kumiki_resource_destroy(interface, resource) == 0);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
}

/* ---- memory ---- */

static void *free_elsewhere(void *pages)
{
	for (int i = 0; i < 200; i++)
		kumiki_resource_page_free(((void **)pages)[i]);
	kumiki_resource_page_flush();
	return NULL;
}

static void pages(void)
{
	void *all[200];
	pthread_t thread;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 200; i++) {
			all[i] = kumiki_resource_page_allocate();
			CHECK(all[i] != NULL && (uintptr_t)all[i] % 4096 == 0);
			memset(all[i], i, 4096);
		}
		for (int i = 0; i < 200; i++)
			CHECK(((unsigned char *)all[i])[4095] == i);
		CHECK(pthread_create(&thread, NULL, free_elsewhere, all) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	kumiki_resource_page_free(NULL);
}

static void frames(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct kumiki_resource *resource = NULL;
	void *frame = NULL;
	int count;
	uint16_t place = last_place(interface, &count);
	CHECK(kumiki_resource_memory_create(interface, place, NULL, 5, &resource) == 0);
	CHECK(kumiki_resource_memory_frame(interface, resource, 4, &frame) == 0);
	memset(frame, 1, 4096);
	REFUSED(kumiki_resource_memory_frame(interface, resource, 5, &frame), EINVAL);
	CHECK(kumiki_resource_destroy(interface, resource) == 0);
	CHECK(kumiki_resource_memory_2m_create(interface, place, NULL, 1, &resource) == 0);
	CHECK(kumiki_resource_memory_frame(interface, resource, 0, &frame) == 0);
	memset(frame, 1, 2 << 20);
	CHECK(kumiki_resource_destroy(interface, resource) == 0);
	REFUSED(kumiki_resource_memory_create(interface, place, NULL, 0, &resource), EINVAL);
	REFUSED(kumiki_resource_memory_create(interface, place, NULL, SIZE_MAX, &resource), EINVAL);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
}

/* Where a region is attached, as bytes. */
static char *attached(struct kumiki_resource_interface *interface, uint16_t place,
                      struct kumiki_resource *region, struct kumiki_resource *space,
                      uint32_t flags, struct kumiki_resource **user)
{
	void *address = NULL;
	size_t bytes = 0;
	CHECK(kumiki_resource_attach(interface, place, NULL, region, space,
	                             KUMIKI_RESOURCE_ANYWHERE, flags, user) == 0);
	CHECK(kumiki_resource_user_space_address(interface, *user, &address, &bytes) == 0);
	CHECK(bytes >= 8192);
	return (char *)address;
}

static void regions(void)
{
	struct kumiki_resource_interface *interface = create(0);
	int count;
	uint16_t place = last_place(interface, &count);
	struct kumiki_resource *space = NULL, *region = NULL, *other = NULL, *users[3];
	FILE *file;
	int fd;

	CHECK(kumiki_resource_space_create(interface, place, "space", 1 << 20, &space) == 0);
	CHECK(kumiki_resource_region_create(interface, place, "region", 8192, &region) == 0);
	char *a = attached(interface, place, region, space, 0, &users[0]);
	char *b = attached(interface, place, region, space, KUMIKI_RESOURCE_READ_ONLY, &users[1]);
	fd = kumiki_resource_region_descriptor(interface, region);
	CHECK(fd >= 0);
	CHECK(kumiki_resource_region_of_passed(interface, place, "passed", fd, &other) == 0);
	CHECK(close(fd) == 0);
	char *c = attached(interface, place, other, space, 0, &users[2]);
	strcpy(a + 4090, "everywhere");
	CHECK(a != b && strcmp(b + 4090, "everywhere") == 0 && strcmp(c + 4090, b + 4090) == 0);
	REFUSED(kumiki_resource_attach(interface, place, NULL, region, space, 4096, 0, &users[0]), EINVAL);
	REFUSED(kumiki_resource_attach(interface, place, NULL, region, space, 0, 2, &users[0]), EINVAL);
	REFUSED(kumiki_resource_attach(interface, place, NULL, space, region, 0, 0, &users[0]), EPROTOTYPE);
	/* A child has its own interface, and the same bytes. */
	pid_t child = fork();
	if (child == 0) {
		c[0] = 'c';
		_exit(0);
	}
	CHECK(waitpid(child, NULL, 0) == child && a[0] == 'c');
	for (int i = 0; i < 3; i++)
		CHECK(kumiki_resource_destroy(interface, users[i]) == 0);
	CHECK(kumiki_resource_destroy(interface, other) == 0);
	CHECK(kumiki_resource_destroy(interface, region) == 0);

	CHECK(kumiki_resource_region_of_frames(interface, place, NULL, 2, &region) == 0);
	memset(attached(interface, place, region, space, 0, &users[0]), 1, 8192);
	REFUSED(kumiki_resource_region_descriptor(interface, region), EINVAL);
	CHECK(kumiki_resource_destroy(interface, users[0]) == 0);
	CHECK(kumiki_resource_destroy(interface, region) == 0);

	file = tmpfile();
	CHECK(file != NULL);
	fd = fileno(file);
	CHECK(ftruncate(fd, 8192) == 0);
	CHECK(kumiki_resource_region_of_file(interface, place, NULL, fd, 0, 8192, &region) == 0);
	REFUSED(kumiki_resource_region_of_file(interface, place, NULL, fd, 0, 8193, &other), EINVAL);
	REFUSED(kumiki_resource_region_of_file(interface, place, NULL, -1, 0, 1, &other), EBADF);
	strcpy(attached(interface, place, region, space, 0, &users[0]), "file");
	char text[8] = "";
	CHECK(pread(fd, text, 5, 0) == 5 && strcmp(text, "file") == 0);
	fclose(file);

	CHECK(kumiki_resource_user_space_create(interface, place, NULL, 10000, &users[1]) == 0);
	void *address = NULL;
	CHECK(kumiki_resource_user_space_address(interface, users[1], &address, NULL) == 0);
	memset(address, 1, 10000);
	REFUSED(kumiki_resource_region_create(interface, place, NULL, SIZE_MAX / 2, &other), EINVAL);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
	kumiki_resource_close(space);
	kumiki_resource_close(region);
	kumiki_resource_close(users[0]);
	kumiki_resource_close(users[1]);
}

/* ---- threads ---- */

static void until_stopped(void *argument, const struct kumiki_resource_stop *stop)
{
	*(volatile int *)argument = sched_getcpu();
	while (!kumiki_resource_stop_is_asked(stop))
		usleep(1000);
}

static void at_once(void *argument, const struct kumiki_resource_stop *stop)
{
	*(volatile int *)argument = 1 + kumiki_resource_stop_is_asked(stop);
}

static void threads(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct kumiki_resource *thread = NULL;
	static volatile int cpu = -1, ran;
	int count;
	uint16_t place = last_place(interface, &count);
	CHECK(kumiki_resource_thread_create(interface, place, "w", until_stopped, (void *)&cpu, &thread) == 0);
	REFUSED(kumiki_resource_thread_wait(interface, thread, 20000000), ETIMEDOUT);
	while (cpu < 0)
		usleep(1000);
	CHECK(cpu == place);
	CHECK(kumiki_resource_destroy(interface, thread) == 0);
	CHECK(kumiki_resource_thread_create(interface, place, "w", at_once, (void *)&ran, &thread) == 0);
	CHECK(kumiki_resource_thread_wait(interface, thread, KUMIKI_RESOURCE_FOREVER) == 0);
	CHECK(ran == 1);
	REFUSED(kumiki_resource_thread_create(interface, place, "x", NULL, NULL, &thread), EINVAL);
	kumiki_resource_close(thread);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
}

/* ---- programs and processes ---- */

static void processes(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct kumiki_resource *program = NULL, *process = NULL, *none = NULL;
	char sh[] = "sh", c[] = "-c", leave[] = "exit 7", stay[] = "exec sleep 600", say[] = "echo said";
	char *leaves[] = { sh, c, leave, NULL }, *stays[] = { sh, c, stay, NULL };
	char *says[] = { sh, c, say, NULL }, text[16];
	kumiki_spawn_file_actions_t actions;
	kumiki_spawnattr_t attr;
	int count, status = -1, pid, ends[2];
	uint16_t place = last_place(interface, &count);

	CHECK(kumiki_resource_process_create(interface, place, "worker", "sh", NULL, NULL, leaves,
	                                     environ, &process) == 0);
	CHECK(kumiki_resource_process_id(interface, process) > 0);
	CHECK(kumiki_resource_ls(interface, "*/process/worker", NULL, NULL) == 1);
	CHECK(kumiki_resource_process_wait(interface, process, KUMIKI_RESOURCE_FOREVER, &status) == 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(kumiki_resource_process_wait(interface, process, 0, NULL) == 0);
	CHECK(kumiki_resource_process_signal(interface, process, SIGTERM) == 0);
	CHECK(kumiki_resource_destroy(interface, process) == 0);

	CHECK(kumiki_resource_program_create(interface, place, "sh", "/bin/sh", &program) == 0);
	CHECK(kumiki_resource_process_of(interface, place, NULL, program, NULL, NULL, stays, environ,
	                                 &process) == 0);
	REFUSED(kumiki_resource_process_wait(interface, process, 1000000, &status), ETIMEDOUT);
	CHECK(kumiki_resource_process_signal(interface, process, SIGTERM) == 0);
	CHECK(kumiki_resource_process_wait(interface, process, KUMIKI_RESOURCE_FOREVER, &status) == 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	CHECK(kumiki_resource_destroy(interface, process) == 0);

	/* Deleted, it is ended and waited for. */
	CHECK(kumiki_resource_process_create(interface, place, NULL, "sh", NULL, NULL, stays, environ,
	                                     &process) == 0);
	pid = kumiki_resource_process_id(interface, process);
	CHECK(pid > 0 && kill(pid, 0) == 0);
	CHECK(kumiki_resource_destroy(interface, process) == 0);
	CHECK(kill(pid, 0) == -1 && errno == ESRCH);

	/* Attributes and actions of <kumiki/spawn.h>. */
	CHECK(pipe(ends) == 0);
	CHECK(kumiki_spawnattr_init(&attr) == 0 && kumiki_spawn_file_actions_init(&actions) == 0);
	CHECK(kumiki_spawnattr_setflags(&attr, KUMIKI_SPAWN_SETSID) == 0);
	CHECK(kumiki_spawn_file_actions_adddup2(&actions, ends[1], 1) == 0);
	CHECK(kumiki_resource_process_of(interface, place, NULL, program, &actions, &attr, says, environ,
	                                 &process) == 0);
	CHECK(read(ends[0], text, sizeof(text)) == 5 && memcmp(text, "said\n", 5) == 0);
	CHECK(kumiki_resource_process_wait(interface, process, KUMIKI_RESOURCE_FOREVER, &status) == 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(kumiki_resource_destroy(interface, process) == 0);
	CHECK(kumiki_spawn_file_actions_destroy(&actions) == 0);
	REFUSED(kumiki_resource_process_create(interface, place, NULL, "sh", &actions, &attr, says,
	                                       environ, &none), EINVAL);
	CHECK(kumiki_spawnattr_destroy(&attr) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);

	REFUSED(kumiki_resource_process_create(interface, place, NULL, "/nowhere/x", NULL, NULL, leaves,
	                                       environ, &none), ENOENT);
	REFUSED(kumiki_resource_process_create(interface, place, NULL, "/", NULL, NULL, leaves, environ,
	                                       &none), EACCES);
	REFUSED(kumiki_resource_process_create(interface, place, NULL, NULL, NULL, NULL, leaves, environ,
	                                       &none), EINVAL);
	REFUSED(kumiki_resource_process_create(interface, place, NULL, "sh", NULL, NULL, NULL, environ,
	                                       &none), EINVAL);
	REFUSED(kumiki_resource_process_create(interface, place, NULL, "sh", NULL, NULL, leaves, environ,
	                                       NULL), EINVAL);
	REFUSED(kumiki_resource_process_of(interface, place, NULL, NULL, NULL, NULL, leaves, environ,
	                                   &none), EINVAL);
	REFUSED(kumiki_resource_program_create(interface, place, NULL, "/nowhere/x", &none), ENOENT);
	REFUSED(kumiki_resource_program_create(interface, place, NULL, "/etc/passwd", &none), EINVAL);
	REFUSED(kumiki_resource_program_create(interface, place, NULL, NULL, &none), EINVAL);
	REFUSED(kumiki_resource_process_wait(interface, program, 0, NULL), EPROTOTYPE);
	CHECK(kumiki_resource_process_create(interface, place, NULL, "sh", NULL, NULL, stays, environ,
	                                     &process) == 0);
	REFUSED(kumiki_resource_process_signal(interface, process, 1000), EINVAL);
	REFUSED(kumiki_resource_process_of(interface, place, NULL, process, NULL, NULL, leaves, environ,
	                                   &none), EPROTOTYPE);
	pid = kumiki_resource_process_id(interface, process);
	kumiki_resource_close(process);
	kumiki_resource_close(program);
	/* It goes with its interface. */
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
	CHECK(kill(pid, 0) == -1 && errno == ESRCH);
}

/* ---- managers of the program ---- */

struct worker {
	const struct kumiki_resource_interface *interface;
	uint16_t place;
	pthread_barrier_t *made;
	struct kumiki_resource **objects;
	int own, all;
	volatile int *ended;
	struct counter counter;
};

static void *work(void *argument)
{
	struct worker *worker = (struct worker *)argument;
	struct kumiki_resource_manager *manager = NULL, *second = NULL;
	long one = 1;
	CHECK(kumiki_resource_manager_create(worker->interface, worker->place, &manager) == 0);
	REFUSED(kumiki_resource_manager_create(worker->interface, worker->place, &second), EDEADLK);
	CHECK(kumiki_resource_object_create(worker->interface, worker->place, NULL, &worker->counter, NULL,
	                             &worker->objects[worker->own]) == 0);
	pthread_barrier_wait(worker->made);
	for (int i = 0; i < 1000; i++)
		for (int other = 0; other < worker->all; other++)
			CHECK(kumiki_resource_call(worker->interface, worker->objects[other], add, &one) == 0);
	__atomic_add_fetch(worker->ended, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(worker->ended, __ATOMIC_RELAXED) < worker->all)
		CHECK(kumiki_resource_manager_wait(manager, 1000000) == 0);
	CHECK(kumiki_resource_manager_serve(manager) >= 0);
	pthread_barrier_wait(worker->made);
	CHECK(kumiki_resource_manager_destroy(manager) == 0);
	return NULL;
}

static void managers(void)
{
	struct kumiki_resource_interface *interface = create(KUMIKI_RESOURCE_ADOPTED);
	struct kumiki_resource *objects[64], *late = NULL;
	struct kumiki_resource_manager *none = NULL;
	struct worker workers[64];
	pthread_t all[64];
	pthread_barrier_t made;
	volatile int ended = 0;
	uint16_t places[64];
	int count = kumiki_resource_places(interface, places, 64);
	if (count > 64)
		count = 64;
	CHECK(pthread_barrier_init(&made, NULL, (unsigned)count) == 0);
	memset(workers, 0, sizeof(workers));
	for (int i = 0; i < count; i++) {
		workers[i].interface = interface;
		workers[i].place = places[i];
		workers[i].made = &made;
		workers[i].objects = objects;
		workers[i].own = i;
		workers[i].all = count;
		workers[i].ended = &ended;
		CHECK(pthread_create(&all[i], NULL, work, &workers[i]) == 0);
	}
	for (int i = 0; i < count; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	for (int i = 0; i < count; i++) {
		CHECK(workers[i].counter.value == 1000L * count);
		kumiki_resource_close(objects[i]);
	}
	REFUSED(kumiki_resource_memory_create(interface, places[0], NULL, 1, &late), ESHUTDOWN);
	REFUSED(kumiki_resource_manager_create(interface, places[0], &none), ENXIO);
	CHECK(kumiki_resource_manager_destroy(NULL) == 0);
	CHECK(kumiki_resource_interface_destroy(interface) == 0);
	pthread_barrier_destroy(&made);
}

/* ---- what cannot work ---- */

static void bad_interfaces(void)
{
	struct kumiki_resource_interface *interface = NULL;
	const int far[] = { 100000 }, negative[] = { -1 };
	REFUSED(kumiki_resource_interface_create(NULL, NULL, 0, 0), EINVAL);
	REFUSED(kumiki_resource_interface_create(&interface, NULL, 1, 0), EINVAL);
	REFUSED(kumiki_resource_interface_create(&interface, far, 1, 0), ENXIO);
	REFUSED(kumiki_resource_interface_create(&interface, negative, 1, 0), EINVAL);
	REFUSED(kumiki_resource_interface_create(&interface, NULL, 0, 2), EINVAL);
	REFUSED(kumiki_resource_interface_create(&interface, NULL, 0, 4), EINVAL);
	CHECK(interface == NULL && kumiki_resource_interface_destroy(NULL) == 0);
}

static void null_pointers(void)
{
	struct kumiki_resource_interface *interface = create(0);
	struct kumiki_resource *resource = NULL, *none = NULL;
	void *address = NULL;
	int object = 0, count;
	uint16_t place = last_place(interface, &count);
	REFUSED(kumiki_resource_places(NULL, NULL, 0), EINVAL);
	REFUSED(kumiki_resource_places(interface, NULL, 1), EINVAL);
	CHECK(kumiki_resource_places(interface, NULL, 0) == count);
	REFUSED(kumiki_resource_open(interface, NULL, &none), EINVAL);
	REFUSED(kumiki_resource_open_id(NULL, 1, &none), EINVAL);
	REFUSED(kumiki_resource_share(NULL, 1, &none), EINVAL);
	REFUSED(kumiki_resource_destroy(interface, NULL), EINVAL);
	REFUSED(kumiki_resource_ls(NULL, NULL, NULL, NULL), EINVAL);
	REFUSED(kumiki_resource_publish(interface, NULL), EINVAL);
	REFUSED(kumiki_resource_object_create(interface, place, NULL, &object, NULL, NULL), EINVAL);
	CHECK(kumiki_resource_object_create(interface, place, NULL, &object, NULL, &resource) == 0);
	REFUSED(kumiki_resource_call(interface, resource, NULL, NULL), EINVAL);
	REFUSED(kumiki_resource_call(NULL, resource, add, NULL), EINVAL);
	REFUSED(kumiki_resource_call(interface, NULL, add, NULL), EINVAL);
	REFUSED(kumiki_resource_memory_create(interface, place, NULL, 1, NULL), EINVAL);
	REFUSED(kumiki_resource_memory_2m_create(NULL, 0, NULL, 1, &none), EINVAL);
	REFUSED(kumiki_resource_memory_frame(interface, resource, 0, NULL), EINVAL);
	REFUSED(kumiki_resource_region_descriptor(interface, NULL), EINVAL);
	REFUSED(kumiki_resource_attach(interface, place, NULL, NULL, NULL, 0, 0, &none), EINVAL);
	REFUSED(kumiki_resource_user_space_address(interface, resource, NULL, NULL), EINVAL);
	REFUSED(kumiki_resource_user_space_address(interface, resource, &address, NULL), EPROTOTYPE);
	REFUSED(kumiki_resource_thread_wait(interface, resource, 0), EPROTOTYPE);
	REFUSED(kumiki_resource_manager_create(interface, place, NULL), EINVAL);
	REFUSED(kumiki_resource_manager_serve(NULL), EINVAL);
	CHECK(kumiki_resource_stop_is_asked(NULL) == 0);
	kumiki_resource_close(resource);
	CHECK(none == NULL && kumiki_resource_interface_destroy(interface) == 0);
}

int main(void)
{
	alarm(PATIENCE);
	CHECK(strcmp(kumiki_last_error(), "") == 0);
	objects();
	started();
	changes();
	names();
	pages();
	frames();
	regions();
	threads();
	processes();
	managers();
	bad_interfaces();
	null_pointers();
	if (failures != 0)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
