//! What the compiler expects of a C library.

use core::arch::asm;

/// # Safety
/// As memcpy(3).
#[cfg_attr(freestanding, unsafe(no_mangle))]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    // In instructions here and below: of a loop the compiler would make a call of this very function.
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cbz {len}, 3f", "2:", "ldrb {byte:w}, [{from}], #1", "strb {byte:w}, [{at}], #1",
            "subs {len}, {len}, #1", "b.ne 2b", "3:",
            len = inout(reg) len => _, from = inout(reg) from => _, at = inout(reg) to => _,
            byte = out(reg) _, options(nostack));
    }
    to
}

/// # Safety
/// As memset(3).
#[cfg_attr(freestanding, unsafe(no_mangle))]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cbz {len}, 3f", "2:", "strb {byte:w}, [{at}], #1", "subs {len}, {len}, #1",
            "b.ne 2b", "3:",
            len = inout(reg) len => _, at = inout(reg) to => _, byte = in(reg) byte,
            options(nostack));
    }
    to
}

/// # Safety
/// As memcmp(3).
#[cfg_attr(freestanding, unsafe(no_mangle))]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for at in 0..len {
        // SAFETY: the caller's promise.
        let a = unsafe { a.wrapping_add(at).read_volatile() };
        // SAFETY: the same.
        let b = unsafe { b.wrapping_add(at).read_volatile() };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As bcmp(3).
#[cfg_attr(freestanding, unsafe(no_mangle))]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_set_and_compared() {
        let from = [3u8, 1, 4, 1, 5, 9, 2, 6];
        let mut to = [0u8; 10];
        // SAFETY: eight bytes from the one into the other, from its second on.
        unsafe { memcpy(to[1..].as_mut_ptr(), from.as_ptr(), from.len()) };
        assert_eq!(to, [0, 3, 1, 4, 1, 5, 9, 2, 6, 0]);
        // SAFETY: three bytes that are there.
        unsafe { memset(to.as_mut_ptr(), 0x107, 3) };
        assert_eq!(to, [7, 7, 7, 4, 1, 5, 9, 2, 6, 0]);
        let compared = |a: &[u8; 3], b: &[u8; 3]| {
            // SAFETY: three bytes of each.
            let (signed, is) = (unsafe { memcmp(a.as_ptr(), b.as_ptr(), 3) }, unsafe {
                bcmp(a.as_ptr(), b.as_ptr(), 3)
            });
            assert_eq!(signed == 0, is == 0);
            signed.signum()
        };
        assert_eq!(compared(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(compared(&[1, 2, 3], &[1, 200, 3]), -1);
        assert_eq!(compared(&[1, 2, 3], &[1, 2, 2]), 1);
    }
}
