//! RFC 7915 4.2 and 5.2 row by row, and the MTUs that they compute.

use super::super::kinds::{Rest, Told, to_v4, to_v6};
use super::*;

fn told(message_type: u8, code: u8, rest: Rest) -> Option<Told> {
    Some(Told {
        message_type,
        code,
        rest,
    })
}

#[test]
fn icmpv4_as_icmpv6() {
    use Rest::{Mtu, Pointer, Unused};
    let unreachable = |code: u8| match code {
        0 | 1 | 5 | 6 | 7 | 8 | 11 | 12 => told(1, 0, Unused),
        2 => told(4, 1, Pointer(6)),
        3 => told(1, 4, Unused),
        4 => told(2, 0, Mtu),
        9 | 10 | 13 | 15 => told(1, 1, Unused),
        _ => None,
    };
    for code in 0..=255 {
        assert_eq!(to_v6(3, code, 0x0102_05dc), unreachable(code), "3/{code}");
        assert_eq!(to_v6(11, code, 0), told(3, code, Unused), "11/{code}");
    }
    // Figure 3.
    let pointers = |pointer: u8| match pointer {
        0 => Some(0),
        1 => Some(1),
        2 | 3 => Some(4),
        8 => Some(7),
        9 => Some(6),
        12..=15 => Some(8),
        16..=19 => Some(24),
        _ => None,
    };
    for pointer in 0..=255 {
        let rest = u32::from(pointer) << 24 | 0x00ab_cdef;
        let expected = pointers(pointer).and_then(|pointer| told(4, 0, Pointer(pointer)));
        assert_eq!(to_v6(12, 0, rest), expected, "{pointer}");
        assert_eq!(to_v6(12, 2, rest), expected, "{pointer}");
        assert_eq!(to_v6(12, 1, rest), None);
        assert_eq!(to_v6(12, 3, rest), None);
    }
    // Echo, source quench, redirect, router discovery, timestamps, address masks, and what nobody knows.
    for message_type in (0..=255).filter(|message_type| ![3, 11, 12].contains(message_type)) {
        assert_eq!(to_v6(message_type, 0, 0), None, "{message_type}");
    }
}

#[test]
fn icmpv6_as_icmpv4() {
    use Rest::{Mtu, Pointer, Unused};
    let unreachable = |code: u8| match code {
        0 | 2 | 3 => told(3, 1, Unused),
        1 => told(3, 10, Unused),
        4 => told(3, 3, Unused),
        _ => None,
    };
    for code in 0..=255 {
        assert_eq!(to_v4(1, code, 0), unreachable(code), "1/{code}");
        assert_eq!(to_v4(2, code, 1400), told(3, 4, Mtu), "2/{code}");
        assert_eq!(to_v4(3, code, 0), told(11, code, Unused), "3/{code}");
    }
    // Figure 6.
    let pointers = |pointer: u32| match pointer {
        0 => Some(0),
        1 => Some(1),
        4 | 5 => Some(2),
        6 => Some(9),
        7 => Some(8),
        8..=23 => Some(12),
        24..=39 => Some(16),
        _ => None,
    };
    for pointer in (0..70).chain([256, 1 << 24, u32::MAX]) {
        let expected = pointers(pointer).and_then(|pointer| told(12, 0, Pointer(pointer << 24)));
        assert_eq!(to_v4(4, 0, pointer), expected, "{pointer}");
        assert_eq!(to_v4(4, 1, pointer), told(3, 2, Unused));
        assert_eq!(to_v4(4, 2, pointer), None);
        assert_eq!(to_v4(4, 3, pointer), None);
    }
    for message_type in (0..=255).filter(|message_type| !(1..=4).contains(message_type)) {
        assert_eq!(to_v4(message_type, 0, 0), None, "{message_type}");
    }
}

#[test]
fn mtus_towards_ipv6() {
    for (told, length, v4, v6, expected) in [
        (1400, 1500, 1500, 1500, 1420),
        (1500, 1500, 1500, 9000, 1520),
        // The gateway's own links are narrower.
        (1500, 1500, 1500, 1500, 1500),
        (1480, 1500, 1400, 1500, 1420),
        (1492, 1500, 1500, 1280, 1280),
        // Never less than IPv6 allows.
        (1260, 1500, 1500, 1500, 1280),
        (1259, 1500, 1500, 1500, 1280),
        (576, 1500, 1500, 1500, 1280),
        (68, 1500, 1500, 1500, 1280),
        (1, 1500, 68, 1500, 1280),
        (65_535, 65_535, 65_535, 65_535, 65_535),
        // A router that knows no RFC 1191: the plateau below the packet's length.
        (0, 1500, 1500, 1500, 1500),
        (0, 1493, 1500, 9000, 1512),
        (0, 1492, 1500, 9000, 1280),
        (0, 8166, 9000, 9000, 4372),
        (0, 8167, 9000, 9000, 8186),
        (0, 40, 9000, 9000, 1280),
        (0, 65_535, 65_535, 65_535, 32_020),
    ] {
        let computed = Mtus { v4, v6 }.to_v6(told, length);
        assert_eq!(computed, expected, "{told} about {length}, {v4} {v6}");
    }
}

#[test]
fn mtus_towards_ipv4() {
    for (told, fragment, v4, v6, expected) in [
        (1420, false, 1500, 1500, 1400),
        (1420, true, 1500, 1500, 1392),
        (1500, false, 1500, 1500, 1480),
        (1280, false, 1500, 1500, 1260),
        (1280, true, 1500, 1500, 1252),
        // Less than every link of IPv6 has is not true.
        (1279, false, 1500, 1500, 1260),
        (0, false, 1500, 1500, 1260),
        // The gateway's own links are narrower.
        (9000, false, 1500, 1500, 1480),
        (9000, false, 1400, 9000, 1400),
        (u32::MAX, false, 65_535, 65_535, 65_515),
        (70_000, true, 1500, 1400, 1372),
    ] {
        let computed = Mtus { v4, v6 }.to_v4(told, fragment);
        assert_eq!(computed, expected, "{told}, {v4} {v6}");
    }
}
