//! Rules of SNAT: one family each, local addresses that answers come back to, and nothing that has no effect.

use std::collections::BTreeSet;

use super::addresses::Addresses;
use super::cover;
use super::links::{Links, Reach};
use super::names::Names;
use crate::config::read::network::RawLocalAddresses;
use crate::config::read::port::RawPort;
use crate::config::read::snat::RawSnat;
use crate::config::read::{At, Raw};
use crate::config::report::{Fault, Report};
use crate::config::types::{Prefix, SnatProtocol, SnatRule};

/// Each new connection from inside looks at the rules one after another, and at their prefixes.
const MOST_RULES: usize = 1000;
const MOST_PREFIXES: usize = 4096;

/// What is looked at from rule to rule.
struct Checker<'r> {
    raw: &'r Raw,
    group_names: &'r Names<'r>,
    addresses: &'r Addresses,
    links: &'r Links,
}

/// Checks the rules, each by itself and in their order.
pub(crate) fn rules(
    raw: &Raw,
    group_names: &Names<'_>,
    addresses: &Addresses,
    links: &Links,
    report: &mut Report,
) -> Vec<SnatRule> {
    if !few(raw, report) {
        return Vec::new();
    }
    let checker = Checker {
        raw,
        group_names,
        addresses,
        links,
    };
    let rules = raw.snat.iter().enumerate();
    let rules: Vec<Option<SnatRule>> = rules
        .map(|(index, rule)| checker.rule(index, rule, report))
        .collect();
    cover::warn_of_covered(&rules, report);
    rules.into_iter().flatten().collect()
}

fn few(raw: &Raw, report: &mut Report) -> bool {
    let rules = raw.snat.len();
    let prefixes: usize = raw
        .snat
        .iter()
        .map(|rule| rule.sources.items.len() + rule.destinations.items.len())
        .sum();
    let (count, what, most) = match () {
        () if rules > MOST_RULES => (rules, "rules", MOST_RULES),
        () if prefixes > MOST_PREFIXES => (prefixes, "prefixes in all rules", MOST_PREFIXES),
        () => return true,
    };
    let fault = Fault::new(
        format!("{count} {what}"),
        format!("write at most {most}: each new connection looks at them one after another"),
    );
    report.error(raw.snat[0].place, "snat", fault);
    false
}

impl Checker<'_> {
    /// None when something that is needed could not be read.
    fn rule(&self, index: usize, raw: &RawSnat, report: &mut Report) -> Option<SnatRule> {
        let path = format!("snat[{index}]");
        let family = self.one_family(raw, &path, report);
        let groups = self.groups(raw, &path, report);
        protocols(raw, &path, report);
        if raw.exempt {
            for (key, place) in &raw.beside_exempt {
                let problem = format!("`{key}` in a rule with `exempt`: such packets go on as they are");
                let fault = Fault::new(problem, format!("remove `{key}`, or `exempt`"));
                report.error(*place, format!("{path}.{key}"), fault);
            }
        }
        let incomplete = raw.sources.incomplete()
            || raw.destinations.incomplete()
            || raw.protocols.incomplete()
            || raw.ports.incomplete();
        let rule = SnatRule {
            name: raw.name.as_ref()?.value.clone(),
            sources: raw.sources.iter().map(|(_, source)| source.value).collect(),
            destinations: values(raw.destinations.iter()),
            protocols: values(raw.protocols.iter()),
            ports: values(raw.ports.iter()),
            exempt: raw.exempt,
            local_addresses: groups?,
            timeouts: raw.timeouts.map(|at| at.value),
            client_limit: raw.client_limit,
            place: raw.place,
        };
        if incomplete || rule.sources.is_empty() || family.is_none() {
            return None;
        }
        if !rule.exempt {
            self.local_addresses(raw, &rule, &path, report);
            self.only_inside(raw, &rule, &path, report);
        }
        Some(rule)
    }

    /// Whether the rule is for IPv6; none when it is for both families, or nothing can be said.
    fn one_family(&self, raw: &RawSnat, path: &str, report: &mut Report) -> Option<bool> {
        let (_, first) = raw.sources.iter().next()?;
        let ipv6 = first.value.address().is_ipv6();
        let sources = raw
            .sources
            .iter()
            .map(|(item, at)| (at, raw.sources.path("source", item)));
        let destinations = raw.destinations.iter();
        let destinations = destinations.map(|(item, at)| (at, raw.destinations.path("destination", item)));
        let mut others = sources
            .chain(destinations)
            .filter(|(at, _)| at.value.address().is_ipv6() != ipv6);
        let Some((at, key)) = others.next() else {
            return Some(ipv6);
        };
        let family = |ipv6| if ipv6 { "IPv6" } else { "IPv4" };
        let problem = format!(
            "{} is {}, and the rule is for {}, by its first source {}",
            at.value,
            family(!ipv6),
            family(ipv6),
            first.value
        );
        let fault = Fault::new(problem, "write a rule for each family");
        report.error(at.place, format!("{path}.{key}"), fault);
        None
    }

    /// The groups of local addresses that the rule names; none when it has none and needs some.
    fn groups(&self, raw: &RawSnat, path: &str, report: &mut Report) -> Option<Vec<usize>> {
        let Some(names) = raw.local_addresses.as_ref().filter(|_| !raw.exempt) else {
            if !raw.exempt {
                let remedy = match self.group_names.first() {
                    Some(name) => format!("write `local_addresses: {name}`, say, or `exempt: true`"),
                    None => "define a group under `local_addresses` of the file, and write its name here"
                        .to_owned(),
                };
                let problem = "no `local_addresses`: there is nothing to translate sources to";
                report.error(raw.place, path, Fault::new(problem, remedy));
            }
            return raw.exempt.then(Vec::new);
        };
        let path = format!("{path}.local_addresses");
        if names.value.items.is_empty() {
            let fault = Fault::new("an empty list", "write the name of a group of local addresses");
            report.error(names.place, &path, fault);
        }
        let groups = self.group_names.find_each(&names.value, &path, report);
        (!groups.is_empty() && groups.len() == names.value.items.len()).then_some(groups)
    }

    /// Local addresses of the rule's family, on the port that its packets leave by.
    fn local_addresses(&self, raw: &RawSnat, rule: &SnatRule, path: &str, report: &mut Report) {
        let Some(names) = &raw.local_addresses else { return };
        let ipv6 = rule.is_ipv6();
        let has_some = |group: &&RawLocalAddresses| {
            let mut ranges = group.ranges.iter();
            // What could not be read may be anything.
            group.ranges.incomplete() || ranges.any(|(_, range)| range.first.is_ipv6() == ipv6)
        };
        let groups: Vec<&RawLocalAddresses> = rule
            .local_addresses
            .iter()
            .filter_map(|&group| self.raw.local_addresses.get(group))
            .filter(has_some)
            .collect();
        let path = format!("{path}.local_addresses");
        if groups.is_empty() {
            let family = if ipv6 { "IPv6" } else { "IPv4" };
            let problem = format!("no {family} address among them, and the rule is for {family}");
            let remedy = format!("add {family} addresses to the group, or name a group that has some");
            report.error(names.place, path, Fault::new(problem, remedy));
            return;
        }
        for group in groups.iter().filter(|group| !group.routed) {
            let port = self.port_of(group);
            let Some((port, own)) = port else { continue };
            let elsewhere = self
                .ways_out(rule)
                .find_map(|(to, found)| Some((to, self.name_of(found).filter(|_| found != port)?)));
            let Some((to, found)) = elsewhere else { continue };
            let name = group.name.as_ref().map_or("", |name| &*name.value);
            let problem = format!(
                "packets to {to} leave by port `{found}`, and the addresses of `{name}` are on port `{own}`: answers \
                 would not come back"
            );
            let remedy = format!(
                "name a group with `port: {found}`, or write `routed: true` in the group if routers out there have a \
                 route to it"
            );
            report.warn(names.place, &path, Fault::new(problem, remedy));
        }
    }

    /// Warns of sources outside: on the port that packets leave by, where the gateway's own addresses tell what is
    /// outside. A gateway with one port has both on it, which is right as long as it is said which is which.
    fn only_inside(&self, raw: &RawSnat, rule: &SnatRule, path: &str, report: &mut Report) {
        let outside: BTreeSet<usize> = self.ways_out(rule).map(|(_, port)| port).collect();
        for (item, source) in raw.sources.iter() {
            let source_is_there = match self.links.reach_all(source.value) {
                Reach::OnLink(port) | Reach::Routed(port) => Some(port).filter(|_| source.value.length() > 0),
                Reach::Nowhere | Reach::Unknown => None,
            };
            let on = |port: &usize| outside.contains(port) && source_is_there != Some(*port);
            let found = self.addresses.ours(source.value).find_map(|(address, what)| {
                let port = self.links.connected(address).map(|(_, port)| port).filter(on)?;
                Some((address, what, self.name_of(port)?))
            });
            let Some((address, what, port)) = found else {
                continue;
            };
            let problem = format!(
                "{} holds {address}, {what} on port `{port}`, which packets leave by: what comes from there would be \
                 translated too",
                source.value
            );
            let fault = Fault::new(problem, "write the prefixes of the hosts inside");
            report.warn(
                source.place,
                raw.sources.path(&format!("{path}.source"), item),
                fault,
            );
        }
    }

    /// The destinations of the rule, each with the port that packets to it leave by.
    fn ways_out<'a>(&'a self, rule: &'a SnatRule) -> impl Iterator<Item = (Prefix, usize)> + 'a {
        let all = [if rule.is_ipv6() {
            Prefix::DEFAULT6
        } else {
            Prefix::DEFAULT
        }];
        let everywhere = all.into_iter().filter(|_| rule.destinations.is_empty());
        let destinations = rule.destinations.iter().copied().chain(everywhere);
        destinations.filter_map(|to| match self.links.reach_all(to) {
            Reach::OnLink(port) | Reach::Routed(port) => Some((to, port)),
            Reach::Nowhere | Reach::Unknown => None,
        })
    }

    /// The port of a group: its index and its name.
    fn port_of<'a>(&self, group: &'a RawLocalAddresses) -> Option<(usize, &'a str)> {
        let name = &*group.port.as_ref()?.value;
        let is_named = |port: &RawPort| port.name.as_ref().is_some_and(|at| at.value == name);
        Some((self.raw.ports.iter().position(is_named)?, name))
    }

    fn name_of(&self, port: usize) -> Option<&str> {
        Some(&*self.raw.ports.get(port)?.name.as_ref()?.value)
    }
}

/// Ports are those of TCP, UDP and SCTP.
fn protocols(raw: &RawSnat, path: &str, report: &mut Report) {
    let Some((_, ports)) = raw.ports.iter().next() else {
        return;
    };
    let is_icmp = |(_, at): &(usize, &At<SnatProtocol>)| at.value == SnatProtocol::Icmp;
    let Some((item, icmp)) = raw.protocols.iter().find(is_icmp) else {
        return;
    };
    if raw.protocols.iter().all(|found| is_icmp(&found)) && !raw.protocols.incomplete() {
        let fault = Fault::new("`ports` in a rule for `icmp`, which has none", "remove `ports`");
        report.error(ports.place, raw.ports.path(&format!("{path}.ports"), 0), fault);
    } else {
        let fault = Fault::new(
            "not used: a rule with `ports` is not for echo",
            "remove it, or write another rule for `icmp`",
        );
        report.warn(
            icmp.place,
            raw.protocols.path(&format!("{path}.protocol"), item),
            fault,
        );
    }
}

fn values<'a, T: Copy + 'a>(items: impl Iterator<Item = (usize, &'a At<T>)>) -> Vec<T> {
    items.map(|(_, at)| at.value).collect()
}
