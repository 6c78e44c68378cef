// A read that was begun, until its callback is called: RocksDB's handle.
#pragma once

#include <vector>

#include <rocksdb/file_system.h>

#include "random_access_file.h"
#include "requests.h"

namespace kumiki {

class AsyncRead {
public:
	AsyncRead(const rocksdb::FSRandomAccessFile &file, const rocksdb::FSReadRequest &request,
	          const rocksdb::IOOptions &options, ReadCallback callback, void *argument);

	// Has another thread read. False: no thread took it, and nothing happens.
	bool start(int fd);

	// Waits for all of these reads and calls back for each that was not called back for.
	static void poll(const std::vector<void *> &handles);

	// The same, but calls back with Aborted. A read that another thread has begun cannot be
	// taken back, and writes into RocksDB's buffer until it ends.
	static void abort(const std::vector<void *> &handles);

	static void destroy(void *handle);

private:
	const rocksdb::FSRandomAccessFile &file_;
	rocksdb::FSReadRequest request_;
	rocksdb::IOOptions options_;
	ReadCallback callback_;
	void *argument_;
	Request placed_;
	bool told_ = false;
};

} // namespace kumiki
