//! The programs in a root with nothing but them.

use std::path::Path;

use anyhow::{Context, Result};

use crate::run::{program, run};

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
