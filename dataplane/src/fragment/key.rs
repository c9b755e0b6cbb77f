//! What the fragments of one datagram have in common.

use super::L3;
use crate::packet::{AddressDigest, Headers, Kind, PortId, ipv4, ipv6};

/// The name of a datagram that arrives in fragments. Fragments with equal keys belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramKey {
    /// Source and destination as they stand in the IP header; an IPv4 pair is padded by zeroes.
    addresses: [u8; 32],
    identification: u32,
    /// The protocol of IPv4. 0 for IPv6, whose fragments may differ in their next header (RFC 8200 4.5).
    protocol: u8,
    is_v6: bool,
    port: PortId,
}

impl DatagramKey {
    /// The key of a parsed fragment that arrived at `port`; none when it is no fragment. `frame` begins with its
    /// Ethernet header.
    #[must_use]
    pub fn of(frame: &[u8], headers: &Headers, port: PortId) -> Option<DatagramKey> {
        let packet = frame.get(L3..)?;
        match headers.kind {
            Kind::Fragment => {
                let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
                let mut addresses = [0; 32];
                addresses[..8].copy_from_slice(&header[12..20]);
                Some(DatagramKey {
                    addresses,
                    identification: u32::from(ipv4::identification(header)),
                    protocol: ipv4::protocol(header),
                    is_v6: false,
                    port,
                })
            }
            Kind::Fragment6 => {
                let header = frame
                    .get(usize::from(headers.l4)..)?
                    .first_chunk::<{ ipv6::FRAGMENT_LEN }>()?;
                Some(DatagramKey {
                    addresses: ipv6::addresses(packet.first_chunk::<{ ipv6::HEADER_LEN }>()?),
                    identification: ipv6::Fragment::read(header).identification,
                    protocol: 0,
                    is_v6: true,
                    port,
                })
            }
            _ => None,
        }
    }

    /// Whether it is an IPv6 datagram.
    #[must_use]
    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Where its fragments arrive.
    #[must_use]
    pub fn port(&self) -> PortId {
        self.port
    }

    /// The identification, host order: 16 bits of IPv4, 32 of IPv6.
    #[must_use]
    pub fn identification(&self) -> u32 {
        self.identification
    }

    /// A keyed hash: where the datagram stands in the table, and what names the worker that puts it together. It
    /// depends on everything but the port.
    #[must_use]
    pub fn hash(&self, digest: &AddressDigest) -> u64 {
        let mut rest = [0; 32];
        rest[..8].copy_from_slice(&digest.of(&self.addresses).to_ne_bytes());
        rest[8..12].copy_from_slice(&self.identification.to_ne_bytes());
        rest[12] = self.protocol;
        rest[13] = u8::from(self.is_v6);
        digest.of(&rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment::samples::{PORT, Sample, headers, pattern};
    use std::collections::HashSet;

    fn key(frame: &[u8], port: PortId) -> DatagramKey {
        DatagramKey::of(frame, &headers(frame), port).unwrap()
    }

    /// All fragments of a datagram are put together by the same worker, which must not depend on where in the
    /// datagram they are. In IPv6 the next header may differ, and extension headers may stand before.
    #[test]
    fn fragments_of_a_datagram_have_one_key_and_one_hash() {
        let digest = AddressDigest::from_seed(1);
        for sample in [
            Sample::v4(7, &[7, 3, 4, 0], pattern(64)),
            Sample::v6(7, 2, pattern(64)),
        ] {
            let first = key(&sample.piece(0, 32), PORT);
            let mut last = sample.piece(32, 64);
            if sample.is_v6 {
                let at = last.len() - 40;
                last[at] = 6;
            }
            assert_eq!((first, first.identification()), (key(&last, PORT), 7));
            let elsewhere = key(&last, PortId(9));
            assert_ne!(first, elsewhere);
            assert_eq!(first.hash(&digest), elsewhere.hash(&digest));
            assert_ne!(first.hash(&digest), first.hash(&AddressDigest::from_seed(2)));
        }
    }

    #[test]
    fn datagrams_are_spread() {
        let digest = AddressDigest::from_seed(1);
        let mut low = HashSet::new();
        for id in 0..1000 {
            for sample in [
                Sample::v4(id, &[], pattern(16)),
                Sample::v6(id.into(), 0, pattern(16)),
            ] {
                low.insert(key(&sample.piece(0, 8), PORT).hash(&digest) as u16);
            }
        }
        // By chance, 2,000 of 65,536 values meet about 30 times.
        assert!(low.len() > 1900, "{}", low.len());
    }

    #[test]
    fn what_is_no_fragment_has_no_key() {
        let frame = Sample::v4(7, &[], pattern(64)).whole();
        assert_eq!(DatagramKey::of(&frame, &Headers::NONE, PORT), None);
        let short = headers(&frame);
        assert_eq!(DatagramKey::of(&frame[..33], &short, PORT), None);
    }
}
