//! Questions between workers. A persistent client has one template, which its home has: the worker that owns the shard
//! of the client's masked address. The first packet of a connection that another worker owns goes there and back: the home
//! finds or makes the template, counts the connection among those that it holds, and says which server it is; the owner
//! then opens the connection, or does what else has been said. Nobody waits meanwhile: the packet on its way is all that
//! there is of the question. What is asked and said travels in front of the frame, in the buffer's headroom.
//!
//! Called where packets are taken over ([`Worker::run_errand`]), and where a packet cannot go on without an answer
//! ([`Worker::ask_home`]). A question that finds no room in a ring is dropped and counted, as any packet.

use super::burst::{Burst, Place};
use super::forwarding::Way;
use super::mailbox::Event;
use super::persistence::Client;
use super::schedule::{Ends, Refusal, Reply, Target, no_server};
use super::{Arrival, Errand, Io, Worker};
use crate::drops::DropReason;
use crate::flow::{FlowIndex, Mode, RecordId, TcpState};
use crate::forward::icmp as errors;
use crate::packet::{Headers, Kind, Packet, PortId, ipv4, parse_into};
use crate::scheduler::Load;
use bytemuck::{Pod, Zeroable};
use std::net::{IpAddr, SocketAddr};

/// What stands in front of a packet that is on an errand. Slots and records mean the same to both workers: a slot is not
/// used again before all workers have passed the change, nor while a template names it; and a template stays while it
/// holds a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
struct Note {
    /// The server's address; of IPv4, mapped into IPv6.
    address: [u8; 16],
    /// The slot of the service that the packet asks for.
    service: u32,
    /// The slot of the server.
    server: u32,
    /// The slot of the service whose server it is.
    owner: u32,
    /// The template that holds the connection, by its record at home; 0 = none does.
    template: u32,
    /// The server's port, host order.
    port: u16,
    /// Who asks.
    asker: u8,
    /// Who is asked.
    home: u8,
    /// The place of a [`DropReason`] among all, from 1 on; 0 = there is a server.
    refused: u8,
    /// Not 0: the packet had been handed over for good before.
    settled: u8,
    unused: [u8; 2],
}

const NOTE_LEN: usize = size_of::<Note>();

/// The questions of one worker.
#[derive(Default)]
pub(super) struct Errands {
    /// The service that the next question is about.
    service: u32,
    /// What was said of the packet that is being dealt with, until it is used.
    said: Option<Note>,
    /// Questions that have left.
    asked: u64,
    /// Those that have come back.
    answered: u64,
}

impl Errands {
    /// Whether the packet that is being dealt with is back from its client's home.
    pub(super) fn is_back(&self) -> bool {
        self.said.is_some()
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// The refusal of a packet that has to go to its client's home first, to ask for a server of that service.
    pub(super) fn must_ask(&mut self, home: u8, service: u32) -> Refusal {
        self.errands.service = service;
        Refusal {
            reason: DropReason::SteerFull,
            reply: Reply::Elsewhere(home),
        }
    }

    /// Sends a packet to its client's home, which is another worker. `settled`: nobody else takes it.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_home(&mut self, home: u8, settled: bool, arrival: Arrival, mut packet: I::Packet) {
        if !self.has_room_for_answer() {
            self.report(Event::TableFull);
            return self.discard(packet, DropReason::TableFull);
        }
        let note = Note {
            service: self.errands.service,
            asker: self.number,
            home,
            settled: settled.into(),
            ..Note::zeroed()
        };
        if !put(&mut packet, &note) {
            return self.discard(packet, DropReason::NoHeadroom);
        }
        let went = self.try_hand_over(home, arrival.on(Errand::Question), packet);
        self.errands.asked += u64::from(went);
    }

    /// Whether every question under way may come back with a connection that a template holds.
    fn has_room_for_answer(&self) -> bool {
        let under_way = self.errands.asked.wrapping_sub(self.errands.answered);
        let free = self.holds.free();
        // The questions that others have lost are counted only when it matters: it is their memory.
        under_way < free || under_way.saturating_sub(self.others.unanswered(self.number)) < free
    }

    /// A packet that was not just steered here.
    #[cold]
    #[inline(never)]
    pub(super) fn run_errand(&mut self, burst: &mut Burst<I::Packet>, place: Place, arrival: &Arrival) {
        if arrival.errand == Errand::Settled {
            burst.settled |= 1 << place;
            return self.parse_once_more(burst, place, arrival);
        }
        let Some(mut packet) = burst.take(place) else {
            return;
        };
        match (take(&mut packet), arrival.errand) {
            (Some(note), Errand::Question) => self.answer_question(note, arrival, packet),
            (Some(note), _) => {
                burst.packets[usize::from(place)] = Some(packet);
                self.hear_answer(note, arrival, burst, place);
            }
            (None, _) => self.discard(packet, DropReason::RuntFrame),
        }
    }

    /// Says what becomes of a packet of another worker, and hands it back.
    fn answer_question(&mut self, mut note: Note, arrival: &Arrival, mut packet: I::Packet) {
        if let Err(reason) = self.decide(&mut note, &packet, arrival.port) {
            note.refused = reason as u8 + 1;
        }
        // There is room: it has just been taken off.
        put(&mut packet, &note);
        if !self.try_hand_over(note.asker, arrival.on(Errand::Answer), packet) {
            if note.template != 0 {
                self.table.get_mut(RecordId(note.template)).control(false);
            }
            if let Some(steered) = self.stats.steered.get(usize::from(note.asker)) {
                steered.unanswered.add(1);
            }
        }
    }

    /// Finds the server of a packet, and the template that holds its connection.
    fn decide(&mut self, note: &mut Note, packet: &I::Packet, port: PortId) -> Result<(), DropReason> {
        let mut headers = Headers::NONE;
        parse_into(packet, &self.rules[usize::from(port.0)], &mut headers)?;
        let frame = packet.bytes();
        let (opening, ends, by_error) = self.first_packet(&headers, frame)?;
        let client = match self.snapshot.service(note.service) {
            Some(service) => self.client_of(service, &opening, frame, &ends),
            None => return Err(DropReason::NoService),
        };
        let mut client: Option<Client> = client.map_err(|refusal| refusal.reason)?;
        let server = self
            .choose_here(note.service, opening.protocol, &ends, &mut client)
            .map_err(|refusal| refusal.reason)?;
        if by_error && server.mode == Mode::Fullnat {
            return Err(DropReason::NoConnection);
        }
        let service = self.snapshot.service(note.service);
        let once = service.is_some_and(|service| service.one_packet) && opening.protocol == ipv4::UDP;
        if let Some(client) = &client {
            let template = self.keep(client, &server, note.service)?;
            if !once {
                self.table.get_mut(template).control(true);
                note.template = template.0;
            }
        }
        let state = &self.servers[server.slot as usize];
        (note.server, note.owner) = (server.slot, state.service);
        (note.address, note.port) = (octets(state.end.ip()), state.end.port());
        if !once {
            self.count_as_others(&opening, &server);
        }
        Ok(())
    }

    /// The packet that opens a connection: this one, or what would answer the one that an ICMP error quotes, which is told
    /// by the last.
    fn first_packet(&self, headers: &Headers, frame: &[u8]) -> Result<(Headers, Ends, bool), DropReason> {
        match headers.kind {
            Kind::Flow | Kind::Flow6 => Ok((*headers, super::ends::of(headers, frame), false)),
            Kind::Icmp | Kind::Icmp6 => {
                let quote = errors::read(frame, headers, &self.digest)?;
                let ends = super::icmp::reversed(&quote, frame).ok_or(DropReason::UnsupportedIcmp)?;
                Ok((self.opening_of(headers, &quote, &ends), ends, true))
            }
            Kind::Arp | Kind::Fragment | Kind::Fragment6 => Err(DropReason::NoConnection),
        }
    }

    /// A server gets a connection of another worker, which is not among that one's counts yet: it counts here until the
    /// next look at these, so that many of them between two looks do not all go to one server.
    fn count_as_others(&mut self, opening: &Headers, server: &Target) {
        let first = TcpState::from_number(self.first_state(opening, server.mode));
        let active = u32::from(opening.protocol == ipv4::TCP && first.is_active());
        let state = &mut self.servers[server.slot as usize];
        let service = self.snapshot.service(state.service);
        if service.is_some_and(|service| service.tables.goes_by_loads()) {
            state.others = state.others.and(Load {
                active,
                inactive: 1 - active,
            });
            self.weigh(server.slot);
        }
    }

    /// A packet is back: it goes on as if it had just come, with what was said at hand.
    fn hear_answer(&mut self, note: Note, arrival: &Arrival, burst: &mut Burst<I::Packet>, place: Place) {
        self.errands.answered += 1;
        self.errands.said = Some(note);
        burst.settled |= u32::from(note.settled != 0) << place;
        let flows = burst.flows.len();
        self.parse_once_more(burst, place, arrival);
        // An ICMP error has been dealt with. A flow is looked up on its own: the answer is for it alone.
        if burst.flows.len() > flows {
            burst.flows.pop();
            self.go_on_with(arrival, burst, place);
        }
        if let Some(unused) = self.errands.said.take() {
            self.release(&unused);
        }
    }

    fn go_on_with(&mut self, arrival: &Arrival, burst: &mut Burst<I::Packet>, place: Place) {
        let Some(mut packet) = burst.take(place) else {
            return;
        };
        let at = usize::from(place);
        let headers = &burst.headers[at];
        let port = burst.ports[at];
        if !burst.is_settled(place) {
            match self.owner_of(&super::ends::of(headers, packet.bytes())) {
                Ok(owner) if owner == self.number => {}
                Ok(owner) => return self.hand_over(owner, arrival.on(Errand::Steered), packet),
                Err(reason) => return self.discard(packet, reason),
            }
        }
        // Another packet may have opened the connection meanwhile.
        let hit = self
            .table
            .lookup(&self.table.query(headers.key, headers.protocol));
        match self.forward_flow(&mut packet, headers, port, hit) {
            Ok(Way {
                neighbour, limit: 0, ..
            }) => self.resolve(neighbour, packet),
            Ok(way) => self.leave_in_fragments(way, packet, headers, burst.identifications[at]),
            Err(Refusal {
                reply: Reply::Elsewhere(home),
                ..
            }) => self.ask_home(home, burst.is_settled(place), *arrival, packet),
            Err(refusal) => self.refuse(packet, headers, port, refusal),
        }
    }

    /// What the client's home has said of a packet that asks for this service; none when it has not been asked. A server
    /// that is no longer there leaves the packet without: its sender tries again, and finds another one.
    pub(super) fn said(&mut self, slot: u32, ends: &Ends, protocol: u8) -> Option<Result<Target, Refusal>> {
        let note = self.errands.said.filter(|note| note.service == slot)?;
        let reason = match usize::from(note.refused).checked_sub(1) {
            None => {
                self.catch_up(note.owner);
                let target = self.server_at(note.server, slot, ends, protocol);
                let end = self.servers.get(note.server as usize).map(|state| state.end);
                let same = |end: SocketAddr| (octets(end.ip()), end.port()) == (note.address, note.port);
                return Some(match target {
                    Some((target, _)) if end.is_some_and(same) => Ok(target),
                    _ => Err(DropReason::ServerGone.into()),
                });
            }
            Some(at) => DropReason::ALL.get(at).copied().unwrap_or(DropReason::NoServer),
        };
        Some(Err(match reason {
            DropReason::NoServer => no_server(&self.snapshot, ends.destination),
            other => other.into(),
        }))
    }

    /// Uses what was said for this connection, which has been opened: the template holds it from now on.
    pub(super) fn hold_by_said(&mut self, connection: RecordId) {
        let Some(note) = self.errands.said.take().filter(|note| note.template != 0) else {
            return;
        };
        let place = self.holds.add(note.home, note.template);
        debug_assert!(
            place.is_some(),
            "no question leaves without a place for its answer"
        );
        if let Some(place) = place {
            match self.table.extend(connection) {
                Some(extension) => extension.template = super::persistence::elsewhere(place),
                None => self.holds.end(place),
            }
        }
    }

    /// What was said is of no use: the template holds nothing by it.
    fn release(&mut self, note: &Note) {
        if note.template != 0
            && let Some(place) = self.holds.add(note.home, note.template)
        {
            self.holds.end(place);
        }
    }
}

/// Puts a note in front of a packet. False when there is no room.
fn put<P: Packet>(packet: &mut P, note: &Note) -> bool {
    let fits = packet.prepend(NOTE_LEN);
    if fits {
        packet.bytes_mut()[..NOTE_LEN].copy_from_slice(bytemuck::bytes_of(note));
    }
    fits
}

/// Takes the note off a packet.
fn take<P: Packet>(packet: &mut P) -> Option<Note> {
    let note = bytemuck::pod_read_unaligned(packet.bytes().get(..NOTE_LEN)?);
    packet.trim_front(NOTE_LEN).then_some(note)
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
