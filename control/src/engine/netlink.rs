//! The little of netlink that [`super::peer`] asks the kernel: links, namespace ids and ethtool features. One
//! question, one answer, on a socket of the calling thread's network namespace. Never used after start.

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use std::fs::File;
use std::io::{self, Read, Write};

const HEADER: usize = 16;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// An attribute's type is in the low bits; the others say how it is written.
const KIND_MASK: u16 = 0x3fff;
const NESTED: u16 = 0x8000;
/// Longer than any answer that we ask for: features are named one by one.
const ROOM: usize = 64 << 10;

/// A netlink socket.
pub(super) struct Netlink {
    socket: File,
}

impl Netlink {
    /// A socket to the kernel in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn open(protocol: SockProtocol) -> io::Result<Netlink> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            protocol,
        )?;
        // The kernel answers within the call; this is against the answer that got lost.
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
        Ok(Netlink {
            socket: File::from(fd),
        })
    }

    /// Sends one request; returns the payload of its answer.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn ask(&mut self, kind: u16, payload: &[u8]) -> io::Result<Vec<u8>> {
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(payload);
        self.socket.write_all(&message)?;
        let mut answer = vec![0; ROOM];
        let len = self.socket.read(&mut answer)?;
        answer.truncate(len);
        payload_of(&answer)
    }
}

/// The payload of the first message of an answer.
fn payload_of(answer: &[u8]) -> io::Result<Vec<u8>> {
    let short = || io::Error::new(io::ErrorKind::InvalidData, "an answer cut short");
    let len = number(answer, 0).ok_or_else(short)? as usize;
    let kind = answer.get(4..6).ok_or_else(short)?;
    let payload = answer.get(HEADER..len).ok_or_else(short)?;
    if kind == ERROR.to_ne_bytes() {
        let code = number(payload, 0).ok_or_else(short)?.cast_signed();
        return Err(io::Error::from_raw_os_error(code.saturating_neg()));
    }
    Ok(payload.to_vec())
}

/// The number at `at`, in the machine's byte order as all of netlink.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

/// Appends an attribute.
pub(super) fn push(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Appends an attribute that holds attributes.
pub(super) fn push_nested(message: &mut Vec<u8>, kind: u16, attributes: &[u8]) {
    push(message, kind | NESTED, attributes);
}

/// The attributes in `bytes`; ends where they make no sense.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.get(..4)?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & KIND_MASK;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of this kind.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(k, _)| *k == kind)
        .map(|(_, value)| value)
}

/// The text of an attribute, without its zero byte.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let mut inner = Vec::new();
        push(&mut inner, 2, b"lo\0");
        push(&mut inner, 3, &1_u32.to_ne_bytes());
        assert_eq!(
            inner,
            b"\x07\x00\x02\x00lo\x00\x00\x08\x00\x03\x00\x01\x00\x00\x00"
        );
        let mut outer = Vec::new();
        push_nested(&mut outer, 1, &inner);
        assert_eq!(outer[..4], [0x14, 0, 1, 0x80]);
        let nested = attribute(&outer, 1).unwrap();
        assert_eq!(attribute(nested, 2).map(text).unwrap(), "lo");
        assert_eq!(attribute(nested, 3).and_then(|v| number(v, 0)), Some(1));
        assert_eq!(attribute(nested, 4), None);
    }

    #[test]
    fn nonsense_ends_the_walk() {
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[200, 0, 1, 0, 5]).count(), 0);
        // The last attribute may lack its padding.
        assert_eq!(attributes(&[5, 0, 1, 0, 9]).collect::<Vec<_>>(), [(1, &[9][..])]);
    }

    #[test]
    fn an_answer_is_an_error_or_has_a_payload() {
        let message = |len: u8, kind: u8| {
            let mut bytes = vec![0; 20];
            (bytes[0], bytes[4]) = (len, kind);
            bytes
        };
        let mut refusal = message(20, 2);
        refusal[16..].copy_from_slice(&(-19_i32).to_ne_bytes());
        assert_eq!(payload_of(&refusal).unwrap_err().raw_os_error(), Some(19));
        assert_eq!(payload_of(&message(20, 16)).unwrap(), [0; 4]);
        assert!(payload_of(&message(21, 16)).is_err() && payload_of(&message(9, 16)).is_err());
        assert!(payload_of(&[]).is_err());
    }
}
