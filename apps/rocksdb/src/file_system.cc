#include "file_system.h"

#include <fcntl.h>

#include <utility>

#include "async_read.h"
#include "descriptor.h"
#include "engines.h"
#include "random_access_file.h"
#include "writable_file.h"

namespace kumiki {

using rocksdb::FileOptions;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOStatus;

FileSystem::FileSystem(const std::shared_ptr<rocksdb::FileSystem> &own, bool by_threads)
    : FileSystemWrapper(own), by_threads_(by_threads)
{
}

IOStatus FileSystem::NewRandomAccessFile(const std::string &path, const FileOptions &options,
                                         std::unique_ptr<FSRandomAccessFile> *result,
                                         IODebugContext *debug)
{
	IOStatus status = target()->NewRandomAccessFile(path, options, result, debug);
	// What is mapped is not read.
	if (!status.ok() || options.use_mmap_reads || !first_engine())
		return status;
	// RocksDB's own file does not show its descriptor.
	Descriptor descriptor(path, O_RDONLY | ((*result)->use_direct_io() ? O_DIRECT : 0));
	// Without it the table is read as ever.
	if (descriptor.is_open())
		result->reset(
		    new RandomAccessFile(std::move(*result), std::move(descriptor), by_threads_));
	return status;
}

IOStatus FileSystem::NewWritableFile(const std::string &path, const FileOptions &options,
                                     std::unique_ptr<FSWritableFile> *result,
                                     IODebugContext *debug)
{
	IOStatus status = target()->NewWritableFile(path, options, result, debug);
	// Strictly, RocksDB waits for what was to be written before; else that is a hint.
	bool hints = options.bytes_per_sync > 0 && !options.strict_bytes_per_sync;
	if (!status.ok() || !hints || options.use_mmap_writes || options.use_direct_writes ||
	    !first_engine())
		return status;
	Descriptor descriptor(path, O_WRONLY);
	// As RocksDB asks: some file systems, ZFS among them, do not have the call.
	if (descriptor.is_open() && sync_file_range(descriptor.number(), 0, 0, 0) == 0)
		result->reset(new WritableFile(std::move(*result), std::move(descriptor)));
	return status;
}

// All of them, however few would do: RocksDB destroys every handle afterwards.
IOStatus FileSystem::Poll(std::vector<void *> &handles, size_t)
{
	AsyncRead::poll(handles);
	return IOStatus::OK();
}

IOStatus FileSystem::AbortIO(std::vector<void *> &handles)
{
	AsyncRead::abort(handles);
	return IOStatus::OK();
}

#if ROCKSDB_MAJOR >= 9
void FileSystem::SupportedOps(int64_t &operations)
{
	target()->SupportedOps(operations);
	int64_t async = int64_t{1} << rocksdb::FSSupportedOps::kAsyncIO;
	operations = first_engine() ? operations | async : operations & ~async;
}
#endif

} // namespace kumiki
