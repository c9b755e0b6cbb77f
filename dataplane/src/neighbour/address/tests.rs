use super::super::Prefix;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const WAN: PortId = PortId(0);
const LAN: PortId = PortId(1);
const OWN_WAN: IpAddr = v4(203, 0, 113, 2);
const OWN_LAN: IpAddr = v4(10, 0, 0, 1);
const VIP_WAN: IpAddr = v4(203, 0, 113, 100);
const VIP_ROUTED: IpAddr = v4(198, 51, 100, 1);
const LIP: IpAddr = v4(10, 0, 0, 200);
const STRANGER: IpAddr = v4(203, 0, 113, 3);
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn vip(address: IpAddr) -> Vip {
    Vip {
        address,
        arp: VipArp::ByPrefix,
    }
}

fn connected() -> [Connected; 2] {
    [
        Connected {
            port: WAN,
            prefix: Prefix::around(OWN_WAN, 24),
        },
        Connected {
            port: LAN,
            prefix: Prefix::around(OWN_LAN, 24),
        },
    ]
}

fn table(vips: &[Vip]) -> AddressTable {
    AddressTable::new(
        &[(WAN, OWN_WAN), (LAN, OWN_LAN)],
        vips,
        &[(LAN, LIP)],
        &connected(),
    )
    .unwrap()
}

#[test]
fn each_class_is_told() {
    let table = table(&[vip(VIP_WAN), vip(VIP_ROUTED)]);
    assert_eq!(table.class_of(OWN_WAN), AddressClass::Port(WAN));
    assert_eq!(table.class_of(OWN_LAN), AddressClass::Port(LAN));
    assert_eq!(table.class_of(VIP_WAN), AddressClass::Vip);
    assert_eq!(table.class_of(VIP_ROUTED), AddressClass::Vip);
    assert_eq!(table.class_of(LIP), AddressClass::Local);
    assert_eq!(table.class_of(STRANGER), AddressClass::None);
    assert_eq!(table.class_of(NOBODY), AddressClass::None);
}

// Field case ARP-02: an address is answered for on one port only, the one that it is on; a VIP that is routed
// here, or that another node answers for, on none. The asker plays no part, so a probe is answered.
#[test]
fn one_port_answers_for_an_address() {
    let table = table(&[vip(VIP_WAN), vip(VIP_ROUTED)]);
    assert_eq!(table.owner(OWN_WAN), Some(WAN));
    assert_eq!(table.owner(OWN_LAN), Some(LAN));
    assert_eq!(table.owner(LIP), Some(LAN));
    assert_eq!(table.owner(VIP_WAN), Some(WAN));
    assert_eq!(table.owner(VIP_ROUTED), None);
    assert_eq!(table.owner(STRANGER), None);
    assert_eq!(table.owner(NOBODY), None);
}

#[test]
fn the_configured_port_or_none_answers_for_a_vip() {
    let elsewhere = Vip {
        address: VIP_ROUTED,
        arp: VipArp::On(LAN),
    };
    let standby = Vip {
        address: VIP_WAN,
        arp: VipArp::Nowhere,
    };
    let table = table(&[elsewhere, standby]);
    assert_eq!(table.owner(VIP_ROUTED), Some(LAN));
    assert_eq!(table.owner(VIP_WAN), None);
    assert_eq!(table.class_of(VIP_WAN), AddressClass::Vip);
    let announced: Vec<_> = table.announcements().collect();
    assert_eq!(
        announced,
        [(LAN, OWN_LAN), (LAN, LIP), (LAN, VIP_ROUTED), (WAN, OWN_WAN)]
    );
}

#[test]
fn a_port_address_may_be_a_vip_too() {
    let as_vip = Vip {
        address: OWN_LAN,
        arp: VipArp::On(WAN),
    };
    // Twice, as two services on one VIP give it.
    let table = table(&[as_vip, as_vip]);
    assert_eq!(table.class_of(OWN_LAN), AddressClass::Vip);
    assert_eq!(
        table.owner(OWN_LAN),
        Some(LAN),
        "answered for where the address is"
    );
}

#[test]
fn conflicts_are_refused() {
    let build =
        |own: &[_], vips: &[_], local: &[_]| AddressTable::new(own, vips, local, &connected()).unwrap_err();
    let in_use = AddressError::LocalInUse { address: LIP };
    assert_eq!(build(&[(LAN, LIP)], &[], &[(LAN, LIP)]), in_use);
    assert_eq!(build(&[], &[vip(LIP)], &[(LAN, LIP)]), in_use);
    let two = AddressError::TwoPorts {
        address: LIP,
        first: LAN,
        second: WAN,
    };
    assert_eq!(build(&[], &[], &[(LAN, LIP), (WAN, LIP)]), two);
    assert_eq!(build(&[(LAN, LIP), (WAN, LIP)], &[], &[]), two);
    assert!(AddressTable::new(&[], &[vip(LIP), vip(LIP)], &[], &[]).is_ok());
}

#[test]
fn order_of_the_input_does_not_matter() {
    let (a, b) = (vip(VIP_WAN), vip(VIP_ROUTED));
    assert_eq!(table(&[a, b]), table(&[b, a]));
    assert_ne!(table(&[a, b]), table(&[a]));
}

#[test]
fn a_hundred_thousand_addresses_in_a_row_fit() {
    let first = Ipv4Addr::new(10, 0, 0, 0).to_bits();
    let vips: Vec<_> = (0..100_000)
        .map(|i| vip(Ipv4Addr::from_bits(first + i).into()))
        .collect();
    let table = AddressTable::new(&[], &vips, &[], &[]).unwrap();
    assert!(
        vips.iter()
            .all(|v| table.class_of(v.address) == AddressClass::Vip)
    );
    assert_eq!(table.class(Ipv4Addr::from_bits(first - 1)), AddressClass::None);
    let more: Vec<_> = (0..300_000)
        .map(|i| vip(Ipv4Addr::from_bits(first + i).into()))
        .collect();
    assert_eq!(
        AddressTable::new(&[], &more, &[], &[]).unwrap_err(),
        AddressError::TooMany
    );
}

// Both families in one table: each address is found in its own, under its own class, on its own port.
#[test]
fn ipv6_addresses_are_told_like_ipv4_ones() {
    let (own, near, far) = (ip("2001:db8:1::2"), ip("2001:db8:1::100"), ip("2001:db8:9::1"));
    let network = Connected {
        port: WAN,
        prefix: Prefix::around(own, 64),
    };
    let table = AddressTable::new(
        &[(WAN, OWN_WAN), (WAN, own)],
        &[vip(near), vip(far), vip(VIP_WAN)],
        &[],
        &[connected()[0], network],
    )
    .unwrap();
    assert_eq!(table.class_of(own), AddressClass::Port(WAN));
    assert_eq!(table.class_of(near), AddressClass::Vip);
    assert_eq!(table.class_of(far), AddressClass::Vip);
    assert_eq!(table.class6("2001:db8:1::3".parse().unwrap()), AddressClass::None);
    assert_eq!(table.class6(Ipv6Addr::UNSPECIFIED), AddressClass::None);
    // The IPv4 address in IPv6 form is another address.
    assert_eq!(table.class_of(ip("::ffff:203.0.113.100")), AddressClass::None);
    assert_eq!(
        (table.owner(own), table.owner(near), table.owner(far)),
        (Some(WAN), Some(WAN), None)
    );
    let announced: Vec<_> = table.announcements().collect();
    assert_eq!(
        announced,
        [(WAN, OWN_WAN), (WAN, VIP_WAN), (WAN, own), (WAN, near)]
    );
}

// Two VLANs of one device have one MAC, hence one link-local address: neither can have it alone.
#[test]
fn link_local_addresses_are_left_out() {
    let shared = ip("fe80::ff:fe00:1");
    let table = AddressTable::new(&[(WAN, shared), (LAN, shared)], &[], &[], &[]).unwrap();
    assert_eq!(
        (table.class_of(shared), table.owner(shared)),
        (AddressClass::None, None)
    );
    assert_eq!(table, AddressTable::default());
}

proptest! {
    #[test]
    fn agrees_with_a_map(
        ranges in prop::collection::vec((any::<u32>(), 1u32..40, 0u8..3, any::<bool>()), 0..12),
        strangers in prop::collection::vec(any::<u32>(), 50),
    ) {
        // The IPv6 addresses share their high half, as those of a network do.
        let address = |bits: u32, six: bool| match six {
            true => IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(bits))),
            false => IpAddr::V4(Ipv4Addr::from_bits(bits)),
        };
        let (mut own, mut vips, mut local, mut model) = (vec![], vec![], vec![], HashMap::new());
        for (start, length, kind, six) in ranges {
            for bits in (0..length).map(|i| start.wrapping_add(i)) {
                let (address, port) = (address(bits, six), PortId(bits as u8));
                if model.contains_key(&address) {
                    continue;
                }
                model.insert(address, match kind {
                    0 => { own.push((port, address)); (AddressClass::Port(port), Some(port)) }
                    1 => { vips.push(Vip { address, arp: VipArp::On(port) }); (AddressClass::Vip, Some(port)) }
                    _ => { local.push((port, address)); (AddressClass::Local, Some(port)) }
                });
            }
        }
        let table = AddressTable::new(&own, &vips, &local, &[]).unwrap();
        for (&address, expected) in &model {
            prop_assert_eq!((table.class_of(address), table.owner(address)), *expected);
        }
        for stranger in strangers.iter().flat_map(|bits| [address(*bits, false), address(*bits, true)]) {
            if !model.contains_key(&stranger) {
                prop_assert_eq!(table.class_of(stranger), AddressClass::None);
            }
        }
        prop_assert_eq!(table.announcements().len(), model.len());
    }
}
