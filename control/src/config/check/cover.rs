//! Rules of SNAT that an earlier one leaves nothing for.

use crate::config::report::{Fault, Report};
use crate::config::types::{PortRange, Prefix, SnatProtocol, SnatRule};

/// Warns of rules that no packet gets to, since it falls under an earlier one. None stands for a rule that could not be
/// read.
pub(super) fn warn_of_covered(rules: &[Option<SnatRule>], report: &mut Report) {
    for (index, rule) in rules.iter().enumerate() {
        let Some(rule) = rule else { continue };
        let earlier = rules[..index].iter().enumerate();
        let covering = earlier.filter_map(|(at, earlier)| Some((at, earlier.as_ref()?)));
        let covering = covering.into_iter().find(|(_, earlier)| covers(earlier, rule));
        let Some((at, earlier)) = covering else { continue };
        let problem = format!(
            "no packet gets to this rule: all that it is for falls under snat[{at}], `{}`, on line {}",
            earlier.name, earlier.place.line
        );
        let fault = Fault::new(problem, "write the narrower rule first, or remove this one");
        report.warn(rule.place, format!("snat[{index}]"), fault);
    }
}

/// Whether each packet that falls under `later` falls under `earlier`.
fn covers(earlier: &SnatRule, later: &SnatRule) -> bool {
    protocols(later).all(|protocol| protocols(earlier).any(|known| known == protocol))
        && ports(&earlier.ports, &later.ports)
        && prefixes(&earlier.sources, &later.sources)
        && destinations(earlier, later)
}

/// The protocols of packets that fall under the rule: echo has no ports.
fn protocols(rule: &SnatRule) -> impl Iterator<Item = SnatProtocol> + '_ {
    SnatProtocol::ALL.into_iter().filter(|protocol| {
        (rule.protocols.is_empty() || rule.protocols.contains(protocol))
            && (rule.ports.is_empty() || *protocol != SnatProtocol::Icmp)
    })
}

fn prefixes(wide: &[Prefix], narrow: &[Prefix]) -> bool {
    narrow
        .iter()
        .all(|narrow| wide.iter().any(|wide| wide.covers(*narrow)))
}

fn destinations(earlier: &SnatRule, later: &SnatRule) -> bool {
    let all = [if later.is_ipv6() {
        Prefix::DEFAULT6
    } else {
        Prefix::DEFAULT
    }];
    let narrow = if later.destinations.is_empty() {
        &all
    } else {
        &later.destinations[..]
    };
    earlier.destinations.is_empty() || prefixes(&earlier.destinations, narrow)
}

/// Whether all ports of `narrow` are among those of `wide`; an empty list is all.
fn ports(wide: &[PortRange], narrow: &[PortRange]) -> bool {
    if wide.is_empty() || narrow.is_empty() {
        return wide.is_empty();
    }
    let mut wide = wide.to_vec();
    wide.sort_unstable_by_key(|range| range.first);
    narrow.iter().all(|narrow| {
        // The first port that is not yet found.
        let mut next = u32::from(narrow.first);
        for range in &wide {
            if u32::from(range.first) <= next {
                next = next.max(u32::from(range.last) + 1);
            }
        }
        next > u32::from(narrow.last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u16, last: u16) -> PortRange {
        PortRange { first, last }
    }

    #[test]
    fn ranges_of_ports_that_touch_are_one() {
        let wide = [range(8000, 8100), range(80, 80), range(81, 90), range(85, 88)];
        assert!(ports(&wide, &[range(80, 90), range(8050, 8100)]));
        assert!(!ports(&wide, &[range(80, 91)]));
        assert!(!ports(&wide, &[range(79, 90)]));
        assert!(!ports(&wide, &[]));
        assert!(ports(&[], &wide) && ports(&[], &[]));
        assert!(ports(&[range(1, 65_535)], &[range(1, 65_535)]));
    }
}
