#include "async_read.h"

#include <sys/syscall.h>

#include <utility>

#include "read.h"

namespace kumiki {

using rocksdb::FSRandomAccessFile;
using rocksdb::FSReadRequest;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

AsyncRead::AsyncRead(const FSRandomAccessFile &file, const FSReadRequest &request,
                     const IOOptions &options, ReadCallback callback, void *argument)
    : file_(file), options_(options), callback_(std::move(callback)), argument_(argument)
{
	request_.offset = request.offset;
	request_.len = request.len;
	request_.scratch = request.scratch;
}

bool AsyncRead::start(int fd)
{
	return Requests::of_process().place(
	    placed_, SYS_pread64,
	    {static_cast<uint64_t>(fd), reinterpret_cast<uint64_t>(request_.scratch), request_.len,
	     request_.offset});
}

void AsyncRead::poll(const std::vector<void *> &handles)
{
	for (void *handle : handles) {
		auto *read = static_cast<AsyncRead *>(handle);
		if (std::exchange(read->told_, true))
			continue;
		Requests::of_process().await(read->placed_);
		finish_read(read->file_, read->placed_.result, read->options_, read->request_, nullptr);
		read->callback_(read->request_, read->argument_);
	}
}

void AsyncRead::abort(const std::vector<void *> &handles)
{
	for (void *handle : handles) {
		auto *read = static_cast<AsyncRead *>(handle);
		if (std::exchange(read->told_, true))
			continue;
		Requests::of_process().await(read->placed_);
		read->request_.status = IOStatus::Aborted();
		read->request_.result = Slice();
		read->callback_(read->request_, read->argument_);
	}
}

void AsyncRead::destroy(void *handle)
{
	auto *read = static_cast<AsyncRead *>(handle);
	// RocksDB has polled or aborted it; else a thread would write to what is gone.
	Requests::of_process().await(read->placed_);
	delete read;
}

} // namespace kumiki
