// Kumiki's engines in this process, which make calls on other threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include <kumiki/parasc.h>

namespace kumiki {

// The engine that requests are placed in; null if the machine gives none. It is never ended:
// RocksDB's threads may still read while the program's static objects are destroyed.
parasc_engine *first_engine();

// The calling thread's place to make batches from, kept until the thread ends.
class Lane {
public:
	static Lane &of_this_thread();

	Lane(const Lane &) = delete;
	Lane &operator=(const Lane &) = delete;

	// Makes all calls, several at a time where they sleep. False: none was made.
	bool run(const parasc_call *calls, int64_t *results, size_t count)
	{
		return requester_ && parasc_run(requester_, calls, results, count) == 0;
	}

private:
	Lane();
	~Lane();

	parasc_requester *requester_ = nullptr;
};

} // namespace kumiki
