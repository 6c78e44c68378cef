//! The processor's own word on its features.

use raw_cpuid::{CpuId, CpuIdReader};

use super::Features;

impl Features {
    pub(super) fn from_this_cpu() -> Self {
        Features {
            avx2: is_x86_feature_detected!("avx2"),
            avx512f: is_x86_feature_detected!("avx512f"),
            ..Self::from_cpuid(&CpuId::new())
        }
    }

    /// Features in a CPUID table, such as a recorded one. Of AVX only what the processor offers is
    /// known: the operating system's part is in XCR0.
    pub fn from_cpuid<R: CpuIdReader>(cpuid: &CpuId<R>) -> Self {
        let basic = cpuid.get_feature_info();
        let basic = basic.as_ref();
        let extended = cpuid.get_extended_feature_info();
        let extended = extended.as_ref();
        let processor = cpuid.get_extended_processor_and_feature_identifiers();
        let processor = processor.as_ref();
        let power = cpuid.get_advanced_power_mgmt_info();
        let vendor = cpuid.get_vendor_info();
        let brand = cpuid.get_processor_brand_string();
        let os_keeps_avx = basic.is_some_and(|f| f.has_oxsave());
        Features {
            vendor: vendor.map_or(String::new(), |v| v.as_str().to_owned()),
            brand: brand.map_or(String::new(), |b| b.as_str().trim().to_owned()),
            waitpkg: extended.is_some_and(|f| f.has_waitpkg()),
            monitorx: processor.is_some_and(|f| f.has_monitorx_mwaitx()),
            monitor: basic.is_some_and(|f| f.has_monitor_mwait()),
            invariant_tsc: power.is_some_and(|f| f.has_invariant_tsc()),
            rdtscp: processor.is_some_and(|f| f.has_rdtscp()),
            avx2: os_keeps_avx && extended.is_some_and(|f| f.has_avx2()),
            avx512f: os_keeps_avx && extended.is_some_and(|f| f.has_avx512f()),
            clflushopt: extended.is_some_and(|f| f.has_clflushopt()),
            clwb: extended.is_some_and(|f| f.has_clwb()),
            erms: extended.is_some_and(|f| f.has_rep_movsb_stosb()),
            hypervisor: hypervisor(cpuid),
        }
    }
}

/// Leaf 4000_0000h holds twelve letters; `raw-cpuid` knows some, the others
/// are given as they are.
fn hypervisor<R: CpuIdReader>(cpuid: &CpuId<R>) -> Option<String> {
    let there = cpuid.get_feature_info().is_some_and(|f| f.has_hypervisor());
    if !there {
        return None;
    }
    let Some(info) = cpuid.get_hypervisor_info() else {
        return Some("unknown".to_owned());
    };
    Some(match info.identify() {
        raw_cpuid::Hypervisor::Unknown(b, c, d) => letters([b, c, d]),
        known => format!("{known:?}"),
    })
}

fn letters(registers: [u32; 3]) -> String {
    let bytes = registers.map(u32::to_le_bytes).concat();
    let text = String::from_utf8_lossy(&bytes);
    match text.trim_matches(|c: char| c == '\0' || c.is_whitespace()) {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use raw_cpuid::{CpuIdResult, cpuid};

    use super::*;

    /// This processor, with the registers of some leaves changed.
    fn changed(change: fn(u32, u32, &mut CpuIdResult)) -> Features {
        let reader = move |leaf, subleaf| {
            let mut result = cpuid!(leaf, subleaf);
            change(leaf, subleaf, &mut result);
            result
        };
        Features::from_cpuid(&CpuId::with_cpuid_reader(reader))
    }

    /// A processor of ours: AMD's name, highest leaves 7 and 8000_0008h.
    fn composed(leaf: u32, bits: CpuIdResult) -> Features {
        let registers = |eax, ebx, ecx, edx| CpuIdResult { eax, ebx, ecx, edx };
        let reader = move |asked: u32, subleaf: u32| match asked {
            0 => registers(7, 0x6874_7541, 0x444d_4163, 0x6974_6e65),
            0x8000_0000 => registers(0x8000_0008, 0, 0, 0),
            _ if asked == leaf && subleaf == 0 => bits,
            _ => registers(0, 0, 0, 0),
        };
        Features::from_cpuid(&CpuId::with_cpuid_reader(reader))
    }

    const NONE: CpuIdResult = CpuIdResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };

    #[test]
    fn each_bit_sets_its_feature_and_no_other() {
        let nothing = composed(1, NONE);
        assert_eq!(nothing.vendor, "AuthenticAMD");
        let ecx = |bit: u32| CpuIdResult { ecx: 1 << bit, ..NONE };
        let edx = |bit: u32| CpuIdResult { edx: 1 << bit, ..NONE };
        let ebx = |bit: u32| CpuIdResult { ebx: 1 << bit, ..NONE };
        let with = |set: fn(&mut Features)| {
            let mut features = nothing.clone();
            set(&mut features);
            features
        };
        assert_eq!(composed(7, ecx(5)), with(|f| f.waitpkg = true));
        assert_eq!(composed(0x8000_0001, ecx(29)), with(|f| f.monitorx = true));
        assert_eq!(composed(1, ecx(3)), with(|f| f.monitor = true));
        assert_eq!(composed(0x8000_0007, edx(8)), with(|f| f.invariant_tsc = true));
        assert_eq!(composed(0x8000_0001, edx(27)), with(|f| f.rdtscp = true));
        assert_eq!(composed(7, ebx(23)), with(|f| f.clflushopt = true));
        // AVX2 without OSXSAVE: no operating system keeps the registers.
        assert_eq!(composed(7, ebx(5)), nothing);
    }

    #[test]
    fn detection_agrees_with_the_kernel() {
        let Ok(cpuinfo) = fs::read_to_string("/proc/cpuinfo") else {
            eprintln!("skipped: no /proc/cpuinfo");
            return;
        };
        let features = Features::detect();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim())
        };
        assert_eq!(Some(features.vendor.as_str()), field("vendor_id"));
        assert_eq!(Some(features.brand.as_str()), field("model name"));
        let flags: Vec<&str> = field("flags").unwrap().split(' ').collect();
        for (name, detected) in [
            ("rdtscp", features.rdtscp),
            ("avx2", features.avx2),
            ("avx512f", features.avx512f),
            ("clflushopt", features.clflushopt),
            ("hypervisor", features.hypervisor.is_some()),
        ] {
            assert_eq!(flags.contains(&name), detected, "{name}");
        }
    }

    #[test]
    fn hypervisors_are_named() {
        assert_eq!(
            changed(|leaf, _, result| {
                if leaf == 1 {
                    result.ecx &= !(1 << 31);
                }
            })
            .hypervisor,
            None
        );
        assert_eq!(letters([0x4b4d_564b, 0x564b_4d56, 0x4d]), "KVMKVMKVM");
        assert_eq!(letters([0, 0, 0]), "unknown");
    }
}
