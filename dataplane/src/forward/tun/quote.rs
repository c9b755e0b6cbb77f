//! ICMP errors about a tunnel: a router between gateway and server quotes the outer header, and behind it, when the
//! quote is long enough, the client's packet. Routers may quote anything, so nothing here is taken on trust.

use crate::packet::ipv4::{IPV4_INSIDE, IPV6_INSIDE};
use crate::packet::{ethernet, gre, gue, ipv4, ipv6};
use std::ops::Range;

/// What an ICMP error has to quote of an L4 header at least, in bytes (RFC 792): ports, or type and identifier.
const QUOTED_L4: usize = 8;

/// Where the client's packet lies in `quote`, what an ICMP error quotes from an outer IP header of ours on. `is_gue`
/// tells the UDP ports (host order) that GUE tunnels go to. The range begins with the client's IP header, and ends
/// with the client's packet or with what is quoted of it; padding that a router may add (RFC 4884 5.1) is left out.
///
/// `None` when the quote is no tunnel of ours, or holds less than the client's IP header and 8 bytes after it, or
/// when its lengths contradict each other, or when it is a fragment behind the first.
#[must_use]
pub fn unwrap_quote(quote: &[u8], is_gue: impl Fn(u16) -> bool) -> Option<Range<usize>> {
    let outer = OuterHeader::read(quote)?;
    let tunnelled = quote.get(outer.len..outer.end.min(quote.len()))?;
    let (version, shim) = match outer.protocol {
        IPV4_INSIDE => (4, 0),
        IPV6_INSIDE => (6, 0),
        gre::PROTOCOL => {
            let (ethertype, shim) = gre::payload(tunnelled)?;
            let version = match ethertype {
                ethernet::IPV4 => 4,
                ethernet::IPV6 => 6,
                _ => return None,
            };
            (version, shim)
        }
        ipv4::UDP if is_gue(gue::port(tunnelled)?) => {
            let (carried, shim) = gue::payload(tunnelled)?;
            let version = match carried {
                IPV4_INSIDE => 4,
                IPV6_INSIDE => 6,
                _ => return None,
            };
            (version, shim)
        }
        _ => return None,
    };
    let start = outer.len + shim;
    let inner = tunnelled.get(shim..)?;
    let (header_len, len) = lengths(inner, version)?;
    let end = start + len;
    let fits = end <= outer.end || outer.more_fragments;
    (fits && len.min(inner.len()) >= header_len + QUOTED_L4).then(|| start..end.min(start + inner.len()))
}

/// What the quote says of the outer packet; lengths and offsets from the quote's begin, in bytes.
struct OuterHeader {
    /// The protocol number of the tunnel.
    protocol: u8,
    /// The length of the header, and of the fragment header where there is one.
    len: usize,
    /// The end of the packet, or of its first fragment, which may be beyond what is quoted.
    end: usize,
    /// Whether this is the first of several fragments, so that more than this was wrapped.
    more_fragments: bool,
}

impl OuterHeader {
    fn read(quote: &[u8]) -> Option<OuterHeader> {
        let version = quote.first()? >> 4;
        let (len, end) = lengths(quote, version)?;
        match version {
            4 => {
                let flags = u16::from_be_bytes([quote[6], quote[7]]);
                (flags & 0x1fff == 0).then(|| OuterHeader {
                    protocol: ipv4::protocol(quote),
                    len,
                    end,
                    more_fragments: flags & 0x2000 != 0,
                })
            }
            _ if ipv6::next_header(quote) == ipv6::FRAGMENT => {
                let header = quote.get(len..len + ipv6::FRAGMENT_LEN)?;
                let fragment = ipv6::Fragment::read(header);
                (fragment.offset == 0).then(|| OuterHeader {
                    protocol: fragment.next_header,
                    len: len + ipv6::FRAGMENT_LEN,
                    end,
                    more_fragments: fragment.more,
                })
            }
            _ => Some(OuterHeader {
                protocol: ipv6::next_header(quote),
                len,
                end,
                more_fragments: false,
            }),
        }
    }
}

/// The length of an IP header and of its whole packet, in bytes, as the header says. `None` when it is not whole, of
/// another version, or longer than its packet.
fn lengths(packet: &[u8], version: u8) -> Option<(usize, usize)> {
    if packet.first()? >> 4 != version {
        return None;
    }
    let (header_len, len) = match version {
        4 if packet.len() >= ipv4::HEADER_LEN => (ipv4::header_len(packet), ipv4::total_len(packet)),
        6 if packet.len() >= ipv6::HEADER_LEN => (ipv6::HEADER_LEN, ipv6::total_len(packet)),
        _ => return None,
    };
    let sane = header_len >= ipv4::HEADER_LEN && header_len <= len && header_len <= packet.len();
    sane.then_some((header_len, len))
}

#[cfg(test)]
mod tests;
