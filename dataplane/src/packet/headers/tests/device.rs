//! What the device says of checksums, and what a software device leaves in their place.

use std::net::Ipv4Addr;

use super::super::super::buffer::ChecksumStatus;
use super::*;

/// A packet whose device has looked at the checksums.
pub(super) struct Judged(
    pub(super) TestPacket,
    pub(super) ChecksumStatus,
    pub(super) ChecksumStatus,
);

impl Packet for Judged {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
    fn prepend(&mut self, len: usize) -> bool {
        self.0.prepend(len)
    }
    fn trim_front(&mut self, len: usize) -> bool {
        self.0.trim_front(len)
    }
    fn resize(&mut self, len: usize) -> bool {
        self.0.resize(len)
    }
    fn ip_checksum(&self) -> ChecksumStatus {
        self.1
    }
    fn l4_checksum(&self) -> ChecksumStatus {
        self.2
    }
}

#[test]
fn the_device_is_believed() {
    use ChecksumStatus::*;
    let judge = |frame: &[u8], ip, l4| parse(&Judged(TestPacket::new(frame), ip, l4), &RULES).map(|_| ());
    let right = bytes(DATAGRAM);
    let mut wrong_ip = right.clone();
    wrong_ip[24] ^= 1;
    assert_eq!(judge(&wrong_ip, Good, Unknown), Ok(()));
    assert_eq!(judge(&right, Bad, Unknown), Err(DropReason::BadIpChecksum));
    assert_eq!(judge(&right, Good, Bad), Err(DropReason::BadL4Checksum));
    let mut none = right.clone();
    none[40..42].fill(0);
    assert_eq!(judge(&none, Good, Bad), Ok(()));
}

/// Of SCTP the device tells as of the others; it is not asked for the pseudo header's sum.
#[test]
fn the_device_is_believed_of_sctp() {
    use ChecksumStatus::*;
    let mut frame = bytes(SYN)[..34].to_vec();
    frame.extend([0x9c, 0x40, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 11, 0, 0, 4]);
    (frame[17], frame[23]) = (36, 132);
    fix_ip_checksum(&mut frame);
    for (status, expected) in [
        (Good, Ok(())),
        (Bad, Err(DropReason::BadL4Checksum)),
        (Unknown, Err(DropReason::PartialChecksum)),
    ] {
        let judged = Judged(TestPacket::new(&frame), Good, status);
        assert_eq!(parse(&judged, &RULES).map(|_| ()), expected, "{status:?}");
    }
}

fn partial(frame: &mut [u8]) {
    let at = if frame[23] == 6 { 50 } else { 40 };
    let length = frame.len() as u16 - 34;
    let source: [u8; 4] = frame[26..30].try_into().unwrap();
    let destination: [u8; 4] = frame[30..34].try_into().unwrap();
    let sum = checksum::pseudo_header(source.into(), destination.into(), frame[23], length);
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// CSUM-10: a veth peer with transmit offload on.
#[test]
fn a_checksum_that_an_offload_never_completed_is_refused() {
    for hex in [SYN, DATAGRAM] {
        let mut frame = bytes(hex);
        partial(&mut frame);
        frame.resize(60, 0);
        let packet = TestPacket::new(&frame);
        assert_eq!(parse(&packet, &RULES), Err(DropReason::PartialChecksum));
        let trusting = PortRules {
            check_partial: false,
            ..RULES
        };
        assert!(parse(&packet, &trusting).is_ok());
        let judged = Judged(packet, ChecksumStatus::Unknown, ChecksumStatus::Good);
        assert!(parse(&judged, &RULES).is_ok());
    }
}

/// CSUM-10: one valid packet in 65,536 carries this very checksum. CSUM-01: no checksum is no partial one.
#[test]
fn a_right_checksum_that_looks_partial_passes() {
    let mut frame = [&bytes(DATAGRAM)[..42], &[0; 2]].concat();
    frame[17] = 30;
    frame[39] = 10;
    fix_ip_checksum(&mut frame);
    partial(&mut frame);
    assert_eq!(
        parse(&TestPacket::new(&frame), &RULES).map(|_| ()),
        Err(DropReason::PartialChecksum)
    );
    // The payload that makes the whole sum right with that field: the complement of everything else.
    let source = Ipv4Addr::new(10, 1, 0, 1);
    let rest = checksum::l4_sum(source, Ipv4Addr::new(10, 0, 0, 100), 17, &frame[34..]);
    frame[42..].copy_from_slice(&(!rest).to_be_bytes());
    assert!(parse(&TestPacket::new(&frame), &RULES).is_ok());
    frame[40..42].fill(0);
    assert!(parse(&TestPacket::new(&frame), &RULES).is_ok());
}
