//! Instructions that the packet path executes for each packet: unlike nanoseconds they are the same on a busy machine
//! and on a quiet one, so that a change of a few per cent shows. `./scripts/test instructions` runs this.
//!
//! ```text
//! instructions FILE           counts, and holds the figures against those of the file
//! instructions FILE --bless   counts, and writes the file
//! instructions --rows         what is counted; the program runs itself like this under valgrind
//! ```
//!
//! It says nothing of cache misses, which are most of what a packet costs with many connections: `tidegate bench` is for
//! these. Valgrind's processor has AVX2 at the most, and no AVX-512: code that chooses by the processor takes the path
//! for that one.

// A whole program of tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod expected;
mod life;
mod ports;
mod rows;

#[allow(dead_code, reason = "shared with the worker's tests, which use more of it")]
#[path = "../../src/worker/tests/carried.rs"]
mod carried;
#[allow(dead_code, reason = "shared with the worker's tests, which use more of it")]
#[path = "../../src/worker/tests/frames.rs"]
mod frames;
#[allow(dead_code, reason = "shared with the worker's tests, which use more of it")]
#[path = "../../src/worker/tests/header.rs"]
mod header;
#[allow(dead_code, reason = "shared with the worker's tests, which use more of it")]
#[path = "../../src/worker/tests/plan.rs"]
mod plan;
#[allow(dead_code, reason = "shared with the worker's tests, which use more of it")]
#[path = "../../src/worker/tests/wire.rs"]
mod wire;

use expected::{BLESS, Compiler, Expected, Figure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Exit code: nothing was checked.
const SKIPPED: u8 = 77;
const USAGE: &str = "usage: instructions FILE [--bless] | --rows";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["--rows"] => {
            print_rows();
            Ok(0)
        }
        [file] => check(Path::new(file)),
        [file, "--bless"] => bless(Path::new(file)),
        _ => Err(USAGE.to_owned()),
    };
    outcome.map_or_else(
        |problem| {
            eprintln!("instructions: {problem}");
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

/// What runs under valgrind: each row's name and number of packets.
fn print_rows() {
    println!("{} {}", rows::MAC_SWAP, rows::count_mac_swap());
    row_ends();
    for row in &rows::ROWS {
        println!("{} {}", row.name, row.count());
        row_ends();
    }
}

/// Callgrind writes down what it has collected, and begins at zero, when it comes to this function.
#[inline(never)]
fn row_ends() {
    std::hint::black_box(());
}

fn check(file: &Path) -> Result<u8, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let expected = Expected::parse(&text).map_err(|problem| format!("{}: {problem}", file.display()))?;
    let compiler = compiler()?;
    if compiler.target != expected.compiler.target {
        println!(
            "SKIPPED: figures are recorded for {}, this is {}; nothing was checked",
            expected.compiler.target, compiler.target
        );
        return Ok(SKIPPED);
    }
    let figures = count()?;
    let verdict = expected.judge(&Expected { compiler, figures });
    print!("{}", verdict.table);
    for hint in &verdict.hints {
        println!("hint: {hint}");
    }
    if verdict.failures.is_empty() {
        return Ok(0);
    }
    Err(format!(
        "{}\nif that has to be, record the figures with {BLESS}, and say why in the commit",
        verdict.failures.join("\n")
    ))
}

fn bless(file: &Path) -> Result<u8, String> {
    let recorded = Expected {
        compiler: compiler()?,
        figures: count()?,
    };
    let text = recorded.print();
    std::fs::write(file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
    print!("{text}");
    Ok(0)
}

fn compiler() -> Result<Compiler, String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    Compiler::from_verbose(&text).ok_or_else(|| format!("rustc -vV says neither release nor host: {text}"))
}

/// Runs this program under valgrind, and reads what that has counted.
fn count() -> Result<Vec<Figure>, String> {
    let folder = Folder::new()?;
    let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let out = folder.0.join("counts");
    let rows = output(
        Command::new("valgrind")
            .args([
                "--quiet",
                "--tool=callgrind",
                "--toggle-collect=*counted_*",
                "--dump-before=*row_ends*",
            ])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(program)
            .arg("--rows"),
    )?;
    rows.lines()
        .zip(1..)
        .map(|(row, number)| figure(row, &out.with_extension(number.to_string())))
        .collect()
}

/// A row's figure, from the line that it printed and from callgrind's file.
fn figure(row: &str, file: &Path) -> Result<Figure, String> {
    let odd = || format!("valgrind counted nothing for {row:?} ({})", file.display());
    let (row, packets) = row.rsplit_once(' ').ok_or_else(odd)?;
    let text = std::fs::read_to_string(file).map_err(|_| odd())?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("summary: "))
        .ok_or_else(odd)?;
    let number = |text: &str| {
        text.trim()
            .parse::<f64>()
            .ok()
            .filter(|number| *number > 0.0)
            .ok_or_else(odd)
    };
    Ok(Figure {
        row: row.to_owned(),
        instructions: number(total)? / number(packets)?,
    })
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .map_err(|error| format!("{name}: {error}; ./scripts/setup installs it"))?;
    if !done.status.success() {
        return Err(format!(
            "{name}: {}\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A folder for callgrind's files, gone when this ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("tidegate-instructions.{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
