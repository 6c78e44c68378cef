// Requests that are outstanding in the engine, and who waits for them.
//
// The engine tells that some request has been answered, not whose. So one thread at a time, the
// watcher, waits in the engine; the others sleep until it comes back. Whoever finds no watcher
// collects what has been answered, for everybody, and becomes the watcher if its own is not
// among it. Beside a watcher nobody collects: an answer that was collected would not wake it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <vector>

namespace kumiki {

// One system call, made by another thread. Stays where it is from place() to await().
struct Request {
	uint64_t ticket = 0;
	// What the call has returned, or -errno; once it has been awaited.
	int64_t result = 0;
	bool outstanding = false;
};

class Requests {
public:
	// Of the process's first engine.
	static Requests &of_process();

	// Has a call made. False: it was not taken, for want of an engine or of room in it.
	bool place(Request &request, long sysnum, std::initializer_list<uint64_t> args);

	// Waits until the call has been made. One that is not outstanding is not waited for.
	void await(Request &request);

private:
	void collect();
	void lose();

	std::mutex mutex_;
	std::condition_variable watcher_left_;
	bool watched_ = false;
	std::vector<Request *> placed_;
};

} // namespace kumiki
