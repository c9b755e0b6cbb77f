//! The requests of a measurement as a capture in libpcap's format, so that other generators can send the same ones:
//! testpmd through `net_pcap`, Pktgen, tcpreplay.

use super::flows::{self, Distribution, Flow};
use super::request::{Request, Shape};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Requests of a capture, unless there are more flows: with many more, what a generator reads would leave its caches.
const REQUESTS: usize = 16_384;

/// What begins a file of microseconds and Ethernet, in this machine's byte order, which the number tells.
const MAGIC: u32 = 0xa1b2_c3d4;
/// Version 2.4.
const VERSION: [u16; 2] = [2, 4];
/// As tcpdump has it.
const SNAP_LENGTH: u32 = 262_144;
const ETHERNET: u32 = 1;

/// Writes requests of so many flows, at random.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_file(flows: u32, distribution: Distribution, shape: Shape, file: &Path) -> Result<()> {
    let what = || format!("{}: cannot be written", file.display());
    let mut out = BufWriter::new(File::create(file).with_context(what)?);
    let requests = flows::random(flows, distribution, shape);
    let requests = requests.iter().take(REQUESTS.max(flows as usize));
    write(requests, shape, &mut out).with_context(what)
}

/// Writes the flows' datagrams in their order, one each microsecond.
///
/// # Errors
/// Of writing.
fn write<'a>(flows: impl Iterator<Item = &'a Flow>, shape: Shape, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&MAGIC.to_ne_bytes())?;
    for word in VERSION {
        out.write_all(&word.to_ne_bytes())?;
    }
    // Time zone and accuracy, which nobody uses.
    for word in [0, 0, SNAP_LENGTH, ETHERNET] {
        out.write_all(&word.to_ne_bytes())?;
    }
    let request = Request::new(shape);
    let mut frame = vec![0; shape.len()];
    for (flow, number) in flows.zip(0u32..) {
        let (seconds, microseconds) = (number / 1_000_000, number % 1_000_000);
        for word in [seconds, microseconds, frame.len() as u32, frame.len() as u32] {
            out.write_all(&word.to_ne_bytes())?;
        }
        request.write(flow, &mut frame);
        out.write_all(&frame)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::super::request::Family;
    use super::*;

    #[test]
    fn a_capture_has_each_datagram_behind_its_header() {
        for (family, length) in [(Family::V4, 60), (Family::V6, 80)] {
            let shape = Shape { family, size: 60 };
            let flows: Vec<Flow> = flows::each(3, shape).iter().take(3).copied().collect();
            let mut file = Vec::new();
            write(flows.iter(), shape, &mut file).unwrap();
            let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
            assert_eq!((word(0), word(16), word(20)), (0xa1b2_c3d4, 262_144, 1));
            assert_eq!(file.len(), 24 + 3 * (16 + length));
            let request = Request::new(shape);
            for (number, flow) in flows.iter().enumerate() {
                let at = 24 + number * (16 + length);
                let mut frame = vec![0; length];
                request.write(flow, &mut frame);
                assert_eq!(
                    [word(at), word(at + 4), word(at + 8), word(at + 12)],
                    [0, number as u32, length as u32, length as u32]
                );
                assert_eq!(file[at + 16..at + 16 + length], frame);
            }
        }
    }
}
