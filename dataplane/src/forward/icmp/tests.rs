//! ICMP errors, whole: what is recorded, what cannot be read, and what becomes of everything else.

mod message;
mod properties;
mod reading;
mod recorded;

use super::*;
use crate::forward::nat;
use crate::packet::AddressDigest;
use message::Message;

const DIGEST: AddressDigest = AddressDigest::from_seed(3);

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn from(source: IpAddr) -> Outer {
    Outer {
        source: Some(source),
        destination: None,
    }
}

fn to(destination: IpAddr) -> Outer {
    Outer {
        source: None,
        destination: Some(destination),
    }
}

/// FULLNAT with a shift of sequence numbers, both ways: who is told, by whom, about what.
#[test]
fn fullnat_shows_each_side_its_own_packet() {
    let [client, vip] = ["198.51.100.1:40000", "203.0.113.100:80"].map(end);
    let [local, server] = ["10.0.0.200:2000", "10.0.0.11:8080"].map(end);

    let mut told = Message::tcp(local, server)
        .outer("10.0.0.254", "10.0.0.200")
        .sequence(5_000);
    let mut frame = told.frame();
    let quote = read(&frame, &told.headers(), &DIGEST).unwrap();
    let inner = Inner::fullnat(client, vip, 1_000u32.wrapping_neg());
    assert!(translate(
        &mut frame,
        &told.headers(),
        &quote,
        Outer {
            source: Some(vip.ip()),
            destination: Some(client.ip()),
        },
        &inner
    ));
    told = told
        .outer("203.0.113.100", "198.51.100.1")
        .quoting(client, vip)
        .sequence(4_000)
        .ttl(63);
    assert_eq!(frame, told.frame());

    let mut told = Message::tcp(vip, client)
        .outer("198.51.100.254", "203.0.113.100")
        .sequence(9);
    let mut frame = told.frame();
    let quote = read(&frame, &told.headers(), &DIGEST).unwrap();
    assert!(translate(
        &mut frame,
        &told.headers(),
        &quote,
        Outer {
            source: Some(local.ip()),
            destination: Some(server.ip()),
        },
        &Inner::fullnat(server, local, 0)
    ));
    told = told
        .outer("10.0.0.200", "10.0.0.11")
        .quoting(server, local)
        .ttl(63);
    assert_eq!(frame, told.frame());
}

/// Some routers lower the TTL in the quote and leave its checksum: it is right behind the gateway.
#[test]
fn a_wrong_checksum_of_the_quoted_header_is_mended() {
    let [server, client] = ["192.168.1.11:8080", "10.1.0.1:1024"].map(end);
    let message = Message::tcp(client, server).outer("192.168.1.254", "10.1.0.1");
    let mut frame = message.frame();
    frame[14 + 20 + 8 + 10] ^= 0x5a;
    message::fill_icmp_checksum(&mut frame, &message.headers());
    let quote = read(&frame, &message.headers(), &DIGEST).unwrap();
    let vip = end("10.0.0.100:80");
    assert!(translate(
        &mut frame,
        &message.headers(),
        &quote,
        from(vip.ip()),
        &Inner::nat(client, vip)
    ));
    let expected = message
        .clone()
        .outer("10.0.0.100", "10.1.0.1")
        .quoting(client, vip)
        .ttl(63);
    assert_eq!(frame, expected.kept(&message).frame());
}

#[test]
fn the_other_family_or_another_frame_changes_nothing() {
    let ends6 = ["[2001:db8::1]:1024", "[fd00::100]:80"].map(end);
    let ends4 = ["10.1.0.1:1024", "10.0.0.100:80"].map(end);
    for ([a, b], [x, y]) in [(ends6, ends4), (ends4, ends6)] {
        let message = Message::tcp(a, b).outer(&b.ip().to_string(), &a.ip().to_string());
        let headers = message.headers();
        let frame = message.frame();
        let quote = read(&frame, &headers, &DIGEST).unwrap();
        let mut changed = frame.clone();
        for (outer, inner) in [
            (from(x.ip()), Inner::nat(a, b)),
            (to(x.ip()), Inner::nat(a, b)),
            (Outer::default(), Inner::nat(x, b)),
            (Outer::default(), Inner::nat(a, y)),
        ] {
            assert!(!translate(&mut changed, &headers, &quote, outer, &inner));
        }
        for len in 0..quote.l4 + L4_CHANGED {
            let mut cut = frame[..len].to_vec();
            assert!(!translate(
                &mut cut,
                &headers,
                &quote,
                Outer::default(),
                &Inner::nat(a, b)
            ));
            assert!(!set_mtu(&mut cut, &headers, &quote, 1400));
            assert_eq!(cut, frame[..len]);
        }
        assert_eq!(changed, frame);
    }
}

/// The MTU, and nothing else, with a right checksum (ICMP-07: in network order).
#[test]
fn an_mtu_is_written_where_one_stands() {
    let ends4 = ["10.0.0.100:80", "10.1.0.1:1024"].map(end);
    let ends6 = ["[fd00::100]:80", "[2001:db8::1]:1024"].map(end);
    for ([a, b], (kind, code), was, wanted, is) in [
        (ends4, (3, 4), 1500, 1480, Some(1480)),
        (ends4, (3, 4), 0xabcd_05dc, 1492, Some(0xabcd_05d4)),
        (ends4, (3, 4), 1500, 8, Some(68)),
        (ends4, (3, 4), 1500, 100_000, Some(65_535)),
        (ends4, (3, 4), 0, 1400, None),
        (ends4, (3, 3), 1500, 1400, None),
        (ends4, (11, 4), 1500, 1400, None),
        (ends6, (2, 0), 1500, 1460, Some(1460)),
        (ends6, (2, 0), 70_000, 66_000, Some(66_000)),
        (ends6, (2, 0), 1300, 1260, Some(1280)),
        (ends6, (2, 0), 0, 1400, None),
        (ends6, (1, 4), 1500, 1400, None),
    ] {
        let message = Message::tcp(a, b).kind(kind, code).rest(was);
        let mut frame = message.frame();
        let quote = read(&frame, &message.headers(), &DIGEST).unwrap();
        let written = set_mtu(&mut frame, &message.headers(), &quote, wanted);
        assert_eq!(written, is.is_some(), "{kind}/{code} {was} {wanted}");
        assert_eq!(
            frame,
            message.rest(is.unwrap_or(was)).frame(),
            "{kind}/{code} {was} {wanted}"
        );
        if let Some(is) = is.filter(|_| written) {
            let mtu = read(&frame, &headers_of(&frame), &DIGEST).unwrap().mtu();
            assert_eq!(mtu, Some(if a.is_ipv4() { is & 0xffff } else { is }));
        }
    }
}

/// What the parser makes of a frame without options or extension headers.
fn headers_of(frame: &[u8]) -> Headers {
    let v6 = frame[14] >> 4 == 6;
    let (kind, len, protocol) = if v6 {
        (Kind::Icmp6, 40, 58)
    } else {
        (Kind::Icmp, 20, 1)
    };
    Headers {
        l3: 14,
        l4: 14 + len,
        end: frame.len() as u16,
        protocol,
        ttl: if v6 { frame[21] } else { frame[22] },
        kind,
        ..Headers::NONE
    }
}
