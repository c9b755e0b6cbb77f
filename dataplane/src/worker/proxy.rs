//! The header of the PROXY protocol in TCP connections to servers of FULLNAT: the work of [`stream`] on their packets,
//! and the segments that it calls for. Off the straight way: asked for by SYNs, until the server has acknowledged the
//! header, and by the wheel.

use super::schedule::Refusal;
use super::{Io, Worker};
use crate::drops::DropReason;
use crate::flow::{Direction, FlowIndex, Hit, RecordId};
use crate::forward::proxy::header;
use crate::forward::proxy::stream::{self, Due, Stage, Step};
use crate::packet::{Headers, Kind, Packet, craft, ipv4, ipv6, rewrite, tcp};
use crate::time::Tick;

impl<I: Io, X: FlowIndex> Worker<I, X> {
    /// A new connection whose server is to be sent a header. Where what that takes has no room, there is no connection.
    pub(super) fn begin_header(&mut self, id: RecordId) -> Result<(), Refusal> {
        match self.table.extend(id) {
            Some(extension) => {
                stream::begin(&mut extension.proxy);
                Ok(())
            }
            None => {
                self.close(id);
                Err(DropReason::TableFull.into())
            }
        }
    }

    /// A segment with SYN of a connection that has an extension. Its new headers when it has lost its data.
    pub(super) fn adjust_syn_for_header(
        &mut self,
        hit: Hit,
        packet: &mut I::Packet,
        headers: &Headers,
    ) -> Option<Headers> {
        let now = self.now;
        let (record, extension) = self.table.extended_mut(hit.id)?;
        if stream::stage(&extension.proxy) == Stage::None {
            return None;
        }
        let (_, segment) = rewrite::split(packet.bytes_mut(), headers)?;
        match hit.direction {
            Direction::Inbound => {
                stream::ask(record, &mut extension.proxy, segment);
                tcp::cut_data(packet, headers)
            }
            Direction::Outbound => {
                let step = stream::hear_answer(record, &mut extension.proxy, segment, now);
                self.step(hit.id, step);
                None
            }
        }
    }

    /// Any other segment of a connection whose server is being sent its header, before it is rewritten.
    pub(super) fn follow_header(&mut self, hit: Hit, frame: &mut [u8], headers: &Headers) {
        let now = self.now;
        let Some((record, extension)) = self.table.extended_mut(hit.id) else {
            return;
        };
        let Some((ip, segment)) = rewrite::split(frame, headers) else {
            return;
        };
        let stream = &mut extension.proxy;
        let step = match hit.direction {
            Direction::Outbound => stream::hear(record, stream, segment, now),
            Direction::Inbound => {
                let class = match headers.kind {
                    Kind::Flow6 => ipv6::traffic_class(ip),
                    _ => ipv4::tos(ip),
                };
                stream::say(record, stream, segment, class, now)
            }
        };
        self.step(hit.id, step);
    }

    /// The wheel asks about a connection that has time left. The caller arms it again.
    #[inline]
    pub(super) fn look_after_header(&mut self, id: RecordId) {
        if !self.table.get(id).is_proxying() {
            return;
        }
        let Some((record, extension)) = self.table.extended_mut(id) else {
            return;
        };
        match stream::look(record, &mut extension.proxy, self.now) {
            Due::Nothing => {}
            Due::Resend => self.send_header(id, true),
            Due::GiveUp => self.stats.proxy_headers_unacknowledged.add(1),
        }
    }

    /// Arms the timer of a connection that has time until `deadline`: for an earlier time if its header may then have to be
    /// sent again. All that arms a connection again has to come here.
    #[inline]
    pub(super) fn arm(&mut self, id: RecordId, deadline: Tick) {
        let record = self.table.get(id);
        let mut at = deadline;
        if record.is_proxying()
            && let Some(extension) = self.table.extension(record)
            && let Some(look) = stream::next_look(record, &extension.proxy)
            && deadline.reached(look)
        {
            at = look;
        }
        self.wheel.insert(self.table.records_mut(), id, at);
    }

    /// Does what a segment calls for, and arms the timer for the time after that.
    fn step(&mut self, id: RecordId, step: Step) {
        if step == Step::Pass {
            return;
        }
        self.send_header(id, step == Step::Resend);
        let record = self.table.get(id);
        let deadline = self.snapshot.timeouts_of(record).deadline(record);
        self.arm(id, deadline);
    }

    /// Sends the header's segment, counted when there is one. Without a buffer it is as good as lost, and the timer repairs
    /// that.
    fn send_header(&mut self, id: RecordId, again: bool) {
        let direction = Direction::Inbound;
        let Ok(neighbour) = self.neighbour_of(Hit { id, direction }) else {
            return;
        };
        let record = self.table.get(id);
        let Some(extension) = self.table.extension(record) else {
            return;
        };
        let (segment, header) = stream::segment(&self.table.ends(record), &extension.proxy);
        let mut bytes = [0; header::MOST];
        let len = header.write(&mut bytes);
        let Some(packet) = self.fresh(|out| craft::tcp_segment(out, &segment, &bytes[..len])) else {
            return;
        };
        let count = if again {
            &self.stats.proxy_headers_resent
        } else {
            &self.stats.proxy_headers_sent
        };
        count.add(1);
        self.resolve(neighbour, packet);
    }
}
