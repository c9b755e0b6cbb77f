//! The gateway that the golden tests drive: the `replay` library, with its in-memory ports and virtual clock.

use super::gateway::{Connection, Counts, Gateway, Injected, Output, Port, Sent};
use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;
use tidegate::config::{self, Config, Prefix};
use tidegate::replay::{Outcome, Replay, Spread};

/// Workers look at each other's counts with each tick of the clock.
const TICK: Duration = Duration::from_millis(10);

/// Starts a gateway of so many workers from a configuration in YAML, with an empty table.
///
/// # Errors
/// Why it does not start.
pub(super) fn start(configuration: &str, workers: u8, spread: Spread) -> Result<Box<dyn Gateway>, String> {
    let config = config::parse("golden.yaml", configuration).map_err(|errors| errors.to_string())?;
    let replay = Replay::with_workers(&config, workers, spread);
    let mut replay = replay.map_err(|error| error.to_string())?;
    // The gratuitous ARP of the start is no answer to anything.
    replay.advance_to(5.0);
    Ok(Box::new(Engine {
        replay,
        config,
        workers,
        ahead: Duration::ZERO,
    }))
}

/// The gateway, and the configuration that it has been started with, routes apart.
struct Engine {
    replay: Replay,
    config: Config,
    workers: u8,
    /// How far its clock is ahead of the recording's.
    ahead: Duration,
}

/// Whether a frame asks or tells who has an address, by ARP or neighbour discovery, or which groups it is in: the
/// recorder did not write that down.
fn is_discovery(frame: &[u8]) -> bool {
    const ARP: &[u8] = &[0x08, 0x06];
    const IPV6: &[u8] = &[0x86, 0xdd];
    match frame.get(12..14) {
        Some(ARP) => true,
        Some(IPV6) => {
            let kind = frame.get(54).copied().unwrap_or(0);
            frame.get(20) == Some(&58) && matches!(kind, 133..=136 | 143)
        }
        _ => false,
    }
}

impl Gateway for Engine {
    fn command(&mut self, line: &str) -> Output {
        let printed = self.replay.command(line);
        Output {
            stdout: printed.stdout,
            stderr: printed.stderr,
            exit: printed.exit,
        }
    }

    fn sysctl(&mut self, name: &str, value: i64) -> bool {
        let on = value != 0;
        match name {
            "sloppy_tcp" => self.replay.change_settings(|settings| settings.sloppy_tcp = on),
            "secure_tcp" => self
                .replay
                .change_settings(|settings| settings.secure_tcp = value.clamp(0, 3) as u8),
            "sloppy_sctp" => self.replay.change_settings(|settings| settings.sloppy_sctp = on),
            "pmtu_disc" => self.replay.change_settings(|settings| settings.pmtu_disc = on),
            "nat_icmp_send" => self
                .replay
                .change_settings(|settings| settings.nat_icmp_send = on),
            "schedule_icmp" => self
                .replay
                .change_settings(|settings| settings.schedule_icmp = on),
            "conn_reuse_mode" => {
                self.replay
                    .change_settings(|settings| settings.conn_reuse_mode = value.clamp(0, 3) as u8);
            }
            "expire_quiescent_template" => self
                .replay
                .change_settings(|settings| settings.expire_quiescent_template = on),
            "expire_nodest_conn" => self
                .replay
                .change_settings(|settings| settings.expire_nodest_conn = on),
            _ => return false,
        }
        true
    }

    fn unreachable(&mut self, address: IpAddr, on: bool) -> Result<(), String> {
        let host = Prefix::around(address, if address.is_ipv4() { 32 } else { 128 });
        self.config.unreachable.retain(|prefix| *prefix != host);
        self.config.unreachable.extend(on.then_some(host));
        self.replay
            .change_routes(&self.config)
            .map_err(|error| error.to_string())
    }

    fn inject(&mut self, port: Port, frame: &[u8]) -> Injected {
        let mut injected = Injected::default();
        for outcome in self.replay.inject(port as usize, frame) {
            match outcome {
                Outcome::Sent(_, frame) if is_discovery(&frame) => {}
                Outcome::Sent(port, frame) => {
                    let port = if port == 0 { Port::Wan } else { Port::Lan };
                    injected.sent.push(Sent { port, frame });
                }
                Outcome::Dropped(reason) => injected.drops.push(reason.label().to_owned()),
            }
        }
        injected
    }

    fn look_round(&mut self) {
        if self.workers > 1 {
            self.replay.tick();
            self.ahead += TICK;
        }
    }

    fn advance(&mut self, by: Duration) {
        let caught_up = by.min(self.ahead);
        self.ahead -= caught_up;
        let at = self.replay.now() + (by - caught_up).as_secs_f64();
        self.replay.advance_to(at);
    }

    fn connections(&mut self) -> Vec<Connection> {
        let connections = self.replay.connections();
        let mut known = HashSet::new();
        for connection in connections.iter().filter(|connection| !connection.template) {
            let ends = (connection.protocol, connection.client, connection.virtual_address);
            assert!(known.insert(ends), "two owners: {connection:?}");
        }
        let row = |connection: dataplane::flow::Connection| Connection {
            protocol: connection.protocol_name().to_owned(),
            client: connection.client,
            service: connection.virtual_address,
            server: connection.server,
            state: connection.state.to_owned(),
            remaining: Duration::from_secs(connection.remaining.into()),
        };
        connections.into_iter().map(row).collect()
    }

    fn counts(&mut self, server: IpAddr) -> Option<Counts> {
        let services = self.replay.model().services();
        let slots: Vec<u32> = services
            .flat_map(|entry| &entry.service.servers)
            .filter(|candidate| server == candidate.address)
            .map(|candidate| candidate.slot)
            .collect();
        let mut counts = slots.iter().map(|&slot| {
            let load = self.replay.server_load(slot);
            Counts {
                active: load.active,
                inactive: load.inactive,
            }
        });
        let first = counts.next()?;
        Some(counts.fold(first, |sum, one| Counts {
            active: sum.active + one.active,
            inactive: sum.inactive + one.inactive,
        }))
    }
}
