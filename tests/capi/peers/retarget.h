/*
 * Has a test of posix_spawn(3) be one of <kumiki/spawn.h>. With KUMIKI_PEERS_BY_SERVER in its
 * environment a spawn server makes each child.
 */
#ifndef KUMIKI_RETARGET_H
#define KUMIKI_RETARGET_H

#include <kumiki/spawn.h>
#include <stdlib.h>

static inline int retargeted(int (*spawn)(pid_t *, const char *, const kumiki_spawn_file_actions_t *,
                                          const kumiki_spawnattr_t *, char *const[], char *const[]),
                             pid_t *pid, const char *file,
                             const kumiki_spawn_file_actions_t *actions,
                             const kumiki_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	kumiki_spawnattr_t own;
	int error;
	if (getenv("KUMIKI_PEERS_BY_SERVER") == NULL)
		return spawn(pid, file, actions, attr, argv, envp);
	if (attr != NULL) {
		kumiki_spawnattr_setbyserver((kumiki_spawnattr_t *)attr, 1);
		return spawn(pid, file, actions, attr, argv, envp);
	}
	error = kumiki_spawnattr_init(&own);
	if (error != 0)
		return error;
	kumiki_spawnattr_setbyserver(&own, 1);
	error = spawn(pid, file, actions, &own, argv, envp);
	kumiki_spawnattr_destroy(&own);
	return error;
}

static inline int retargeted_spawn(pid_t *pid, const char *path,
                                   const kumiki_spawn_file_actions_t *actions,
                                   const kumiki_spawnattr_t *attr, char *const argv[],
                                   char *const envp[])
{
	return retargeted(kumiki_spawn, pid, path, actions, attr, argv, envp);
}

static inline int retargeted_spawnp(pid_t *pid, const char *file,
                                    const kumiki_spawn_file_actions_t *actions,
                                    const kumiki_spawnattr_t *attr, char *const argv[],
                                    char *const envp[])
{
	return retargeted(kumiki_spawnp, pid, file, actions, attr, argv, envp);
}

#define posix_spawn retargeted_spawn
#define posix_spawnp retargeted_spawnp
#define posix_spawnattr_t kumiki_spawnattr_t
#define posix_spawnattr_init kumiki_spawnattr_init
#define posix_spawnattr_destroy kumiki_spawnattr_destroy
#define posix_spawnattr_setflags kumiki_spawnattr_setflags
#define posix_spawnattr_getflags kumiki_spawnattr_getflags
#define posix_spawnattr_setpgroup kumiki_spawnattr_setpgroup
#define posix_spawnattr_getpgroup kumiki_spawnattr_getpgroup
#define posix_spawnattr_setsigmask kumiki_spawnattr_setsigmask
#define posix_spawnattr_getsigmask kumiki_spawnattr_getsigmask
#define posix_spawnattr_setsigdefault kumiki_spawnattr_setsigdefault
#define posix_spawnattr_getsigdefault kumiki_spawnattr_getsigdefault
#define posix_spawnattr_setschedpolicy kumiki_spawnattr_setschedpolicy
#define posix_spawnattr_getschedpolicy kumiki_spawnattr_getschedpolicy
#define posix_spawnattr_setschedparam kumiki_spawnattr_setschedparam
#define posix_spawnattr_getschedparam kumiki_spawnattr_getschedparam
#define posix_spawnattr_setcgroup_np kumiki_spawnattr_setcgroup
#define posix_spawnattr_getcgroup_np kumiki_spawnattr_getcgroup
#define posix_spawn_file_actions_t kumiki_spawn_file_actions_t
#define posix_spawn_file_actions_init kumiki_spawn_file_actions_init
#define posix_spawn_file_actions_destroy kumiki_spawn_file_actions_destroy
#define posix_spawn_file_actions_addopen kumiki_spawn_file_actions_addopen
#define posix_spawn_file_actions_addclose kumiki_spawn_file_actions_addclose
#define posix_spawn_file_actions_adddup2 kumiki_spawn_file_actions_adddup2
#define posix_spawn_file_actions_addchdir kumiki_spawn_file_actions_addchdir
#define posix_spawn_file_actions_addfchdir kumiki_spawn_file_actions_addfchdir
#define posix_spawn_file_actions_addchdir_np kumiki_spawn_file_actions_addchdir
#define posix_spawn_file_actions_addfchdir_np kumiki_spawn_file_actions_addfchdir
#define posix_spawn_file_actions_addclosefrom_np kumiki_spawn_file_actions_addclosefrom
#define posix_spawn_file_actions_addtcsetpgrp_np kumiki_spawn_file_actions_addtcsetpgrp

#endif
