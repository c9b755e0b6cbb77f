//! Templates against a model of what each client may expect.

use super::cluster::*;
use super::frames::*;
use super::plan::*;
use crate::drops::DropReason;
use crate::flow::Mode;
use crate::service::{Persistence, Server};
use crate::time::seconds;
use proptest::prelude::*;
use std::collections::HashMap;

const SERVERS: u32 = 3;
/// Of the service, in seconds.
const TIMEOUT: u32 = 100;
/// That a connection in SYN_RECV lives, in seconds.
const SYN_RECV: u32 = 60;

#[derive(Clone, Debug)]
enum Step {
    Connect(u8),
    Remove(u32),
    Restore(u32),
    Weigh(u32, u32),
    Pass(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let server = || 1..=SERVERS;
    prop_oneof![
        6 => (1..5u8).prop_map(Step::Connect),
        1 => server().prop_map(Step::Remove),
        2 => server().prop_map(Step::Restore),
        1 => (server(), 0..2u32).prop_map(|(server, weight)| Step::Weigh(server, weight)),
        3 => (1..90u32).prop_map(Step::Pass),
    ]
}

/// What a client got last.
#[derive(Clone, Copy)]
struct Memory {
    server: u32,
    /// Seconds at which it was used last.
    used: u32,
}

struct Model {
    clients: HashMap<u8, Memory>,
    /// The weights of the servers that there are.
    servers: HashMap<u32, u32>,
    leave: bool,
    now: u32,
}

impl Model {
    fn usable(&self, server: u32) -> bool {
        let weight = self.servers.get(&server);
        weight.is_some_and(|weight| !self.leave || *weight > 0)
    }

    /// The server that a client must get, if its template is there for certain.
    fn must_get(&self, client: u8) -> Option<u32> {
        let memory = self.clients.get(&client)?;
        let lives = self.now < memory.used + TIMEOUT.max(SYN_RECV);
        (lives && self.usable(memory.server)).then_some(memory.server)
    }

    /// Whether a template may be left: its last connection has held it for 60 seconds more at the most.
    fn may_get(&self, client: u8, server: u32) -> bool {
        let memory = self.clients.get(&client);
        memory
            .is_some_and(|memory| memory.server == server && self.now <= memory.used + TIMEOUT + 2 * SYN_RECV)
    }
}

fn all_servers() -> Vec<Server> {
    (1..=SERVERS).map(|number| server(number, Mode::Nat)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn clients_get_the_server_that_they_may_expect(
        leave in any::<bool>(),
        workers in 1u8..5,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut plan = Plan::web(Mode::Nat, SERVERS);
        plan.settings.expire_quiescent_template = leave;
        plan.edit(0, |service| service.persistence = Some(Persistence::new(seconds(TIMEOUT))));
        let mut gateway = Cluster::new(plan, workers);
        let servers = (1..=SERVERS).map(|server| (server, 1)).collect();
        let mut model = Model { clients: HashMap::new(), servers, leave, now: 0 };
        let mut port = 10_000;
        for step in steps {
            match step {
                Step::Connect(number) => {
                    port += 1;
                    let before = gateway.records();
                    let refusals = gateway.drops(DropReason::NoServer);
                    let sent = gateway.inbound(&Sent::tcp(client(number, port), WEB, SYN));
                    if gateway.drops(DropReason::NoServer) > refusals {
                        prop_assert!(model.must_get(number).is_none());
                        prop_assert!(model.servers.values().all(|weight| *weight == 0));
                        prop_assert_eq!(gateway.records(), before);
                        // What it had could not be used: so it is not asked again.
                        model.clients.remove(&number);
                        continue;
                    }
                    let got = (1..=SERVERS).find(|n| sent[0].to_mac == server_mac(*n)).unwrap();
                    let must = model.must_get(number);
                    prop_assert!(must.is_none_or(|server| server == got), "{must:?}, got {got}");
                    let fresh = model.servers.get(&got).is_some_and(|weight| *weight > 0);
                    prop_assert!(fresh || model.may_get(number, got) && model.usable(got));
                    model.clients.insert(number, Memory { server: got, used: model.now });
                }
                Step::Remove(number) => {
                    model.servers.remove(&number);
                    gateway.change(|plan| {
                        plan.edit(0, |service| service.servers.retain(|server| server.slot != number));
                    });
                }
                Step::Restore(number) => {
                    if model.servers.insert(number, 1).is_none() {
                        let back = all_servers().remove(number as usize - 1);
                        gateway.change(|plan| plan.edit(0, |service| service.servers.insert(0, back)));
                    } else {
                        weigh(&mut gateway, number, 1);
                    }
                }
                Step::Weigh(number, weight) => {
                    if let Some(known) = model.servers.get_mut(&number) {
                        *known = weight;
                        weigh(&mut gateway, number, weight);
                    }
                }
                Step::Pass(time) => {
                    model.now += time;
                    gateway.pass(seconds(time));
                }
            }
            gateway.check();
        }
        gateway.pass(seconds(TIMEOUT + 3 * SYN_RECV));
        prop_assert_eq!(gateway.records(), 0);
    }
}

fn weigh(gateway: &mut Cluster, number: u32, weight: u32) {
    gateway.change(|plan| {
        plan.edit(0, |service| {
            let server = service.servers.iter_mut().find(|server| server.slot == number);
            server.unwrap().weight = weight;
        });
    });
}
