//! `cargo xtask test deb`: the packages in a Debian as new: installed, used, upgraded while
//! something runs, purged.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use super::deb;
use crate::fresh::{Clean, Release, verdicts_of};
use crate::run::{program, root, run};

/// Steps in that Debian, each with what it shows. `$V` is the version, packages are in `/debs`
/// and newer ones in `/newer`.
const STEPS: [(&str, &str); 7] = [
    (
        // A kernel without headers is what the folder stands for.
        "installed; modules wait for headers and say so",
        "apt-get update && mkdir -p /lib/modules/$(uname -r) && \
         apt-get install --yes --no-install-recommends /debs/*.deb >/tmp/said 2>&1 \
         || { cat /tmp/said; exit 1; }; cat /tmp/said; rm -r /lib/modules/$(uname -r) && \
         grep -iE 'headers .*(installed|found)' /tmp/said && dkms status | grep kumiki",
    ),
    (
        "used, from the shell, C and Python",
        "apt-get install --yes --no-install-recommends gcc libc6-dev pkg-config binutils \
         >/dev/null && /smoke",
    ),
    (
        "modules built by DKMS for this Debian's kernel",
        "apt-get install --yes --no-install-recommends linux-headers-amd64 >/dev/null && \
         kernel=$(ls /lib/modules | head -n 1) && \
         { dkms status -k $kernel | grep -q installed || dkms install kumiki/$V -k $kernel; } && \
         for module in osnode osnode-guest osnode-virtio osnode-watch osnode-eventfd osnode-iommu \
         osnode-pci osnode-claim parasc; do \
         find /lib/modules/$kernel/updates -name \"$module.ko*\" | grep . || exit 1; done",
    ),
    (
        // The lab is the packaged command, which is purged while it serves the machine.
        "upgraded and purged in a machine of the lab whose node goes on, and so does the lab",
        "apt-get install --yes --no-install-recommends busybox-static qemu-system-x86 >/dev/null && \
         kumiki lab run --nodes --cpus 4 --memory 3G --module 9p --module 9pnet_virtio \
         --qemu=-virtfs \
         --qemu=local,path=/,mount_tag=system,security_model=passthrough,multidevs=remap \
         --in /node.sh -- sh node.sh $V && [ ! -e /usr/bin/kumiki ] && \
         apt-get install --yes --no-install-recommends --allow-downgrades /debs/*.deb >/dev/null",
    ),
    (
        "upgraded and purged under a spawn server, which goes on",
        "mkfifo /tmp/go && python3 -c 'import kumiki\n\
         kumiki.start_server()\n\
         open(\"/tmp/up\", \"w\").close()\n\
         open(\"/tmp/go\").read()\n\
         assert kumiki.check_output([\"echo\", \"alive\"]) == b\"alive\\n\"\n\
         open(\"/tmp/alive\", \"w\").close()' & \
         n=0; until [ -e /tmp/up ]; do sleep 0.1; n=$((n+1)); [ $n -lt 100 ] || exit 1; done; \
         apt-get install --yes --no-install-recommends /newer/*.deb && \
         dpkg-query --show --showformat='${Version}\\n' kumiki | grep -Fx $V+1 && kumiki --version \
         && apt-get purge --yes 'kumiki*' 'libkumiki*' python3-kumiki && \
         echo go >/tmp/go && wait $! && [ -e /tmp/alive ]",
    ),
    (
        "nothing is left",
        "left=$(find /usr /etc /var/lib /lib/modules -xdev -iname '*kumiki*' \
         -not -path '/var/lib/dpkg/*' -not -path '/var/lib/apt/*'); \
         [ -z \"$left\" ] || { echo \"$left\"; exit 1; }",
    ),
    ("installed again", "apt-get install --yes --no-install-recommends /debs/kumiki_*.deb"),
];

const NODE: &str = include_str!("node.sh");

/// Tries the packages of `cargo xtask deb` in this release, or in each.
pub fn test(release: Option<Release>) -> Result<ExitCode> {
    let packages = deb::packages()?;
    let version = super::install::version()?;
    verdicts_of(release, |release| {
        let clean = Clean::make("deb", release)?;
        for folder in ["debs", "newer"] {
            let folder = clean.folder().join(folder);
            fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        }
        for package in &packages {
            let name = package.file_name().context("a package has a name")?;
            fs::copy(package, clean.folder().join("debs").join(name)).context("lending one")?;
            newer(package, &clean.folder().join("newer"), &version)?;
        }
        let smoke = root().join("debian/tests/smoke");
        fs::copy(smoke, clean.folder().join("smoke")).context("lending debian/tests/smoke")?;
        fs::write(clean.folder().join("node.sh"), NODE).context("lending node.sh")?;
        let steps = STEPS.map(|(what, line)| {
            (what.to_owned(), format!("export DEBIAN_FRONTEND=noninteractive V={version}; {line}"))
        });
        clean.check(steps.into())
    })
}

/// The same package under a version that is newer.
fn newer(package: &std::path::Path, into: &std::path::Path, version: &str) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder to unpack a package in")?;
    let tree = folder.path().join("tree");
    run(program("dpkg-deb", ["--raw-extract"]).arg(package).arg(&tree))?;
    let control = tree.join("DEBIAN/control");
    let text = fs::read_to_string(&control).context("reading a package's control file")?;
    let old = format!("Version: {version}\n");
    ensure!(text.contains(&old), "{} is not of {version}", package.display());
    let text = text.replace(&old, &format!("Version: {version}+1\n"));
    let text = text.replace(&format!("(= {version})"), &format!("(= {version}+1)"));
    fs::write(&control, text).context("writing a package's control file")?;
    let name = package.file_name().context("a package has a name")?;
    run(program("dpkg-deb", ["--build", "-Zgzip", "-z1"]).arg(&tree).arg(into.join(name)))
}
