#include "writable_file.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <utility>

namespace kumiki {

using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

WritableFile::WritableFile(std::unique_ptr<FSWritableFile> &&file, Descriptor &&descriptor)
    : FSWritableFileOwnerWrapper(std::move(file)), descriptor_(std::move(descriptor))
{
}

WritableFile::~WritableFile()
{
	Requests::of_process().await(writing_);
}

IOStatus WritableFile::RangeSync(uint64_t offset, uint64_t length, const IOOptions &options,
                                 IODebugContext *debug)
{
	// One at a time: a disk that is slower than RocksDB writes holds it up here, as it should.
	Requests::of_process().await(writing_);
	if (std::exchange(writing_.result, 0) == 0 &&
	    Requests::of_process().place(writing_, SYS_sync_file_range,
	                                 {static_cast<uint64_t>(descriptor_.number()), offset, length,
	                                  SYNC_FILE_RANGE_WRITE}))
		return IOStatus::OK();
	// The last one has failed, or no thread takes this one: RocksDB's own file says what is wrong.
	return target()->RangeSync(offset, length, options, debug);
}

} // namespace kumiki
