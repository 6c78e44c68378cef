// RocksDB's own file system, with files that are read in parallel and written back ahead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <rocksdb/file_system.h>
#include <rocksdb/version.h>

namespace kumiki {

class FileSystem : public rocksdb::FileSystemWrapper {
public:
	// `by_threads`: direct reads, too, are made by threads, not by the kernel's own ones.
	FileSystem(const std::shared_ptr<rocksdb::FileSystem> &own, bool by_threads);

	// By which RocksDB's registry finds it again, in an OPTIONS file, too.
	static const char *kClassName()
	{
		return "kumiki";
	}

	const char *Name() const override
	{
		return kClassName();
	}

	rocksdb::IOStatus NewRandomAccessFile(const std::string &path,
	                                      const rocksdb::FileOptions &options,
	                                      std::unique_ptr<rocksdb::FSRandomAccessFile> *result,
	                                      rocksdb::IODebugContext *debug) override;

	rocksdb::IOStatus NewWritableFile(const std::string &path, const rocksdb::FileOptions &options,
	                                  std::unique_ptr<rocksdb::FSWritableFile> *result,
	                                  rocksdb::IODebugContext *debug) override;

	rocksdb::IOStatus Poll(std::vector<void *> &handles, size_t least) override;
	rocksdb::IOStatus AbortIO(std::vector<void *> &handles) override;

#if ROCKSDB_MAJOR >= 9
	// Reads ahead only if there is an engine: else ReadAsync would read at once.
	void SupportedOps(int64_t &operations) override;
#endif

private:
	bool by_threads_;
};

} // namespace kumiki
