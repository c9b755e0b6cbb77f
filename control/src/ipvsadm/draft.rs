//! A command under construction: takes the options in the order of the line, because ipvsadm judges each value
//! when it meets it, with what it knows by then (the service's port and family above all).

use super::UsageError;
use super::command::{
    Command, Endpoint, Family, Forwarding, Mask, Persistence, Protocol, SchedulerFlags, Server, Service,
    ServiceId,
};
use super::options::{Group, Kind, Verb};
use super::rules::{self, Seen, TunnelKind};
use super::scanner::Found;
use super::values;
use std::net::{IpAddr, Ipv4Addr};

/// The default of `-p`, seconds.
const DEFAULT_PERSISTENCE: u32 = 360;
/// The longest timeout that ipvsadm takes: 31 days, in seconds.
const MAX_TIMEOUT: i64 = 31 * 24 * 3600;

/// Which forwarding method the line names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Dr,
    Nat,
    Tun,
    Fullnat,
}

/// What the options so far say.
#[derive(Default, Debug)]
pub(super) struct Draft {
    seen: Seen,
    id: Option<ServiceId>,
    scheduler: Option<String>,
    flag_text: Option<String>,
    flags: SchedulerFlags,
    persistence: Option<u32>,
    mask: Option<Mask>,
    one_packet: bool,
    engine: Option<String>,
    local_addresses: Option<String>,
    server: Option<Endpoint>,
    method: Option<Method>,
    tunnel_kind: TunnelKind,
    tunnel_port: u16,
    weight: Option<u32>,
    upper: u32,
    lower: u32,
}

impl Draft {
    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// Takes one option.
    pub(super) fn take(&mut self, found: &Found<'_>) -> Result<(), UsageError> {
        match found.spec.kind {
            Kind::Verb(_) => return Err(UsageError::new(format!("invalid option `{}'", found.word))),
            Kind::Ignored => {}
            Kind::Ipv6 => match &mut self.id {
                Some(ServiceId::Mark { family, .. }) => *family = Family::V6,
                // The tool ends this one message with an empty line.
                _ => return Err(UsageError::new("-6 used before -f\n")),
            },
            Kind::Option(group) => {
                if !self.seen.add(group) {
                    return Err(UsageError::new(format!(
                        "multiple '{}' options specified",
                        group.name()
                    )));
                }
                self.option(
                    group,
                    found.spec.long,
                    found.value.unwrap_or_default(),
                    found.value.is_some(),
                )?;
            }
        }
        Ok(())
    }

    fn option(&mut self, group: Group, long: &str, value: &str, given: bool) -> Result<(), UsageError> {
        match group {
            Group::ServiceAddress => self.id = Some(service_id(long, value)?),
            Group::Scheduler => self.scheduler = Some(value.to_owned()).filter(|name| !name.is_empty()),
            Group::SchedFlags => self.flag_text = Some(value.to_owned()),
            Group::Persistent if given => self.persistence = Some(timeout(value, 1)?),
            Group::Persistent => self.persistence = Some(DEFAULT_PERSISTENCE),
            Group::Netmask => self.mask = Some(self.mask_of(value)?),
            Group::Ops => self.one_packet = true,
            Group::Pe => self.engine = Some(value.to_owned()).filter(|name| !name.is_empty()),
            Group::LocalAddresses => self.local_addresses = Some(value.to_owned()),
            Group::RealServer => self.server = Some(self.server_endpoint(value)?),
            Group::ForwardingMethod => {
                self.method = Some(match long {
                    "masquerading" => Method::Nat,
                    "ipip" => Method::Tun,
                    "fullnat" => Method::Fullnat,
                    _ => Method::Dr,
                });
            }
            Group::Weight => self.weight = Some(count(value, "illegal weight specified")?),
            Group::UThreshold => self.upper = count(value, "illegal u_threshold specified")?,
            Group::LThreshold => self.lower = count(value, "illegal l_threshold specified")?,
            Group::TunType => {
                self.tunnel_kind =
                    TunnelKind::of(value).ok_or_else(|| UsageError::new("illegal tunnel type specified"))?;
            }
            Group::TunPort => {
                let port = values::number(value, 1, 65535).and_then(|port| u16::try_from(port).ok());
                self.tunnel_port = port.ok_or_else(|| UsageError::new("illegal tunnel port specified"))?;
            }
            // The rest say all by being there, or belong to commands that are refused.
            _ => {}
        }
        Ok(())
    }

    fn mask_of(&self, value: &str) -> Result<Mask, UsageError> {
        if self.id.is_some_and(|id| id.family() == Family::V6) {
            return values::mask_v6(value).ok_or_else(|| UsageError::new("illegal ipv6 netmask specified"));
        }
        values::mask_v4(value)
            .ok_or_else(|| UsageError::new("illegal virtual server persistent mask specified"))
    }

    fn server_endpoint(&self, value: &str) -> Result<Endpoint, UsageError> {
        let (protocol, port) = match self.id {
            Some(ServiceId::Address { protocol, port, .. }) => (Some(protocol), port),
            Some(ServiceId::Mark { .. }) => (Some(Protocol::Tcp), 0),
            None => (None, 0),
        };
        let (address, own_port) = values::endpoint(value, protocol)
            .ok_or_else(|| UsageError::new("illegal real server address[:port] specified"))?;
        Ok(Endpoint {
            address,
            port: own_port.unwrap_or(port),
        })
    }

    fn scheduler(&self) -> &str {
        self.scheduler.as_deref().unwrap_or("wlc")
    }

    /// Judges the scheduler flags, once the scheduler is known.
    pub(super) fn resolve_flags(&mut self) -> Result<(), UsageError> {
        let text = self.flag_text.take().unwrap_or_default();
        for name in text.split(',').filter(|name| !name.is_empty()) {
            let (flag, only_for) = match name {
                "flag-1" => (SchedulerFlags::FALLBACK, None),
                "flag-2" => (SchedulerFlags::PORT, None),
                "flag-3" => (SchedulerFlags::THIRD, None),
                "sh-fallback" => (SchedulerFlags::FALLBACK, Some("sh")),
                "sh-port" => (SchedulerFlags::PORT, Some("sh")),
                "mh-fallback" => (SchedulerFlags::FALLBACK, Some("mh")),
                "mh-port" => (SchedulerFlags::PORT, Some("mh")),
                _ => return Err(UsageError::new(format!("invalid scheduler flag `{name}'"))),
            };
            if only_for.is_some_and(|scheduler| scheduler != self.scheduler()) {
                return Err(UsageError::new(format!("incompatible scheduler flag `{name}'")));
            }
            self.flags = self.flags.with(flag);
        }
        Ok(())
    }

    /// The command, once `rules::check` has found every required option.
    pub(super) fn finish(self, verb: Verb) -> Result<Command, UsageError> {
        if verb == Verb::Flush {
            return Ok(Command::Clear);
        }
        let id = self.id.ok_or_else(UsageError::no_command)?;
        match verb {
            Verb::AddService => Ok(Command::AddService(self.service(id)?)),
            Verb::EditService => Ok(Command::EditService(self.service(id)?)),
            Verb::DeleteService => Ok(Command::DeleteService(id)),
            _ => {
                let endpoint = self.server.ok_or_else(UsageError::no_command)?;
                match verb {
                    Verb::AddServer => Ok(Command::AddServer(id, self.server(id, endpoint)?)),
                    Verb::EditServer => Ok(Command::EditServer(id, self.server(id, endpoint)?)),
                    _ => Ok(Command::DeleteServer(id, endpoint)),
                }
            }
        }
    }

    fn service(self, id: ServiceId) -> Result<Service, UsageError> {
        let no_port = matches!(id, ServiceId::Address { port: 0, .. });
        if no_port && self.persistence.is_none() {
            return Err(UsageError::new("Zero port specified for non-persistent service"));
        }
        let stream = matches!(
            id,
            ServiceId::Address {
                protocol: Protocol::Tcp | Protocol::Sctp,
                ..
            }
        );
        if stream && self.one_packet {
            return Err(UsageError::new(
                "One-Packet Scheduling is only for UDP virtual services",
            ));
        }
        let mask = match (id.family(), self.mask) {
            (Family::V4, Some(mask @ Mask::V4(_))) | (Family::V6, Some(mask @ Mask::V6(_))) => mask,
            (Family::V4, _) => Mask::V4(Ipv4Addr::BROADCAST),
            (Family::V6, _) => Mask::V6(128),
        };
        Ok(Service {
            id,
            scheduler: self.scheduler().to_owned(),
            flags: self.flags,
            persistence: self.persistence.map(|timeout| Persistence { timeout, mask }),
            one_packet: self.one_packet,
            engine: self.engine,
            local_addresses: self.local_addresses,
        })
    }

    fn server(&self, id: ServiceId, mut endpoint: Endpoint) -> Result<Server, UsageError> {
        let method = self.method.unwrap_or(Method::Dr);
        let same_family = endpoint.address.is_ipv6() == (id.family() == Family::V6);
        // Between families there are tunnels, as with ipvsadm, and FULLNAT, which is not one of its methods.
        if !same_family && !matches!(method, Method::Tun | Method::Fullnat) {
            let text = "Different address family is allowed only for tunneling servers";
            return Err(UsageError::new(text));
        }
        if method != Method::Tun && rules::names_tunnel(self.seen) {
            return Err(UsageError::new("Tunnel options conflict with forward method"));
        }
        let forwarding = match method {
            Method::Dr => Forwarding::Dr,
            Method::Nat => Forwarding::Nat,
            Method::Fullnat => Forwarding::Fullnat,
            Method::Tun => rules::tunnel(self.tunnel_kind, self.seen, self.tunnel_port)?,
        };
        // Nothing can change the port on the way to a DR or tunnel server.
        let mut ignored_port = None;
        if let (ServiceId::Address { port, .. }, Method::Dr | Method::Tun) = (id, method) {
            ignored_port = Some(endpoint.port).filter(|named| *named != port);
            endpoint.port = port;
        }
        Ok(Server {
            endpoint,
            ignored_port,
            forwarding,
            weight: self.weight.unwrap_or(1),
            upper_threshold: self.upper,
            lower_threshold: self.lower,
        })
    }
}

fn service_id(long: &str, value: &str) -> Result<ServiceId, UsageError> {
    let protocol = match long {
        "tcp-service" => Protocol::Tcp,
        "udp-service" => Protocol::Udp,
        "sctp-service" => Protocol::Sctp,
        _ => {
            let mark = values::number(value, 1, u32::MAX.into()).and_then(|mark| u32::try_from(mark).ok());
            let mark =
                mark.ok_or_else(|| UsageError::new(format!("invalid fwmark value `{value}' specified")))?;
            return Ok(ServiceId::Mark {
                mark,
                family: Family::V4,
            });
        }
    };
    let (address, port): (IpAddr, _) = values::endpoint(value, Some(protocol))
        .ok_or_else(|| UsageError::new("illegal virtual server address[:port] specified"))?;
    Ok(ServiceId::Address {
        protocol,
        address,
        port: port.unwrap_or(0),
    })
}

fn timeout(value: &str, low: i64) -> Result<u32, UsageError> {
    values::number(value, low, MAX_TIMEOUT)
        .and_then(|seconds| u32::try_from(seconds).ok())
        .ok_or_else(|| UsageError::new(format!("invalid timeout value `{value}' specified")))
}

fn count(value: &str, error: &str) -> Result<u32, UsageError> {
    let number = values::number(value, 0, i32::MAX.into()).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| UsageError::new(error))
}

/// The three values of `--set`: tcp, tcp after FIN, udp.
pub(super) fn timeouts<'a>(rest: &mut impl Iterator<Item = &'a str>) -> Result<[u32; 3], UsageError> {
    let missing = || UsageError::new("--set option requires 3 timeout values");
    let mut words = [""; 3];
    for word in &mut words {
        *word = rest.next().ok_or_else(missing)?;
    }
    let [tcp, tcp_fin, udp] = words.map(|word| timeout(word, 0));
    Ok([tcp?, tcp_fin?, udp?])
}
