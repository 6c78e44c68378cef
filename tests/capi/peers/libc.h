/* The C library's names where another library has those that POSIX is to get. */
#include <spawn.h>

#define posix_spawn_file_actions_addchdir posix_spawn_file_actions_addchdir_np
#define posix_spawn_file_actions_addfchdir posix_spawn_file_actions_addfchdir_np
