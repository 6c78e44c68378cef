// A file of kumiki:// tells of its end and of errors as RocksDB's own does.
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <rocksdb/version.h>

#include "check.h"

using namespace rocksdb;

static const size_t SECTOR = 4096;
// No whole number of sectors.
static const size_t LENGTH = 10 * SECTOR + 1234;

struct Buffer {
	explicit Buffer(size_t size) : bytes(static_cast<char *>(aligned_alloc(SECTOR, size)))
	{
	}
	~Buffer()
	{
		free(bytes);
	}
	char *bytes;
};

static std::unique_ptr<FSRandomAccessFile> open_in(FileSystem &system, const std::string &path,
                                                   bool direct)
{
	FileOptions options;
	options.use_direct_reads = direct;
	std::unique_ptr<FSRandomAccessFile> file;
	OK(system.NewRandomAccessFile(path, options, &file, nullptr));
	return file;
}

static FSReadRequest request_at(uint64_t offset, size_t length, char *scratch)
{
	FSReadRequest request;
	request.offset = offset;
	request.len = length;
	request.scratch = scratch;
	return request;
}

static void same(const FSReadRequest &one, const FSReadRequest &other)
{
	if (one.status.ToString() != other.status.ToString())
		fprintf(stderr, "%lu: %s, and posix: %s\n", static_cast<unsigned long>(one.offset),
		        one.status.ToString().c_str(), other.status.ToString().c_str());
	CHECK(one.status.ToString() == other.status.ToString());
	CHECK(one.result == other.result);
}

// Two sectors at each of these places, several together, by both; gives what the other has said
// of the last.
static IOStatus together(FSRandomAccessFile &one, FSRandomAccessFile &other,
                         const std::vector<uint64_t> &offsets)
{
	Buffer first(offsets.size() * 2 * SECTOR), second(offsets.size() * 2 * SECTOR);
	std::vector<FSReadRequest> mine, its;
	for (size_t at = 0; at < offsets.size(); at++) {
		size_t from = at * 2 * SECTOR;
		mine.push_back(request_at(offsets[at], 2 * SECTOR, first.bytes + from));
		its.push_back(request_at(offsets[at], 2 * SECTOR, second.bytes + from));
	}
	OK(one.MultiRead(mine.data(), mine.size(), IOOptions(), nullptr));
	OK(other.MultiRead(its.data(), its.size(), IOOptions(), nullptr));
	for (size_t at = 0; at < offsets.size(); at++)
		same(mine[at], its[at]);
	return its.back().status;
}

// The same, each ahead.
static void ahead(FSRandomAccessFile &one, FileSystem &system, FSRandomAccessFile &other,
                  const std::vector<uint64_t> &offsets)
{
	Buffer first(2 * SECTOR), second(2 * SECTOR);
	for (uint64_t offset : offsets) {
		FSReadRequest mine = request_at(offset, 2 * SECTOR, first.bytes);
		FSReadRequest its = request_at(offset, 2 * SECTOR, second.bytes);
		its.status = other.Read(offset, its.len, IOOptions(), &its.result, its.scratch, nullptr);
		void *handle = nullptr;
		IOHandleDeleter deleter;
		bool called = false;
#if ROCKSDB_MAJOR >= 9
		auto told = [&](FSReadRequest &done, void *argument) {
#else
		auto told = [&](const FSReadRequest &done, void *argument) {
#endif
			CHECK(argument == &called && !called);
			called = true;
			same(done, its);
		};
		OK(one.ReadAsync(mine, IOOptions(), told, &called, &handle, &deleter, nullptr));
		// A direct read is never over at once.
		CHECK(called == (handle == nullptr) && !(one.use_direct_io() && called));
		if (handle) {
			std::vector<void *> handles{handle};
			OK(system.Poll(handles, 1));
			CHECK(called);
			deleter(handle);
		}
	}
}

// Both; gives what posix has said of the last.
static IOStatus compare(FileSystem &ours, FileSystem &theirs, const std::string &path, bool direct,
                        const std::vector<uint64_t> &offsets)
{
	auto one = open_in(ours, path, direct), other = open_in(theirs, path, direct);
	CHECK(one->use_direct_io() == direct && other->use_direct_io() == direct);
	ahead(*one, ours, *other, offsets);
	return together(*one, *other, offsets);
}

// A read ahead that is not wanted any more: called back for once, as aborted.
static void aborted(FileSystem &ours, const std::string &path)
{
	auto file = open_in(ours, path, true);
	Buffer buffer(SECTOR);
	int told = 0;
#if ROCKSDB_MAJOR >= 9
	auto tell = [&](FSReadRequest &done, void *) {
#else
	auto tell = [&](const FSReadRequest &done, void *) {
#endif
		CHECK(done.status.IsAborted());
		told++;
	};
	void *handle = nullptr;
	IOHandleDeleter deleter;
	FSReadRequest request = request_at(0, SECTOR, buffer.bytes);
	OK(file->ReadAsync(request, IOOptions(), tell, nullptr, &handle, &deleter, nullptr));
	std::vector<void *> handles{handle};
	OK(ours.AbortIO(handles));
	OK(ours.Poll(handles, 1));
	CHECK(told == 1);
	deleter(handle);
}

static IOStatus written(FileSystem &system, const std::string &path)
{
	FileOptions options;
	options.bytes_per_sync = SECTOR;
	std::unique_ptr<FSWritableFile> file;
	OK(system.NewWritableFile(path, options, &file, nullptr));
	IOStatus status = file->Append(std::string(LENGTH, 'x'), IOOptions(), nullptr);
	if (status.ok())
		status = file->RangeSync(0, SECTOR, IOOptions(), nullptr);
	if (status.ok())
		status = file->RangeSync(SECTOR, SECTOR, IOOptions(), nullptr);
	if (status.ok())
		status = file->Sync(IOOptions(), nullptr);
	file->Close(IOOptions(), nullptr).PermitUncheckedError();
	return status;
}

// Where there is one descriptor left, which RocksDB's own file takes.
static void one_descriptor(FileSystem &ours, FileSystem &theirs, const std::string &path)
{
	rlimit all;
	CHECK(getrlimit(RLIMIT_NOFILE, &all) == 0);
	int next = dup(STDERR_FILENO);
	close(next);
	rlimit few = {static_cast<rlim_t>(next) + 1, all.rlim_max};
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	auto file = open_in(ours, path, true);
	CHECK(dup(STDERR_FILENO) < 0);
	CHECK(setrlimit(RLIMIT_NOFILE, &all) == 0);
	OK(together(*file, *open_in(theirs, path, true), {0, 4 * SECTOR, 10 * SECTOR}));
}

// More together than the kernel is asked for at a time, some of them over the file's end.
static std::vector<uint64_t> many()
{
	std::vector<uint64_t> offsets;
	for (uint64_t at = 0; at < 150; at++)
		offsets.push_back(at % 12 * SECTOR);
	return offsets;
}

// Whether this kernel has asynchronous reads of its own at all.
static bool kernel_reads()
{
	aio_context_t context = 0;
	bool has = syscall(SYS_io_setup, 1, &context) == 0;
	if (has)
		syscall(SYS_io_destroy, context);
	return has;
}

// Whether this process has a place for such reads: the memory that their ends are told in.
static bool has_place()
{
	std::ifstream maps("/proc/self/maps");
	for (std::string line; std::getline(maps, line);) {
		if (line.find("[aio]") != std::string::npos)
			return true;
	}
	return false;
}

// Direct reads by threads, by the kernel, and where the kernel makes none.
static void each_way(FileSystem &ours, FileSystem &theirs, const std::string &path)
{
	auto other = open_in(theirs, path, true);
	auto by_threads = file_system("kumiki://threads");
	auto threads = open_in(*by_threads, path, true);
	OK(together(*threads, *other, many()));
	CHECK(!has_place());
	auto one = open_in(ours, path, true);
	OK(together(*one, *other, many()));
	CHECK(has_place() == kernel_reads());

	// A child of fork(2) has its parent's memory and none of its places.
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		OK(together(*one, *other, many()));
		_exit(0);
	}
	int status = -1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);

	// A thread that a filter keeps from it.
	std::thread([&] {
		sock_filter rules[] = {
		    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_setup, 0, 1),
		    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		sock_fprog filter = {sizeof(rules) / sizeof(rules[0]), rules};
		CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
		CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
		CHECK(!kernel_reads());
		OK(together(*one, *other, many()));
	}).join();
}

// Reads after the main thread's objects have been destroyed, as a static database's end may.
static struct Late {
	~Late()
	{
		if (one)
			OK(together(*one, *other, {0, 4 * SECTOR, 10 * SECTOR}));
	}
	std::unique_ptr<FSRandomAccessFile> one, other;
} late;

// Puts a file system of two sectors there, which only this process sees.
static bool make_small(const std::string &path)
{
	mkdir(path.c_str(), 0700);
	int spaces = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
	bool made = unshare(spaces) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
	            mount("none", path.c_str(), "tmpfs", 0, "size=8k") == 0;
	if (!made)
		perror("left out: writes to a full file system, which cannot be mounted here");
	return made;
}

int main(int, char **argv)
{
	std::string small = std::string(argv[1]) + "/small";
	// Before there are threads.
	bool is_small = make_small(small);
	auto ours = file_system("kumiki://"), theirs = file_system("posix://");
	std::string path = std::string(argv[1]) + "/file";
	OK(written(*ours, path));
	// First: no thread has read yet.
	each_way(*ours, *theirs, path);
	for (bool direct : {false, true}) {
		// Amid it, over its end, and from sectors beyond it.
		OK(compare(*ours, *theirs, path, direct,
		           {0, 4 * SECTOR, 2 * SECTOR, 9 * SECTOR, 10 * SECTOR, 11 * SECTOR, 90 * SECTOR}));
		OK(compare(*ours, *theirs, path, direct, {SECTOR}));
	}
	aborted(*ours, path);
	one_descriptor(*ours, *theirs, path);

	// EIO where nothing is mapped, of a file system that knows no tries.
	CHECK(compare(*ours, *theirs, "/proc/self/mem", false, {0, 64 * SECTOR, SECTOR}).IsIOError());
	// ENOSPC.
	if (is_small) {
		IOStatus full = written(*ours, small + "/full"), its = written(*theirs, small + "/full");
		CHECK(full.IsNoSpace() && full.ToString() == its.ToString());
	}
	// A way to read that there is not.
	std::shared_ptr<FileSystem> unknown;
	ConfigOptions config;
	config.ignore_unsupported_options = false;
	Status found = FileSystem::CreateFromString(config, "kumiki://fibres", &unknown);
	CHECK(found.ToString().find("kumiki://threads") != std::string::npos);
	// ENOENT.
	std::unique_ptr<FSRandomAccessFile> none;
	IOStatus missing = ours->NewRandomAccessFile(path + "s", FileOptions(), &none, nullptr);
	CHECK(missing.IsPathNotFound() && !none);
#if ROCKSDB_MAJOR >= 9
	int64_t operations = 0;
	ours->SupportedOps(operations);
	CHECK(operations >> FSSupportedOps::kAsyncIO & 1);
#endif
	late.one = open_in(*ours, path, true);
	late.other = open_in(*theirs, path, true);
}
