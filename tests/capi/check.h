/*
 * What holds and what does not, for the programs beside it.
 */
#include <kumiki/error.h>
#include <stdio.h>
#include <string.h>

/* Seconds after which a program is taken to hang. */
#define PATIENCE 300

static int failures;

#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
/* A call that must fail so, with a text. */
#define REFUSED(call, error) refused((call), (error), #call, __LINE__)

static inline int check(int holds, const char *text, int line)
{
	if (!holds) {
		fprintf(stderr, "%s:%d: does not hold: %s\n", __BASE_FILE__, line, text);
		failures++;
	}
	return holds;
}

static inline void refused(int got, int error, const char *text, int line)
{
	if (got != -error || strlen(kumiki_last_error()) < 20) {
		fprintf(stderr, "%s:%d: %s: %d (\"%s\") instead of %d and a text\n",
		        __BASE_FILE__, line, text, got, kumiki_last_error(), -error);
		failures++;
	}
}
