// Makes `kumiki://` known to RocksDB's registry as soon as this library is loaded.
#include <memory>
#include <string>

#include <rocksdb/utilities/object_registry.h>

#include "file_system.h"

namespace {

using rocksdb::ObjectLibrary;

rocksdb::FileSystem *create(const std::string &, std::unique_ptr<rocksdb::FileSystem> *result,
                            std::string *)
{
	result->reset(new kumiki::FileSystem(rocksdb::FileSystem::Default()));
	return result->get();
}

// RocksDB's library is one that this one needs, so its registry is there before.
const rocksdb::FactoryFunc<rocksdb::FileSystem> &registered =
    ObjectLibrary::Default()->AddFactory<rocksdb::FileSystem>(
        ObjectLibrary::PatternEntry(kumiki::FileSystem::kClassName()).AddSeparator("://", false),
        create);

} // namespace
