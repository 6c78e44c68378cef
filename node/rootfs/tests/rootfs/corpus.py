"""Makes a folder of odd files and an archive of it in every form that tar programs have.

    python3 corpus.py FOLDER

Prints a line an archive: its name, and after a tab what a reader is to say of it that refuses it.
Needs root, as owners and attributes of the system are among the oddities, and GNU tar; of bsdtar, zstd
and xz it says on standard error that they are missing.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile

PART = 65536


def files(root):
    """Files of every kind, with names, owners, times and attributes at their edges."""
    os.makedirs(root)
    put = lambda name, data: write(os.path.join(root, name), data)
    at = lambda name: os.path.join(root, name)
    put("plain", b"a text\n" * 1000)
    put("empty", b"")
    put("block", b"b" * 512)
    put("long/" + "n" * 100, b"1")
    put("long/" + "m" * 155 + "/" + "n" * 101, b"2")
    put("long/" + "/".join(["d" * 90] * 6) + "/" + "f" * 250, b"3")
    put(os.fsencode("odd \n\t\\ \N{SNOWMAN} ").decode() + "=%3 name", b"4")
    put(b"not-utf-8-\xff\xfe".decode("utf-8", "surrogateescape"), b"5")
    put("-dash", b"6")
    os.symlink("plain", at("link"))
    os.symlink("/nowhere/" + "t" * 120, at("far"))
    os.symlink("../" + "up/" * 200, at("farther"))
    os.link(at("plain"), at("long/other"))
    os.link(at("link"), at("second-link"))
    os.mkfifo(at("pipe"), 0o620)
    put("tool", b"#!/bin/sh\n")
    put("owned", b"7")
    put("owned-far", b"8")
    os.chown(at("owned"), 1000, 2000)
    os.chown(at("owned-far"), 3000000, 4294967294)
    os.chmod(at("tool"), 0o6755)
    os.makedirs(at("folder/empty"))
    os.chmod(at("folder"), 0o1777)
    os.makedirs(at("closed"))
    os.chmod(at("closed"), 0o2700)
    holes(at("holes-amid"), 5 * PART, [1, 3])
    holes(at("holes-begin-end"), 4 * PART + 77, [2])
    holes(at("all-hole"), 3 * PART, [])
    holes(at("many-holes"), 90 * PART, range(0, 90, 2))
    holes(at("long/" + "h" * 180), 3 * PART + 1, [0, 3])
    attributes(at("attributes"))
    for name, time in [
        ("plain", 1_000_000_000_000_000_000), ("empty", 0), ("block", -1_500_000_000),
        ("owned", 1_234_567_890_123_456_789), ("tool", 2**33 * 1_000_000_000), ("link", 7_000_000_000),
        ("pipe", -86_400_000_000_000), ("folder", 86_400_500_000_000),
    ]:
        os.utime(at(name), ns=(time, time), follow_symlinks=False)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def holes(path, size, parts):
    with open(path, "wb") as file:
        for part in parts:
            file.seek(part * PART)
            file.write(bytes([65 + part % 26]) * min(PART, size - part * PART))
        file.truncate(size)


def attributes(path):
    write(path, b"9")
    os.setxattr(path, "user.text", b"a=b\nc")
    os.setxattr(path, "user.bytes", bytes(range(256)))
    os.setxattr(path, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    # Access control list: user 7 may read; in the form of the kernel (version 2).
    entry = lambda tag, perm, who: tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + who.to_bytes(4, "little")
    nobody = 0xFFFFFFFF
    acl = [entry(1, 6, nobody), entry(2, 4, 7), entry(4, 4, nobody), entry(16, 4, nobody), entry(32, 4, nobody)]
    os.setxattr(path, "system.posix_acl_access", b"\2\0\0\0" + b"".join(acl))


class Corpus:
    def __init__(self, folder):
        self.folder, self.source = folder, os.path.join(folder, "source")
        files(self.source)

    def at(self, name):
        return os.path.join(self.folder, name)

    def made(self, name, refusal=""):
        print(name, refusal, sep="\t")

    def run(self, name, command, refusal=""):
        """What a format cannot hold is left out with an exit status, and the rest is there."""
        subprocess.run(command, cwd=self.source, stderr=subprocess.DEVNULL)
        if os.path.exists(self.at(name)):
            self.made(name, refusal)

    def gnu(self):
        for form in ["v7", "oldgnu", "gnu", "ustar", "posix"]:
            for holes in [[], ["--sparse"]]:
                name = f"gnu-{form}{'-sparse' if holes else ''}.tar"
                self.run(name, ["tar", "-c", "-H", form, *holes, "-f", self.at(name), "."])
        for version in ["0.0", "0.1", "1.0"]:
            name = f"gnu-sparse-{version}.tar"
            self.run(name, ["tar", "-c", "-H", "posix", "--sparse", f"--sparse-version={version}", "-f", self.at(name), "."])
        posix = ["tar", "-c", "-H", "posix"]
        self.run("gnu-xattrs.tar", [*posix, "--xattrs", "--xattrs-include=*", "--sparse", "-f", self.at("gnu-xattrs.tar"), "."])
        self.run("gnu-acls.tar", [*posix, "--acls", "-f", self.at("gnu-acls.tar"), "."], "its access control list (user:")
        self.run("gnu-global.tar", [*posix, "--pax-option=mtime=123456789.25,comment=x", "-f", self.at("gnu-global.tar"), "."])
        self.run("gnu-named.tar", ["tar", "-c", "-P", "-f", self.at("gnu-named.tar"), "--transform=s,^.,/srv,", "."])
        self.run("gnu-label.tar", ["tar", "-c", "-V", "name", "-f", self.at("gnu-label.tar"), "."], "an entry of kind 'V'")
        self.run("gnu-volumes.tar", ["tar", "-c", "-M", "-L", "200", "-F", "exit 1", "-f", self.at("gnu-volumes.tar"), "./many-holes"], "cannot be read: unexpected end of file")
        self.run("gnu-incremental.tar", ["tar", "-c", "-G", "-f", self.at("gnu-incremental.tar"), "."], "an entry of kind 'D'")
        self.run("gnu-twice.tar", ["tar", "-c", "-f", self.at("gnu-twice.tar"), ".", "./plain", "./folder"])

    def bsd(self):
        if not shutil.which("bsdtar"):
            return print("bsdtar is missing (libarchive-tools): its archives are left out", file=sys.stderr)
        for form in ["v7", "ustar", "gnutar", "pax", "paxr"]:
            name = f"bsd-{form}.tar"
            which = {"paxr": "pax"}.get(form, form)
            more = ["--options=xattrheader=SCHILY"] if form == "paxr" else []
            self.run(name, ["bsdtar", "-c", "--no-acls", f"--format={which}", *more, "-f", self.at(name), "."])
        bsd = ["bsdtar", "-c", "--no-acls", "--format=pax"]
        self.run("bsd-no-sparse.tar", [*bsd, "--no-read-sparse", "-f", self.at("bsd-no-sparse.tar"), "."])
        self.run("bsd-own-xattrs.tar", [*bsd, "--options=xattrheader=LIBARCHIVE", "-f", self.at("bsd-own-xattrs.tar"), "."], "in libarchive's own form alone")
        self.run("bsd-acls.tar", ["bsdtar", "-c", "--acls", "--format=pax", "-f", self.at("bsd-acls.tar"), "."], "its access control list (user:")
        self.run("bsd-cpio.tar", ["bsdtar", "-c", "--format=newc", "-f", self.at("bsd-cpio.tar"), "."], "it is packed by cpio")

    def python(self):
        for name, form in [("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)]:
            path = self.at(f"python-{name}.tar")
            with tarfile.open(path, "w", format=form) as archive:
                for folder, folders, names in os.walk(self.source):
                    folders.sort()
                    for one in [folder, *(os.path.join(folder, name) for name in sorted(names + [f for f in folders if os.path.islink(os.path.join(folder, f))]))]:
                        try:
                            archive.add(one, "./" + os.path.relpath(one, self.source), recursive=False)
                        except ValueError:
                            pass  # What a ustar header does not hold.
            self.made(f"python-{name}.tar")

    def by_hand(self):
        """As Go's archive/tar, Docker and others write, and as nobody does."""
        one = lambda name, **more: header(name, b"text", **more)
        binary = lambda value, width: b"\x80" + value.to_bytes(width - 1, "big")
        far = one("far", uid=binary(3_000_000, 8), gid=binary(2_200_000, 8), mtime=binary(2**34, 12))
        before = one("before", mtime=(-5).to_bytes(12, "big", signed=True))
        for name, data, refusal in [
            ("go-binary", far + before, ""),
            ("go-records", pax(path=b"a/b", mtime=b"1.000000001", uid=b"70000") + one("PaxHeaders.0/b"), ""),
            ("go-times", pax(mtime=b"-1.25", atime=b"1", ctime=b"2") + one("time"), ""),
            ("go-size", pax(size=b"4") + one("size", size=b"00000000000\0"), ""),
            ("docker-whiteout", one(".wh.name") + one(".wh..wh..opq"), ""),
            ("git", pax(kind=b"g", comment=b"0" * 40) + one("of-git"), ""),
            ("long-both", gnu_long(b"L", b"one") + pax(path=b"two") + one("x"), "name it otherwise"),
            ("long-twice", gnu_long(b"L", b"one") + gnu_long(b"L", b"two") + one("x"), "a second header"),
            ("long-alone", gnu_long(b"L", b"one"), "a header that belongs to a file"),
            ("without-end", one("last"), ""),
            ("half-end", one("last") + bytes(512), ""),
            ("lone-zeros", one("last") + bytes(512) + one("more"), "a lone block of zeros"),
            ("after-end", one("last") + bytes(1024) + one("more"), ""),
            ("cut", one("last")[:-1], "ends within a file"),
            ("cut-header", one("last") + one("more")[:100], "within a block"),
            ("sum", one("last")[:40] + b"x" + one("last")[41:], "is no header"),
            ("nobody", one("nobody", uid=binary(2**32 - 1, 8), mode=b"0004755\0"), "its owner is 4294967295"),
            ("blank-owner", one("blank", uid=bytes(8)), "its owner: "),
            ("link-zero", header("link", kind=b"2") and pax(linkpath=b"a\0b") + header("link", kind=b"2"), "a name with a zero"),
            ("link-with-content", one("hard", kind=b"1", linkname=b"x"), "no file, and with 4 bytes"),
            ("folder-with-content", one("folder/"), "no file, and with 4 bytes"),
            ("attribute-long", pax(**{"SCHILY.xattr.user.x": b"a" * 70000}) + one("a"), "70000 bytes, of 65536"),
            ("attribute-kernels", pax(**{"SCHILY.xattr.trusted.overlay.opaque": b"y"}) + one("a"), "attribute trusted.overlay.opaque"),
            ("attribute-either", pax(**{"SCHILY.xattr.user.a%3Db": b"y"}) + one("a"), "attribute user.a%3Db"),
            ("global-path", pax(kind=b"g", path=b"all") + one("a"), "says path, which is one file's"),
            ("holes-lost", pax(**{"GNU.sparse.major": b"2", "GNU.sparse.minor": b"0", "GNU.sparse.realsize": b"9"}) + one("a"), "of format 2.0"),
            ("holes-beyond", pax(**{"GNU.sparse.size": b"9", "GNU.sparse.map": b"8,4"}) + one("a"), "4 bytes at 8, of a file of 9"),
            ("holes-star", one("a", kind=b"S"), "in no format that is known"),
            ("nothing", bytes(1024), "no files are in it"),
            ("empty", b"", "no files are in it"),
        ]:
            write(self.at(f"hand-{name}.tar"), data if name in ENDS else data + bytes(1024))
            self.made(f"hand-{name}.tar", refusal)

    def packed(self):
        with open(self.at("gnu-xattrs.tar"), "rb") as file:
            data = file.read()
        half = len(data) // 2 + 100
        for program, end in [("gzip", "gz"), ("zstd", "zst"), ("xz", "xz"), ("bzip2", "bz2"), ("lz4", "lz4"), ("lzip", "lz")]:
            if not shutil.which(program):
                print(f"{program} is missing: what it packs is left out", file=sys.stderr)
                continue
            pack = lambda data: subprocess.run([program, "-c"], input=data, capture_output=True, check=True).stdout
            refusal = "" if end in ("gz", "zst", "xz") else f"it is packed by {program}"
            for name, packed in [
                (f"whole.tar.{end}", pack(data)),
                (f"pieces.tar.{end}", pack(b"") + pack(data[:half]) + pack(data[half:]) + pack(b"")),
            ]:
                write(self.at(name), packed)
                self.made(name, refusal)
            if not refusal:
                # The last of it is beyond the archive's end.
                write(self.at(f"cut.tar.{end}"), pack(data + bytes(2**20))[:-3])
                self.made(f"cut.tar.{end}", "cut.tar")
        if shutil.which("zstd"):
            pack = lambda data: subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout
            skipped = lambda data: b"\x5e\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data
            chunked = b"".join(skipped(b"note") + pack(data[at:at + 100_000]) for at in range(0, len(data), 100_000))
            write(self.at("chunked.tar.zst"), chunked + skipped(b"table of contents" * 100))
            self.made("chunked.tar.zst")
            write(self.at("other-after.tar.zst"), pack(data) + b"more")
            self.made("other-after.tar.zst", "none of their kind")
        write(self.at("padded.tar.gz"), subprocess.run(["gzip", "-c"], input=data, capture_output=True).stdout + bytes(10240))
        self.made("padded.tar.gz")
        # A file that is called as what is packed begins.
        write(self.at("hand-called.tar"), header("BZh91AY", b"text") + bytes(1024))
        self.made("hand-called.tar")


# Those whose end is what they are about.
ENDS = {"without-end", "half-end", "cut", "cut-header", "empty", "long-alone"}


def header(name, data=b"", kind=b"0", uid=b"0000000\0", gid=b"0000000\0", mode=b"0000644\0", size=None, mtime=b"00000001750\0", linkname=b""):
    size = b"%011o\0" % len(data) if size is None else size
    head = name.encode().ljust(100, b"\0") + mode + uid + gid + size + mtime + b" " * 8 + kind
    head = (head + linkname.ljust(100, b"\0") + b"ustar\0" + b"00").ljust(512, b"\0")
    return head[:148] + b"%06o\0 " % sum(head) + head[156:] + data + bytes(-len(data) % 512)


def pax(kind=b"x", **records):
    text = b""
    for key, value in records.items():
        rest = b" " + key.encode() + b"=" + value + b"\n"
        length = len(rest) + 1
        while length != len(rest) + len(str(length)):
            length += 1
        text += str(length).encode() + rest
    return header("PaxHeaders.0/x", text, kind)


def gnu_long(kind, name):
    return header("././@LongLink", name + b"\0", kind)


if __name__ == "__main__":
    corpus = Corpus(sys.argv[1])
    for make in [corpus.gnu, corpus.bsd, corpus.python, corpus.by_hand, corpus.packed]:
        make()
