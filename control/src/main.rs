//! Temporary.
fn main() {
    let path = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let config = tidegate::config::load(&path).unwrap();
    let running = tidegate::engine::start(&path, config).unwrap();
    let stats = running.gateway.workers()[0].stats.clone();
    loop {
        std::thread::sleep(std::time::Duration::from_secs(2));
        let drops: Vec<_> = dataplane::drops::DropReason::ALL
            .iter()
            .filter(|r| stats.drops[**r as usize].get() > 0)
            .map(|r| (r.label(), stats.drops[*r as usize].get()))
            .collect();
        println!(
            "rx {} tx {} held {} conns {} {:?}",
            stats.received.get(),
            stats.sent.get(),
            stats.held.get(),
            stats.connections.get(),
            drops
        );
    }
}
