//! What the kernel's table refuses, in the words that ipvsadm has for it. The model returns these; the parser never.

/// Why the table does not take a well-formed command. The exit status is [`Refusal::EXIT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// `-A` of a service that is there.
    #[error("Service already exists")]
    ServiceExists,
    /// `-E`, `-D` of a service that is not.
    #[error("No such service")]
    NoSuchService,
    /// `-a`, `-e`, `-d` on a service that is not there.
    #[error("Service not defined")]
    ServiceNotDefined,
    /// `-a` of a server that is there.
    #[error("Destination already exists")]
    ServerExists,
    /// `-e`, `-d` of a server that is not.
    #[error("No such destination")]
    NoSuchServer,
    /// A scheduler or persistence engine of this name does not exist.
    #[error("Scheduler or persistence engine not found")]
    NoSuchScheduler,
    /// The lower threshold is above the upper one.
    #[error("Numerical result out of range")]
    OutOfRange,
    /// A server's address that cannot be one: multicast, broadcast or zero.
    #[error("Invalid operation.  Possibly wrong module version, address not unicast, ...")]
    NotUnicast,
}

impl Refusal {
    /// The exit status of a refused command.
    pub const EXIT: u8 = 255;
}
