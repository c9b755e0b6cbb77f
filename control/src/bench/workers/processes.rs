//! As many gateways of one worker, each a process of its own: what several workers of one gateway are compared with. The
//! program starts itself; windows go in by standard input and what they cost comes out, a JSON object a line each.

use super::super::Options;
use super::Job;
use super::crew::Crew;
use super::window::{Sample, Samples, Window};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use dpdk::{Eal, Mempool};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What a process says when it is ready.
const READY: &str = "ready";

/// One of them.
struct Process {
    child: Child,
    /// None once it has been told to end.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// All of them.
pub(super) struct Processes {
    all: Vec<Process>,
}

impl Processes {
    /// Starts one on each of these CPUs, and waits until all have opened their flows.
    ///
    /// # Errors
    /// One does not start.
    pub(super) fn start(job: &Job, cpus: &[u16]) -> Result<Processes> {
        let all: Result<Vec<Process>> = cpus.iter().map(|&cpu| Process::start(job, cpu)).collect();
        let mut processes = Processes { all: all? };
        for process in &mut processes.all {
            let line = process.line()?;
            if line.trim_end() != READY {
                bail!("a process that is compared with says {line:?} instead of {READY:?}");
            }
        }
        Ok(processes)
    }

    /// Lets them turn for that window.
    ///
    /// # Errors
    /// One has ended.
    pub(super) fn window(&mut self, window: Window) -> Result<Samples> {
        let order = serde_json::to_string(&window)?;
        for process in &mut self.all {
            let orders = process.orders.as_mut().context(ENDED)?;
            writeln!(orders, "{order}").context(ENDED)?;
        }
        let samples = self.all.iter_mut().map(|process| {
            let line = process.line()?;
            serde_json::from_str(&line).with_context(|| format!("not a sample: {line:?}"))
        });
        samples.collect()
    }

    /// Ends them.
    ///
    /// # Errors
    /// One had to drop packets: it has said so.
    pub(super) fn finish(mut self) -> Result<()> {
        for process in &mut self.all {
            drop(process.orders.take());
            let status = process.child.wait()?;
            if !status.success() {
                bail!("{ENDED}: {status}");
            }
        }
        Ok(())
    }
}

const ENDED: &str = "a process that is compared with has ended";

impl Process {
    fn start(job: &Job, cpu: u16) -> Result<Process> {
        let named = |value: Option<clap::builder::PossibleValue>| {
            value.map_or(String::new(), |value| value.get_name().to_owned())
        };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "--alone-on", &cpu.to_string(), "--json", "--no-openings"])
            .args(["--workers", &job.workers.to_string()])
            .args(["--workers-per-cpu", if job.shares_cpus { "2" } else { "1" }])
            .args(["--flows", &job.flows.to_string()])
            .args(["--size", &job.shape.size.to_string()])
            .args(["--mode", &job.path.mode.to_string()])
            .args(["--family", &named(job.path.family.to_possible_value())])
            .args(["--distribution", &named(job.distribution.to_possible_value())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("this program cannot start itself")?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.context("no way from a process")?);
        Ok(Process {
            child,
            orders,
            answers,
        })
    }

    /// The next line that it says.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("{ENDED}");
        }
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends when nobody has orders for it.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// What such a process does: one worker, alone in its gateway, in the windows that it is told.
///
/// # Errors
/// Too little memory, or packets have been dropped.
pub(super) fn be_one(options: &Options, cpu: u16, eal: &Eal, pool: &Mempool) -> Result<()> {
    let job = Job::of(
        options,
        options.mode.unwrap_or(super::super::Mode::Fullnat),
        options.flows[0],
    );
    let mut crew = Crew::start(eal, pool, &job, &[cpu], &[0])?;
    println!("{READY}");
    for line in std::io::stdin().lines() {
        let window: Window = serde_json::from_str(&line?).context("not a window")?;
        let samples = crew.window(Window { order: 0, ..window })?;
        let sample = samples.first().copied().unwrap_or_else(Sample::default);
        println!("{}", serde_json::to_string(&sample)?);
    }
    crew.finish()
}
