/*
 * Many files by one call: attributes, contents, directories, and what changes names.
 *
 * Each function takes n paths, and makes for each of them the calls that a loop would make: some on
 * the calling thread, others on other threads where that has proved faster (<kumiki/parasc.h>), in
 * no order. On a file system that answers after a while, as one of a server does, many are under
 * way at the same time.
 *
 *     static const char names[] = "/etc/passwd\0/etc/group\0/nowhere";
 *     struct kumiki_files_stat stats[3];
 *     int errors[3];
 *     int failed = kumiki_files_stat(AT_FDCWD, names, sizeof(names), 3, 0, stats, errors);
 *
 * PATHS. They stand one after the other, each with a zero at its end, size bytes in all. dir_fd is
 * a descriptor of the directory from which relative ones start, or AT_FDCWD.
 *
 * RETURN VALUES. How many of the paths have failed, or a negative errno value if the call could not
 * be made; kumiki_last_error() has the sentence to that, and of the paths nothing has happened. An
 * error that is a path's own is in errors[i]: 0, or a positive errno value. It may be
 * KUMIKI_FILES_ASK: the library has no answer, and a plain call of the program has; each function
 * says where. Calls that a signal's handler has interrupted are made again.
 *
 *     -EINVAL   a null pointer, fewer paths than n, or a value that is none of those named here
 *     -EBADF    dir_fd is negative and not AT_FDCWD; what is no open directory fails path by path
 *     -EIO      a defect of the library, caught
 *
 * THREADS. Any thread may call, also several at the same time. The first 1,024 calls of a process
 * are made by the calling thread, unless they take long; then threads are started as for an engine
 * of <kumiki/parasc.h>, with the same rules about credentials, filters and signals. A child of
 * fork(2) starts with none. No function may be called by a signal handler.
 */
#ifndef KUMIKI_FILES_H
#define KUMIKI_FILES_H

#include <stddef.h>
#include <stdint.h>

#include <kumiki/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An error of a path that a plain call of the program has to be made for. */
#define KUMIKI_FILES_ASK INT32_C(-1)

/* Attributes of a file: the fields of Python's os.stat_result, in its order, 8 bytes each. */
struct kumiki_files_stat {
	uint64_t mode;
	uint64_t ino;
	uint64_t dev;
	uint64_t nlink;
	/* -1 for the last id, which stands for none. */
	int64_t uid;
	int64_t gid;
	int64_t size;
	/* Times: whole seconds, then seconds with their fraction, then nanoseconds. */
	int64_t atime;
	int64_t mtime;
	int64_t ctime;
	double atime_float;
	double mtime_float;
	double ctime_float;
	int64_t atime_ns;
	int64_t mtime_ns;
	int64_t ctime_ns;
	int64_t blksize;
	int64_t blocks;
	uint64_t rdev;
};

/*
 * Asks for attributes by newfstatat(2). flags are AT_SYMLINK_NOFOLLOW and AT_NO_AUTOMOUNT. stats
 * may be a null pointer: then only errors tell something. KUMIKI_FILES_ASK stands for times that
 * have no nanoseconds in 64 bits, from the year 2262 on. stats[i] of a path that failed stays as
 * it was.
 */
int kumiki_files_stat(int dir_fd, const char *names, size_t size, size_t n, int flags, struct kumiki_files_stat *stats,
                      int *errors);

/* Removes names, of empty directories with AT_REMOVEDIR in flags. */
int kumiki_files_unlink(int dir_fd, const char *names, size_t size, size_t n, int flags, int *errors);

/* Renames: the i-th of the one list to the i-th of the other, as rename(2), in no order. */
int kumiki_files_rename(int from_fd, const char *from, size_t from_size, int to_fd, const char *to, size_t to_size, size_t n,
                        int *errors);

/* The contents of files, in memory of the library's. */
struct kumiki_files_contents;

/* One file's content. */
struct kumiki_files_content {
	const uint8_t *data;
	size_t size;
	/* 0, a positive errno value, KUMIKI_FILES_ASK, or KUMIKI_FILES_OPEN. */
	int64_t error;
};

/*
 * An error of what is neither a file nor a directory, as a FIFO: size is a descriptor of it, with
 * O_NONBLOCK, which is the program's to read and to close. (A FIFO's writer that waits for a reader
 * has it then.)
 */
#define KUMIKI_FILES_OPEN INT32_C(-2)

/*
 * Reads whole files, and stores in *contents what kumiki_files_contents_list() tells of. What is in
 * memory is read by the calling thread, what would sleep by others. KUMIKI_FILES_ASK stands for
 * a file with a lease, one without positions, and for want of descriptors.
 *
 *     other    what the kernel has answered to the making of an engine
 */
int kumiki_files_read(int dir_fd, const char *names, size_t size, size_t n, struct kumiki_files_contents **contents);

/* The n contents, in their order; they stay until kumiki_files_contents_destroy(). */
const struct kumiki_files_content *kumiki_files_contents_list(const struct kumiki_files_contents *contents);

/* Frees them; a null pointer is fine. */
void kumiki_files_contents_destroy(struct kumiki_files_contents *contents);

/* What a file is to hold. With size 0 bytes is not looked at. */
struct kumiki_files_data {
	const uint8_t *bytes;
	size_t size;
};

/* fsync(2) before the file is closed: all files of a part of the batch at the same time. */
#define KUMIKI_FILES_SYNC UINT32_C(1)
/* A file that exists is an error, EEXIST. */
#define KUMIKI_FILES_NEW UINT32_C(2)
/* What a file holds stays, and this comes behind it. */
#define KUMIKI_FILES_APPEND UINT32_C(4)

/*
 * Writes whole files: makes those that are not there, with the bits of mode that the umask leaves;
 * empties those that are. Each path's first error is told, of whichever call. A path that stands
 * in the list twice may hold a mixture of both.
 */
int kumiki_files_write(int dir_fd, const char *names, size_t size, size_t n, const struct kumiki_files_data *data, uint32_t mode,
                       uint32_t flags, int *errors);

/* The entries of directories, in memory of the library's. */
struct kumiki_files_listing;

/* One directory's entries, without "." and "..", in the order in which the kernel tells them. */
struct kumiki_files_listed {
	/* Each with a zero at its end. */
	const char *names;
	size_t names_size;
	/* DT_... of <dirent.h>, one for each entry; DT_UNKNOWN where the file system does not say. */
	const uint8_t *kinds;
	const uint64_t *inodes;
	size_t entries;
	/* 0, or a positive errno value; entries that were read before it are there. */
	int64_t error;
};

/* Reads directories, and stores in *listing what kumiki_files_listing_list() tells of. */
int kumiki_files_list(int dir_fd, const char *names, size_t size, size_t n, struct kumiki_files_listing **listing);

/* The n directories, in their order; they stay until kumiki_files_listing_destroy(). */
const struct kumiki_files_listed *kumiki_files_listing_list(const struct kumiki_files_listing *listing);

/* Frees them; a null pointer is fine. */
void kumiki_files_listing_destroy(struct kumiki_files_listing *listing);

#ifdef __cplusplus
}
#endif

#endif /* KUMIKI_FILES_H */
