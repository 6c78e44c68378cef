// The peer `io_uring://`: RocksDB's own MultiRead by io_uring, which Debian builds without.
#pragma once

void register_io_uring();
