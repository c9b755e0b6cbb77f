//! The smallest forwarder: swaps the MAC addresses of each frame and sends it on, to the other port or back.
//! It is the floor that the gateway's own cost is compared with.
//!
//! ```text
//! macswap --vdev net_tap0,iface=tap0 [--vdev ...] [--seconds N] [--packets N] [--inject N] [--hugepages]
//!         [--driver PATH] [--cpu N] [--bounce]
//! ```

use std::error::Error;
use std::process::ExitCode;

use arrayvec::ArrayVec;
use dpdk::{
    Burst, Eal, EalOptions, Hugepages, LogLevel, Mbuf, Mempool, Port, PortOptions, RxQueue, TxQueue, clock,
    mbuf,
};

const USAGE: &str = "usage: macswap --vdev DEVICE [--vdev DEVICE] [--seconds N] [--packets N] [--inject N] \
                     [--hugepages] [--driver PATH] [--cpu N] [--bounce]";

/// What was asked on the command line.
#[derive(Default)]
struct Arguments {
    devices: Vec<String>,
    drivers: Vec<String>,
    seconds: Option<u64>,
    packets: Option<u64>,
    inject: usize,
    hugepages: bool,
    bounce: bool,
    cpu: Option<usize>,
}

impl Arguments {
    fn parse() -> Result<Arguments, Box<dyn Error>> {
        let mut parsed = Arguments::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(USAGE);
            match word.as_str() {
                "--vdev" | "--device" => parsed.devices.push(value()?),
                "--driver" => parsed.drivers.push(value()?),
                "--seconds" => parsed.seconds = Some(value()?.parse()?),
                "--packets" => parsed.packets = Some(value()?.parse()?),
                "--inject" => parsed.inject = value()?.parse()?,
                "--cpu" => parsed.cpu = Some(value()?.parse()?),
                "--hugepages" => parsed.hugepages = true,
                "--bounce" => parsed.bounce = true,
                _ => return Err(USAGE.into()),
            }
        }
        if !(1..=2).contains(&parsed.devices.len()) {
            return Err(USAGE.into());
        }
        Ok(parsed)
    }
}

/// What the loop did.
#[derive(Default)]
struct Totals {
    packets: u64,
    unsent: u64,
    /// Counts of the clock spent on frames, polls that found none left out.
    busy: u64,
    /// The least that one window of frames took: what is left when nobody else wants the CPU.
    best: Option<u64>,
}

/// Frames in a window.
const WINDOW: u64 = 1 << 15;

/// One direction: from a queue to a queue.
struct Path {
    from: RxQueue,
    to: TxQueue,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("macswap: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse()?;
    let eal = Eal::init(&EalOptions {
        program: "macswap".to_owned(),
        hugepages: if arguments.hugepages {
            Hugepages::Mb(128)
        } else {
            Hugepages::Off
        },
        memory_mb: 128,
        lcores: arguments.cpu.map(|cpu| format!("0@{cpu}")),
        drivers: arguments.drivers.clone(),
        log: Some(|level, line| {
            if level <= LogLevel::Warning {
                eprintln!("{line}");
            }
        }),
        ..EalOptions::default()
    })?;
    let pool = Mempool::new(&eal, "macswap", 16383, 256, Mempool::DEFAULT_DATA_ROOM, None)?;
    let mut ports = Vec::new();
    for device in &arguments.devices {
        let id = eal.probe(device)?;
        let options = PortOptions {
            promiscuous: true,
            ..PortOptions::new(pool.clone())
        };
        ports.push(Port::configure(&eal, id, &options)?);
    }
    let mut paths = paths(&mut ports, arguments.bounce)?;
    for path in &mut paths {
        inject(&pool, &mut path.to, arguments.inject);
    }
    for port in &ports {
        eprintln!(
            "{}: {}, link up: {}",
            port.info().device,
            port.driver_name(),
            port.link_up()
        );
    }
    let totals = forward(&arguments, &eal, &mut paths);
    report(&eal, &ports, &totals);
    paths.iter_mut().for_each(drain);
    Ok(())
}

/// Starts the ports. Frames go from each one to the next, or back to where they came from.
fn paths(ports: &mut [Port], bounce: bool) -> Result<Vec<Path>, Box<dyn Error>> {
    let mut receive = Vec::new();
    let mut transmit = Vec::new();
    for port in ports {
        let (mut rx, mut tx) = port.start()?;
        receive.append(&mut rx);
        transmit.append(&mut tx);
    }
    if !bounce {
        transmit.reverse();
    }
    Ok(receive
        .into_iter()
        .zip(transmit)
        .map(|(from, to)| Path { from, to })
        .collect())
}

/// Frames to begin with, for devices that give back what they are sent.
fn inject(pool: &Mempool, to: &mut TxQueue, count: usize) {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    let mut left = count;
    while left > 0 {
        let mut burst: Burst = (0..left.min(32)).map_while(|_| pool.alloc_from(&frame)).collect();
        left -= left.min(32);
        to.burst(&mut burst);
    }
}

/// Takes out what still circulates: net_ring would lose it when it is closed. Devices that make frames never run
/// dry, hence the bound.
fn drain(path: &mut Path) {
    let mut burst = Burst::new();
    for _ in 0..64 {
        path.from.burst(&mut burst);
        mbuf::free_all(&mut burst);
    }
}

fn forward(arguments: &Arguments, eal: &Eal, paths: &mut [Path]) -> Totals {
    let hz = clock::hz(eal);
    let start = clock::now();
    let until = arguments.seconds.map(|seconds| seconds.saturating_mul(hz));
    let mut totals = Totals::default();
    let mut window = (0, 0);
    let mut burst: Burst = ArrayVec::new();
    loop {
        for path in &mut *paths {
            let began = clock::now();
            let received = path.from.burst(&mut burst);
            if received == 0 {
                continue;
            }
            burst.iter().for_each(Mbuf::prefetch);
            burst.iter_mut().for_each(swap);
            path.to.burst(&mut burst);
            totals.unsent += burst.len() as u64;
            mbuf::free_all(&mut burst);
            totals.packets += received as u64;
            totals.busy += clock::now().wrapping_sub(began);
            if totals.packets - window.0 >= WINDOW {
                let took = (totals.busy - window.1) * WINDOW / (totals.packets - window.0);
                totals.best = Some(totals.best.map_or(took, |best| best.min(took)));
                window = (totals.packets, totals.busy);
            }
        }
        let late = until.is_some_and(|until| clock::now().wrapping_sub(start) >= until);
        if late || arguments.packets.is_some_and(|packets| totals.packets >= packets) {
            return totals;
        }
    }
}

#[inline]
fn swap(frame: &mut Mbuf) {
    if let Some((addresses, _)) = frame.bytes_mut().split_first_chunk_mut::<12>() {
        let (destination, source) = addresses.split_at_mut(6);
        destination.swap_with_slice(source);
    }
}

fn report(eal: &Eal, ports: &[Port], totals: &Totals) {
    let per_ns = clock::hz(eal) as f64 / 1e9;
    let mean = totals.busy as f64 / per_ns / totals.packets.max(1) as f64;
    let best = totals
        .best
        .map_or(mean, |best| best as f64 / per_ns / WINDOW as f64);
    println!(
        "packets {} unsent {} ns/packet {mean:.1} best window {best:.1}",
        totals.packets, totals.unsent
    );
    for port in ports {
        if let Ok(stats) = port.stats() {
            println!("{}: {stats:?}", port.info().device);
        }
    }
}
