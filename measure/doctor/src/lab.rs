//! What the laboratory, a QEMU machine for kernel parts, needs.

use std::env;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use kumiki_sys::syscall;
use rustix::io::Errno;

use crate::finding::{Finding, Topic};
use crate::host::Host;

const QEMU: Topic = Topic {
    part: "lab",
    thing: "QEMU",
    consequence: "kernel modules and OS nodes cannot be tried in a machine of their own, and \
                  their tests are skipped",
};
const KVM: Topic = Topic {
    part: "lab",
    thing: "KVM",
    consequence: "QEMU emulates the processor: everything works, ten to fifty times slower",
};

const PROGRAM: &str = "qemu-system-x86_64";

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let path = env::var("PATH").unwrap_or_default();
    vec![qemu(host, &path), kvm(host)]
}

fn qemu(host: &Host, path: &str) -> Finding {
    let mut candidates =
        path.split(':').filter(|dir| !dir.is_empty()).map(|dir| format!("{dir}/{PROGRAM}"));
    let executable =
        |file: &String| rustix::fs::access(host.path(file), rustix::fs::Access::EXEC_OK).is_ok();
    match candidates.find(executable) {
        Some(file) => QEMU.present(file),
        None => QEMU.absent(format!("no {PROGRAM} in PATH"), "apt-get install qemu-system-x86"),
    }
}

fn kvm(host: &Host) -> Finding {
    let device = host.path("/dev/kvm");
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(file) => created(try_vm(&file)),
        Err(error) => match error.kind() {
            std::io::ErrorKind::NotFound => KVM.absent(
                "/dev/kvm is not there",
                "modprobe kvm_intel or kvm_amd; in a virtual machine, nested virtualisation",
            ),
            std::io::ErrorKind::PermissionDenied => KVM.absent(
                format!("/dev/kvm: {error}"),
                "join the group kvm (`usermod -aG kvm $USER`), or `docker run --device /dev/kvm`",
            ),
            _ => KVM.absent(format!("/dev/kvm: {error}"), "ask the operator of the hypervisor"),
        },
    }
}

/// Asks for the API's version and makes an empty virtual machine, which goes
/// with its descriptor (Documentation/virt/kvm/api.rst).
fn try_vm(device: &File) -> Result<u64, Errno> {
    const KVM_GET_API_VERSION: u64 = 0xAE00;
    const KVM_CREATE_VM: u64 = 0xAE01;
    let device = device.as_raw_fd() as u64;
    let ioctl = |request| {
        let args = [device, request, 0, 0, 0, 0];
        // SAFETY: both requests take 0 and touch no memory of ours. On a file
        // that is not KVM's they are unknown and refused.
        unsafe { syscall::call(libc::SYS_ioctl as usize, args) }
    };
    let version = ioctl(KVM_GET_API_VERSION)?;
    let vm = ioctl(KVM_CREATE_VM)?;
    // SAFETY: the kernel has just made the descriptor for us; nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(vm as i32) });
    Ok(version)
}

fn created(tried: Result<u64, Errno>) -> Finding {
    match tried {
        Ok(version) => KVM.present(format!(
            "an empty machine could be made (API version {version}); whether nested guests run is \
             up to the hypervisor below"
        )),
        Err(errno) => KVM.limited(
            format!("/dev/kvm opens, but no machine can be made: {errno}"),
            "ask the operator of the hypervisor for nested virtualisation",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::finding::State;
    use crate::host::host_with;

    #[test]
    fn qemu_must_be_executable_and_in_path() {
        let (_dir, host) = host_with(&[("/opt/bin/qemu-system-x86_64", "#!/bin/sh")]);
        let file = host.path("/opt/bin/qemu-system-x86_64");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(qemu(&host, "/usr/bin:/opt/bin").state, State::Absent);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let found = qemu(&host, "/usr/bin::/opt/bin");
        assert_eq!(found.detail, "/opt/bin/qemu-system-x86_64");
        assert_eq!(qemu(&host, "/usr/bin").state, State::Absent);
    }

    #[test]
    fn a_device_that_is_not_kvm_is_limited() {
        let (_dir, host) = host_with(&[("/dev/kvm", "")]);
        assert_eq!(kvm(&host).state, State::Limited);
        let (_dir, host) = host_with(&[]);
        assert_eq!(kvm(&host).state, State::Absent);
    }
}
