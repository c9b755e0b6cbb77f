//! The two ends of a packet, whatever its family, for the stages that are not in a hurry.

use super::schedule::Ends;
use crate::packet::{Headers, Kind, ipv6};
use std::net::IpAddr;

/// Source and destination of a parsed packet; the addresses of what carries neither family are 0.
#[inline]
pub(super) fn of(headers: &Headers, frame: &[u8]) -> Ends {
    let (source, destination) = addresses(headers, frame);
    Ends {
        source,
        source_port: headers.key.source_port(),
        destination,
        destination_port: headers.key.destination_port(),
    }
}

/// Source and destination address of a parsed packet.
#[inline]
pub(super) fn addresses(headers: &Headers, frame: &[u8]) -> (IpAddr, IpAddr) {
    match headers.kind {
        Kind::Flow6 | Kind::Icmp6 | Kind::Fragment6 => {
            let packet = frame.get(usize::from(headers.l3)..).unwrap_or(&[]);
            (ipv6::source(packet).into(), ipv6::destination(packet).into())
        }
        Kind::Flow | Kind::Icmp | Kind::Fragment | Kind::Arp => {
            (headers.key.source().into(), headers.key.destination().into())
        }
    }
}

/// Both addresses of a parsed IPv6 packet as they stand in its header; zero when the frame does not hold them,
/// which cannot be after parsing.
#[inline]
pub(super) fn addresses6<'f>(headers: &Headers, frame: &'f [u8]) -> &'f [u8; 32] {
    frame
        .get(usize::from(headers.l3) + 8..)
        .and_then(|rest| rest.first_chunk())
        .unwrap_or(&[0; 32])
}
