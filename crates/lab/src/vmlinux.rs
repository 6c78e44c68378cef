//! The uncompressed kernel inside a bzImage.
//!
//! QEMU starts an ELF file with a PVH note directly. Emulated, the kernel's own
//! decompressor takes longer than everything else up to user space together.

use std::io::Read;

/// Offsets into the setup header; Documentation/arch/x86/boot.rst.
mod setup {
    pub(super) const SECTORS: usize = 0x1f1;
    pub(super) const MAGIC: usize = 0x202;
    pub(super) const VERSION: usize = 0x206;
    pub(super) const PAYLOAD_OFFSET: usize = 0x248;
    pub(super) const PAYLOAD_LENGTH: usize = 0x24c;
}

/// More than any kernel takes, so that a damaged file cannot fill the memory.
const LIMIT_BYTES: u64 = 512 << 20;

/// What a payload has after its stream: the kernel's size.
const SIZE_BYTES: usize = 4;

/// What a compressed stream begins with, and how it is read.
type Decoder = fn(&[u8]) -> Result<Vec<u8>, String>;
const FORMATS: [(&[u8], Decoder); 3] =
    [(b"\xfd7zXZ\0", xz), (b"\x28\xb5\x2f\xfd", zstd), (b"\x02\x21\x4c\x18", lz4)];

/// Finds the payload and uncompresses it.
pub(crate) fn of_bzimage(image: &[u8]) -> Result<Vec<u8>, String> {
    let word = |at: usize| -> Result<usize, String> {
        let bytes = image.get(at..at + 4).ok_or("it ends within its setup header")?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize)
    };
    if word(setup::MAGIC)? != u32::from_le_bytes(*b"HdrS") as usize {
        return Err("no bzImage: its setup header lacks the magic number HdrS".to_owned());
    }
    if word(setup::VERSION)? & 0xffff < 0x208 {
        return Err(
            "its boot protocol is older than 2.08 and does not say where the kernel is".into()
        );
    }
    // Zero stands for four, for the oldest loaders.
    let sectors = match image[setup::SECTORS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * 512 + word(setup::PAYLOAD_OFFSET)?;
    let end = start + word(setup::PAYLOAD_LENGTH)?;
    let payload = image.get(start..end).ok_or("it ends within the compressed kernel")?;
    let format = FORMATS.iter().find(|(magic, _)| payload.starts_with(magic));
    let Some((_, decode)) = format else {
        return Err("its kernel is compressed by none of xz, zstd and lz4".to_owned());
    };
    let kernel = decode(payload)?;
    if !kernel.starts_with(b"\x7fELF") {
        return Err("what it contains is no ELF file".to_owned());
    }
    Ok(kernel)
}

/// Uncompresses an .xz file, e.g. a kernel module.
pub(crate) fn xz(bytes: &[u8]) -> Result<Vec<u8>, String> {
    // One stream only: after it a payload has its size.
    read(lzma_rust2::XzReader::new(bytes, false), "xz")
}

fn zstd(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let decoder =
        ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|error| format!("zstd: {error}"))?;
    read(decoder, "zstd")
}

/// The format that lz4 had before its frames had a header; it has no end, so
/// what follows the last block is cut off first.
fn lz4(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let blocks = &bytes[..bytes.len().saturating_sub(SIZE_BYTES)];
    read(lz4_flex::frame::FrameDecoder::new(blocks), "lz4")
}

fn read(decoder: impl Read, format: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    decoder
        .take(LIMIT_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{format}: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// A bzImage with this payload.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[setup::SECTORS] = 1;
        image[setup::MAGIC..][..4].copy_from_slice(b"HdrS");
        image[setup::VERSION..][..2].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[setup::PAYLOAD_OFFSET..][..4].copy_from_slice(&16_u32.to_le_bytes());
        let length = payload.len() as u32;
        image[setup::PAYLOAD_LENGTH..][..4].copy_from_slice(&length.to_le_bytes());
        image.extend([0; 16]);
        image.extend(payload);
        image
    }

    pub(crate) fn compressed(bytes: &[u8]) -> Vec<u8> {
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn a_kernel_comes_out_as_it_went_in() {
        let kernel = [b"\x7fELF".as_slice(), &[7; 5000]].concat();
        assert_eq!(of_bzimage(&image(&compressed(&kernel))).unwrap(), kernel);
        let packed = ruzstd::encoding::compress_to_vec(
            kernel.as_slice(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        // As the kernel's build has it, its size comes after it.
        let packed = [packed, 5004_u32.to_le_bytes().to_vec()].concat();
        assert_eq!(of_bzimage(&image(&packed)).unwrap(), kernel);
    }

    #[test]
    fn what_is_no_kernel_is_refused_with_the_reason() {
        let good = image(&compressed(b"\x7fELF and more"));
        let says = |bytes: &[u8]| of_bzimage(bytes).unwrap_err();
        assert!(says(b"").contains("ends within its setup header"));
        assert!(says(&[0; 2048]).contains("HdrS"));
        assert!(says(&good[..good.len() - 9]).contains("ends within the compressed kernel"));
        assert!(says(&image(&compressed(b"text"))).contains("no ELF"));
        assert!(says(&image(b"BZh9")).contains("none of xz"));
        let mut old = good;
        old[setup::VERSION] = 7;
        old[setup::VERSION + 1] = 2;
        assert!(says(&old).contains("2.08"));
    }
}
