//! What of a packet is random, and therefore not compared.

use super::frames::{ICMP, ICMP6, TCP, UDP, fold, hex, sum, transport};
use super::{frames, sctp};

const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
/// IPv6's fragment header.
const FRAGMENT: u8 = 44;

/// Writes packets as the flow recordings do, but for what a sender chooses at random, so that it can be compared:
/// - the IPv4 identification, and with it the header checksum: of ICMP messages it is 0, of tunnel packets that may
///   be fragmented it tells only which pieces belong together;
/// - the identification of IPv6 fragments, in the same way;
/// - the flow label of what the kernel may have made itself, a hash with a key (RFC 6437): ICMPv6, resets, aborts;
/// - the UDP source port of GUE tunnels, which is 0, as if the checksum had been computed so.
pub(super) struct Masks {
    gue_port: Option<u16>,
    /// Identifications seen so far; each is written as its place here, from 1.
    identifications: Vec<Vec<u8>>,
}

impl Masks {
    /// For one list of packets.
    pub(super) fn new(gue_port: Option<u16>) -> Masks {
        Masks {
            gue_port,
            identifications: Vec::new(),
        }
    }

    /// A packet in hexadecimal.
    pub(super) fn hex(&mut self, packet: &[u8]) -> String {
        let mut packet = packet.to_vec();
        if let Some((protocol, at)) = transport(&packet) {
            let v4 = packet[0] >> 4 == 4;
            let is_first = !v4 || (packet[6] & 0x1f, packet[7]) == (0, 0);
            let gue = protocol == UDP && self.is_gue(&packet, at, is_first);
            if gue && is_first {
                packet.get_mut(at..).map(mask_source_port);
            }
            if v4 && (gue || matches!(protocol, IPV4_IN_IP | IPV6_IN_IP | GRE)) && packet[6] & 0x40 == 0 {
                self.number(&mut packet[4..6]);
                packet[10..12].fill(0);
            }
            match (protocol, packet.get_mut(at..)) {
                (ICMP, _) if v4 => {
                    packet[4..6].fill(0);
                    packet[10..12].fill(0);
                }
                (FRAGMENT, Some([next, _, _, _, identification @ ..])) if identification.len() >= 4 => {
                    self.number(&mut identification[..4]);
                    if *next == ICMP6 {
                        mask_flow_label(&mut packet);
                    }
                }
                (protocol, Some(segment)) if !v4 && is_own(protocol, segment) => mask_flow_label(&mut packet),
                _ => {}
            }
        }
        hex(&packet)
    }

    fn is_gue(&self, packet: &[u8], at: usize, is_first: bool) -> bool {
        let port = packet
            .get(at + 2..at + 4)
            .map(|port| u16::from_be_bytes([port[0], port[1]]));
        // A later fragment shows no port, but no client's datagram is in the recordings of GUE.
        self.gue_port.is_some() && (!is_first || port == self.gue_port)
    }

    /// Replaces an identification by its number.
    fn number(&mut self, identification: &mut [u8]) {
        let known = self
            .identifications
            .iter()
            .position(|known| known == identification);
        let at = known.unwrap_or_else(|| {
            self.identifications.push(identification.to_vec());
            self.identifications.len() - 1
        });
        identification.fill(0);
        if let Some(last) = identification.last_mut() {
            *last = at as u8 + 1;
        }
    }
}

/// Makes the source port of a UDP header 0, and its checksum, if it has one, follow (RFC 1624).
fn mask_source_port(udp: &mut [u8]) {
    let [p0, p1, _, _, _, _, c0, c1, ..] = *udp else {
        return;
    };
    if (c0, c1) != (0, 0) {
        // Taking the port out of the sum is adding its complement; the field holds the sum's complement.
        let checksum = fold(sum(&[!c0, !c1, !p0, !p1], 0));
        udp[6..8].copy_from_slice(&checksum);
    }
    udp[..2].fill(0);
}

/// Whether an IPv6 packet may be the gateway's own: ICMPv6, a reset, or an abort.
fn is_own(protocol: u8, segment: &[u8]) -> bool {
    match protocol {
        ICMP6 => true,
        TCP => segment.get(13).is_some_and(|flags| flags & frames::RST != 0),
        sctp::PROTOCOL => segment.get(12) == Some(&sctp::ABORT),
        _ => false,
    }
}

/// The flow label of an IPv6 header becomes 0.
fn mask_flow_label(packet: &mut [u8]) {
    packet[1] &= 0xf0;
    packet[2..4].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::frames::unhex;

    fn masked(gue_port: Option<u16>, packets: &[&str]) -> Vec<String> {
        let mut masks = Masks::new(gue_port);
        packets
            .iter()
            .map(|packet| masks.hex(&unhex(packet).unwrap()))
            .collect()
    }

    #[test]
    fn identifications_tell_only_which_pieces_belong_together() {
        // Both pieces of an IPIP packet from wire.json, and the first of another.
        let [first, second, other] = [
            "450005dcba4120003f041880c0a80101c0a8010b",
            "45000028ba4100b93f043d7bc0a80101c0a8010b",
            "450005dcba8320003f04183ec0a80101c0a8010b",
        ];
        let expected = [
            "450005dc000120003f040000c0a80101c0a8010b",
            "45000028000100b93f040000c0a80101c0a8010b",
            "450005dc000220003f040000c0a80101c0a8010b",
        ];
        assert_eq!(masked(None, &[first, second, other]), expected);
        // With DF it is 0, which is compared; so is that of a client's own packet.
        for kept in [
            "45000058000040003f04b838c0a80101c0a8010b",
            "45000021ba4100003f1127670a0100010a000064",
        ] {
            assert_eq!(masked(None, &[kept]), [kept]);
        }
    }

    #[test]
    fn a_gue_header_is_compared_as_from_port_0() {
        // The same packet in two recordings: the ports differ, and with them the checksums.
        let packets = [
            "4500004b000040003f11b845c0a80101c0a8010b80da17c00037f807",
            "4500004b000040003f11b845c0a80101c0a8010bac7817c00037cc69",
        ];
        let hex = masked(Some(6080), &packets);
        assert_eq!(hex[0], hex[1]);
        assert!(hex[0].contains("000017c00037"), "{}", hex[0]);
        assert_eq!(masked(Some(6081), &packets), packets);
    }

    #[test]
    fn the_flow_label_of_our_own_packets_is_masked() {
        let address = "fd000000000000000000000000000100";
        let packet = |head: &str, rest: &str| format!("{head}{address}{address}{rest}");
        let error = packet("60038c4a00083a40", "0200705400000000");
        assert_eq!(
            masked(None, &[&error]),
            [packet("6000000000083a40", "0200705400000000")]
        );
        // A fragment header: the next one, an offset, the identification.
        let echo = packet("60016304000c2c40", "3a000001aabbccdd8100b300");
        assert_eq!(
            masked(None, &[&echo]),
            [packet("60000000000c2c40", "3a000001000000018100b300")]
        );
        let segment = |flags: &str| format!("0050040000000000000003e950{flags}00007bdc0000");
        let reset = packet("600696fb00140640", &segment("14"));
        assert_eq!(
            masked(None, &[&reset]),
            [packet("6000000000140640", &segment("14"))]
        );
        let other = packet("600696fb00140640", &segment("10"));
        assert_eq!(masked(None, &[&other]), [other]);
    }
}
