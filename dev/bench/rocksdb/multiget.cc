// multiget FOLDER URI direct|cached: each line on stdin is a turn, answered by a line of samples,
// nanoseconds of a MultiGet of 64 keys. `multiget FOLDER make` makes the database that all read.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/table.h>

#include "io_uring.h"

using namespace rocksdb;

static const uint64_t KEYS = 200000;
static const size_t VALUE = 400;
static const size_t BATCH = 64;
static const int SAMPLES = 10;

static void need(const Status &status)
{
	if (!status.ok()) {
		fprintf(stderr, "%s\n", status.ToString().c_str());
		exit(1);
	}
}

static std::string key_of(uint64_t number)
{
	char text[32];
	snprintf(text, sizeof(text), "%016lu", static_cast<unsigned long>(number));
	return text;
}

static Options options_of(bool direct)
{
	Options options;
	options.compression = kNoCompression;
	options.use_direct_reads = direct;
	options.target_file_size_base = 1 << 30;
	options.disable_auto_compactions = true;
	BlockBasedTableOptions table;
	// What is measured is the reads: each key's block comes from the file.
	table.no_block_cache = true;
	options.table_factory.reset(NewBlockBasedTableFactory(table));
	return options;
}

static void make(const std::string &folder)
{
	Options options = options_of(false);
	options.create_if_missing = true;
	DB *opened = nullptr;
	need(DB::Open(options, folder, &opened));
	std::unique_ptr<DB> db(opened);
	std::mt19937 random(1);
	std::string value(VALUE, 0);
	for (uint64_t number = 0; number < KEYS; number++) {
		for (char &byte : value)
			byte = static_cast<char>(random());
		need(db->Put(WriteOptions(), key_of(number), value));
	}
	// One table.
	need(db->CompactRange(CompactRangeOptions(), nullptr, nullptr));
	need(db->Close());
}

// 64 keys in as many blocks, found.
static double sample(DB *db, std::mt19937 &random, int times)
{
	std::vector<std::string> names(BATCH);
	std::vector<PinnableSlice> values(BATCH);
	std::vector<Status> statuses(BATCH);
	std::vector<Slice> keys(BATCH);
	std::chrono::nanoseconds taken{};
	for (int time = 0; time < times; time++) {
		for (size_t at = 0; at < BATCH; at++) {
			names[at] = key_of(random() % KEYS);
			keys[at] = names[at];
			values[at].Reset();
		}
		auto begin = std::chrono::steady_clock::now();
		db->MultiGet(ReadOptions(), db->DefaultColumnFamily(), BATCH, keys.data(), values.data(),
		             statuses.data());
		taken += std::chrono::steady_clock::now() - begin;
		for (const Status &status : statuses)
			need(status);
	}
	return static_cast<double>(taken.count()) / times;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[2], "make") == 0) {
		make(argv[1]);
		return 0;
	}
	if (argc != 4)
		return 2;
	register_io_uring();
	bool direct = strcmp(argv[3], "direct") == 0;
	std::shared_ptr<FileSystem> system;
	ConfigOptions config;
	config.ignore_unsupported_options = false;
	need(FileSystem::CreateFromString(config, argv[2], &system));
	std::unique_ptr<Env> env = NewCompositeEnv(system);
	Options options = options_of(direct);
	options.env = env.get();
	DB *opened = nullptr;
	need(DB::OpenForReadOnly(options, argv[1], &opened));
	std::unique_ptr<DB> db(opened);
	std::mt19937 random(2);
	if (!direct) {
		std::unique_ptr<Iterator> all(db->NewIterator(ReadOptions()));
		for (all->SeekToFirst(); all->Valid(); all->Next()) {
		}
		need(all->status());
	}
	printf("ready\n");
	fflush(stdout);
	for (std::string line; std::getline(std::cin, line);) {
		// The first of a turn is not like the others: threads may have gone to sleep.
		sample(db.get(), random, 2);
		for (int at = 0; at < SAMPLES; at++)
			printf("%.0f ", sample(db.get(), random, direct ? 2 : 20));
		printf("\n");
		fflush(stdout);
	}
}
