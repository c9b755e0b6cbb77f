//! ICMP errors and the packets that they quote (RFC 7915 4.2, 4.3, 5.2, 5.3). A translated error is written anew, since
//! header, quote and what stands behind it all change their lengths; errors are short and rare.

use super::header::{self, Carried};
use super::kinds::{self, Rest, Told};
use super::{L3, Mtus, Target};
use crate::drops::DropReason;
use crate::forward::icmp::{Inner, Quote, quote, rewrite_l4};
use crate::packet::checksum::{self, Delta};
use crate::packet::{Headers, Kind, MacAddr, Packet, ethernet, icmp, ipv4, ipv6};

/// The longest ICMP error, IP header included, in bytes: RFC 4443 2.4 c, and RFC 1812 4.3.2.3 for IPv4. So it fits
/// every link.
const LONGEST6: usize = ipv6::LEAST_MTU;
const LONGEST4: usize = 576;
/// With extensions behind it a quote is so long at least, in bytes (RFC 4884 3).
const SHORTEST_EXTENDED: usize = 128;

/// Makes an ICMP error about a packet one of the other family: `outer` are its own ends, whose ports are not looked
/// at, `inner` are those of the quoted packet. `headers` are those that it came with, `quote` is what was read from
/// it. Extensions (RFC 4884) go along where the other family has room for them. As with [`super::translate`], MAC
/// addresses are left zero, and `headers` hold no longer.
///
/// # Errors
/// Nothing has changed then. [`DropReason::UnsupportedIcmp`] when the other family has no such error (RFC 7915 4.2,
/// 5.2), when the quoted headers cannot be translated, or when a family is not the other one;
/// [`DropReason::NoHeadroom`] when the buffer has no room.
pub fn translate_error<P: Packet>(
    packet: &mut P,
    headers: &Headers,
    quote: &Quote,
    outer: &Target,
    inner: &Inner,
    mtus: Mtus,
) -> Result<(), DropReason> {
    let mut room = [0; LONGEST6];
    let written = Source::read(packet.bytes(), headers, quote)
        .filter(|source| source.v6 != outer.is_v6())
        .and_then(|source| source.write(&mut room, quote, outer, inner, mtus))
        .ok_or(DropReason::UnsupportedIcmp)?;
    if !packet.resize(L3 + written.len()) {
        return Err(DropReason::NoHeadroom);
    }
    let (link, ip) = packet.bytes_mut().split_at_mut(L3);
    let ethertype = if outer.is_v6() {
        ethernet::IPV6
    } else {
        ethernet::IPV4
    };
    ethernet::write(link, MacAddr::default(), MacAddr::default(), ethertype);
    ip.copy_from_slice(written);
    Ok(())
}

/// An error as it came.
struct Source<'a> {
    v6: bool,
    carried: Carried,
    quoted: Carried,
    /// The sum of the quoted packet's addresses.
    sum: u16,
    /// The total length of the quoted packet, as far as 16 bits tell.
    length: u16,
    /// What is quoted behind the quoted IP headers.
    l4: &'a [u8],
    /// What stands behind the quote and its padding (RFC 4884 7), or nothing.
    extensions: &'a [u8],
}

impl Source<'_> {
    fn read<'a>(frame: &'a [u8], headers: &Headers, quote: &Quote) -> Option<Source<'a>> {
        let v6 = headers.kind == Kind::Icmp6;
        let ip = frame.get(usize::from(headers.l3)..usize::from(headers.end))?;
        let message = frame.get(usize::from(headers.l4)..usize::from(headers.end))?;
        let quoted = frame.get(quote.ip..quote.end)?;
        let quoted_l4 = quote.l4.checked_sub(quote.ip)?;
        if quote.v6 != v6 || message.len() < icmp::HEADER_LEN || quoted.len() < quoted_l4.checked_add(8)? {
            return None;
        }
        let mut carried = Carried::read(ip, usize::from(headers.l4.checked_sub(headers.l3)?)).ok()?;
        carried.ttl = carried.ttl.saturating_sub(1);
        let inner = Carried::read(quoted, quoted_l4).ok()?;
        let of_family = ip[0] >> 4 == quoted[0] >> 4 && (ip[0] >> 4 == 6) == v6;
        // An error about an error is none (RFC 7915 4.3: one level of nesting).
        let of_flow = quote::has_ports(inner.protocol) && inner.protocol == quote.protocol;
        (of_family && of_flow).then(|| Source {
            v6,
            carried,
            quoted: inner,
            sum: header::sum_of_addresses(quoted),
            length: u16::try_from(quoted_l4 + inner.l4_len).unwrap_or(u16::MAX),
            l4: &quoted[quoted_l4..],
            extensions: quote::extensions(message, v6),
        })
    }

    /// Writes the error as one of the other family, and gives it from its IP header on.
    fn write<'r>(
        &self,
        room: &'r mut [u8; LONGEST6],
        quote: &Quote,
        outer: &Target,
        inner: &Inner,
        mtus: Mtus,
    ) -> Option<&'r [u8]> {
        let v6 = outer.is_v6();
        let about = Target::between(inner.source, inner.destination, 0).filter(|to| to.is_v6() == v6)?;
        let told = match v6 {
            true => kinds::to_v6(quote.message_type, quote.code, quote.rest)?,
            false => kinds::to_v4(quote.message_type, quote.code, quote.rest)?,
        };
        let mut carried = Carried {
            protocol: if v6 { ipv6::ICMP } else { ipv4::ICMP },
            fragment: None,
            ..self.carried
        };
        let (header, message) = room.split_at_mut(carried.header_len(v6));
        let longest = if v6 { LONGEST6 } else { LONGEST4 };
        let space = message.get_mut(icmp::HEADER_LEN..longest - header.len())?;
        let (len, words) = self.write_quote(space, &told, &about, inner)?;
        let rest = match told.rest {
            Rest::Unused => words,
            Rest::Pointer(pointer) => pointer,
            Rest::Mtu if v6 => u32::from(mtus.to_v6(quote.rest as u16, self.length)),
            Rest::Mtu => u32::from(mtus.to_v4(quote.rest, self.quoted.fragment.is_some())),
        };
        carried.l4_len = icmp::HEADER_LEN + len;
        carried.write(header, outer);
        let header_len = header.len();
        finish(&mut message[..carried.l4_len], &told, rest, outer);
        Some(&room[..header_len + carried.l4_len])
    }

    /// Writes the quoted packet and the extensions; gives their length, and the second word of the ICMP header where
    /// it tells the quote's length.
    fn write_quote(
        &self,
        space: &mut [u8],
        told: &Told,
        about: &Target,
        inner: &Inner,
    ) -> Option<(usize, u32)> {
        let v6 = about.is_v6();
        // The length of a quote is told in words of 64 bits by ICMPv6, of 32 by ICMPv4 (RFC 4884 4.1, 4.4).
        let (unit, shift) = if v6 { (8, 24) } else { (4, 16) };
        let left = space.len().saturating_sub(self.extensions.len()) / unit * unit;
        let extends = !self.extensions.is_empty()
            && quote::is_extensible(told.message_type, v6)
            && told.rest == Rest::Unused
            && left >= SHORTEST_EXTENDED;
        let most = if extends { left } else { space.len() };

        let header_len = self.quoted.header_len(v6);
        let l4 = self.l4.get(..most.checked_sub(header_len)?).unwrap_or(self.l4);
        let len = header_len + l4.len();
        let (header, rest) = space.split_at_mut_checked(header_len)?;
        self.quoted.write(header, about);
        let place = rest.get_mut(..l4.len())?;
        place.copy_from_slice(l4);
        let delta = Delta::NONE.word(self.sum, about.sum());
        rewrite_l4(place, self.quoted.protocol, inner, delta);
        if !extends {
            return Some((len, 0));
        }
        // What lies between is padding, and zero already.
        let padded = len.max(SHORTEST_EXTENDED).next_multiple_of(unit);
        let end = padded + self.extensions.len();
        space.get_mut(padded..end)?.copy_from_slice(self.extensions);
        Some((end, ((padded / unit) as u32) << shift))
    }
}

/// Writes the ICMP header of a message, whose checksum covers the pseudo header in IPv6 only (RFC 4443 2.3).
fn finish(message: &mut [u8], told: &Told, rest: u32, outer: &Target) {
    (message[0], message[1]) = (told.message_type, told.code);
    icmp::set_checksum(message, 0);
    icmp::set_rest(message, rest);
    let sum = match outer {
        Target::V4 { .. } => checksum::sum(message),
        Target::V6 { source, destination } => {
            checksum::l4_sum6(*source.ip(), *destination.ip(), ipv6::ICMP, message)
        }
    };
    icmp::set_checksum(message, !sum);
}
