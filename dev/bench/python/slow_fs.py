"""`slow_fs.py FOLDER MILLISECONDS FILES BYTES`: a file system whose every answer takes so long, as a server's far away
would, and which answers many questions at the same time. Its files are named 0, 1 and so on, and hold so many bytes;
names are asked for each time, contents are kept by the kernel. Needs root and /dev/fuse; prints a line when it is
there, and ends with its standard input."""

import collections
import ctypes
import errno
import os
import select
import struct
import sys
import time

# include/uapi/linux/fuse.h
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT = 1, 2, 3, 14, 15, 17, 18, 26
OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, BATCH_FORGET = 27, 28, 29, 34, 36, 42
ASYNC_READ, PARALLEL_DIROPS = 1 << 0, 1 << 18
IN, OUT, ATTR = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ"), struct.Struct("<6Q10I")
ROOT = 1
LONG = 1 << 20
BACKGROUND = 4096


class Tree:
    def __init__(self, files, size):
        self.files, self.size = files, size

    def attributes(self, node):
        mode, size = (0o40755, 4096) if node == ROOT else (0o100644, self.size)
        return ATTR.pack(node, size, 8, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, opcode, node, body):
        """Bytes, or an errno value."""
        if opcode == INIT:
            flags = struct.unpack_from("<4I", body)[3] & (ASYNC_READ | PARALLEL_DIROPS)
            return struct.pack("<4I2H2I2H8I", 7, 31, LONG, flags, BACKGROUND, BACKGROUND, LONG, 1, 256, 0, *[0] * 8)
        if opcode == LOOKUP:
            name = body[:-1]
            if not name.isdigit() or int(name) >= self.files or b"%d" % int(name) != name:
                return errno.ENOENT
            node = int(name) + 2
            return struct.pack("<4Q2I", node, 0, 0, LONG, 0, 0) + self.attributes(node)
        if opcode == GETATTR:
            return struct.pack("<QII", LONG, 0, 0) + self.attributes(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return (b"%d\n" % node * self.size)[: self.size][offset : offset + size]
        if opcode == READDIR:
            return self.entries(*struct.unpack_from("<QQI", body)[1:])
        if opcode == STATFS:
            return struct.pack("<5Q4I24x", 0, 0, 0, self.files, 0, 4096, 255, 4096, 0)
        if opcode in (RELEASE, RELEASEDIR, ACCESS):
            return b""
        return errno.ENOSYS

    def entries(self, offset, size):
        found = b""
        for number in range(offset, self.files):
            name = b"%d" % number
            entry = struct.pack("<QQII", number + 2, number + 1, len(name), 8) + name
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found


def mount(folder, fd):
    said = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"slow", os.fsencode(folder), b"fuse", 0, said) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)
    return libc


def serve(fd, tree, seconds):
    due = collections.deque()
    while True:
        wait = None if not due else max(0, due[0][0] - time.monotonic())
        ready, _, _ = select.select([fd, 0], [], [], wait)
        if 0 in ready and not os.read(0, 1):
            return
        if fd in ready:
            try:
                asked = os.read(fd, LONG + 4096)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                continue
            _, opcode, unique, node, *_ = IN.unpack_from(asked)
            if opcode not in (FORGET, BATCH_FORGET, INTERRUPT):
                given = tree.answer(opcode, node, asked[IN.size :])
                number, given = (given, b"") if isinstance(given, int) else (0, given)
                answer = OUT.pack(OUT.size + len(given), -number, unique) + given
                due.append((time.monotonic() + (0 if opcode == INIT else seconds), answer))
        now = time.monotonic()
        while due and due[0][0] <= now:
            try:
                os.write(fd, due.popleft()[1])
            except OSError as error:
                # Who asked was interrupted.
                if error.errno != errno.ENOENT:
                    raise


def main(folder, milliseconds, files, size):
    fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    libc = mount(folder, fd)
    try:
        print("there", flush=True)
        serve(fd, Tree(int(files), int(size)), float(milliseconds) / 1000)
    finally:
        # What it holds is let go at once; nobody is to wait for a server that is gone.
        libc.umount2(os.fsencode(folder), 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
