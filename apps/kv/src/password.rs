//! The password that clients have to say: from the first line of a file, shown nowhere, and wiped from memory when
//! another one takes its place.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use zeroize::Zeroizing;

/// Bytes of a password, at most.
const LONGEST: usize = 512;

/// A password.
pub(crate) struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// Reads a file's first line.
    ///
    /// # Errors
    /// It cannot be read; there is none, or too much.
    pub(crate) fn of_file(file: &Path) -> Result<Password> {
        let text = fs::read(file)
            .with_context(|| format!("reading --password-file {}", file.display()))?;
        let text = Zeroizing::new(text);
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        ensure!(
            !line.is_empty(),
            "--password-file {}: its first line is empty; write the password there",
            file.display()
        );
        if line.len() > LONGEST {
            bail!(
                "--password-file {}: the password has {} bytes, {LONGEST} are allowed",
                file.display(),
                line.len()
            );
        }
        Ok(Password(Zeroizing::new(line.to_vec())))
    }

    /// True if that was said. It takes as long whatever is wrong with it.
    pub(crate) fn is(&self, said: &[u8]) -> bool {
        let differs = (0..LONGEST).fold(0, |differs, at| {
            let (one, other) = (self.0.get(at), said.get(at));
            differs | (one.copied().unwrap_or(0) ^ other.copied().unwrap_or(0))
        });
        (differs == 0) & (self.0.len() == said.len())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_password_and_is_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        for text in ["geheim", "geheim\n", "geheim\r\nmore\n"] {
            fs::write(&file, text).unwrap();
            let password = Password::of_file(&file).unwrap();
            assert!(password.is(b"geheim"), "{text:?}");
            for wrong in [&b""[..], b"geheim\0", b"geheiM", b"gehei", &[b'x'; 600]] {
                assert!(!password.is(wrong), "{wrong:?}");
            }
            // "geheim" as text, and as numbers.
            let shown = format!("{password:?} {:?}", Some(&password));
            assert!(!shown.contains("geh") && !shown.contains("103"), "{shown}");
        }
        for (text, why) in [("\nx", "is empty"), (&*"x".repeat(513), "513 bytes, 512")] {
            fs::write(&file, text).unwrap();
            let error = Password::of_file(&file).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("xxx"), "{error}");
        }
    }
}
