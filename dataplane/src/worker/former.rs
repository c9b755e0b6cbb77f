//! What a server says to the connection that had a local port before the present one, called for each packet by the
//! forward stage.
//!
//! A port can be given to a new connection while the server's last segments of the old one are on their way. They
//! arrive before its SYN-ACK, and look as if the server had answered the new client's SYN with something else.

use super::schedule::Refusal;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, Flags, FlowIndex, Hit, Mode, Record, TcpState};
use crate::packet::{Headers, Packet, ipv4, tcp};

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Whether a packet, though it is between the ends of this connection, is of the one before: then it says nothing
    /// about this one's state.
    ///
    /// # Errors
    /// It is that one's last acknowledgement, which nobody waits for any more.
    #[inline]
    pub(super) fn is_of_former(
        &mut self,
        hit: Hit,
        headers: &Headers,
        packet: &I::Packet,
    ) -> Result<bool, Refusal> {
        let outbound = hit.direction == Direction::Outbound;
        // One branch, which hardly any packet takes, whatever its direction.
        if outbound & awaits_answer(self.table.get(hit.id)) {
            self.judge_answer(hit, &packet.bytes()[usize::from(headers.l4)..])
        } else {
            Ok(false)
        }
    }

    /// A server's first answer is a SYN-ACK, or a reset that acknowledges the SYN (RFC 9293 3.10.7.2). A first
    /// acknowledgement of exactly what the old connection has ended with is the old one's, most likely, and the SYN is on
    /// its way: the new client would reset it. One that comes again, or acknowledges something else, is how a server
    /// refuses a SYN that it cannot take (RFC 9293 3.10.7.4): the client has to hear that, since its reset ends what is
    /// in the way.
    #[cold]
    #[inline(never)]
    fn judge_answer(&mut self, hit: Hit, segment: &[u8]) -> Result<bool, Refusal> {
        let record = self.table.get_mut(hit.id);
        let flags = tcp::flags(segment);
        let acknowledged = (flags & tcp::ACK != 0).then(|| tcp::acknowledgement(segment));
        if flags & tcp::SYN != 0 || acknowledged == Some(record.sequence) {
            return Ok(false);
        }
        let first = !record.flags.has(Flags::SEEN_OUTPUT);
        record.flags.set(Flags::SEEN_OUTPUT, true);
        let record = self.table.get(hit.id);
        let pair = super::connection::pair_of(&self.table, record);
        let place = self.locals.place_of(&pair, record.outbound.destination_port());
        if first && acknowledged.is_some() && acknowledged == self.locals.last_shown(place, self.now) {
            return Err(DropReason::FormerConnection.into());
        }
        Ok(true)
    }
}

/// Whether a connection's server has been sent the SYN, as far as the gateway has seen, and nothing more.
#[inline]
fn awaits_answer(record: &Record) -> bool {
    (record.protocol == ipv4::TCP)
        & (record.state == TcpState::SynRecv as u8)
        & (record.mode() == Mode::Fullnat)
        & !record.flags.has(Flags::SERVER_ISN)
}
