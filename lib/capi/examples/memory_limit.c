/*
 * Starts a program that may use so much memory and no more.
 *
 *     cc memory_limit.c $(pkg-config --cflags --libs kumiki) -o memory_limit
 *     ./memory_limit 64 sh -c 'ulimit -v'
 */
#include <kumiki/spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv)
{
	kumiki_spawnattr_t attr;
	struct rlimit memory;
	pid_t child;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: memory_limit MIB PROGRAM [ARGUMENT]...\n");
		return 2;
	}
	memory.rlim_cur = memory.rlim_max = strtoul(argv[1], NULL, 10) << 20;
	/* The address space of each process by itself. kumiki_spawnattr_setcgroup() begins it in
	 * a cgroup, whose memory.max holds for all that it starts, too. */
	kumiki_spawnattr_init(&attr);
	kumiki_spawnattr_setlimit(&attr, RLIMIT_AS, &memory);
	if (kumiki_spawnp(&child, argv[2], NULL, &attr, argv + 2, environ) != 0) {
		fprintf(stderr, "memory_limit: %s\n", kumiki_last_error());
		return 2;
	}
	kumiki_spawnattr_destroy(&attr);
	if (waitpid(child, &status, 0) != child)
		return 2;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
