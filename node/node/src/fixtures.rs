//! Bytes made up where another kernel or a person writes, and everything that is read of
//! them: for fuzzing, and for its twin among the tests.
//!
//! Nothing here may panic. What a reader makes of such bytes is an error, or something
//! within the bounds that are asserted.

use std::time::{Duration, Instant};

use kumiki_boot::{Piece, WINDOW_BYTES};
use kumiki_node_devices::clocks::Clocks;
use kumiki_node_devices::grant::Grant;
use kumiki_node_devices::record::Record;
use kumiki_node_image::image::{Image, KernelForm};
use kumiki_node_image::load;
use kumiki_node_wire::early::{self, StartId};
use kumiki_node_wire::link::{self, BODY_LIMIT};
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::ring::Ring;
use kumiki_node_wire::silence::silent;
use kumiki_node_wire::stages::{Loading, Stages};
use kumiki_node_wire::window::{Window, has_ended, meaning};
use kumiki_node_wire::wish::Wish;
use kumiki_stream::Kind;
use kumiki_stream::exec::Ending;
use kumiki_stream::frame::decode;

use crate::host::spec::{Cpus, MemorySource, Spec};

pub use crate::machine::fixtures::machine;

const CLOCKS: Clocks = Clocks { tsc_khz: 2_000_000, pm_timer: None };
/// Pieces of a window lie at multiples of this.
const STEP_BYTES: usize = 32;

/// A window that holds `bytes`: again and again a place (u16), a length (u8) and as many
/// bytes. Read as the host and the agent read it.
pub fn window(mut bytes: &[u8]) {
    let memory = Memory::zeroed(WINDOW_BYTES);
    while let [low, high, length, rest @ ..] = bytes {
        let (content, others) = rest.split_at(rest.len().min(usize::from(*length)));
        let place = usize::from(u16::from_le_bytes([*low, *high])) * STEP_BYTES;
        memory.write(place.min(memory.bytes() - content.len()), content);
        bytes = others;
    }
    let window = Window::new(memory);
    words(&window);
    for number in 0..abi::CHANNELS {
        let channel = window.channel(number);
        frames(&channel.to_host);
        frames(&channel.to_node);
        channel.free();
        assert_eq!(channel.state(), abi::CHANNEL_FREE);
    }
}

fn words(window: &Window) {
    let word = window.word();
    let _ = (meaning(word), has_ended(word), window.wants_reset(), window.is_lent());
    assert!(window.message().len() <= 3 * abi::MESSAGE_BYTES);
    let log = window.log();
    assert!(log.len() <= abi::LOG_BYTES);
    // From somewhere in it, and from behind its end.
    for mut seen in [window.log_head() / 2, window.log_head().wrapping_add(1)] {
        assert!(window.log_since(&mut seen).len() <= abi::LOG_BYTES);
        assert_eq!(seen, window.log_head());
    }
    if let Ok(record) = serde_json::from_slice::<Record>(&window.record()) {
        assert!(record.to_json().is_err() || record.to_json().is_ok_and(|json| !json.is_empty()));
    }
    let lines = early::lines(&log);
    let _ = silent("n1", window, &lines, "did not answer", Duration::ZERO).to_string();
    let loading = Loading::since(Instant::now());
    let stages = Stages::of(loading, Duration::ZERO, Duration::from_secs(1), window);
    assert!(stages.trampoline_ms.is_finite() && stages.kernel_ms.is_finite());
}

/// Takes what there is to an end or an error; whoever made it up wrote it once.
fn frames(ring: &Ring<'_>) {
    let mut read = 0;
    while let Ok(Some((kind, body))) = link::take(ring) {
        read += body.len();
        assert!(read <= abi::RING_BYTES && body.len() <= BODY_LIMIT);
        match kind {
            Kind::Open => {
                if let Ok(Wish::Lend(grant)) = decode(kind, &body) {
                    drop(serde_json::from_slice::<Grant>(&grant));
                }
            }
            Kind::Close => drop(Ending::of_body(&body)),
            _ => {}
        }
    }
    let _ = link::put(ring, Kind::Output, b"more");
}

/// An image whose header says this, and a node of 64 MiB that is to start from it.
pub fn image(json: &[u8]) {
    let memory = Memory::zeroed(abi::PIECE_UNIT);
    let Ok(image) = Image::with_header(memory, json) else { return };
    let first = Piece { address: 1 << 30, bytes: 64 << 20 };
    let entry = sysfs::Status {
        name: "n1".into(),
        state: "created".into(),
        owner: 0,
        pieces: vec![first],
        cpus: vec![(3, 3), (2, 2)],
        slice: 0x3_0000,
        word: abi::WORD_SILENT,
    };
    let spec = Spec {
        name: "n1".into(),
        image: "x".into(),
        cpus: Cpus::Count(2),
        numa: Vec::new(),
        elastic: None,
        memory_limits: None,
        memory_bytes: vec![first.bytes],
        memory_from: MemorySource::Any,
        command_line: String::new(),
        devices: vec![],
        init: None,
        pci: Vec::new(),
        dma_unconfined: false,
    };
    let record = spec.record(vec![3, 2]);
    for form in [KernelForm::Vmlinux, KernelForm::BzImage] {
        let Ok(origin) = image.origin(form) else { continue };
        let Ok(plan) = load::plan(&entry, &record, &origin, CLOCKS, StartId::now()) else {
            continue;
        };
        for write in &plan.writes {
            let end = write.address + write.source.bytes();
            let within = |from: u64, bytes: u64| from <= write.address && end <= from + bytes;
            assert!(
                within(first.address, first.bytes) || within(entry.slice, kumiki_boot::SLICE_BYTES)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Address at which kernels are linked.
    const LINKED_AT: u64 = 16 << 20;

    /// Offsets at which something is read: words, channels, record, log, rings.
    fn place() -> impl Strategy<Value = u16> {
        let near = [0, 0x1000, abi::RECORD_AT, abi::LOG_AT, abi::RINGS_AT];
        prop_oneof![
            (prop::sample::select(near.to_vec()), 0..32_u16)
                .prop_map(|(at, step)| (at / STEP_BYTES) as u16 + step),
            any::<u16>(),
        ]
    }

    /// Small numbers are what lengths and counters are; text is what is parsed.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            prop::collection::vec(0..40_u32, 1..16)
                .prop_map(|words| words.into_iter().flat_map(u32::to_le_bytes).collect()),
            r"\{.{0,60}\}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_window_is_read_to_an_end(
            parts in prop::collection::vec((place(), content()), 0..12),
        ) {
            let bytes = parts.into_iter().flat_map(|(place, content)| {
                let content = &content[..content.len().min(255)];
                [&place.to_le_bytes()[..], &[content.len() as u8], content].concat()
            });
            window(&bytes.collect::<Vec<u8>>());
        }

        #[test]
        fn any_image_header_is_an_error_or_stays_within_the_node(
            kernel in kernel(), other in kernel(), parts in prop::array::uniform3((number(), number())),
        ) {
            let [kernel_bytes, bzimage_bytes, initramfs] =
                parts.map(|(at, bytes)| json!({ "at": at, "bytes": bytes }));
            let header = json!({
                "version": 1, "sha256": "", "kernel": kernel, "kernel_bytes": kernel_bytes,
                "bzimage": other, "bzimage_bytes": bzimage_bytes, "initramfs": initramfs,
            });
            image(header.to_string().as_bytes());
        }
    }

    /// Mostly as a kernel has it: small, or near where it was linked.
    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            8 => 0..0x1000_u64,
            8 => (0..0x1000_u64).prop_map(|n| LINKED_AT + n),
            1 => any::<u64>(),
        ]
    }

    fn kernel() -> impl Strategy<Value = Value> {
        let address = prop_oneof![8 => Just(LINKED_AT), 1 => any::<u64>()];
        let vmlinux = (number(), address, number(), number(), number()).prop_map(
            |(entry, address, offset, bytes, memory_bytes)| {
                json!({ "vmlinux": {
                    "entry": entry, "checks_bsp_bit": true, "segments": [{
                        "address": address, "offset": offset, "bytes": bytes,
                        "memory_bytes": memory_bytes,
                    }],
                } })
            },
        );
        let bzimage = prop::array::uniform4(number()).prop_map(|n| {
            json!({ "bzimage": {
                "protected_at": n[0], "file_bytes": n[1], "init_bytes": n[2], "alignment": n[3] | 1,
            } })
        });
        let header = prop_oneof![Just(0), Just(0x7b), 0..8192_usize];
        (prop_oneof![vmlinux, bzimage], header, number()).prop_map(|(form, header, limit)| {
            json!({
                "form": form, "header": vec![0_u8; header], "version": null,
                "command_line_limit": limit, "above_4g": true,
            })
        })
    }
}
