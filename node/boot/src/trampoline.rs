//! The first instructions of a node's first cpu: from the 16 bits in which a
//! SIPI leaves it to the kernel's 64-bit entry, with `rsi` = `boot_params`.
//!
//! One page at a multiple of 4 KiB below 1 MiB, which is the SIPI's vector. It
//! uses no stack and leaves the time stamp counter's value in the shared window,
//! so that a start can be told by stages.

/// Offsets in the page.
const CODE_64: u32 = 0x80;
const GDT: u32 = 0xc0;
const GDT_REGISTER: u32 = 0xe0;

const PAGE_BYTES: usize = 4096;

pub(crate) struct Trampoline {
    /// Physical address of its page.
    pub(crate) page: u32,
    pub(crate) pml4: u32,
    pub(crate) boot_params: u64,
    pub(crate) entry: u64,
    /// Address to which the 64-bit time stamp goes; must be mapped by the page tables.
    pub(crate) time_stamp: u64,
    /// True if page tables have bits that keep pages from being executed: those of a kernel that
    /// wakes up do. A processor without that bit faults on being told of it.
    pub(crate) no_execute: bool,
}

const LME: u32 = 1 << 8;
const NXE: u32 = 1 << 11;

impl Trampoline {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        let mut put = |at: u32, bytes: &[u8]| {
            page[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &self.code_16());
        put(CODE_64, &self.code_64());
        // Null, 64-bit code, data: all flat.
        for (index, entry) in
            [0, 0x00af_9b00_0000_ffff_u64, 0x00cf_9300_0000_ffff].iter().enumerate()
        {
            put(GDT + 8 * index as u32, &entry.to_le_bytes());
        }
        put(GDT_REGISTER, &(3 * 8 - 1u16).to_le_bytes());
        put(GDT_REGISTER + 2, &(self.page + GDT).to_le_bytes());
        page
    }

    /// Real mode, `cs` = page / 16: page tables, long mode, paging in one step.
    fn code_16(&self) -> Vec<u8> {
        let efer = if self.no_execute { LME | NXE } else { LME };
        [
            &[0xfa][..],               // cli
            &[0xfc],                   // cld
            &[0x8c, 0xc8],             // mov ax, cs
            &[0x8e, 0xd8],             // mov ds, ax
            &[0x66, 0x0f, 0x01, 0x16], // lgdt [GDT_REGISTER]
            &(GDT_REGISTER as u16).to_le_bytes(),
            &[0x66, 0xb8, 0x20, 0, 0, 0], // mov eax, CR4.PAE
            &[0x0f, 0x22, 0xe0],          // mov cr4, eax
            &[0x66, 0xb8],                // mov eax, pml4
            &self.pml4.to_le_bytes(),
            &[0x0f, 0x22, 0xd8],             // mov cr3, eax
            &[0x66, 0xb9, 0x80, 0, 0, 0xc0], // mov ecx, EFER
            &[0x0f, 0x32],                   // rdmsr
            &[0x66, 0x0d],                   // or eax, EFER.LME, and NXE
            &efer.to_le_bytes(),
            &[0x0f, 0x30],                   // wrmsr
            &[0x66, 0xb8, 0x11, 0, 0, 0x80], // mov eax, CR0.PG | CR0.ET | CR0.PE
            &[0x0f, 0x22, 0xc0],             // mov cr0, eax
            &[0x66, 0xea],                   // jmp 0x08:page + CODE_64
            &(self.page + CODE_64).to_le_bytes(),
            &[0x08, 0x00],
        ]
        .concat()
    }

    fn code_64(&self) -> Vec<u8> {
        [
            &[0xb8, 0x10, 0, 0, 0][..], // mov eax, data segment
            &[0x8e, 0xd8],              // mov ds, eax
            &[0x8e, 0xc0],              // mov es, eax
            &[0x8e, 0xd0],              // mov ss, eax
            &[0x0f, 0x31],              // rdtsc
            &[0x48, 0xc1, 0xe2, 0x20],  // shl rdx, 32
            &[0x48, 0x09, 0xd0],        // or rax, rdx
            &[0x48, 0xa3],              // mov [time_stamp], rax
            &self.time_stamp.to_le_bytes(),
            &[0x48, 0xbe], // mov rsi, boot_params
            &self.boot_params.to_le_bytes(),
            &[0x48, 0xb8], // mov rax, entry
            &self.entry.to_le_bytes(),
            &[0xff, 0xe0], // jmp rax
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};

    use super::*;

    fn disassemble(bytes: &[u8], bits: u32, address: u64) -> Vec<String> {
        let mut formatter = NasmFormatter::new();
        formatter.options_mut().set_hex_prefix("0x");
        formatter.options_mut().set_hex_suffix("");
        let decoder = Decoder::with_ip(bits, bytes, address, DecoderOptions::NONE);
        let lines = decoder.into_iter().map(|instruction| {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            text
        });
        lines.collect()
    }

    const TRAMPOLINE: Trampoline = Trampoline {
        page: 0x3_0000,
        pml4: 0x3_1000,
        boot_params: 0x1_4000_1000,
        entry: 0x1_4100_0c43,
        time_stamp: 0x1_4fe0_0040,
        no_execute: false,
    };

    #[test]
    fn pages_that_are_not_executed_are_for_a_kernel_that_wakes() {
        let waking = Trampoline { no_execute: true, ..TRAMPOLINE };
        assert_eq!(disassemble(&waking.code_16(), 16, 0)[11], "or eax,0x900");
    }

    #[test]
    fn a_disassembler_reads_what_was_meant() {
        assert_eq!(
            disassemble(&TRAMPOLINE.code_16(), 16, 0),
            [
                "cli",
                "cld",
                "mov ax,cs",
                "mov ds,ax",
                "o32 lgdt [0xE0]",
                "mov eax,0x20",
                "mov cr4,eax",
                "mov eax,0x31000",
                "mov cr3,eax",
                "mov ecx,0xC0000080",
                "rdmsr",
                "or eax,0x100",
                "wrmsr",
                "mov eax,0x80000011",
                "mov cr0,eax",
                "jmp dword 8:0x00030080",
            ]
        );
        assert_eq!(
            disassemble(&TRAMPOLINE.code_64(), 64, 0x3_0080),
            [
                "mov eax,0x10",
                "mov ds,eax",
                "mov es,eax",
                "mov ss,eax",
                "rdtsc",
                "shl rdx,0x20",
                "or rax,rdx",
                "mov [qword 0x14FE00040],rax",
                "mov rsi,0x140001000",
                "mov rax,0x141000C43",
                "jmp rax",
            ]
        );
    }

    #[test]
    fn code_and_tables_do_not_overlap() {
        assert!(TRAMPOLINE.code_16().len() <= CODE_64 as usize);
        assert!(CODE_64 as usize + TRAMPOLINE.code_64().len() <= GDT as usize);
        let page = TRAMPOLINE.to_bytes();
        assert_eq!(page[GDT_REGISTER as usize..][..6], [23, 0, 0xc0, 0, 3, 0]);
    }
}
