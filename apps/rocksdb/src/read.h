// What a read by another way has given, made into what RocksDB's own file would have given.
#pragma once

#include <cstdint>

#include <rocksdb/file_system.h>

namespace kumiki {

// Sets a request's result and status after one pread(2) that has returned `got` bytes or -errno.
// One that has failed or stopped short is made again, or its rest is, by `file`, RocksDB's own:
// so errors and a file's end are told as that file tells them.
void finish_read(const rocksdb::FSRandomAccessFile &file, int64_t got,
                 const rocksdb::IOOptions &options, rocksdb::FSReadRequest &request,
                 rocksdb::IODebugContext *debug);

} // namespace kumiki
