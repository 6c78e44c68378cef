// A table or log as RocksDB writes it: begun to be written back while it is still being made.
//
// RocksDB asks for one sync at a time, and each has to have happened when it returns: there is
// nothing to be made in parallel in one. But with `bytes_per_sync` or `wal_bytes_per_sync` it
// says now and then which bytes may go to the disk, so that the sync in the end finds little to
// write. RocksDB's own file makes that call itself, and sleeps in it when the disk's queue is
// full. Here another thread does.
#pragma once

#include <memory>

#include <rocksdb/file_system.h>

#include "descriptor.h"
#include "requests.h"

namespace kumiki {

class WritableFile : public rocksdb::FSWritableFileOwnerWrapper {
public:
	// `descriptor` is the same file as RocksDB's own, `file`.
	WritableFile(std::unique_ptr<rocksdb::FSWritableFile> &&file, Descriptor &&descriptor);
	~WritableFile() override;

	rocksdb::IOStatus RangeSync(uint64_t offset, uint64_t length,
	                            const rocksdb::IOOptions &options,
	                            rocksdb::IODebugContext *debug) override;

private:
	Descriptor descriptor_;
	Request writing_;
};

} // namespace kumiki
