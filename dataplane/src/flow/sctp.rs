//! The SCTP states of a connection as a balancer between client and server sees them, with the names, the
//! numbers, the transitions and the counting of Linux's virtual server. Every packet of a connection goes through
//! [`SctpState::next`]; what follows from a change (timeout, counters) is the caller's.
//!
//! Like TCP's, these are guesses of one in the middle, and not the states of RFC 9260 at either end. The names
//! are the kernel's words for what it has seen, and not always those of the standard: C-WAIT for one is reached
//! by an INIT of the server.

use super::record::{Direction, Mode};
use crate::packet::sctp::Event;

/// The state of an SCTP association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum SctpState {
    /// No packet yet, or a template.
    #[default]
    None = 0,
    /// The client has sent its first INIT.
    Init1 = 1,
    /// The client has sent another INIT.
    Init = 2,
    /// The server has answered with a cookie.
    CookieSent = 3,
    /// The client has sent the cookie back.
    CookieReplied = 4,
    /// The server opens an association of its own, or the client answers such a one.
    CookieWait = 5,
    /// The client has answered the server's INIT with a cookie.
    Cookie = 6,
    /// The server has sent the cookie back; without replies to see, the client has answered an INIT.
    CookieEchoed = 7,
    /// Data may flow.
    Established = 8,
    /// The server has no more data.
    ShutdownSent = 9,
    /// The client has no more data.
    ShutdownReceived = 10,
    /// The server has agreed to the end.
    ShutdownAckSent = 11,
    /// Aborted before it was open.
    Rejected = 12,
    /// Over.
    Closed = 13,
}

use SctpState::{
    Closed, Cookie, CookieEchoed, CookieReplied, CookieSent, CookieWait, Established, Init, Init1, None,
    Rejected, ShutdownAckSent, ShutdownReceived, ShutdownSent,
};

impl SctpState {
    /// Every state, in the order of their numbers.
    pub const ALL: [SctpState; 14] = [
        None,
        Init1,
        Init,
        CookieSent,
        CookieReplied,
        CookieWait,
        Cookie,
        CookieEchoed,
        Established,
        ShutdownSent,
        ShutdownReceived,
        ShutdownAckSent,
        Rejected,
        Closed,
    ];

    /// The state of this number, as a record stores it; unknown numbers are [`SctpState::None`].
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> SctpState {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// The name in listings, as the kernel's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            None => "NONE",
            Init1 => "INIT1",
            Init => "INIT",
            CookieSent => "C-SENT",
            CookieReplied => "C-REPLIED",
            CookieWait => "C-WAIT",
            Cookie => "COOKIE",
            CookieEchoed => "C-ECHOED",
            Established => "ESTABLISHED",
            ShutdownSent => "S-SENT",
            ShutdownReceived => "S-RECEIVED",
            ShutdownAckSent => "S-ACK-SENT",
            Rejected => "REJECTED",
            Closed => "CLOSED",
        }
    }

    /// The state after a packet that is this event. An INIT on an open association changes nothing: the server
    /// decides what it means (RFC 9260 5.2).
    #[inline]
    #[must_use]
    pub const fn next(self, mode: Mode, direction: Direction, event: Event) -> SctpState {
        match direction {
            _ if matches!(self, None) => Self::first(mode, direction, event),
            _ if mode.is_input_only() => self.after_client_only(event),
            Direction::Inbound => self.after_client(event),
            Direction::Outbound => self.after_server(event),
        }
    }

    /// The state after the first packet of all. Only an INIT opens a connection, unless the gateway was told to
    /// take associations in their midst.
    const fn first(mode: Mode, direction: Direction, event: Event) -> SctpState {
        let outbound = matches!(direction, Direction::Outbound);
        match event {
            Event::None => None,
            Event::Data | Event::CookieAck => Established,
            Event::Error | Event::ShutdownComplete | Event::Abort => Closed,
            _ if mode.is_input_only() => match event {
                Event::Init => Init1,
                Event::InitAck => CookieEchoed,
                Event::CookieEcho => Established,
                Event::Shutdown => ShutdownReceived,
                _ => Closed,
            },
            Event::Init if outbound => CookieWait,
            Event::Init => Init1,
            Event::InitAck if outbound => CookieSent,
            Event::InitAck => CookieWait,
            Event::CookieEcho if outbound => CookieEchoed,
            Event::CookieEcho => CookieReplied,
            Event::Shutdown if outbound => ShutdownSent,
            Event::Shutdown => ShutdownReceived,
            Event::ShutdownAck if outbound => ShutdownAckSent,
            Event::ShutdownAck => Closed,
        }
    }

    /// A packet of the client, when those of the server are seen too.
    const fn after_client(self, event: Event) -> SctpState {
        match (event, self) {
            (Event::Init, Closed) => Init1,
            (Event::Init, Init1 | Rejected) => Init,
            (Event::InitAck, Init1 | Init) => CookieWait,
            (Event::InitAck, CookieWait) => Cookie,
            (Event::CookieEcho, Init1) => Init,
            (Event::CookieEcho, CookieSent) => CookieReplied,
            (Event::CookieAck, CookieEchoed) => Established,
            (Event::Shutdown, Established) => ShutdownReceived,
            (Event::ShutdownAck, Init1) => Init,
            (Event::ShutdownAck, ShutdownSent | ShutdownAckSent) => Closed,
            (Event::ShutdownComplete, Init1 | Init | ShutdownAckSent) => Closed,
            (Event::Error, CookieEchoed) => Closed,
            (Event::Abort, CookieWait) => Rejected,
            (Event::Abort, _) => Closed,
            _ => self,
        }
    }

    /// A packet of the server.
    const fn after_server(self, event: Event) -> SctpState {
        let opening = matches!(
            self,
            Init1 | Init | CookieSent | CookieReplied | CookieWait | Cookie | CookieEchoed
        );
        // The server has not been heard of, or has answered a client's INIT.
        let asked = matches!(self, Init1 | Init | CookieSent | CookieReplied);
        match (event, self) {
            (Event::Init, Established) => self,
            (Event::Init, _) => CookieWait,
            (Event::InitAck, Init1 | Init) => CookieSent,
            (Event::CookieEcho, _) if opening => CookieEchoed,
            (Event::CookieAck, _) if opening => Established,
            (Event::Shutdown, Established) => ShutdownSent,
            (Event::Shutdown, _) if opening => ShutdownSent,
            (Event::ShutdownAck, ShutdownSent | ShutdownReceived) => ShutdownAckSent,
            (Event::ShutdownAck, _) if asked => ShutdownAckSent,
            (Event::Error, _) if asked => Closed,
            (Event::Abort, Init1) => Rejected,
            (Event::Abort, _) => Closed,
            _ => self,
        }
    }

    /// A packet of the client, when those of the server pass the gateway by: what the client says must have had
    /// the server's answer before it.
    const fn after_client_only(self, event: Event) -> SctpState {
        match (event, self) {
            (Event::InitAck, Init1 | Init) => CookieEchoed,
            (Event::CookieEcho, Init1 | Init) => Established,
            (Event::ShutdownAck, Established) => Closed,
            (Event::ShutdownComplete, ShutdownReceived) => Closed,
            (Event::Error, CookieEchoed) => self,
            _ => self.after_client(event),
        }
    }

    /// Whether connections in this state count as active (ActiveConn) or inactive (InActConn): unlike TCP's, half-open
    /// ones are inactive.
    #[inline]
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Established)
    }

    /// Whether a new INIT of the client ends the connection, to be scheduled afresh; in every other state it goes
    /// to the same server. `reuse_mode` is the kernel's conn_reuse_mode: with 0 never.
    #[inline]
    #[must_use]
    pub const fn reusable(self, reuse_mode: u8) -> bool {
        matches!(self, Closed) && reuse_mode != 0
    }

    /// Whether the connection is over as far as both ends are concerned, so that its local port may be given
    /// to another when none else is free.
    #[inline]
    #[must_use]
    pub const fn is_closing(self) -> bool {
        matches!(self, Closed | Rejected)
    }
}

#[cfg(test)]
mod tests;
