//! Where Tidegate means to differ from IPVS. A rule sees what a scenario needs, the event and the recorded
//! expectation, and says what to expect instead, and why. It never sees a name.

use super::facts::Facts;
use super::frames;
use std::fmt;

/// Something that is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// Where a packet went: `rsN`, `icmp:3/3`, `rst`, `drop`, joined by `+`.
    Went(String),
    /// A connection's state and whole seconds left; `None` when there is none.
    State(Option<(String, u64)>),
    /// A server's active and inactive connections; `None` when it is no server.
    Counts(String, Option<(u32, u32)>),
    /// Packets that came out: port, to whom, the layer-3 bytes in hexadecimal.
    Packets(Vec<Packet>),
    /// The connection table, a line each.
    Table(Vec<String>),
    /// What a command printed: exit status, standard output, standard error.
    Printed(u8, String, String),
    /// A setting was taken.
    Setting(String, bool),
}

/// A packet that came out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Packet {
    /// `client` or `rs`.
    pub(super) side: String,
    /// `rsN`, `router` or a MAC.
    pub(super) to: String,
    pub(super) hex: String,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Went(went) => f.write_str(went),
            Expected::State(None) => f.write_str("no connection"),
            Expected::State(Some((state, seconds))) => write!(f, "{state} {seconds} s"),
            Expected::Counts(server, None) => write!(f, "{server} is no server"),
            Expected::Counts(server, Some((active, inactive))) => {
                write!(f, "{server} active {active} inactive {inactive}")
            }
            Expected::Packets(packets) if packets.is_empty() => f.write_str("no packet"),
            Expected::Packets(packets) => {
                let lines: Vec<_> = packets
                    .iter()
                    .map(|p| format!("{} {} {}", p.side, p.to, p.hex))
                    .collect();
                f.write_str(&lines.join("\n           "))
            }
            Expected::Table(rows) if rows.is_empty() => f.write_str("no connections"),
            Expected::Table(rows) => f.write_str(&rows.join("\n           ")),
            Expected::Printed(exit, stdout, stderr) => write!(f, "exit {exit}, {stdout:?}, {stderr:?}"),
            Expected::Setting(name, true) => write!(f, "setting {name}"),
            Expected::Setting(name, false) => write!(f, "no setting {name}"),
        }
    }
}

/// What happened, as far as rules may judge by it.
pub(super) struct Event<'a> {
    /// The layer-3 packets that came in.
    pub(super) came: &'a [Vec<u8>],
}

/// A deviation.
pub(super) struct Rule {
    /// What differs: the first column of the deviations in `docs/lvs-compatibility.md`.
    pub(super) what: &'static str,
    /// Why we differ; one sentence, for the report.
    pub(super) reason: &'static str,
    /// What to expect instead, when the rule applies.
    pub(super) change: fn(&Facts, &Event<'_>, &Expected) -> Option<Expected>,
}

/// The rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        what: "UDP checksum 0 over IPv4, in NAT",
        reason: "a UDP checksum of 0 says that there is none (RFC 768), so it stays 0",
        change: |_, event, expected| {
            let all = !event.came.is_empty() && event.came.iter().all(|packet| has_no_checksum(packet));
            change_packets(expected, |packet| {
                if all && packet.get(9) == Some(&UDP) && packet[0] >> 4 == 4 {
                    let at = usize::from(packet[0] & 15) * 4;
                    packet.get_mut(at + 6..at + 8)?.fill(0);
                }
                Some(())
            })
        },
    },
    Rule {
        what: "path MTU inside a tunnel",
        reason: "the client is told at once what fits through the tunnel, not first the old MTU of the cached route",
        change: |_, event, expected| {
            let [came] = event.came else { return None };
            let fits = fits_through_tunnel(came)?;
            change_packets(expected, |packet| {
                if is_fragmentation_needed(packet) {
                    packet[26..28].copy_from_slice(&fits.to_be_bytes());
                    frames::set_icmp_checksum(packet);
                }
                Some(())
            })
        },
    },
];

const UDP: u8 = 17;
const ICMP: u8 = 1;

/// The expected packets, each changed; nothing when one of them is not what the rule is about.
fn change_packets(expected: &Expected, change: impl Fn(&mut Vec<u8>) -> Option<()>) -> Option<Expected> {
    let Expected::Packets(packets) = expected else {
        return None;
    };
    let mut changed = packets.clone();
    for packet in &mut changed {
        let mut bytes = frames::unhex(&packet.hex).ok()?;
        change(&mut bytes)?;
        packet.hex = frames::hex(&bytes);
    }
    Some(Expected::Packets(changed))
}

/// Whether this is a UDP datagram over IPv4, no fragment, without a checksum.
fn has_no_checksum(packet: &[u8]) -> bool {
    let at = packet.first().map_or(0, |byte| usize::from(byte & 15) * 4);
    packet.get(9) == Some(&UDP)
        && packet[0] >> 4 == 4
        && (packet[6] & 0x3f, packet[7]) == (0, 0)
        && packet.get(at + 6..at + 8) == Some(&[0, 0])
}

/// Whether this is ICMP "fragmentation needed", its IPv4 header without options.
fn is_fragmentation_needed(packet: &[u8]) -> bool {
    packet.len() >= 28 && packet[0] == 0x45 && packet[9] == ICMP && packet[20..22] == [3, 4]
}

/// The MTU in bytes that an ICMP "fragmentation needed" about a tunnel packet leaves for what is in the tunnel.
fn fits_through_tunnel(packet: &[u8]) -> Option<u16> {
    if !is_fragmentation_needed(packet) {
        return None;
    }
    let header = u16::from(packet.get(28)? & 15) * 4;
    let extra = match packet.get(28 + 9)? {
        4 | 41 => 0,
        // GRE, with its checksum or without.
        47 => 4 + (u16::from(packet.get(28 + usize::from(header))? >> 7) * 4),
        // GUE: UDP's header, and its own without options.
        17 => 8 + 4,
        _ => return None,
    };
    u16::from_be_bytes([packet[26], packet[27]]).checked_sub(header + extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_tells_of_every_rule() {
        let document = include_str!("../../../docs/lvs-compatibility.md");
        for rule in RULES {
            assert!(
                document.contains(&format!("\n| {} |", rule.what)),
                "{}",
                rule.what
            );
        }
    }

    #[test]
    fn only_what_has_no_checksum_loses_the_one_that_is_expected() {
        let ends = ["10.1.0.1:1024", "10.0.0.100:53"].map(|end| end.parse().unwrap());
        let whole = frames::udp(ends[0], ends[1], b"hello");
        let mut none = whole.clone();
        none[26..28].fill(0);
        assert!(has_no_checksum(&none) && !has_no_checksum(&whole));
        let packet = |bytes: &[u8]| Packet {
            side: "rs".to_owned(),
            to: "rs1".to_owned(),
            hex: frames::hex(bytes),
        };
        let expected = Expected::Packets(vec![packet(&whole)]);
        let change = |came: &[Vec<u8>]| change_packets_by_first_rule(came, &expected);
        assert_eq!(
            change(&[none.clone()]),
            Some(Expected::Packets(vec![packet(&none)]))
        );
        assert_eq!(change(&[whole]), Some(expected.clone()));
    }

    fn change_packets_by_first_rule(came: &[Vec<u8>], expected: &Expected) -> Option<Expected> {
        let facts = super::super::facts::none();
        (RULES[0].change)(&facts, &Event { came }, expected)
    }

    #[test]
    fn a_tunnel_takes_its_headers_from_the_mtu() {
        let mut error = vec![0u8; 52];
        (error[0], error[9], error[28]) = (0x45, ICMP, 0x45);
        error[20..22].copy_from_slice(&[3, 4]);
        error[26..28].copy_from_slice(&1400u16.to_be_bytes());
        for (protocol, fits) in [
            (4, Some(1380)),
            (41, Some(1380)),
            (47, Some(1376)),
            (17, Some(1368)),
            (6, None),
        ] {
            error[37] = protocol;
            assert_eq!(fits_through_tunnel(&error), fits, "{protocol}");
        }
        error[21] = 3;
        assert_eq!(fits_through_tunnel(&error), None);
    }
}
