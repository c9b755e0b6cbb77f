//! What an attacker sends: malformed frames, and SYNs past the table's size. The gateway survives, says so in its
//! counters, and goes on.

mod rate;
mod syn;

use crate::balance::curl;
use crate::lab::{FULLNAT, Gateway, Host, Lab, Nginx, PATIENCE, RawSocket, number, until};
use std::net::Ipv4Addr;

const MUTATIONS: usize = 60_000;

/// Ethernet header and IPv4 header.
const HEADERS: usize = 34;

/// The IPv6 header ends here.
const HEADERS6: usize = 54;

/// A SYN from port 4000 to port 80, without its checksum.
const SEGMENT: [u8; 20] = [
    0x0f, 0xa0, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0,
];

/// A small generator: equal seeds give equal floods.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes: Vec<u8> = parts.concat();
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// The way to the gateway: Ethernet addresses, and the VIP.
struct Way {
    destination: [u8; 6],
    source: [u8; 6],
}

impl Way {
    fn find(gateway: &Gateway, client: &Host) -> Way {
        let wan = gateway.named("ports", "wan");
        let source = client.run("cat /sys/class/net/wan0/address");
        Way {
            destination: mac(wan["mac"].as_str().unwrap()),
            source: mac(source.trim()),
        }
    }

    fn ethernet(&self, ethertype: u16) -> Vec<u8> {
        [&self.destination[..], &self.source, &ethertype.to_be_bytes()].concat()
    }

    /// A packet from `source` to the VIP; the sum at `place` in its payload is filled in, when there is one.
    fn packet(&self, source: Ipv4Addr, protocol: u8, payload: &[u8], place: Option<usize>) -> Vec<u8> {
        let vip: Ipv4Addr = FULLNAT.parse().unwrap();
        let total = (20 + payload.len()) as u16;
        let mut header = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0];
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header.extend(source.octets().into_iter().chain(vip.octets()));
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum);
        let mut payload = payload.to_vec();
        if let Some(place) = place {
            let pseudo = [
                0,
                protocol,
                payload.len().to_be_bytes()[6],
                payload.len().to_be_bytes()[7],
            ];
            let addresses = if protocol == 1 { &[][..] } else { &header[12..20] };
            let pseudo = if protocol == 1 { &[][..] } else { &pseudo[..] };
            let sum = checksum(&[addresses, pseudo, &payload]);
            payload[place..place + 2].copy_from_slice(&sum);
        }
        [self.ethernet(0x0800), header, payload].concat()
    }

    fn syn(&self, source: Ipv4Addr, port: u16) -> Vec<u8> {
        let mut segment = SEGMENT;
        segment[..2].copy_from_slice(&port.to_be_bytes());
        self.packet(source, 6, &segment, Some(16))
    }

    /// An IPv6 packet to an address that is not the gateway's, with the sum at `place` in its payload.
    fn packet6(&self, hop_limit: u8, protocol: u8, payload: &[u8], place: usize) -> Vec<u8> {
        let addresses = [
            0x20, 1, 0xd, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, //
            0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
        ];
        let length = payload.len() as u8;
        let mut payload = payload.to_vec();
        let sum = checksum(&[&addresses, &[0, length, 0, protocol], &payload]);
        payload[place..place + 2].copy_from_slice(&sum);
        let header = [0x60, 0, 0, 0, 0, length, protocol, hop_limit];
        [&self.ethernet(0x86dd)[..], &header, &addresses, &payload].concat()
    }

    /// Good IPv6 frames: a SYN, and a neighbour solicitation.
    fn good6(&self) -> [Vec<u8>; 2] {
        let mut solicitation = [0; 24];
        solicitation[0] = 135;
        solicitation[8..10].copy_from_slice(&[0x20, 1]);
        [
            self.packet6(64, 6, &SEGMENT, 16),
            self.packet6(255, 58, &solicitation, 2),
        ]
    }

    /// Good frames of each kind that the gateway reads.
    fn good(&self) -> Vec<Vec<u8>> {
        let client = Ipv4Addr::new(198, 51, 100, 7);
        let datagram = [0x30, 0x39, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];
        let echo = [8, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9];
        let arp = [
            &self.ethernet(0x0806)[..],
            &[0, 1, 8, 0, 6, 4, 0, 1],
            &self.source,
            &[203, 0, 113, 1, 0, 0, 0, 0, 0, 0, 203, 0, 113, 100],
        ];
        vec![
            self.syn(client, 4000),
            self.packet(client, 17, &datagram, Some(6)),
            self.packet(client, 1, &echo, Some(2)),
            arp.concat(),
        ]
    }
}

fn mac(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    bytes.try_into().unwrap()
}

/// `frame` with its IPv4 checksum made right again after a change to the header.
fn repaired(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let sum = checksum(&[&frame[14..HEADERS]]);
    frame[24..26].copy_from_slice(&sum);
    frame
}

/// Each malformation by name, with the reason that must count it. No fragment: net_af_packet asks the kernel to
/// reassemble them, and so one alone never arrives.
fn corpus(way: &Way) -> Vec<(&'static str, Vec<u8>)> {
    let [syn, datagram, echo, arp]: [Vec<u8>; 4] = way.good().try_into().unwrap();
    let [syn6, solicitation] = way.good6();
    let changed = |frame: &[u8], place: usize, value: u8| {
        let mut frame = frame.to_vec();
        frame[place] = value;
        frame
    };
    vec![
        ("unknown_ethertype", way.ethernet(0x88cc)),
        ("runt_frame", way.ethernet(0x86dd)),
        ("runt_frame", syn[..20].to_vec()),
        ("bad_ip_header", changed(&syn, 14, 0x65)),
        ("bad_ip_header", changed(&syn, 14, 0x44)),
        ("bad_ip_header", repaired(changed(&syn, 17, 19))),
        ("bad_ip_checksum", changed(&syn, 22, 63)),
        ("truncated_frame", repaired(changed(&syn, 16, 5))),
        ("truncated_frame", syn[..syn.len() - 4].to_vec()),
        ("unknown_protocol", repaired(changed(&syn, 23, 99))),
        ("bad_source", repaired(changed(&syn, 26, 127))),
        ("bad_l4_header", changed(&syn, HEADERS + 12, 0x40)),
        ("bad_l4_header", changed(&syn, HEADERS + 12, 0xf0)),
        ("bad_l4_header", changed(&datagram, HEADERS + 5, 7)),
        ("bad_l4_checksum", changed(&echo, HEADERS + 8, 77)),
        ("malformed_arp", changed(&arp, 18, 5)),
        ("bad_ip_header", changed(&syn6, 14, 0x50)),
        ("truncated_frame", syn6[..syn6.len() - 4].to_vec()),
        ("bad_extension_header", changed(&syn6, 20, 0)),
        ("bad_l4_checksum", changed(&solicitation, HEADERS6 + 2, 9)),
        ("malformed_nd", changed(&solicitation, 21, 64)),
    ]
}

#[test]
fn malformed_frames_are_counted_and_harm_nothing() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let gateway = Gateway::start(&lab, &Gateway::usual());
    let client = lab.client();
    curl(&client, FULLNAT, 6);
    let (way, socket) = (Way::find(&gateway, &client), RawSocket::open(&client, "wan0"));
    for (reason, frame) in corpus(&way) {
        let before = gateway.dropped(reason);
        socket.send(&frame);
        until(
            &format!("{reason} to be counted for {frame:02x?}"),
            PATIENCE,
            || (gateway.dropped(reason) > before).then_some(()),
        );
    }

    let mut good = way.good();
    good.extend(way.good6());
    let mut random = Random(0x7469_6465);
    let before = number(&gateway.rows("workers")[0], "dropped");
    for _ in 0..MUTATIONS {
        let mut frame = good[random.below(good.len())].clone();
        for _ in 0..1 + random.below(6) {
            let place = 12 + random.below(frame.len() - 12);
            frame[place] = random.next() as u8;
        }
        if random.below(4) == 0 {
            frame.truncate(14 + random.below(frame.len() - 13));
        }
        socket.send(&frame);
    }
    curl(&client, FULLNAT, 30);
    let dropped = number(&gateway.rows("workers")[0], "dropped") - before;
    assert!(
        dropped > 1_000,
        "only {dropped} packets of the flood were counted"
    );
    gateway.finish();
}
