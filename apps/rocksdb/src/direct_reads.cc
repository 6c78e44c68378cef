#include "direct_reads.h"

#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace kumiki {

using rocksdb::FSReadRequest;

namespace {

// Reads of a thread's that are outstanding at most. RocksDB asks for 32 at a time, and all
// threads of a machine may have 65,536 (/proc/sys/fs/aio-max-nr).
constexpr size_t DEPTH = 64;

// The calling thread's place to have reads made from, if the kernel gives one. Plain data, as a
// thread's requester in engines.cc.
thread_local aio_context_t context = 0;
thread_local bool has_asked = false;

void leave()
{
	if (context)
		syscall(SYS_io_destroy, context);
	context = 0;
}

struct AtThreadsEnd {
	~AtThreadsEnd()
	{
		leave();
	}
};

bool has_place()
{
	if (!has_asked) {
		has_asked = true;
		static thread_local AtThreadsEnd end;
		(void)end;
		if (syscall(SYS_io_setup, DEPTH, &context) < 0)
			context = 0;
	}
	return context;
}

// Waits for so many of the reads, which write to RocksDB's memory until they have ended.
void await(size_t outstanding, std::vector<int64_t> &results)
{
	std::array<io_event, DEPTH> events;
	while (outstanding > 0) {
		long ended =
		    syscall(SYS_io_getevents, context, outstanding, outstanding, events.data(), nullptr);
		if (ended < 0 && errno == EINTR)
			continue;
		// No filter that has let reads begin lets nobody ask for them; but should it, this
		// call waits for them, and RocksDB's own file makes them again.
		if (ended < 0)
			return leave();
		for (long at = 0; at < ended; at++)
			results[events[at].data] = events[at].res;
		outstanding -= static_cast<size_t>(ended);
	}
}

} // namespace

bool read_direct(int fd, const std::vector<FSReadRequest *> &requests,
                 std::vector<int64_t> &results)
{
	if (!has_place())
		return false;
	bool made = false;
	for (size_t from = 0; from < requests.size() && context; from += DEPTH) {
		size_t count = std::min(DEPTH, requests.size() - from);
		std::array<iocb, DEPTH> reads{};
		std::array<iocb *, DEPTH> places;
		for (size_t at = 0; at < count; at++) {
			const FSReadRequest &request = *requests[from + at];
			reads[at].aio_lio_opcode = IOCB_CMD_PREAD;
			reads[at].aio_fildes = static_cast<uint32_t>(fd);
			reads[at].aio_buf = reinterpret_cast<uint64_t>(request.scratch);
			reads[at].aio_nbytes = request.len;
			reads[at].aio_offset = static_cast<int64_t>(request.offset);
			reads[at].aio_data = from + at;
			places[at] = &reads[at];
		}
		long taken = syscall(SYS_io_submit, context, count, places.data());
		if (taken <= 0) {
			// In a child of fork(2), whose memory has no place of the parent's, or refused.
			context = 0;
			break;
		}
		made = true;
		await(static_cast<size_t>(taken), results);
	}
	return made;
}

} // namespace kumiki
