/*
 * <kumiki/files.h>: many files by one call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include <kumiki/files.h>

#define N 2000
#define LENGTH 16

static char names[N * LENGTH];
static size_t size;
static int errors[N];
static struct kumiki_files_stat stats[N];

/* "f0000" and so on, one after the other. */
static void name_all(void)
{
	size = 0;
	for (int i = 0; i < N; i++)
		size += (size_t)snprintf(names + size, LENGTH, "f%04d", i) + 1;
}

static void write_all(int folder)
{
	static struct kumiki_files_data data[N];
	for (int i = 0; i < N; i++) {
		data[i].bytes = (const uint8_t *)names;
		data[i].size = (size_t)i;
	}
	CHECK(kumiki_files_write(folder, names, size, N, data, 0644, KUMIKI_FILES_NEW, errors) == 0);
	CHECK(kumiki_files_write(folder, names, size, N, data, 0644, KUMIKI_FILES_NEW, errors) == N);
	CHECK(errors[0] == EEXIST && errors[N - 1] == EEXIST);
	CHECK(kumiki_files_write(folder, names, size, 10, data, 0644, KUMIKI_FILES_APPEND | KUMIKI_FILES_SYNC, errors) == 0);
	CHECK(kumiki_files_write(folder, names, size, 10, data, 0644, 0, errors) == 0);
}

static void stat_all(int folder)
{
	struct stat plain;
	CHECK(kumiki_files_stat(folder, names, size, N, 0, stats, errors) == 0);
	for (int i = 0; i < N; i++) {
		char name[LENGTH];
		snprintf(name, LENGTH, "f%04d", i);
		CHECK(fstatat(folder, name, &plain, 0) == 0);
		CHECK(stats[i].ino == plain.st_ino && stats[i].size == plain.st_size && stats[i].size == i);
		CHECK(stats[i].mode == plain.st_mode && stats[i].mtime == plain.st_mtime);
	}
	CHECK(kumiki_files_stat(folder, "f0000\0none", 11, 2, AT_SYMLINK_NOFOLLOW, NULL, errors) == 1);
	CHECK(errors[0] == 0 && errors[1] == ENOENT);
}

static void read_all(int folder)
{
	struct kumiki_files_contents *contents;
	const struct kumiki_files_content *list;
	CHECK(kumiki_files_read(folder, names, size, N, &contents) == 0);
	list = kumiki_files_contents_list(contents);
	for (int i = 0; i < N; i++)
		CHECK(list[i].error == 0 && list[i].size == (size_t)i && memcmp(list[i].data, names, (size_t)i) == 0);
	kumiki_files_contents_destroy(contents);
	CHECK(kumiki_files_read(folder, "none\0.", 7, 2, &contents) == 2);
	list = kumiki_files_contents_list(contents);
	CHECK(list[0].error == ENOENT && list[1].error == EISDIR);
	kumiki_files_contents_destroy(contents);
	kumiki_files_contents_destroy(NULL);
}

static void list_it(int folder)
{
	struct kumiki_files_listing *listing;
	const struct kumiki_files_listed *list;
	CHECK(kumiki_files_list(folder, ".\0none", 7, 2, &listing) == 1);
	list = kumiki_files_listing_list(listing);
	CHECK(list[0].entries == N && list[0].names_size == size && list[0].error == 0);
	CHECK(list[0].kinds[0] == DT_REG || list[0].kinds[0] == DT_UNKNOWN);
	CHECK(list[1].entries == 0 && list[1].error == ENOENT);
	kumiki_files_listing_destroy(listing);
	kumiki_files_listing_destroy(NULL);
}

static void change_all(int folder)
{
	static char new_names[N * LENGTH];
	memcpy(new_names, names, size);
	for (size_t at = 0; at < size; at += strlen(new_names + at) + 1)
		new_names[at] = 'g';
	CHECK(kumiki_files_rename(folder, names, size, folder, new_names, size, N, errors) == 0);
	CHECK(kumiki_files_unlink(folder, names, size, N, 0, errors) == N && errors[7] == ENOENT);
	CHECK(kumiki_files_unlink(folder, new_names, size, N, 0, errors) == 0);
}

static void refuse(int folder)
{
	struct kumiki_files_contents *contents;
	REFUSED(kumiki_files_stat(folder, "a\0b", 4, 3, 0, stats, errors), EINVAL);
	CHECK(strstr(kumiki_last_error(), "hold 2, not 3") != NULL);
	REFUSED(kumiki_files_stat(folder, "a", 1, 1, 0, stats, errors), EINVAL);
	REFUSED(kumiki_files_stat(folder, NULL, 0, 1, 0, stats, errors), EINVAL);
	REFUSED(kumiki_files_stat(folder, "a", 2, 1, AT_EMPTY_PATH, stats, errors), EINVAL);
	REFUSED(kumiki_files_stat(folder, "a", 2, 1, 0, stats, NULL), EINVAL);
	REFUSED(kumiki_files_stat(-7, "a", 2, 1, 0, stats, errors), EBADF);
	REFUSED(kumiki_files_unlink(folder, "a", 2, 1, 1, errors), EINVAL);
	REFUSED(kumiki_files_write(folder, "a", 2, 1, NULL, 0644, 0, errors), EINVAL);
	REFUSED(kumiki_files_write(folder, "a", 2, 1, NULL, 0644, 8, errors), EINVAL);
	REFUSED(kumiki_files_read(folder, "a", 2, 1, NULL), EINVAL);
	REFUSED(kumiki_files_list(folder, "a", 2, 1, NULL), EINVAL);
	CHECK(kumiki_files_stat(folder, NULL, 0, 0, 0, NULL, NULL) == 0);
	CHECK(kumiki_files_read(folder, NULL, 0, 0, &contents) == 0);
	kumiki_files_contents_destroy(contents);
}

int main(void)
{
	char path[] = "/tmp/kumiki-files-XXXXXX";
	int folder;
	CHECK(mkdtemp(path) != NULL);
	folder = open(path, O_RDONLY | O_DIRECTORY);
	CHECK(folder >= 0);
	name_all();
	write_all(folder);
	stat_all(folder);
	read_all(folder);
	list_it(folder);
	change_all(folder);
	refuse(folder);
	CHECK(rmdir(path) == 0);
	return failures != 0;
}
