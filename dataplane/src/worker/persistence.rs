//! Persistence: the server of a new connection is the one that its client got before, which a template remembers. A
//! template is of one worker, whichever worker the client's connections are of: see [`super::errands`].

use super::connection::ServerLoads;
use super::schedule::{Ends, Refusal, Target, no_server};
use super::shard::Shard;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{ConnectionTable, Flags, FlowIndex, InsertError, Record, RecordId, Template};
use crate::packet::{AddressDigest, FlowKey, Headers, ipv4, sip, udp};
use crate::scheduler::Bound;
use crate::service::{Extras, PersistenceEngine, Service, ServiceKey};

/// Connections from which on a client is a large one, that persistence's bound holds for. A smaller one is likely one
/// user: it stays together whoever else fills its server.
const LARGE: u32 = 64;

/// In the extension of a connection: it is held by another worker's template, and this is its place among those.
const ELSEWHERE: u32 = 1 << 31;

/// What a connection's extension says of a template elsewhere, by its place in [`super::holds::Holds`].
pub(super) const fn elsewhere(place: u32) -> u32 {
    place | ELSEWHERE
}

/// Where a service's memory of a client is, if it keeps one.
pub(super) enum Memory {
    /// Here.
    Here(Client),
    /// At another worker, which has been asked.
    Elsewhere,
}

/// A client that is remembered: its template, found or to be made.
pub(super) struct Client {
    template: Template,
    key: FlowKey,
    found: Option<RecordId>,
    timeout: u32,
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Chooses the server of a service that the connection of a packet between these ends goes to: that of the client's
    /// template, whatever its weight or load is, else the scheduler's. The template of a large client whose server has more
    /// than the bound goes on to remember that server, to which the client comes back once there is room. What
    /// [`Worker::remember`] has to know then goes to `memory`. Where the template is another worker's, that has to be asked
    /// first.
    #[inline]
    pub(super) fn choose(
        &mut self,
        slot: u32,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
        memory: &mut Option<Memory>,
    ) -> Result<Target, Refusal> {
        if self.snapshot.extras(slot).has_any(Extras::PERSISTENCE) {
            return self.choose_for_client(slot, headers, frame, ends, memory);
        }
        self.pick_in(slot, ends, headers.protocol)
            .ok_or_else(|| no_server(&self.snapshot, ends.destination))
    }

    #[cold]
    #[inline(never)]
    fn choose_for_client(
        &mut self,
        slot: u32,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
        memory: &mut Option<Memory>,
    ) -> Result<Target, Refusal> {
        if let Some(said) = self.said(slot, ends, headers.protocol) {
            *memory = Some(Memory::Elsewhere);
            return said;
        }
        let mut client = match self.snapshot.service(slot) {
            Some(service) => self.client_of(service, headers, frame, ends)?,
            None => None,
        };
        if let Some(home) = client.as_ref().map(|client| self.home_of(&client.template))
            && home != self.number
        {
            return Err(self.must_ask(home, slot));
        }
        let chosen = self.choose_here(slot, headers.protocol, ends, &mut client)?;
        *memory = client.map(Memory::Here);
        Ok(chosen)
    }

    /// Chooses the server for a client that this worker remembers, or no one does.
    pub(super) fn choose_here(
        &mut self,
        slot: u32,
        protocol: u8,
        ends: &Ends,
        client: &mut Option<Client>,
    ) -> Result<Target, Refusal> {
        let known = client
            .as_mut()
            .and_then(|client| self.recall(client, slot, ends, protocol));
        if let Some(home) = known.filter(|home| !self.exceeds_bound(slot, client.as_ref(), home)) {
            return Ok(home);
        }
        self.pick_in(slot, ends, protocol)
            .or(known)
            .ok_or_else(|| no_server(&self.snapshot, ends.destination))
    }

    /// The worker that has a client's template: the owner of the shard of its masked address, and of what else makes the
    /// client, so that a service whose clients are all behind one address spreads.
    fn home_of(&self, template: &Template) -> u8 {
        if self.owned.is_all() {
            return self.number;
        }
        let address = self.shard_key.shard_of(template.client, 0).index() as u32;
        // Not the lowest bit, which a token always has.
        let shard = Shard::from_low_bits(address ^ (template.token >> 1) as u32);
        self.snapshot.shards.owner(shard)
    }

    /// What the packet's client is known by, if the service keeps its clients.
    pub(super) fn client_of(
        &self,
        service: &Service,
        headers: &Headers,
        frame: &[u8],
        ends: &Ends,
    ) -> Result<Option<Client>, Refusal> {
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
        Ok(Some(Client {
            template,
            key: template.key(&self.digest),
            found: None,
            timeout: persistence.timeout,
        }))
    }

    /// The server that the client's template remembers. One that must not be used any more is retired: then the client
    /// gets a new template beside it.
    fn recall(&mut self, client: &mut Client, asked: u32, ends: &Ends, protocol: u8) -> Option<Target> {
        let id = self.table.find_template(&client.template, client.key)?;
        self.catch_up(self.table.get(id).service);
        let server = self.usable(self.table.get(id).server, asked, ends, protocol);
        if server.is_some() {
            client.found = Some(id);
        } else {
            self.table.retire_template(id);
        }
        server
    }

    /// Whether a client has so many connections that one more would give its server more than the
    /// service's persistence lets it have.
    fn exceeds_bound(&self, slot: u32, client: Option<&Client>, home: &Target) -> bool {
        let Some((service, template)) = self
            .snapshot
            .service(slot)
            .zip(client.and_then(|client| client.found))
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
        let (target, weight) = self.server_at(slot, asked, ends, protocol)?;
        let quiesced = weight == 0 && self.snapshot.settings.expire_quiescent_template;
        (!quiesced).then_some(target)
    }

    /// The server in that slot, and its weight, for a packet that asks for the service `asked`.
    pub(super) fn server_at(
        &self,
        slot: u32,
        asked: u32,
        ends: &Ends,
        protocol: u8,
    ) -> Option<(Target, u32)> {
        let state = self.servers.get(slot as usize)?;
        let service = self.snapshot.service(state.service)?;
        let server = service.servers.get(state.position as usize)?;
        let asked = self.snapshot.service(asked)?;
        let target = || Target::of(asked, server, ends.destination_port, protocol);
        (server.slot == slot).then(|| (target(), server.weight))
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
        let Memory::Here(client) = memory else {
            if let Some(connection) = connection {
                self.hold_by_said(connection);
            }
            return Ok(());
        };
        let id = self.keep(client, server, service).map_err(|reason| {
            if let Some(connection) = connection {
                self.close(connection);
            }
            Refusal::from(reason)
        })?;
        if let Some(connection) = connection
            && let Some(extension) = self.table.extend(connection)
        {
            extension.template = id.0;
            self.table.get_mut(id).control(true);
        }
        Ok(())
    }

    /// Keeps a client on a server: by its template, which is made if there is none.
    pub(super) fn keep(
        &mut self,
        client: &Client,
        server: &Target,
        service: u32,
    ) -> Result<RecordId, DropReason> {
        let id = match client.found {
            Some(id) => id,
            None => self
                .make_template(client, service, server)
                .map_err(|InsertError::TableFull| DropReason::TableFull)?,
        };
        let template = self.table.get_mut(id);
        template.stamp(self.now);
        template.service = service;
        Ok(id)
    }

    fn make_template(
        &mut self,
        client: &Client,
        service: u32,
        server: &Target,
    ) -> Result<RecordId, InsertError> {
        let mut record = Record::template(client.key, server.mode, client.timeout);
        record.server = server.slot;
        record.service = service;
        record.stamp(self.now);
        let id = self.table.insert_template(&record, &client.template)?;
        let deadline = self.now.after(client.timeout);
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
        match template_of(&self.table, connection) {
            Some(Holder::Here(id)) => self.table.get_mut(id).control(false),
            Some(Holder::Elsewhere(place)) => self.holds.end(place),
            None => {}
        }
    }

    /// A connection has been established, or its server has answered a datagram: so its template is shown.
    #[cold]
    #[inline(never)]
    pub(super) fn assure_template(&mut self, connection: RecordId) {
        match template_of(&self.table, self.table.get(connection)) {
            Some(Holder::Here(id)) => self.table.get_mut(id).assure(),
            Some(Holder::Elsewhere(place)) => self.holds.assure(place),
            None => {}
        }
    }

    /// Publishes how many connections there are: templates are none.
    pub(super) fn count_connections(&self) {
        let (all, templates) = (self.table.len() as u64, self.stats.templates.get());
        self.stats.connections.set(all.saturating_sub(templates));
    }
}

/// What holds a connection.
enum Holder {
    /// A template of this worker.
    Here(RecordId),
    /// Another worker's; this is the connection's place in [`super::holds::Holds`].
    Elsewhere(u32),
}

fn template_of<X: FlowIndex>(table: &ConnectionTable<X>, connection: &Record) -> Option<Holder> {
    if !connection.flags.has(Flags::EXTENDED) {
        return None;
    }
    match table.extension(connection)?.template {
        0 => None,
        id if id & ELSEWHERE == 0 => Some(Holder::Here(RecordId(id))),
        id => Some(Holder::Elsewhere(id & !ELSEWHERE)),
    }
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
