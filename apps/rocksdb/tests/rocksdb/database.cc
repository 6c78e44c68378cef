// A database on kumiki:// has what was put into it, however it is read: some keys at a time, by
// an iterator that reads ahead, by more threads than an engine has room for, cold and direct.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/table.h>

#include "check.h"

using namespace rocksdb;

static const uint64_t KEYS = 20000;
static const size_t BATCH = 64;

static Options options_of(Env *env, bool direct)
{
	Options options;
	options.env = env;
	options.create_if_missing = true;
	options.compression = kNoCompression;
	options.use_direct_reads = direct;
	options.use_direct_io_for_flush_and_compaction = direct;
	options.write_buffer_size = 1 << 20;
	options.bytes_per_sync = 1 << 16;
	options.wal_bytes_per_sync = 1 << 16;
	BlockBasedTableOptions table;
	table.no_block_cache = true;
	options.table_factory.reset(NewBlockBasedTableFactory(table));
	return options;
}

// Has the kernel forget what it has of the files in a folder.
static void make_cold(const std::string &folder)
{
	sync();
	DIR *all = opendir(folder.c_str());
	CHECK(all != nullptr);
	while (dirent *entry = readdir(all)) {
		int fd = open((folder + "/" + entry->d_name).c_str(), O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
			close(fd);
		}
	}
	closedir(all);
}

// Keys of which one in eight is not there.
static void get_many(DB *db, unsigned int seed, int rounds)
{
	std::mt19937 random(seed);
	ReadOptions read;
	for (int round = 0; round < rounds; round++) {
		std::vector<std::string> names;
		std::vector<uint64_t> numbers;
		for (size_t at = 0; at < BATCH; at++) {
			numbers.push_back(random() % (KEYS + KEYS / 8));
			names.push_back(key_of(0, numbers.back()));
		}
		std::vector<Slice> keys(names.begin(), names.end());
		std::vector<PinnableSlice> values(BATCH);
		std::vector<Status> statuses(BATCH);
		db->MultiGet(read, db->DefaultColumnFamily(), BATCH, keys.data(), values.data(),
		             statuses.data());
		for (size_t at = 0; at < BATCH; at++) {
			if (numbers[at] >= KEYS) {
				CHECK(statuses[at].IsNotFound());
				continue;
			}
			OK(statuses[at]);
			CHECK(values[at] == value_of(0, numbers[at]));
		}
	}
}

// All of it in order; then leaps, so that what was read ahead is not wanted.
static void walk(DB *db, unsigned int seed, int leaps)
{
	ReadOptions read;
	read.async_io = true;
	read.readahead_size = 256 << 10;
	std::unique_ptr<Iterator> at(db->NewIterator(read));
	uint64_t number = 0;
	for (at->SeekToFirst(); at->Valid(); at->Next(), number++) {
		CHECK(at->key() == key_of(0, number));
		CHECK(at->value() == value_of(0, number));
	}
	OK(at->status());
	CHECK(number == KEYS);
	std::mt19937 random(seed);
	for (int leap = 0; leap < leaps; leap++) {
		number = random() % KEYS;
		at->Seek(key_of(0, number));
		for (int step = 0; step < 40 && number < KEYS; step++, number++) {
			CHECK(at->Valid() && at->value() == value_of(0, number));
			at->Next();
		}
		// One that is let go of with a read under way.
		at.reset(db->NewIterator(read));
	}
}

int main(int, char **argv)
{
	std::string folder = argv[1];
	struct {
		const char *uri, *name;
		bool direct;
	} ways[] = {{"kumiki://", "/cached", false},
	            {"kumiki://", "/direct", true},
	            {"kumiki://threads", "/threads", true}};
	for (auto [uri, name, direct] : ways) {
		std::shared_ptr<FileSystem> own = file_system(uri);
		CHECK(std::string(own->Name()) == "kumiki");
		std::unique_ptr<Env> env = NewCompositeEnv(own);
		std::string place = folder + name;
		DB *opened = nullptr;
		OK(DB::Open(options_of(env.get(), direct), place, &opened));
		for (uint64_t number = 0; number < KEYS; number++)
			OK(opened->Put(WriteOptions(), key_of(0, number), value_of(0, number)));
		OK(opened->CompactRange(CompactRangeOptions(), nullptr, nullptr));
		OK(opened->Close());
		delete opened;

		OK(DB::Open(options_of(env.get(), direct), place, &opened));
		std::unique_ptr<DB> db(opened);
		make_cold(place);
		get_many(db.get(), 1, 20);
		make_cold(place);
		walk(db.get(), 2, 20);
		make_cold(place);
		std::vector<std::thread> threads;
		for (unsigned int thread = 0; thread < 70; thread++) {
			threads.emplace_back([&db, thread] {
				get_many(db.get(), thread, 2);
				if (thread % 10 == 0)
					walk(db.get(), thread, 3);
			});
		}
		for (std::thread &thread : threads)
			thread.join();
		OK(db->Close());
	}
	// What it wrote is RocksDB's own, and the other way round.
	DB *opened = nullptr;
	OK(DB::OpenForReadOnly(options_of(Env::Default(), false), folder + "/cached", &opened));
	get_many(opened, 3, 5);
	delete opened;
}
