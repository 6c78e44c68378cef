/* <kumiki/kumiki.hpp>: owners give back, failures and exceptions arrive. */
#include <kumiki/kumiki.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include <fcntl.h>
#include <sys/syscall.h>

#define CHECK(holds) \
	do { \
		if (!(holds)) { \
			std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
			std::exit(1); \
		} \
	} while (0)

/* The error number that it throws, 0 if it throws none. */
template <class Function> int refused(Function function)
{
	try {
		function();
		return 0;
	} catch (const kumiki::error &error) {
		CHECK(std::strlen(error.what()) > 10);
		return error.code();
	}
}

static void shadows()
{
	kumiki::shadow shadow = kumiki::shadow::create_or_inline();
	std::vector<long> numbers(1000);
	std::iota(numbers.begin(), numbers.end(), 0);
	auto sum = [&](std::size_t from, std::size_t to) {
		return std::accumulate(numbers.begin() + long(from), numbers.begin() + long(to), 0L);
	};
	auto [left, right] = shadow.both([&] { return sum(0, 500); }, [&] { return sum(500, 1000); });
	CHECK(left + right == 499500);

	auto job = shadow.fork([] { return std::string("from the helper"); });
	CHECK(refused([&] { (void)shadow.fork([] {}); }) == EBUSY);
	CHECK(job.join() == "from the helper");

	auto throws = shadow.fork([]() -> int { throw std::string("thrown there"); });
	try {
		throws.join();
		CHECK(!"it returned");
	} catch (const std::string &thrown) {
		CHECK(thrown == "thrown there");
	}

	/* What throws here joins what runs there first: it borrows from this frame. */
	int written = 0;
	try {
		shadow.both([]() -> int { throw 1; }, [&] { return written = 7; });
		CHECK(!"it returned");
	} catch (int) {
		CHECK(written == 7);
	}

	std::vector<char> from(100000, 'x'), to(100000);
	shadow.copy(to.data(), from.data(), from.size());
	CHECK(from == to);
	kumiki::shadow moved = std::move(shadow);
	CHECK(moved.fork([] { return 3; }).join() == 3);
	kumiki_shadow_options wrong = KUMIKI_SHADOW_OPTIONS_INIT;
	wrong.reserved = 1;
	CHECK(refused([&] { kumiki::shadow{ wrong }; }) == EINVAL);
}

static void calls()
{
	kumiki::engine engine;
	kumiki::requester requester = engine.requester();
	std::vector<kumiki_parasc_call> calls;
	for (int n = 0; n < 20; n++)
		calls.push_back(kumiki::call(SYS_openat, AT_FDCWD, n % 2 ? "/dev/null" : "/no/such/file", O_RDONLY));
	std::vector<std::int64_t> values = requester.run(calls);
	for (std::size_t n = 0; n < values.size(); n++) {
		if (n % 2) {
			CHECK(values[n] >= 0);
			close(int(values[n]));
		} else {
			CHECK(values[n] == -ENOENT);
		}
	}
	CHECK(refused([&] { requester.run({ kumiki::call(SYS_exit, 0) }); }) == EPERM);

	std::uint64_t ticket = engine.request(kumiki::call(SYS_getppid));
	CHECK(engine.wait(1) == 1);
	CHECK(engine.collect(ticket) == std::int64_t(getppid()));
	CHECK(refused([&] { engine.collect(ticket); }) == ENOENT);
}

static void programs()
{
	CHECK(kumiki::command("true").spawn().wait().well());
	kumiki::ending ending = kumiki::command("sh").args({ "-c", "exit $CODE" }).env("CODE=7").spawn().wait();
	CHECK(ending.code == 7 && ending.signal == 0);
	ending = kumiki::command("/bin/sh").args({ "-c", "kill -9 $$" }).spawn().wait();
	CHECK(ending.code == -1 && ending.signal == 9);
	CHECK(refused([] { kumiki::command("/no/such/program").spawn(); }) == ENOENT);
	CHECK(refused([] { kumiki::command("true").nice(1000); }) == EINVAL);

	int ends[2];
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	kumiki::command limited("sh");
	limited.args({ "-c", "ulimit -n; pwd" }).limit(RLIMIT_NOFILE, 37).current_dir("/").descriptor(ends[1], 1);
	kumiki::command moved = std::move(limited);
	kumiki::child child = moved.spawn();
	close(ends[1]);
	char said[64] = {};
	std::size_t length = 0;
	for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
		length += std::size_t(got);
	close(ends[0]);
	CHECK(child.wait().well());
	CHECK(std::strcmp(said, "37\n/\n") == 0);
}

struct counter {
	explicit counter(bool *gone) : gone(gone) {}
	~counter() { *gone = true; }
	bool *gone;
	long hits = 0;
};

static void resources()
{
	bool gone = false;
	{
		kumiki::interface interface;
		std::vector<std::uint16_t> places = interface.places();
		CHECK(!places.empty());
		kumiki::resource hits =
			interface.object(places.back(), "hits", std::make_unique<counter>(&gone));
		for (int n = 0; n < 10; n++)
			interface.call<counter>(hits, [](counter &counter) { counter.hits++; });
		CHECK(interface.call<counter>(hits, [](counter &counter) { return counter.hits; }) == 10);
		try {
			interface.call<counter>(hits, [](counter &) { throw std::string("at its place"); });
			CHECK(!"it returned");
		} catch (const std::string &thrown) {
			CHECK(thrown == "at its place");
		}
		std::string name = "core" + std::to_string(places.back()) + "/object/hits";
		CHECK(interface.open(name.c_str()).id() == hits.id());
		CHECK(refused([&] { interface.open("core0/object/none"); }) == ENOENT);
		CHECK(!gone);
		interface.destroy(std::move(hits));
		CHECK(gone);
		gone = false;
		(void)interface.object(places.front(), "left", std::make_unique<counter>(&gone));
		CHECK(!gone);
	}
	CHECK(gone);
}

int main()
{
	shadows();
	calls();
	programs();
	resources();
	return 0;
}
