//! What kernel modules and OS nodes need of the host.

mod privilege;
mod watchman;

use crate::finding::{Finding, State, Topic};
use crate::host::Host;

const HEADERS: Topic = Topic {
    part: "node",
    thing: "kernel headers",
    consequence: "osnode.ko cannot be built for this kernel; the lab brings headers of its own",
};
const MODULES: Topic = Topic {
    part: "node",
    thing: "loadable modules",
    consequence: "no OS nodes on this host; the lab has a host of its own",
};
const CPU_HOTPLUG: Topic = Topic {
    part: "node",
    thing: "cpu hotplug",
    consequence: "no cpu can be taken from the host for an OS node",
};
const MEMORY_HOTPLUG: Topic = Topic {
    part: "node",
    thing: "memory hot-remove",
    consequence: "an OS node's memory is what the running kernel can free in one piece or a few, \
                  which may fail after long use",
};

const EVENTFDS: Topic = Topic {
    part: "node",
    thing: "module osnode-eventfd",
    consequence: "what a node and its devices tell each other goes through the serving process, \
                  which takes a turn for each",
};
const OSNODE: Topic =
    Topic { part: "node", thing: "module osnode", consequence: "no OS nodes on this host" };

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut findings = privilege::findings();
    // What all modules want comes before each of them.
    findings.extend([
        modules(host),
        headers(host, &release),
        cpu_hotplug(host),
        memory_hotplug(host),
        osnode(kumiki_node::low_slices()),
        eventfds(host),
        watchman::finding(host),
    ]);
    without_modules(&mut findings);
    findings
}

/// Replaces the advice to load a module, or to build it, where the kernel takes none: the way to
/// each is the way to loadable modules.
fn without_modules(findings: &mut [Finding]) {
    let none = |one: &&Finding| one.thing == MODULES.thing && one.state == State::Absent;
    let Some(remedy) = findings.iter().find(none).map(|one| one.remedy.clone()) else { return };
    let of_modules = [HEADERS.thing, OSNODE.thing, EVENTFDS.thing, watchman::WATCHMAN.thing];
    for one in findings.iter_mut().filter(|one| of_modules.contains(&one.thing)) {
        if one.state == State::Absent {
            one.detail = format!("{}, and this kernel takes no modules", one.detail);
            one.remedy = remedy.clone();
        }
    }
}

/// Finding about the module: loaded or not, in the version that this program speaks.
fn osnode(low_slices: kumiki_node::Result<u64>) -> Finding {
    match low_slices {
        Ok(more) => OSNODE.present(format!("loaded; below 1 MiB is room for {more} more nodes")),
        Err(kumiki_node::Error::Unsupported { feature, needs }) => {
            OSNODE.absent(format!("{feature} is not there"), needs)
        }
        Err(error) => OSNODE.unknown(error.to_string()),
    }
}

fn eventfds(host: &Host) -> Finding {
    if host.exists("/dev/kumiki-osnode-eventfd") {
        EVENTFDS.present("osnode-eventfd.ko is loaded")
    } else {
        EVENTFDS.absent("osnode-eventfd.ko is not loaded", "modprobe osnode-eventfd")
    }
}

fn headers(host: &Host, release: &str) -> Finding {
    let build = format!("/lib/modules/{release}/build");
    if host.exists(&format!("{build}/Makefile")) {
        return HEADERS.present(build);
    }
    HEADERS.absent(
        format!("{build} is not there"),
        format!(
            "apt-get install linux-headers-{release} (a kernel of another origin: its build tree)"
        ),
    )
}

fn modules(host: &Host) -> Finding {
    if !host.exists("/proc/sys/kernel") {
        return MODULES.unknown("/proc is not there");
    }
    // Exists exactly with CONFIG_MODULES.
    if !host.exists("/proc/modules") {
        return MODULES.absent("the kernel was built without them", "a kernel with CONFIG_MODULES");
    }
    let cmdline = host.read("/proc/cmdline").unwrap_or_default();
    if host.number("/proc/sys/kernel/modules_disabled") == Ok(1)
        || cmdline.split_whitespace().any(|word| word == "nomodule")
    {
        return MODULES.absent(
            "loading is switched off until the next boot",
            "boot without kernel.modules_disabled=1 and nomodule",
        );
    }
    let enforced = host.read("/sys/module/module/parameters/sig_enforce");
    // Unreadable without securityfs: then there is no lockdown to be seen.
    let lockdown = host.read("/sys/kernel/security/lockdown").unwrap_or_default();
    let locked = lockdown.contains("[integrity]") || lockdown.contains("[confidentiality]");
    if enforced.is_ok_and(|value| value == "Y") || locked {
        return MODULES.limited(
            "only signed modules are taken (secure boot, lockdown or module.sig_enforce)",
            "sign the modules with an enrolled key, or switch secure boot off",
        );
    }
    MODULES.present("unsigned modules are taken")
}

/// A cpu that can be switched off has a file `online`; the boot cpu often not.
fn cpu_hotplug(host: &Host) -> Finding {
    let dir = "/sys/devices/system/cpu";
    let cpus = host.names(dir).into_iter().filter(|name| {
        let number = name.strip_prefix("cpu");
        number.is_some_and(|n| n.parse::<usize>().is_ok())
    });
    let (switches, fixed): (Vec<_>, Vec<_>) =
        cpus.partition(|cpu| host.exists(&format!("{dir}/{cpu}/online")));
    let detail =
        format!("{} of {} cpus can be switched off", switches.len(), switches.len() + fixed.len());
    let Some(first) = switches.first() else {
        return CPU_HOTPLUG.absent(detail, "a kernel with CONFIG_HOTPLUG_CPU, and a second cpu");
    };
    let file = host.path(&format!("{dir}/{first}/online"));
    match rustix::fs::access(file, rustix::fs::Access::WRITE_OK) {
        Ok(()) => CPU_HOTPLUG.present(detail),
        Err(_) => CPU_HOTPLUG.limited(format!("{detail}, but not by this process"), "run as root"),
    }
}

/// Documentation/admin-guide/mm/memory-hotplug.rst. Only blocks of the zone
/// Movable are sure to come off.
fn memory_hotplug(host: &Host) -> Finding {
    let dir = "/sys/devices/system/memory";
    let blocks = host.names(dir).into_iter().filter(|name| {
        let number = name.strip_prefix("memory");
        number.is_some_and(|n| n.parse::<usize>().is_ok())
    });
    let zones: Vec<_> = blocks
        .map(|block| host.read(&format!("{dir}/{block}/valid_zones")).unwrap_or_default())
        .collect();
    if zones.is_empty() {
        return MEMORY_HOTPLUG
            .absent(format!("{dir} has no blocks"), "a kernel with CONFIG_MEMORY_HOTREMOVE");
    }
    // An online block names the zone it is in, an offline one those it could join.
    let movable = zones.iter().filter(|zone| *zone == "Movable").count();
    let size = host.read(&format!("{dir}/block_size_bytes")).ok();
    let size = size.and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    let size = size.map_or("unknown size".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let detail = format!("{} blocks of {size}, {movable} of them movable", zones.len());
    match movable {
        0 => MEMORY_HOTPLUG.limited(
            detail,
            "boot with movablecore=SIZE; without it a block comes off only if nothing unmovable is in it",
        ),
        _ => MEMORY_HOTPLUG.present(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::host_with;

    #[test]
    fn headers_of_the_running_kernel_only() {
        let (_dir, host) = host_with(&[("/lib/modules/6.1.0-18-amd64/build/Makefile", "all:")]);
        assert_eq!(headers(&host, "6.1.0-18-amd64").state, State::Present);
        let other = headers(&host, "6.1.0-21-amd64");
        assert_eq!(other.state, State::Absent);
        assert!(other.remedy.unwrap().contains("linux-headers-6.1.0-21-amd64"));
    }

    #[test]
    fn modules_may_be_missing_disabled_or_signed_only() {
        let sys = ("/proc/sys/kernel/ostype", "Linux");
        let modules_file = ("/proc/modules", "loop 1 0 - Live 0x0");
        let with = |extra: &[(&str, &str)]| {
            let files = [&[sys], extra].concat();
            let (_dir, host) = host_with(&files);
            modules(&host)
        };
        assert_eq!(with(&[]).state, State::Absent);
        assert_eq!(with(&[modules_file]).state, State::Present);
        for (path, content, state) in [
            ("/proc/sys/kernel/modules_disabled", "1", State::Absent),
            ("/proc/sys/kernel/modules_disabled", "0", State::Present),
            ("/proc/cmdline", "quiet nomodule", State::Absent),
            ("/sys/module/module/parameters/sig_enforce", "Y", State::Limited),
            ("/sys/module/module/parameters/sig_enforce", "N", State::Present),
            ("/sys/kernel/security/lockdown", "none [integrity] confidentiality", State::Limited),
            ("/sys/kernel/security/lockdown", "[none] integrity confidentiality", State::Present),
        ] {
            let finding = with(&[modules_file, (path, content)]);
            assert_eq!(finding.state, state, "{path} {content}");
        }
        let (_dir, host) = host_with(&[]);
        assert_eq!(modules(&host).state, State::Unknown);
    }

    #[test]
    fn nobody_is_told_to_load_a_module_where_none_can_be_loaded() {
        let sys = ("/proc/sys/kernel/ostype", "Linux");
        let (_dir, host) = host_with(&[sys]);
        let told = findings(&host);
        for thing in [HEADERS.thing, EVENTFDS.thing, watchman::WATCHMAN.thing] {
            let one = told.iter().find(|one| one.thing == thing).unwrap();
            assert!(one.detail.contains("takes no modules"), "{one:?}");
            assert_eq!(one.remedy.as_deref(), Some("a kernel with CONFIG_MODULES"), "{one:?}");
        }
        let advised = told.iter().filter_map(|one| one.remedy.as_deref());
        for advice in advised {
            assert!(!advice.contains("modprobe") && !advice.contains("headers"), "{advice}");
        }
        // With modules each has its own way.
        let (_dir, host) = host_with(&[sys, ("/proc/modules", "loop 1 0 - Live 0x0")]);
        let told = findings(&host);
        let watch = told.iter().find(|one| one.thing == watchman::WATCHMAN.thing).unwrap();
        assert_eq!(watch.remedy.as_deref(), Some("modprobe osnode-watch"));
    }

    #[test]
    fn cpus_with_a_switch_are_counted() {
        let file = |name: &str| format!("/sys/devices/system/cpu/{name}");
        let (_dir, host) = host_with(&[
            (&file("cpu0/uevent"), ""),
            (&file("cpu1/online"), "1"),
            (&file("cpu2/online"), "0"),
            (&file("cpufreq/boost"), "1"),
        ]);
        let finding = cpu_hotplug(&host);
        assert_eq!(finding.state, State::Present);
        assert_eq!(finding.detail, "2 of 3 cpus can be switched off");
        let (_dir, host) = host_with(&[(&file("cpu0/uevent"), "")]);
        assert_eq!(cpu_hotplug(&host).state, State::Absent);
    }

    #[test]
    fn movable_blocks_are_counted() {
        let file = |name: &str| format!("/sys/devices/system/memory/{name}");
        let with = |zone: &str| {
            let (_dir, host) = host_with(&[
                (&file("block_size_bytes"), "8000000"),
                (&file("memory0/valid_zones"), "none"),
                (&file("memory1/valid_zones"), zone),
                (&file("power/control"), "auto"),
            ]);
            memory_hotplug(&host)
        };
        assert_eq!(with("Movable").state, State::Present);
        assert_eq!(with("Movable").detail, "2 blocks of 128 MiB, 1 of them movable");
        assert_eq!(with("Normal Movable").state, State::Limited);
        let (_dir, host) = host_with(&[]);
        assert_eq!(memory_hotplug(&host).state, State::Absent);
    }
}
