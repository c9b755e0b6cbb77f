//! Each mistake in a file has the message that we mean it to have. `config/errors/NAME.yaml` stands beside
//! `NAME.txt`, what `tidegate check` says of it; `config/warnings` likewise. With `TIDEGATE_BLESS=1` the texts are
//! written anew: read the difference before committing it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::config::{self, Diagnostic};

/// The texts for all files of `folder`, by file.
fn check(folder: &str, texts: impl Fn(&Path) -> Vec<Diagnostic>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/config")
        .join(folder);
    let names: BTreeSet<OsString> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let files: Vec<PathBuf> = names
        .iter()
        .map(PathBuf::from)
        .filter(|name| name.extension().is_some_and(|it| it == "yaml"))
        .collect();
    assert!(!files.is_empty());
    let mut wrong = String::new();
    for file in files {
        let found: String = texts(&folder.join(&file))
            .iter()
            .map(|it| message(it, &file))
            .collect();
        let golden = folder.join(file.with_extension("txt"));
        if std::env::var_os("TIDEGATE_BLESS").is_some() {
            fs::write(&golden, &found).unwrap();
        } else if fs::read_to_string(&golden).unwrap_or_default() != found {
            wrong.push_str(&format!("--- {} says now:\n{found}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The message, with the file's name instead of its path on this machine.
fn message(found: &Diagnostic, file: &Path) -> String {
    let found = Diagnostic {
        file: file.display().to_string(),
        ..found.clone()
    };
    format!("{found}\n")
}

#[test]
fn errors() {
    check("errors", |path| {
        let found = config::load(path).expect_err("has errors");
        assert!(
            found.errors.iter().all(|error| !error.remedy.is_empty()),
            "{found}: no remedy"
        );
        assert!(
            found.errors.is_sorted_by_key(|error| error.place),
            "{found}: not in order"
        );
        found.errors
    });
}

#[test]
fn warnings() {
    check("warnings", |path| {
        config::load(path)
            .unwrap_or_else(|errors| panic!("{errors}"))
            .warnings
    });
}

#[test]
fn files_that_cannot_be_read() {
    let missing = config::load(Path::new("/nonexistent/gateway.yaml"))
        .expect_err("is missing")
        .to_string();
    assert_eq!(
        missing,
        "/nonexistent/gateway.yaml: cannot be read: No such file or directory (os error 2); check the path that was \
         given"
    );
    let folder = config::load(Path::new("/")).expect_err("is a folder").to_string();
    assert_eq!(
        folder,
        "/: cannot be read: Is a directory (os error 21); name a file in it"
    );
    let endless = config::load(Path::new("/dev/zero"))
        .expect_err("has no end")
        .to_string();
    assert_eq!(
        endless,
        "/dev/zero: cannot be read: it is larger than 128 MB; name a configuration file"
    );
}
