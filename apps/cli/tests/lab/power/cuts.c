/* Power cuts: what the kernel's dm-log-writes knows to be flushed before a mark is written to another device, as a disk
 * has it whose cache is lost at that moment. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Layout of its log: drivers/md/dm-log-writes.c. */
#define MAGIC 0x6a736677736872ULL
#define DISCARD (1 << 2)
#define MARK (1 << 3)

struct super {
	uint64_t magic, version, nr_entries;
	uint32_t sectorsize;
};

struct entry {
	uint64_t sector, nr_sectors, flags, data_len;
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static int opened(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		fail(path);
	return fd;
}

/* A request of device mapper, with room for what follows it. */
union request {
	struct dm_ioctl head;
	char bytes[4096];
};

static void ask(union request *request, const char *name, unsigned long what)
{
	static int control = -1;
	struct dm_ioctl *head = &request->head;

	if (control < 0)
		control = opened("/dev/mapper/control", O_RDWR);
	head->version[0] = DM_VERSION_MAJOR;
	head->data_size = sizeof(*request);
	head->data_start = sizeof(*head);
	strncpy(head->name, name, sizeof(head->name) - 1);
	if (ioctl(control, what, request))
		fail(name);
}

static void make(const char *name, const char *data, const char *log)
{
	union request made = {}, loaded = {}, resumed = {};
	struct dm_target_spec *spec = (void *)(loaded.bytes + sizeof(struct dm_ioctl));
	char path[256];
	uint64_t bytes;
	int fd = opened(data, O_RDONLY);

	if (ioctl(fd, BLKGETSIZE64, &bytes))
		fail(data);
	close(fd);
	ask(&made, name, DM_DEV_CREATE);
	loaded.head.target_count = 1;
	spec->length = bytes / 512;
	strcpy(spec->target_type, "log-writes");
	snprintf((char *)(spec + 1), 512, "%s %s", data, log);
	ask(&loaded, name, DM_TABLE_LOAD);
	ask(&resumed, name, DM_DEV_SUSPEND);
	snprintf(path, sizeof(path), "/dev/mapper/%s", name);
	unlink(path);
	if (mknod(path, S_IFBLK | 0600, made.head.dev))
		fail(path);
}

static void mark(const char *name, const char *word)
{
	union request request = {};
	struct dm_target_msg *message = (void *)(request.bytes + sizeof(struct dm_ioctl));

	snprintf(message->message, 512, "mark %s", word);
	ask(&request, name, DM_TARGET_MSG);
}

static void all_of(ssize_t count, size_t bytes, const char *what)
{
	if (count != (ssize_t)bytes)
		fail(what);
}

/* Writes what is flushed before the mark, and says which marks there were, with this one. */
static void replay(const char *log, const char *word, const char *target)
{
	static char block[4096];
	int from = opened(log, O_RDONLY), to = opened(target, O_WRONLY);
	struct super super;
	uint64_t at, sector_bytes;

	all_of(pread(from, &super, sizeof(super), 0), sizeof(super), log);
	sector_bytes = le32toh(super.sectorsize);
	if (le64toh(super.magic) != MAGIC || sector_bytes > sizeof(block)) {
		fprintf(stderr, "%s is no log\n", log);
		exit(1);
	}
	at = sector_bytes;
	for (uint64_t number = 0; number < le64toh(super.nr_entries); number++) {
		struct entry entry;
		uint64_t sectors, flags;

		all_of(pread(from, block, sector_bytes, at), sector_bytes, log);
		memcpy(&entry, block, sizeof(entry));
		at += sector_bytes;
		sectors = le64toh(entry.nr_sectors);
		flags = le64toh(entry.flags);
		if (flags & MARK) {
			char *said = block + sizeof(entry);

			said[le64toh(entry.data_len)] = 0;
			puts(said);
			if (!strcmp(said, word))
				exit(fsync(to) || fflush(stdout));
		}
		if (flags & DISCARD)
			continue;
		for (uint64_t sector = 0; sector < sectors; sector++, at += sector_bytes) {
			uint64_t its = (le64toh(entry.sector) + sector) * sector_bytes;

			all_of(pread(from, block, sector_bytes, at), sector_bytes, log);
			all_of(pwrite(to, block, sector_bytes, its), sector_bytes, target);
		}
	}
	fprintf(stderr, "there is no mark %s\n", word);
	exit(1);
}

int main(int count, char **words)
{
	if (count == 5 && !strcmp(words[1], "make"))
		make(words[2], words[3], words[4]);
	else if (count == 4 && !strcmp(words[1], "mark"))
		mark(words[2], words[3]);
	else if (count == 5 && !strcmp(words[1], "replay"))
		replay(words[2], words[3], words[4]);
	else
		return 2;
	return 0;
}
