// Direct reads of a batch, all brought to the disk by one call: Linux's own asynchronous reads
// (io_submit(2)), which are asynchronous for files with O_DIRECT alone.
//
// Threads keep as many reads outstanding, but each is woken, sleeps in its read and is woken
// again, which costs the processors 15 to 23 microseconds a read beside this; and what is told of
// together reaches the device together. Docker's default filter and systemd's @system-service
// have these calls; where they are refused, threads make the reads. As they are: libaio has no
// more than their names.
#pragma once

#include <cstdint>
#include <vector>

#include <rocksdb/file_system.h>

namespace kumiki {

// Makes all of these reads and waits for them; each result is what pread(2) would have returned,
// or -errno, and 0 where the kernel has not taken the read. False: none was made.
bool read_direct(int fd, const std::vector<rocksdb::FSReadRequest *> &requests,
                 std::vector<int64_t> &results);

} // namespace kumiki
