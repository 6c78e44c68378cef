// As PosixRandomAccessFile::MultiRead of RocksDB does it where it is built with io_uring: a ring
// of 256 for each thread, all reads submitted by one call that waits for them.
#include "io_uring.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <rocksdb/file_system.h>
#include <rocksdb/utilities/object_registry.h>

using namespace rocksdb;

namespace {

constexpr unsigned int DEPTH = 256;

// A thread's ring.
struct Ring {
	Ring() : fault(io_uring_queue_init(DEPTH, &ring, 0))
	{
	}
	~Ring()
	{
		if (fault == 0)
			io_uring_queue_exit(&ring);
	}
	io_uring ring;
	int fault;
};

class File : public FSRandomAccessFileOwnerWrapper {
public:
	File(std::unique_ptr<FSRandomAccessFile> &&file, int fd)
	    : FSRandomAccessFileOwnerWrapper(std::move(file)), fd_(fd)
	{
	}

	~File() override
	{
		close(fd_);
	}

	void Hint(AccessPattern pattern) override
	{
		target()->Hint(pattern);
		if (pattern == kRandom && !use_direct_io())
			posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
	}

	IOStatus MultiRead(FSReadRequest *requests, size_t count, const IOOptions &options,
	                   IODebugContext *debug) override
	{
		static thread_local Ring of_thread;
		if (of_thread.fault < 0)
			return IOStatus::IOError("io_uring_queue_init", std::to_string(of_thread.fault));
		io_uring *ring = &of_thread.ring;
		for (size_t from = 0; from < count; from += DEPTH) {
			size_t part = std::min<size_t>(DEPTH, count - from);
			for (size_t at = from; at < from + part; at++) {
				io_uring_sqe *entry = io_uring_get_sqe(ring);
				FSReadRequest &request = requests[at];
				io_uring_prep_read(entry, fd_, request.scratch,
				                   static_cast<unsigned int>(request.len), request.offset);
				io_uring_sqe_set_data(entry, &request);
			}
			if (io_uring_submit_and_wait(ring, static_cast<unsigned int>(part)) < 0)
				return IOStatus::IOError("io_uring_submit_and_wait");
			for (size_t ended = 0; ended < part; ended++) {
				io_uring_cqe *entry = nullptr;
				if (io_uring_wait_cqe(ring, &entry) < 0)
					return IOStatus::IOError("io_uring_wait_cqe");
				auto &request = *static_cast<FSReadRequest *>(io_uring_cqe_get_data(entry));
				if (entry->res == static_cast<int>(request.len)) {
					request.result = Slice(request.scratch, request.len);
					request.status = IOStatus::OK();
				} else {
					request.status = Read(request.offset, request.len, options,
					                      &request.result, request.scratch, debug);
				}
				io_uring_cqe_seen(ring, entry);
			}
		}
		return IOStatus::OK();
	}

private:
	int fd_;
};

class System : public FileSystemWrapper {
public:
	System() : FileSystemWrapper(FileSystem::Default())
	{
	}

	const char *Name() const override
	{
		return "io_uring";
	}

	IOStatus NewRandomAccessFile(const std::string &path, const FileOptions &options,
	                             std::unique_ptr<FSRandomAccessFile> *result,
	                             IODebugContext *debug) override
	{
		IOStatus status = target()->NewRandomAccessFile(path, options, result, debug);
		if (!status.ok())
			return status;
		int direct = (*result)->use_direct_io() ? O_DIRECT : 0;
		int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | direct);
		if (fd < 0)
			return IOStatus::IOError("open", path);
		result->reset(new File(std::move(*result), fd));
		return status;
	}
};

} // namespace

void register_io_uring()
{
	auto create = [](const std::string &, std::unique_ptr<FileSystem> *result, std::string *) {
		result->reset(new System);
		return result->get();
	};
	ObjectLibrary::Default()->AddFactory<FileSystem>(
	    ObjectLibrary::PatternEntry("io_uring").AddSeparator("://", false), create);
}
