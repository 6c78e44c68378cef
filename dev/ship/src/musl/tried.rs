//! The programs in a root with nothing but them.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::arm::EMULATOR;
use crate::run::{program, read, run};

/// Runs the programs for aarch64 in the emulator, which starts no program of that processor for another one: `kumiki`
/// measures and compares in the lab's machine alone (`cargo xtask test arm64`). Disk usage beside du's own, a file by HTTP, a key.
pub(super) fn emulated(tree: &Path) -> Result<()> {
    const ASK: &str = r#"
set -eu
cd "$1"
served() { # PATTERN: waits for its line, says the port
    n=0
    until grep -q "$1" said; do
        sleep 0.5
        n=$((n + 1))
        [ $n -lt 120 ] || { cat said; exit 1; }
    done
    sed -n "s/.*$1\([0-9]*\).*/\1/p" said | head -n 1
}
mkdir www
echo of a file >www/file
"$3" "$2/bin/kumiki-httpd" www --listen 127.0.0.1:0 2>said &
server=$!
# An emulator without openat2(2), as QEMU 7.2's, is refused by name: then that is what there is to see.
n=0
until grep -qE ' on 127.0.0.1:|openat2' said; do
    sleep 0.5
    n=$((n + 1))
    [ $n -lt 120 ] || { cat said; exit 1; }
done
if grep -q openat2 said; then
    cat said
else
    port=$(served ' on 127.0.0.1:')
    python3 -c 'import sys, urllib.request
assert urllib.request.urlopen(sys.argv[1], timeout=60).read() == b"of a file\n"' "http://127.0.0.1:$port/file"
    kill $server
    wait $server
fi
"$3" "$2/bin/kumiki-kv" --port 0 >said &
server=$!
port=$(served '127.0.0.1:')
python3 -c 'import socket, sys
at = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
at.sendall(b"SET a 1
GET a
QUIT
")
assert at.makefile("rb").read() == b"+OK
$1
1
+OK
"' "$port"
kill $server
wait $server
"#;
    let at = |name: &str| tree.join("bin").join(name).to_string_lossy().into_owned();
    for name in ["kumiki", "kumiki-ab", "kumiki-du", "kumiki-httpd", "kumiki-kv"] {
        print!("{}", read(&mut program(EMULATOR, [&*at(name), "--version"]))?);
    }
    let folder = crate::run::root().join("docs");
    let ours = read(program(EMULATOR, [&*at("kumiki-du"), "-a"]).arg(&folder))?;
    let theirs = read(program("du", ["-a"]).arg(&folder))?;
    ensure!(ours == theirs, "du says:\n{theirs}\nkumiki-du for aarch64:\n{ours}");
    let folder = tempfile::tempdir().context("a folder to serve")?;
    run(program("sh", ["-c", ASK, "ask"]).arg(folder.path()).arg(tree).arg(EMULATOR))
}

/// Runs the programs in a root with nothing but them, what the kernel shows, and a folder to write to.
pub(super) fn tried(tree: &Path) -> Result<()> {
    const ENTER: &str = r#"
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/proc" "$1/sys" "$1/dev" "$1/tmp" "$1/kumiki"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
cp -r "$2/." "$1/kumiki"
root=$1
shift 2
in_root() { chroot "$root" /kumiki/bin/"$@"; }
in_root kumiki --version
export XDG_RUNTIME_DIR=/tmp
cat >"$root/tmp/allow" <<'RULES'
[kind.process]
create = true
destroy = true
parts = ["*"]
RULES
cpu=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
chroot "$root" /kumiki/bin/kumiki place serve --host here --cpu-list "$cpu" --allow /tmp/allow \
    >"$root/tmp/serving" &
for wait in 1 2 3 4 5 6 7 8 9 10; do
    [ -s "$root/tmp/serving" ] && break
    sleep 1
done
[ "$(in_root kumiki run "here.core$cpu" -- /kumiki/bin/kumiki --version)" = "$(in_root kumiki --version)" ]
kill "$!"
wait "$!"
in_root kumiki doctor >"$root/tmp/doctor"
[ -s "$root/tmp/doctor" ]
for ab in 'kumiki ab' kumiki-ab; do
    said=0
    in_root $ab --for 5s -- /kumiki/bin/kumiki --version --- /kumiki/bin/kumiki --version || said=$?
    # A verdict, whichever, is no error.
    [ "$said" -le 3 ] && [ "$said" -ne 2 ]
done
begin=$(date +%s)
in_root kumiki report --quick --output /tmp/report.html
[ -s "$root/tmp/report.html" ]
seconds=$(($(date +%s) - begin))
# Promised of a machine that does nothing else; a busy one says how long it may take.
most=${KUMIKI_SMOKE_SECONDS:-60}
echo "kumiki report --quick: $seconds s, of $most at most (KUMIKI_SMOKE_SECONDS)"
[ "$seconds" -le "$most" ]
in_root kumiki-du -s /kumiki
in_root kumiki-httpd --version
in_root kumiki-kv --version
"#;
    let folder = tempfile::tempdir().context("a folder for a root with nothing in it")?;
    let words = ["--mount", "--pid", "--fork", "--kill-child", "--propagation=private"];
    let mut there = program("unshare", words);
    there.args(["sh", "-c", ENTER, "enter"]).arg(folder.path()).arg(tree);
    run(there.env("HOME", "/tmp").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
}
