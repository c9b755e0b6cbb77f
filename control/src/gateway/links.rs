//! The links of devices: looked at ten times a second, told to the workers when they change, counted.

use super::Gateway;
use dataplane::packet::PortId;
use dataplane::worker::Order;
use serde::{Deserialize, Serialize};

/// What a device says of its link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// Whether it is up; that of a bond is while a member can send.
    pub up: bool,
    /// The members of a bond; none of another device.
    pub members: Vec<Member>,
}

/// A member of a bond.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// The device, as DPDK is told of it.
    pub device: String,
    /// Whether its link is up.
    pub link_up: bool,
    /// Whether the bond sends by it.
    pub active: bool,
}

/// A link as it was last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// What the device said.
    pub look: Look,
    /// How often it has come up or gone down since the start.
    pub changes: u64,
    /// Whether it was ever looked at.
    seen: bool,
}

impl Default for LinkState {
    /// One that nobody has looked at: workers send by it.
    fn default() -> LinkState {
        let members = Vec::new();
        LinkState {
            look: Look { up: true, members },
            changes: 0,
            seen: false,
        }
    }
}

/// What has changed of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkChange {
    /// It has come up.
    Up {
        /// The port's number.
        port: usize,
    },
    /// It has gone down, or is down at the start.
    Down {
        /// The port's number.
        port: usize,
    },
    /// The link of a bond's member has changed.
    Member {
        /// The port's number.
        port: usize,
        /// The member as it is now.
        member: Member,
    },
    /// Another member sends for the bond.
    Sender {
        /// The port's number.
        port: usize,
        /// The member that sends now.
        device: String,
    },
}

impl Gateway {
    /// The links as they were last seen, by port number.
    #[must_use]
    pub fn links(&self) -> Vec<LinkState> {
        self.links.lock().clone()
    }

    /// Looks at all links, and tells the workers of those that have changed; what has changed. It may block, and is not for
    /// an async task.
    pub fn look_at_links(&self) -> Vec<LinkChange> {
        let mut links = self.links.lock();
        let mut changes = Vec::new();
        for (port, (device, state)) in self.ports.iter().zip(links.iter_mut()).enumerate() {
            let look = device.look();
            if let Some(up) = state.note(port, look, &mut changes) {
                let port = PortId(port as u8);
                for worker in &self.workers {
                    worker.post(Order::Link { port, up });
                }
            }
        }
        changes
    }
}

impl LinkState {
    /// Takes in what a device says, and adds what is new to `changes`. What the workers have to be told, if anything:
    /// whether the link is up. When it was before, it has moved to another member.
    fn note(&mut self, port: usize, look: Look, changes: &mut Vec<LinkChange>) -> Option<bool> {
        let before = std::mem::replace(&mut self.look, look);
        let now = &self.look;
        let first = !std::mem::replace(&mut self.seen, true);
        for (number, member) in now.members.iter().enumerate() {
            // A bond that starts tells of its dead members only.
            let was = before.members.get(number).is_none_or(|member| member.link_up);
            if was != member.link_up {
                let member = member.clone();
                changes.push(LinkChange::Member { port, member });
            }
        }
        if now.up != before.up {
            self.changes += u64::from(!first);
            changes.push(match now.up {
                true => LinkChange::Up { port },
                false => LinkChange::Down { port },
            });
            return Some(now.up);
        }
        let device = now.new_sender(&before)?;
        changes.push(LinkChange::Sender { port, device });
        Some(true)
    }
}

impl Look {
    /// The member that sends, where only one does.
    fn sender(&self) -> Option<&Member> {
        let mut active = self.members.iter().filter(|member| member.active);
        active.next().filter(|_| active.next().is_none())
    }

    /// The member that sends now, where another one did before.
    fn new_sender(&self, before: &Look) -> Option<String> {
        let (now, before) = (self.sender()?, before.sender()?);
        (now.device != before.device).then(|| now.device.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(up: bool, members: &[(&str, bool, bool)]) -> Look {
        let member = |&(device, link_up, active): &(&str, bool, bool)| Member {
            device: device.to_owned(),
            link_up,
            active,
        };
        Look {
            up,
            members: members.iter().map(member).collect(),
        }
    }

    #[test]
    fn a_link_is_told_of_when_it_changes_and_counted_after_the_start() {
        let (mut state, mut changes) = (LinkState::default(), Vec::new());
        assert_eq!(state.note(3, look(false, &[]), &mut changes), Some(false));
        assert_eq!(
            (state.changes, changes.as_slice()),
            (0, &[LinkChange::Down { port: 3 }][..])
        );
        for up in [false, true, true, false, true] {
            state.note(3, look(up, &[]), &mut changes);
        }
        assert_eq!((state.changes, changes.len()), (3, 4));
        assert_eq!(state.note(3, look(true, &[]), &mut changes), None);
        let (mut quiet, mut none) = (LinkState::default(), Vec::new());
        assert_eq!(quiet.note(0, look(true, &[]), &mut none), None);
        assert!(none.is_empty());
    }

    #[test]
    fn a_bond_that_sends_by_another_member_is_announced_anew() {
        let (mut state, mut changes) = (LinkState::default(), Vec::new());
        let start = look(true, &[("a", true, true), ("b", true, false)]);
        assert_eq!(state.note(0, start.clone(), &mut changes), None);
        let failed = look(true, &[("a", false, false), ("b", true, true)]);
        assert_eq!(state.note(0, failed, &mut changes), Some(true));
        let member = look(true, &[("a", false, false)]).members.remove(0);
        let device = "b".to_owned();
        assert_eq!(
            changes,
            [
                LinkChange::Member { port: 0, member },
                LinkChange::Sender { port: 0, device }
            ]
        );
        assert_eq!(
            state.note(
                0,
                look(false, &[("a", false, false), ("b", false, true)]),
                &mut changes
            ),
            Some(false)
        );
        assert_eq!(state.note(0, start, &mut changes), Some(true));
        assert_eq!(state.changes, 2);
        // Where all send, one that is lost moves nothing that the switch does not know of.
        let both = look(true, &[("a", true, true), ("b", true, true)]);
        assert_eq!(state.note(0, both, &mut changes), None);
        assert_eq!(
            state.note(
                0,
                look(true, &[("a", false, false), ("b", true, true)]),
                &mut changes
            ),
            None
        );
    }
}
