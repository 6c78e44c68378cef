// Makes `kumiki://` known to RocksDB's registry as soon as this library is loaded.
#include <memory>
#include <string>

#include <rocksdb/utilities/object_registry.h>

#include "file_system.h"

namespace {

using rocksdb::ObjectLibrary;

rocksdb::FileSystem *create(const std::string &uri, std::unique_ptr<rocksdb::FileSystem> *result,
                            std::string *error)
{
	// An OPTIONS file has the name alone.
	size_t separator = uri.find("://");
	std::string how = separator == std::string::npos ? "" : uri.substr(separator + 3);
	if (!how.empty() && how != "threads") {
		*error = uri + ": it is kumiki:// or kumiki://threads";
		return nullptr;
	}
	result->reset(new kumiki::FileSystem(rocksdb::FileSystem::Default(), how == "threads"));
	return result->get();
}

// RocksDB's library is one that this one needs, so its registry is there before.
const rocksdb::FactoryFunc<rocksdb::FileSystem> &registered =
    ObjectLibrary::Default()->AddFactory<rocksdb::FileSystem>(
        ObjectLibrary::PatternEntry(kumiki::FileSystem::kClassName()).AddSeparator("://", false),
        create);

} // namespace
