//! IP headers of either family as what goes from one to the other: read from the one, written as the other. For the
//! packets themselves and for those that ICMP errors quote, which RFC 7915 4.3 and 5.3 translate alike.

use std::ops::Range;

use super::Target;
use super::length::IPV4_LEAST;
use crate::drops::DropReason;
use crate::packet::{checksum, ipv4, ipv6};

/// Where source and destination stand in the header of each family.
pub(super) const ADDRESSES4: Range<usize> = 12..20;
pub(super) const ADDRESSES6: Range<usize> = 8..40;

/// What an IP header says that means the same in the other family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Carried {
    /// Type of service or traffic class.
    pub(super) tos: u8,
    /// TTL or hop limit.
    pub(super) ttl: u8,
    /// The number of the protocol behind all headers.
    pub(super) protocol: u8,
    /// The length of what that protocol's header begins, in bytes, as the IP header says.
    pub(super) l4_len: usize,
    /// The packet is, or came as, one piece: only then does its length decide whether it may be cut in IPv4.
    pub(super) whole: bool,
    /// It is the first of several fragments: only in quotes.
    pub(super) fragment: Option<FirstFragment>,
}

/// The first fragment of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FirstFragment {
    /// In host order; IPv4's in the lower half (RFC 7915 4.1, 5.1.1).
    identification: u32,
    /// Whether others follow: not so in an atomic fragment (RFC 6946).
    more: bool,
}

impl Carried {
    /// Reads the headers of `packet`, of either family, whose L4 header begins at `l4`. The packet may be cut behind
    /// its L4 header, as quotes are.
    ///
    /// # Errors
    /// [`DropReason::BadExtensionHeader`] as [`ipv6::walk`], [`DropReason::BadIpHeader`] when it has no such headers.
    pub(super) fn read(packet: &[u8], l4: usize) -> Result<Carried, DropReason> {
        let fits = |least: usize| l4 >= least && packet.len() >= l4;
        match packet.first().map_or(0, |first| first >> 4) {
            4 if fits(ipv4::HEADER_LEN) => read4(packet, l4),
            6 if fits(ipv6::HEADER_LEN) => read6(packet, l4),
            _ => Err(DropReason::BadIpHeader),
        }
    }

    /// The length in bytes of what [`Carried::write`] writes.
    pub(super) const fn header_len(&self, v6: bool) -> usize {
        match (v6, self.fragment) {
            (false, _) => ipv4::HEADER_LEN,
            (true, None) => ipv6::HEADER_LEN,
            (true, Some(_)) => ipv6::HEADER_LEN + ipv6::FRAGMENT_LEN,
        }
    }

    /// Writes the header of the target's family at the front of `out`, with the target's addresses.
    pub(super) fn write(&self, out: &mut [u8], to: &Target) {
        match to {
            Target::V4 { .. } => self.write4(out, to),
            Target::V6 { .. } => self.write6(out, to),
        }
    }

    fn write4(&self, out: &mut [u8], to: &Target) {
        let Target::V4 {
            source,
            destination,
            identification,
        } = to
        else {
            return;
        };
        let total_len = u16::try_from(ipv4::HEADER_LEN + self.l4_len).unwrap_or(u16::MAX);
        let fields = ipv4::Fields {
            tos: self.tos,
            total_len,
            // RFC 7915 5.1.1: the lower half.
            identification: self
                .fragment
                .map_or(*identification, |piece| piece.identification as u16),
            // RFC 7915 5.1: a router tells IPv6 senders of no MTU below IPv6's least, so that what is no longer than
            // that is cut on a narrower way.
            dont_fragment: self.whole && self.fragment.is_none() && total_len > IPV4_LEAST,
            ttl: self.ttl,
            protocol: self.protocol,
            source: *source.ip(),
            destination: *destination.ip(),
        };
        ipv4::write(out, &fields);
        if self.fragment.is_some_and(|piece| piece.more) {
            ipv4::set_fragment(out, total_len, 0, true);
        }
    }

    fn write6(&self, out: &mut [u8], to: &Target) {
        let Target::V6 { source, destination } = to else {
            return;
        };
        let between = self.header_len(true) - ipv6::HEADER_LEN;
        let fields = ipv6::Fields {
            traffic_class: self.tos,
            flow_label: 0,
            payload_len: u16::try_from(between + self.l4_len).unwrap_or(u16::MAX),
            next_header: if self.fragment.is_some() {
                ipv6::FRAGMENT
            } else {
                self.protocol
            },
            hop_limit: self.ttl,
            source: *source.ip(),
            destination: *destination.ip(),
        };
        ipv6::write(out, &fields);
        if let Some(piece) = self.fragment {
            ipv6::Fragment {
                next_header: self.protocol,
                offset: 0,
                more: piece.more,
                identification: piece.identification,
            }
            .write(&mut out[ipv6::HEADER_LEN..]);
        }
    }
}

fn read4(packet: &[u8], l4: usize) -> Result<Carried, DropReason> {
    let l4_len = ipv4::total_len(packet).checked_sub(l4);
    let l4_len = l4_len.filter(|_| ipv4::header_len(packet) == l4 && !ipv4::is_later_fragment(packet));
    Ok(Carried {
        tos: ipv4::tos(packet),
        ttl: ipv4::ttl(packet),
        protocol: ipv4::protocol(packet),
        l4_len: l4_len.ok_or(DropReason::BadIpHeader)?,
        whole: !ipv4::is_fragment(packet),
        fragment: ipv4::is_fragment(packet).then(|| FirstFragment {
            identification: u32::from(ipv4::identification(packet)),
            more: ipv4::more_fragments(packet),
        }),
    })
}

fn read6(packet: &[u8], l4: usize) -> Result<Carried, DropReason> {
    let mut chain = ipv6::walk(packet)?;
    let mut fragment = None;
    if chain.protocol == ipv6::FRAGMENT {
        let header = packet.get(chain.at..).and_then(<[u8]>::first_chunk);
        let header: &[u8; ipv6::FRAGMENT_LEN] = header.ok_or(DropReason::BadIpHeader)?;
        let piece = ipv6::Fragment::read(header);
        if piece.offset != 0 {
            return Err(DropReason::BadIpHeader);
        }
        fragment = Some(FirstFragment {
            identification: piece.identification,
            more: piece.more,
        });
        chain = ipv6::walk_on(packet, chain.at, chain.at + ipv6::FRAGMENT_LEN)?;
    }
    let l4_len = ipv6::total_len(packet).checked_sub(l4).filter(|_| chain.at == l4);
    Ok(Carried {
        tos: ipv6::traffic_class(packet),
        ttl: ipv6::hop_limit(packet),
        protocol: chain.protocol,
        l4_len: l4_len.ok_or(DropReason::BadIpHeader)?,
        whole: fragment.is_none(),
        fragment,
    })
}

/// The folded sum of both addresses of a packet whose header [`Carried::read`] has read, in host order.
pub(super) fn sum_of_addresses(packet: &[u8]) -> u16 {
    match packet[0] >> 4 {
        4 => checksum::sum(&packet[ADDRESSES4]),
        _ => checksum::sum(&packet[ADDRESSES6]),
    }
}

/// Whether IPv4 options hold a source route that has not been walked to its end (RFC 791 3.1): its pointer, which
/// counts from 1, is not behind its last byte.
pub(super) fn has_hops_left(options: &[u8]) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_ROUTE: u8 = 131;
    const STRICT_ROUTE: u8 = 137;
    let mut rest = options;
    loop {
        rest = match rest {
            [] | [END, ..] => return false,
            [NO_OPERATION, after @ ..] => after,
            [LOOSE_ROUTE | STRICT_ROUTE, len, pointer, ..] if pointer <= len => return true,
            [_, len, ..] if *len >= 2 => rest.get(usize::from(*len)..).unwrap_or_default(),
            // Nobody can tell what follows an option whose length cannot be.
            _ => return false,
        };
    }
}
