//! A small network for tests, and the snapshots that describe it: clients behind a router on `wan`, servers and
//! local addresses on `lan`. IPv4 alone, unless [`Plan::dual`] adds IPv6.

use dataplane::flow::Mode;
use dataplane::local::{LipPool, PortRange};
use dataplane::neighbour::{AddressTable, Connected, Prefix, Route, RouteTable, Vip, VipArp};
use dataplane::packet::{MacAddr, PortId};
use dataplane::scheduler::{SchedulerFlags, SchedulerKind, SchedulerTables};
use dataplane::service::{
    ClientAddress, MarkRule, MarkRules, Network, Policy, PortSettings, Protocol, Server, Service, ServiceKey,
    Settings, Snapshot, SnatRule, SnatRules, StaticNeighbour, Tunnel, VipPolicy,
};
use dataplane::worker::Sizes;
use dataplane::worker::shard::ShardMap;
use hashbrown::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

pub(crate) const WAN: PortId = PortId(0);
pub(crate) const LAN: PortId = PortId(1);
pub(crate) const WAN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(crate) const LAN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub(crate) const WAN_IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
pub(crate) const LAN_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
pub(crate) const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
pub(crate) const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 100);
pub(crate) const VIP2: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 101);
pub(crate) const LIP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 200);
/// The port of every FULLNAT server.
pub(crate) const SERVER_PORT: u16 = 8080;
const SEED: u64 = 7;

/// The service endpoint of the tests.
pub(crate) const WEB: SocketAddrV4 = SocketAddrV4::new(VIP, 80);
pub(crate) const DNS: SocketAddrV4 = SocketAddrV4::new(VIP, 53);

/// Client `number`, behind the router.
pub(crate) fn client(number: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, number), port)
}

pub(crate) fn server_ip(number: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 10 + number as u8)
}

pub(crate) fn server_mac(number: u32) -> MacAddr {
    MacAddr([2, 0, 10, 0, 0, 10 + number as u8])
}

/// One of the two address families: the same network in each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Family; 2] = [Family::V4, Family::V6];

    fn address(self, v4: Ipv4Addr, v6: (u16, u16)) -> IpAddr {
        match self {
            Family::V4 => v4.into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, v6.0, 0, 0, 0, 0, v6.1).into(),
        }
    }

    /// Client `number`, behind the router.
    pub(crate) fn client(self, number: u8, port: u16) -> SocketAddr {
        let address = self.address(*client(number, 0).ip(), (0xc, number.into()));
        SocketAddr::new(address, port)
    }

    pub(crate) fn vip(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(VIP, (1, 0x100)), port)
    }

    pub(crate) fn vip2(self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(VIP2, (1, 0x101)), port)
    }

    pub(crate) fn server(self, number: u32, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(server_ip(number), (2, 10 + number as u16)), port)
    }

    /// Local address `number`, from 0 on.
    pub(crate) fn local(self, number: u8) -> IpAddr {
        self.address(
            Ipv4Addr::new(10, 0, 0, 200 + number),
            (2, 0x200 + u16::from(number)),
        )
    }

    /// Local address `number` of SNAT, from 0 on, on the outside port.
    pub(crate) fn outside(self, number: u8) -> IpAddr {
        self.address(
            Ipv4Addr::new(203, 0, 113, 200 + number),
            (1, 0x200 + u16::from(number)),
        )
    }

    /// A rule of SNAT in that slot: everything from the servers' link to so many local addresses.
    pub(crate) fn rule(self, slot: u32, addresses: u8, first: u16, last: u16) -> SnatRule {
        let length = if self == Family::V4 { 24 } else { 64 };
        let addresses = (0..addresses).map(|number| self.outside(number));
        SnatRule {
            slot,
            sources: vec![Prefix::around(self.own(LAN), length)],
            destinations: Vec::new(),
            protocols: Vec::new(),
            ports: Vec::new(),
            exempt: false,
            local_pools: vec![Arc::new(LipPool::new(
                addresses,
                PortRange::new(first, last).unwrap(),
            ))],
            timeouts: None,
            client_limit: 0,
        }
    }

    pub(crate) fn router(self) -> IpAddr {
        self.address(ROUTER, (1, 1))
    }

    /// The gateway's own address on a port.
    pub(crate) fn own(self, port: PortId) -> IpAddr {
        match port {
            WAN => self.address(WAN_IP, (1, 2)),
            _ => self.address(LAN_IP, (2, 1)),
        }
    }

    /// Server `number`, at that port. Its slot is that number, 20 more for IPv6.
    pub(crate) fn real(self, number: u32, mode: Mode, port: u16) -> Server {
        Server {
            slot: number + if self == Family::V6 { 20 } else { 0 },
            address: self.server(number, 0).ip(),
            port,
            ..server(number, mode)
        }
    }
}

/// Server `number`, at the slot of that number, with its FULLNAT port.
pub(crate) fn server(number: u32, mode: Mode) -> Server {
    Server {
        slot: number,
        address: server_ip(number).into(),
        port: if mode == Mode::Fullnat { SERVER_PORT } else { 80 },
        weight: 1,
        table_weight: 1,
        hash_share: 100,
        mode,
        tunnel: Tunnel::default(),
        upper_threshold: 0,
        lower_threshold: 0,
        overloaded: false,
    }
}

/// What the gateway is to be like. Change it, then ask for a snapshot.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) sizes: Sizes,
    pub(crate) workers: u8,
    pub(crate) ports: Arc<[PortSettings]>,
    pub(crate) services: Vec<Option<Arc<Service>>>,
    pub(crate) locals: Arc<LipPool>,
    pub(crate) neighbours: Arc<[StaticNeighbour]>,
    pub(crate) routes: Arc<RouteTable>,
    pub(crate) addresses: Arc<AddressTable>,
    pub(crate) vips: HashMap<IpAddr, VipPolicy>,
    pub(crate) snat: Vec<SnatRule>,
    pub(crate) marks: Vec<MarkRule>,
    /// VIPs and local addresses that another node has.
    pub(crate) standby: Vec<IpAddr>,
    pub(crate) epoch: u64,
}

impl Plan {
    /// Ports, routes, static neighbours, four local addresses, and no service.
    pub(crate) fn empty() -> Plan {
        let port = |mac, own| PortSettings {
            mac,
            any_mac: false,
            vlan: None,
            mtu: 1500,
            addresses: vec![(IpAddr::V4(own), 24)],
            check_partial: true,
            exception_rate: 0,
        };
        let mut plan = Plan {
            settings: Settings::default(),
            sizes: Sizes {
                connections: 4096,
                services: 16,
                servers: 64,
                neighbours: 128,
                fragments: 8,
                hugepages: false,
                seed: SEED,
            },
            workers: 1,
            ports: Arc::new([port(WAN_MAC, WAN_IP), port(LAN_MAC, LAN_IP)]),
            services: Vec::new(),
            locals: pool(4, 1024, 65535),
            neighbours: Arc::new([]),
            routes: Arc::new(RouteTable::default()),
            addresses: Arc::new(AddressTable::default()),
            vips: HashMap::new(),
            snat: Vec::new(),
            marks: Vec::new(),
            standby: Vec::new(),
            epoch: 0,
        };
        plan.route_by(ROUTER);
        plan.know_neighbours();
        plan
    }

    /// As [`Plan::empty`], in both families.
    pub(crate) fn dual() -> Plan {
        let mut plan = Plan::empty();
        let mut ports = plan.ports.to_vec();
        for (settings, port) in ports.iter_mut().zip([WAN, LAN]) {
            settings.addresses.push((Family::V6.own(port), 64));
        }
        plan.ports = ports.into();
        plan.locals = both_pool(4, 1024, 65535);
        plan.route_both();
        plan.know_neighbours();
        let known = |port, address, mac| StaticNeighbour { port, address, mac };
        plan.neighbours = (1..=8)
            .map(|number| known(LAN, Family::V6.server(number, 0).ip(), server_mac(number)))
            .chain([known(WAN, Family::V6.router(), ROUTER_MAC)])
            .chain(plan.neighbours.iter().copied())
            .collect();
        plan
    }

    /// In both families, one service at the VIP's port 80 of that protocol, over that many servers of that mode at
    /// that port.
    pub(crate) fn dual_web(mode: Mode, protocol: Protocol, servers: u32, port: u16) -> Plan {
        let mut plan = Plan::dual();
        for family in Family::BOTH {
            let servers = (1..=servers)
                .map(|number| family.real(number, mode, port))
                .collect();
            plan.add(family.vip(80), protocol, servers);
        }
        plan
    }

    /// Both families behind SNAT, without a service: two local addresses of each with these ports, rules in slots 40 and
    /// 41.
    pub(crate) fn behind_snat(first: u16, last: u16) -> Plan {
        let mut plan = Plan::dual();
        plan.snat = vec![
            Family::V4.rule(40, 2, first, last),
            Family::V6.rule(41, 2, first, last),
        ];
        plan
    }

    /// One service at [`WEB`] over that many servers, the first added last, as it picks them in their order.
    pub(crate) fn web(mode: Mode, servers: u32) -> Plan {
        let mut plan = Plan::empty();
        let servers = (1..=servers).map(|number| server(number, mode)).collect();
        plan.add(WEB, Protocol::Tcp, servers);
        plan
    }

    /// As [`Plan::web`], for UDP at [`DNS`].
    pub(crate) fn dns(mode: Mode, servers: u32) -> Plan {
        let mut plan = Plan::empty();
        let servers = (1..=servers).map(|number| server(number, mode)).collect();
        plan.add(DNS, Protocol::Udp, servers);
        plan
    }

    /// Adds a service at the next slot; returns that.
    pub(crate) fn add(
        &mut self,
        at: impl Into<SocketAddr>,
        protocol: Protocol,
        servers: Vec<Server>,
    ) -> usize {
        let at = at.into();
        let slot = self.services.len();
        self.services.push(Some(Arc::new(Service {
            slot: slot as u32,
            key: ServiceKey::new(at.ip(), at.port(), protocol),
            scheduler: SchedulerKind::Rr,
            scheduler_flags: SchedulerFlags::NONE,
            tables: SchedulerTables::default(),
            persistence: None,
            engine: None,
            one_packet: false,
            translate_replies: false,
            hairpin_snat: false,
            mss_clamp: 0,
            client_address: ClientAddress::None,
            timeouts: None,
            policy: Policy::default(),
            local_pools: vec![Arc::clone(&self.locals)],
            servers,
            revision: 0,
        })));
        slot
    }

    /// Changes the service in a slot, as an edit of its servers.
    pub(crate) fn edit<T>(&mut self, slot: usize, change: impl FnOnce(&mut Service) -> T) {
        let service = Service::edit(self.services[slot].as_mut().unwrap());
        service.revision += 1;
        let _ = change(service);
    }

    /// New local addresses, for all services that there are.
    pub(crate) fn use_locals(&mut self, locals: Arc<LipPool>) {
        self.locals = locals;
        for slot in 0..self.services.len() {
            let pools = vec![Arc::clone(&self.locals)];
            self.edit(slot, |service| service.local_pools = pools);
        }
    }

    /// The default route.
    pub(crate) fn route_by(&mut self, via: Ipv4Addr) {
        let routes = [Route {
            to: Prefix::DEFAULT,
            via: via.into(),
            port: None,
            weight: 1,
        }];
        self.routes = Arc::new(RouteTable::new(&self.connected(), &routes, &[]).unwrap());
    }

    /// The default routes of both families.
    pub(crate) fn route_both(&mut self) {
        let routes =
            [(Prefix::DEFAULT, Family::V4), (Prefix::DEFAULT6, Family::V6)].map(|(to, family)| Route {
                to,
                via: family.router(),
                port: None,
                weight: 1,
            });
        self.routes = Arc::new(RouteTable::new(&self.connected(), &routes, &[]).unwrap());
    }

    /// The router and the IPv4 servers are static neighbours.
    pub(crate) fn know_neighbours(&mut self) {
        let known = |port, address: Ipv4Addr, mac| StaticNeighbour {
            port,
            address: address.into(),
            mac,
        };
        self.neighbours = (1..=8)
            .map(|number| known(LAN, server_ip(number), server_mac(number)))
            .chain([known(WAN, ROUTER, ROUTER_MAC)])
            .collect();
    }

    /// Nobody is a static neighbour.
    pub(crate) fn know_nobody(&mut self) {
        self.neighbours = Arc::new([]);
    }

    /// Gives every port a way to the kernel, for so many packets of each kind in a second.
    pub(crate) fn let_kernel_have(&mut self, rate: u32) {
        let mut ports = self.ports.to_vec();
        for port in &mut ports {
            port.exception_rate = rate;
        }
        self.ports = ports.into();
    }

    /// Lets a port have another MTU.
    pub(crate) fn set_mtu(&mut self, port: PortId, mtu: u16) {
        let mut ports = self.ports.to_vec();
        ports[usize::from(port.0)].mtu = mtu;
        self.ports = ports.into();
    }

    /// The ports' addresses with the length of each one's prefix.
    fn own(&self) -> impl Iterator<Item = (PortId, IpAddr, u8)> {
        let of = |(port, settings): (u8, &PortSettings)| {
            let port = PortId(port);
            settings
                .addresses
                .iter()
                .map(move |&(own, length)| (port, own, length))
                .collect::<Vec<_>>()
        };
        (0..).zip(self.ports.iter()).flat_map(of)
    }

    fn connected(&self) -> Vec<Connected> {
        self.own()
            .map(|(port, own, length)| Connected {
                port,
                prefix: Prefix::around(own, length),
            })
            .collect()
    }

    /// The next snapshot; what has not changed is shared with the one before.
    pub(crate) fn snapshot(&mut self) -> Arc<Snapshot> {
        self.epoch += 1;
        let vips = self.services.iter().flatten();
        let vips = vips.filter_map(|service| service.key.address());
        let vips = vips.map(|address| Vip {
            address,
            arp: VipArp::ByPrefix,
        });
        let pools = self
            .services
            .iter()
            .flatten()
            .flat_map(|service| &service.local_pools);
        let locals = pools.chain([&self.locals]).flat_map(|pool| pool.addresses());
        let outside = self.snat.iter().flat_map(|rule| &rule.local_pools);
        let outside = outside.flat_map(|pool| pool.addresses());
        let mut locals: Vec<_> = locals
            .map(|&local| (LAN, local))
            .chain(outside.map(|&local| (WAN, local)))
            .collect();
        locals.sort_unstable();
        locals.dedup();
        let own: Vec<_> = self.own().map(|(port, own, _)| (port, own)).collect();
        let vips: Vec<_> = vips.collect();
        let is_standby = |address| self.standby.contains(&address);
        let addresses =
            AddressTable::with_standby(&own, &vips, &locals, &self.connected(), is_standby).unwrap();
        if *self.addresses != addresses {
            self.addresses = Arc::new(addresses);
        }
        let network = Network {
            shards: ShardMap::even(self.workers),
            addresses: Arc::clone(&self.addresses),
            routes: Arc::clone(&self.routes),
            neighbours: Arc::clone(&self.neighbours),
            ports: Arc::clone(&self.ports),
            vips: Arc::new(self.vips.clone()),
            snat: Arc::new(SnatRules::new(self.snat.clone())),
            marks: Arc::new(MarkRules::new(self.marks.clone())),
        };
        Arc::new(Snapshot::new(
            self.epoch,
            self.settings.clone(),
            network,
            self.services.clone(),
        ))
    }
}

/// That many local addresses from [`LIP`] on, each with these ports.
pub(crate) fn pool(addresses: u8, first: u16, last: u16) -> Arc<LipPool> {
    locals_of(&[Family::V4], addresses, first, last)
}

/// As [`pool`], that many of each family.
pub(crate) fn both_pool(addresses: u8, first: u16, last: u16) -> Arc<LipPool> {
    locals_of(&Family::BOTH, addresses, first, last)
}

fn locals_of(families: &[Family], addresses: u8, first: u16, last: u16) -> Arc<LipPool> {
    let addresses = (0..addresses).flat_map(|n| families.iter().map(move |family| family.local(n)));
    Arc::new(LipPool::new(addresses, PortRange::new(first, last).unwrap()))
}
