//! A tournament over the servers of one service: who comes first by a key, and by place in the list among equals.
//! A changed key is replayed up the tree, so that a service with 1,000 servers costs ten comparisons and not a
//! thousand. Control allocates it; the worker fills it.

use crate::service::Server;

/// What servers are ranked by: the least comes first.
pub(super) type Key = u128;

/// The key of a server that must not be picked.
pub(super) const NEVER: Key = Key::MAX;

/// A server as the tournament knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entrant {
    /// Its slot, to know it by.
    pub(super) slot: u32,
    /// Its weight.
    pub(super) weight: u32,
}

/// The tournament. Servers are known by their position in the list.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    keys: Box<[Key]>,
    entrants: Box<[Entrant]>,
    /// A binary tree as an array: node `i` has the children `2i` and `2i + 1`, the root is node 1, the server at
    /// position `p` is leaf `servers + p`. Each node holds the position of its winner.
    winners: Box<[u32]>,
}

impl Ranking {
    /// A tournament of these servers, none of which may be picked yet.
    pub(super) fn new(servers: &[Server]) -> Ranking {
        let entrants: Box<[Entrant]> = servers
            .iter()
            .map(|server| Entrant {
                slot: server.slot,
                weight: server.weight,
            })
            .collect();
        let mut ranking = Ranking {
            keys: vec![NEVER; entrants.len()].into(),
            winners: vec![0; 2 * entrants.len()].into(),
            entrants,
        };
        ranking.fill(|_, _| NEVER);
        ranking
    }

    /// How many servers take part.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The server at that position.
    pub(super) fn entrant(&self, position: usize) -> Option<Entrant> {
        self.entrants.get(position).copied()
    }

    /// Plays everything anew, with the keys that `key` gives by position.
    pub(super) fn fill(&mut self, key: impl Fn(usize, Entrant) -> Key) {
        let servers = self.len();
        for position in 0..servers {
            self.keys[position] = key(position, self.entrants[position]);
            self.winners[servers + position] = position as u32;
        }
        for node in (1..servers).rev() {
            self.winners[node] = self.better(self.winners[2 * node], self.winners[2 * node + 1]);
        }
    }

    /// Gives the server at `position`, which has to take part, another key.
    pub(super) fn set(&mut self, position: usize, key: Key) {
        if self.keys[position] == key {
            return;
        }
        self.keys[position] = key;
        let mut node = (self.len() + position) / 2;
        while node > 0 {
            let winner = self.better(self.winners[2 * node], self.winners[2 * node + 1]);
            if winner == self.winners[node] && winner as usize != position {
                // Neither who wins here nor by which key has changed, so nothing above has.
                return;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    /// The position of the first server by rank; none when none may be picked.
    pub(super) fn first(&self) -> Option<usize> {
        let first = *self.winners.get(1)? as usize;
        (self.keys[first] != NEVER).then_some(first)
    }

    #[inline]
    fn better(&self, one: u32, other: u32) -> u32 {
        let (first, second) = (self.keys[one as usize], self.keys[other as usize]);
        if first < second || (first == second && one < other) {
            one
        } else {
            other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::server;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nobody_wins_without_entrants_or_before_keys_are_known() {
        assert_eq!(Ranking::new(&[]).first(), None);
        let mut alone = Ranking::new(&[server(5, 1)]);
        assert_eq!((alone.len(), alone.first()), (1, None));
        alone.set(0, 7);
        assert_eq!((alone.first(), alone.entrant(0).unwrap().slot), (Some(0), 5));
        alone.set(0, NEVER);
        assert_eq!((alone.first(), alone.entrant(1)), (None, None));
    }

    proptest! {
        #[test]
        fn the_winner_is_the_first_of_the_least(
            servers in 1usize..70,
            steps in proptest::collection::vec((any::<usize>(), prop_oneof![0u128..4, Just(NEVER)]), 1..200),
            anew in any::<usize>(),
        ) {
            let list: Vec<_> = (0..servers as u32).map(|slot| server(slot, 1)).collect();
            let mut ranking = Ranking::new(&list);
            let mut keys = vec![NEVER; servers];
            for (step, (position, key)) in steps.into_iter().enumerate() {
                keys[position % servers] = key;
                if step == anew % 200 {
                    ranking.fill(|position, _| keys[position]);
                } else {
                    ranking.set(position % servers, key);
                }
                let least = (0..servers).filter(|&at| keys[at] != NEVER).min_by_key(|&at| (keys[at], at));
                prop_assert_eq!(ranking.first(), least);
            }
        }
    }
}
