// What holds and what does not, for the programs beside it; keys and values that tell each other.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#define CHECK(condition) check((condition), #condition, __LINE__)
#define OK(call) okay((call), #call, __LINE__)

inline void check(bool holds, const char *text, int line)
{
	if (!holds) {
		fprintf(stderr, "line %d: does not hold: %s\n", line, text);
		_exit(1);
	}
}

inline void okay(const rocksdb::Status &status, const char *text, int line)
{
	if (!status.ok()) {
		fprintf(stderr, "line %d: %s: %s\n", line, text, status.ToString().c_str());
		_exit(1);
	}
}

inline std::shared_ptr<rocksdb::FileSystem> file_system(const char *uri)
{
	std::shared_ptr<rocksdb::FileSystem> found;
	rocksdb::ConfigOptions config;
	// Else a name that nobody knows is no error, and nothing is found.
	config.ignore_unsupported_options = false;
	OK(rocksdb::FileSystem::CreateFromString(config, uri, &found));
	return found;
}

inline std::string key_of(unsigned int writer, uint64_t number)
{
	char text[40];
	snprintf(text, sizeof(text), "%u-%012lu", writer, static_cast<unsigned long>(number));
	return text;
}

// Bytes that no compression makes less of, from 100 to 1123.
inline std::string value_of(unsigned int writer, uint64_t number)
{
	uint64_t state = number * 0x9e3779b97f4a7c15 + writer + 1;
	std::string value(100 + state % 1024, 0);
	for (char &byte : value) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		byte = static_cast<char>(state);
	}
	return value;
}
