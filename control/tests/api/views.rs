//! Each listing of the API.

use crate::support::{BASE, CLIENT, Fake, MODES, VIP, datagram, reset, syn};
use tidegate::view::{Connection, Drop, LocalPool, Neighbour, Port, Route, Server, Service, Status, Worker};

#[test]
fn the_status_tells_what_runs() {
    let fake = Fake::new(BASE);
    let status: Status = fake.get("/v1/status");
    assert_eq!((status.name.as_str(), status.epoch), ("gw1", 1));
    assert_eq!(
        (status.workers, status.ports, status.services, status.servers),
        (1, 2, 3, 4)
    );
    assert_eq!(
        (status.reloads.succeeded, status.reloads.last_succeeded),
        (0, true)
    );
    assert_eq!(status.version, env!("CARGO_PKG_VERSION"));
}

#[test]
fn services_and_servers_count_their_own_traffic_even_where_they_share_a_server() {
    let fake = Fake::new(BASE);
    (1..=3).for_each(|port| fake.open(port));
    fake.arrive(datagram(9, VIP));
    let services: Vec<Service> = fake.get("/v1/services");
    let told: Vec<_> = services
        .iter()
        .map(|service| {
            (
                service.listen.as_str(),
                service.servers,
                service.totals.connections,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("203.0.113.100:80/tcp", 2, 3),
            ("203.0.113.100:80/udp", 1, 1),
            ("203.0.113.101:80/tcp", 1, 0)
        ]
    );
    let web = &services[0];
    assert_eq!(
        (web.name.as_str(), web.scheduler.as_str(), web.one_packet),
        ("web", "wrr", false)
    );
    assert_eq!(web.local_addresses, ["dip"]);
    assert_eq!((web.totals.inbound_packets, web.totals.inbound_bytes), (3, 120));
    // A connection that has only seen its SYN counts as inactive, as in LVS.
    assert_eq!(web.totals.active + web.totals.inactive, 3);

    let servers: Vec<Server> = fake.get("/v1/servers?service=203.0.113.100:80/tcp");
    let told: Vec<_> = servers
        .iter()
        .map(|server| {
            (
                server.address.to_string(),
                server.weight,
                server.totals.connections,
            )
        })
        .collect();
    assert_eq!(
        told,
        [("10.0.0.12".to_owned(), 2, 2), ("10.0.0.11".to_owned(), 1, 1)]
    );
    assert_eq!(
        (servers[0].mode.as_str(), servers[0].port, &servers[0].warning),
        ("fullnat", 8080, &None)
    );
    assert_eq!(fake.get::<Vec<Server>>("/v1/servers?service=web"), servers);
    assert_eq!(fake.get::<Vec<Server>>("/v1/servers").len(), 4);
}

#[test]
fn a_name_stands_for_every_listener() {
    let text = BASE.replace(
        "listen: \"203.0.113.101:80/tcp\"",
        "listen: [\"203.0.113.101:80/tcp\", \"203.0.113.101:81/tcp\"]",
    );
    let fake = Fake::new(&text);
    fake.arrive(syn(1, [203, 0, 113, 101].into()));
    assert_eq!(fake.get::<Vec<Server>>("/v1/servers?service=also").len(), 2);
    assert_eq!(connections(&fake, "?service=also").len(), 1);
    assert_eq!(connections(&fake, "?service=203.0.113.101:81/tcp").len(), 0);
}

#[test]
fn a_server_at_its_threshold_carries_a_warning() {
    let text = BASE.replace(
        "address: 10.0.0.12, port: 8080,",
        "address: 10.0.0.12, port: 8080, upper_threshold: 1,",
    );
    let fake = Fake::new(&text);
    (1..=3).for_each(|port| fake.open(port));
    let servers: Vec<Server> = fake.get("/v1/servers?service=203.0.113.100:80/tcp");
    assert_eq!(servers[0].totals.connections, 1);
    assert!(servers[0].warning.as_ref().unwrap().contains("upper threshold"));
}

fn connections(fake: &Fake, query: &str) -> Vec<Connection> {
    let (status, lines) = fake.ask("GET", &format!("/v1/connections{query}"));
    assert_eq!(status, 200, "{lines}");
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn connections_are_told_one_a_line_and_filtered() {
    let fake = Fake::new(BASE);
    (1..=6).for_each(|port| fake.open(port));
    fake.arrive(datagram(9, VIP));
    let all = connections(&fake, "");
    assert_eq!(all.len(), 7);
    let udp = all
        .iter()
        .find(|connection| connection.protocol == "udp")
        .unwrap();
    assert_eq!(udp.client.to_string(), format!("{CLIENT}:9"));
    assert_eq!(udp.virtual_address.to_string(), "203.0.113.100:80");
    assert_eq!(
        (udp.server.to_string().as_str(), udp.mode.as_str(), udp.expires),
        ("10.0.0.11:8080", "fullnat", 300)
    );
    assert!(udp.local.unwrap().to_string().starts_with("10.0.0.20"));
    let count = |query: &str| connections(&fake, query).len();
    assert_eq!(
        (count("?limit=0"), count("?limit=2"), count("?limit=100")),
        (0, 2, 7)
    );
    // A listing that ended early does not disturb the next one.
    assert_eq!(
        (
            count(""),
            count("?service=also"),
            count("?service=203.0.113.100:80/udp")
        ),
        (7, 0, 1)
    );
    assert_eq!(
        (
            count("?server=10.0.0.12"),
            count("?server=10.0.0.12:8080"),
            count("?server=10.0.0.12:1")
        ),
        (4, 4, 0)
    );
    assert_eq!(
        (
            count("?client=203.0.113.50"),
            count("?client=203.0.113.50:9&limit=5")
        ),
        (7, 1)
    );
}

#[test]
fn a_long_listing_comes_whole() {
    let fake = Fake::new(BASE);
    (1..=900).for_each(|port| fake.open(port));
    let mut clients: Vec<u16> = connections(&fake, "")
        .iter()
        .map(|connection| connection.client.port())
        .collect();
    clients.sort_unstable();
    assert_eq!(clients, (1..=900).collect::<Vec<u16>>());
}

#[test]
fn ports_workers_neighbours_and_local_addresses() {
    let fake = Fake::new(BASE);
    fake.open(1);
    let ports: Vec<Port> = fake.get("/v1/ports");
    let wan = &ports[0];
    assert_eq!(
        (wan.name.as_str(), wan.device.as_deref(), wan.driver.as_deref()),
        ("wan", Some("net_null0"), Some("net_memory"))
    );
    assert_eq!(
        (wan.mac.as_str(), wan.mtu, wan.link_up),
        ("02:00:00:00:00:00", 1500, true)
    );
    assert_eq!(
        (
            &wan.addresses[0][..],
            wan.counters.map(|counters| counters.received_packets)
        ),
        ("203.0.113.2/24", Some(7))
    );
    assert_eq!((wan.worker_received, ports[0].number, ports[1].number), (1, 0, 1));

    let workers: Vec<Worker> = fake.get("/v1/workers");
    let totals = workers[0].totals;
    assert_eq!(
        (workers[0].number, workers[0].cpu, workers[0].unaccounted),
        (0, 3, 0)
    );
    assert_eq!(
        (totals.received, totals.opened, totals.connections, totals.epoch),
        (1, 1, 1, 1)
    );

    let neighbours: Vec<Neighbour> = fake.get("/v1/neighbours");
    let told: Vec<_> = neighbours
        .iter()
        .map(|neighbour| (&*neighbour.port, neighbour.address.to_string(), &*neighbour.state))
        .collect();
    assert_eq!(
        told,
        [
            ("wan", "203.0.113.50".to_owned(), "static"),
            ("lan", "10.0.0.11".to_owned(), "static"),
            ("lan", "10.0.0.12".to_owned(), "static")
        ]
    );
    assert_eq!(neighbours[1].mac.as_deref(), Some("02:00:00:00:00:11"));

    let pools: Vec<LocalPool> = fake.get("/v1/local-addresses");
    let dip = &pools[0];
    // 2 addresses of 1000 ports, towards 2 TCP servers and a UDP one: two services share one of them.
    assert_eq!(
        (&*dip.name, &*dip.port, dip.ports, dip.servers),
        ("dip", "lan", (2000, 2999), 3)
    );
    assert_eq!((dip.capacity, dip.used, dip.free), (Some(6000), 1, Some(5999)));
    assert_eq!(dip.addresses.iter().map(|address| address.taken).sum::<u64>(), 1);
}

#[test]
fn routes_are_told_with_source_and_state() {
    let routes = "routes:\n  - { to: default, via: [203.0.113.50, { address: 203.0.113.51, weight: 3 }] }\n  \
                  - { to: 10.9.0.0/16, unreachable: true }\nneighbours:\n";
    let fake = Fake::new(&BASE.replace("neighbours:\n", routes));
    let told: Vec<Route> = fake.get("/v1/routes");
    let told: Vec<String> = told
        .iter()
        .map(|route| {
            let via = route.via.map_or_else(|| "-".to_owned(), |via| via.to_string());
            let port = route.port.as_deref().unwrap_or("-");
            format!(
                "{} {via} {port} {} {} {}",
                route.to, route.weight, route.state, route.source
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "0.0.0.0/0 203.0.113.50 wan 1 static static",
            "0.0.0.0/0 203.0.113.51 wan 3 incomplete static",
            "10.0.0.0/24 - lan 1 on link port",
            "10.9.0.0/16 - - 1 unreachable static",
            "203.0.113.0/24 - wan 1 on link port",
        ]
    );
}

#[test]
fn drops_are_told_by_reason() {
    let fake = Fake::new(BASE);
    fake.arrive(vec![0; 20]);
    fake.arrive(syn(1, [203, 0, 113, 99].into()));
    let drops: Vec<Drop> = fake.get("/v1/drops");
    assert!(
        drops
            .iter()
            .any(|drop| drop.reason == "not_for_us" && drop.total == 1 && drop.workers == [1]),
        "{drops:?}"
    );
    assert!(drops.iter().all(|drop| drop.total > 0 && !drop.text.is_empty()));
    let all: Vec<Drop> = fake.get("/v1/drops?all=true");
    assert_eq!(all.len(), dataplane::drops::DropReason::COUNT);
}

#[test]
fn what_cannot_be_answered_says_why() {
    let fake = Fake::new(BASE);
    for (method, path, status, words) in [
        ("GET", "/v1/nothing", 404, "/v1/services"),
        ("DELETE", "/nothing", 404, "nothing is at /nothing"),
        ("GET", "/v1/reload", 405, "use POST"),
        ("POST", "/v1/status", 405, "use GET"),
        ("GET", "/v1/connections?servce=web", 400, "servce"),
        (
            "GET",
            "/v1/connections?service=nosuch",
            404,
            "no service is named nosuch",
        ),
        ("GET", "/v1/connections?client=me", 400, "192.0.2.1:80"),
        ("GET", "/v1/connections?limit=-1", 400, "limit"),
        ("GET", "/v1/servers?service=nosuch", 404, "nosuch"),
        ("GET", "/metrics?servers=perhaps", 400, "servers"),
    ] {
        let (got, body) = fake.ask(method, path);
        let error: serde_json::Value =
            serde_json::from_str(&body).unwrap_or_else(|_| panic!("{method} {path}: {body}"));
        assert_eq!(got, status, "{method} {path}: {body}");
        assert!(
            error["error"].as_str().unwrap().contains(words),
            "{method} {path}: {body}"
        );
    }
}

#[test]
fn modes_tunnels_and_both_families_are_told() {
    let fake = Fake::new(MODES);
    fake.command("-a -t 203.0.113.100:80 -r 203.0.113.15:8080 -g");
    let services: Vec<Service> = fake.get("/v1/services");
    let told: Vec<_> = services
        .iter()
        .map(|service| {
            (
                service.listen.as_str(),
                service.address.unwrap().to_string(),
                service.mss_clamp,
                service.servers_with_warnings,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("203.0.113.100:80/tcp", "203.0.113.100".to_owned(), Some(1400), 1),
            ("[2001:db8::100]:80/sctp", "2001:db8::100".to_owned(), None, 0)
        ]
    );
    let servers: Vec<Server> = fake.get("/v1/servers?service=[2001:db8::100]:80/sctp");
    assert_eq!(
        (servers[0].address.to_string(), servers[0].port),
        ("2001:db8::11".to_owned(), 8080)
    );
    let servers: Vec<Server> = fake.get("/v1/servers?service=web");
    let told: Vec<_> = servers
        .iter()
        .map(|server| {
            let tunnel = server.tunnel.as_ref();
            let tunnel = tunnel.map(|tunnel| (tunnel.kind.as_str(), tunnel.port, tunnel.checksum.as_str()));
            (server.mode.as_str(), tunnel, server.warning.as_deref())
        })
        .collect();
    let warning = "port 8080 has no effect: dr leaves packets as they are, on port 80";
    assert_eq!(
        told,
        [
            ("dr", None, Some(warning)),
            ("nat", None, None),
            ("tun", Some(("ipip", None, "none")), None),
            ("tun", Some(("gue", Some(6080), "remote")), None),
            ("dr", None, None),
        ]
    );
    let ports: Vec<Port> = fake.get("/v1/ports");
    let dmz = &ports[1];
    assert_eq!(
        (dmz.name.as_str(), &dmz.device, dmz.parent.as_deref(), dmz.vlan),
        ("dmz", &None, Some("wan"), Some(20))
    );
    assert_eq!(
        (dmz.mtu, dmz.link_up, dmz.counters, &dmz.driver),
        (1400, true, None, &None)
    );
    assert_eq!(ports[0].addresses, ["203.0.113.2/24", "2001:db8::1/64"]);
    let metrics = fake.metrics();
    for line in [
        "tidegate_service_servers{service=\"six\",vip=\"2001:db8::100\",port=\"80\",protocol=\"sctp\"} 1",
        "tidegate_port_info{port=\"dmz\",device=\"\",driver=\"\",mac=\"02:00:00:00:00:00\",parent=\"wan\",vlan=\"20\"} 1",
        "tidegate_port_link_up{port=\"dmz\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("tidegate_port_received_packets_total{port=\"dmz\"}"));
}

fn local<'a>(pools: &'a [LocalPool], address: &str) -> &'a tidegate::view::LocalAddress {
    let mut addresses = pools.iter().flat_map(|pool| &pool.addresses);
    addresses
        .find(|local| local.address.to_string() == address)
        .unwrap_or_else(|| panic!("no {address} in {pools:?}"))
}

#[test]
fn local_ports_are_told_by_server_where_that_is_asked_for() {
    let fake = Fake::new(BASE);
    (1..=7).for_each(|client| fake.open(client));
    let pools: Vec<LocalPool> = fake.get("/v1/local-addresses");
    assert!(
        pools[0]
            .addresses
            .iter()
            .all(|address| address.servers.is_empty())
    );
    let pools: Vec<LocalPool> = fake.get("/v1/local-addresses?servers=true");
    let mut used = std::collections::BTreeMap::new();
    for server in pools[0].addresses.iter().flat_map(|address| &address.servers) {
        assert_eq!(server.used + server.free, 1000, "{server:?}");
        *used
            .entry((server.address.to_string(), server.port, server.protocol.clone()))
            .or_insert(0) += server.used;
    }
    let of = |last: u8, used| ((format!("10.0.0.{last}"), 8080, "tcp".to_owned()), used);
    let told: Vec<_> = used.into_iter().collect();
    // By weight: one to two.
    assert!(
        told == [of(11, 2), of(12, 5)] || told == [of(11, 3), of(12, 4)],
        "{told:?}"
    );
    for address in &pools[0].addresses {
        assert_eq!(address.used + address.free.unwrap(), 3000, "{address:?}");
        assert_eq!(
            address.used,
            address.servers.iter().map(|server| server.used).sum::<u64>()
        );
    }
}

#[test]
fn a_local_address_drains_until_its_last_connection_has_ended() {
    let fake = Fake::new(BASE);
    (1..=4).for_each(|client| fake.open(client));
    let before: Vec<LocalPool> = fake.get("/v1/local-addresses");
    let both = ["10.0.0.200", "10.0.0.201"].map(|address| local(&before, address).used);
    assert!(both.iter().sum::<u64>() == 4 && both[0] > 0, "{both:?}");

    fake.write(&BASE.replace("10.0.0.200-201", "10.0.0.201"));
    let (status, body) = fake.ask("POST", "/v1/reload");
    assert!(status == 200 && body.contains("1 local address drains"), "{body}");
    // Connections have it, so it stays.
    assert_eq!(fake.gateway.release_drained(), [] as [std::net::IpAddr; 0]);
    (5..=20).for_each(|client| fake.open(client));
    let pools: Vec<LocalPool> = fake.get("/v1/local-addresses?servers=true");
    let drained = local(&pools, "10.0.0.200");
    assert_eq!(
        (drained.draining, drained.used, drained.free),
        (true, both[0], Some(0))
    );
    assert!(drained.servers.iter().all(|server| server.free == 0));
    let rest = local(&pools, "10.0.0.201");
    assert_eq!((rest.draining, rest.used), (false, 20 - both[0]));
    assert_eq!(
        (pools[0].used, pools[0].capacity, pools[0].free),
        (20, Some(3000), Some(3000 - rest.used))
    );
    let text = fake.metrics();
    let series = |name: &str| format!("tidegate_local_address_{name}{{pool=\"dip\",address=\"10.0.0.200\"}}");
    assert!(text.contains(&format!("{} 1\n", series("draining"))), "{text}");
    assert!(
        text.contains(&format!("{} {}\n", series("ports_used"), both[0])),
        "{text}"
    );

    // Every connection is reset by its client.
    (1..=20).for_each(|client| fake.arrive(reset(client)));
    fake.pass(120);
    assert_eq!(
        fake.gateway.release_drained(),
        [std::net::IpAddr::from([10, 0, 0, 200])]
    );
    let pools: Vec<LocalPool> = fake.get("/v1/local-addresses");
    assert_eq!((pools[0].addresses.len(), pools[0].used), (1, 0));
    assert!(!fake.metrics().contains("10.0.0.200"));
    assert_eq!(fake.gateway.release_drained(), [] as [std::net::IpAddr; 0]);
}

/// A group that is gone is shown as long as one of its addresses drains.
#[test]
fn a_group_that_is_gone_is_shown_while_it_drains() {
    let fake = Fake::new(BASE);
    fake.open(1);
    let text = BASE.replace(
        "name: dip, port: lan, addresses: [10.0.0.200-201]",
        "name: new, port: lan, addresses: 10.0.0.210",
    );
    fake.write(&text.replace("local_addresses: dip", "local_addresses: new"));
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    let pools: Vec<LocalPool> = fake.get("/v1/local-addresses");
    let names: Vec<_> = pools
        .iter()
        .map(|pool| (&*pool.name, &*pool.port, pool.addresses.len()))
        .collect();
    assert_eq!(names, [("new", "lan", 1), ("dip", "lan", 2)]);
    assert_eq!(
        (pools[1].used, pools[1].capacity, pools[1].servers),
        (1, Some(0), 0)
    );
    // The one that nobody used goes at once.
    assert_eq!(fake.gateway.release_drained().len(), 1);
}
