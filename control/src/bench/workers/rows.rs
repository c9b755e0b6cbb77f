//! What several workers cost, as lines of a table or as JSON.

use super::super::Distribution;
use super::super::measure::Cost;
use super::super::report::Mode;
use super::super::request::Family;
use super::Job;
use super::window::{Ratio, Windows, ratio};
use std::fmt;

/// The heading of [`Row`]'s lines.
pub(super) const HEADING: &str = "\
mode    ip    flows  frame  what       arrive elsewhere  worker  CPU  ns/packet  median  busy    Mpps  hops/packet  ns/hop  median";

/// One worker, or all of them.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Part {
    /// Its CPU; none for all.
    cpu: Option<u16>,
    /// CPU time for each packet that was sent, ns, less that of idle turns.
    packet: Cost,
    /// Which part of that time went into turns with packets.
    busy: f64,
    /// Packets in a microsecond by the clock, best window.
    mpps: f64,
    /// How often a packet is handed over.
    hops_per_packet: f64,
}

impl Part {
    fn of(windows: &Windows, worker: Option<usize>, cpu: Option<u16>) -> Part {
        Part {
            cpu,
            packet: windows.cost(worker),
            busy: windows.busy(worker),
            mpps: windows.mpps(worker),
            hops_per_packet: windows.hops(worker),
        }
    }
}

/// Several workers over the same packets.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Row {
    mode: Mode,
    family: Family,
    /// Of each worker.
    flows: u32,
    distribution: Distribution,
    /// Bytes of a frame from a client.
    frame: usize,
    /// `workers` of one gateway, or `processes`: as many gateways of one.
    what: &'static str,
    workers: usize,
    /// Of a hundred packets, how many arrive at another worker than their own.
    hops: u8,
    each: Vec<Part>,
    all: Part,
    /// What a hop adds, ns, where there are hops.
    hop: Option<Cost>,
    /// How the workers of one gateway do beside those processes.
    ratio: Option<Ratio>,
}

impl Row {
    fn new(job: &Job, cpus: &[u16], windows: &Windows, what: &'static str) -> Row {
        let each = cpus.iter().enumerate();
        Row {
            mode: job.path.mode,
            family: job.path.family,
            flows: job.flows,
            distribution: job.distribution,
            frame: job.shape.len(),
            what,
            workers: cpus.len(),
            hops: 0,
            each: each
                .map(|(at, &cpu)| Part::of(windows, Some(at), Some(cpu)))
                .collect(),
            all: Part::of(windows, None, None),
            hop: None,
            ratio: None,
        }
    }

    /// Workers of one gateway; `home` are windows in which each packet arrived at its own worker.
    pub(super) fn workers(job: &Job, cpus: &[u16], hops: u8, windows: &Windows, home: &Windows) -> Row {
        let mut row = Row::new(job, cpus, windows, "workers");
        row.hops = hops;
        let (all, without) = (row.all, home.cost(None));
        row.hop = (hops > 0).then(|| Cost {
            best: (all.packet.best - without.best) / all.hops_per_packet,
            median: (all.packet.median - without.median) / all.hops_per_packet,
        });
        row
    }

    /// Gateways of one worker, which those of `home` are compared with.
    pub(super) fn processes(job: &Job, cpus: &[u16], windows: &Windows, home: &Windows) -> Row {
        let mut row = Row::new(job, cpus, windows, "processes");
        row.ratio = Some(ratio(home, windows));
        row
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, worker: &str, part: &Part) -> fmt::Result {
        let cpu = part.cpu.map_or("-".to_owned(), |cpu| cpu.to_string());
        write!(
            f,
            "{:<7} {:>2} {:>8}  {:>5}  {:<9}  {:>14} %  {worker:>6}  {cpu:>3}  {:>9.1} {:>7.1}  {:>4.2} {:>7.2}  {:>11.2}",
            self.mode.to_string(),
            self.family.text(),
            self.flows,
            self.frame,
            self.what,
            self.hops,
            part.packet.best,
            part.packet.median,
            part.busy,
            part.mpps,
            part.hops_per_packet,
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.each.iter().enumerate() {
            self.line(f, &number.to_string(), part)?;
            writeln!(f, "  {:>6}  {:>6}", "-", "-")?;
        }
        self.line(f, "all", &self.all)?;
        match self.hop {
            Some(hop) => write!(f, "  {:>6.1}  {:>6.1}", hop.best, hop.median)?,
            None => write!(f, "  {:>6}  {:>6}", "-", "-")?,
        }
        if let Some(ratio) = self.ratio {
            write!(
                f,
                "\nrate of the workers over that of the processes: {:.3} of best windows, {:.3} in the median pair; by the clock {:.3}",
                ratio.best, ratio.median, ratio.mpps
            )?;
        }
        Ok(())
    }
}
