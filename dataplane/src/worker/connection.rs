//! The life of a connection on its worker: opened, seen, ended. Table, timer, counts, thresholds and local ports
//! change together here and nowhere else.

use super::{Io, ServerState, Worker, WorkerStats};
use crate::flow::{
    Addresses6, ConnectionTable, Direction, Flags, FlowIndex, InsertError, Mode, Record, RecordId, SctpState,
    TcpState,
};
use crate::local::Pair;
use crate::packet::{Headers, ipv4, sctp};
use crate::scheduler::{Load, Loads};
use crate::service::{Extras, Server};

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Puts a new connection into the table and starts its timer. The first packet has still to be seen, which changes no
    /// state any more where the record has the state after it.
    /// `addresses` are those of one with an IPv6 key.
    pub(super) fn open(
        &mut self,
        record: &mut Record,
        addresses: Option<&Addresses6>,
    ) -> Result<RecordId, InsertError> {
        record.stamp(self.now);
        let active = record.protocol == ipv4::TCP && record.tcp_state().is_active();
        record.flags.set(Flags::INACTIVE, !active);
        let server = record.server;
        let extras = self.snapshot.extras(record.service);
        let deadline = self.snapshot.timeouts_of(record).deadline(record);
        let id = match addresses {
            None => self.table.insert(record)?,
            Some(addresses) => self.table.insert_v6(record, addresses)?,
        };
        self.wheel.insert(self.table.records_mut(), id, deadline);
        let stats = &self.stats.servers[server as usize];
        stats.connections.add(1);
        if active {
            stats.active.up()
        } else {
            stats.inactive.up()
        }
        self.stats.opened.add(1);
        self.count_connections();
        self.weigh(server);
        self.count_in(id, record);
        if extras.has_any(Extras::LIMITS.with(Extras::RESETS)) {
            self.open_extras(id, record.service, extras);
        }
        Ok(id)
    }

    /// What few services want of a connection that has been opened.
    #[cold]
    fn open_extras(&mut self, id: RecordId, service: u32, extras: Extras) {
        if extras.has_any(Extras::LIMITS) {
            self.count_in_limits(id, service);
        }
        if extras.has_any(Extras::RESETS) {
            self.follow_sequences(id);
        }
    }

    /// Ends a connection: its timer, its place in the table, its local port.
    pub(super) fn close(&mut self, id: RecordId) {
        self.wheel.remove(self.table.records_mut(), id);
        self.forget(id);
    }

    /// As [`Worker::close`], for a connection whose timer is already off the wheel.
    pub(super) fn forget(&mut self, id: RecordId) {
        let record = *self.table.get(id);
        if record.is_template() {
            return self.forget_template(id);
        }
        self.let_go(&record);
        let stats = &self.stats.servers[record.server as usize];
        if record.flags.has(Flags::INACTIVE) {
            stats.inactive.down()
        } else {
            stats.active.down()
        }
        if record.mode() == Mode::Fullnat {
            let (pair, port) = (pair_of(&self.table, &record), record.outbound.destination_port());
            let shown = record.last_shown().filter(|_| record.protocol == ipv4::TCP);
            let released = match shown {
                Some(last) => self
                    .locals
                    .release_shown(&pair, port, id, last, record.last_seen()),
                None => self.locals.release(&pair, port, id),
            };
            debug_assert!(released, "a connection had a local port that nobody gave it");
        }
        self.count_out(&record);
        self.table.remove(id);
        self.count_connections();
        self.weigh(record.server);
    }

    /// A packet of the connection: the state machine, the timer, the counts.
    #[inline(always)]
    pub(super) fn see(&mut self, id: RecordId, direction: Direction, headers: &Headers) {
        let record = self.table.get_mut(id);
        record.stamp(self.now);
        self.stats.servers[record.server as usize].count(direction, headers);
        let old = record.state;
        let new = match record.protocol {
            ipv4::TCP => {
                let (state, mode) = (record.tcp_state(), record.mode());
                if self.admission.secure {
                    state.next_secure(mode, direction, headers.l4_flags) as u8
                } else {
                    state.next(mode, direction, headers.l4_flags) as u8
                }
            }
            ipv4::SCTP => next_sctp(record, direction, headers.l4_flags),
            _ => {
                // The first answer to a persistent client.
                if direction == Direction::Outbound
                    && record.flags.has(Flags::EXTENDED)
                    && !record.flags.has(Flags::SEEN_OUTPUT)
                {
                    record.flags.set(Flags::SEEN_OUTPUT, true);
                    self.assure_template(id);
                }
                old
            }
        };
        if new != old {
            self.change_state(id, old, new);
        }
        if direction == Direction::Inbound && self.table.get(id).is_left_by_both() {
            self.list_closing(id);
        }
    }

    /// A closing connection may be asked for its local port from now on.
    #[cold]
    fn list_closing(&mut self, id: RecordId) {
        self.table.get_mut(id).flags.set(Flags::CLOSING_LISTED, true);
        let pair = pair_of(&self.table, self.table.get(id));
        self.locals.closing(&pair, id);
    }

    /// The state machine has moved: by the numbers of the protocol's states.
    #[cold]
    #[inline(never)]
    pub(super) fn change_state(&mut self, id: RecordId, old: u8, new: u8) {
        let record = self.table.get_mut(id);
        if record.protocol == ipv4::TCP {
            let embryonic = |state| TcpState::from_number(state).is_embryonic();
            self.admission.embryonic_changed(embryonic(old), embryonic(new));
        }
        record.state = new;
        let stats = &self.stats.servers[record.server as usize];
        let (active, closing, established) = match record.protocol {
            ipv4::SCTP => {
                let state = record.sctp_state();
                (
                    state.is_active(),
                    state.is_closing(),
                    state == SctpState::Established,
                )
            }
            _ => {
                let state = record.tcp_state();
                (
                    state.is_active(),
                    state.is_closing(),
                    state == TcpState::Established,
                )
            }
        };
        if active == record.flags.has(Flags::INACTIVE) {
            record.flags.set(Flags::INACTIVE, !active);
            if active {
                stats.inactive.down();
                stats.active.up();
            } else {
                stats.active.down();
                stats.inactive.up();
            }
            let server = record.server;
            if self.servers[server as usize].is_weighed {
                self.tell_load(server);
            }
        }
        if established {
            self.assure_template(id);
        }
        let record = self.table.get_mut(id);
        let protocol = record.protocol;
        if record.mode() == Mode::Fullnat && closing != record.flags.has(Flags::CLOSING_LISTED) {
            if !closing {
                record.flags.set(Flags::CLOSING_LISTED, false);
                self.locals.reopened(id);
            } else if !record.awaits_client() {
                self.list_closing(id);
            }
        }
        let timeouts = self.snapshot.timeouts_of(self.table.get(id));
        let timeout = timeouts.of(protocol, new);
        if timeout < timeouts.of(protocol, old) {
            self.arm(id, self.now.after(timeout));
        }
    }

    /// Sets or clears a server's overload mark after its number of connections, of whichever worker, has changed. LVS sets it at the
    /// upper threshold, and clears it below the lower one or, without that, below three quarters of the upper.
    #[inline]
    pub(super) fn weigh(&mut self, slot: u32) {
        if self.servers[slot as usize].is_weighed {
            self.judge(slot);
            self.tell_load(slot);
        }
    }

    fn judge(&mut self, slot: u32) {
        let state = &mut self.servers[slot as usize];
        if state.upper == 0 {
            return;
        }
        let connections = load_of(&self.stats, slot, state).connections();
        let upper = u64::from(state.upper);
        if connections >= upper {
            state.overloaded = true;
        } else if state.lower > 0 {
            state.overloaded &= connections >= u64::from(state.lower);
        } else {
            state.overloaded &= connections * 4 >= upper * 3;
        }
    }

    /// Tells the scheduler that a server's connections or its overload mark may have changed.
    fn tell_load(&mut self, slot: u32) {
        let state = &self.servers[slot as usize];
        if let Some(Some(service)) = self.services.get_mut(state.service as usize) {
            let overloaded = state.is_overloaded();
            let load = load_of(&self.stats, slot, state);
            service
                .scheduler
                .load_changed(state.position, slot, load, overloaded);
        }
    }
}

/// The state that an SCTP packet leads to. Cold beside TCP, and out of its way.
#[inline(never)]
fn next_sctp(record: &Record, direction: Direction, event: u8) -> u8 {
    record
        .sctp_state()
        .next(record.mode(), direction, sctp::Event::from_number(event)) as u8
}

/// Whose local port a FULLNAT connection has.
pub(super) fn pair_of<X: FlowIndex>(table: &ConnectionTable<X>, record: &Record) -> Pair {
    let (server, local) = if record.outbound.is_v6() {
        let addresses = table.addresses(record);
        (addresses.server().into(), addresses.local().into())
    } else {
        (
            record.outbound.source().into(),
            record.outbound.destination().into(),
        )
    };
    Pair {
        local,
        server,
        server_port: record.outbound.source_port(),
        protocol: record.protocol,
    }
}

/// What all workers have of a server: this one's own exactly, the others' as of the last look.
fn load_of(stats: &WorkerStats, slot: u32, state: &ServerState) -> Load {
    stats.servers[slot as usize].load().and(state.others)
}

/// The worker's view of its servers, as schedulers ask for it.
#[derive(Clone, Copy, Debug)]
pub struct ServerLoads<'a> {
    servers: &'a [ServerState],
    stats: &'a WorkerStats,
}

impl<'a> ServerLoads<'a> {
    /// The view of these servers, by slot, with what is counted of them.
    #[inline]
    #[must_use]
    pub fn new(servers: &'a [ServerState], stats: &'a WorkerStats) -> ServerLoads<'a> {
        ServerLoads { servers, stats }
    }
}

impl Loads for ServerLoads<'_> {
    fn overloaded(&self, server: &Server) -> bool {
        self.servers[server.slot as usize].is_overloaded()
    }

    fn load(&self, server: &Server) -> Load {
        load_of(self.stats, server.slot, &self.servers[server.slot as usize])
    }
}
