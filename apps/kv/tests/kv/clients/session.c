/* A session of hiredis by its defaults. Arguments: the port. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define HOLDS(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static redisReply *reply;

static int is(int type) { return reply && reply->type == type; }
static int text(const char *t) { return strcmp(reply->str, t) == 0; }

#define ASK(c, ...) (freeReplyObject(reply), reply = redisCommand(c, __VA_ARGS__))

int main(int argc, char **argv)
{
	HOLDS(argc == 2);
	int port = atoi(argv[1]);
	redisContext *c = redisConnect("127.0.0.1", port);
	redisContext *other = redisConnect("127.0.0.1", port);
	HOLDS(c && !c->err && other && !other->err);
	HOLDS(redisSetTimeout(c, (struct timeval){ 60, 0 }) == REDIS_OK);

	ASK(c, "FLUSHALL");
	HOLDS(is(REDIS_REPLY_STATUS) && text("OK"));
	ASK(c, "PING");
	HOLDS(is(REDIS_REPLY_STATUS) && text("PONG"));
	char bytes[10240];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	ASK(c, "SET %s %b", "bytes", bytes, sizeof(bytes));
	HOLDS(is(REDIS_REPLY_STATUS));
	ASK(c, "GET %s", "bytes");
	HOLDS(is(REDIS_REPLY_STRING) && reply->len == sizeof(bytes) && !memcmp(reply->str, bytes, sizeof(bytes)));
	ASK(c, "MSET a 1 b 2");
	ASK(c, "MGET a no b");
	HOLDS(is(REDIS_REPLY_ARRAY) && reply->elements == 3 && reply->element[1]->type == REDIS_REPLY_NIL);
	HOLDS(!strcmp(reply->element[2]->str, "2"));
	ASK(c, "INCR a");
	HOLDS(is(REDIS_REPLY_INTEGER) && reply->integer == 2);
	ASK(c, "INCR bytes");
	HOLDS(is(REDIS_REPLY_ERROR) && strstr(reply->str, "not an integer"));
	ASK(c, "EXPIRE a 100");
	ASK(c, "TTL a");
	HOLDS(is(REDIS_REPLY_INTEGER) && reply->integer > 90 && reply->integer <= 100);

	/* Many at once. */
	for (int i = 0; i < 10000; i++)
		HOLDS(redisAppendCommand(c, "INCRBY sum %d", i) == REDIS_OK);
	long long sum = 0;
	for (int i = 0; i < 10000; i++) {
		freeReplyObject(reply);
		HOLDS(redisGetReply(c, (void **)&reply) == REDIS_OK);
		sum += i;
		HOLDS(is(REDIS_REPLY_INTEGER) && reply->integer == sum);
	}

	/* A walk over all keys. */
	for (int i = 0; i < 500; i++)
		ASK(c, "SET key:%d %d", i, i);
	int seen = 0;
	char cursor[32] = "0";
	do {
		ASK(c, "SCAN %s MATCH key:* COUNT 50", cursor);
		HOLDS(is(REDIS_REPLY_ARRAY) && reply->elements == 2);
		seen += (int)reply->element[1]->elements;
		snprintf(cursor, sizeof(cursor), "%s", reply->element[0]->str);
	} while (strcmp(cursor, "0"));
	HOLDS(seen >= 500);

	/* A transaction, and one that somebody comes between. */
	for (int between = 0; between < 2; between++) {
		ASK(c, "WATCH a");
		if (between)
			ASK(other, "SET a 50");
		ASK(c, "MULTI");
		ASK(c, "INCR a");
		HOLDS(is(REDIS_REPLY_STATUS) && text("QUEUED"));
		ASK(c, "GET a");
		ASK(c, "EXEC");
		HOLDS(is(between ? REDIS_REPLY_NIL : REDIS_REPLY_ARRAY));
	}
	ASK(c, "GET a");
	HOLDS(text("50"));

#ifdef REDIS_REPLY_MAP
	/* RESP 3, and back. */
	ASK(c, "HELLO 3");
	HOLDS(is(REDIS_REPLY_MAP));
	ASK(c, "GET no");
	HOLDS(is(REDIS_REPLY_NIL));
	ASK(c, "CONFIG GET maxmemory");
	HOLDS(is(REDIS_REPLY_MAP) && reply->elements == 2);
	ASK(c, "HELLO 2");
	HOLDS(is(REDIS_REPLY_ARRAY));
#endif

	/* Cut by another, and connected anew. */
	ASK(c, "CLIENT ID");
	HOLDS(is(REDIS_REPLY_INTEGER));
	long long id = reply->integer;
	ASK(other, "CLIENT KILL ID %lld", id);
	HOLDS(is(REDIS_REPLY_INTEGER) && reply->integer == 1);
	ASK(c, "PING");
	HOLDS(!reply && c->err);
	HOLDS(redisReconnect(c) == REDIS_OK);
	ASK(c, "GET a");
	HOLDS(is(REDIS_REPLY_STRING) && text("50"));
	ASK(c, "QUIT");
	HOLDS(is(REDIS_REPLY_STATUS));
	printf("fine: hiredis %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
	return 0;
}
