//! An image with its kernel as it is shipped and in no other form: what a start keeps of
//! the files that it has read.

use std::time::Instant;

use kumiki_boot::Kernel;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::abi;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::stages::LoadParts;

use crate::image::{HEADER_BYTES, Header, ImageInfo, ImageKind, PAGE_BYTES, fill, same_content};
use crate::origin::Extent;
use crate::watchmen::abandon;
use crate::{Result, json};

/// A kernel in the form that it is shipped in, to be kept so and in no other form.
pub(crate) struct Shipped<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) file: &'a [u8],
    pub(crate) initramfs: &'a [u8],
    pub(crate) unpacked_bytes: u64,
    pub(crate) config: Option<String>,
}

impl Shipped<'_> {
    /// Puts it into memory under this name. An image of that name and content, which
    /// another start has kept meanwhile, is as good.
    pub(crate) fn keep(
        self,
        name: &str,
        sha256: String,
        parts: &mut LoadParts,
    ) -> Result<ImageInfo> {
        let begin = Instant::now();
        let kernel_bytes = Extent { at: HEADER_BYTES, bytes: self.file.len() as u64 };
        let at = (kernel_bytes.at + kernel_bytes.bytes).next_multiple_of(PAGE_BYTES);
        let header = Header {
            version: 1,
            sha256,
            kernel: self.kernel.clone(),
            kernel_bytes,
            bzimage: Some(self.kernel.clone()),
            bzimage_bytes: kernel_bytes,
            initramfs: Extent { at, bytes: self.initramfs.len() as u64 },
            unpacked_bytes: self.unpacked_bytes,
            config: self.config,
            root: None,
        };
        let json = json(&header)?;
        let total = (at + header.initramfs.bytes).next_multiple_of(abi::PIECE_UNIT);
        let (device, _) = match Device::create(Holding::Image, name) {
            Ok(device) => device,
            Err(error) => {
                let same = same_content(&header.sha256)?.filter(|image| image.name == name);
                return same.ok_or(error);
            }
        };
        let places = [(16, &json[..]), (kernel_bytes.at, self.file), (at, self.initramfs)];
        let took = fill(&device, total, &places, json.len(), None).inspect_err(|_| {
            abandon(&device);
        })?;
        parts.place_kernel_ms += took[1];
        parts.place_initramfs_ms += took[2];
        parts.keep_ms += begin.elapsed().as_secs_f64() * 1e3;
        Ok(ImageInfo {
            name: name.to_owned(),
            kind: ImageKind::Kernel,
            of: None,
            release: header.kernel.release().map(str::to_owned),
            bytes: total,
            sha256: Some(header.sha256),
            config: header.config,
            state: "sealed".to_owned(),
            nodes: Vec::new(),
            same_as: Vec::new(),
        })
    }
}
