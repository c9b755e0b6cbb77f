//! Rules of SNAT in the model: a diff by name. A rule that stays keeps its slot, and so its counters and connections,
//! whatever else changes of it.

use super::{Changes, LocalGroup, Model, ModelError, SlotOwner};
use crate::config::{self, Config};
use dataplane::service::{SnatRule, SnatRules};
use std::collections::HashMap;
use std::sync::Arc;

impl Model {
    /// The rules of SNAT with their names, in their order.
    pub fn snat(&self) -> impl Iterator<Item = (&Arc<str>, &SnatRule)> {
        self.snat_names.iter().zip(self.network.snat.rules())
    }

    /// Takes the rules of the file, when local addresses have been taken.
    pub(super) fn apply_snat(&mut self, config: &Config, changes: &mut Changes) -> Result<(), ModelError> {
        let before: Vec<(Arc<str>, SnatRule)> = self
            .snat()
            .map(|(name, rule)| (Arc::clone(name), rule.clone()))
            .collect();
        let wanted: HashMap<&str, usize> = config
            .snat
            .iter()
            .enumerate()
            .map(|(at, rule)| (&*rule.name, at))
            .collect();
        // Where each of those that stay stands among them.
        let mut staying = HashMap::new();
        for (name, rule) in &before {
            if wanted.contains_key(&**name) {
                staying.insert(&**name, (staying.len(), rule));
            } else {
                self.server_slots.retire(&SlotOwner::Snat(Arc::clone(name)));
                changes.snat_removed += 1;
            }
        }
        let (mut names, mut rules, mut stayed) = (Vec::new(), Vec::new(), 0);
        for wanted in &config.snat {
            let name: Arc<str> = wanted.name.as_str().into();
            let owner = SlotOwner::Snat(Arc::clone(&name));
            let slot = self.server_slots.take(owner).ok_or(ModelError::Servers)?;
            let rule = rule_of(wanted, slot, &self.locals);
            match staying.get(&*name) {
                None => changes.snat_added += 1,
                Some((at, old)) => {
                    changes.snat_changed += usize::from(*at != stayed || !same(old, &rule));
                    stayed += 1;
                }
            }
            names.push(name);
            rules.push(rule);
        }
        let has_changed = changes.snat_added + changes.snat_changed + changes.snat_removed > 0;
        if has_changed {
            self.network.snat = Arc::new(SnatRules::new(rules));
            self.snat_names = names;
        }
        Ok(())
    }
}

/// Whether they say the same, of the same groups of local addresses.
fn same(old: &SnatRule, new: &SnatRule) -> bool {
    let pools = |rule: &SnatRule| rule.local_pools.iter().map(Arc::as_ptr).collect::<Vec<_>>();
    old == new && pools(old) == pools(new)
}

fn rule_of(rule: &config::SnatRule, slot: u32, groups: &[LocalGroup]) -> SnatRule {
    let ipv6 = rule.is_ipv6();
    let named = rule.local_addresses.iter().filter_map(|&group| groups.get(group));
    let of_family = named.filter(|group| !group.pool.towards(ipv6).is_empty());
    SnatRule {
        slot,
        sources: rule.sources.clone(),
        destinations: rule.destinations.clone(),
        protocols: rule
            .protocols
            .iter()
            .map(|protocol| protocol.number(ipv6))
            .collect(),
        ports: rule.ports.iter().map(|ports| ports.first..=ports.last).collect(),
        exempt: rule.exempt,
        local_pools: of_family.map(|group| Arc::clone(&group.pool)).collect(),
        timeouts: rule.timeouts.map(Arc::new),
        client_limit: rule.client_limit,
    }
}
