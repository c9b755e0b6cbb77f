//! The IEEE 802.1Q tag: taken off what was received, and put into what is to be sent, so that no stage in
//! between sees one. Service tags (802.1ad) are left alone. Which port has which VLAN is decided elsewhere.

use super::buffer::Packet;
use super::{ethernet, wire};

/// The length of a tag, in bytes: the ethertype that announces it, and its control information.
pub const TAG_LEN: usize = 4;
/// The largest VLAN number; 4095 is reserved.
pub const MAX_ID: u16 = 4094;

/// Where a tag stands: behind both addresses, in front of the ethertype of what the frame carries.
const AT: usize = ethernet::HEADER_LEN - 2;

/// Takes a frame's outer tag off and returns its VLAN number, 0 for a frame that has only a priority. `None`
/// when it carries none, or is too short for one; then nothing has changed.
pub fn untag<P: Packet>(packet: &mut P) -> Option<u16> {
    let frame = packet.bytes_mut();
    if frame.len() < ethernet::HEADER_LEN + TAG_LEN || ethernet::ethertype(frame) != ethernet::VLAN {
        return None;
    }
    let id = wire::get_u16(frame, AT + 2) & 0x0fff;
    // Twelve bytes move, instead of all the others.
    frame.copy_within(..AT, TAG_LEN);
    packet.trim_front(TAG_LEN).then_some(id)
}

/// Puts a tag with this VLAN number and priority 0 into a frame. False when there is no headroom, the frame has
/// no Ethernet header, or the number is none; then nothing has changed.
#[must_use]
pub fn tag<P: Packet>(packet: &mut P, id: u16) -> bool {
    let fits = id <= MAX_ID && packet.bytes().len() >= ethernet::HEADER_LEN && packet.prepend(TAG_LEN);
    if fits {
        let frame = packet.bytes_mut();
        frame.copy_within(TAG_LEN..TAG_LEN + AT, 0);
        wire::put_u16(frame, AT, ethernet::VLAN);
        wire::put_u16(frame, AT + 2, id);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::super::buffer::TestPacket;
    use super::*;
    use proptest::prelude::*;

    /// Two MACs, VLAN 5 with priority 3, and the start of an ARP packet.
    const TAGGED: [u8; 20] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x60, 5, 8, 6, 0, 1];
    const PLAIN: [u8; 16] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1];

    #[test]
    fn a_tag_is_taken_off() {
        let mut packet = TestPacket::new(&TAGGED);
        assert_eq!(untag(&mut packet), Some(5));
        assert_eq!(packet.bytes(), PLAIN);
        assert_eq!(untag(&mut packet), None);
        assert_eq!(packet.bytes(), PLAIN);
    }

    #[test]
    fn a_tag_is_put_in() {
        let mut packet = TestPacket::new(&PLAIN);
        assert!(tag(&mut packet, 5));
        let mut expected = TAGGED;
        expected[14] = 0;
        assert_eq!(packet.bytes(), expected);
        assert!(!tag(&mut packet, 4095));
        assert_eq!(packet.bytes(), expected);
    }

    #[test]
    fn only_the_outer_customer_tag_goes() {
        let mut twice = TestPacket::new(&PLAIN);
        assert!(tag(&mut twice, 7) && tag(&mut twice, 0));
        assert_eq!(untag(&mut twice), Some(0));
        assert_eq!(untag(&mut twice), Some(7));
        assert_eq!(twice.bytes(), PLAIN);
        let mut service = TAGGED;
        service[12..14].copy_from_slice(&[0x88, 0xa8]);
        let mut service = TestPacket::new(&service);
        assert_eq!(untag(&mut service), None);
        for len in 0..18 {
            assert_eq!(untag(&mut TestPacket::new(&TAGGED[..len])), None, "{len} bytes");
        }
        assert!(!tag(&mut TestPacket::new(&PLAIN[..13]), 5));
    }

    proptest! {
        #[test]
        fn a_tag_comes_off_as_it_went_in(
            frame in proptest::collection::vec(any::<u8>(), 14..200),
            id in 0..=MAX_ID,
        ) {
            let mut packet = TestPacket::new(&frame);
            prop_assert!(tag(&mut packet, id));
            prop_assert_eq!(packet.bytes().len(), frame.len() + TAG_LEN);
            prop_assert_eq!(untag(&mut packet), Some(id));
            prop_assert_eq!(packet.bytes(), &frame[..]);
        }
    }
}
