//! `cargo xtask test source`: the source package in a Debian as new, built by what Debian has, Rust
//! too, in a network with nothing in it.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use super::{install, source};
use crate::fresh::{Clean, Release, security, verdicts_of};

/// Steps in that Debian. `$V` is the version, `$SECURITY` the archive of security updates, the source
/// package is in `/source`. Rust of the machine that runs this stands first in PATH, and is not meant.
const STEPS: [(&str, &str); 3] = [
    (
        "what it is built with is Debian's",
        "{ [ -z \"$SECURITY\" ] || echo \"deb $SECURITY $SUITE-security main\" \
         >/etc/apt/sources.list.d/security.list; } && apt-get update && \
         apt-get install --yes --no-install-recommends build-essential >/dev/null && \
         apt-get build-dep --yes --no-install-recommends /source/kumiki_$V.dsc && \
         [ \"$(command -v cargo)\" = /usr/bin/cargo ] && dpkg -S /usr/bin/rustc && rustc --version",
    ),
    (
        "built without network, by nobody of that system",
        "useradd builder && chown -R builder /source && cd /source && \
         unshare --net setpriv --reuid builder --regid builder --clear-groups \
         env HOME=/nonexistent sh -euxc 'dpkg-source --extract kumiki_$V.dsc built; cd built; \
         dpkg-buildpackage --build=binary --no-sign'",
    ),
    (
        "installed",
        "apt-get install --yes --no-install-recommends /source/kumiki_${V}_amd64.deb \
         /source/kumiki-kv_${V}_amd64.deb && kumiki --version && kumiki-kv --version",
    ),
];

/// Tries the source package of `cargo xtask deb` in this release, or in each.
pub fn test(release: Option<Release>) -> Result<ExitCode> {
    let version = install::version()?;
    let folder = source::folder()?;
    let names = [format!("kumiki_{version}.dsc"), format!("kumiki_{version}.tar.xz")];
    ensure!(
        names.iter().all(|name| folder.join(name).is_file()),
        "{} has no source package: run `cargo xtask deb` first",
        folder.display()
    );
    let security = security().unwrap_or_default();
    verdicts_of(release, |release| {
        let clean = Clean::make("source", release)?;
        let lent = clean.folder().join("source");
        fs::create_dir_all(&lent).with_context(|| format!("making {}", lent.display()))?;
        for name in &names {
            fs::copy(folder.join(name), lent.join(name)).context("lending the source package")?;
        }
        let suite = release.suite();
        let before = format!(
            "export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin V={version} \
             SUITE={suite} SECURITY={security}"
        );
        let steps = STEPS.map(|(what, line)| (what.to_owned(), format!("{before}; {line}")));
        clean.check(steps.into())
    })
}
