//! The requests of a measurement as a capture in libpcap's format, so that other generators can send the same ones:
//! testpmd through `net_pcap`, Pktgen, tcpreplay.

use super::flows::{self, FRAME, Flow};
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
pub(super) fn write_file(flows: u32, file: &Path) -> Result<()> {
    let what = || format!("{}: cannot be written", file.display());
    let mut out = BufWriter::new(File::create(file).with_context(what)?);
    let requests = flows::random(flows);
    write(requests.iter().take(REQUESTS.max(flows as usize)), &mut out).with_context(what)
}

/// Writes the flows' datagrams in their order, one each microsecond.
///
/// # Errors
/// Of writing.
fn write<'a>(flows: impl Iterator<Item = &'a Flow>, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&MAGIC.to_ne_bytes())?;
    for word in VERSION {
        out.write_all(&word.to_ne_bytes())?;
    }
    // Time zone and accuracy, which nobody uses.
    for word in [0, 0, SNAP_LENGTH, ETHERNET] {
        out.write_all(&word.to_ne_bytes())?;
    }
    for (flow, number) in flows.zip(0u32..) {
        let (seconds, microseconds) = (number / 1_000_000, number % 1_000_000);
        for word in [seconds, microseconds, FRAME as u32, FRAME as u32] {
            out.write_all(&word.to_ne_bytes())?;
        }
        let mut frame = [0; FRAME];
        flow.write(&mut frame);
        out.write_all(&frame)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_each_datagram_behind_its_header() {
        let flows: Vec<Flow> = flows::each(3).iter().take(3).copied().collect();
        let mut file = Vec::new();
        write(flows.iter(), &mut file).unwrap();
        let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(16), word(20)), (0xa1b2_c3d4, 262_144, 1));
        assert_eq!(file.len(), 24 + 3 * (16 + FRAME));
        for (number, flow) in flows.iter().enumerate() {
            let at = 24 + number * (16 + FRAME);
            let mut frame = [0; FRAME];
            flow.write(&mut frame);
            assert_eq!(
                [word(at), word(at + 4), word(at + 8), word(at + 12)],
                [0, number as u32, 60, 60]
            );
            assert_eq!(file[at + 16..at + 16 + FRAME], frame);
        }
    }
}
