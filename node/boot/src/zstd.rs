//! Zstandard, one frame at a time: compressed as it is read, unpacked as it is asked for.

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, FrameCompressor};

/// A source that is read and a drain that is written until either fails: the compressor cannot
/// be told.
struct Until<T> {
    inner: T,
    failed: Option<io::Error>,
}

impl<T> Until<T> {
    fn of(inner: T) -> Self {
        Until { inner, failed: None }
    }
}

impl<T: Read> Read for Until<T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_some() {
            return Ok(0);
        }
        match self.inner.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read(into),
            Err(error) => {
                self.failed = Some(error);
                Ok(0)
            }
            read => read,
        }
    }
}

impl<T: Write> Write for Until<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed.is_none() {
            self.failed = self.inner.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compresses all that `from` has, quickly rather than well.
pub fn compress(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<()> {
    let mut compressor = FrameCompressor::new(CompressionLevel::Fastest);
    compressor.set_source(Until::of(from));
    compressor.set_drain(Until::of(BufWriter::new(to)));
    compressor.compress();
    let ends = (compressor.take_source(), compressor.take_drain());
    let (Some(source), Some(mut drain)) = ends else { return Ok(()) };
    source.failed.map_or(Ok(()), Err)?;
    drain.failed.take().map_or(Ok(()), Err)?;
    drain.inner.flush()
}

/// A frame, unpacked as it is read.
pub struct Unpacked<'a>(StreamingDecoder<BufReader<Box<dyn Read + 'a>>, FrameDecoder>);

impl fmt::Debug for Unpacked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacked").finish_non_exhaustive()
    }
}

impl<'a> Unpacked<'a> {
    /// Reads the frame's header.
    pub fn of(file: impl Read + 'a) -> io::Result<Self> {
        let file: Box<dyn Read> = Box::new(file);
        let decoder = StreamingDecoder::new(BufReader::new(file));
        decoder.map(Unpacked).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_is_unpacked_and_a_part_of_it_is_an_error() {
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut packed = Vec::new();
        compress(&mut &bytes[..], &mut packed).unwrap();
        assert!(packed.len() < bytes.len() / 2, "{}", packed.len());
        let unpack = |packed: &[u8]| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            Unpacked::of(packed)?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        assert!(unpack(&packed).unwrap() == bytes);
        assert!(unpack(&packed[..packed.len() / 2]).is_err());
        assert!(unpack(b"none").is_err());
    }

    #[test]
    fn an_end_that_fails_is_an_error() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        impl Write for Fails {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = compress(&mut &[1; 300_000][..], &mut Fails).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let error = compress(&mut Fails, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
