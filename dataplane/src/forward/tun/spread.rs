//! Outer headers that differ from flow to flow, so that the queues of a server's NIC share the load: RSS sees nothing
//! but the outer header, and without this one pair of addresses in all packets. The caller gives a hash of the flow;
//! the packets of a flow stay together.

use crate::neighbour::Prefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The source address of a flow's tunnel: an address of `prefix` by the flow's hash. It is never the network's first
/// or last address, which are no hosts (RFC 1122 3.2.1.3), unless the prefix is a /31 or /32 (RFC 3021); in IPv6
/// never the first, the Subnet-Router anycast address (RFC 4291 2.6.1), unless the prefix is a /127 or /128.
#[must_use]
pub fn spread_source(prefix: Prefix, hash: u64) -> IpAddr {
    match prefix.address() {
        IpAddr::V4(network) => IpAddr::V4(source4(network, prefix.length(), hash)),
        IpAddr::V6(network) => IpAddr::V6(source6(network, prefix.length(), hash)),
    }
}

/// GUE's UDP source port for a flow, host order, in 49152 to 65535: the dynamic ports (RFC 6335 6), 14 bits of the
/// flow's hash (RFC 8085 5.1.1).
#[inline]
#[must_use]
pub const fn gue_source_port(hash: u64) -> u16 {
    // From the other end than the address, so that both together tell more flows apart than either.
    0xc000 | mix(hash) as u16 & 0x3fff
}

fn source4(network: Ipv4Addr, length: u8, hash: u64) -> Ipv4Addr {
    let all = 1u64 << (32 - length.min(32));
    let host = match all {
        1 | 2 => pick(all, hash),
        _ => 1 + pick(all - 2, hash),
    };
    Ipv4Addr::from_bits(network.to_bits() | host as u32)
}

fn source6(network: Ipv6Addr, length: u8, hash: u64) -> Ipv6Addr {
    // 64 bits of host part are as many as the hash has.
    let host = match 128 - length.min(128) {
        bits @ (0 | 1) => pick(1 << bits, hash),
        bits @ 2..64 => 1 + pick((1 << bits) - 1, hash),
        _ => 1 + pick(u64::MAX, hash),
    };
    Ipv6Addr::from_bits(network.to_bits() | u128::from(host))
}

/// A number below `count`, each as likely as any other.
const fn pick(count: u64, hash: u64) -> u64 {
    ((mix(hash) as u128 * count as u128) >> 64) as u64
}

/// Lets every bit of the hash weigh on every bit of the result: the workers share flows out by some of its bits, so
/// that these are the same in all flows of a worker.
const fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const NET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 0);
    const NET6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);

    #[test]
    fn every_host_of_a_prefix_is_used_and_no_edge() {
        for (length, hosts) in [(32, 0..=0), (31, 0..=1), (30, 1..=2), (29, 1..=6), (24, 1..=254)] {
            let prefix = Prefix::around(NET.into(), length);
            let seen: HashSet<IpAddr> = (0..10_000).map(|hash| spread_source(prefix, hash)).collect();
            let expected: HashSet<IpAddr> = hosts.map(|host| [192, 0, 2, host].into()).collect();
            assert_eq!(seen, expected, "/{length}");
        }
    }

    #[test]
    fn every_address_of_an_ipv6_prefix_but_the_first_is_used() {
        for (length, hosts) in [(128, 0..=0), (127, 0..=1), (126, 1..=3), (120, 1..=255)] {
            let prefix = Prefix::around(NET6.into(), length);
            let seen: HashSet<IpAddr> = (0..10_000).map(|hash| spread_source(prefix, hash)).collect();
            let expected: HashSet<IpAddr> = hosts
                .map(|host| Ipv6Addr::from_bits(NET6.to_bits() | host).into())
                .collect();
            assert_eq!(seen, expected, "/{length}");
        }
    }

    /// Flows of one worker share bits of their hash; the queues of a server's NIC go by other bits of the addresses.
    #[test]
    fn flows_spread_evenly_whatever_bits_their_hashes_share() {
        for step in [1u64, 128, 1 << 32, 1 << 50] {
            let mut hosts = [0; 256];
            let mut ports = [0; 256];
            for flow in 0..16_384u64 {
                let hash = flow.wrapping_mul(step);
                let source = source4(NET, 24, hash);
                hosts[usize::from(source.octets()[3])] += 1;
                ports[usize::from(gue_source_port(hash) as u8)] += 1;
            }
            for counts in [&hosts[1..255], &ports[..]] {
                // 64 on average, with a deviation of 8.
                assert!(
                    counts.iter().all(|&count| (24..=112).contains(&count)),
                    "{step}: {counts:?}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn sources_lie_in_their_prefix(network: u32, network6: u128, length in 0u8..=128, hash: u64) {
            let prefix = Prefix::around(Ipv4Addr::from_bits(network).into(), length);
            prop_assert!(prefix.has_host(spread_source(prefix, hash)));
            let prefix = Prefix::around(Ipv6Addr::from_bits(network6).into(), length);
            let source = spread_source(prefix, hash);
            prop_assert!(prefix.contains(source));
            prop_assert!(length >= 127 || source != prefix.address());
        }
    }

    /// All 16,384 of them, and none beside.
    #[test]
    fn ports_are_the_dynamic_ones() {
        let seen: HashSet<u16> = (0..400_000).map(gue_source_port).collect();
        assert_eq!(seen, (49152..=65535).collect());
    }
}
