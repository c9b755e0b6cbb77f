use super::super::Prefix;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const WAN: PortId = PortId(0);
const LAN: PortId = PortId(1);
const OWN_WAN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const OWN_LAN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const VIP_WAN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 100);
const VIP_ROUTED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const LIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 200);

fn vip(address: Ipv4Addr) -> Vip {
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
    assert_eq!(table.class(OWN_WAN), AddressClass::Port(WAN));
    assert_eq!(table.class(OWN_LAN), AddressClass::Port(LAN));
    assert_eq!(table.class(VIP_WAN), AddressClass::Vip);
    assert_eq!(table.class(VIP_ROUTED), AddressClass::Vip);
    assert_eq!(table.class(LIP), AddressClass::Local);
    assert_eq!(table.class(Ipv4Addr::new(203, 0, 113, 3)), AddressClass::None);
    assert_eq!(table.class(Ipv4Addr::UNSPECIFIED), AddressClass::None);
}

// Field case ARP-02: an address is answered for on one port only, the one that it is on; a VIP that is routed
// here, or that another node answers for, on none. The asker plays no part, so a probe is answered.
#[test]
fn one_port_answers_for_an_address() {
    let table = table(&[vip(VIP_WAN), vip(VIP_ROUTED)]);
    assert_eq!(table.arp_owner(OWN_WAN), Some(WAN));
    assert_eq!(table.arp_owner(OWN_LAN), Some(LAN));
    assert_eq!(table.arp_owner(LIP), Some(LAN));
    assert_eq!(table.arp_owner(VIP_WAN), Some(WAN));
    assert_eq!(table.arp_owner(VIP_ROUTED), None);
    assert_eq!(table.arp_owner(Ipv4Addr::new(203, 0, 113, 3)), None);
    assert_eq!(table.arp_owner(Ipv4Addr::UNSPECIFIED), None);
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
    assert_eq!(table.arp_owner(VIP_ROUTED), Some(LAN));
    assert_eq!(table.arp_owner(VIP_WAN), None);
    assert_eq!(table.class(VIP_WAN), AddressClass::Vip);
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
    assert_eq!(table.class(OWN_LAN), AddressClass::Vip);
    assert_eq!(
        table.arp_owner(OWN_LAN),
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
        .map(|i| vip(Ipv4Addr::from_bits(first + i)))
        .collect();
    let table = AddressTable::new(&[], &vips, &[], &[]).unwrap();
    assert!(vips.iter().all(|v| table.class(v.address) == AddressClass::Vip));
    assert_eq!(table.class(Ipv4Addr::from_bits(first - 1)), AddressClass::None);
    let more: Vec<_> = (0..300_000)
        .map(|i| vip(Ipv4Addr::from_bits(first + i)))
        .collect();
    assert_eq!(
        AddressTable::new(&[], &more, &[], &[]).unwrap_err(),
        AddressError::TooMany
    );
}

proptest! {
    #[test]
    fn agrees_with_a_map(
        ranges in prop::collection::vec((any::<u32>(), 1u32..40, 0u8..3), 0..12),
        strangers in prop::collection::vec(any::<u32>(), 50),
    ) {
        let (mut own, mut vips, mut local, mut model) = (vec![], vec![], vec![], HashMap::new());
        for (start, length, kind) in ranges {
            for bits in (0..length).map(|i| start.wrapping_add(i)) {
                if model.contains_key(&bits) {
                    continue;
                }
                let (address, port) = (Ipv4Addr::from_bits(bits), PortId(bits as u8));
                model.insert(bits, match kind {
                    0 => { own.push((port, address)); (AddressClass::Port(port), Some(port)) }
                    1 => { vips.push(Vip { address, arp: VipArp::On(port) }); (AddressClass::Vip, Some(port)) }
                    _ => { local.push((port, address)); (AddressClass::Local, Some(port)) }
                });
            }
        }
        let table = AddressTable::new(&own, &vips, &local, &[]).unwrap();
        for (bits, expected) in &model {
            let address = Ipv4Addr::from_bits(*bits);
            prop_assert_eq!((table.class(address), table.arp_owner(address)), *expected);
        }
        for bits in strangers.iter().filter(|b| !model.contains_key(b)) {
            prop_assert_eq!(table.class(Ipv4Addr::from_bits(*bits)), AddressClass::None);
        }
        prop_assert_eq!(table.announcements().len(), model.len());
    }
}
