/*
 * A turn of a server's event loop: what it saves at the most if all of its calls are made by one entry
 * into the kernel. Nothing else is timed, and nothing waits for what a call before has given, as it would
 * in a server: descriptors and lengths are known, and requests are there. So what is left of the plain
 * turn's time is less than any server could reach. On one cpu whose clock counts instructions the times
 * are instructions:
 *
 *   kumiki lab run --module parasc --cpus 1 --qemu=-icount --qemu=shift=0,sleep=off \
 *       --in turn -- ./turn 300
 *
 * turn TURNS [plain]: without the module the plain turns alone, and how much of them their entries can be
 */
#include "raw.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MOST_CLIENTS 64u
/* Of a small GET, and of each GET of a key-value store. */
#define REQUEST 96u
#define LONGEST 16384u
#define MOST_CALLS (4 * MOST_CLIENTS + 1)

enum way { PLAIN, ONE_ENTRY, WAYS };

static const char *const names[WAYS] = { "plain", "one entry" };

/* A turn, and how it is made. */
struct turn {
	unsigned int clients, answer;
	bool fresh; /* each connection is accepted and closed by the turn */
};

static struct sockaddr_in address;
static int listener, epoll;
static int near[MOST_CLIENTS], far[MOST_CLIENTS];
static char request[REQUEST], answer[LONGEST], received[LONGEST];
static struct call calls[MOST_CALLS];
static int64_t results[MOST_CALLS];
static int64_t wanted[MOST_CALLS];
static unsigned int count;

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void add(int64_t result, unsigned int number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	calls[count] = (struct call){ number, 6, { a, b, c, d } };
	wanted[count++] = result;
}

static void make_calls(enum way way)
{
	struct parasc_calls all = { pointer(calls), pointer(results), 0, count };

	if (way == PLAIN)
		make(&all);
	else
		CHECK(run(calls, results, count) == 0);
}

static int connected(void)
{
	int client = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	CHECK(client >= 0);
	CHECK(!connect(client, (struct sockaddr *)&address, sizeof(address)));
	CHECK(!setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	return client;
}

static int accepted(void)
{
	struct epoll_event readable = { .events = EPOLLIN };
	struct pollfd comes = { listener, POLLIN, 0 };
	int server, on = 1;

	CHECK(poll(&comes, 1, -1) == 1);
	CHECK((server = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0);
	CHECK(!setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, server, &readable));
	return server;
}

/* The calls of a turn: receives, then answers, as a server makes them that is asked by many. */
static void draw_up(const struct turn *turn, struct epoll_event *events)
{
	unsigned int at, least = near[0];

	count = 0;
	/* Of a fresh one nothing is known but that somebody connects; what it gives are the least free numbers. */
	add(turn->fresh ? 1 : turn->clients, SYS_epoll_wait, epoll, pointer(events), MOST_CLIENTS, 0);
	for (at = 0; turn->fresh && at < turn->clients; at++)
		add(least + at, SYS_accept4, listener, 0, 0, SOCK_NONBLOCK);
	for (at = 0; at < turn->clients; at++)
		add(REQUEST, SYS_recvfrom, near[at], pointer(received), LONGEST, 0);
	for (at = 0; at < turn->clients; at++)
		add(turn->answer, SYS_sendto, near[at], pointer(answer), turn->answer, MSG_NOSIGNAL);
	for (at = 0; turn->fresh && at < turn->clients; at++)
		add(0, SYS_close, near[at], 0, 0, 0);
}

/* The loopback may deliver later, by a thread of the kernel's: until it has, no turn begins. */
static bool has_come(const struct turn *turn, unsigned int at)
{
	int bytes = -1;

	if (turn->fresh)
		CHECK(!ioctl(far[at], SIOCOUTQ, &bytes));
	else
		CHECK(!ioctl(near[at], FIONREAD, &bytes));
	return bytes == (turn->fresh ? 0 : (int)REQUEST);
}

static void ask(const struct turn *turn)
{
	for (unsigned int at = 0; at < turn->clients; at++) {
		if (turn->fresh)
			far[at] = connected();
		CHECK(send(far[at], request, REQUEST, 0) == REQUEST);
		while (!has_come(turn, at))
			sched_yield();
	}
}

static void take(const struct turn *turn)
{
	for (unsigned int at = 0; at < turn->clients; at++) {
		CHECK(recv(far[at], received, turn->answer, MSG_WAITALL) == turn->answer);
		CHECK(!memcmp(received, answer, turn->answer));
		if (turn->fresh)
			CHECK(!close(far[at]));
	}
}

static double timed(const struct turn *turn, enum way way)
{
	double start;

	ask(turn);
	memset(results, 0xff, sizeof(results));
	start = now_ns();
	make_calls(way);
	start = now_ns() - start;
	for (unsigned int at = 0; at < count; at++)
		CHECK(results[at] == wanted[at]);
	take(turn);
	return start;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* A call that does next to nothing, the median of some rounds: no entry takes more than all of it. */
static double getppid_ns(void)
{
	double rounds[15];

	for (unsigned int round = 0; round < 15; round++) {
		double start = now_ns();

		for (unsigned int at = 0; at < 1000; at++)
			syscall(SYS_getppid);
		rounds[round] = (now_ns() - start) / 1000;
	}
	qsort(rounds, 15, sizeof(double), compare);
	return rounds[7];
}

/* The median of as many turns each way, which take turns. */
static void measure(const struct turn *turn, unsigned int turns, unsigned int ways)
{
	double *taken[WAYS], entry = getppid_ns();

	for (unsigned int way = 0; way < ways; way++)
		CHECK((taken[way] = calloc(turns, sizeof(double))) != NULL);
	for (unsigned int at = 0; at < turns; at++)
		for (unsigned int way = 0; way < ways; way++)
			taken[way][at] = timed(turn, way);
	for (unsigned int way = 0; way < ways; way++)
		qsort(taken[way], turns, sizeof(double), compare);
	printf("%u clients%s, %u bytes, %u calls:", turn->clients, turn->fresh ? " that connect" : "",
	       turn->answer, count);
	for (unsigned int way = 0; way < ways; way++)
		printf(" %s %.0f ns,", names[way], taken[way][turns / 2]);
	if (ways == WAYS)
		printf(" ratio %.3f,", taken[ONE_ENTRY][turns / 2] / taken[PLAIN][turns / 2]);
	printf(" a getppid %.0f ns: all but one entry %.3f of plain\n", entry,
	       (count - 1) * entry / taken[PLAIN][turns / 2]);
	fflush(stdout);
	for (unsigned int way = 0; way < ways; way++)
		free(taken[way]);
}

static void serve_turns(struct turn turn, unsigned int turns, unsigned int ways)
{
	struct epoll_event events[MOST_CLIENTS];
	struct epoll_event readable = { .events = EPOLLIN };

	if (turn.fresh) {
		CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &readable));
		/* The clients' numbers come first: the least free ones are then the turn's. */
		for (unsigned int at = 0; at < turn.clients; at++)
			CHECK((far[at] = dup(listener)) >= 0);
		for (unsigned int at = 0; at < turn.clients; at++)
			CHECK((near[at] = dup(listener)) >= 0);
		for (unsigned int at = 0; at < turn.clients; at++)
			CHECK(!close(far[at]) && !close(near[at]));
	}
	for (unsigned int at = 0; !turn.fresh && at < turn.clients; at++) {
		far[at] = connected();
		near[at] = accepted();
	}
	draw_up(&turn, events);
	measure(&turn, turns, ways);
	for (unsigned int at = 0; !turn.fresh && at < turn.clients; at++)
		CHECK(!close(near[at]) && !close(far[at]));
	if (turn.fresh)
		CHECK(!epoll_ctl(epoll, EPOLL_CTL_DEL, listener, NULL));
}

int main(int words, char **word)
{
	static const struct turn turns[] = {
		{ 1, 64, false }, { 1, 8192, false }, { 16, 64, false }, { 64, 64, false }, { 16, 8192, false },
		{ 1, 8192, true }, { 16, 8192, true },
	};
	unsigned int each = words > 1 ? atoi(word[1]) : 100;
	unsigned int ways = words > 2 && !strcmp(word[2], "plain") ? 1 : WAYS;
	socklen_t length = sizeof(address);

	if (ways == WAYS)
		begin();
	memset(request, 'q', sizeof(request));
	memset(answer, 'a', sizeof(answer));
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK((listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)));
	CHECK(!listen(listener, MOST_CLIENTS));
	CHECK(!getsockname(listener, (struct sockaddr *)&address, &length));
	CHECK((epoll = epoll_create1(0)) >= 0);
	for (unsigned int at = 0; at < sizeof(turns) / sizeof(*turns); at++)
		serve_turns(turns[at], each, ways);
	printf("turns: as it should\n");
	return 0;
}
