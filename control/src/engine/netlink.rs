//! The little of netlink that we ask the kernel, on a socket of the calling thread's network namespace: one question
//! with one answer ([`super::peer`]: links, namespace ids, ethtool features), or with as many as there are
//! ([`super::kernel_routes`]), and an order ([`super::host`]).

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};

const HEADER: usize = 16;
const REQUEST: u16 = 1;
/// All that there is of the kind (NLM_F_ROOT and NLM_F_MATCH).
const DUMP: u16 = 0x300;
const ACKNOWLEDGE: u16 = 4;
const ERROR: u16 = 2;
const DONE: u16 = 3;
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

    /// A socket to which the kernel tells what happens in these groups. Waits a second for it at most.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn listen(protocol: SockProtocol, groups: u32) -> io::Result<Netlink> {
        let netlink = Netlink::open(protocol)?;
        bind(netlink.socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(netlink)
    }

    /// Reads what the kernel has told, and forgets it where it does not fit.
    ///
    /// # Errors
    /// The kernel's: that nothing came, or that something was lost.
    pub(super) fn hear(&mut self, told: &mut [u8]) -> io::Result<usize> {
        self.socket.read(told)
    }

    /// Whether something can be read now.
    pub(super) fn has_more(&self) -> bool {
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }

    fn send(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(payload);
        self.socket.write_all(&message)
    }

    /// Asks for all that there is; calls `each` with kind and payload of every answer.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn dump(
        &mut self,
        kind: u16,
        payload: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.send(kind, REQUEST | DUMP, payload)?;
        let mut answer = vec![0; ROOM];
        loop {
            let len = self.socket.read(&mut answer)?;
            if read_dump(&answer[..len], &mut each)? {
                return Ok(());
            }
        }
    }

    /// Has the kernel do something, with these flags beside the usual ones, and waits until it is done.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn order(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        self.send(kind, REQUEST | ACKNOWLEDGE | flags, payload)?;
        let mut answer = vec![0; ROOM];
        let len = self.socket.read(&mut answer)?;
        match payload_of(&answer[..len]) {
            // That there was no error is told as one.
            Err(error) if error.raw_os_error() == Some(0) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Sends one request; returns the payload of its answer.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn ask(&mut self, kind: u16, payload: &[u8]) -> io::Result<Vec<u8>> {
        self.send(kind, REQUEST, payload)?;
        let mut answer = vec![0; ROOM];
        let len = self.socket.read(&mut answer)?;
        answer.truncate(len);
        payload_of(&answer)
    }
}

fn short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer cut short")
}

/// Takes the messages of one datagram; true when they end the dump.
fn read_dump(mut datagram: &[u8], each: &mut impl FnMut(u16, &[u8])) -> io::Result<bool> {
    while !datagram.is_empty() {
        let len = number(datagram, 0).ok_or_else(short)? as usize;
        let kind = datagram.get(4..6).ok_or_else(short)?;
        let kind = u16::from_ne_bytes([kind[0], kind[1]]);
        let payload = datagram.get(HEADER..len).ok_or_else(short)?;
        match kind {
            DONE => return Ok(true),
            ERROR => {
                payload_of(datagram)?;
            }
            _ => each(kind, payload),
        }
        datagram = datagram.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The payload of the first message of an answer.
fn payload_of(answer: &[u8]) -> io::Result<Vec<u8>> {
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
    fn a_dump_is_taken_message_by_message_until_it_is_done() {
        let message = |kind: u16, payload: &[u8]| {
            let mut bytes = ((HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(payload);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let read = |bytes: &[u8]| {
            let mut taken = Vec::new();
            let done = read_dump(bytes, &mut |kind, payload: &[u8]| {
                taken.push((kind, payload.to_vec()))
            });
            (done.map_err(|error| error.raw_os_error()), taken)
        };
        let two = [message(24, b"first"), message(24, b"second!!")].concat();
        let taken = vec![(24, b"first".to_vec()), (24, b"second!!".to_vec())];
        assert_eq!(read(&two), (Ok(false), taken.clone()));
        let ended = [&two[..], &message(DONE, &[0; 4]), &message(24, b"late")].concat();
        assert_eq!(read(&ended), (Ok(true), taken.clone()));
        let broken = [&two[..], &message(ERROR, &(-105_i32).to_ne_bytes())].concat();
        assert_eq!(read(&broken), (Err(Some(105)), taken));
        assert_eq!(read(&two[..40]).0, Err(None));
        assert_eq!(read(&message(24, b"")[..7]).0, Err(None));
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
