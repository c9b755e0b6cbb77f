//! What parsing and rewriting cost: nanoseconds a packet, over a burst that lies in the cache. Run with
//! `cargo run --release -p dataplane --example packet_bench`.

use std::hint::black_box;
use std::time::Instant;

use dataplane::forward::nat;
use dataplane::packet::{Headers, MacAddr, Packet, PortRules, checksum, ipv4, parse};

const BURST: usize = 32;

/// A packet as a borrowed mbuf is: a pointer and a length.
struct Frame([u8; 64], usize);

impl Packet for Frame {
    fn bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or(&[])
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.get_mut(..self.1).unwrap_or(&mut [])
    }
    fn prepend(&mut self, _: usize) -> bool {
        false
    }
    fn trim_front(&mut self, _: usize) -> bool {
        false
    }
    fn resize(&mut self, _: usize) -> bool {
        false
    }
}

/// A 60-byte frame of TCP or UDP from 10.1.0.`n` with a right IP checksum.
fn frame(protocol: u8, n: u8) -> Frame {
    let mut bytes = [0; 64];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    bytes[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, protocol]);
    bytes[26..38].copy_from_slice(&[10, 1, 0, n, 10, 0, 0, 100, 4, n, 0, 80]);
    match protocol {
        6 => bytes[46..48].copy_from_slice(&[0x50, 0x10]),
        _ => bytes[38..40].copy_from_slice(&[0, 26]),
    }
    let sum = !checksum::sum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    Frame(bytes, 60)
}

#[inline(never)]
fn parse_burst(burst: &[Frame], rules: &PortRules, out: &mut [Headers; BURST]) -> usize {
    let mut good = 0;
    for packet in burst {
        if let Ok(headers) = parse(packet, rules)
            && let Some(slot) = out.get_mut(good)
        {
            *slot = headers;
            good += 1;
        }
    }
    good
}

/// Exchanges source and destination of each packet, as NAT would, and puts the TTL back that this has lowered.
#[inline(never)]
fn rewrite_burst(burst: &mut [Frame], headers: &[Headers; BURST], back: bool) {
    for (packet, headers) in burst.iter_mut().zip(headers) {
        let to = if back { headers.key } else { headers.key.reversed() };
        let frame = packet.bytes_mut();
        nat::rewrite(frame, headers, &to);
        if let Some(ip) = frame.get_mut(14..34) {
            ipv4::set_ttl(ip, 64);
        }
    }
}

fn main() {
    for (name, protocols) in [("tcp", [6, 6]), ("udp", [17, 17]), ("tcp and udp", [6, 17])] {
        for check_partial in [false, true] {
            let rules = PortRules {
                mac: MacAddr([2, 0, 0, 0, 0, 1]),
                any_mac: false,
                check_partial,
                ..PortRules::default()
            };
            let mut burst: Vec<_> = (0..BURST)
                .map(|n| frame(protocols[(n * 7 / 3) % 2], n as u8))
                .collect();
            let Ok(first) = parse(&burst[0], &rules) else {
                return;
            };
            let mut out = [first; BURST];
            let mut best = f64::MAX;
            for _ in 0..30 {
                let started = Instant::now();
                for _ in 0..20_000 {
                    assert_eq!(parse_burst(black_box(&burst), &rules, &mut out), BURST);
                    black_box(&out);
                }
                best = best.min(started.elapsed().as_nanos() as f64 / (20_000 * BURST) as f64);
            }
            let mut rewrite = f64::MAX;
            for _ in 0..30 {
                let started = Instant::now();
                for n in 0..20_000 {
                    rewrite_burst(black_box(&mut burst), &out, n % 2 != 0);
                }
                rewrite = rewrite.min(started.elapsed().as_nanos() as f64 / (20_000 * BURST) as f64);
            }
            println!(
                "{name}, check_partial {check_partial}: parse {best:.2} ns, rewrite {rewrite:.2} ns a packet"
            );
        }
    }
}
