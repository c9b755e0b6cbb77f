//! The option table: every option of ipvsadm 1.31 and ours, with what it is and whether it has a value.

/// The verbs: exactly one, and the first option of the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    AddService,
    EditService,
    DeleteService,
    Flush,
    AddServer,
    EditServer,
    DeleteServer,
    Set,
    Restore,
    Save,
    List,
    Zero,
    StartDaemon,
    StopDaemon,
    Help,
    Version,
}

impl Verb {
    /// As error messages name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verb::AddService => "add-service",
            Verb::EditService => "edit-service",
            Verb::DeleteService => "delete-service",
            Verb::Flush => "flush",
            Verb::AddServer => "add-server",
            Verb::EditServer => "edit-server",
            Verb::DeleteServer => "delete-server",
            Verb::Set => "set",
            Verb::Restore => "restore",
            Verb::Save => "save",
            Verb::List => "list",
            Verb::Zero => "zero",
            Verb::StartDaemon => "start-daemon",
            Verb::StopDaemon => "stop-daemon",
            Verb::Help => "help",
            Verb::Version => "version",
        }
    }
}

/// Groups of options that exclude each other and are reported under one name. Their order is the order in
/// which ipvsadm checks them, so that of several faults the same one is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Group {
    Numeric,
    Connection,
    ServiceAddress,
    Scheduler,
    Persistent,
    Netmask,
    RealServer,
    ForwardingMethod,
    Weight,
    UThreshold,
    LThreshold,
    McastInterface,
    Timeout,
    Daemon,
    Stats,
    Rate,
    Thresholds,
    PersistentConn,
    Nosort,
    Syncid,
    Exact,
    Ops,
    Pe,
    SchedFlags,
    McastAddress,
    McastPort,
    McastTtl,
    SyncMaxlen,
    TunInfo,
    TunType,
    TunPort,
    TunNocsum,
    TunCsum,
    TunRemcsum,
    LocalAddresses,
}

impl Group {
    #[rustfmt::skip]
    pub(super) const ALL: [Group; 35] = [
        Group::Numeric, Group::Connection, Group::ServiceAddress, Group::Scheduler, Group::Persistent,
        Group::Netmask, Group::RealServer, Group::ForwardingMethod, Group::Weight, Group::UThreshold,
        Group::LThreshold, Group::McastInterface, Group::Timeout, Group::Daemon, Group::Stats, Group::Rate,
        Group::Thresholds, Group::PersistentConn, Group::Nosort, Group::Syncid, Group::Exact, Group::Ops,
        Group::Pe, Group::SchedFlags, Group::McastAddress, Group::McastPort, Group::McastTtl,
        Group::SyncMaxlen, Group::TunInfo, Group::TunType, Group::TunPort, Group::TunNocsum, Group::TunCsum,
        Group::TunRemcsum, Group::LocalAddresses,
    ];

    /// As error messages name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Group::ServiceAddress => "service-address",
            Group::ForwardingMethod => "forwarding-method",
            other => OPTIONS
                .iter()
                .find(|option| option.kind == Kind::Option(other))
                .map_or("option", |option| option.long),
        }
    }
}

/// What an option is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Verb(Verb),
    Option(Group),
    /// `-6`
    Ipv6,
    /// `--sort`, which does nothing.
    Ignored,
}

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    None,
    Required,
    /// The next word, when it does not start with a dash.
    Optional,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) short: Option<char>,
    pub(super) long: &'static str,
    pub(super) kind: Kind,
    pub(super) value: Value,
}

const fn row(short: Option<char>, long: &'static str, kind: Kind, value: Value) -> Spec {
    Spec {
        short,
        long,
        kind,
        value,
    }
}

/// Every option.
#[rustfmt::skip]
pub(super) static OPTIONS: &[Spec] = &[
    row(Some('A'), "add-service", Kind::Verb(Verb::AddService), Value::None),
    row(Some('E'), "edit-service", Kind::Verb(Verb::EditService), Value::None),
    row(Some('D'), "delete-service", Kind::Verb(Verb::DeleteService), Value::None),
    row(Some('C'), "clear", Kind::Verb(Verb::Flush), Value::None),
    row(Some('a'), "add-server", Kind::Verb(Verb::AddServer), Value::None),
    row(Some('e'), "edit-server", Kind::Verb(Verb::EditServer), Value::None),
    row(Some('d'), "delete-server", Kind::Verb(Verb::DeleteServer), Value::None),
    row(None, "set", Kind::Verb(Verb::Set), Value::None),
    row(Some('R'), "restore", Kind::Verb(Verb::Restore), Value::None),
    row(Some('S'), "save", Kind::Verb(Verb::Save), Value::None),
    row(Some('L'), "list", Kind::Verb(Verb::List), Value::None),
    row(Some('l'), "list", Kind::Verb(Verb::List), Value::None),
    row(Some('Z'), "zero", Kind::Verb(Verb::Zero), Value::None),
    row(None, "start-daemon", Kind::Verb(Verb::StartDaemon), Value::Required),
    row(None, "stop-daemon", Kind::Verb(Verb::StopDaemon), Value::Required),
    row(Some('h'), "help", Kind::Verb(Verb::Help), Value::None),
    row(Some('v'), "version", Kind::Verb(Verb::Version), Value::None),
    row(Some('t'), "tcp-service", Kind::Option(Group::ServiceAddress), Value::Required),
    row(Some('u'), "udp-service", Kind::Option(Group::ServiceAddress), Value::Required),
    row(None, "sctp-service", Kind::Option(Group::ServiceAddress), Value::Required),
    row(Some('f'), "fwmark-service", Kind::Option(Group::ServiceAddress), Value::Required),
    row(Some('6'), "ipv6", Kind::Ipv6, Value::None),
    row(Some('s'), "scheduler", Kind::Option(Group::Scheduler), Value::Required),
    row(None, "pe", Kind::Option(Group::Pe), Value::Required),
    row(Some('p'), "persistent", Kind::Option(Group::Persistent), Value::Optional),
    row(Some('M'), "netmask", Kind::Option(Group::Netmask), Value::Required),
    row(Some('r'), "real-server", Kind::Option(Group::RealServer), Value::Required),
    row(Some('m'), "masquerading", Kind::Option(Group::ForwardingMethod), Value::None),
    row(Some('i'), "ipip", Kind::Option(Group::ForwardingMethod), Value::None),
    row(Some('g'), "gatewaying", Kind::Option(Group::ForwardingMethod), Value::None),
    row(None, "fullnat", Kind::Option(Group::ForwardingMethod), Value::None),
    row(Some('w'), "weight", Kind::Option(Group::Weight), Value::Required),
    row(Some('x'), "u-threshold", Kind::Option(Group::UThreshold), Value::Required),
    row(Some('y'), "l-threshold", Kind::Option(Group::LThreshold), Value::Required),
    row(Some('b'), "sched-flags", Kind::Option(Group::SchedFlags), Value::Required),
    row(Some('o'), "ops", Kind::Option(Group::Ops), Value::None),
    row(None, "tun-type", Kind::Option(Group::TunType), Value::Required),
    row(None, "tun-port", Kind::Option(Group::TunPort), Value::Required),
    row(None, "tun-nocsum", Kind::Option(Group::TunNocsum), Value::None),
    row(None, "tun-csum", Kind::Option(Group::TunCsum), Value::None),
    row(None, "tun-remcsum", Kind::Option(Group::TunRemcsum), Value::None),
    row(None, "local-addresses", Kind::Option(Group::LocalAddresses), Value::Required),
    row(Some('n'), "numeric", Kind::Option(Group::Numeric), Value::None),
    row(Some('c'), "connection", Kind::Option(Group::Connection), Value::None),
    row(None, "timeout", Kind::Option(Group::Timeout), Value::None),
    row(None, "daemon", Kind::Option(Group::Daemon), Value::None),
    row(None, "stats", Kind::Option(Group::Stats), Value::None),
    row(None, "rate", Kind::Option(Group::Rate), Value::None),
    row(None, "thresholds", Kind::Option(Group::Thresholds), Value::None),
    row(None, "persistent-conn", Kind::Option(Group::PersistentConn), Value::None),
    row(None, "tun-info", Kind::Option(Group::TunInfo), Value::None),
    row(None, "nosort", Kind::Option(Group::Nosort), Value::None),
    row(None, "sort", Kind::Ignored, Value::None),
    row(None, "exact", Kind::Option(Group::Exact), Value::None),
    row(None, "syncid", Kind::Option(Group::Syncid), Value::Required),
    row(None, "sync-maxlen", Kind::Option(Group::SyncMaxlen), Value::Required),
    row(None, "mcast-interface", Kind::Option(Group::McastInterface), Value::Required),
    row(None, "mcast-group", Kind::Option(Group::McastAddress), Value::Required),
    row(None, "mcast-port", Kind::Option(Group::McastPort), Value::Required),
    row(None, "mcast-ttl", Kind::Option(Group::McastTtl), Value::Required),
];
