//! Whether KVM works here.
//!
//! That /dev/kvm opens says little: below another hypervisor a machine may hang
//! in its kernel's first instructions. So one is started, under a time limit,
//! once since this host's boot.

use std::fs;
use std::time::Duration;

use crate::cache::Cache;
use crate::config::{Accelerator, Config};
use crate::talk::Talk;

/// Time by which a machine with KVM has long been up.
const LIMIT: Duration = Duration::from_secs(20);

/// True if `starts` says so of a machine with KVM; asked once since this host's boot.
pub(crate) fn works(
    cache: &Cache,
    config: &Config,
    talk: Talk<'_>,
    starts: impl FnOnce(&Config) -> bool,
) -> bool {
    let device = fs::File::options().read(true).write(true).open("/dev/kvm");
    if device.is_err() {
        return false;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let note = cache.folder().join("kvm");
    let _alone = cache.lock("kvm");
    let known = fs::read_to_string(&note).unwrap_or_default();
    if let Some(verdict) = known.strip_prefix(boot.trim()) {
        return verdict.trim() == "works";
    }
    talk.say(format_args!("trying whether KVM works, for {} s at most", LIMIT.as_secs()));
    let plain = Config {
        kernel: config.kernel.clone(),
        accelerator: Accelerator::Kvm,
        start_limit: LIMIT,
        cpus: 2,
        ..Config::new(&config.agent)
    };
    let works = starts(&plain);
    let verdict = if works { "works" } else { "hangs" };
    if verdict == "hangs" {
        talk.say("KVM does not work here; QEMU emulates, until this machine's next boot");
    }
    let _ = fs::write(&note, format!("{} {verdict}\n", boot.trim()));
    works
}
