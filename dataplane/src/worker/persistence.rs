//! Persistence: the server of a new connection is the one that its client got before, which a template remembers.

use super::connection::ServerLoads;
use super::schedule::{Ends, Refusal, Target, no_server};
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{ConnectionTable, Flags, FlowIndex, InsertError, Record, RecordId, Template};
use crate::packet::{AddressDigest, FlowKey, Headers, ipv4, sip, udp};
use crate::scheduler::Bound;
use crate::service::{Extras, PersistenceEngine, Service, ServiceKey};

/// Connections from which on a client is a large one, that persistence's bound holds for. A smaller one is likely one
/// user: it stays together whoever else fills its server.
const LARGE: u32 = 64;

/// A service's memory of a client, if it keeps one: a template, found or to be made.
pub(super) struct Memory {
    template: Template,
    key: FlowKey,
    found: Option<RecordId>,
    timeout: u32,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Chooses the server of a service that the connection of a packet between these ends goes to: that of the client's
    /// template, whatever its weight or load is, else the scheduler's. The template of a large client whose server has more
    /// than the bound goes on to remember that server, to which the client comes back once there is room. What
    /// [`Worker::remember`] has to know then goes to `memory`.
    #[inline]
    pub(super) fn choose(
        &mut self,
        slot: u32,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
        memory: &mut Option<Memory>,
    ) -> Result<Target, Refusal> {
        let mut known = None;
        if self.snapshot.extras(slot).has_any(Extras::PERSISTENCE) {
            known = self.recall_client(slot, headers, frame, ends, memory)?;
            if let Some(home) = known.filter(|home| !self.exceeds_bound(slot, memory.as_ref(), home)) {
                return Ok(home);
            }
        }
        self.pick_in(slot, ends, headers.protocol)
            .or(known)
            .ok_or_else(|| no_server(&self.snapshot, ends.destination))
    }

    /// The server that a service remembers of a packet's client.
    #[cold]
    fn recall_client(
        &mut self,
        slot: u32,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
        memory: &mut Option<Memory>,
    ) -> Result<Option<Target>, Refusal> {
        if let Some(service) = self.snapshot.service(slot) {
            *memory = self.memory_of(service, headers, frame, ends)?;
        }
        let known = memory.as_mut();
        Ok(known.and_then(|memory| self.recall(memory, slot, ends, headers.protocol)))
    }

    /// What the packet's client is known by, if the service keeps its clients.
    fn memory_of(
        &self,
        service: &Service,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
    ) -> Result<Option<Memory>, Refusal> {
        let Some(persistence) = &service.persistence else {
            return Ok(None);
        };
        let token = match service.engine {
            None => 0,
            Some(PersistenceEngine::Sip) => {
                let id = call_id(headers, frame).ok_or(DropReason::NoCallId)?;
                token_of(&self.digest, id)
            }
        };
        let (protocol, virtual_address) = match service.key {
            ServiceKey::Endpoint { .. } => (headers.protocol, ends.destination),
            ServiceKey::Mark { mark, ipv6 } => (0, Template::address_of_mark(mark, ipv6)),
        };
        let template = Template {
            protocol,
            client: persistence.masked(ends.source),
            virtual_address,
            port: template_port(&service.key),
            token,
        };
        Ok(Some(Memory {
            template,
            key: template.key(&self.digest),
            found: None,
            timeout: persistence.timeout,
        }))
    }

    /// The server that the client's template remembers. One that must not be used any more is retired: then the client
    /// gets a new template beside it. With several workers it is here that the worker would be asked whose shard the
    /// client's masked address is in; so far there is one.
    fn recall(&mut self, memory: &mut Memory, asked: u32, ends: &Ends, protocol: u8) -> Option<Target> {
        let id = self.table.find_template(&memory.template, memory.key)?;
        self.catch_up(self.table.get(id).service);
        let server = self.usable(self.table.get(id).server, asked, ends, protocol);
        if server.is_some() {
            memory.found = Some(id);
        } else {
            self.table.retire_template(id);
        }
        server
    }

    /// Whether a client, known by `memory`, has so many connections that one more would give its server more than the
    /// service's persistence lets it have.
    fn exceeds_bound(&self, slot: u32, memory: Option<&Memory>, home: &Target) -> bool {
        let Some((service, template)) = self
            .snapshot
            .service(slot)
            .zip(memory.and_then(|memory| memory.found))
        else {
            return false;
        };
        let percent = service.persistence.map_or(0, |persistence| persistence.bound);
        if percent == 0 || self.table.get(template).controlled() < LARGE {
            return false;
        }
        let Some(home) = service.servers.iter().find(|server| server.slot == home.slot) else {
            return false;
        };
        let loads = ServerLoads::new(&self.servers, &self.stats);
        !Bound::of(percent, service, &loads).has_room(home, &loads)
    }

    /// The server in that slot as it is configured, if its clients may go on to it, for a packet that asks for the
    /// service `asked`.
    fn usable(&self, slot: u32, asked: u32, ends: &Ends, protocol: u8) -> Option<Target> {
        let state = self.servers.get(slot as usize)?;
        let service = self.snapshot.service(state.service)?;
        let server = service.servers.get(state.position as usize)?;
        let quiesced = server.weight == 0 && self.snapshot.settings.expire_quiescent_template;
        let asked = self.snapshot.service(asked)?;
        let target = || Target::of(asked, server, ends.destination_port, protocol);
        (server.slot == slot && !quiesced).then(target)
    }

    /// Remembers where a client went, now that a packet of it has gone there: by `connection`, which is then held to the
    /// template, or by none. When there is no room, the connection ends.
    pub(super) fn remember(
        &mut self,
        memory: &Memory,
        server: &Target,
        service: u32,
        connection: Option<RecordId>,
    ) -> Result<(), Refusal> {
        let id = match memory.found {
            Some(id) => Ok(id),
            None => self.make_template(memory, service, server),
        };
        let id = id.map_err(|InsertError::TableFull| {
            if let Some(connection) = connection {
                self.close(connection);
            }
            Refusal::from(DropReason::TableFull)
        })?;
        let template = self.table.get_mut(id);
        template.stamp(self.now);
        template.service = service;
        if let Some(connection) = connection
            && let Some(extension) = self.table.extend(connection)
        {
            extension.template = id.0;
            self.table.get_mut(id).control(true);
        }
        Ok(())
    }

    fn make_template(
        &mut self,
        memory: &Memory,
        service: u32,
        server: &Target,
    ) -> Result<RecordId, InsertError> {
        let mut record = Record::template(memory.key, server.mode, memory.timeout);
        record.server = server.slot;
        record.service = service;
        record.stamp(self.now);
        let id = self.table.insert_template(&record, &memory.template)?;
        let deadline = self.now.after(memory.timeout);
        self.wheel.insert(self.table.records_mut(), id, deadline);
        self.stats.servers[server.slot as usize].templates.up();
        self.stats.templates.add(1);
        self.count_connections();
        Ok(id)
    }

    /// A template whose time is over: it stays while it holds connections. Whether it has stayed.
    pub(super) fn hold_template(&mut self, id: RecordId) -> bool {
        let now = self.now;
        let record = self.table.get_mut(id);
        if !record.is_template() || record.controlled() == 0 {
            return false;
        }
        record.hold();
        record.stamp(now);
        let deadline = now.after(record.template_timeout());
        self.wheel.insert(self.table.records_mut(), id, deadline);
        true
    }

    /// Ends a template, which is off the wheel already.
    pub(super) fn forget_template(&mut self, id: RecordId) {
        let server = self.table.get(id).server;
        self.table.remove(id);
        self.stats.servers[server as usize].templates.down();
        let templates = &self.stats.templates;
        templates.set(templates.get().saturating_sub(1));
        self.count_connections();
    }

    /// A connection ends: its template no longer holds it.
    pub(super) fn let_go(&mut self, connection: &Record) {
        if let Some(id) = template_of(&self.table, connection) {
            self.table.get_mut(id).control(false);
        }
    }

    /// A connection has been established, or its server has answered a datagram: so its template is shown.
    #[cold]
    #[inline(never)]
    pub(super) fn assure_template(&mut self, connection: RecordId) {
        if let Some(id) = template_of(&self.table, self.table.get(connection)) {
            self.table.get_mut(id).assure();
        }
    }

    /// Publishes how many connections there are: templates are none.
    pub(super) fn count_connections(&self) {
        let (all, templates) = (self.table.len() as u64, self.stats.templates.get());
        self.stats.connections.set(all.saturating_sub(templates));
    }
}

/// The template that holds a connection.
fn template_of<X: FlowIndex>(table: &ConnectionTable<X>, connection: &Record) -> Option<RecordId> {
    if !connection.flags.has(Flags::EXTENDED) {
        return None;
    }
    let id = table.extension(connection)?.template;
    (id != 0).then_some(RecordId(id))
}

/// The port of a service's templates, in host order. Those of FTP hold for all ports, as in LVS: its data goes to others.
fn template_port(key: &ServiceKey) -> u16 {
    const FTP: u16 = 21;
    match key.port() {
        FTP => 0,
        port => port,
    }
}

/// A digest of a Call-ID in its stead, never 0. It is keyed: nobody outside can make two calls meet.
fn token_of(digest: &AddressDigest, id: &[u8]) -> u64 {
    let mut token = id.len() as u64;
    for part in id.chunks(24) {
        let mut block = [0; 32];
        block[..8].copy_from_slice(&token.to_ne_bytes());
        block[8..8 + part.len()].copy_from_slice(part);
        token = digest.of(&block);
    }
    token | 1
}

/// The Call-ID of a SIP message in a UDP datagram.
fn call_id<'f>(headers: &Headers, frame: &'f [u8]) -> Option<&'f [u8]> {
    if headers.protocol != ipv4::UDP {
        return None;
    }
    let message = usize::from(headers.l4) + udp::HEADER_LEN..usize::from(headers.end);
    sip::call_id(frame.get(message)?)
}
