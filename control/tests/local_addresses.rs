//! Local addresses that servers cannot answer to, and those that leave their group under connections.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests"
)]

use dataplane::neighbour::AddressClass;
use dataplane::packet::{MacAddr, PortId};
use dataplane::service::PortSettings;
use std::net::{IpAddr, Ipv4Addr};
use tidegate::config::{self, Config};
use tidegate::ipvsadm;
use tidegate::model::{Changes, Model, ModelError};

/// Two networks of servers; `dip` is on `lan`, `far` on `dmz`.
const PORTS: &str = "\
ports:
  - { name: wan, device: net_null0, addresses: [\"2001:db8:1::2/64\", 203.0.113.2/24] }
  - { name: lan, device: net_null1, addresses: [\"2001:db8:2::1/64\", 10.0.0.1/24] }
  - { name: dmz, device: net_null2, addresses: [\"2001:db8:3::1/64\", 10.1.0.1/24] }
routes: [{ to: 10.9.0.0/24, via: 10.1.0.254 }]
";

fn text(groups: &str, servers: &str, service: &str) -> String {
    format!(
        "{PORTS}local_addresses: [{groups}]\npools: [{{ name: web, servers: [{servers}] }}]\n\
         services: [{{ name: web, listen: \"203.0.113.100:80/tcp\", pool: web, {service} }}]\n"
    )
}

fn parse(text: &str) -> Config {
    config::parse("t", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

const DIP: &str = "{ name: dip, port: lan, addresses: [10.0.0.200-202] }";
const FULLNAT: &str = "mode: fullnat, local_addresses: dip";
const NEAR: &str = "{ address: 10.0.0.11 }";

fn fault(groups: &str, servers: &str, service: &str) -> String {
    config::parse("t", &text(groups, servers, service))
        .expect_err("local addresses that cannot be used")
        .to_string()
}

#[test]
fn a_server_behind_another_port_than_its_local_addresses_is_an_error() {
    let answer = "would not come back";
    let error = fault(DIP, "{ address: 10.0.0.11 }, { address: 10.1.0.11 }", FULLNAT);
    assert_eq!(
        error,
        "t:8:100: services[0].local_addresses: server 10.1.0.11 is behind port `dmz`, and the addresses of `dip` are on \
         port `lan`: its answers would not come back; name a group with `port: dmz`, or write `routed: true` in the \
         group if the server has a route to it"
    );
    // Behind a router, as a part of a list of groups, and for hairpins.
    assert!(fault(DIP, "{ address: 10.9.0.11 }", FULLNAT).contains(answer));
    let far = "{ name: far, port: dmz, addresses: 10.1.0.200 }";
    let both = "mode: fullnat, local_addresses: [dip, far]";
    let error = fault(&format!("{DIP}, {far}"), "{ address: 10.1.0.11 }", both);
    assert!(error.contains("`dip`") && !error.contains("`far`"), "{error}");
    let hairpin = "mode: nat, hairpin_snat: true, local_addresses: dip";
    assert!(fault(DIP, "{ address: 10.1.0.11 }", hairpin).contains(answer));
}

#[test]
fn a_route_to_the_addresses_or_their_own_port_is_fine() {
    parse(&text(DIP, NEAR, FULLNAT));
    let routed = "{ name: dip, port: lan, addresses: 192.0.2.1, routed: true }";
    for server in ["10.0.0.11", "10.1.0.11", "10.9.0.11"] {
        parse(&text(routed, &format!("{{ address: {server} }}"), FULLNAT));
    }
    // Only servers that are reached from local addresses matter, and hairpins only happen on a link.
    parse(&text(
        DIP,
        "{ address: 10.0.0.11 }, { address: 10.1.0.11, mode: nat }",
        FULLNAT,
    ));
    let hairpin = "mode: nat, hairpin_snat: true, local_addresses: dip";
    parse(&text(DIP, "{ address: 10.9.0.11 }", hairpin));
}

fn model(text: &str) -> Model {
    let config = parse(text);
    let ports = config.ports.iter().map(|port| PortSettings {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: port.own_addresses(),
        check_partial: false,
        exception_rate: 0,
    });
    let mut model = Model::new(ports.collect(), 1, 16, 16);
    model.apply_file(&config).unwrap();
    model
}

#[test]
fn commands_are_told_of_local_addresses_that_cannot_be_used() {
    let far = "{ name: far, port: dmz, addresses: 10.1.0.200 }";
    let mut model = model(&text(&format!("{DIP}, {far}"), NEAR, FULLNAT));
    let mut run = |line: &str| {
        let command = ipvsadm::parse_line(line).unwrap();
        model.apply_command(&command).map_err(|error| error.to_string())
    };
    let wrong = run("-a -t 203.0.113.100:80 -r 10.1.0.11:80 --fullnat").unwrap_err();
    assert!(wrong.contains("10.1.0.11") && wrong.contains("dip"), "{wrong}");
    let wrong = run("-E -t 203.0.113.100:80 -s rr --local-addresses far").unwrap_err();
    assert!(wrong.contains("10.0.0.11") && wrong.contains("far"), "{wrong}");
    let none = run("-E -t 203.0.113.100:80 -s rr").unwrap_err();
    assert!(none.contains("--local-addresses NAME"), "{none}");
    run("-A -t 203.0.113.101:80 -s rr --local-addresses far").unwrap();
    run("-a -t 203.0.113.101:80 -r 10.1.0.11:80 --fullnat").unwrap();
    run("-a -t 203.0.113.101:80 -r 10.9.0.11:80 --fullnat").unwrap();
    run("-a -t 203.0.113.101:80 -r 10.0.0.12:80 -m").unwrap();
}

const LIPS: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 200)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 201)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 202)),
];

/// Which of [`LIPS`] services take ports of, and which the gateway answers for.
fn state(model: &mut Model) -> ([bool; 3], [bool; 3]) {
    let snapshot = model.snapshot();
    let used = (0..snapshot.service_slots() as u32)
        .filter_map(|slot| snapshot.service(slot))
        .flat_map(|service| {
            service
                .local_pools
                .iter()
                .flat_map(|pool| pool.addresses().to_vec())
        })
        .collect::<Vec<_>>();
    let ours = |lip: IpAddr| {
        let local = snapshot.addresses.class_of(lip) == AddressClass::Local;
        assert_eq!(local, snapshot.addresses.owner(lip) == Some(PortId(1)));
        local
    };
    (LIPS.map(|lip| used.contains(&lip)), LIPS.map(ours))
}

fn draining(model: &Model) -> Vec<IpAddr> {
    model.draining().iter().map(|draining| draining.address).collect()
}

fn with(addresses: &str) -> String {
    text(&DIP.replace("10.0.0.200-202", addresses), NEAR, FULLNAT)
}

const FAR6: &str = "{ name: far6, port: dmz, addresses: \"2001:db8:3::200\" }";
const NEAR6: &str = "{ address: \"2001:db8:2::11\" }";

/// As [`text`], for a service of IPv6.
fn text6(groups: &str, servers: &str, service: &str) -> String {
    text(groups, servers, service).replace("203.0.113.100:80", "[2001:db8:1::100]:80")
}

#[test]
fn a_group_matters_to_servers_of_its_families_only() {
    let both = "mode: fullnat, local_addresses: [dip, far6]";
    let groups = format!("{DIP}, {FAR6}");
    // `dip` is on another port than this server, which never sees it.
    parse(&text6(&groups, "{ address: \"2001:db8:3::11\" }", both));
    let error = config::parse("t", &text6(&groups, NEAR6, both)).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("2001:db8:2::11") && error.contains("`far6`"),
        "{error}"
    );

    let near6 = "{ name: near6, port: lan, addresses: \"2001:db8:2::200\" }";
    let groups = format!("{DIP}, {FAR6}, {near6}");
    let mut model = model(&text6(&groups, NEAR6, "mode: fullnat, local_addresses: near6"));
    let mut run = |line: &str| {
        let command = ipvsadm::parse_line(line).unwrap();
        model.apply_command(&command).map_err(|error| error.to_string())
    };
    let service = "-t [2001:db8:1::100]:80";
    let wrong = run(&format!("-E {service} -s rr --local-addresses dip")).unwrap_err();
    assert!(wrong.contains("not IPv6"), "{wrong}");
    let wrong = run(&format!("-E {service} -s rr --local-addresses far6")).unwrap_err();
    assert!(
        wrong.contains("2001:db8:2::11") && wrong.contains("far6"),
        "{wrong}"
    );
    let wrong = run(&format!("-a {service} -r [2001:db8:3::11]:80 --fullnat")).unwrap_err();
    assert!(
        wrong.contains("2001:db8:3::11") && wrong.contains("near6"),
        "{wrong}"
    );
    run(&format!("-a {service} -r [2001:db8:2::12]:80 --fullnat")).unwrap();
}

#[test]
fn addresses_of_ipv6_drain_as_well() {
    let with = |addresses: &str| {
        let groups = format!("{{ name: dip, port: lan, addresses: [{addresses}] }}");
        text6(&groups, NEAR6, FULLNAT)
    };
    let lips = ["2001:db8:2::200", "2001:db8:2::201"].map(|lip| lip.parse::<IpAddr>().unwrap());
    let all = with("10.0.0.200, \"2001:db8:2::200\", \"2001:db8:2::201\"");
    let mut model = model(&all);
    let less = with("\"2001:db8:2::201\"");
    assert_eq!(model.apply_file(&parse(&less)).unwrap().locals_draining, 2);
    assert_eq!(draining(&model), [LIPS[0], lips[0]]);
    let ours = |model: &mut Model, lip| {
        let addresses = &model.snapshot().addresses;
        (
            addresses.class_of(lip) == AddressClass::Local,
            addresses.owner(lip),
        )
    };
    for lip in [LIPS[0], lips[0], lips[1]] {
        assert_eq!(ours(&mut model, lip), (true, Some(PortId(1))), "{lip}");
    }
    let other = less.replace(NEAR6, "{ address: \"2001:db8:2::200\" }");
    assert_eq!(
        model.apply_file(&parse(&other)),
        Err(ModelError::Draining(lips[0]))
    );
    let is_unused = |lip: IpAddr| lip.is_ipv6();
    assert_eq!(model.release_drained(is_unused).unwrap(), [lips[0]]);
    assert_eq!(draining(&model), [LIPS[0]]);
    assert!(!ours(&mut model, lips[0]).0);
    model.apply_file(&parse(&other)).unwrap();
}

#[test]
fn a_removed_address_drains_until_it_is_released() {
    let mut model = model(&with("10.0.0.200-202"));
    assert_eq!(state(&mut model), ([true; 3], [true; 3]));
    let changes = model.apply_file(&parse(&with("10.0.0.201"))).unwrap();
    assert_eq!(
        changes,
        Changes {
            services_changed: 1,
            network_changed: true,
            locals_draining: 2,
            ..Changes::default()
        }
    );
    assert!(
        changes.to_string().ends_with("; 2 local addresses drain"),
        "{changes}"
    );
    assert_eq!(state(&mut model), ([false, true, false], [true; 3]));
    assert_eq!(draining(&model), [LIPS[0], LIPS[2]]);
    assert_eq!(model.draining()[0].group, "dip");
    // The same file again changes nothing of it.
    let again = model.apply_file(&parse(&with("10.0.0.201"))).unwrap();
    assert_eq!((again.locals_draining, draining(&model).len()), (0, 2));
    // One comes back; the other stays while it is used, and is gone then.
    model.apply_file(&parse(&with("10.0.0.200-201"))).unwrap();
    assert_eq!(state(&mut model), ([true, true, false], [true; 3]));
    assert_eq!(model.release_drained(|_| false).unwrap(), [] as [IpAddr; 0]);
    assert_eq!(state(&mut model).1, [true; 3]);
    assert_eq!(model.release_drained(|lip| lip == LIPS[2]).unwrap(), [LIPS[2]]);
    assert_eq!(state(&mut model), ([true, true, false], [true, true, false]));
    assert_eq!(draining(&model), [] as [IpAddr; 0]);
}

#[test]
fn a_removed_group_drains_and_one_that_moves_does_not() {
    let mut model = model(&with("10.0.0.200-202"));
    // Into another group, and the other way of writing them.
    let moved = with("10.0.0.200-201").replace(
        "local_addresses: [{",
        "local_addresses: [{ name: more, port: lan, addresses: 10.0.0.202 }, {",
    );
    model.apply_file(&parse(&moved)).unwrap();
    assert_eq!(draining(&model), [] as [IpAddr; 0]);
    let none = text("", NEAR, "mode: nat");
    assert_eq!(model.apply_file(&parse(&none)).unwrap().locals_draining, 3);
    assert_eq!(state(&mut model), ([false; 3], [true; 3]));
    let groups: Vec<&str> = model.draining().iter().map(|draining| &*draining.group).collect();
    assert_eq!(groups, ["more", "dip", "dip"]);
}

#[test]
fn an_address_that_drains_is_nothing_else_meanwhile() {
    let mut model = model(&with("10.0.0.200-202"));
    model.apply_file(&parse(&with("10.0.0.200-201"))).unwrap();
    let base = with("10.0.0.200-201");
    let others = [
        base.replace("203.0.113.100:80/tcp", "10.0.0.202:80/tcp"),
        base.replace("10.0.0.1/24]", "10.0.0.1/24, 10.0.0.202/24]"),
        base.replace(NEAR, "{ address: 10.0.0.202 }"),
        base.replace(
            "via: 10.1.0.254 }",
            "via: 10.1.0.254 }, { to: 10.8.0.0/24, via: 10.0.0.202 }",
        ),
        format!("{base}vips: [{{ address: 10.0.0.202 }}]\n"),
        format!("{base}neighbours: [{{ address: 10.0.0.202, mac: 02:00:00:00:00:09 }}]\n"),
    ];
    let taken = || ModelError::Draining(LIPS[2]);
    for other in &others {
        assert_eq!(model.apply_file(&parse(other)), Err(taken()), "{other}");
        assert_eq!(
            state(&mut model),
            ([true, true, false], [true; 3]),
            "nothing has changed"
        );
    }
    for line in [
        "-A -t 10.0.0.202:80 -s rr",
        "-a -t 203.0.113.100:80 -r 10.0.0.202:80 --fullnat",
    ] {
        let command = ipvsadm::parse_line(line).unwrap();
        let error = model.apply_command(&command).unwrap_err().to_string();
        assert!(error.contains("10.0.0.202 was a local address"), "{error}");
    }
    model.release_drained(|_| true).unwrap();
    for other in &others {
        model.clone().apply_file(&parse(other)).unwrap();
    }
}
