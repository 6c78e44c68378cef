#include "random_access_file.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "async_read.h"
#include "direct_reads.h"
#include "engines.h"
#include "read.h"

namespace kumiki {

using rocksdb::FSRandomAccessFile;
using rocksdb::FSReadRequest;
using rocksdb::IODebugContext;
using rocksdb::IOHandleDeleter;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

RandomAccessFile::RandomAccessFile(std::unique_ptr<FSRandomAccessFile> &&file,
                                   Descriptor &&descriptor, bool by_threads)
    : FSRandomAccessFileOwnerWrapper(std::move(file)), descriptor_(std::move(descriptor)),
      direct_(target()->use_direct_io()), by_threads_(by_threads)
{
}

// Whether the read was made without sleeping.
bool RandomAccessFile::tried(FSReadRequest &request, const IOOptions &options,
                             IODebugContext *debug)
{
	if (direct_)
		return false;
	uint64_t args[] = {static_cast<uint64_t>(descriptor_.number()),
	                   reinterpret_cast<uint64_t>(request.scratch), request.len, request.offset};
	int64_t got = 0;
	if (kumiki_parasc_try(SYS_pread64, 4, args, &got) != 1)
		return false;
	finish_read(*target(), got, options, request, debug);
	return true;
}

IOStatus RandomAccessFile::MultiRead(FSReadRequest *requests, size_t count,
                                     const IOOptions &options, IODebugContext *debug)
{
	std::vector<FSReadRequest *> cold;
	for (size_t at = 0; at < count; at++) {
		if (!tried(requests[at], options, debug))
			cold.push_back(&requests[at]);
	}
	if (cold.empty())
		return IOStatus::OK();
	std::vector<int64_t> results(cold.size());
	if (cold.size() > 1)
		read_together(cold, results);
	for (size_t at = 0; at < cold.size(); at++)
		finish_read(*target(), results[at], options, *cold[at], debug);
	return IOStatus::OK();
}

// Leaves a result at 0 where nobody has made the read.
void RandomAccessFile::read_together(const std::vector<FSReadRequest *> &requests,
                                     std::vector<int64_t> &results)
{
	if (direct_ && !by_threads_ && read_direct(descriptor_.number(), requests, results))
		return;
	std::vector<kumiki_parasc_call> calls;
	calls.reserve(requests.size());
	for (FSReadRequest *request : requests) {
		calls.push_back({SYS_pread64, 4,
		                 {static_cast<uint64_t>(descriptor_.number()),
		                  reinterpret_cast<uint64_t>(request->scratch), request->len,
		                  request->offset}});
	}
	if (!run_in_parallel(calls.data(), results.data(), calls.size()))
		std::fill(results.begin(), results.end(), 0);
}

IOStatus RandomAccessFile::ReadAsync(FSReadRequest &request, const IOOptions &options,
                                     ReadCallback callback, void *argument, void **handle,
                                     IOHandleDeleter *deleter, IODebugContext *debug)
{
	if (!tried(request, options, debug)) {
		auto read = std::make_unique<AsyncRead>(*target(), request, options, callback, argument);
		if (read->start(descriptor_.number())) {
			*handle = read.release();
			*deleter = AsyncRead::destroy;
			return IOStatus::OK();
		}
		finish_read(*target(), 0, options, request, debug);
	}
	callback(request, argument);
	return IOStatus::OK();
}

void RandomAccessFile::Hint(AccessPattern pattern)
{
	target()->Hint(pattern);
	// The hint is kept with a descriptor, not with a file.
	if (direct_)
		return;
	if (pattern == kRandom)
		posix_fadvise(descriptor_.number(), 0, 0, POSIX_FADV_RANDOM);
	else if (pattern == kSequential)
		posix_fadvise(descriptor_.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
	else if (pattern == kNormal)
		posix_fadvise(descriptor_.number(), 0, 0, POSIX_FADV_NORMAL);
}

} // namespace kumiki
