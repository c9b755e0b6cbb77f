//! What ideal servers, and the plainest forwarder, do to a frame.

use super::request::{FRAME, L4};
use super::setup::{GATEWAY_LAN, ROUTER};
use dataplane::packet::Packet;

/// A frame that began as a client's, and where its ports are: the gateway's own are none of TCP or UDP here, nor do they
/// have a header within another one.
#[inline]
pub(super) fn client_frame(frame: &mut impl Packet) -> Option<(&mut [u8], usize)> {
    let bytes = frame.bytes_mut();
    match bytes.get(12..14)? {
        [8, 0] => Some((bytes, L4[0])),
        [0x86, 0xdd] if *bytes.get(20)? != ICMPV6 => Some((bytes, L4[1])),
        _ => None,
    }
}

/// What neighbour discovery is made of.
const ICMPV6: u8 = 58;

/// Swaps IP addresses and ports, which no checksum minds, and addresses the frame to the gateway. Both addresses end where
/// the ports begin.
#[inline]
pub(super) fn turn_round(frame: &mut [u8], l4: usize) {
    match l4 {
        V4 => turn_round_of::<4, { V4 + 4 }>(frame),
        _ => turn_round_of::<16, { V6 + 4 }>(frame),
    }
}

const V4: usize = L4[0];
const V6: usize = L4[1];

/// For addresses of `ADDRESS` bytes, and ports that end at `END`.
#[inline]
fn turn_round_of<const ADDRESS: usize, const END: usize>(frame: &mut [u8]) {
    let Some(frame) = frame.first_chunk_mut::<END>() else {
        return;
    };
    frame[..6].copy_from_slice(&GATEWAY_LAN.0);
    frame[6..12].copy_from_slice(&ROUTER.0);
    let (before, [a, b, c, d]) = frame.split_at_mut(END - 4) else {
        return;
    };
    std::mem::swap(a, c);
    std::mem::swap(b, d);
    let at = before.len() - 2 * ADDRESS;
    let (source, destination) = before[at..].split_at_mut(ADDRESS);
    source.swap_with_slice(destination);
}

/// Swaps the MAC addresses: all that the plainest forwarder does to a frame.
#[inline]
pub(super) fn swap_macs(frame: &mut [u8; FRAME]) {
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&frame[6..12]);
    macs[6..].copy_from_slice(&frame[..6]);
    frame[..12].copy_from_slice(&macs);
}
