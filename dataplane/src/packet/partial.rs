//! Checksums that a software device left to an offload which never ran, completed. The parser finds such
//! packets ([`crate::drops::DropReason::PartialChecksum`]); its caller has them completed, and parses again.

use super::buffer::Packet;
use super::{checksum, ethernet, ipv4, ipv6, sctp, tcp, udp, wire};

/// Computes the checksum of the TCP segment, UDP datagram or SCTP packet in a frame, over IPv4 or IPv6, whatever
/// stands in its place. False when it holds none that is whole; then nothing has changed.
#[cold]
#[must_use]
pub fn complete_partial<P: Packet>(packet: &mut P) -> bool {
    let frame = packet.bytes_mut();
    if frame.len() < ethernet::HEADER_LEN {
        return false;
    }
    let ethertype = ethernet::ethertype(frame);
    let packet = &mut frame[ethernet::HEADER_LEN..];
    match ethertype {
        ethernet::IPV4 => over_ipv4(packet),
        ethernet::IPV6 => over_ipv6(packet),
        _ => None,
    }
    .is_some()
}

fn over_ipv4(packet: &mut [u8]) -> Option<()> {
    if packet.len() < ipv4::HEADER_LEN || packet[0] >> 4 != 4 || ipv4::is_fragment(packet) {
        return None;
    }
    let (header_len, total_len) = (ipv4::header_len(packet), ipv4::total_len(packet));
    if header_len < ipv4::HEADER_LEN {
        return None;
    }
    let (source, destination) = (ipv4::source(packet), ipv4::destination(packet));
    let protocol = ipv4::protocol(packet);
    fill(packet.get_mut(header_len..total_len)?, protocol, |len| {
        checksum::pseudo_header(source, destination, protocol, len as u16)
    })
}

fn over_ipv6(packet: &mut [u8]) -> Option<()> {
    if packet.len() < ipv6::HEADER_LEN || packet[0] >> 4 != 6 {
        return None;
    }
    let packet = packet.get_mut(..ipv6::total_len(packet))?;
    // A fragment header ends the walk, and is no protocol that has a checksum.
    let chain = ipv6::walk(packet).ok()?;
    let (source, destination) = (ipv6::source(packet), ipv6::destination(packet));
    fill(packet.get_mut(chain.at..)?, chain.protocol, |len| {
        checksum::pseudo_header6(source, destination, chain.protocol, len as u32)
    })
}

/// Fills the checksum in; `pseudo` gives the pseudo header's sum for a length in bytes.
fn fill(segment: &mut [u8], protocol: u8, pseudo: impl Fn(usize) -> u16) -> Option<()> {
    let (covered, at) = match protocol {
        ipv4::TCP if segment.len() >= tcp::HEADER_LEN => (segment, tcp::CHECKSUM),
        ipv4::UDP if segment.len() >= udp::HEADER_LEN => {
            let length = udp::length(segment);
            let datagram = segment.get_mut(..length)?;
            (datagram.len() >= udp::HEADER_LEN).then_some((datagram, udp::CHECKSUM))?
        }
        ipv4::SCTP if segment.len() >= sctp::HEADER_LEN => {
            sctp::set_checksum(segment);
            return Some(());
        }
        _ => return None,
    };
    wire::put_u16(covered, at, 0);
    let sum = match !checksum::add(pseudo(covered.len()), checksum::sum(covered)) {
        // RFC 768: 0 would say that there is none.
        0 if protocol == ipv4::UDP => 0xffff,
        computed => computed,
    };
    wire::put_u16(covered, at, sum);
    Some(())
}

#[cfg(test)]
mod tests;
