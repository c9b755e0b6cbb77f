//! What an operator does while the gateway runs: marks, counters at zero, rates, what drains, queues.

use crate::command_line::show;
use crate::support::{BASE, Fake, VIP, datagram};
use std::process::Command;
use std::time::Duration;
use tidegate::view::{Connection, Draining, Overload, Server, Service, ServiceRates, Zeroed};

fn tidegate(fake: &Fake, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .arg("--socket")
        .arg(fake.socket())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn post<T: serde::de::DeserializeOwned>(fake: &Fake, path: &str) -> T {
    let (status, body) = fake.ask("POST", path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn opened(fake: &Fake) -> Vec<u64> {
    let servers: Vec<Server> = fake.get("/v1/servers?service=web");
    servers.iter().map(|server| server.totals.connections).collect()
}

#[test]
fn a_server_that_is_marked_gets_no_new_connections() {
    let fake = Fake::new(BASE);
    let (code, said, wrong) = tidegate(&fake, &["overload", "web", "10.0.0.12:8080", "on"]);
    assert_eq!((code, wrong.as_str()), (0, ""));
    assert_eq!(
        said,
        "epoch 2: 10.0.0.12:8080 of web (203.0.113.100:80/tcp) is overloaded: it gets no new connections\n"
    );
    (1..=6).for_each(|port| fake.open(port));
    assert_eq!(opened(&fake), [0, 6]);
    let servers: Vec<Server> = fake.get("/v1/servers?service=web");
    assert_eq!(
        (servers[0].overloaded, servers[0].warning.as_deref()),
        (true, Some("marked overloaded: gets no new connections"))
    );
    let row = "tidegate_server_overloaded{service=\"web\",vip=\"203.0.113.100\",port=\"80\",protocol=\"tcp\",\
               server=\"10.0.0.12\",server_port=\"8080\"} 1";
    assert!(fake.metrics().contains(row));
    assert!(show(&fake, &["servers"]).contains("marked overloaded"));

    let done: Overload = post(
        &fake,
        "/v1/overload?service=web&server=10.0.0.12&overloaded=false",
    );
    assert_eq!((done.epoch, done.overloaded, done.servers.len()), (3, false, 1));
    (7..=12).for_each(|port| fake.open(port));
    assert_eq!(opened(&fake), [4, 8]);

    // What is not in the file does not outlive a reload.
    post::<Overload>(&fake, "/v1/overload?service=web&server=10.0.0.12&overloaded=true");
    fake.write(BASE);
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    assert!(!fake.get::<Vec<Server>>("/v1/servers?service=web")[0].overloaded);
}

#[test]
fn a_mark_that_cannot_be_set_says_why() {
    let fake = Fake::new(BASE);
    for (path, status, words) in [
        (
            "service=nosuch&server=10.0.0.12&overloaded=true",
            404,
            "no service is named nosuch",
        ),
        (
            "service=web&server=10.0.0.99&overloaded=true",
            404,
            "web has no such server; see show servers",
        ),
        (
            "service=web&server=10.0.0.12:1&overloaded=true",
            404,
            "no such server",
        ),
        ("service=web&server=me&overloaded=true", 400, "192.0.2.1:80"),
        ("service=web&server=10.0.0.12", 400, "overloaded"),
        (
            "service=web&server=10.0.0.12&overloaded=perhaps",
            400,
            "overloaded",
        ),
    ] {
        let (got, body) = fake.ask("POST", &format!("/v1/overload?{path}"));
        assert!(got == status && body.contains(words), "{path}: {got} {body}");
    }
    let (code, _, wrong) = tidegate(&fake, &["overload", "web", "10.0.0.99", "on"]);
    assert_eq!(
        (code, wrong.as_str()),
        (
            1,
            "tidegate: the service web has no such server; see show servers\n"
        )
    );
    assert_eq!(fake.ask("GET", "/v1/overload").0, 405);
    assert_eq!(fake.ask("GET", "/v1/zero").0, 405);
}

fn totals(fake: &Fake) -> Vec<(String, u64, u64)> {
    let services: Vec<Service> = fake.get("/v1/services");
    let told = services.into_iter().map(|service| {
        let totals = service.totals;
        (service.name, totals.connections, totals.inbound_bytes)
    });
    told.collect()
}

fn counted(name: &str, connections: u64, bytes: u64) -> (String, u64, u64) {
    (name.to_owned(), connections, bytes)
}

/// STAT-04: `-Z` of one service leaves the others; metrics never go back.
#[test]
fn stat_04_one_service_counts_from_zero_and_the_others_go_on() {
    let fake = Fake::new(BASE);
    (1..=3).for_each(|port| fake.open(port));
    fake.arrive(datagram(9, VIP));
    let all = [
        counted("web", 3, 120),
        counted("dgram", 1, 32),
        counted("also", 0, 0),
    ];
    assert_eq!(totals(&fake), all);
    let series = |fake: &Fake, name: &str| {
        let begin = format!("tidegate_service_connections_opened_total{{service=\"{name}\"");
        let metrics = fake.metrics();
        let line = metrics
            .lines()
            .find(|line| line.starts_with(&begin))
            .unwrap()
            .to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let (code, said, _) = tidegate(&fake, &["zero", "web"]);
    assert_eq!((code, said.as_str()), (0, "1 service count from zero\n"));
    assert_eq!(
        totals(&fake),
        [counted("web", 0, 0), all[1].clone(), all[2].clone()]
    );
    let web: Vec<Service> = fake.get("/v1/services");
    assert_eq!(
        web[0].totals.active + web[0].totals.inactive,
        3,
        "connections are there"
    );
    assert_eq!((opened(&fake), series(&fake, "web")), (vec![0, 0], 3));
    fake.open(4);
    assert_eq!((totals(&fake)[0].1, series(&fake, "web")), (1, 4));

    let done: Zeroed = post(&fake, "/v1/zero");
    assert_eq!(done.services, 3);
    assert!(
        totals(&fake)
            .iter()
            .all(|(_, connections, bytes)| (*connections, *bytes) == (0, 0))
    );
    assert_eq!((series(&fake, "web"), series(&fake, "dgram")), (4, 1));
    let (status, body) = fake.ask("POST", "/v1/zero?service=nosuch");
    assert!(status == 404 && body.contains("nosuch"), "{body}");
}

/// A server that goes, and comes back, shows nothing that was counted before the zero, and loses nothing after it.
#[test]
fn a_zero_holds_while_servers_come_and_go() {
    let fake = Fake::new(BASE);
    (1..=6).for_each(|port| fake.open(port));
    let without = BASE.replace(", { address: 10.0.0.12, port: 8080, weight: 2 }", "");
    let reload = |text: &str| {
        fake.write(text);
        assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    };
    reload(&without);
    assert_eq!(
        totals(&fake)[0],
        counted("web", 6, 240),
        "also of the server that is gone"
    );
    post::<Zeroed>(&fake, "/v1/zero?service=web");
    assert_eq!(totals(&fake)[0], counted("web", 0, 0));
    reload(BASE);
    assert_eq!((totals(&fake)[0].1, opened(&fake)), (0, vec![0, 0]));
    (7..=12).for_each(|port| fake.open(port));
    assert_eq!(totals(&fake)[0], counted("web", 6, 240));
    reload(&without);
    assert_eq!(totals(&fake)[0], counted("web", 6, 240));
    // Its connections end, its slot is another one's, and its service keeps what it has counted since the zero.
    fake.pass(200);
    reload(&without);
    reload(&without.replace(
        "10.0.0.11, port: 8080 }]",
        "10.0.0.11, port: 8080 }, { address: 10.0.0.13, port: 8080 }]",
    ));
    assert_eq!(totals(&fake)[0], counted("web", 6, 240));
}

/// The slot of the first server of the first service.
fn first_slot(fake: &Fake) -> u32 {
    let state = fake.gateway.state();
    let first = state.model.services().next().unwrap();
    first.service.servers[0].slot
}

/// STAT-01: counters are 64 bits wide up to the last number that is shown.
#[test]
fn stat_01_more_than_four_gibibytes_are_shown_whole() {
    let fake = Fake::new(BASE);
    let stats = &fake.gateway.workers()[0].stats;
    let slot = first_slot(&fake);
    let large = 5 << 32 | 7;
    for counter in [
        &stats.servers[slot as usize].inbound_packets,
        &stats.servers[slot as usize].inbound_bytes,
    ] {
        counter.add(large);
    }
    let web = &fake.get::<Vec<Service>>("/v1/services")[0];
    assert_eq!(
        (web.totals.inbound_packets, web.totals.inbound_bytes),
        (large, large)
    );
    assert!(show(&fake, &["services"]).contains(&large.to_string()));
}

/// STAT-04: a steady rate is told within a tenth, also right after a zero, and never as more than it is.
#[test]
fn stat_04_rates_know_nothing_of_a_zero() {
    let fake = Fake::new(BASE);
    let slot = first_slot(&fake);
    let stats = &fake.gateway.workers()[0].stats.servers[slot as usize];
    // 1000 packets of 100 bytes in a second, and 10 connections; a look every tenth of a second.
    let mut now = Duration::ZERO;
    let mut run = |seconds: u64, packets: u64| {
        for _ in 0..seconds * 10 {
            now += Duration::from_millis(100);
            stats.inbound_packets.add(packets / 10);
            stats.inbound_bytes.add(packets * 10);
            stats.connections.add(packets / 1000);
            fake.gateway.estimate(now);
            let web = &fake.get::<Vec<ServiceRates>>("/v1/rates?service=web")[0];
            assert!(web.rates.inpps <= 1100 && web.rates.inbps <= 110_000, "{web:?}");
        }
    };
    run(30, 1000);
    let web = || fake.get::<Vec<ServiceRates>>("/v1/rates?service=web").remove(0);
    let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 10 <= wanted;
    let steady = web();
    assert!(
        near(steady.rates.inpps, 1000) && near(steady.rates.inbps, 100_000),
        "{steady:?}"
    );
    assert!(near(steady.rates.cps, 10), "{steady:?}");
    assert_eq!((steady.rates.outpps, steady.rates.outbps), (0, 0));
    assert_eq!(
        (steady.servers[0].rates, steady.servers[1].rates.inpps),
        (steady.rates, 0)
    );
    post::<Zeroed>(&fake, "/v1/zero");
    assert_eq!(web(), steady);
    run(10, 1000);
    assert!(near(web().rates.inpps, 1000), "{:?}", web());
    let table = show(&fake, &["rates", "--service", "web"]);
    assert!(table.starts_with("NAME") && table.lines().count() == 4, "{table}");
    // Traffic ends: half of it is left after some five seconds.
    run(5, 0);
    assert!((300..600).contains(&web().rates.inpps), "{:?}", web());
    run(60, 0);
    assert_eq!(web().rates.inpps, 0);
    assert_eq!(fake.get::<Vec<ServiceRates>>("/v1/rates").len(), 3);
    let (status, body) = fake.ask("GET", "/v1/rates?service=nosuch");
    assert!(status == 404 && body.contains("nosuch"), "{body}");
}

#[test]
fn what_drains_is_told_with_its_connections_and_its_end() {
    let text = BASE.replace(
        "scheduler: wrr, local_addresses: dip }",
        "scheduler: wrr, local_addresses: dip, on_remove: drain, drain_deadline: 50 }",
    );
    let fake = Fake::new(&text);
    (1..=6).for_each(|port| fake.open(port));
    assert_eq!(fake.get::<Vec<Draining>>("/v1/draining"), []);
    assert_eq!(show(&fake, &["draining"]).lines().count(), 1);
    let without = text.replace(", { address: 10.0.0.12, port: 8080, weight: 2 }", "");
    fake.write(&without.replace("10.0.0.200-201", "10.0.0.201"));
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);

    let all: Vec<Draining> = fake.get("/v1/draining");
    let server = all.iter().find(|one| one.kind == "server").unwrap();
    assert_eq!(
        (
            server.address.as_str(),
            server.of.as_str(),
            server.listen.as_deref()
        ),
        ("10.0.0.12:8080", "web", Some("203.0.113.100:80/tcp"))
    );
    assert_eq!(
        (server.on_remove.as_deref(), server.connections),
        (Some("drain"), 4)
    );
    let left = server.deadline.unwrap();
    assert!(left > 40 && left <= 50 && server.since < 10, "{server:?}");
    let local = all.iter().find(|one| one.kind == "local_address").unwrap();
    assert_eq!(
        (
            local.address.as_str(),
            local.of.as_str(),
            local.deadline,
            &local.on_remove
        ),
        ("10.0.0.200", "dip", None, &None)
    );
    assert!(local.connections > 0 && local.since < 10, "{local:?}");
    let table = show(&fake, &["draining"]);
    assert!(
        table.contains("10.0.0.12:8080") && table.contains("local address"),
        "{table}"
    );
    let metrics = fake.metrics();
    let row = "tidegate_service_departing_connections{service=\"web\",vip=\"203.0.113.100\",port=\"80\",\
               protocol=\"tcp\"} 4";
    assert!(metrics.contains(row), "{metrics}");

    // A server that comes back drains no longer; a second time it begins anew.
    fake.write(&text);
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    assert_eq!(fake.get::<Vec<Draining>>("/v1/draining"), []);
    fake.write(&without);
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    assert_eq!(fake.get::<Vec<Draining>>("/v1/draining").len(), 1);
    // The workers' clock reaches the deadline: what is left has been ended.
    fake.pass(51);
    fake.pass(1);
    assert_eq!(fake.get::<Vec<Draining>>("/v1/draining"), []);
}

#[test]
fn queues_are_services_that_answer_to_the_name_of_theirs() {
    let text = BASE.replace(
        "services:\n",
        "services:\n  - name: shop\n    listen: 203.0.113.102/tcp\n    mode: fullnat\n    scheduler: mq\n    \
         local_addresses: dip\n    queues: [{ port: 80, pool: web, scheduler: rr }, { port: 443, pool: one }]\n",
    );
    let fake = Fake::new(&text);
    fake.arrive(crate::support::syn(1, [203, 0, 113, 102].into()));
    let services: Vec<Service> = fake.get("/v1/services");
    let queues = services.iter().filter(|service| service.queue_of.is_some());
    let told: Vec<_> = queues
        .map(|service| {
            (
                service.name.as_str(),
                service.queue_of.as_deref().unwrap(),
                service.listen.as_str(),
                service.scheduler.as_str(),
                service.totals.connections,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("shop:80", "shop", "203.0.113.102:80/tcp", "rr", 1),
            ("shop:443", "shop", "203.0.113.102:443/tcp", "wlc", 0),
        ]
    );
    assert_eq!(fake.get::<Vec<Server>>("/v1/servers?service=shop").len(), 3);
    assert_eq!(fake.get::<Vec<Server>>("/v1/servers?service=shop:80").len(), 2);
    let (status, lines) = fake.ask("GET", "/v1/connections?service=shop");
    assert_eq!((status, lines.lines().count()), (200, 1), "{lines}");
    let connection: Connection = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(connection.virtual_address.to_string(), "203.0.113.102:80");
    assert!(show(&fake, &["services"]).contains("queue-of=shop"));
    assert_eq!(post::<Zeroed>(&fake, "/v1/zero?service=shop").services, 2);
}
