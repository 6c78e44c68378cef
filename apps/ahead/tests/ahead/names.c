/* Opens files by names that it knows, without reading a folder: names [DEED] ROOT FOLDERS FILES.
 * in-handler: in a handler of a signal. after-looking: looks for a few names that are not there, and reads the folder.
 * two-passes: lists folders and looks at their files, and opens them when it is ten folders further, as rsync does. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *root;
static int folders, files;
static long bytes, failed;

static void open_one(int folder, int file)
{
	char path[512], room[4096];
	snprintf(path, sizeof path, "%s/folder%d/file%d", root, folder, file);
	int open_file = open(path, O_RDONLY | O_CLOEXEC);
	if (open_file < 0) {
		failed++;
		return;
	}
	for (ssize_t got; (got = read(open_file, room, sizeof room)) > 0;)
		bytes += got;
	close(open_file);
}

static void read_all(int signal)
{
	(void)signal;
	/* Not in the order in which a folder has them. */
	for (int at = 0; at < folders * files; at++)
		open_one(at / files, (at % files) * 7 % files);
}

static void look_and_list(void)
{
	char path[512];
	struct stat found;
	/* In memory: the first call says nothing. */
	if (stat("/", &found) != 0)
		failed++;
	for (int at = 0; at < 5; at++) {
		snprintf(path, sizeof path, "%s/folder0/none%d", root, at);
		if (stat(path, &found) == 0)
			failed++;
	}
	snprintf(path, sizeof path, "%s/folder0", root);
	DIR *folder = opendir(path);
	for (struct dirent *name; folder && (name = readdir(folder));)
		if (name->d_name[0] != '.' && fstatat(dirfd(folder), name->d_name, &found, 0) == 0)
			bytes += found.st_size;
	if (folder)
		closedir(folder);
}

static void look_at(int number)
{
	char path[512];
	struct stat found;
	snprintf(path, sizeof path, "%s/folder%d", root, number);
	DIR *folder = opendir(path);
	for (struct dirent *name; folder && (name = readdir(folder));)
		if (name->d_name[0] != '.' && fstatat(dirfd(folder), name->d_name, &found, 0) != 0)
			failed++;
	if (folder)
		closedir(folder);
}

static void two_passes(void)
{
	for (int at = 0; at < folders + 10; at++) {
		if (at < folders)
			look_at(at);
		for (int file = 0; at >= 10 && file < files; file++)
			open_one(at - 10, file);
	}
}

int main(int count, char **words)
{
	int in_handler = count > 1 && strcmp(words[1], "in-handler") == 0;
	int after_looking = count > 1 && strcmp(words[1], "after-looking") == 0;
	int in_two = count > 1 && strcmp(words[1], "two-passes") == 0;
	int first = 1 + in_handler + after_looking + in_two;
	if (count != first + 3)
		return 2;
	root = words[first];
	folders = atoi(words[first + 1]);
	files = atoi(words[first + 2]);
	if (in_handler) {
		struct sigaction action = { .sa_handler = read_all };
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
	} else if (after_looking) {
		look_and_list();
	} else if (in_two) {
		two_passes();
	} else {
		read_all(0);
	}
	printf("%ld bytes, %ld failed\n", bytes, failed);
	return 0;
}
