/*
 * Resources owned per core: names, ids, one interface, calls between cores, memory
 * that never contends.
 *
 * Each core has tables of its own. Whatever is made at a place belongs to it, and its
 * manager's thread alone touches it: no lock is taken. Another core asks the owner, by
 * a call in one cache line.
 *
 *     struct kumiki_resource_interface *interface;
 *     struct kumiki_resource *hits;
 *     uint16_t place;
 *     if (kumiki_resource_interface_create(&interface, NULL, 0, 0) < 0 ||
 *         kumiki_resource_places(interface, &place, 1) < 1 ||
 *         kumiki_resource_object_create(interface, place, "hits", &counter, NULL, &hits) < 0 ||
 *         kumiki_resource_call(interface, hits, count, &how_many) < 0)
 *         fprintf(stderr, "%s\n", kumiki_last_error());
 *
 * Memory of 4 KiB, for any thread, without an interface:
 *
 *     void *page = kumiki_resource_page_allocate();
 *     kumiki_resource_page_free(page);
 *
 * Source of the names: Horii, Yamauchi, Taniguchi, "Evaluation of Tender, which manages
 * OS resources on each core".
 *
 * NAMES AND IDS. A resource is called place/kind/unique, as "core2/memory/buffer-7". The
 * unique part is the program's choice: 1 to 200 bytes of UTF-8 without / and control
 * characters; a null pointer for a resource without a name. An id is 64 bits, of place
 * (16), kind (8) and serial (40), and never used again. Kinds are memory (frames of
 * 4096 bytes), memory-2m (frames of 2 MiB), region, space, user-space, thread, program,
 * process, and object, which is whatever the program wants one core to own.
 *
 * HANDLES. A struct kumiki_resource is a handle: it names a resource and carries rights.
 * kumiki_resource_close() gives up the handle, kumiki_resource_destroy() the resource. A resource
 * stays until it is destroyed, or its interface is destroyed, with or without handles. What is
 * checked, in this order: that the handle is of the kind (-EPROTOTYPE), that it is of the
 * interface (-EXDEV), that it has the right (-EACCES), that the resource is still there
 * (-ESTALE).
 *
 * RETURN VALUES. Functions that return int return 0 or a negative errno value, unless it
 * is said otherwise; kumiki_last_error() has the sentence to it. Nothing has happened
 * then, and what was to be stored is not, unless said otherwise. Every function may
 * return
 *
 *     -EINVAL     a null pointer, a malformed name, an unknown flag, or a value that
 *                 is out of range
 *     -EIO        a defect of the library, caught, or a function of the program that
 *                 has panicked (one in Rust)
 *     -ENOMEM     there is no memory left
 *     other       what the kernel has answered to a call that kumiki_last_error()
 *                 names, -EMFILE among them
 *
 * and every function that is given an interface and a place or resource
 *
 *     -ENXIO      the interface has no such place
 *     -ESHUTDOWN  the place's manager has ended, and has not begun this
 *     -EOWNERDEAD the place's manager died during this, which may or may not have
 *                 had its effect; it is not executed again
 *     -EDEADLK    it was called by a function that runs at a place, for another place
 *                 or for the same kind: it would wait for itself
 *
 * THREADS AND ORDER. Any threads may use an interface at the same time, and a handle, as
 * long as nobody closes it. Operations at one place run one at a time. What a thread has
 * written before an operation, the function that runs at the place finds, and what that
 * has written, the thread finds when the operation returns. Operations of one thread take
 * effect in the order in which it makes them; those of several in no order but that.
 * A place's manager waits by spinning first, then sleeps.
 *
 * WHERE CALLERS SHOULD RUN. A call to another core takes about 0.2 microseconds while both
 * threads run. Beside other work on their cpus the scheduler decides: one busy process on two
 * cpus makes 10 microseconds of it, a load of three 100 to 200, where a mutex that the caller
 * takes itself stays below one. Leave a place's cpu to its manager; what is small, hot and used
 * by all on shared cpus belongs under a mutex.
 *
 * SIGNALS AND FORK. No function may be called by a
 * signal handler. In a child of fork(2) an interface that was made before is not to be
 * used, and not to be destroyed; kumiki_resource_page_allocate() and _free() work there.
 *
 * UNITS. Bytes, frames, and nanoseconds where a name ends in _ns.
 */
#ifndef KUMIKI_RESOURCE_H
#define KUMIKI_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <kumiki/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Some places and their managers. */
struct kumiki_resource_interface;
/* A handle of a resource. */
struct kumiki_resource;
/* The calling thread as the manager of a place. */
struct kumiki_resource_manager;
/* What others can list. */
struct kumiki_resource_published;
/* Tells a thread that it is to stop. */
struct kumiki_resource_stop;
/* The answer of a call that was started. */
struct kumiki_resource_answer;
/* Names that come and go. */
struct kumiki_resource_watch;
/* Of <kumiki/spawn.h>. */
struct kumiki_spawnattr;
struct kumiki_spawn_file_actions;

/* Rights of a handle: to run operations, to make further handles, to delete. */
#define KUMIKI_RESOURCE_USE UINT32_C(1)
#define KUMIKI_RESOURCE_SHARE UINT32_C(2)
#define KUMIKI_RESOURCE_DESTROY UINT32_C(4)

/* Threads of the program are the managers: see kumiki_resource_manager_create(). */
#define KUMIKI_RESOURCE_ADOPTED UINT32_C(1)

/* Attached so, a region cannot be written. */
#define KUMIKI_RESOURCE_READ_ONLY UINT32_C(1)
/* An offset of kumiki_resource_attach(): wherever there is room. */
#define KUMIKI_RESOURCE_ANYWHERE UINT64_MAX
/* A timeout_ns without end. */
#define KUMIKI_RESOURCE_FOREVER UINT64_MAX

/*
 * ---- interfaces ----
 */

/*
 * Makes an interface with a place on each of these cpus, numbered as the cpu and called
 * core0, core1, ...; NULL and 0 are all that the calling thread may use. Each place has
 * a thread of the library as its manager, unless KUMIKI_RESOURCE_ADOPTED.
 *
 *     -ENXIO    a cpu is offline or not allowed
 *     -EAGAIN   the kernel gives no thread
 */
int kumiki_resource_interface_create(struct kumiki_resource_interface **interface,
                                     const int *cpus, size_t cpus_num, uint32_t flags);

/*
 * Has the managers serve what has come and end, and deletes all resources. Nobody may use
 * the interface any more, and handles are good for kumiki_resource_close() only. A null pointer
 * is fine.
 */
int kumiki_resource_interface_destroy(struct kumiki_resource_interface *interface);

/*
 * Stores the numbers of the first places_num places in places, which may be a null pointer
 * for 0. Returns how many places there are.
 */
int kumiki_resource_places(const struct kumiki_resource_interface *interface, uint16_t *places,
                           size_t places_num);

/*
 * Makes the calling thread the manager of a place of an interface with KUMIKI_RESOURCE_ADOPTED.
 * Until then callers of that place wait. It serves in kumiki_resource_manager_serve() and
 * _wait(), and whenever it waits for another place. It should run on that cpu; that is
 * its own affair. A manager belongs to its thread: others get -EPERM.
 *
 *     -ENXIO    nobody is wanted there (any more)
 *     -EDEADLK  the thread is a manager already
 */
int kumiki_resource_manager_create(const struct kumiki_resource_interface *interface,
                                   uint16_t place, struct kumiki_resource_manager **manager);

/* Serves what has come. Returns 1 if there was anything, else 0. */
int kumiki_resource_manager_serve(struct kumiki_resource_manager *manager);

/* Waits until something has come, for timeout_ns at most, and serves it. */
int kumiki_resource_manager_wait(struct kumiki_resource_manager *manager, uint64_t timeout_ns);

/*
 * Serves what has come, deletes the place's resources, and is no manager any more; whoever
 * calls the place from then on gets -ESHUTDOWN. To be called before the thread ends, and
 * before kumiki_resource_interface_destroy(). A null pointer is fine.
 */
int kumiki_resource_manager_destroy(struct kumiki_resource_manager *manager);

/*
 * ---- handles and names ----
 */

/*
 * A handle of the resource called place/kind/unique, to use and to share.
 *
 *     -ENOENT   there is none of that name
 *     -ENODEV   there is no such kind
 */
int kumiki_resource_open(const struct kumiki_resource_interface *interface, const char *name,
                         struct kumiki_resource **resource);

/*
 * The same by the resource's id. Whether there is one of that id, its use tells: -ESTALE if
 * it was deleted, -ENOENT if there never was one.
 */
int kumiki_resource_open_id(const struct kumiki_resource_interface *interface, uint64_t id,
                            struct kumiki_resource **resource);

/* The resource's id; 0 for a null pointer. */
uint64_t kumiki_resource_id(const struct kumiki_resource *resource);

/*
 * A further handle with these rights, which must be among the handle's own,
 * KUMIKI_RESOURCE_SHARE one of those: else -EACCES.
 */
int kumiki_resource_share(const struct kumiki_resource *resource, uint32_t rights,
                          struct kumiki_resource **shared);

/* Gives up a handle, and leaves the resource. A null pointer is fine. */
void kumiki_resource_close(struct kumiki_resource *resource);

/* Destroys the resource, and closes the handle if it returns 0. */
int kumiki_resource_destroy(const struct kumiki_resource_interface *interface,
                           struct kumiki_resource *resource);

/* What kumiki_resource_ls() finds. The texts are there until the function returns. */
struct kumiki_resource_listed {
	/* place/kind/unique; of one without a name with its id in that place */
	const char *name;
	/* Its core, or the thread that made it. */
	const char *owner;
	/* In a word or two; may be empty. */
	const char *state;
	uint64_t id;
	/* Memory that it holds. */
	uint64_t bytes;
	/* How often it was used. */
	uint64_t calls;
};

/*
 * Calls each(listed, argument), here, for every resource whose name matches the pattern,
 * as of a shell: *, ? and [a-c] within a part, ** across parts; a null pointer is all.
 * Beside resources, what else of this process serves is listed: shadow threads, teams,
 * engines, managers. each may be a null pointer, and may not call this interface.
 * Returns how many there were.
 */
int kumiki_resource_ls(
        const struct kumiki_resource_interface *interface, const char *pattern,
        void (*each)(const struct kumiki_resource_listed *listed, void *argument),
        void *argument);

/* What kumiki_resource_watch_next() tells. */
struct kumiki_resource_change {
	/* place/kind/unique. It is there until the next call for this watch. */
	const char *name;
	uint64_t id;
	/* 1: it has come. 0: it has gone. */
	uint32_t created;
	uint32_t reserved;
};

/*
 * Watches names that match the pattern, from now on; a null pointer is all. A watch is for
 * one thread at a time. One that nobody asks for its changes keeps all of them.
 */
int kumiki_resource_watch(const struct kumiki_resource_interface *interface, const char *pattern,
                          struct kumiki_resource_watch **watch);

/*
 * Waits for the next name that comes or goes, and stores it. Those of one place come in
 * their order.
 *
 *     -ETIMEDOUT  there is none within timeout_ns
 *     -ESHUTDOWN  the interface was destroyed
 */
int kumiki_resource_watch_next(struct kumiki_resource_watch *watch, uint64_t timeout_ns,
                               struct kumiki_resource_change *change);

/* Ends it. A null pointer is fine. */
void kumiki_resource_watch_end(struct kumiki_resource_watch *watch);

/*
 * Lets other processes of the same user list the interface: `kumiki resource ls`. One at
 * a time of a process: else -EADDRINUSE. To be withdrawn before the interface is
 * destroyed.
 */
int kumiki_resource_publish(const struct kumiki_resource_interface *interface,
                            struct kumiki_resource_published **published);

/* Ends that. A null pointer is fine. */
void kumiki_resource_withdraw(struct kumiki_resource_published *published);

/*
 * ---- objects, and calls to their cores ----
 */

/*
 * Gives a pointer to a place, as a resource of kind object. From then on only functions of
 * kumiki_resource_call() use what it points to. destroy(object), which may be a null pointer,
 * is
 * called by the owner when the resource is deleted; if this fails, it never is.
 *
 *     -EEXIST   the place has an object of that name
 *     -ENOSPC   it has 2^20 of them
 */
int kumiki_resource_object_create(const struct kumiki_resource_interface *interface,
                                  uint16_t place, const char *name, void *object,
                                  void (*destroy)(void *object),
                                  struct kumiki_resource **resource);

/*
 * Calls function(object, argument) once, by the object's owner, and returns when it has
 * returned: a call of a function if the caller is the owner, else a cache line's way to
 * the other core and back. The function should be short, since the place does nothing else
 * meanwhile; it must return, and not by longjmp(3) or pthread_exit(3).
 */
int kumiki_resource_call(const struct kumiki_resource_interface *interface,
                         const struct kumiki_resource *resource,
                         void (*function)(void *object, void *argument), void *argument);

/*
 * The same, and waits for timeout_ns at most, unless the caller is the owner.
 *
 *     -ETIMEDOUT    function was not called, and never will be
 *     -EINPROGRESS  it was, or may be: it goes on, with its effect, and uses object and
 *                   argument until it has returned
 */
int kumiki_resource_call_timed(const struct kumiki_resource_interface *interface,
                               const struct kumiki_resource *resource,
                               void (*function)(void *object, void *argument), void *argument,
                               uint64_t timeout_ns);

/*
 * Starts such a call and does not wait. Up to 32 of a thread may be under way at one
 * place, those included whose answers nobody has taken: else -EAGAIN. They run in their
 * order. Any thread may take the answer, one of them, by _wait, _cancel or _detach.
 */
int kumiki_resource_start(const struct kumiki_resource_interface *interface,
                          const struct kumiki_resource *resource,
                          void (*function)(void *object, void *argument), void *argument,
                          struct kumiki_resource_answer **answer);

/* Whether it has ended, 1 or 0. */
int kumiki_resource_answer_is_done(const struct kumiki_resource_answer *answer);

/* Waits for its end, and frees the answer. What it returns is what kumiki_resource_call() would. */
int kumiki_resource_answer_wait(struct kumiki_resource_answer *answer);

/*
 * Takes the call back, and frees the answer. 1: function was not called, and never will
 * be. 0: it was, or will be.
 */
int kumiki_resource_answer_cancel(struct kumiki_resource_answer *answer);

/* Leaves the call to run, and frees the answer. */
int kumiki_resource_answer_detach(struct kumiki_resource_answer *answer);

/*
 * ---- memory ----
 */

/*
 * A page of 4096 bytes, aligned to its size, of any content; a null pointer if there is no
 * memory left. Two loads and a store, as a rule: each thread has pages of its own.
 */
void *kumiki_resource_page_allocate(void);

/*
 * Gives a page back, by any thread. One of another thread goes home with 62 others. A null
 * pointer is fine.
 */
void kumiki_resource_page_free(void *page);

/* Sends home what this thread has freed of others' pages and not sent yet. */
void kumiki_resource_page_flush(void);

/* So many frames of 4096 bytes, 1 to 2^20, of the place's own memory. */
int kumiki_resource_memory_create(const struct kumiki_resource_interface *interface,
                                  uint16_t place, const char *name, size_t frames,
                                  struct kumiki_resource **resource);

/* So many frames of 2 MiB, 1 to 2^19, in huge pages if the system has them. */
int kumiki_resource_memory_2m_create(const struct kumiki_resource_interface *interface,
                                     uint16_t place, const char *name, size_t frames,
                                     struct kumiki_resource **resource);

/*
 * Stores the address of a frame of either kind, of any content at first. It is there until
 * the resource is deleted.
 */
int kumiki_resource_memory_frame(const struct kumiki_resource_interface *interface,
                                 const struct kumiki_resource *resource, size_t index,
                                 void **frame);

/*
 * A region of so many bytes of zeros, rounded up to whole pages; not more than the machine
 * has memory and swap. A region is memory as one object. It can be used where it is
 * attached.
 */
int kumiki_resource_region_create(const struct kumiki_resource_interface *interface,
                                  uint16_t place, const char *name, size_t bytes,
                                  struct kumiki_resource **resource);

/* A region of frames of 4096 bytes of the place's own pool, of any content. */
int kumiki_resource_region_of_frames(const struct kumiki_resource_interface *interface,
                                     uint16_t place, const char *name, size_t frames,
                                     struct kumiki_resource **resource);

/*
 * A region of a range of a file, whose descriptor is duplicated: from a multiple of 4096
 * on, and within the file. It must be open for reading, and for writing, too, if it is to
 * be attached without KUMIKI_RESOURCE_READ_ONLY.
 */
int kumiki_resource_region_of_file(const struct kumiki_resource_interface *interface,
                                   uint16_t place, const char *name, int fd, uint64_t offset,
                                   size_t bytes, struct kumiki_resource **resource);

/*
 * The region behind a descriptor that another process got from
 * kumiki_resource_region_descriptor() and has passed; duplicated.
 */
int kumiki_resource_region_of_passed(const struct kumiki_resource_interface *interface,
                                     uint16_t place, const char *name, int fd,
                                     struct kumiki_resource **resource);

/*
 * Returns a new descriptor of a region of kumiki_resource_region_create(), closed at exec, to
 * send
 * to another process over a UNIX socket (SCM_RIGHTS). The caller closes it.
 */
int kumiki_resource_region_descriptor(const struct kumiki_resource_interface *interface,
                                      const struct kumiki_resource *resource);

/* A space: so many bytes of addresses, rounded up to whole pages, kept for regions. */
int kumiki_resource_space_create(const struct kumiki_resource_interface *interface,
                                 uint16_t place, const char *name, size_t bytes,
                                 struct kumiki_resource **resource);

/*
 * A user space: so many bytes of memory to use at once, of any content, rounded up to
 * whole pages. To make one of up to 4096 bytes takes no system call, as a rule.
 */
int kumiki_resource_user_space_create(const struct kumiki_resource_interface *interface,
                                      uint16_t place, const char *name, size_t bytes,
                                      struct kumiki_resource **resource);

/*
 * A user space that is a region attached to a space, at an offset from the space's
 * beginning, a multiple of 4096, or KUMIKI_RESOURCE_ANYWHERE. It stays, and so do its bytes and
 * addresses, if region or space are deleted. What is stored with release order is seen by
 * who loads it with acquire order at any other attachment, in any process.
 */
int kumiki_resource_attach(const struct kumiki_resource_interface *interface, uint16_t place,
                           const char *name, const struct kumiki_resource *region,
                           const struct kumiki_resource *space, uint64_t offset, uint32_t flags,
                           struct kumiki_resource **resource);

/*
 * Stores the address of a user space's first byte, and in *bytes, unless that is a null
 * pointer, how many there are. They are there until it is deleted.
 */
int kumiki_resource_user_space_address(const struct kumiki_resource_interface *interface,
                                       const struct kumiki_resource *resource, void **address,
                                       size_t *bytes);

/*
 * ---- threads ----
 */

/*
 * Starts a thread on the place's cpu, which runs function(argument, stop) and ends. All
 * signals but those that a thread raises itself are blocked in it. Deleting the resource
 * asks it to stop; it goes on until it has returned.
 *
 *     -EAGAIN   the kernel gives no thread
 */
int kumiki_resource_thread_create(
        const struct kumiki_resource_interface *interface, uint16_t place, const char *name,
        void (*function)(void *argument, const struct kumiki_resource_stop *stop),
        void *argument, struct kumiki_resource **resource);

/* Whether the thread is to stop, 1 or 0; to be asked by its function. */
int kumiki_resource_stop_is_asked(const struct kumiki_resource_stop *stop);

/*
 * Waits until the thread has ended.
 *
 *     -ETIMEDOUT  it has not within timeout_ns
 */
int kumiki_resource_thread_wait(const struct kumiki_resource_interface *interface,
                                const struct kumiki_resource *resource, uint64_t timeout_ns);

/*
 * ---- programs and processes ----
 *
 *     char *argv[] = { "worker", NULL };
 *     struct kumiki_resource *worker;
 *     int status;
 *     if (kumiki_resource_process_create(interface, place, "worker-7", "worker", NULL, NULL, argv,
 *                                        environ, &worker) < 0 ||
 *         kumiki_resource_process_wait(interface, worker, KUMIKI_RESOURCE_FOREVER, &status) < 0)
 *             fprintf(stderr, "%s\n", kumiki_last_error());
 */

/*
 * A program: the image of an executable file, checked and kept in memory, where nobody
 * changes it. Processes of it are made without a look at the disk.
 */
int kumiki_resource_program_create(const struct kumiki_resource_interface *interface,
                                   uint16_t place, const char *name, const char *path,
                                   struct kumiki_resource **resource);

/*
 * Starts a process as kumiki_spawnp() does, whose errors these are, negative; actions and
 * attr may be null pointers. No signal is blocked in it, unless the attributes say so. It is
 * a child of the calling process, and nobody else is to wait for it. Deleting it ends it by
 * SIGKILL, if it has not ended, with all that has come of it if the attributes name a tree,
 * and waits for it.
 */
int kumiki_resource_process_create(const struct kumiki_resource_interface *interface,
                                   uint16_t place, const char *name, const char *file,
                                   const struct kumiki_spawn_file_actions *actions,
                                   const struct kumiki_spawnattr *attr, char *const argv[],
                                   char *const envp[], struct kumiki_resource **resource);

/* The same of a program. */
int kumiki_resource_process_of(const struct kumiki_resource_interface *interface,
                               uint16_t place, const char *name,
                               const struct kumiki_resource *program,
                               const struct kumiki_spawn_file_actions *actions,
                               const struct kumiki_spawnattr *attr, char *const argv[],
                               char *const envp[], struct kumiki_resource **resource);

/* Returns its process id. */
int kumiki_resource_process_id(const struct kumiki_resource_interface *interface,
                               const struct kumiki_resource *resource);

/* Sends it a signal; nothing if it was waited for. */
int kumiki_resource_process_signal(const struct kumiki_resource_interface *interface,
                                   const struct kumiki_resource *resource, int signal);

/*
 * Waits for its end, and stores its status, as waitpid(2) does, unless that is a null
 * pointer. The caller waits, not the place's manager. May be asked again.
 *
 *     -ETIMEDOUT  it has not ended within timeout_ns
 */
int kumiki_resource_process_wait(const struct kumiki_resource_interface *interface,
                                 const struct kumiki_resource *resource, uint64_t timeout_ns,
                                 int *status);

#ifdef __cplusplus
}
#endif

#endif
