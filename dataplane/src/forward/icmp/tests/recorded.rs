//! Errors as Linux passed them on, byte for byte: NAT in both directions, DR of both families, and what it kept
//! to itself.

use super::*;
use crate::drops::DropReason;
use crate::packet::{MacAddr, PortRules, TestPacket, parse};

/// The bytes of a recording.
fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The frame around a recorded packet, and what the parser says of it.
fn received(hex: &str) -> (Vec<u8>, Headers) {
    let packet = bytes(hex);
    let ethertype = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype, &packet].concat();
    let headers = headers_of(&frame);
    let rules = PortRules {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ..PortRules::default()
    };
    let parsed = parse(&TestPacket::new(&frame), &rules).unwrap();
    assert_eq!(
        Headers {
            key: FlowKey::NONE,
            ..parsed
        },
        headers
    );
    (frame, headers)
}

/// From the side of 192.168.1.11:8080, about 10.1.0.1:1024 > 10.0.0.100:80: what it is, in, out.
const NAT_FROM_SERVER: &[(&str, &str, &str)] = &[
    (
        "real server: port unreachable about client->rs",
        "45000038000040003c017310c0a8010b0a0100010303d583000000004500002f000040003c0673140a010001c0a8010b04001f90000003e9",
        "45000038000040003b012b600a0000640a0100010303f4c3000000004500002f000040003c062a640a0100010a00006404000050000003e9",
    ),
    (
        "real-server router: frag needed 1400",
        "45000038000040003c01721dc0a801fe0a0100010304d00a000005784500002f000040003c0673140a010001c0a8010b04001f90000003e9",
        "45000038000040003b012b600a0000640a0100010304ef4a000005784500002f000040003c062a640a0100010a00006404000050000003e9",
    ),
    (
        "time exceeded",
        "45000038000040003c01721dc0a801fe0a0100010b00cd86000000004500002f000040003c0673140a010001c0a8010b04001f90000003e9",
        "45000038000040003b012b600a0000640a0100010b00ecc6000000004500002f000040003c062a640a0100010a00006404000050000003e9",
    ),
];

/// From the client's side, about 10.0.0.100:80 > 10.1.0.1:9999.
const NAT_FROM_CLIENT: &[(&str, &str, &str)] = &[(
    "error about an unknown connection",
    "45000038000040003c0129640a0000fe0a0000640301d1b70000000045000028000040004006266b0a0000640a0100010050270f000003e8",
    "45000038000040003b0173140a0000fec0a8010b0301b27700000000450000280000400040066f1bc0a8010b0a0100011f90270f000003e8",
)];

/// From the client's side, about a reply of a DR server.
const DR: &[(&str, &str, &str)] = &[
    (
        "client router: frag needed 1400 about vip->client",
        "45000038000040003c0129640a0000fe0a0000640304eb62000005784500003d0000400037062f560a0000640a01000100500400000007d1",
        "45000038000040003b012a640a0000fe0a0000640304eb62000005784500003d0000400037062f560a0000640a01000100500400000007d1",
    ),
    (
        "same, 576 bytes quoted",
        "45000059000040003c0129430a0000fe0a00006403040c19000005784500003d0000400037062f560a0000640a01000100500400000007d1000003e95018faf0319d00007265706c7920646174612030313233343536373839",
        "45000059000040003b012a430a0000fe0a00006403040c19000005784500003d0000400037062f560a0000640a01000100500400000007d1000003e95018faf0319d00007265706c7920646174612030313233343536373839",
    ),
    (
        "host unreachable",
        "45000038000040003c0129640a0000fe0a0000640301f0dd000000004500003d0000400037062f560a0000640a01000100500400000007d1",
        "45000038000040003b012a640a0000fe0a0000640301f0dd000000004500003d0000400037062f560a0000640a01000100500400000007d1",
    ),
    (
        "port unreachable from the client",
        "45000038000040003c012a600a0100010a0000640303f0db000000004500003d0000400037062f560a0000640a01000100500400000007d1",
        "45000038000040003b012b600a0100010a0000640303f0db000000004500003d0000400037062f560a0000640a01000100500400000007d1",
    ),
    (
        "time exceeded",
        "45000038000040003c0129640a0000fe0a0000640b00e8de000000004500003d0000400037062f560a0000640a01000100500400000007d1",
        "45000038000040003b012a640a0000fe0a0000640b00e8de000000004500003d0000400037062f560a0000640a01000100500400000007d1",
    ),
    (
        "source quench",
        "45000038000040003c0129640a0000fe0a0000640400efde000000004500003d0000400037062f560a0000640a01000100500400000007d1",
        "45000038000040003b012a640a0000fe0a0000640400efde000000004500003d0000400037062f560a0000640a01000100500400000007d1",
    ),
    (
        "packet too big 1300",
        "60000000004e3a40fd0000000000000000000000000000fefd000000000000000000000000000100020096290000051460000000001e0640fd00000000000000000000000000010020010db800000000000000000000000100500400000007d1000003e95018faf0445800007265706c792064617461",
        "60000000004e3a3ffd0000000000000000000000000000fefd000000000000000000000000000100020096290000051460000000001e0640fd00000000000000000000000000010020010db800000000000000000000000100500400000007d1000003e95018faf0445800007265706c792064617461",
    ),
    (
        "no route",
        "60000000004e3a40fd0000000000000000000000000000fefd00000000000000000000000000010001009c3d0000000060000000001e0640fd00000000000000000000000000010020010db800000000000000000000000100500400000007d1000003e95018faf0445800007265706c792064617461",
        "60000000004e3a3ffd0000000000000000000000000000fefd00000000000000000000000000010001009c3d0000000060000000001e0640fd00000000000000000000000000010020010db800000000000000000000000100500400000007d1000003e95018faf0445800007265706c792064617461",
    ),
];

/// Not passed on: what it is, and what came in.
const KEPT: &[(&str, &str)] = &[
    (
        "parameter problem",
        "45000038000040003c0129640a0000fe0a0000640c00e7de000000004500003d0000400037062f560a0000640a01000100500400000007d1",
    ),
    (
        "redirect",
        "45000038000040003c0129640a0000fe0a0000640501eedd000000004500003d0000400037062f560a0000640a01000100500400000007d1",
    ),
    (
        "quote shorter than ports",
        "45000032000040003c01296a0a0000fe0a0000640301fcae000000004500003d0000400037062f560a0000640a0100010050",
    ),
];

#[test]
fn nat_translates_as_recorded() {
    let [client, vip, server] = ["10.1.0.1:1024", "10.0.0.100:80", "192.168.1.11:8080"].map(end);
    for (what, received_hex, sent) in NAT_FROM_SERVER {
        let (mut frame, headers) = received(received_hex);
        let quote = read(&frame, &headers, &DIGEST).unwrap();
        assert_eq!(quote.ends(&frame), Some((client, server)), "{what}");
        assert_eq!(Inner::ends(&quote.key), (client, server), "{what}");
        assert!(translate(
            &mut frame,
            &headers,
            &quote,
            from(vip.ip()),
            &Inner::nat(client, vip)
        ));
        assert_eq!(frame[14..], bytes(sent), "{what}");
    }
    let client = end("10.1.0.1:9999");
    for (what, received_hex, sent) in NAT_FROM_CLIENT {
        let (mut frame, headers) = received(received_hex);
        let quote = read(&frame, &headers, &DIGEST).unwrap();
        assert_eq!(quote.ends(&frame), Some((vip, client)), "{what}");
        assert!(translate(
            &mut frame,
            &headers,
            &quote,
            to(server.ip()),
            &Inner::nat(server, client)
        ));
        assert_eq!(frame[14..], bytes(sent), "{what}");
    }
}

#[test]
fn dr_passes_on_as_recorded() {
    for (what, received_hex, sent) in DR {
        let (mut frame, headers) = received(received_hex);
        let quote = read(&frame, &headers, &DIGEST).unwrap();
        let ends = match quote.v6 {
            true => ["[fd00::100]:80", "[2001:db8::1]:1024"],
            false => ["10.0.0.100:80", "10.1.0.1:1024"],
        };
        assert_eq!(quote.ends(&frame), Some(ends.map(end).into()), "{what}");
        nat::decrement_ttl(&mut frame, &headers);
        assert_eq!(frame[14..], bytes(sent), "{what}");
    }
}

#[test]
fn what_was_not_passed_on_is_refused() {
    for (what, received_hex) in KEPT {
        let (frame, headers) = received(received_hex);
        assert_eq!(
            read(&frame, &headers, &DIGEST),
            Err(DropReason::UnsupportedIcmp),
            "{what}"
        );
    }
}
