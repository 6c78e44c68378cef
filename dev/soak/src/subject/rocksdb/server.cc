// server SOCKET FOLDER CUT URI DIRECT: does with a database in FOLDER what clients ask for, each
// connection by a thread of its own; a second one in CUT is opened for reading whenever it is asked.
//
// A message is a number of words, and each word's bytes after their number: 32 bits, little endian.
// The first word of a request is what is to be done. Each word of an answer begins with how it went:
// v (a value), n (there is none), k (done), or e and RocksDB's own words.
#include <sys/socket.h>
#include <sys/un.h>

#include <mutex>
#include <thread>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include "check.h"

using namespace rocksdb;
using Words = std::vector<std::string>;

static bool read_all(int fd, void *to, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = read(fd, static_cast<char *>(to) + at, bytes - at);
		if (n <= 0)
			return false;
		at += static_cast<size_t>(n);
	}
	return true;
}

static bool read_words(int fd, Words &words)
{
	uint32_t count = 0;
	if (!read_all(fd, &count, sizeof(count)))
		return false;
	words.assign(count, "");
	for (std::string &word : words) {
		uint32_t bytes = 0;
		if (!read_all(fd, &bytes, sizeof(bytes)))
			return false;
		word.resize(bytes);
		if (!read_all(fd, &word[0], bytes))
			return false;
	}
	return true;
}

static bool write_words(int fd, const Words &words)
{
	std::string all;
	auto number = [&all](size_t n) {
		uint32_t bytes = static_cast<uint32_t>(n);
		all.append(reinterpret_cast<char *>(&bytes), sizeof(bytes));
	};
	number(words.size());
	for (const std::string &word : words) {
		number(word.size());
		all += word;
	}
	for (size_t at = 0; at < all.size();) {
		ssize_t n = send(fd, all.data() + at, all.size() - at, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		at += static_cast<size_t>(n);
	}
	return true;
}

static std::string told(const Status &status)
{
	if (status.ok())
		return "k";
	return status.IsNotFound() ? "n" : "e" + status.ToString();
}

static std::string told(const Status &status, const Slice &value)
{
	return status.ok() ? "v" + value.ToString() : told(status);
}

// Tables small enough that there are many, and are made anew all the time.
static Options options_of(Env *env, bool direct)
{
	Options options;
	options.env = env;
	options.create_if_missing = true;
	options.compression = kNoCompression;
	options.write_buffer_size = 512 << 10;
	options.target_file_size_base = 512 << 10;
	options.max_bytes_for_level_base = 2 << 20;
	options.level0_file_num_compaction_trigger = 2;
	options.use_direct_reads = direct;
	options.use_direct_io_for_flush_and_compaction = direct;
	options.bytes_per_sync = 64 << 10;
	options.wal_bytes_per_sync = 64 << 10;
	BlockBasedTableOptions table;
	table.no_block_cache = true;
	options.table_factory.reset(NewBlockBasedTableFactory(table));
	return options;
}

struct Server {
	Options options;
	std::string cut_folder;
	std::unique_ptr<DB> db;
	// The one in CUT; one thread at a time.
	std::mutex turn;
	std::unique_ptr<DB> cut;
};

static Words get_many(DB *db, const Words &asked)
{
	ReadOptions read;
	read.async_io = asked[1] == "async";
	size_t count = asked.size() - 2;
	std::vector<Slice> keys(asked.begin() + 2, asked.end());
	std::vector<PinnableSlice> values(count);
	std::vector<Status> statuses(count);
	db->MultiGet(read, db->DefaultColumnFamily(), count, keys.data(), values.data(),
	             statuses.data());
	Words answer;
	for (size_t at = 0; at < count; at++)
		answer.push_back(told(statuses[at], values[at]));
	return answer;
}

// From a key on, so many; key and value in turn, and last how it ended.
static Words walk(DB *db, const Words &asked)
{
	ReadOptions read;
	read.async_io = asked[1] == "async";
	read.readahead_size = read.async_io ? 64 << 10 : 0;
	std::unique_ptr<Iterator> at(db->NewIterator(read));
	Words answer;
	unsigned long count = std::stoul(asked[3]);
	for (at->Seek(asked[2]); at->Valid() && answer.size() < 2 * count; at->Next()) {
		answer.push_back("v" + at->key().ToString());
		answer.push_back("v" + at->value().ToString());
	}
	answer.push_back(told(at->status()));
	return answer;
}

static Words change(DB *db, const Words &asked)
{
	WriteOptions synced;
	synced.sync = true;
	if (asked[0] == "put")
		return {told(db->Put(synced, asked[1], asked[2]))};
	if (asked[0] == "delete")
		return {told(db->Delete(synced, asked[1]))};
	if (asked[0] == "flush")
		return {told(db->Flush(FlushOptions()))};
	return {told(db->CompactRange(CompactRangeOptions(), nullptr, nullptr))};
}

static Words look(DB *db, const Words &asked)
{
	if (asked[0] == "walk")
		return walk(db, asked);
	if (asked[0] == "get many")
		return get_many(db, asked);
	std::string value;
	Status status = db->Get(ReadOptions(), asked[1], &value);
	return {told(status, value)};
}

// What stands behind "cut": "make", "open", or to look.
static Words cut(Server &server, Words asked)
{
	asked.erase(asked.begin());
	std::lock_guard<std::mutex> turn(server.turn);
	DB *opened = nullptr;
	if (asked[0] == "open") {
		server.cut.reset();
		Status status = DB::OpenForReadOnly(server.options, server.cut_folder, &opened);
		server.cut.reset(opened);
		return {told(status)};
	}
	if (asked[0] != "make")
		return server.cut ? look(server.cut.get(), asked) : Words{"enot open"};
	server.cut.reset();
	Status status = DB::Open(server.options, server.cut_folder, &opened);
	std::unique_ptr<DB> made(opened);
	for (size_t at = 1; at < asked.size() && status.ok(); at += 2)
		status = made->Put(WriteOptions(), asked[at], asked[at + 1]);
	if (status.ok())
		status = made->CompactRange(CompactRangeOptions(), nullptr, nullptr);
	if (status.ok())
		status = made->Close();
	return {told(status)};
}

static void serve(Server &server, int fd)
{
	Words asked;
	while (read_words(fd, asked) && !asked.empty()) {
		Words answer;
		if (asked[0] == "cut")
			answer = cut(server, asked);
		else if (asked[0] == "get" || asked[0] == "get many" || asked[0] == "walk")
			answer = look(server.db.get(), asked);
		else
			answer = change(server.db.get(), asked);
		if (!write_words(fd, answer))
			break;
	}
	close(fd);
}

int main(int, char **argv)
{
	std::unique_ptr<Env> env = NewCompositeEnv(file_system(argv[4]));
	Server server;
	server.options = options_of(env.get(), std::string(argv[5]) == "direct");
	server.cut_folder = argv[3];
	DB *opened = nullptr;
	OK(DB::Open(server.options, argv[2], &opened));
	server.db.reset(opened);

	sockaddr_un address = {};
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
	unlink(argv[1]);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0);
	CHECK(listen(listener, 64) == 0);
	printf("it serves\n");
	fflush(stdout);
	for (;;) {
		int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
		CHECK(fd >= 0);
		std::thread(serve, std::ref(server), fd).detach();
	}
}
