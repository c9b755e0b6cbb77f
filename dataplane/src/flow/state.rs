//! The TCP states of a connection as a balancer between client and server sees them, with the names, the
//! transitions and the counting of Linux's virtual server. Every segment of a connection goes through
//! [`TcpState::next`]; what follows from a change (timeout, counters) is the caller's.
//!
//! This is not the state machine of RFC 9293: a balancer that sees one direction only, or a segment before the
//! one it acknowledges, has to guess, and guesses so that a live connection is never cut short.

use super::record::{Direction, Mode};

/// TCP flag: no more data from the sender.
pub const FIN: u8 = 0x01;
/// TCP flag: synchronise sequence numbers.
pub const SYN: u8 = 0x02;
/// TCP flag: reset the connection.
pub const RST: u8 = 0x04;
/// TCP flag: the acknowledgement number counts.
pub const ACK: u8 = 0x10;

/// The state of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum TcpState {
    /// No packet yet, or a template.
    #[default]
    None = 0,
    /// Data may flow.
    Established = 1,
    /// The server has sent a SYN on a closed connection.
    SynSent = 2,
    /// The client has sent a SYN.
    SynRecv = 3,
    /// The server has closed its side; without replies to see, either has.
    FinWait = 4,
    /// Both sides have closed.
    TimeWait = 5,
    /// Reset.
    Close = 6,
    /// The client has closed its side.
    CloseWait = 7,
    /// Never entered by the rules here; kept for imported connections.
    LastAck = 8,
    /// Never entered by the rules here; kept for imported connections.
    Listen = 9,
    /// Under the secure rules: the server has answered the SYN.
    SynAck = 10,
}

use TcpState::{
    Close, CloseWait, Established, FinWait, LastAck, Listen, None, SynAck, SynRecv, SynSent, TimeWait,
};

/// What a segment is to the rules: the first that applies of RST, SYN, FIN, ACK.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Syn = 0,
    Fin = 1,
    Ack = 2,
    Rst = 3,
}

fn event_of(flags: u8) -> Option<Event> {
    match flags {
        f if f & RST != 0 => Some(Event::Rst),
        f if f & SYN != 0 => Some(Event::Syn),
        f if f & FIN != 0 => Some(Event::Fin),
        f if f & ACK != 0 => Some(Event::Ack),
        _ => Option::None,
    }
}

/// The next state by state (in the order of their numbers) and event (SYN, FIN, ACK, RST).
type Rules = [[TcpState; 4]; TcpState::ALL.len()];

/// Segments of the client, when those of the server are seen too.
const FROM_CLIENT: Rules = [
    [SynRecv, Close, Established, Close],
    [Established, CloseWait, Established, Close],
    [Established, SynSent, SynSent, Close],
    [SynRecv, TimeWait, Established, SynRecv],
    [SynRecv, TimeWait, FinWait, Close],
    [SynRecv, TimeWait, TimeWait, Close],
    [SynRecv, Close, Close, Close],
    [SynRecv, CloseWait, CloseWait, Close],
    [SynRecv, LastAck, Close, Close],
    [SynRecv, Close, Established, Close],
    [SynRecv, TimeWait, Established, Close],
];

/// Segments of the server.
const FROM_SERVER: Rules = [
    [SynSent, Close, Established, Close],
    [Established, FinWait, Established, Close],
    [SynSent, SynSent, SynSent, SynSent],
    [SynRecv, TimeWait, Established, Close],
    [SynSent, FinWait, FinWait, Close],
    [SynSent, TimeWait, TimeWait, TimeWait],
    [SynSent, Close, Close, Close],
    [SynSent, TimeWait, CloseWait, Close],
    [SynSent, TimeWait, LastAck, Close],
    [SynSent, Close, Established, Close],
    [SynRecv, TimeWait, Established, Close],
];

/// Segments of the client, when those of the server pass the gateway by: a FIN may already be the second.
const CLIENT_ONLY: Rules = [
    [SynRecv, Close, Established, Close],
    [Established, FinWait, Established, Close],
    [Established, SynSent, SynSent, Close],
    [SynRecv, TimeWait, Established, SynRecv],
    [SynRecv, FinWait, FinWait, Close],
    [SynRecv, TimeWait, TimeWait, Close],
    [SynRecv, Close, Close, Close],
    [SynRecv, CloseWait, CloseWait, Close],
    [SynRecv, LastAck, Close, Close],
    [SynRecv, Close, Established, Close],
    [SynRecv, TimeWait, Established, Close],
];

impl TcpState {
    /// Every state, in the order of their numbers.
    pub const ALL: [TcpState; 11] = [
        None,
        Established,
        SynSent,
        SynRecv,
        FinWait,
        TimeWait,
        Close,
        CloseWait,
        LastAck,
        Listen,
        SynAck,
    ];

    /// The state of this number, as a record stores it; unknown numbers are [`TcpState::None`].
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> TcpState {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// The name in listings, as the kernel's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            None => "NONE",
            Established => "ESTABLISHED",
            SynSent => "SYN_SENT",
            SynRecv => "SYN_RECV",
            FinWait => "FIN_WAIT",
            TimeWait => "TIME_WAIT",
            Close => "CLOSE",
            CloseWait => "CLOSE_WAIT",
            LastAck => "LAST_ACK",
            Listen => "LISTEN",
            SynAck => "SYNACK",
        }
    }

    /// The state after a segment with these TCP flags. A segment with none of SYN, FIN, ACK and RST closes,
    /// whatever the state.
    #[inline]
    #[must_use]
    pub fn next(self, mode: Mode, direction: Direction, flags: u8) -> TcpState {
        let Some(event) = event_of(flags) else {
            return Close;
        };
        let rules = match direction {
            _ if mode.is_input_only() => &CLIENT_ONLY,
            Direction::Inbound => &FROM_CLIENT,
            Direction::Outbound => &FROM_SERVER,
        };
        rules[self as usize][event as usize]
    }

    /// As [`TcpState::next`] by the secure rules, against floods of half-open connections: only the server's
    /// word, or where replies are not seen the client's answer to it, establishes a connection.
    #[must_use]
    pub fn next_secure(self, mode: Mode, direction: Direction, flags: u8) -> TcpState {
        let event = event_of(flags);
        match (mode.is_input_only(), direction, self, event) {
            (true, _, None | FinWait | TimeWait | Close | SynAck, Some(Event::Syn)) => SynAck,
            (false, Direction::Inbound, SynRecv, Some(Event::Ack)) => SynRecv,
            (false, Direction::Inbound, SynAck, Some(Event::Syn | Event::Fin | Event::Ack)) => SynAck,
            (false, Direction::Outbound, SynRecv | SynAck, Some(Event::Syn)) => SynAck,
            _ => self.next(mode, direction, flags),
        }
    }

    /// Whether connections in this state count as active (ActiveConn) or inactive (InActConn): half-open and
    /// established ones are active, closing ones are not.
    #[inline]
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Established | SynSent | SynRecv | SynAck)
    }

    /// Whether a new SYN of the client (or a SYN with RST, which is not scheduled then) ends the connection, to
    /// be scheduled afresh. `reuse_mode` is the kernel's conn_reuse_mode: with 0 never; with bit 2 (value 2)
    /// set also in FIN_WAIT where replies are not seen, since the FIN may have been the second one.
    #[inline]
    #[must_use]
    pub const fn reusable(self, mode: Mode, reuse_mode: u8) -> bool {
        match self {
            TimeWait | Close => reuse_mode != 0,
            FinWait => reuse_mode & 2 != 0 && mode.is_input_only(),
            _ => false,
        }
    }

    /// Whether the handshake is not over: what a flood of SYNs leaves behind.
    #[inline]
    #[must_use]
    pub const fn is_embryonic(self) -> bool {
        matches!(self, SynRecv | SynAck)
    }

    /// Whether the connection is over as far as both ends are concerned, so that its local port may be given
    /// to another when none else is free.
    #[inline]
    #[must_use]
    pub const fn is_closing(self) -> bool {
        matches!(self, TimeWait | Close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Inbound, Outbound};

    /// What a segment is called in the cases below, with its flags.
    const SEGMENTS: [(&str, u8); 10] = [
        ("-", 0),
        ("A", ACK),
        ("F", FIN),
        ("FA", FIN | ACK),
        ("R", RST),
        ("RA", RST | ACK),
        ("S", SYN),
        ("SA", SYN | ACK),
        ("SF", SYN | FIN),
        ("SR", SYN | RST),
    ];

    /// A row: state, direction, then the next state after each of [`SEGMENTS`], by the two letters of
    /// [`short`]; `..` where the kernel's answer depends on more than the state.
    type Case = (TcpState, Direction, &'static str);

    fn short(state: TcpState) -> &'static str {
        ["NO", "ES", "SS", "SR", "FW", "TW", "CL", "CW", "LA", "LI", "SA"][state as usize]
    }

    fn check(mode: Mode, secure: bool, cases: &[Case]) {
        for &(state, direction, row) in cases {
            let expected: Vec<_> = row.split(' ').collect();
            for (&(segment, flags), &expected) in SEGMENTS.iter().zip(&expected) {
                let next = match secure {
                    false => state.next(mode, direction, flags),
                    true => state.next_secure(mode, direction, flags),
                };
                let what = format!("{mode:?} {direction:?} {segment} in {}", state.name());
                assert!(
                    expected == ".." || short(next) == expected,
                    "{what}: {}",
                    next.name()
                );
            }
        }
    }

    const NAT: [Case; 14] = [
        (Established, Inbound, "CL ES CW CW CL CL ES ES"),
        (Established, Outbound, "CL ES FW FW CL CL ES ES"),
        (SynSent, Inbound, "CL SS SS SS CL CL ES ES"),
        (SynSent, Outbound, "CL SS SS SS SS SS SS SS"),
        (SynRecv, Inbound, "CL ES TW TW SR SR SR SR"),
        (SynRecv, Outbound, "CL ES TW TW CL CL SR SR"),
        (FinWait, Inbound, "CL FW TW TW CL CL SR SR"),
        (FinWait, Outbound, "CL FW FW FW CL CL SS SS"),
        (TimeWait, Inbound, "CL TW TW TW CL CL SR SR"),
        (TimeWait, Outbound, "CL TW TW TW TW TW SS SS"),
        (Close, Inbound, "CL CL CL CL CL CL SR SR"),
        (Close, Outbound, "CL CL CL CL CL CL SS SS"),
        (CloseWait, Inbound, "CL CW CW CW CL CL SR SR"),
        (CloseWait, Outbound, "CL CW TW TW CL CL SS SS"),
    ];

    #[test]
    fn with_replies_seen_as_recorded() {
        check(Mode::Nat, false, &[(None, Inbound, ".. .. .. .. .. .. SR SR")]);
        check(Mode::Nat, false, &NAT);
        check(Mode::Fullnat, false, &NAT);
    }

    #[test]
    fn with_replies_passing_by_as_recorded() {
        let cases = [
            (None, Inbound, ".. ES CL CL .. .. SR SR .. .."),
            (Established, Inbound, "CL ES FW FW CL CL ES ES ES CL"),
            (SynRecv, Inbound, "CL ES TW TW SR SR SR SR SR SR"),
            (FinWait, Inbound, "CL FW FW FW CL CL SR SR SR CL"),
            (TimeWait, Inbound, "CL TW TW TW CL CL SR SR SR .."),
            (Close, Inbound, "CL CL CL CL CL CL SR SR SR .."),
        ];
        check(Mode::Dr, false, &cases);
        check(Mode::Tun, false, &cases);
    }

    #[test]
    fn secure_rules_as_recorded() {
        let changed = [
            (None, Inbound, ".. .. .. .. .. .. SR .."),
            (SynRecv, Inbound, "CL SR TW TW SR SR SR SR"),
            (SynRecv, Outbound, "CL ES TW TW CL CL SA SA"),
            (SynAck, Inbound, "CL SA SA SA CL CL SA SA"),
            (SynAck, Outbound, "CL ES TW TW CL CL SA SA"),
        ];
        check(Mode::Nat, true, &changed);
        let unchanged: Vec<_> = NAT.into_iter().filter(|case| case.0 != SynRecv).collect();
        check(Mode::Nat, true, &unchanged);

        check(
            Mode::Dr,
            true,
            &[
                (None, Inbound, ".. .. .. .. .. .. SA .. .. .."),
                (Established, Inbound, "CL ES FW FW CL CL ES ES ES CL"),
                (FinWait, Inbound, "CL FW FW FW CL CL SA SA SA CL"),
                (TimeWait, Inbound, "CL TW TW TW CL CL SA SA SA .."),
                (Close, Inbound, "CL CL CL CL CL CL SA SA SA .."),
                (SynAck, Inbound, "CL ES TW TW CL CL SA SA SA CL"),
            ],
        );
    }

    #[test]
    fn a_syn_starts_afresh_only_where_the_old_connection_is_over() {
        let reusable = |mode, reuse_mode| {
            let states = TcpState::ALL
                .into_iter()
                .filter(move |s| s.reusable(mode, reuse_mode));
            states.collect::<Vec<_>>()
        };
        for mode in [Mode::Nat, Mode::Dr, Mode::Tun, Mode::Fullnat] {
            assert_eq!(reusable(mode, 0), []);
            assert_eq!(reusable(mode, 1), [TimeWait, Close]);
        }
        assert_eq!(reusable(Mode::Dr, 2), [FinWait, TimeWait, Close]);
        assert_eq!(reusable(Mode::Fullnat, 2), [TimeWait, Close]);
    }

    #[test]
    fn half_open_counts_as_active_and_closing_does_not() {
        let active: Vec<_> = TcpState::ALL.into_iter().filter(|s| s.is_active()).collect();
        assert_eq!(active, [Established, SynSent, SynRecv, SynAck]);
    }

    #[test]
    fn numbers_and_names_agree() {
        for (number, state) in TcpState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
            assert_eq!(TcpState::from_number(number as u8), state);
        }
        assert_eq!(TcpState::from_number(200), None);
        assert_eq!(
            TcpState::ALL.map(TcpState::name)[3..7],
            ["SYN_RECV", "FIN_WAIT", "TIME_WAIT", "CLOSE"]
        );
    }

    /// A connection is put into the table with the state after its SYN, which goes through the rules once more then.
    #[test]
    fn a_syn_that_has_opened_a_connection_changes_nothing_when_it_is_seen() {
        for mode in [Mode::Nat, Mode::Dr, Mode::Tun, Mode::Fullnat] {
            for flags in (0..=255).filter(|flags| flags & SYN != 0 && flags & RST == 0) {
                let first = None.next(mode, Inbound, flags);
                assert_eq!(first.next(mode, Inbound, flags), first);
                assert!(first.is_embryonic() && first.is_active());
                let secure = None.next_secure(mode, Inbound, flags);
                assert_eq!(secure.next_secure(mode, Inbound, flags), secure);
            }
        }
    }
}
