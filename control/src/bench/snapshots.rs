//! Large snapshots: how long control takes to compile and publish one, and how long the worker's turns are while it
//! takes the snapshot into use, with traffic going on.

use super::Options;
use super::flows::{self, Draws};
use super::io::{Buffers, Clients, FIRST_SERVICE, Generator, Servers};
use super::measure::{Cost, cost_of, cpu_time};
use super::report::print;
use super::request::Shape;
use super::setup::{self, ROUTER, SERVICE_PORT, SIZES, VIP};
use super::turns::{Spread, Turns};
use crate::config::Config;
use crate::ipvsadm;
use crate::model::Model;
use anyhow::{Context, Result, bail};
use dataplane::flow::TagIndex;
use dataplane::time::Tick;
use dataplane::worker::{Mailbox, Order, Sizes, Worker};
use dpdk::Mempool;
use std::fmt::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Servers of each of the many services, and of the one that the traffic is for.
const SERVERS: u32 = 10;
/// Servers of the one wide service.
const WIDE: u32 = 1000;
/// Its port.
const WIDE_PORT: u16 = 54;
/// Flows that are known.
const KNOWN: u32 = 1024;
/// Turns that bring the worker's memory back into the caches.
const WARM: u32 = 256;
/// Room for the connections of a round.
const CONNECTIONS: u32 = 1 << 18;
/// Turns within which a snapshot has been adopted.
const PATIENCE: u32 = 100_000;
const NS_IN_MS: f64 = 1e6;

/// Measures snapshots of that many services.
///
/// # Errors
/// Too little memory, packets have been dropped, or a snapshot is not taken into use.
pub(super) fn run(options: &Options, pool: &Mempool) -> Result<()> {
    if !options.json {
        let services = options.services;
        println!(
            "\nsnapshots of {services} services, {SERVERS} servers each, wlc\n{}",
            Row::heading()
        );
    }
    for row in measure(options.services, options.rounds, pool)? {
        print(options.json, &row)?;
    }
    Ok(())
}

/// What changes from one snapshot to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    /// All services come.
    Added,
    /// Nothing: traffic alone.
    None,
    /// The weight of one server.
    OneWeight,
    /// The weights of all servers.
    AllWeights,
    /// The weight of one server of the service with a thousand.
    OneWeightOfWide,
    /// All services go.
    Removed,
}

impl Change {
    /// In their order in a round.
    const ALL: [Change; 6] = [
        Change::Added,
        Change::None,
        Change::OneWeight,
        Change::AllWeights,
        Change::OneWeightOfWide,
        Change::Removed,
    ];

    fn text(self) -> &'static str {
        match self {
            Change::Added => "all services added",
            Change::None => "no snapshot",
            Change::OneWeight => "one weight",
            Change::AllWeights => "all weights",
            Change::OneWeightOfWide => "one weight of 1,000",
            Change::Removed => "all services removed",
        }
    }
}

#[derive(Clone, Debug, serde::Serialize)]
struct Row {
    change: Change,
    services: u32,
    /// ms to compile and publish; none where there is no snapshot.
    compile: Option<Cost>,
    /// Microseconds; until the snapshot has been adopted.
    turn: Spread,
}

impl Row {
    fn heading() -> String {
        format!("{:<20}  compile, ms   median{}", "what changes", Spread::HEADING)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20}", self.change.text())?;
        match self.compile {
            Some(compile) => write!(f, "  {:>11.2}  {:>7.2}", compile.best, compile.median)?,
            None => write!(f, "  {:>11}  {:>7}", "-", "-")?,
        }
        write!(f, "{}", self.turn)
    }
}

fn measure<B: Buffers>(services: u32, rounds: u32, buffers: &B) -> Result<Vec<Row>> {
    let few = setup::parse(&yaml(0, 1))?;
    let [many, other] = [1, 2].map(|weight| setup::parse(&yaml(services, weight)));
    let (many, other) = (many?, other?);
    let mut compiles = Change::ALL.map(|_| Vec::new());
    let mut turns = Change::ALL.map(|_| Turns::default());
    for round in 0..rounds {
        let mut rig = Rig::new(&few, services, buffers)?;
        for (change, (compiles, turns)) in Change::ALL.iter().zip(compiles.iter_mut().zip(&mut turns)) {
            let file =
                |rig: &mut Rig<B>, config| rig.publish(|model| Ok(model.apply_file(config).map(drop)?));
            let one = FIRST_SERVICE + (round * 7919 % services) as u16;
            let compiled = match change {
                Change::None => {
                    // As many turns as there are services: more than any change takes.
                    for _ in 0..services {
                        turns.time(|| rig.turn());
                    }
                    turns.end_round();
                    continue;
                }
                Change::Added => file(&mut rig, &many)?,
                Change::AllWeights => file(&mut rig, &other)?,
                Change::OneWeight => rig.weigh(one, first_server(u32::from(one - FIRST_SERVICE)))?,
                Change::OneWeightOfWide => rig.weigh(WIDE_PORT, wide_server(round))?,
                Change::Removed => {
                    rig.send_known();
                    file(&mut rig, &few)?
                }
            };
            compiles.push(compiled as f64 / NS_IN_MS);
            // The snapshot is in force after the first turn.
            turns.time(|| rig.turn());
            if *change == Change::Added {
                rig.send_mixed(services);
            }
            rig.adopt(turns)?;
            turns.end_round();
            // Freed by control, as ever.
            while rig.mailbox.spent.pop().is_some() {}
        }
        setup::finish(&rig.worker)?;
    }
    let rows = Change::ALL.into_iter().zip(compiles.into_iter().zip(turns));
    Ok(rows
        .map(|(change, (compiles, turns))| Row {
            change,
            services,
            compile: (!compiles.is_empty()).then(|| cost_of(compiles)),
            turn: turns.spread(),
        })
        .collect())
}

/// A model, and a worker that has its snapshots.
struct Rig<B: Buffers> {
    model: Model,
    mailbox: Arc<Mailbox>,
    worker: Worker<Generator<B>, TagIndex>,
    now: Tick,
    known: Arc<[flows::Flow]>,
}

impl<B: Buffers> Rig<B> {
    /// A gateway of that configuration, with room for so many services more, whose known flows have begun.
    fn new(config: &Config, services: u32, buffers: &B) -> Result<Rig<B>> {
        let sizes = Sizes {
            connections: CONNECTIONS,
            services: services + 8,
            servers: (services + 1) * SERVERS + WIDE + 8,
            ..SIZES
        };
        let mut model = setup::model(sizes.services, sizes.servers);
        model.apply_file(config)?;
        let known = flows::each(KNOWN, Shape::default());
        let io = Generator::new(buffers, Clients::Order(known.clone(), 0), Servers::Answer)?;
        let index = TagIndex::new(2 * CONNECTIONS as usize, false).context("no memory for the index")?;
        let mailbox = Arc::new(Mailbox::default());
        let snapshot = model.snapshot();
        let worker = setup::worker_of(snapshot, sizes, index, io, Arc::clone(&mailbox))?;
        let mut rig = Rig {
            model,
            mailbox,
            worker,
            now: Tick(1),
            known,
        };
        rig.send_known();
        Ok(rig)
    }

    fn turn(&mut self) -> usize {
        self.now = self.now.after(1);
        self.worker.turn(self.now)
    }

    /// Known flows alone, until nothing else is under way.
    fn send_known(&mut self) {
        let known = Clients::Order(self.known.clone(), 0);
        self.worker.io_mut().set_clients(known);
        for _ in 0..KNOWN / 8 {
            self.turn();
        }
    }

    /// Known flows, and new ones to any of the services.
    fn send_mixed(&mut self, services: u32) {
        self.worker.io_mut().set_clients(Clients::Mixed {
            order: self.known.clone(),
            at: 0,
            next: u64::from(KNOWN),
            services: services as usize,
            draws: Draws::new(),
        });
    }

    /// Changes the model, compiles it and publishes the snapshot: ns of CPU time.
    fn publish(&mut self, change: impl FnOnce(&mut Model) -> Result<()>) -> Result<u64> {
        let before = cpu_time();
        change(&mut self.model)?;
        let order = Order::Publish(self.model.snapshot());
        let compiled = cpu_time() - before;
        // Control runs on another core in a gateway, and does not take the worker's memory out of its caches.
        for _ in 0..WARM {
            self.turn();
        }
        let before = cpu_time();
        let posted = self.mailbox.orders.push(order);
        let took = compiled + cpu_time() - before;
        posted.ok().context("the mailbox is full")?;
        Ok(took)
    }

    /// Gives the server of that address, of the service on that port, weight 5.
    fn weigh(&mut self, port: u16, server: Ipv4Addr) -> Result<u64> {
        let line = format!("-e -u {VIP}:{port} -r {server}:{port} --fullnat -w 5");
        let command = ipvsadm::parse_line(&line).map_err(|error| anyhow::anyhow!("{}", error.message))?;
        self.publish(|model| Ok(model.apply_command(&command)?))
    }

    /// Goes on until the snapshot has been adopted.
    fn adopt(&mut self, turns: &mut Turns) -> Result<()> {
        let epoch = self.model.epoch();
        for _ in 0..PATIENCE {
            if self.worker.stats().epoch.get() == epoch {
                return Ok(());
            }
            turns.time(|| self.turn());
        }
        bail!("the worker does not take the snapshot into use")
    }
}

/// The first server of the many services, of which each has its own.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);

/// The first server of the service of that number.
fn first_server(service: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST.to_bits() + service * SERVERS)
}

/// A server of the wide service.
fn wide_server(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 63, 0, 0).to_bits() + number % WIDE)
}

/// Two services that stay, and so many more, whose servers have that weight. All servers are behind one router.
fn yaml(services: u32, weight: u32) -> String {
    let mut text = setup::network(
        "  - { to: 10.62.0.0/15, via: 10.0.0.254 }\n  - { to: 10.64.0.0/10, via: 10.0.0.254 }\n",
        "10.0.4.0-10.0.4.3",
    );
    let _ = writeln!(text, "  - {{ address: 10.0.0.254, mac: \"{ROUTER}\" }}\npools:");
    let mut pool = |name: &str, first: Ipv4Addr, servers: u32, weight: u32| {
        let _ = writeln!(text, "  - name: {name}\n    servers:");
        for number in 0..servers {
            let address = Ipv4Addr::from_bits(first.to_bits() + number);
            let _ = writeln!(text, "      - {{ address: {address}, weight: {weight} }}");
        }
    };
    pool("known", Ipv4Addr::new(10, 62, 0, 0), SERVERS, 1);
    pool("wide", wide_server(0), WIDE, 1);
    for number in 0..services {
        pool(&format!("p{number}"), first_server(number), SERVERS, weight);
    }
    text += "services:\n";
    let mut service = |name: &str, port: u16| {
        let _ = writeln!(
            text,
            "  - {{ name: {name}, listen: \"{VIP}:{port}/udp\", pool: {name}, mode: fullnat, scheduler: wlc, local_addresses: dip }}"
        );
    };
    service("known", SERVICE_PORT);
    service("wide", WIDE_PORT);
    for number in 0..services {
        service(&format!("p{number}"), FIRST_SERVICE + number as u16);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::io::tests::Heap;
    use super::*;

    #[test]
    fn every_change_is_measured() {
        let rows = measure(300, 2, &Heap).unwrap();
        let changes: Vec<Change> = rows.iter().map(|row| row.change).collect();
        assert_eq!(changes, Change::ALL);
        for row in rows {
            assert_eq!(row.compile.is_none(), row.change == Change::None);
            let line = row.to_string();
            assert!(
                line.starts_with(row.change.text()) && !line.contains("NaN"),
                "{line}"
            );
        }
    }

    /// Each service has servers of its own, and its number as its port.
    #[test]
    fn the_configuration_is_as_large_as_it_says() {
        let mut model = setup::model(100, 2000);
        model.apply_file(&setup::parse(&yaml(40, 1)).unwrap()).unwrap();
        let many = model
            .services()
            .filter(|entry| entry.service.key.port() >= FIRST_SERVICE);
        let servers: std::collections::HashSet<_> = many
            .flat_map(|entry| entry.service.servers.iter().map(|server| server.address))
            .collect();
        assert_eq!((model.services().count(), servers.len()), (42, 400));
    }
}
