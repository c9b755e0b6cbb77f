//! Neighbour discovery (RFC 4861): reading what neighbours say, and writing what the gateway says. Which
//! addresses are the gateway's, and what it learns, is decided elsewhere; ARP's part for IPv4 is [`super::arp`].

use std::net::Ipv6Addr;

use super::buffer::Packet;
use super::headers::{Headers, Kind};
use super::mac::MacAddr;
use super::{checksum, ethernet, icmp, icmp6, ipv6, wire};
use crate::drops::DropReason;

/// All nodes on the link (RFC 4291 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The hop limit of every message: no router has passed it on (RFC 4861 3.1).
const HOP_LIMIT: u8 = 255;
/// A message without options: the ICMPv6 header and the target, in bytes.
const MESSAGE_LEN: usize = icmp6::HEADER_LEN + 16;
/// An option that holds a MAC, in bytes.
const OPTION_LEN: usize = 8;
const TARGET: usize = icmp6::HEADER_LEN;
/// Option: the MAC of the source.
const SOURCE_MAC: u8 = 1;
/// Option: the MAC of the target.
const TARGET_MAC: u8 = 2;

/// Flag of an advertisement: the sender forwards packets.
const ROUTER: u32 = 1 << 31;
/// Flag of an advertisement: it answers a solicitation.
const SOLICITED: u32 = 1 << 30;
/// Flag of an advertisement: it replaces what is known.
const OVERRIDE: u32 = 1 << 29;

/// A question who has the target address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Solicitation {
    /// Who asks; `::` in a probe (RFC 4862 5.4).
    pub source: Ipv6Addr,
    /// The address in question.
    pub target: Ipv6Addr,
    /// The MAC that goes with `source`: a station's. A probe has none, and who asks by unicast may leave it out.
    pub source_mac: Option<MacAddr>,
    /// The station that sent the frame.
    pub station: MacAddr,
}

impl Solicitation {
    /// Whether the sender only asks whether anybody has the address: to be answered, and never to be learned
    /// from.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.source.is_unspecified()
    }
}

/// A statement where the target address is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertisement {
    /// The address that it is about; the sender's may be another.
    pub target: Ipv6Addr,
    /// Its MAC, a station's; who asked by unicast may be told without.
    pub target_mac: Option<MacAddr>,
    /// It answers a solicitation.
    pub solicited: bool,
    /// It replaces what is known.
    pub overrides: bool,
}

/// A message of neighbour discovery between nodes; those about routers are not for a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Who has the target?
    Solicitation(Solicitation),
    /// The target is here.
    Advertisement(Advertisement),
}

/// Reads a frame that the parser found to be ICMPv6.
///
/// # Errors
/// [`DropReason::UnsupportedIcmp`] when it is neither solicitation nor advertisement of a neighbour,
/// [`DropReason::BadL4Checksum`] when its checksum is wrong, [`DropReason::MalformedNd`] when RFC 4861 7.1.1 or
/// 7.1.2 has it dropped, or when it came in fragments (RFC 6980).
pub fn parse(frame: &[u8], headers: &Headers) -> Result<Message, DropReason> {
    let malformed = DropReason::MalformedNd;
    let packet = frame
        .get(usize::from(headers.l3)..usize::from(headers.end))
        .filter(|packet| headers.kind == Kind::Icmp6 && packet.len() >= ipv6::HEADER_LEN)
        .ok_or(malformed)?;
    let message = packet
        .get(usize::from(headers.l4 - headers.l3)..)
        .filter(|message| message.len() >= icmp6::HEADER_LEN)
        .ok_or(malformed)?;
    let message_type = icmp6::message_type(message);
    if !matches!(
        message_type,
        icmp6::NEIGHBOUR_SOLICITATION | icmp6::NEIGHBOUR_ADVERTISEMENT
    ) {
        return Err(DropReason::UnsupportedIcmp);
    }
    let (source, destination) = (ipv6::source(packet), ipv6::destination(packet));
    if checksum::l4_sum6(source, destination, ipv6::ICMP, message) != 0xffff {
        return Err(DropReason::BadL4Checksum);
    }
    let valid = headers.ttl == HOP_LIMIT
        && headers.largest_fragment == 0
        && icmp6::code(message) == 0
        && message.len() >= MESSAGE_LEN;
    if !valid {
        return Err(malformed);
    }
    let target = wire::get_address6(message, TARGET);
    let options = Options::read(&message[MESSAGE_LEN..]).ok_or(malformed)?;
    let (read, possible) = if message_type == icmp6::NEIGHBOUR_SOLICITATION {
        let question = Solicitation {
            source,
            target,
            source_mac: options.source_mac,
            station: ethernet::source(frame),
        };
        // Nobody has a MAC to tell, and asks those who might have the address.
        let probe = question.source_mac.is_none() && destination == solicited_node(target);
        (Message::Solicitation(question), !question.is_probe() || probe)
    } else {
        let flags = icmp6::rest(message);
        let statement = Advertisement {
            target,
            target_mac: options.target_mac,
            solicited: flags & SOLICITED != 0,
            overrides: flags & OVERRIDE != 0,
        };
        let possible = !(statement.solicited && destination.is_multicast());
        (Message::Advertisement(statement), possible)
    };
    if possible && ipv6::can_send(target) {
        Ok(read)
    } else {
        Err(malformed)
    }
}

/// The options that are looked at; all others are passed over (RFC 4861 4.6).
#[derive(Default)]
struct Options {
    source_mac: Option<MacAddr>,
    target_mac: Option<MacAddr>,
}

impl Options {
    /// `None` when an option has no length or does not fit, or when a MAC is none of a station.
    fn read(mut bytes: &[u8]) -> Option<Options> {
        let mut options = Options::default();
        while !bytes.is_empty() {
            // In units of 8 bytes, kind and length included: each step moves on by at least one.
            let len = usize::from(*bytes.get(1)?) * 8;
            if len == 0 {
                return None;
            }
            let (option, rest) = bytes.split_at_checked(len)?;
            match option[0] {
                SOURCE_MAC => options.source_mac = Some(station(option)?),
                TARGET_MAC => options.target_mac = Some(station(option)?),
                _ => {}
            }
            bytes = rest;
        }
        Some(options)
    }
}

fn station(option: &[u8]) -> Option<MacAddr> {
    let [_, _, mac @ ..] = *<&[u8; OPTION_LEN]>::try_from(option).ok()?;
    let mac = MacAddr(mac);
    (!mac.is_multicast() && mac != MacAddr::default()).then_some(mac)
}

/// The group of all nodes that have an address ending as this one does: whom a question is sent to (RFC 4291
/// 2.7.1).
#[must_use]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let [b, c] = [u16::from(a), u16::from_be_bytes([b, c])];
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | b, c)
}

/// The MAC of a group (RFC 2464 7).
#[must_use]
pub fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// Makes `out` the question who has `target`. `to` is the station that is to confirm what it said (RFC 4861
/// 7.3.3); without, all that might have the address are asked. `source` is an address of ours at `mac`. False
/// when `out` has no room.
#[must_use]
pub fn solicit<P: Packet>(
    out: &mut P,
    mac: MacAddr,
    source: Ipv6Addr,
    target: Ipv6Addr,
    to: Option<MacAddr>,
) -> bool {
    let group = solicited_node(target);
    let (destination, station) = match to {
        Some(station) => (target, station),
        None => (group, multicast_mac(group)),
    };
    let text = Text {
        message_type: icmp6::NEIGHBOUR_SOLICITATION,
        flags: 0,
        target,
        option: SOURCE_MAC,
    };
    write(out, (mac, station), (source, destination), &text)
}

/// Makes `out` the answer to `question`: its target address is at `mac`. A probe is answered to all nodes, since
/// its sender has no address yet (RFC 4861 7.2.4). False when `out` has no room.
#[must_use]
pub fn advertise<P: Packet>(out: &mut P, question: &Solicitation, mac: MacAddr) -> bool {
    let (destination, station, solicited) = match question.is_probe() {
        true => (ALL_NODES, multicast_mac(ALL_NODES), 0),
        false => (
            question.source,
            question.source_mac.unwrap_or(question.station),
            SOLICITED,
        ),
    };
    let text = Text::advertisement(question.target, solicited);
    write(out, (mac, station), (question.target, destination), &text)
}

/// Makes `out` the announcement that `address` is at `mac`, to all nodes (RFC 4861 7.2.6). False when `out` has
/// no room.
#[must_use]
pub fn announce<P: Packet>(out: &mut P, mac: MacAddr, address: Ipv6Addr) -> bool {
    let text = Text::advertisement(address, 0);
    write(out, (mac, multicast_mac(ALL_NODES)), (address, ALL_NODES), &text)
}

/// What a message says, apart from who sends it.
struct Text {
    message_type: u8,
    flags: u32,
    target: Ipv6Addr,
    /// The option that says the sender's MAC.
    option: u8,
}

impl Text {
    /// That the target is here, whatever was known before. The gateway forwards, and says so: a host that hears
    /// the contrary gives up its routes through it (RFC 4861 7.2.5).
    fn advertisement(target: Ipv6Addr, solicited: u32) -> Text {
        Text {
            message_type: icmp6::NEIGHBOUR_ADVERTISEMENT,
            flags: ROUTER | OVERRIDE | solicited,
            target,
            option: TARGET_MAC,
        }
    }
}

fn write<P: Packet>(
    out: &mut P,
    (mac, station): (MacAddr, MacAddr),
    (source, destination): (Ipv6Addr, Ipv6Addr),
    text: &Text,
) -> bool {
    let len = MESSAGE_LEN + OPTION_LEN;
    if !out.resize(ethernet::HEADER_LEN + ipv6::HEADER_LEN + len) {
        return false;
    }
    let (link, packet) = out.bytes_mut().split_at_mut(ethernet::HEADER_LEN);
    ethernet::write(link, station, mac, ethernet::IPV6);
    let (ip, message) = packet.split_at_mut(ipv6::HEADER_LEN);
    let fields = ipv6::Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: len as u16,
        next_header: ipv6::ICMP,
        hop_limit: HOP_LIMIT,
        source,
        destination,
    };
    ipv6::write(ip, &fields);
    icmp::write(message, text.message_type, 0, text.flags);
    wire::put_address6(message, TARGET, text.target);
    message[MESSAGE_LEN] = text.option;
    message[MESSAGE_LEN + 1] = (OPTION_LEN / 8) as u8;
    message[MESSAGE_LEN + 2..].copy_from_slice(&mac.0);
    let checksum = !checksum::l4_sum6(source, destination, ipv6::ICMP, message);
    icmp6::set_checksum(message, checksum);
    true
}

#[cfg(test)]
mod tests;
