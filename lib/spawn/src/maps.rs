//! The maps of a child's user namespace, written from outside of it.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};

/// Writes texts of uid_map and gid_map for process `id`.
///
/// # Errors
/// As user_namespaces(7) says: `EPERM` for ids that are not the caller's to give, `EINVAL` for
/// ranges that overlap or are empty.
pub(crate) fn write(id: i32, [users, groups]: [Option<&CStr>; 2]) -> io::Result<()> {
    let put = |file: &str, text: &[u8]| {
        let mut file = File::options().write(true).open(format!("/proc/{id}/{file}"))?;
        // The kernel takes it in one call only.
        file.write(text).map(|_| ())
    };
    if let Some(users) = users {
        put("uid_map", users.to_bytes())?;
    }
    let Some(groups) = groups.map(CStr::to_bytes) else { return Ok(()) };
    match put("gid_map", groups) {
        // Who may not give groups away may map its own if they are never dropped.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            put("setgroups", b"deny")?;
            put("gid_map", groups)
        }
        done => done,
    }
}
