/*
 * A program that calls a place of another process: argument 1.
 */
#include <kumiki/places.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                      \
	do {                                                                             \
		if (!(what)) {                                                           \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what,    \
				kumiki_places_last_error());                             \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

static struct kumiki_places *places;
static const char *place;

static const char *name(const char *unique)
{
	static char text[512];

	snprintf(text, sizeof(text), "%s/counter/%s", place, unique);
	return text;
}

/* The outcome of a call that was started; text is "" if it gives none. */
static int outcome(int started, struct kumiki_places_call *call, char *text)
{
	char *json = NULL;
	int result;

	*text = 0;
	if (started < 0)
		return started;
	result = kumiki_places_call_wait(call, -1, &json);
	if (result == 0)
		snprintf(text, 4096, "%s", json);
	kumiki_places_free(json);
	CHECK(kumiki_places_call_end(call) == 0);
	return result;
}

static int create(const char *unique, const char *wishes, char *text)
{
	struct kumiki_places_call *call = NULL;
	int started = kumiki_places_start_create(places, name(unique), wishes, 0, &call);

	return outcome(started, call, text);
}

static int call(const char *unique, const char *part, const char *input, char *text)
{
	struct kumiki_places_call *call = NULL;
	int started = kumiki_places_start_call(places, name(unique), part, input, 0, &call);

	return outcome(started, call, text);
}

static int destroy(const char *unique, char *text)
{
	struct kumiki_places_call *call = NULL;
	int started = kumiki_places_start_destroy(places, name(unique), 0, &call);

	return outcome(started, call, text);
}

static void calls(void)
{
	struct kumiki_places_call *ls = NULL;
	char text[4096];

	CHECK(create("hits", "40", text) == 0 && strncmp(text, "\"0x", 3) == 0);
	CHECK(call("hits", "add", "2", text) == 0 && strcmp(text, "42") == 0);
	CHECK(call("hits", "get", NULL, text) == 0 && strcmp(text, "42") == 0);
	CHECK(kumiki_places_start_ls(places, place, "**/counter/*", 0, &ls) == 0);
	CHECK(outcome(0, ls, text) == 0);
	CHECK(strstr(text, name("hits")) && strstr(text, "\"state\":\"42\""));
	CHECK(kumiki_places_start_places(places, 0, &ls) == 0);
	CHECK(outcome(0, ls, text) == 0);
	CHECK(strstr(text, place));
	/* Each error by its number and with its sentence. */
	CHECK(create("hits", "1", text) == -EEXIST && strstr(kumiki_places_last_error(), "exists"));
	CHECK(call("absent", "get", NULL, text) == -ENOENT);
	CHECK(call("hits", "grow", NULL, text) == -EINVAL);
	CHECK(strstr(kumiki_places_last_error(), "it has: add, get"));
	CHECK(call("hits", "add", "x", text) == -EINVAL && strstr(kumiki_places_last_error(), "is not JSON"));
	CHECK(call("hits", "add", "\"x\"", text) < 0 && *kumiki_places_last_error());
	CHECK(kumiki_places_start_call(places, "nonsense", "add", "1", 0, &ls) == -EINVAL);
	CHECK(kumiki_places_start_call(places, NULL, "add", "1", 0, &ls) == -EINVAL);
	CHECK(kumiki_places_start_call(NULL, name("hits"), "add", "1", 0, &ls) == -EINVAL);
	CHECK(kumiki_places_start_call(places, name("hits"), "add", "1", 0, NULL) == -EINVAL);
	CHECK(kumiki_places_start_ls(places, "nobody.core0", "**", 0, &ls) == 0);
	CHECK(outcome(0, ls, text) == -ESRCH && strstr(kumiki_places_last_error(), "nobody answers"));
	CHECK(destroy("hits", text) == 0 && destroy("hits", text) == -ENOENT);
}

/* Started, waited for with a limit, polled, timed, given up. */
static void waits(void)
{
	struct kumiki_places_call *later = NULL, *early = NULL;
	struct pollfd ready;
	char text[4096], *json;

	CHECK(create("slow", "7", text) == 0);
	CHECK(kumiki_places_start_call(places, name("slow"), "later", "600000", 0, &later) == 0);
	CHECK(kumiki_places_call_wait(later, 20, NULL) == -ETIMEDOUT);
	/* Another one runs meanwhile. */
	CHECK(kumiki_places_start_call(places, name("slow"), "get", NULL, 0, &early) == 0);
	ready = (struct pollfd){ .fd = kumiki_places_call_fd(early), .events = POLLIN };
	CHECK(poll(&ready, 1, 60000) == 1);
	CHECK(kumiki_places_call_wait(early, 0, &json) == 0 && strcmp(json, "7") == 0);
	kumiki_places_free(json);
	CHECK(kumiki_places_call_wait(early, 0, NULL) == 0);
	CHECK(kumiki_places_call_end(early) == 0);
	ready = (struct pollfd){ .fd = kumiki_places_call_fd(later), .events = POLLIN };
	CHECK(poll(&ready, 1, 0) == 0);
	CHECK(kumiki_places_call_end(later) == -ECANCELED);
	CHECK(kumiki_places_call_end(NULL) == 0);
	/* One that is tried for a while, and was sent. */
	CHECK(kumiki_places_start_call(places, name("slow"), "later", "600000", 300, &later) == 0);
	CHECK(outcome(0, later, text) == -ECONNABORTED);
	CHECK(strstr(kumiki_places_last_error(), "unknown whether"));
	CHECK(destroy("slow", text) == 0);
}

/* Bound once: called, started, and over when its resource is. */
static void bound(void)
{
	struct kumiki_places_bound *add = NULL, *get = NULL;
	struct kumiki_places_call *started = NULL;
	char text[4096], *json = NULL;

	CHECK(kumiki_places_bind(places, name("kept"), "add", 0, &add) == -ENOENT);
	CHECK(create("kept", "40", text) == 0);
	CHECK(kumiki_places_bind(places, name("kept"), "grow", 0, &add) == -EINVAL);
	CHECK(strstr(kumiki_places_last_error(), "it has: add, get"));
	CHECK(kumiki_places_bind(places, name("kept"), "add", 0, NULL) == -EINVAL);
	CHECK(kumiki_places_bind(places, name("kept"), "add", 0, &add) == 0);
	CHECK(kumiki_places_bind(places, name("kept"), "get", 0, &get) == 0);
	CHECK(kumiki_places_bound_call(add, "2", 0, &json) == 0 && strcmp(json, "42") == 0);
	kumiki_places_free(json);
	CHECK(kumiki_places_bound_call(add, "x", 0, NULL) == -EINVAL);
	CHECK(kumiki_places_bound_call(NULL, "2", 0, NULL) == -EINVAL);
	CHECK(kumiki_places_start_bound(add, "1", 0, &started) == 0);
	CHECK(outcome(0, started, text) == 0 && strcmp(text, "43") == 0);
	/* Another one has its name: that is said once, and nothing was done to it. */
	CHECK(destroy("kept", text) == 0 && create("kept", "7", text) == 0);
	CHECK(kumiki_places_bound_call(add, "1", 0, NULL) == -ESTALE);
	CHECK(kumiki_places_bound_call(get, NULL, 0, NULL) == -ESTALE);
	CHECK(kumiki_places_bound_call(get, NULL, 0, &json) == 0 && strcmp(json, "7") == 0);
	kumiki_places_free(json);
	CHECK(kumiki_places_bound_call(add, "1", 0, &json) == 0 && strcmp(json, "8") == 0);
	kumiki_places_free(json);
	/* A call that was started goes on without it. */
	CHECK(kumiki_places_start_bound(add, "1", 0, &started) == 0);
	kumiki_places_bound_end(add);
	CHECK(outcome(0, started, text) == 0 && strcmp(text, "9") == 0);
	kumiki_places_bound_end(get);
	kumiki_places_bound_end(NULL);
	CHECK(destroy("kept", text) == 0);
}

static void news(struct kumiki_places_watch *watch, const char *what, const char *of)
{
	char *json = NULL;

	CHECK(kumiki_places_watch_next(watch, 60000, &json) == 0);
	if (!strstr(json, what) || !strstr(json, of)) {
		fprintf(stderr, "%s of %s: %s\n", what, of, json);
		exit(1);
	}
	kumiki_places_free(json);
}

static void watches(void)
{
	struct kumiki_places_watch *watch = NULL;
	struct kumiki_places_call *ls = NULL, *late = NULL;
	struct pollfd ready;
	char text[4096];

	CHECK(kumiki_places_watch(places, "nobody.core0", "**", 0, &watch) == -ESRCH);
	CHECK(kumiki_places_watch(places, place, "[", 0, &watch) == -EINVAL);
	CHECK(kumiki_places_watch(places, place, "**/counter/n*", 0, &watch) == 0);
	news(watch, "\"here\"", place);
	CHECK(kumiki_places_watch_next(watch, 0, NULL) == -ETIMEDOUT);
	CHECK(create("other", "1", text) == 0 && create("new", "1", text) == 0);
	ready = (struct pollfd){ .fd = kumiki_places_watch_fd(watch), .events = POLLIN };
	CHECK(poll(&ready, 1, 60000) == 1);
	news(watch, "\"created\"", name("new"));
	CHECK(destroy("new", text) == 0);
	news(watch, "\"destroyed\"", name("new"));
	/* Its end is told, and answers what is under way. */
	CHECK(kumiki_places_start_call(places, name("other"), "later", "600000", 60000, &late) == 0);
	/* It is there only once the place counts it; one that has not been sent has not been run. */
	do {
		CHECK(kumiki_places_start_ls(places, place, "**/counter/other", 0, &ls) == 0);
		CHECK(outcome(0, ls, text) == 0);
	} while (!strstr(text, "\"calls\":1"));
	CHECK(kumiki_places_call_wait(late, 0, NULL) == -ETIMEDOUT);
	puts("end the place");
	fflush(stdout);
	CHECK(outcome(0, late, text) == -ECONNABORTED);
	news(watch, "\"gone\"", place);
	kumiki_places_watch_end(watch);
	kumiki_places_watch_end(NULL);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	place = argv[1];
	CHECK(kumiki_places_open(&places, "nats://127.0.0.1:1", NULL) == -ENOTCONN);
	CHECK(kumiki_places_open(NULL, NULL, NULL) == -EINVAL);
	CHECK(kumiki_places_open(&places, NULL, NULL) == 0);
	calls();
	waits();
	bound();
	watches();
	kumiki_places_close(places);
	kumiki_places_close(NULL);
	return 0;
}
