//! Connections that another worker's template holds. Each has a place here, from the template's answer until its worker,
//! the template's home, has been told of its end.
//!
//! The home counts a connection when it answers, so what it counts is never too few. What a worker has to tell, that a
//! connection is established or has ended, waits here until there is room in the home's mailbox: nothing is lost, and the
//! home counts too many only by what has not been told yet. As many places as connections are enough, since a worker asks
//! no home while those and the questions under way would leave none.

use super::{Io, Worker};
use crate::flow::{FlowIndex, RecordId};
use crate::memory::Slab;
use bytemuck::{Pod, Zeroable};
use std::io;

/// What one turn tells, and what it hears: as many as the questions that it may answer, so that ends do not pile up.
const BUDGET: usize = 256;
/// Homes without room that are met in a turn before the rest waits for the next one.
const PATIENCE: usize = 8;

/// What a home is told of a connection that one of its templates holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    /// The template, by its record at home.
    template: u32,
    /// It has been established.
    assured: bool,
    /// It is over.
    ended: bool,
}

/// The place of a connection. Zeroed, it is free.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Hold {
    /// The template, by its record at home.
    template: u32,
    /// Of a free place, the next free one; of one that waits, the next of these.
    next: u32,
    /// The worker that has the template.
    home: u8,
    flags: u8,
    unused: [u8; 2],
}

/// In [`Hold::flags`]: the connection has been established.
const ASSURED: u8 = 1;
/// That has still to be told.
const TELL: u8 = 1 << 1;
/// The connection is over.
const ENDED: u8 = 1 << 2;
/// The place is in the queue of those that wait.
const WAITS: u8 = 1 << 3;

/// The places of one worker.
pub(super) struct Holds {
    places: Slab<Hold>,
    /// First of the free places that have been used before.
    free: u32,
    /// The highest place ever used; 0 is none.
    highest: u32,
    used: u32,
    /// The queue of those that have something to tell.
    first: u32,
    last: u32,
}

impl Holds {
    /// Places for so many connections. The memory is touched only as it is used.
    pub(super) fn new(connections: u32) -> io::Result<Holds> {
        Ok(Holds {
            places: Slab::sparse(connections as usize + 1)?,
            free: 0,
            highest: 0,
            used: 0,
            first: 0,
            last: 0,
        })
    }

    /// Places that are free.
    pub(super) fn free(&self) -> u64 {
        (self.places.len() as u64 - 1).saturating_sub(self.used.into())
    }

    /// A connection that this template holds. None when there is no place.
    pub(super) fn add(&mut self, home: u8, template: u32) -> Option<u32> {
        let at = match self.free {
            0 => self.highest + 1,
            free => free,
        };
        let place = self.places.get_mut(at as usize)?;
        if at == self.free {
            self.free = place.next;
        } else {
            self.highest = at;
        }
        *place = Hold {
            template,
            home,
            ..Hold::zeroed()
        };
        self.used += 1;
        Some(at)
    }

    /// The connection has been established: once is enough.
    pub(super) fn assure(&mut self, at: u32) {
        let place = &mut self.places[at as usize];
        if place.flags & ASSURED == 0 {
            place.flags |= ASSURED | TELL;
            self.queue(at);
        }
    }

    /// The connection is over.
    pub(super) fn end(&mut self, at: u32) {
        self.places[at as usize].flags |= ENDED;
        self.queue(at);
    }

    /// Whether anything has to be told.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.first != 0
    }

    fn queue(&mut self, at: u32) {
        let place = &mut self.places[at as usize];
        if place.flags & WAITS != 0 {
            return;
        }
        place.flags |= WAITS;
        place.next = 0;
        match self.last {
            0 => self.first = at,
            last => self.places[last as usize].next = at,
        }
        self.last = at;
    }

    /// Tells what waits by `tell(home, what)`, which says whether there was room. What there was none for is told later.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(u8, Told) -> bool) {
        let mut refused = 0;
        for _ in 0..BUDGET {
            let at = self.first;
            if at == 0 || refused == PATIENCE {
                return;
            }
            let place = &mut self.places[at as usize];
            place.flags &= !WAITS;
            self.first = place.next;
            if self.first == 0 {
                self.last = 0;
            }
            let told = Told {
                template: place.template,
                assured: place.flags & TELL != 0,
                ended: place.flags & ENDED != 0,
            };
            if !tell(place.home, told) {
                // Those behind it may be of another home.
                refused += 1;
                self.queue(at);
            } else if told.ended {
                *place = Hold {
                    next: self.free,
                    ..Hold::zeroed()
                };
                self.free = at;
                self.used -= 1;
            } else {
                place.flags &= !TELL;
            }
        }
    }

    /// How many connections of each home's templates there are, those included whose end has not been told.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<(u8, RecordId)> {
        let used = (1..=self.highest).map(|at| &self.places[at as usize]);
        let used = used.filter(|place| place.template != 0);
        used.map(|place| (place.home, RecordId(place.template))).collect()
    }
}

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// Tells the homes of templates what has become of connections.
    #[inline]
    pub(super) fn tell_homes(&mut self) {
        if self.holds.is_waiting() {
            self.go_on_telling();
        }
    }

    #[cold]
    #[inline(never)]
    fn go_on_telling(&mut self) {
        let (others, own) = (&self.others, self.number);
        self.holds.tell(|home, told| {
            let mailbox = others.mailbox(own, home);
            mailbox.is_some_and(|mailbox| mailbox.told.push(told).is_ok())
        });
    }

    /// Takes in what others tell of connections that this worker's templates hold.
    #[inline]
    pub(super) fn listen_to_holders(&mut self) {
        if !self.mailbox.told.is_empty() {
            self.hear_holders();
        }
    }

    #[cold]
    #[inline(never)]
    fn hear_holders(&mut self) {
        for _ in 0..BUDGET {
            let Some(told) = self.mailbox.told.pop() else {
                return;
            };
            let template = self.table.get_mut(RecordId(told.template));
            debug_assert!(template.is_template(), "it is there as long as it holds anything");
            if told.assured {
                template.assure();
            }
            if told.ended {
                debug_assert!(template.controlled() > 0, "more has ended than was held");
                template.control(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Add(u8, u32),
        Assure(usize),
        End(usize),
        /// With room in the mailboxes of these homes, a bit each.
        Tell(u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0u8..3, 1u32..4).prop_map(|(home, template)| Step::Add(home, template)),
            2 => any::<usize>().prop_map(Step::Assure),
            3 => any::<usize>().prop_map(Step::End),
            2 => any::<u8>().prop_map(Step::Tell),
        ];
        proptest::collection::vec(step, 0..300)
    }

    proptest! {
        /// Every end is told once, whatever has no room meanwhile; whoever is established is told so once, before or with
        /// its end; and every place is used again.
        #[test]
        fn nothing_is_lost_and_nothing_is_told_twice(steps in steps()) {
            const PLACES: u32 = 12;
            let mut holds = Holds::new(PLACES).unwrap();
            // Of each home and template: held as far as its home knows, and times it was assured.
            let mut known = HashMap::<(u8, u32), (u32, u32)>::new();
            let mut live: Vec<(u32, (u8, u32), bool)> = Vec::new();
            let mut assured = HashMap::<(u8, u32), u32>::new();
            let told = |holds: &mut Holds, known: &mut HashMap<(u8, u32), (u32, u32)>, room: u8| {
                holds.tell(|home, told| {
                    if room >> home & 1 == 0 {
                        return false;
                    }
                    let (held, times) = known.get_mut(&(home, told.template)).unwrap();
                    *held -= u32::from(told.ended);
                    *times += u32::from(told.assured);
                    true
                });
            };
            for step in steps {
                match step {
                    Step::Add(home, template) => {
                        let free = holds.free();
                        let place = holds.add(home, template);
                        prop_assert_eq!(place.is_some(), free > 0);
                        if let Some(place) = place {
                            prop_assert!(live.iter().all(|(other, ..)| *other != place));
                            live.push((place, (home, template), false));
                            known.entry((home, template)).or_default().0 += 1;
                        }
                    }
                    Step::Assure(which) if !live.is_empty() => {
                        let at = which % live.len();
                        let (place, of, before) = &mut live[at];
                        holds.assure(*place);
                        if !std::mem::replace(before, true) {
                            *assured.entry(*of).or_default() += 1;
                        }
                    }
                    Step::End(which) if !live.is_empty() => {
                        let (place, ..) = live.swap_remove(which % live.len());
                        holds.end(place);
                    }
                    Step::Assure(_) | Step::End(_) => {}
                    Step::Tell(room) => told(&mut holds, &mut known, room),
                }
                // A home never counts too few.
                for (of, (held, _)) in &known {
                    let really = live.iter().filter(|(_, other, _)| other == of).count();
                    prop_assert!(*held as usize >= really);
                }
            }
            told(&mut holds, &mut known, 0xff);
            prop_assert!(!holds.is_waiting());
            for (of, (held, times)) in &known {
                let really = live.iter().filter(|(_, other, _)| other == of).count();
                prop_assert_eq!(*held as usize, really);
                prop_assert_eq!(*times, assured.get(of).copied().unwrap_or(0));
            }
            prop_assert_eq!(holds.free() as usize, PLACES as usize - live.len());
        }
    }
}
