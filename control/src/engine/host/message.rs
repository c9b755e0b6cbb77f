//! Messages of rtnetlink about addresses and links (rtnetlink(7)), as bytes.

use super::super::netlink::{attributes, number, push, text};
use std::net::IpAddr;

pub(super) const NEW_LINK: u16 = 16;
pub(super) const NEW_ADDRESS: u16 = 20;
pub(super) const REMOVE_ADDRESS: u16 = 21;
pub(super) const GET_ADDRESS: u16 = 22;

/// `IFA_PROTO` of the addresses that announce VIPs: a number that nobody else uses, by which those are found that a
/// gateway has left behind. Kernels before 5.18 do not keep it.
pub(super) const MARK: u8 = 84;
/// The label of those of IPv4, for the same, and for people.
pub(super) const LABEL: &str = "lo:tidegate";

const HEADER: usize = 8;
const V4: u8 = 2;
const V6: u8 = 10;
/// IFA_F_NODAD: it is ours, whoever asks.
const NO_DAD: u8 = 2;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const LABELLED: u16 = 3;
const PROTOCOL: u16 = 11;

const MAC: u16 = 1;
const MTU: u16 = 4;
/// IFF_UP.
const UP: u32 = 1;

/// An address of the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// The number of its device.
    pub(super) device: u32,
    pub(super) address: IpAddr,
    pub(super) length: u8,
    /// Whether a gateway has put it there to announce a VIP.
    pub(super) is_mark: bool,
}

/// The body of a message that adds or removes an address of a device; `marked`: to announce a VIP.
pub(super) fn of_address(device: u32, address: IpAddr, length: u8, marked: bool) -> Vec<u8> {
    let (family, flags, bytes) = match address {
        IpAddr::V4(address) => (V4, 0, address.octets().to_vec()),
        IpAddr::V6(address) => (V6, NO_DAD, address.octets().to_vec()),
    };
    let mut message = vec![family, length, flags, 0];
    message.extend(device.to_ne_bytes());
    push(&mut message, LOCAL, &bytes);
    push(&mut message, ADDRESS, &bytes);
    if marked {
        push(&mut message, PROTOCOL, &[MARK]);
        if address.is_ipv4() {
            push(&mut message, LABELLED, format!("{LABEL}\0").as_bytes());
        }
    }
    message
}

/// The body of a message that asks for the addresses of all devices, in both families.
pub(super) fn of_all_addresses() -> Vec<u8> {
    vec![0; HEADER]
}

/// The body of a message that switches a device on, with that MAC and MTU.
pub(super) fn of_link(device: u32, mac: [u8; 6], mtu: u16) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend(device.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    push(&mut message, MAC, &mac);
    push(&mut message, MTU, &u32::from(mtu).to_ne_bytes());
    message
}

/// What the kernel says of one address.
pub(super) fn read(kind: u16, payload: &[u8]) -> Option<Entry> {
    if kind != NEW_ADDRESS {
        return None;
    }
    let (head, body) = payload.split_at_checked(HEADER)?;
    let mut address = None;
    let mut is_mark = false;
    for (kind, value) in attributes(body) {
        match kind {
            // With a peer, LOCAL is the own one; IPv6 has it only then.
            LOCAL => address = ip(value),
            ADDRESS if address.is_none() => address = ip(value),
            LABELLED => is_mark |= text(value) == LABEL,
            PROTOCOL => is_mark |= value == [MARK],
            _ => {}
        }
    }
    Some(Entry {
        device: number(head, 4)?,
        address: address?,
        length: head[1],
        is_mark,
    })
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for (text, length, marked) in [
            ("203.0.113.100", 32, true),
            ("2001:db8::100", 128, true),
            ("10.0.0.1", 24, false),
        ] {
            let address = text.parse().unwrap();
            let entry = read(NEW_ADDRESS, &of_address(7, address, length, marked)).unwrap();
            let expected = Entry {
                device: 7,
                address,
                length,
                is_mark: marked,
            };
            assert_eq!(entry, expected);
        }
        assert_eq!(
            read(REMOVE_ADDRESS, &of_address(7, [10, 0, 0, 1].into(), 8, false)),
            None
        );
        assert_eq!(read(NEW_ADDRESS, &[2, 24, 0]), None);
    }

    // `ip -6 address add` gives ADDRESS alone, and a peer stands in ADDRESS beside LOCAL.
    #[test]
    fn the_own_address_of_two_is_taken() {
        let mut message = vec![V4, 32, 0, 0, 3, 0, 0, 0];
        push(&mut message, ADDRESS, &[10, 0, 0, 2]);
        push(&mut message, LOCAL, &[10, 0, 0, 1]);
        assert_eq!(
            read(NEW_ADDRESS, &message).unwrap().address,
            IpAddr::from([10, 0, 0, 1])
        );
    }
}
