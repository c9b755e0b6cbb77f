//! A file applied to a running model: a diff by identity, all or nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use dataplane::packet::MacAddr;
use dataplane::service::{PortSettings, Protocol, ServiceKey};
use std::sync::Arc;
use tidegate::config::{self, Config};
use tidegate::ipvsadm;
use tidegate::model::{Changes, Model, ModelError};

const BASE: &str = r#"
node: { name: gw1, limits: { services: 4, servers: 6 } }
ports:
  - { name: wan, device: net_null0, addresses: [203.0.113.2/24] }
  - { name: lan, device: net_null1, addresses: [10.0.0.1/24] }
routes: [{ to: default, via: 203.0.113.1 }]
local_addresses:
  - { name: dip, port: lan, addresses: [10.0.0.200-203] }
pools:
  - { name: web, servers: [{ address: 10.0.0.11, port: 8080, weight: 2 }, { address: 10.0.0.12, port: 8080 }] }
  - { name: dns, servers: [{ address: 10.0.0.13 }] }
services:
  - { name: web, listen: "203.0.113.100:80/tcp", pool: web, mode: fullnat, scheduler: wrr, local_addresses: dip }
  - { name: dns, listen: "203.0.113.100:53/udp", pool: dns, mode: fullnat, scheduler: rr, local_addresses: dip }
"#;

fn parse(text: &str) -> Config {
    config::parse("gateway.yaml", text).unwrap()
}

fn model(config: &Config) -> Model {
    let port = PortSettings {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        any_mac: false,
        vlan: None,
        mtu: 1500,
        addresses: Vec::new(),
        check_partial: false,
        exception_rate: 0,
    };
    let limits = config.node.limits;
    let mut model = Model::new(vec![port.clone(), port], 1, limits.services, limits.servers);
    model.apply_file(config).unwrap();
    model
}

fn key(port: u16, protocol: Protocol) -> ServiceKey {
    ServiceKey::new([203, 0, 113, 100].into(), port, protocol)
}

#[test]
fn an_unchanged_file_changes_nothing_at_all() {
    let config = parse(BASE);
    let mut model = model(&config);
    let before = model.snapshot();
    assert_eq!(model.apply_file(&config).unwrap(), Changes::default());
    let after = model.snapshot();
    assert_eq!(after.epoch, before.epoch + 1);
    assert!(Arc::ptr_eq(&before.routes, &after.routes) && Arc::ptr_eq(&before.addresses, &after.addresses));
    for slot in 0..2 {
        assert!(Arc::ptr_eq(
            before.service(slot).unwrap(),
            after.service(slot).unwrap()
        ));
    }
}

/// RLD-01: one parameter edits in place; what is beside it is the very same object.
#[test]
fn a_changed_weight_touches_one_service_and_keeps_every_slot() {
    let mut model = model(&parse(BASE));
    let before = model.snapshot();
    let changes = model
        .apply_file(&parse(&BASE.replace("weight: 2", "weight: 5")))
        .unwrap();
    assert_eq!(
        changes,
        Changes {
            servers_changed: 1,
            ..Changes::default()
        }
    );
    let after = model.snapshot();
    let (web, dns) = (key(80, Protocol::Tcp), key(53, Protocol::Udp));
    assert!(Arc::ptr_eq(before.find(&dns).unwrap(), after.find(&dns).unwrap()));
    let (old, new) = (before.find(&web).unwrap(), after.find(&web).unwrap());
    assert_eq!(old.slot, new.slot);
    let slots = |servers: &[dataplane::service::Server]| servers.iter().map(|s| s.slot).collect::<Vec<_>>();
    assert_eq!(slots(&old.servers), slots(&new.servers));
    assert_eq!(new.servers.iter().map(|s| s.weight).collect::<Vec<_>>(), [1, 5]);
}

/// As LVS lists them: the server of the file's last line was added last, so it heads the list.
#[test]
fn servers_stand_in_the_order_in_which_they_were_added() {
    let mut model = model(&parse(BASE));
    let more = BASE.replace(
        "[{ address: 10.0.0.11,",
        "[{ address: 10.0.0.14, port: 8080 }, { address: 10.0.0.11,",
    );
    model.apply_file(&parse(&more)).unwrap();
    let snapshot = model.snapshot();
    let web = snapshot.find(&key(80, Protocol::Tcp)).unwrap();
    let addresses: Vec<String> = web
        .servers
        .iter()
        .map(|server| server.address.to_string())
        .collect();
    assert_eq!(addresses, ["10.0.0.14", "10.0.0.12", "10.0.0.11"]);
}

/// TCP-05: a server that comes back has its old slot, hence its connections and counters.
#[test]
fn a_server_that_returns_has_its_slot_again_while_anything_names_it() {
    let mut model = model(&parse(BASE));
    let slot_of_12 = |model: &mut Model| {
        let snapshot = model.snapshot();
        let web = snapshot.find(&key(80, Protocol::Tcp)).unwrap();
        web.servers
            .iter()
            .find(|s| s.address.to_string() == "10.0.0.12")
            .map(|s| s.slot)
    };
    let slot = slot_of_12(&mut model).unwrap();
    let without = BASE.replace(", { address: 10.0.0.12, port: 8080 }", "");
    assert_eq!(model.apply_file(&parse(&without)).unwrap().servers_removed, 1);
    assert_eq!(slot_of_12(&mut model), None);
    assert!(!model.snapshot().server_present(slot));
    assert_eq!(model.reclaim(|_| 1), []);
    model.apply_file(&parse(BASE)).unwrap();
    assert_eq!(slot_of_12(&mut model), Some(slot));

    model.apply_file(&parse(&without)).unwrap();
    let freed: Vec<u32> = model.reclaim(|_| 0).into_iter().map(|(_, slot)| slot).collect();
    assert_eq!(freed, [slot]);
}

#[test]
fn a_file_beyond_the_limits_changes_nothing() {
    let mut model = model(&parse(BASE));
    let before = model.snapshot();
    let many: Vec<String> = (0..5)
        .map(|n| format!("{{ address: 10.0.0.{} }}", 20 + n))
        .collect();
    let text = BASE.replace("[{ address: 10.0.0.13 }]", &format!("[{}]", many.join(", ")));
    // The reader knows the limits too; the model has to stand on its own.
    let mut config = parse(&text.replace("servers: 6", "servers: 60"));
    config.node.limits.servers = 6;
    assert_eq!(model.apply_file(&config), Err(ModelError::Servers));
    let after = model.snapshot();
    for slot in 0..2 {
        assert!(Arc::ptr_eq(
            before.service(slot).unwrap(),
            after.service(slot).unwrap()
        ));
    }
}

#[test]
fn routes_and_settings_are_told_apart_from_services() {
    let mut model = model(&parse(BASE));
    let before = model.snapshot();
    let changes = model
        .apply_file(&parse(&format!("{BASE}timeouts: {{ udp: 60 }}\n")))
        .unwrap();
    assert_eq!(
        changes,
        Changes {
            network_changed: true,
            ..Changes::default()
        }
    );
    let after = model.snapshot();
    assert_eq!(after.settings.timeouts.udp, 6000);
    assert!(Arc::ptr_eq(&before.routes, &after.routes));
    let via_2 = BASE.replace("via: 203.0.113.1 ", "via: 203.0.113.3 ");
    model.apply_file(&parse(&via_2)).unwrap();
    assert!(!Arc::ptr_eq(&before.routes, &model.snapshot().routes));
}

#[test]
fn commands_and_the_file_are_operations_on_the_same_table() {
    let mut model = model(&parse(BASE));
    let mut run = |line: &str| {
        let command = ipvsadm::parse_line(line).unwrap();
        model.apply_command(&command).map_err(|error| error.to_string())
    };
    run("-A -t 203.0.113.101:443 -s rr --local-addresses dip").unwrap();
    run("-a -t 203.0.113.101:443 -r 10.0.0.11:8443 --fullnat -w 3").unwrap();
    run("-e -t 203.0.113.100:80 -r 10.0.0.11:8080 --fullnat -w 9").unwrap();
    assert_eq!(
        run("-A -t 203.0.113.101:443 -s rr").unwrap_err(),
        "Service already exists"
    );
    assert_eq!(run("-D -t 203.0.113.109:443").unwrap_err(), "No such service");
    assert_eq!(
        run("-a -t 203.0.113.101:443 -r 10.0.0.11:8443 --fullnat").unwrap_err(),
        "Destination already exists"
    );
    assert_eq!(
        run("-A -t 203.0.113.102:443 -s nosuch").unwrap_err(),
        "Scheduler or persistence engine not found"
    );
    run("-A -t 203.0.113.102:443 -s mh -b mh-port").unwrap();
    run("-a -t 203.0.113.102:443 -r 10.0.0.12:443 -g -w 5").unwrap();
    run("-e -t 203.0.113.102:443 -r 10.0.0.12:443 -g -w 0").unwrap();
    run("-E -t 203.0.113.102:443 -s mh -b mh-port -p 60").unwrap();
    assert!(
        run("-A -t 203.0.113.103:443 -s rr --local-addresses x")
            .unwrap_err()
            .contains("there are: dip")
    );
    // A local address cannot be a VIP: its ports belong to FULLNAT.
    assert!(run("-A -t 10.0.0.200:443 -s rr").is_err());
    run("--set 100 20 30").unwrap();

    let snapshot = model.snapshot();
    assert_eq!(snapshot.settings.timeouts.udp, 3000);
    let web = snapshot.find(&key(80, Protocol::Tcp)).unwrap();
    assert!(web.servers.iter().any(|server| server.weight == 9));
    let hashed = model
        .services()
        .find(|entry| entry.service.scheduler.name() == "mh");
    let hashed = &hashed.unwrap().service;
    assert_eq!(
        hashed.scheduler_flags.names(hashed.scheduler).collect::<Vec<_>>(),
        ["mh-port"]
    );
    // SCH-01: a quiesced server keeps its places in the table.
    assert_eq!((hashed.servers[0].weight, hashed.servers[0].table_weight), (0, 5));
    // The file is the truth: a reload takes away what it does not know.
    let changes = model.apply_file(&parse(BASE)).unwrap();
    assert_eq!((changes.services_removed, changes.servers_changed), (2, 1));
    assert!(changes.network_changed);
}

/// A server's configured weight after each of these; there is no other weight, so none can come back.
fn weight_of_11(model: &mut Model) -> u32 {
    let snapshot = model.snapshot();
    let web = snapshot.find(&key(80, Protocol::Tcp)).unwrap();
    let server = web
        .servers
        .iter()
        .find(|server| server.port == 8080 && server.address.to_string() == "10.0.0.11");
    server.unwrap().weight
}

/// RLD-02: whoever quiesced a server by hand, and whatever its weight was then, a reload gives it the file's weight;
/// and one that the file quiesces stays so.
#[test]
fn rld_02_a_quiesced_server_gets_the_weight_of_the_new_file() {
    let file = |weight: u32| parse(&BASE.replace("weight: 2", &format!("weight: {weight}")));
    let mut model = model(&file(11));
    let quiesce = ipvsadm::parse_line("-e -t 203.0.113.100:80 -r 10.0.0.11:8080 --fullnat -w 0").unwrap();
    model.apply_command(&quiesce).unwrap();
    assert_eq!(weight_of_11(&mut model), 0);
    model.apply_file(&file(9)).unwrap();
    assert_eq!(weight_of_11(&mut model), 9);
    // Neither does an unchanged file leave it at what was set by hand.
    model.apply_command(&quiesce).unwrap();
    assert_eq!(model.apply_file(&file(9)).unwrap().servers_changed, 1);
    assert_eq!(weight_of_11(&mut model), 9);
    for _ in 0..2 {
        model.apply_file(&file(0)).unwrap();
        assert_eq!(weight_of_11(&mut model), 0);
    }
}

/// RLD-05: a listener that is replaced goes with its servers, the new one has them on its own port, and the other one
/// is untouched.
#[test]
fn rld_05_a_listener_is_replaced_beside_another() {
    let two = |port: u16| {
        let listen = format!("listen: [\"203.0.113.100:80/tcp\", \"203.0.113.100:{port}/tcp\"]");
        parse(
            &BASE
                .replace("listen: \"203.0.113.100:80/tcp\"", &listen)
                .replace("{ address: 10.0.0.12, port: 8080 }", "{ address: 10.0.0.12 }")
                .replace("servers: 6", "servers: 10"),
        )
    };
    let mut model = model(&two(443));
    let before = model.snapshot();
    let changes = model.apply_file(&two(2333)).unwrap();
    assert_eq!((changes.services_added, changes.services_removed), (1, 1));
    assert_eq!((changes.servers_added, changes.servers_removed), (2, 2));
    let after = model.snapshot();
    let (kept, gone) = (key(80, Protocol::Tcp), key(443, Protocol::Tcp));
    assert!(Arc::ptr_eq(
        before.find(&kept).unwrap(),
        after.find(&kept).unwrap()
    ));
    assert!(after.find(&gone).is_none());
    let added = after.find(&key(2333, Protocol::Tcp)).unwrap();
    let ports: Vec<u16> = added.servers.iter().map(|server| server.port).collect();
    assert_eq!(ports, [2333, 8080]);
}

/// RLD-08: what was taken away behind the file's back is there again after a reload of the very same file.
#[test]
fn rld_08_a_reload_restores_what_a_command_has_removed() {
    let config = parse(BASE);
    let mut model = model(&config);
    for line in [
        "-d -t 203.0.113.100:80 -r 10.0.0.12:8080",
        "-D -u 203.0.113.100:53",
    ] {
        model.apply_command(&ipvsadm::parse_line(line).unwrap()).unwrap();
    }
    let changes = model.apply_file(&config).unwrap();
    assert_eq!((changes.services_added, changes.servers_added), (1, 2));
    assert_eq!(model.apply_file(&config).unwrap(), Changes::default());
    let snapshot = model.snapshot();
    assert_eq!(snapshot.find(&key(80, Protocol::Tcp)).unwrap().servers.len(), 2);
    assert!(snapshot.find(&key(53, Protocol::Udp)).is_some());
}

/// SCALE-04: an edit of one server among 4,000 services, by a command or by a file, builds that one service anew; all
/// others, and what is derived from addresses and routes, are the very same objects.
#[test]
fn scale_04_one_edit_among_4000_services_is_not_a_rebuild() {
    const SERVICES: u16 = 4000;
    let file = |edited: u16, weight: u32| {
        let mut text = String::from(
            "node: { limits: { services: 5000, servers: 5000 } }\n\
             ports: [{ name: lan, device: net_null0, addresses: [203.0.113.2/24, 10.0.0.1/8] }]\n\
             pools:\n  - { name: web, servers: [{ address: 10.0.0.11 }] }\n",
        );
        text += &format!("  - {{ name: other, servers: [{{ address: 10.0.0.11, weight: {weight} }}] }}\n");
        text += "services:\n";
        for port in 1..=SERVICES {
            let pool = if port == edited { "other" } else { "web" };
            text += &format!(
                "  - {{ name: s{port}, listen: \"203.0.113.100:{port}/tcp\", pool: {pool}, mode: nat, scheduler: mh }}\n"
            );
        }
        parse(&text)
    };
    let mut model = model(&file(1, 1));
    let mut before = model.snapshot();
    let mut changed = |model: &mut Model| -> Vec<u16> {
        let after = model.snapshot();
        assert!(Arc::ptr_eq(&before.addresses, &after.addresses));
        assert!(Arc::ptr_eq(&before.routes, &after.routes));
        let different = (1..=SERVICES).filter(|port| {
            let key = key(*port, Protocol::Tcp);
            !Arc::ptr_eq(before.find(&key).unwrap(), after.find(&key).unwrap())
        });
        let different = different.collect();
        before = after;
        different
    };
    for port in [1, 2000, SERVICES] {
        let line = format!("-e -t 203.0.113.100:{port} -r 10.0.0.11:{port} -m -w 7");
        model.apply_command(&ipvsadm::parse_line(&line).unwrap()).unwrap();
        assert_eq!(changed(&mut model), [port]);
    }
    // The file knows nothing of these edits, and takes them back; then one of its own.
    model.apply_file(&file(1, 1)).unwrap();
    assert_eq!(changed(&mut model), [1, 2000, SERVICES]);
    let changes = model.apply_file(&file(1, 5)).unwrap();
    assert_eq!((changes.servers_changed, changes.services_changed), (1, 0));
    assert_eq!(changed(&mut model), [1]);
}
