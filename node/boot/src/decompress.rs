//! Taking the kernel inside a bzImage out of its compression.

use std::io::Read;

use crate::{Compression, Error, Result, lzop};

/// No kernel has so many bytes; what yields more is damaged or made to do harm.
pub const LIMIT_BYTES: u64 = 512 << 20;

/// Memory that an xz or lzma dictionary may ask for, KiB.
const DICTIONARY_LIMIT_KIB: u32 = 256 << 10;

/// The bytes that each begins with.
const MAGICS: &[(&[u8], Compression)] = &[
    (b"\x1f\x8b", Compression::Gzip),
    (b"BZh", Compression::Bzip2),
    (b"\x5d\x00\x00", Compression::Lzma),
    (b"\xfd7zXZ\0", Compression::Xz),
    (lzop::MAGIC, Compression::Lzo),
    // The legacy frame, as `lz4 -l` writes it, and the one that followed.
    (b"\x02\x21\x4c\x18", Compression::Lz4),
    (b"\x04\x22\x4d\x18", Compression::Lz4),
    (b"\x28\xb5\x2f\xfd", Compression::Zstd),
    (b"\x7fELF", Compression::None),
];

impl Compression {
    /// Compression that `payload` begins with.
    pub fn of(payload: &[u8]) -> Result<Self> {
        let found = MAGICS.iter().find(|(magic, _)| payload.starts_with(magic));
        found.map(|&(_, compression)| compression).ok_or_else(|| {
            let mut first = [0; 6];
            let shown = payload.len().min(first.len());
            first[..shown].copy_from_slice(&payload[..shown]);
            Error::UnknownCompression(first)
        })
    }

    /// The bytes before they were compressed. What follows the compressed
    /// stream is ignored, and more than [`LIMIT_BYTES`] is an error.
    pub fn decompress(self, payload: &[u8]) -> Result<Vec<u8>> {
        self.decompress_within(payload, LIMIT_BYTES)
    }

    fn decompress_within(self, payload: &[u8], limit_bytes: u64) -> Result<Vec<u8>> {
        let read = |reader: &mut dyn Read| self.read(reader, limit_bytes);
        let failed = |reason: String| Error::Decompress { compression: self, reason };
        match self {
            Compression::None => Ok(payload.to_vec()),
            Compression::Gzip => read(&mut flate2::bufread::GzDecoder::new(payload)),
            Compression::Bzip2 => read(&mut bzip2::bufread::BzDecoder::new(payload)),
            Compression::Lzma => {
                let reader =
                    lzma_rust2::LzmaReader::new_mem_limit(payload, DICTIONARY_LIMIT_KIB, None);
                read(&mut reader.map_err(|error| failed(error.to_string()))?)
            }
            Compression::Xz => {
                let one_stream = false;
                read(&mut lzma_rust2::XzReader::new_mem_limit(
                    payload,
                    one_stream,
                    DICTIONARY_LIMIT_KIB,
                ))
            }
            Compression::Lz4 => read(&mut lz4_flex::frame::FrameDecoder::new(payload)),
            Compression::Zstd => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(payload);
                read(&mut decoder.map_err(|error| failed(error.to_string()))?)
            }
            Compression::Lzo => lzop::decompress(payload, limit_bytes).map_err(failed),
        }
    }

    fn read(self, reader: &mut dyn Read, limit_bytes: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = reader.take(limit_bytes + 1).read_to_end(&mut bytes);
        read.map_err(|error| Error::Decompress { compression: self, reason: error.to_string() })?;
        if bytes.len() as u64 > limit_bytes {
            return Err(Error::TooLarge { compression: self, limit_bytes });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// `bytes` as the kernel's build would have packed them.
    pub(crate) fn compress(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::None => bytes.to_vec(),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Lzma => {
                let options = lzma_rust2::LzmaOptions::with_preset(0);
                let mut writer =
                    lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, None).unwrap();
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Compression::Xz => {
                // The kernel's xz_wrap.sh: the x86 filter, a CRC32 as check.
                let mut options = lzma_rust2::XzOptions::with_preset(0);
                options.set_check_sum_type(lzma_rust2::CheckType::Crc32);
                options.prepend_pre_filter(lzma_rust2::FilterType::BcjX86, 0);
                let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Compression::Lz4 => {
                let frame = lz4_flex::frame::FrameInfo::new().legacy_frame(true);
                let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => ruzstd::encoding::compress_to_vec(
                bytes,
                ruzstd::encoding::CompressionLevel::Fastest,
            ),
            Compression::Lzo => lzop::tests::compress(bytes),
        }
    }

    pub(crate) const ALL: [Compression; 8] = [
        Compression::Gzip,
        Compression::Bzip2,
        Compression::Lzma,
        Compression::Xz,
        Compression::Lzo,
        Compression::Lz4,
        Compression::Zstd,
        Compression::None,
    ];

    /// Something like a kernel: runs, zeros, and an ELF file's first bytes.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            (any::<u8>(), 0..9000usize).prop_map(|(byte, n)| vec![byte; n]),
        ];
        prop::collection::vec(piece, 0..12)
            .prop_map(|pieces| [b"\x7fELF".to_vec()].into_iter().chain(pieces).flatten().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn each_gives_back_what_was_compressed(bytes in content()) {
            for compression in ALL {
                let packed = compress(compression, &bytes);
                prop_assert_eq!(Compression::of(&packed).unwrap(), compression);
                let unpacked = compression.decompress(&packed);
                prop_assert!(unpacked.is_ok(), "{}: {:?}", compression, unpacked.err());
                prop_assert_eq!(unpacked.unwrap(), bytes.clone(), "{}", compression);
            }
        }

        #[test]
        fn a_truncated_or_damaged_payload_is_an_error_or_other_bytes_and_never_a_panic(
            bytes in content(), cut in any::<prop::sample::Index>(), flip in any::<u8>(),
        ) {
            for compression in ALL {
                let mut packed = compress(compression, &bytes);
                let at = cut.index(packed.len());
                packed[at] ^= flip;
                let _ = compression.decompress(&packed);
                let _ = compression.decompress(&packed[..at]);
            }
        }
    }

    #[test]
    fn what_no_kernel_begins_with_is_named() {
        let error = Compression::of(b"MZ").unwrap_err();
        assert!(error.to_string().contains("[4d, 5a, 00, 00, 00, 00]"), "{error}");
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        for compression in ALL.into_iter().filter(|&one| one != Compression::None) {
            let bomb = compress(compression, &vec![0; 3 << 20]);
            assert!(compression.decompress_within(&bomb, 3 << 20).is_ok(), "{compression}");
            assert!(compression.decompress_within(&bomb, (3 << 20) - 1).is_err(), "{compression}");
        }
    }
}
