//! The API's socket as a file.

use crate::support::{BASE, Fake};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tidegate::api::Server;
use tidegate::config::{Api, Metrics, Place};

fn bind(socket: &Path, group: Option<&str>) -> Result<Server, String> {
    let place = Place::default();
    let api = Api {
        socket: socket.to_owned(),
        mode: 0o600,
        group: group.map(str::to_owned),
        place,
    };
    Server::bind(&api, &Metrics { listen: None, place }).map_err(|error| error.to_string())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn it_has_its_mode_lies_in_an_open_directory_and_goes_with_the_gateway() {
    let mut fake = Fake::new(BASE);
    let socket = fake.socket();
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o660, 0o755));
    assert_eq!(std::fs::read_dir(socket.parent().unwrap()).unwrap().count(), 1);
    fake.stop_serving();
    assert!(!socket.exists());
}

#[test]
fn a_dead_process_s_socket_is_replaced_and_a_live_one_s_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    let dead = UnixListener::bind(&socket).unwrap();
    drop(dead);
    assert!(UnixStream::connect(&socket).is_err());
    let server = bind(&socket, None).unwrap();
    assert_eq!(mode(&socket), 0o600);
    assert!(UnixStream::connect(&socket).is_ok());
    let error = bind(&socket, None).unwrap_err();
    assert!(error.contains("another gateway answers"), "{error}");
    drop(server);
    assert!(!socket.exists());
}

#[test]
fn a_successor_s_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    let server = bind(&socket, None).unwrap();
    std::fs::remove_file(&socket).unwrap();
    let _successor = UnixListener::bind(&socket).unwrap();
    drop(server);
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket());
}

#[test]
fn what_cannot_be_bound_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "keep me").unwrap();
    let error = bind(&file, None).unwrap_err();
    assert!(error.contains("is no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "keep me");
    let error = bind(&directory.path().join("api.sock"), Some("no-such-group")).unwrap_err();
    assert!(error.contains("groupadd no-such-group"), "{error}");
    let error = bind(&directory.path().join("x".repeat(120)), None).unwrap_err();
    assert!(error.contains("shorter"), "{error}");
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing is left behind"
    );
}
