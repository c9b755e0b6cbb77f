//! ipvsadm commands on the model: what the kernel takes and refuses, in both families and all modes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use dataplane::flow::Mode;
use dataplane::packet::MacAddr;
use dataplane::service::{PersistenceEngine, PortSettings, Server, Tunnel, TunnelChecksum, TunnelKind};
use dataplane::time::TICKS_PER_SECOND;
use std::fmt::Write;
use tidegate::model::Model;
use tidegate::{config, ipvsadm};

/// A gateway with an address of each family, and a group of local addresses.
fn model() -> Model {
    let text = "ports: [{ name: lan, device: net_null0, addresses: [10.0.0.1/24, 2001:db8::1/64] }]
local_addresses: [{ name: dip, port: lan, addresses: 10.0.0.200 }]
";
    let config = config::parse("t", text).unwrap();
    let port = PortSettings {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: Vec::new(),
        check_partial: false,
        exception_rate: 0,
    };
    let mut model = Model::new(vec![port], 1, 64, 64);
    model.apply_file(&config).unwrap();
    model
}

fn run(model: &mut Model, line: &str) -> Result<(), String> {
    let command = ipvsadm::parse_line(line).map_err(|error| error.to_string())?;
    model.apply_command(&command).map_err(|error| error.to_string())
}

/// The model after these lines, all of which succeed.
fn after(lines: &[&str]) -> Model {
    let mut model = model();
    for line in lines {
        run(&mut model, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    model
}

fn table(model: &Model) -> String {
    let mut text = String::new();
    for entry in model.services() {
        writeln!(text, "{}", entry.service.key).unwrap();
        for server in &entry.service.servers {
            let (address, port) = (server.address, server.port);
            writeln!(
                text,
                "  {address} {port} {} {}",
                server.mode.name(),
                server.weight
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn services_of_both_families_and_all_protocols() {
    let model = after(&[
        "-A -t [fd00::100]:80 -s rr",
        "-a -t [fd00::100]:80 -r [2001:db8::11]:8080 -m -w 3",
        "-a -t [fd00::100]:80 -r 2001:db8::12 -g",
        "-a -t [fd00::100]:80 -r 10.0.0.13:80 -i",
        "-A --sctp-service 10.0.0.100:2905 -s wrr",
        "-a --sctp-service 10.0.0.100:2905 -r 10.0.0.11:2906 -m",
        "-A -u 10.0.0.100:53 -s rr -o",
        "-a -u 10.0.0.100:53 -r [2001:db8::11]:53 -i",
        "-a -u 10.0.0.100:53 -r 10.0.0.11:53 -m",
    ]);
    assert_eq!(
        table(&model),
        "10.0.0.100:53/udp
  10.0.0.11 53 nat 1
  2001:db8::11 53 tun 1
10.0.0.100:2905/sctp
  10.0.0.11 2906 nat 1
[fd00::100]:80/tcp
  10.0.0.13 80 tun 1
  2001:db8::12 80 dr 1
  2001:db8::11 8080 nat 3
"
    );
}

#[test]
fn tunnels_are_kept_and_an_edit_replaces_them() {
    let mut model = after(&[
        "-A -u 10.0.0.100:53 -s rr",
        "-a -u 10.0.0.100:53 -r 10.0.0.11 -i",
        "-a -u 10.0.0.100:53 -r 10.0.0.12 -i --tun-type gue --tun-port 6080",
        "-a -u 10.0.0.100:53 -r 10.0.0.13 -i --tun-type gue --tun-port 1 --tun-remcsum",
        "-a -u 10.0.0.100:53 -r 10.0.0.14 -i --tun-type gre --tun-csum",
        "-a -u 10.0.0.100:53 -r 10.0.0.15 -i --tun-type gre --tun-nocsum",
    ]);
    let tunnels = |model: &Model| -> Vec<Tunnel> {
        let service = &model.services().next().unwrap().service;
        service.servers.iter().rev().map(|server| server.tunnel).collect()
    };
    let tunnel = |kind, checksum| Tunnel { kind, checksum };
    let expected = [
        Tunnel::default(),
        tunnel(TunnelKind::Gue { port: 6080 }, TunnelChecksum::None),
        tunnel(TunnelKind::Gue { port: 1 }, TunnelChecksum::Remote),
        tunnel(TunnelKind::Gre, TunnelChecksum::Outer),
        tunnel(TunnelKind::Gre, TunnelChecksum::None),
    ];
    assert_eq!(tunnels(&model), expected);
    run(&mut model, "-e -u 10.0.0.100:53 -r 10.0.0.13 -i").unwrap();
    assert_eq!(tunnels(&model)[2], Tunnel::default());
}

#[test]
fn a_port_that_has_no_effect_is_remembered_until_it_is_corrected() {
    let mut model = after(&[
        "-A -t 10.0.0.100:80 -s rr",
        "-a -t 10.0.0.100:80 -r 10.0.0.11:8080 -g",
        "-a -t 10.0.0.100:80 -r 10.0.0.12:8081 -i",
        "-a -t 10.0.0.100:80 -r 10.0.0.13:8082 -m",
        "-a -t 10.0.0.100:80 -r 10.0.0.14:80 -g",
    ]);
    let ignored = |model: &Model| -> Vec<Option<u16>> {
        let entry = model.services().next().unwrap();
        let servers: Vec<&Server> = entry.service.servers.iter().rev().collect();
        servers.iter().map(|server| entry.ignored_port(server)).collect()
    };
    assert_eq!(ignored(&model), [Some(8080), Some(8081), None, None]);
    // The kernel knows the server by the service's port.
    run(&mut model, "-e -t 10.0.0.100:80 -r 10.0.0.11 -g -w 2").unwrap();
    assert_eq!(ignored(&model), [None, Some(8081), None, None]);
    assert_eq!(
        run(&mut model, "-d -t 10.0.0.100:80 -r 10.0.0.12:8081").unwrap_err(),
        "No such destination"
    );
    run(&mut model, "-d -t 10.0.0.100:80 -r 10.0.0.12:80").unwrap();
    run(&mut model, "-a -t 10.0.0.100:80 -r 10.0.0.12 -m").unwrap();
    run(&mut model, "-e -t 10.0.0.100:80 -r 10.0.0.12 -i").unwrap();
    assert_eq!(ignored(&model), [None, None, None, None]);
    let last = &model.services().next().unwrap().service.servers[0];
    assert_eq!((last.port, last.mode), (80, Mode::Tun));
}

/// The kernel asks whether an address is unicast, or its own.
#[test]
fn addresses_that_can_be_servers_are_those_of_the_kernel() {
    let mut model = after(&["-A -t 10.0.0.100:80 -s rr", "-A -t [fd00::100]:80 -s rr"]);
    let refused = "Invalid operation.  Possibly wrong module version, address not unicast, ...";
    for server in ["0.0.0.0", "0.1.2.3", "224.0.0.1", "239.9.9.9", "255.255.255.255"] {
        let line = format!("-a -t 10.0.0.100:80 -r {server}:80 -g");
        assert_eq!(run(&mut model, &line), Err(refused.to_owned()), "{line}");
    }
    for server in ["::", "ff02::1", "fe80::1", "::ffff:10.0.0.11"] {
        let line = format!("-a -t [fd00::100]:80 -r [{server}]:80 -g");
        assert_eq!(run(&mut model, &line), Err(refused.to_owned()), "{line}");
    }
    // The gateway itself, and what only looks odd.
    for server in ["10.0.0.1", "127.0.0.1", "10.0.0.100", "240.0.0.1"] {
        run(&mut model, &format!("-a -t 10.0.0.100:80 -r {server}:80 -m")).unwrap();
    }
    for server in ["2001:db8::1", "::1", "fd00::100"] {
        run(&mut model, &format!("-a -t [fd00::100]:80 -r [{server}]:80 -m")).unwrap();
    }
}

/// CLI-05: a mark names two services, one of each family; the greatest mark is as good as any.
#[test]
fn cli_05_marks_and_persistence_are_taken_as_they_are_given() {
    let mut model = after(&[
        "-A -f 1 -s rr -p 50 -M 255.255.0.0",
        "-A -f 1 -6 -s rr -p 50 -M 64",
        "-A -f 4294967295 -s rr -o",
        "-A -t 10.0.0.100:0 -s rr -p 60",
        "-A -u 10.0.0.100:5060 -s rr -p --pe sip",
        "-a -f 1 -r 10.0.0.11 -m",
    ]);
    let exists = Err("Service already exists".to_owned());
    assert_eq!(run(&mut model, "-A -f 1 -6 -s rr"), exists);
    let missing = Err("Scheduler or persistence engine not found".to_owned());
    assert_eq!(run(&mut model, "-A -f 2 -s rr -p --pe nosuch"), missing);
    let told: Vec<_> = model
        .services()
        .map(|entry| {
            let service = &entry.service;
            let kept = service.persistence.map(|persistence| {
                let seconds = persistence.timeout / TICKS_PER_SECOND;
                (seconds, persistence.netmask.to_string(), persistence.prefix)
            });
            (
                service.key.to_string(),
                kept,
                service.engine.map(PersistenceEngine::name),
            )
        })
        .collect();
    let all = "255.255.255.255";
    let row = |key: &str, kept: Option<(u32, &str, u8)>, engine| {
        let kept = kept.map(|(seconds, netmask, prefix)| (seconds, netmask.to_owned(), prefix));
        (key.to_owned(), kept, engine)
    };
    assert_eq!(
        told,
        [
            row("10.0.0.100:0/tcp", Some((60, all, 128)), None),
            row("10.0.0.100:5060/udp", Some((360, all, 128)), Some("sip")),
            row("FWM 1", Some((50, "255.255.0.0", 128)), None),
            row("FWM 1 IPv6", Some((50, all, 64)), None),
            row("FWM 4294967295", None, None),
        ]
    );
    run(&mut model, "-E -f 1 -s wlc").unwrap();
    let marked = model
        .services()
        .find(|entry| entry.service.key.to_string() == "FWM 1");
    let marked = &marked.unwrap().service;
    assert_eq!((marked.persistence, marked.servers[0].port), (None, 0));
    run(&mut model, "-D -f 1").unwrap();
    assert_eq!(model.services().count(), 4);
}

/// Servers see local addresses of their own family.
#[test]
fn fullnat_needs_local_addresses_of_the_family() {
    let mut model = after(&[
        "-A -t [fd00::100]:80 -s rr",
        "-A -t [fd00::100]:81 -s rr --local-addresses dip",
    ]);
    let mut add = |port: u16| {
        run(
            &mut model,
            &format!("-a -t [fd00::100]:{port} -r [2001:db8::11]:80 --fullnat"),
        )
    };
    assert_eq!(
        [add(80), add(81)].map(Result::unwrap_err),
        [
            "a FULLNAT server needs a service with --local-addresses NAME",
            "the service's local addresses are not IPv6: name a group that has IPv6 addresses"
        ]
    );
    let text = "ports: [{ name: lan, device: net_null0, addresses: 10.0.0.1/24 }]
local_addresses:
  - { name: both, port: lan, routed: true, addresses: [10.0.0.200, \"2001:db8::200-2001:db8::203\"] }
  - { name: dip, port: lan, addresses: 10.0.0.210 }
";
    model.apply_file(&config::parse("t", text).unwrap()).unwrap();
    run(&mut model, "-A -t [fd00::100]:82 -s rr --local-addresses both").unwrap();
    run(&mut model, "-A -t 10.0.0.100:82 -s rr --local-addresses both").unwrap();
    run(&mut model, "-a -t [fd00::100]:82 -r [2001:db8::11]:80 --fullnat").unwrap();
    run(&mut model, "-a -t 10.0.0.100:82 -r 10.0.0.11:80 --fullnat").unwrap();
    // Whatever the family of the service.
    run(&mut model, "-a -t [fd00::100]:82 -r 10.0.0.12:80 --fullnat").unwrap();
    run(&mut model, "-a -t 10.0.0.100:82 -r [2001:db8::12]:80 --fullnat").unwrap();
    run(
        &mut model,
        "-e -t 10.0.0.100:82 -r [2001:db8::12]:80 --fullnat -w 3",
    )
    .unwrap();
    let servers = model.services().flat_map(|entry| entry.service.servers.clone());
    assert!(servers.map(|server| server.mode).eq([Mode::Fullnat; 4]));
    run(&mut model, "-A -t [fd00::100]:83 -s rr --local-addresses dip").unwrap();
    run(&mut model, "-a -t [fd00::100]:83 -r 10.0.0.11:80 --fullnat").unwrap();
    assert_eq!(
        run(&mut model, "-E -t 10.0.0.100:82 -s rr --local-addresses dip").unwrap_err(),
        "the service's local addresses are not IPv6: name a group that has IPv6 addresses"
    );
    for line in [
        "-a -t [fd00::100]:82 -r 10.0.0.13:80 -m",
        "-a -t [fd00::100]:82 -r 10.0.0.13:80 -g",
    ] {
        let refused = run(&mut model, line).unwrap_err();
        assert_eq!(
            refused,
            "Different address family is allowed only for tunneling servers"
        );
    }
}

/// What ipvsadm has no option for is the file's to say.
#[test]
fn an_edit_keeps_what_has_no_option() {
    let text = "ports: [{ name: lan, device: net_null0, addresses: 10.0.0.1/24 }]
local_addresses: [{ name: dip, port: lan, addresses: 10.0.0.200 }]
pools: [{ name: web, servers: [{ address: 10.0.0.11 }] }]
services:
  - { name: web, listen: 10.0.0.100:80/tcp, pool: web, mode: nat, local_addresses: dip, hairpin_snat: true,
      mss_clamp: 1400 }
  - { name: told, listen: 10.0.0.100:81/tcp, pool: web, mode: fullnat, local_addresses: dip, client_address: toa }
  - { name: headed, listen: [10.0.0.100:82/tcp, 10.0.0.100:82/udp], pool: web, mode: fullnat, local_addresses: dip,
      client_address: proxy_v2 }
";
    let mut model = model();
    model.apply_file(&config::parse("t", text).unwrap()).unwrap();
    run(&mut model, "-E -t 10.0.0.100:80 -s rr --local-addresses dip").unwrap();
    let service = &model.services().next().unwrap().service;
    assert_eq!((service.hairpin_snat, service.mss_clamp), (true, 1400));
    assert_eq!(service.scheduler.name(), "rr");
    run(&mut model, "-E -t 10.0.0.100:81 -s rr --local-addresses dip").unwrap();
    let told = model.services().find(|entry| entry.name == "told").unwrap();
    assert_eq!(told.service.client_address.name(), "toa");
    assert_eq!(told.service.scheduler.name(), "rr");
    for kind in ["-t", "-u"] {
        run(
            &mut model,
            &format!("-E {kind} 10.0.0.100:82 -s rr --local-addresses dip"),
        )
        .unwrap();
    }
    let headed: Vec<_> = model.services().filter(|entry| entry.name == "headed").collect();
    assert_eq!(headed.len(), 2);
    for entry in headed {
        assert_eq!(entry.service.client_address.name(), "proxy_v2");
        assert_eq!(entry.service.scheduler.name(), "rr");
    }
}
