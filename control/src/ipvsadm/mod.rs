//! ipvsadm's command line: the text of ipvsadm 1.31 becomes a typed [`Command`], or the error that the real tool
//! gives, word for word and with its exit status. The `tidegate ipvsadm` command, `tidegate replay` and the golden
//! tests call it. It applies nothing, looks up no names and knows nothing of the present table: what the kernel
//! would refuse is the model's to refuse, with the texts of [`Refusal`].
//!
//! Beyond ipvsadm there are `--fullnat` (a forwarding method) and `--local-addresses NAME` (of a service).

mod command;
mod draft;
mod options;
mod refusal;
mod rules;
mod scanner;
mod values;

pub use command::{
    Command, Endpoint, Family, Forwarding, Mask, Persistence, Protocol, SchedulerFlags, Server, Service,
    ServiceId, Tunnel, TunnelChecksum,
};
pub use refusal::Refusal;

use draft::Draft;
use options::{Kind, Verb};
use scanner::{BadWord, Scanner};

/// Why a command line means nothing. Printed as `message` and a newline on standard error.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct UsageError {
    /// The exit status: 2 for what ipvsadm itself checks, 255 for words that are no options.
    pub exit: u8,
    /// What ipvsadm says, without the last newline.
    pub message: String,
}

impl UsageError {
    fn new(message: impl Into<String>) -> UsageError {
        UsageError {
            exit: 2,
            message: message.into(),
        }
    }

    fn no_command() -> UsageError {
        let message = "Try `ipvsadm -h' or 'ipvsadm --help' for more information.".to_owned();
        UsageError { exit: 255, message }
    }
}

impl From<BadWord<'_>> for UsageError {
    fn from(bad: BadWord<'_>) -> UsageError {
        UsageError {
            exit: 255,
            message: format!("{}: {}", bad.word, bad.fault),
        }
    }
}

/// Reads the arguments of one ipvsadm command, without the program's name.
///
/// # Errors
/// What ipvsadm 1.31 would print, and its exit status. Commands that only show something (`-L`, `-S`) or that this
/// gateway has no counterpart for are refused with a pointer to what there is.
pub fn parse(args: &[&str]) -> Result<Command, UsageError> {
    let mut scanner = Scanner::new(args);
    let verb = match scanner.next() {
        Some(Ok(found)) => match found.spec.kind {
            Kind::Verb(verb) => verb,
            _ => return Err(UsageError::no_command()),
        },
        None if args.is_empty() => Verb::List,
        _ => return Err(UsageError::no_command()),
    };
    rules::supported(verb)?;
    let mut draft = Draft::default();
    while let Some(found) = scanner.next() {
        draft.take(&found?)?;
    }
    let mut rest = scanner.rest.into_iter();
    let timeouts = if verb == Verb::Set {
        Some(draft::timeouts(&mut rest)?)
    } else {
        None
    };
    if let Some(extra) = rest.next() {
        return Err(UsageError::new(format!("unexpected argument {extra}")));
    }
    draft.resolve_flags()?;
    rules::check(verb, draft.seen())?;
    match timeouts {
        Some([tcp, tcp_fin, udp]) => Ok(Command::SetTimeouts { tcp, tcp_fin, udp }),
        None => draft.finish(verb),
    }
}

/// Reads one line such as `ipvsadm -A -t 10.0.0.100:80`; the program's name may be missing, as in the lines that
/// `ipvsadm -S` writes.
///
/// # Errors
/// As [`parse`], and for a quote that does not end.
pub fn parse_line(line: &str) -> Result<Command, UsageError> {
    let words = words(line)?;
    let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
    if args.first() == Some(&"ipvsadm") {
        args.remove(0);
    }
    parse(&args)
}

/// Cuts a line at blanks; quotes, single or double, hold a word together.
fn words(line: &str) -> Result<Vec<String>, UsageError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(UsageError::new(format!("the quote {quote} does not end"))),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests;
