// crash FOLDER URI WRITES COUNT...: looks whether each writer's first COUNT keys are all there,
// then has each go on from there by synced writes, until it is killed or each has made WRITES,
// and says of each write that has been acknowledged which writer's it was.
#include <unistd.h>

#include <thread>
#include <vector>

#include <rocksdb/db.h>

#include "check.h"

using namespace rocksdb;

// A log or table of its own every few hundred writes, so that a kill meets one half done.
static Options options_of(Env *env)
{
	Options options;
	options.env = env;
	options.create_if_missing = true;
	options.write_buffer_size = 64 << 10;
	options.level0_file_num_compaction_trigger = 2;
	options.bytes_per_sync = 16 << 10;
	options.wal_bytes_per_sync = 16 << 10;
	return options;
}

static void look(DB *db, unsigned int writer, uint64_t count)
{
	const uint64_t most = 50;
	for (uint64_t from = 0; from < count; from += most) {
		size_t n = static_cast<size_t>(std::min(most, count - from));
		std::vector<std::string> names;
		for (size_t at = 0; at < n; at++)
			names.push_back(key_of(writer, from + at));
		std::vector<Slice> keys(names.begin(), names.end());
		std::vector<PinnableSlice> values(n);
		std::vector<Status> statuses(n);
		db->MultiGet(ReadOptions(), db->DefaultColumnFamily(), n, keys.data(), values.data(),
		             statuses.data());
		for (size_t at = 0; at < n; at++) {
			if (!statuses[at].ok())
				fprintf(stderr, "%s was acknowledged: ", names[at].c_str());
			OK(statuses[at]);
			CHECK(values[at] == value_of(writer, from + at));
		}
	}
}

int main(int argc, char **argv)
{
	std::unique_ptr<Env> env = NewCompositeEnv(file_system(argv[2]));
	uint64_t writes = strtoull(argv[3], nullptr, 10);
	DB *opened = nullptr;
	OK(DB::Open(options_of(env.get()), argv[1], &opened));
	std::unique_ptr<DB> db(opened);
	std::vector<std::thread> writers;
	for (unsigned int writer = 0; writer + 4 < static_cast<unsigned int>(argc); writer++) {
		uint64_t count = strtoull(argv[4 + writer], nullptr, 10);
		look(db.get(), writer, count);
		writers.emplace_back([&db, writer, count, writes] {
			WriteOptions synced;
			synced.sync = true;
			char name = static_cast<char>('0' + writer);
			for (uint64_t number = count; number < count + writes; number++) {
				OK(db->Put(synced, key_of(writer, number), value_of(writer, number)));
				if (write(STDOUT_FILENO, &name, 1) != 1)
					_exit(2);
			}
		});
	}
	for (std::thread &writer : writers)
		writer.join();
	OK(db->Close());
}
