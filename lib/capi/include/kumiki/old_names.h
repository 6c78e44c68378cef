/*
 * Names of version 0.1, for programs that were written with them: without a prefix of their own those of
 * <kumiki/shadow.h> and <kumiki/parasc.h> were other libraries' names, too.
 *
 *     cc -include kumiki/old_names.h program.c ...
 *
 * This header goes with version 0.3, and so do the functions of these names in the libraries, by which programs
 * that were linked with version 0.1 run on.
 */
#ifndef KUMIKI_OLD_NAMES_H
#define KUMIKI_OLD_NAMES_H

#pragma message("<kumiki/old_names.h> goes with version 0.3: names begin with kumiki_ or KUMIKI_")

/* struct shadow, and so whatever is called so in a program that includes this. */
#define shadow kumiki_shadow
#define shadow_copy kumiki_shadow_copy
#define shadow_copy_method kumiki_shadow_copy_method
#define shadow_copy_prepare kumiki_shadow_copy_prepare
#define shadow_copy_prepare_timeout kumiki_shadow_copy_prepare_timeout
#define shadow_copy_timeout kumiki_shadow_copy_timeout
#define shadow_create kumiki_shadow_create
#define shadow_create_timeout kumiki_shadow_create_timeout
#define shadow_destroy kumiki_shadow_destroy
#define shadow_destroy_timeout kumiki_shadow_destroy_timeout
#define shadow_fork kumiki_shadow_fork
#define shadow_info kumiki_shadow_info
#define shadow_is_finished kumiki_shadow_is_finished
#define shadow_join kumiki_shadow_join
#define shadow_join_timeout kumiki_shadow_join_timeout
#define shadow_options kumiki_shadow_options
#define shadow_relation kumiki_shadow_relation
#define shadow_sleep kumiki_shadow_sleep

#define parasc_backend kumiki_parasc_backend
#define parasc_call kumiki_parasc_call
#define parasc_collect kumiki_parasc_collect
#define parasc_completion_fd kumiki_parasc_completion_fd
#define parasc_config kumiki_parasc_config
#define parasc_create kumiki_parasc_create
#define parasc_destroy kumiki_parasc_destroy
#define parasc_engine kumiki_parasc_engine
#define parasc_proc kumiki_parasc_proc
#define parasc_refusal kumiki_parasc_refusal
#define parasc_request kumiki_parasc_request
#define parasc_requester kumiki_parasc_requester
#define parasc_requester_create kumiki_parasc_requester_create
#define parasc_requester_destroy kumiki_parasc_requester_destroy
#define parasc_run kumiki_parasc_run
#define parasc_terminate kumiki_parasc_terminate
#define parasc_try kumiki_parasc_try
#define parasc_wait kumiki_parasc_wait
#define parasc_wake_up kumiki_parasc_wake_up

#define SHADOW_ADAPTIVE KUMIKI_SHADOW_ADAPTIVE
#define SHADOW_BIND_MAIN KUMIKI_SHADOW_BIND_MAIN
#define SHADOW_CACHE KUMIKI_SHADOW_CACHE
#define SHADOW_COPY_AUTO KUMIKI_SHADOW_COPY_AUTO
#define SHADOW_COPY_BLOCK_1024 KUMIKI_SHADOW_COPY_BLOCK_1024
#define SHADOW_COPY_BLOCK_256 KUMIKI_SHADOW_COPY_BLOCK_256
#define SHADOW_COPY_BLOCK_4096 KUMIKI_SHADOW_COPY_BLOCK_4096
#define SHADOW_COPY_COLD KUMIKI_SHADOW_COPY_COLD
#define SHADOW_COPY_PREFETCH KUMIKI_SHADOW_COPY_PREFETCH
#define SHADOW_COPY_SPLIT KUMIKI_SHADOW_COPY_SPLIT
#define SHADOW_INFINITE KUMIKI_SHADOW_INFINITE
#define SHADOW_INLINE KUMIKI_SHADOW_INLINE
#define SHADOW_NODE KUMIKI_SHADOW_NODE
#define SHADOW_OPTIONS_INIT KUMIKI_SHADOW_OPTIONS_INIT
#define SHADOW_PACKAGE KUMIKI_SHADOW_PACKAGE
#define SHADOW_REMOTE KUMIKI_SHADOW_REMOTE
#define SHADOW_SAME KUMIKI_SHADOW_SAME
#define SHADOW_SHARE KUMIKI_SHADOW_SHARE
#define SHADOW_SIBLING KUMIKI_SHADOW_SIBLING
#define SHADOW_SLEEP_AUTO KUMIKI_SHADOW_SLEEP_AUTO
#define SHADOW_SLEEP_FUTEX KUMIKI_SHADOW_SLEEP_FUTEX
#define SHADOW_SLEEP_MWAIT KUMIKI_SHADOW_SLEEP_MWAIT
#define SHADOW_SLEEP_MWAITX KUMIKI_SHADOW_SLEEP_MWAITX
#define SHADOW_SLEEP_UMWAIT KUMIKI_SHADOW_SLEEP_UMWAIT

#define PARASC_BACKEND_AUTO KUMIKI_PARASC_BACKEND_AUTO
#define PARASC_BACKEND_KERNEL KUMIKI_PARASC_BACKEND_KERNEL
#define PARASC_BACKEND_USER KUMIKI_PARASC_BACKEND_USER
#define PARASC_CONFIG_INIT KUMIKI_PARASC_CONFIG_INIT
#define PARASC_FOREVER KUMIKI_PARASC_FOREVER
#define PARASC_NO_HELP KUMIKI_PARASC_NO_HELP
#define PARASC_NO_THREADS KUMIKI_PARASC_NO_THREADS
#define PARASC_WRONG_THREAD_ANSWERS KUMIKI_PARASC_WRONG_THREAD_ANSWERS

#define kumiki_resource_delete kumiki_resource_destroy

#endif /* KUMIKI_OLD_NAMES_H */
