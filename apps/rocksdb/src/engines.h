// Kumiki's engines in this process, which make calls on other threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include <kumiki/parasc.h>

namespace kumiki {

// The engine that requests are placed in; null if the machine gives none. It is never ended:
// RocksDB's threads may still read while the program's static objects are destroyed.
kumiki_parasc_engine *first_engine();

// Makes all calls, several at a time where they sleep, and waits for them. False: none was made.
bool run_in_parallel(const kumiki_parasc_call *calls, int64_t *results, size_t count);

} // namespace kumiki
