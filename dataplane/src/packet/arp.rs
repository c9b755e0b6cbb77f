//! ARP (RFC 826) between Ethernet and IPv4: reading what neighbours say, and writing what the gateway says.
//! Which addresses are the gateway's, and what it learns, is decided elsewhere.

use std::net::Ipv4Addr;

use super::buffer::Packet;
use super::mac::MacAddr;
use super::{ethernet, ipv4, wire};
use crate::drops::DropReason;

/// The length of an ARP frame without padding, in bytes.
const FRAME_LEN: usize = ethernet::HEADER_LEN + 28;
/// The least length of an Ethernet frame without its checksum: not every device pads by itself.
const PADDED_LEN: usize = 60;

/// Hardware type 1 (Ethernet), protocol type IPv4, lengths 6 and 4.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

const OPERATION: usize = 6;
const SENDER_MAC: usize = 8;
const SENDER: usize = 14;
const TARGET_MAC: usize = 18;
const TARGET: usize = 24;

/// What an ARP packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has the sender address.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// Question or answer.
    pub operation: Operation,
    /// The MAC of the sender: a station's, not a group's.
    pub sender_mac: MacAddr,
    /// The address of the sender; 0.0.0.0 in a probe (RFC 5227).
    pub sender: Ipv4Addr,
    /// The MAC of the target; without meaning in a request.
    pub target_mac: MacAddr,
    /// The address in question.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Whether the sender only asks whether anybody has the address (RFC 5227 1.1): to be answered, and never
    /// to be learned from.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.sender.is_unspecified()
    }

    /// Whether the sender announces its own address, in either form (RFC 5944 4.6).
    #[must_use]
    pub fn is_gratuitous(&self) -> bool {
        self.sender == self.target
    }
}

/// Reads the ARP packet of a frame that starts with its Ethernet header.
///
/// # Errors
/// [`DropReason::MalformedArp`] when it is cut, not about Ethernet and IPv4, neither request nor reply, or when
/// the sender cannot be one.
pub fn parse(frame: &[u8]) -> Result<Arp, DropReason> {
    let Some(arp) = frame.get(ethernet::HEADER_LEN..FRAME_LEN) else {
        return Err(DropReason::MalformedArp);
    };
    let operation = match wire::get_u16(arp, OPERATION) {
        1 => Operation::Request,
        2 => Operation::Reply,
        _ => return Err(DropReason::MalformedArp),
    };
    let parsed = Arp {
        operation,
        sender_mac: mac(arp, SENDER_MAC),
        sender: wire::get_address(arp, SENDER),
        target_mac: mac(arp, TARGET_MAC),
        target: wire::get_address(arp, TARGET),
    };
    let probe = parsed.is_probe() && operation == Operation::Request;
    let sender_is_one = probe || ipv4::can_send(parsed.sender);
    let mac_is_one = !parsed.sender_mac.is_multicast() && parsed.sender_mac != MacAddr::default();
    if arp.starts_with(&ETHERNET_IPV4) && sender_is_one && mac_is_one {
        Ok(parsed)
    } else {
        Err(DropReason::MalformedArp)
    }
}

/// Makes `out` the question who has `target`, sent to `to`: [`MacAddr::BROADCAST`], or the station that is to
/// confirm what it said (RFC 1122 2.3.2.1). False when `out` has no room.
#[must_use]
pub fn request<P: Packet>(
    out: &mut P,
    mac: MacAddr,
    sender: Ipv4Addr,
    target: Ipv4Addr,
    to: MacAddr,
) -> bool {
    let arp = Arp {
        operation: Operation::Request,
        sender_mac: mac,
        sender,
        target_mac: MacAddr::default(),
        target,
    };
    write(out, &arp, to)
}

/// Makes `out` the answer to `question`: its target address is at `mac`. False when `out` has no room.
#[must_use]
pub fn reply<P: Packet>(out: &mut P, question: &Arp, mac: MacAddr) -> bool {
    let arp = Arp {
        operation: Operation::Reply,
        sender_mac: mac,
        sender: question.target,
        target_mac: question.sender_mac,
        target: question.sender,
    };
    write(out, &arp, question.sender_mac)
}

/// Makes `out` the announcement that `address` is at `mac`, broadcast. Some neighbours learn from requests only
/// and some from replies only, so both forms are there: sender and target address are the same, and the target
/// MAC is zero in a request (RFC 5227 3) and the sender's in a reply (RFC 5944 4.6). False when `out` has no
/// room.
#[must_use]
pub fn announce<P: Packet>(out: &mut P, form: Operation, mac: MacAddr, address: Ipv4Addr) -> bool {
    let arp = Arp {
        operation: form,
        sender_mac: mac,
        sender: address,
        target_mac: match form {
            Operation::Request => MacAddr::default(),
            Operation::Reply => mac,
        },
        target: address,
    };
    write(out, &arp, MacAddr::BROADCAST)
}

fn write<P: Packet>(out: &mut P, arp: &Arp, destination: MacAddr) -> bool {
    if !out.resize(PADDED_LEN) {
        return false;
    }
    let frame = out.bytes_mut();
    frame.fill(0);
    ethernet::write(frame, destination, arp.sender_mac, ethernet::ARP);
    let body = &mut frame[ethernet::HEADER_LEN..];
    body[..OPERATION].copy_from_slice(&ETHERNET_IPV4);
    let operation = match arp.operation {
        Operation::Request => 1,
        Operation::Reply => 2,
    };
    wire::put_u16(body, OPERATION, operation);
    body[SENDER_MAC..SENDER].copy_from_slice(&arp.sender_mac.0);
    body[SENDER..TARGET_MAC].copy_from_slice(&arp.sender.octets());
    body[TARGET_MAC..TARGET].copy_from_slice(&arp.target_mac.0);
    body[TARGET..TARGET + 4].copy_from_slice(&arp.target.octets());
    true
}

fn mac(bytes: &[u8], at: usize) -> MacAddr {
    let mut mac = [0; 6];
    mac.copy_from_slice(&bytes[at..at + 6]);
    MacAddr(mac)
}

#[cfg(test)]
mod tests {
    use super::super::buffer::TestPacket;
    use super::*;
    use proptest::prelude::*;

    const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const THEIRS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const VIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
    const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

    /// The router asks for the VIP.
    const QUESTION: [u8; 42] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 8, 6, // Ethernet
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 254, 0, 0, 0, 0, 0, 0, 10, 0, 0, 100,
    ];

    fn padded(frame: [u8; 42]) -> Vec<u8> {
        [&frame[..], &[0; 18][..]].concat()
    }

    fn changed(changes: &[(usize, u8)]) -> Result<Arp, DropReason> {
        let mut frame = QUESTION;
        for &(at, value) in changes {
            frame[at] = value;
        }
        parse(&frame)
    }

    #[test]
    fn a_question_is_read_and_answered() {
        let question = parse(&QUESTION).unwrap();
        assert_eq!(question.operation, Operation::Request);
        assert_eq!(
            (question.sender_mac, question.sender, question.target),
            (THEIRS, ROUTER, VIP)
        );
        assert!(!question.is_probe() && !question.is_gratuitous());
        let mut out = TestPacket::new(&[]);
        assert!(reply(&mut out, &question, OURS));
        let expected = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6, // Ethernet
            0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 100, 2, 0, 0, 0, 0, 2, 10, 0, 0, 254,
        ];
        assert_eq!(out.bytes(), padded(expected));
    }

    #[test]
    fn a_written_question_is_the_read_one() {
        let mut out = TestPacket::new(&[0xee; 100]);
        assert!(request(&mut out, THEIRS, ROUTER, VIP, MacAddr::BROADCAST));
        assert_eq!(out.bytes(), padded(QUESTION));
        assert!(request(&mut out, THEIRS, ROUTER, VIP, OURS));
        assert_eq!(ethernet::destination(out.bytes()), OURS);
    }

    /// ARP-01: both forms, every field.
    #[test]
    fn an_address_is_announced_in_both_forms() {
        let mut out = TestPacket::new(&[]);
        assert!(announce(&mut out, Operation::Request, OURS, VIP));
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, // Ethernet
            0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 100, 0, 0, 0, 0, 0, 0, 10, 0, 0, 100,
        ];
        assert_eq!(out.bytes(), padded(expected));
        assert!(announce(&mut out, Operation::Reply, OURS, VIP));
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, // Ethernet
            0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 100, 2, 0, 0, 0, 0, 1, 10, 0, 0, 100,
        ];
        assert_eq!(out.bytes(), padded(expected));
        assert!(parse(out.bytes()).unwrap().is_gratuitous());
    }

    /// ARP-02: a probe is a question like any other.
    #[test]
    fn probes_are_read_and_replies_from_nobody_are_not() {
        let nobody = [(28, 0), (31, 0)];
        assert!(changed(&nobody).unwrap().is_probe());
        assert_eq!(
            changed(&[&nobody[..], &[(21, 2)]].concat()),
            Err(DropReason::MalformedArp)
        );
    }

    #[test]
    fn what_cannot_be_is_malformed() {
        for changes in [
            &[(15, 6)][..],
            &[(16, 0x86)][..],
            &[(18, 8)][..],
            &[(19, 16)][..],
            &[(21, 0)][..],
            &[(21, 3)][..],
            &[(20, 1)][..],
            // The sender's MAC a group's or nobody's; its address multicast, broadcast, loopback.
            &[(22, 3)][..],
            &[(22, 0xff)][..],
            &[(22, 0), (27, 0)][..],
            &[(28, 224)][..],
            &[(28, 255), (29, 255), (30, 255), (31, 255)][..],
            &[(28, 127)][..],
        ] {
            assert_eq!(changed(changes), Err(DropReason::MalformedArp), "{changes:?}");
        }
        for len in 0..42 {
            assert_eq!(parse(&QUESTION[..len]), Err(DropReason::MalformedArp));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(frame in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&frame);
        }
    }
}
