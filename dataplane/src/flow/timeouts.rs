//! How long a connection lives without a packet, by protocol and state. The pipeline and the wheel's owner ask;
//! configuration and `ipvsadm --set` change them.

use super::record::Record;
use super::sctp::SctpState;
use super::state::TcpState;
use crate::packet::ipv4::{self, SCTP, TCP};
use crate::packet::ipv6;
use crate::time::{TICKS_PER_SECOND, Tick, seconds};

/// Timeouts in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// By [`TcpState`] number.
    pub tcp: [u32; TcpState::ALL.len()],
    /// By [`SctpState`] number.
    pub sctp: [u32; SctpState::ALL.len()],
    /// Of UDP.
    pub udp: u32,
    /// Of ICMP and ICMPv6 echo.
    pub icmp: u32,
}

impl Default for Timeouts {
    /// The kernel's: 15 minutes for an established connection, 5 minutes for UDP. Those of SCTP follow from its
    /// retransmission: a little more than the first timeout, 3 seconds, and than the longest, a minute. A minute for
    /// echo, which is the least there may be (RFC 5508 REQ-2).
    fn default() -> Self {
        let of = |state| match state {
            TcpState::None => 2,
            TcpState::Established => 900,
            TcpState::SynRecv | TcpState::CloseWait => 60,
            TcpState::Close => 10,
            TcpState::LastAck => 30,
            TcpState::SynSent
            | TcpState::FinWait
            | TcpState::TimeWait
            | TcpState::Listen
            | TcpState::SynAck => 120,
        };
        let of_sctp = |state| match state {
            SctpState::None => 2,
            SctpState::Init1 | SctpState::Rejected => 4,
            SctpState::Established => 900,
            _ => 61,
        };
        Timeouts {
            tcp: TcpState::ALL.map(|state| seconds(of(state))),
            sctp: SctpState::ALL.map(|state| seconds(of_sctp(state))),
            udp: seconds(300),
            icmp: seconds(60),
        }
    }
}

impl Timeouts {
    /// `ipvsadm --set tcp tcpfin udp`, in seconds: the timeouts of ESTABLISHED, of FIN_WAIT and of UDP; 0
    /// keeps what is there.
    pub fn set(&mut self, tcp: u32, tcp_fin: u32, udp: u32) {
        let replace = |timeout: &mut u32, new: u32| {
            if new != 0 {
                *timeout = seconds(new);
            }
        };
        replace(&mut self.tcp[TcpState::Established as usize], tcp);
        replace(&mut self.tcp[TcpState::FinWait as usize], tcp_fin);
        replace(&mut self.udp, udp);
    }

    /// `ipvsadm -L --timeout`: tcp, tcpfin and udp in seconds.
    #[must_use]
    pub fn shown(&self) -> [u32; 3] {
        let established = self.tcp[TcpState::Established as usize];
        [established, self.tcp[TcpState::FinWait as usize], self.udp].map(|ticks| ticks / TICKS_PER_SECOND)
    }

    /// The timeout of a protocol in a state, in ticks.
    #[inline]
    #[must_use]
    pub fn of(&self, protocol: u8, state: u8) -> u32 {
        match protocol {
            TCP => self.tcp[TcpState::from_number(state) as usize],
            SCTP => self.sctp[SctpState::from_number(state) as usize],
            ipv4::ICMP | ipv6::ICMP => self.icmp,
            _ => self.udp,
        }
    }

    /// When this connection ends if no more packets come, or this template if it is not used any more.
    #[inline]
    #[must_use]
    pub fn deadline(&self, record: &Record) -> Tick {
        let timeout = if record.is_template() {
            record.template_timeout()
        } else {
            self.of(record.protocol, record.state)
        };
        record.last_seen().after(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::record::Mode;
    use crate::packet::FlowKey;

    #[test]
    fn setting_changes_three_of_them_and_zero_keeps() {
        let mut timeouts = Timeouts::default();
        assert_eq!(timeouts.shown(), [900, 120, 300]);
        timeouts.set(100, 10, 20);
        timeouts.set(0, 5, 0);
        assert_eq!(timeouts.shown(), [100, 5, 20]);
        let mut expected = Timeouts::default();
        expected.tcp[TcpState::Established as usize] = 10_000;
        expected.tcp[TcpState::FinWait as usize] = 500;
        expected.udp = 2_000;
        assert_eq!(timeouts, expected);
    }

    #[test]
    fn an_association_is_waited_for_as_long_as_the_kernel_does() {
        let timeouts = Timeouts::default();
        let of = |state: SctpState| timeouts.of(SCTP, state as u8) / TICKS_PER_SECOND;
        assert_eq!(
            SctpState::ALL.map(of),
            [2, 4, 61, 61, 61, 61, 61, 61, 900, 61, 61, 61, 4, 61]
        );
    }

    #[test]
    fn a_deadline_counts_from_the_last_packet() {
        let timeouts = Timeouts::default();
        let mut record = Record::new(6, Mode::Dr, FlowKey::default(), FlowKey::default());
        record.state = TcpState::SynRecv as u8;
        record.stamp(Tick(u32::MAX));
        assert_eq!(timeouts.deadline(&record), Tick(5_999));
        record.protocol = 17;
        assert_eq!(timeouts.deadline(&record), Tick(29_999));
        for echo in [1, 58] {
            record.protocol = echo;
            assert_eq!(timeouts.deadline(&record), Tick(5_999));
        }
    }
}
