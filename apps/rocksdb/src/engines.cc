#include "engines.h"

#include <sys/syscall.h>

#include <cstdio>
#include <mutex>
#include <vector>

namespace kumiki {

namespace {

// As many requesters as an engine takes. A program with more threads that read has a second.
constexpr uint32_t LANES = 61;
// Reads that are outstanding at a time, of all iterators.
constexpr uint32_t SLOTS = 1024;

kumiki_parasc_engine *create()
{
	static const uint16_t allowed[] = {SYS_pread64, SYS_sync_file_range};
	kumiki_parasc_config config = KUMIKI_PARASC_CONFIG_INIT;
	config.requesters = LANES;
	config.slots = SLOTS;
	config.allowed = allowed;
	config.allowed_num = sizeof(allowed) / sizeof(allowed[0]);
	kumiki_parasc_engine *engine = nullptr;
	if (kumiki_parasc_create(&engine, &config) < 0) {
		fprintf(stderr, "kumiki: reads are made one after the other: %s\n", kumiki_last_error());
		return nullptr;
	}
	return engine;
}

// Engines with requesters, the first of which takes requests.
class Engines {
public:
	Engines() : engines_{create()}
	{
	}

	kumiki_parasc_engine *first() const
	{
		return engines_.front();
	}

	// A requester of the calling thread's in whichever engine has room, or null.
	kumiki_parasc_requester *requester()
	{
		std::lock_guard<std::mutex> lock(mutex_);
		for (kumiki_parasc_engine *engine : engines_) {
			kumiki_parasc_requester *requester = nullptr;
			if (engine && kumiki_parasc_requester_create(engine, &requester) == 0)
				return requester;
		}
		kumiki_parasc_requester *requester = nullptr;
		kumiki_parasc_engine *more = engines_.front() ? create() : nullptr;
		if (more) {
			engines_.push_back(more);
			kumiki_parasc_requester_create(more, &requester);
		}
		return requester;
	}

private:
	std::mutex mutex_;
	// Never empty; the first, which is read without the lock, stays where it is said to be.
	std::vector<kumiki_parasc_engine *> engines_;
};

Engines &engines()
{
	static Engines *all = new Engines;
	return *all;
}

// The calling thread's place to make batches from. Plain data, which a database that is closed
// after the thread's objects have been destroyed, by a static one, still finds, and finds gone.
thread_local kumiki_parasc_requester *requester = nullptr;
thread_local bool has_asked = false;

struct AtThreadsEnd {
	~AtThreadsEnd()
	{
		kumiki_parasc_requester_destroy(requester);
		requester = nullptr;
	}
};

} // namespace

kumiki_parasc_engine *first_engine()
{
	static kumiki_parasc_engine *first = engines().first();
	return first;
}

bool run_in_parallel(const kumiki_parasc_call *calls, int64_t *results, size_t count)
{
	if (!has_asked) {
		has_asked = true;
		requester = engines().requester();
		static thread_local AtThreadsEnd end;
		(void)end;
	}
	return requester && kumiki_parasc_run(requester, calls, results, count) == 0;
}

} // namespace kumiki
