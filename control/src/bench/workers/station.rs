//! The queues of one worker among several, in memory, and its rings to the others, which are those of the gateway. What
//! arrives was drawn before, requests and answers alike, so that nothing but a packet that the gateway hands over passes
//! from one CPU to another.

use super::super::flows::Flow;
use super::super::io::{Buffers, Servers, as_request};
use super::super::reflect::client_frame;
use super::super::request::{Request, Shape};
use super::exchanges::{Answers, Exchange, Reply, learn, write_marked};
use crate::engine::Rings;
use anyhow::{Context, Result};
use arrayvec::ArrayVec;
use dataplane::packet::{Packet, PortId};
use dataplane::worker::{Arrival, BURST, Io, PacketBurst};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that may wait for their answers: answers come one turn later, and neither takes all buffers.
const UNANSWERED: usize = 4 * BURST;

/// What arrives.
enum Talk {
    /// Nothing.
    Quiet,
    /// The first datagram of each flow.
    Opening {
        flows: Arc<[Flow]>,
        at: usize,
        learnt: Vec<Option<Reply>>,
    },
    /// Requests in this order, over and over, and each one's answer a turn later.
    Going {
        order: Arc<[Exchange]>,
        at: usize,
        answered: usize,
        /// Answers that are due, and those that will be with the next turn.
        due: usize,
        fresh: usize,
    },
}

/// The queues and the rings.
pub(super) struct Station<B: Buffers> {
    free: VecDeque<B::Packet>,
    length: usize,
    request: Request,
    /// What answers look like, and how long they are, once one is known.
    answers: Option<(Answers, usize)>,
    servers: Servers,
    talk: Talk,
    rings: Rings<B::Packet>,
    /// Where what the gateway says itself comes from; nobody listens to that.
    pool: B,
}

/// What was learnt from the first datagrams.
pub(super) struct Learnt {
    /// What answers have in common; none where there are no answers.
    pub(super) answers: Option<(Answers, usize)>,
    /// By the flows' order.
    pub(super) replies: Vec<Reply>,
}

impl<B: Buffers> Station<B> {
    /// Queues with so many frames of `pool`.
    ///
    /// # Errors
    /// The pool has too few of them.
    pub(super) fn new(
        pool: &B,
        frames: usize,
        shape: Shape,
        servers: Servers,
        rings: Rings<B::Packet>,
    ) -> Result<Station<B>> {
        let empty = vec![0; shape.len()];
        let frame = |_| pool.frame(&empty).context("packet buffers have run out");
        Ok(Station {
            free: (0..frames).map(frame).collect::<Result<_>>()?,
            length: shape.len(),
            request: Request::new(shape),
            answers: None,
            servers,
            talk: Talk::Quiet,
            rings,
            pool: pool.clone(),
        })
    }

    /// From now on each of these flows begins.
    pub(super) fn open(&mut self, flows: Arc<[Flow]>) {
        let learnt = vec![None; flows.len()];
        self.talk = Talk::Opening { flows, at: 0, learnt };
    }

    /// What was learnt of the flows that have begun.
    ///
    /// # Errors
    /// Not all of them have come through.
    pub(super) fn learnt(&mut self) -> Result<Learnt> {
        let Talk::Opening { flows, learnt, .. } = std::mem::replace(&mut self.talk, Talk::Quiet) else {
            anyhow::bail!("no flow has begun");
        };
        let replies = match self.servers {
            Servers::Silent => vec![Reply::default(); flows.len()],
            Servers::Answer => {
                let all: Option<Vec<Reply>> = learnt.into_iter().collect();
                all.context("not every flow reaches a server")?
            }
        };
        let answers = self.answers.clone();
        Ok(Learnt { answers, replies })
    }

    /// From now on this order goes round. `answers` is what any worker has learnt: the others' are the same.
    pub(super) fn go(&mut self, order: Arc<[Exchange]>, answers: &Option<(Answers, usize)>) {
        self.answers.clone_from(answers);
        self.talk = Talk::Going {
            order,
            at: 0,
            answered: 0,
            due: 0,
            fresh: 0,
        };
    }

    /// From now on nothing arrives.
    pub(super) fn rest(&mut self) {
        self.talk = Talk::Quiet;
    }

    /// Takes out all frames.
    pub(super) fn take_frames(&mut self) -> impl Iterator<Item = B::Packet> {
        self.free.drain(..)
    }

    /// Puts frames in.
    pub(super) fn put_frames(&mut self, frames: impl IntoIterator<Item = B::Packet>) {
        self.free.extend(frames);
    }

    /// How many frames wait to be sent by clients or servers.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    fn requests(&mut self, burst: &mut PacketBurst<B::Packet>) {
        let most = burst.remaining_capacity().min(self.free.len());
        let request = &self.request;
        match &mut self.talk {
            Talk::Quiet => {}
            Talk::Opening { flows, at, .. } => {
                let count = most.min(flows.len() - *at);
                for (mut frame, number) in self.free.drain(..count).zip(*at..) {
                    write_marked(request, &flows[number], number as u32, frame.bytes_mut());
                    burst.push(frame);
                }
                *at += count;
            }
            Talk::Going {
                order,
                at,
                due,
                fresh,
                ..
            } => {
                *due += std::mem::take(fresh);
                if *due > UNANSWERED {
                    return;
                }
                let count = most.min(order.len() - *at);
                for (mut frame, exchange) in self.free.drain(..count).zip(&order[*at..]) {
                    request.write(&exchange.flow, frame.bytes_mut());
                    burst.push(frame);
                }
                *at = if *at + count == order.len() {
                    0
                } else {
                    *at + count
                };
                if self.servers == Servers::Answer {
                    *fresh = count;
                }
            }
        }
    }

    fn replies(&mut self, burst: &mut PacketBurst<B::Packet>) {
        let (
            Talk::Going {
                order, answered, due, ..
            },
            Some((answers, length)),
        ) = (&mut self.talk, &self.answers)
        else {
            return;
        };
        let most = burst.remaining_capacity().min(self.free.len());
        let count = most.min(*due).min(order.len() - *answered);
        for (mut frame, exchange) in self.free.drain(..count).zip(&order[*answered..]) {
            // Only where servers have IPv4 and clients IPv6: the front, so that there is room for it again.
            if *length < self.length {
                frame.trim_front(self.length - *length);
            }
            answers.write(&exchange.reply, frame.bytes_mut());
            burst.push(frame);
        }
        *due -= count;
        *answered = if *answered + count == order.len() {
            0
        } else {
            *answered + count
        };
    }

    /// Notes what the server would answer.
    fn learn_from(&mut self, frame: &mut B::Packet) {
        let length = frame.bytes().len();
        let Talk::Opening { learnt, .. } = &mut self.talk else {
            return;
        };
        let found = client_frame(frame).and_then(|(bytes, l4)| learn(bytes, l4));
        let Some((number, answers, reply)) = found else {
            return;
        };
        let known = self.answers.get_or_insert((answers.clone(), length));
        // One that looks different stays unknown, and is missed in the end.
        if *known == (answers, length)
            && let Some(learnt) = learnt.get_mut(number as usize)
        {
            *learnt = Some(reply);
        }
    }
}

impl<B: Buffers> Io for Station<B> {
    type Packet = B::Packet;

    #[inline]
    fn receive(&mut self, port: PortId, burst: &mut PacketBurst<B::Packet>) {
        if port == PortId(0) {
            self.requests(burst);
        } else {
            self.replies(burst);
        }
    }

    #[inline]
    fn transmit(&mut self, port: PortId, burst: &mut PacketBurst<B::Packet>) {
        let opening =
            port == PortId(1) && self.servers == Servers::Answer && matches!(self.talk, Talk::Opening { .. });
        for mut frame in burst.drain(..) {
            if client_frame(&mut frame).is_none() {
                continue;
            }
            if opening {
                self.learn_from(&mut frame);
            }
            as_request(&mut frame, &self.request, self.length);
            self.free.push_back(frame);
        }
    }

    fn allocate(&mut self) -> Option<B::Packet> {
        self.pool.frame(&[])
    }

    fn allocate_large(&mut self) -> Option<B::Packet> {
        None
    }

    #[inline]
    fn hand_over(&mut self, worker: u8, arrival: Arrival, packet: B::Packet) -> Result<(), B::Packet> {
        self.rings.hand_over(worker, arrival, packet)
    }

    #[inline]
    fn take_over(&mut self, burst: &mut ArrayVec<(Arrival, B::Packet), BURST>) {
        self.rings.take_over(burst);
    }
}
