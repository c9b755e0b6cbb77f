//! How connections end otherwise than by their packets: with the server that is removed, or by time, and what both of
//! their ends are told.

use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, Flags, FlowIndex, Hit, Record, RecordId, TcpState};
use crate::packet::{Headers, Packet, PortRules, craft, ipv4, parse, tcp};
use crate::service::{OnRemove, Presence, Service, Snapshot};
use crate::time::Tick;

/// What is to become of a connection whose server is not there as usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It goes on.
    Stays,
    /// It stays in the table, and what its client sends is dropped.
    Waits,
    /// It ends.
    Ends,
    /// It ends, and both of its ends are told.
    IsReset,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// What becomes of a connection of this server by itself, without a packet.
    fn fate(&self, record: &Record) -> Fate {
        if record.is_template() || self.snapshot.server_present(record.server) {
            // One that is quiesced keeps what it has, until a datagram comes. A template is not used without its
            // server, and waits for its time to be over.
            return Fate::Stays;
        }
        let state = &self.servers[record.server as usize];
        let on_remove = match record.flags.has(Flags::SNAT) {
            true => OnRemove::Keep,
            false => state.on_remove,
        };
        match on_remove {
            OnRemove::Keep if self.snapshot.settings.expire_nodest_conn => Fate::Ends,
            OnRemove::Keep => Fate::Waits,
            OnRemove::Drain if state.drains_at(self.now) => Fate::Stays,
            OnRemove::Drain | OnRemove::Reschedule => Fate::Ends,
            OnRemove::Reset => Fate::IsReset,
        }
    }

    /// Whether a packet still belongs to a connection whose server is gone, or leaves its connections. Without any
    /// service it is nobody's, and the connection waits for its service or its end. A server that takes no more requests
    /// may still answer.
    #[cold]
    #[inline(never)]
    pub(super) fn goes_on_without_server(&mut self, hit: Hit) -> Result<bool, DropReason> {
        self.catch_up(self.table.get(hit.id).service);
        let record = self.table.get(hit.id);
        let outbound = hit.direction == Direction::Outbound;
        if self.snapshot.presence(record.server) == Presence::Leaving {
            return Ok(outbound || record.protocol != ipv4::UDP);
        }
        if self.snapshot.is_empty() {
            return Ok(false);
        }
        match self.fate(record) {
            Fate::Stays => Ok(true),
            Fate::Waits if outbound => Ok(true),
            Fate::Waits => Err(DropReason::ServerGone),
            Fate::Ends => Ok(false),
            Fate::IsReset => {
                self.reset_ends(hit.id);
                Ok(false)
            }
        }
    }

    /// Looks at a connection again after a new snapshot, or when a server may drain no longer: ends it if it has to.
    pub(super) fn review(&mut self, id: RecordId) {
        self.catch_up(self.table.get(id).service);
        let fate = self.fate(self.table.get(id));
        match fate {
            Fate::Stays | Fate::Waits => {
                let record = self.table.get(id);
                let deadline = self.snapshot.timeouts_of(record).deadline(record);
                self.arm(id, deadline);
            }
            Fate::Ends => self.close(id),
            Fate::IsReset => {
                self.reset_ends(id);
                self.close(id);
            }
        }
    }

    /// A connection has timed out: its ends are told if its service wants that, and it ends. Its timer is off the wheel.
    pub(super) fn time_out(&mut self, id: RecordId) {
        let record = self.table.get(id);
        if record.protocol == ipv4::TCP
            && record.flags.has(Flags::EXTENDED)
            && is_open(record.tcp_state())
            && self
                .service_of_record(record)
                .is_some_and(|service| service.policy.reset_idle)
        {
            self.reset_ends(id);
        }
        self.forget(id);
    }

    fn service_of_record(&self, record: &Record) -> Option<&Service> {
        let is_ours = !record.flags.has(Flags::SNAT);
        is_ours.then(|| self.snapshot.service(record.service).map(AsRef::as_ref))?
    }

    /// Keeps the sequence numbers of a new TCP connection, which its service may want reset. Without room for them it
    /// will end in silence.
    pub(super) fn follow_sequences(&mut self, id: RecordId) {
        if self.table.get(id).protocol == ipv4::TCP {
            let _ = self.table.extend(id);
        }
    }

    /// Notes the sequence numbers of a segment as it came in, where they are kept.
    #[inline]
    pub(super) fn note_sequences(&mut self, hit: Hit, packet: &I::Packet, headers: &Headers) {
        let extended = self.table.get(hit.id).flags.has(Flags::EXTENDED);
        if extended & (headers.protocol == ipv4::TCP) {
            self.write_sequences(hit, packet.bytes(), headers);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_sequences(&mut self, hit: Hit, frame: &[u8], headers: &Headers) {
        if let Some(segment) = frame.get(usize::from(headers.l4)..usize::from(headers.end))
            && segment.len() >= tcp::HEADER_LEN
            && let Some(extension) = self.table.extend(hit.id)
        {
            let next = tcp::sequence(segment).wrapping_add(tcp::sequence_len(segment));
            let has_ack = headers.l4_flags & tcp::ACK != 0;
            let acknowledgement = has_ack.then(|| tcp::acknowledgement(segment));
            extension.sequences.note(hit.direction, next, acknowledgement);
        }
    }

    /// Tells both ends of a TCP connection that it has ended, by resets that they accept. The connection itself is left
    /// as it is.
    #[cold]
    pub(super) fn reset_ends(&mut self, id: RecordId) {
        let record = *self.table.get(id);
        if record.protocol != ipv4::TCP || !is_open(record.tcp_state()) {
            return;
        }
        let Some(sequences) = self.table.extension(&record).map(|extension| extension.sequences) else {
            return;
        };
        let ends = self.table.ends(&record);
        let (client, vip) = (ends.client, ends.virtual_address);
        let at = sequences.reset(Direction::Outbound);
        // An end that has sent a SYN only looks at the acknowledgement (RFC 9293 3.10.7.3).
        let blind = at.expected.is_none().then_some(0);
        for sequence in each(at.expected, at.sent.or(blind)) {
            let acknowledgement = at.acknowledgement;
            let fill =
                |out: &mut I::Packet| craft::tcp_reset_between(out, vip, client, sequence, acknowledgement);
            if let Some(packet) = self.fresh(fill) {
                self.send_to(client.ip(), packet);
            }
        }
        let at = sequences.reset(Direction::Inbound);
        // What the server has acknowledged is among the numbers that it was shown.
        let own = |expected: u32| expected.wrapping_sub(record.sequence_shift);
        for sequence in each(at.expected.map(own), at.sent) {
            let acknowledgement = at.acknowledgement;
            let fill =
                |out: &mut I::Packet| craft::tcp_reset_between(out, client, vip, sequence, acknowledgement);
            if let Some(packet) = self.fresh(fill) {
                self.send_to_server(id, packet);
            }
        }
    }

    /// Sends to the server of a connection a packet that could be its client's: rewritten as all of these are.
    fn send_to_server(&mut self, id: RecordId, mut packet: I::Packet) {
        let rules = PortRules {
            digest: self.digest,
            ..PortRules::default()
        };
        let hit = Hit {
            id,
            direction: Direction::Inbound,
        };
        let sent = parse(&packet, &rules).map_err(Into::into).and_then(|headers| {
            let neighbour = self.neighbour_of(hit)?;
            self.rewrite(&mut packet, &headers, hit)?;
            Ok(neighbour)
        });
        match sent {
            Ok(neighbour) => self.resolve(neighbour, packet),
            Err(super::schedule::Refusal { reason, .. }) => self.discard(packet, reason),
        }
    }

    /// Servers that are in the old snapshot and not in the new one: what becomes of their connections, as the service
    /// says now, or said last. True when some may have to end.
    pub(super) fn note_removed(
        &mut self,
        before: &Service,
        now: Option<&Service>,
        snapshot: &Snapshot,
    ) -> bool {
        let policy = now.unwrap_or(before).policy;
        let mut removed = false;
        for server in &before.servers {
            if snapshot.server_present(server.slot) {
                continue;
            }
            removed = true;
            let state = &mut self.servers[server.slot as usize];
            state.on_remove = policy.on_remove;
            let ends = policy.on_remove == OnRemove::Drain && policy.drain_deadline != 0;
            state.drain_until = ends.then(|| self.now.after(policy.drain_deadline));
            if let Some(until) = state.drain_until {
                let sooner = |next: Tick| if next.reached(until) { until } else { next };
                self.next_drained = Some(self.next_drained.map_or(until, sooner));
            }
        }
        removed && policy.on_remove != OnRemove::Keep
    }

    /// Ends what has drained for as long as it may.
    pub(super) fn end_drained(&mut self) {
        let Some(due) = self.next_drained.filter(|due| self.now.reached(*due)) else {
            return;
        };
        let later = self.servers.iter().filter_map(|state| state.drain_until);
        let later = later.filter(|until| !due.reached(*until));
        self.next_drained = later.reduce(|one, other| if one.reached(other) { other } else { one });
        self.review_from = Some(0);
    }
}

impl super::ServerState {
    /// Whether connections of this server, which has been removed, go on.
    fn drains_at(&self, now: Tick) -> bool {
        self.drain_until.is_none_or(|until| !now.reached(until))
    }
}

/// Whether an end may still hold a connection in this state for open.
fn is_open(state: TcpState) -> bool {
    !matches!(
        state,
        TcpState::None | TcpState::TimeWait | TcpState::Close | TcpState::Listen
    )
}

/// Both sequence numbers that an end may expect next, if they differ.
fn each(expected: Option<u32>, sent: Option<u32>) -> impl Iterator<Item = u32> {
    let other = sent.filter(|_| sent != expected);
    expected.into_iter().chain(other)
}
