// A table as RocksDB reads it: several places of it at a time, and ahead of an iterator.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <rocksdb/file_system.h>
#include <rocksdb/version.h>

#include "descriptor.h"

namespace kumiki {

#if ROCKSDB_MAJOR >= 9
using ReadCallback = std::function<void(rocksdb::FSReadRequest &, void *)>;
#else
using ReadCallback = std::function<void(const rocksdb::FSReadRequest &, void *)>;
#endif

class RandomAccessFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
public:
	// Reads by `descriptor` what is read in parallel, which is the same file as RocksDB's own,
	// `file`, and with O_DIRECT if that is. `by_threads`: direct reads, too.
	RandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> &&file, Descriptor &&descriptor,
	                 bool by_threads);

	// First each read is tried in a way that cannot sleep; what is not in memory is then read
	// by several threads at a time. Direct reads always sleep, and the kernel takes several of
	// them at a time (direct_reads.h).
	rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest *requests, size_t count,
	                            const rocksdb::IOOptions &options,
	                            rocksdb::IODebugContext *debug) override;

	// Calls back at once if the read need not sleep, and else from AsyncRead::poll().
	rocksdb::IOStatus ReadAsync(rocksdb::FSReadRequest &request, const rocksdb::IOOptions &options,
	                            ReadCallback callback, void *argument, void **handle,
	                            rocksdb::IOHandleDeleter *deleter,
	                            rocksdb::IODebugContext *debug) override;

	void Hint(AccessPattern pattern) override;

private:
	bool tried(rocksdb::FSReadRequest &request, const rocksdb::IOOptions &options,
	           rocksdb::IODebugContext *debug);
	void read_together(const std::vector<rocksdb::FSReadRequest *> &requests,
	                   std::vector<int64_t> &results);

	Descriptor descriptor_;
	bool direct_;
	bool by_threads_;
};

} // namespace kumiki
