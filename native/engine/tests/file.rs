//! Files written and read, and everything that can be wrong with one.

use std::fs;
use std::path::{Path, PathBuf};

use ex_burn_engine::file::{self, Contents};
use ex_burn_engine::{Device, TensorType, Type, Value};
use safetensors::SafeTensors;
use tempfile::TempDir;

fn value(dtype: Type, shape: &[usize], bytes: &[u8]) -> Value {
    Value::from_bytes(&TensorType::new(dtype, shape), bytes.to_vec(), &Device::Cpu).expect("a value")
}

fn contents() -> Contents {
    Contents {
        tensors: vec![
            ("b.kernel".into(), value(Type::F32, &[2, 1], &[0, 0, 128, 63, 0, 0, 0, 192])),
            ("a".into(), value(Type::S8, &[3], &[1, 255, 3])),
            ("scalar".into(), value(Type::U64, &[], &[7, 0, 0, 0, 0, 0, 0, 0])),
        ],
        metadata: [("note", "ümlaut"), ("about", "a model")].map(|(k, v)| (k.into(), v.into())).into(),
    }
}

fn written(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("model.safetensors");
    file::write(&path, &contents()).expect("a writable folder");
    path
}

fn plain(contents: Contents) -> Vec<(String, TensorType, Vec<u8>)> {
    contents.tensors.into_iter().map(|(name, v)| (name, v.ty(), v.into_bytes().expect("bytes"))).collect()
}

fn reason(path: &Path) -> String {
    file::read(path, &Device::Cpu).expect_err("a bad file").to_string()
}

#[test]
fn reads_what_it_wrote() {
    let folder = TempDir::new().expect("a folder");
    let read = file::read(&written(&folder), &Device::Cpu).expect("a good file");
    assert_eq!(read.metadata, contents().metadata);
    assert_eq!(plain(read), plain(contents()));
}

#[test]
fn the_reference_implementation_reads_it() {
    let folder = TempDir::new().expect("a folder");
    let bytes = fs::read(written(&folder)).expect("the file");
    let read = SafeTensors::deserialize(&bytes).expect("the format");
    let kernel = read.tensor("b.kernel").expect("a tensor");
    assert_eq!((kernel.dtype(), kernel.shape()), (safetensors::Dtype::F32, [2, 1].as_slice()));
    assert_eq!(kernel.data(), 1f32.to_le_bytes().into_iter().chain((-2f32).to_le_bytes()).collect::<Vec<_>>());
    assert_eq!(read.tensor("a").expect("a tensor").data(), [1, 255, 3]);
}

#[test]
fn equal_contents_make_equal_files_and_no_others_are_left() {
    let folder = TempDir::new().expect("a folder");
    let first = fs::read(written(&folder)).expect("the file");
    assert_eq!(fs::read(written(&folder)).expect("the file"), first);
    let names: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names, ["model.safetensors"]);
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = TempDir::new().expect("a folder");
    let path = written(&folder);
    let before = fs::read(&path).expect("the file");
    let mut twice = contents();
    twice.tensors.push(twice.tensors[0].clone());
    let error = file::write(&path, &twice).expect_err("two tensors of one name").to_string();
    assert!(error.contains("b.kernel is taken"), "{error}");
    assert_eq!(fs::read(&path).expect("the file"), before);
}

#[test]
fn every_truncation_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let path = written(&folder);
    let bytes = fs::read(&path).expect("the file");
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).expect("a writable folder");
        let reason = reason(&path);
        assert!(reason.contains("cut off") || reason.contains("too short"), "{length}: {reason}");
    }
}

#[test]
fn every_flipped_byte_of_the_header_is_an_error_or_another_header() {
    let folder = TempDir::new().expect("a folder");
    let path = written(&folder);
    let bytes = fs::read(&path).expect("the file");
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    for at in 0..header {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x15;
        fs::write(&path, &damaged).expect("a writable folder");
        let same = |read: Contents| read.metadata == contents().metadata && plain(read) == plain(contents());
        assert!(!file::read(&path, &Device::Cpu).is_ok_and(same), "byte {at} says nothing");
    }
}

#[test]
fn the_reason_names_path_and_cause() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("nothing");
    assert_eq!(reason(&path), format!("{}: no such file or folder", path.display()));
    assert_eq!(reason(folder.path()), format!("{}: it is a folder or a device", folder.path().display()));
    fs::write(&path, b"PK\x03\x04 some other kind of file, long enough").expect("a writable folder");
    assert!(reason(&path).contains("no safetensors file"));
    let error = file::write(&path.join("below"), &contents()).expect_err("below a file").to_string();
    assert!(error.contains("below: not a directory"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_device_is_left_as_it_is() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let error = file::write(&path, &contents()).expect_err("a socket").to_string();
    assert!(error.contains("socket: it is a device"), "{error}");
    assert!(!fs::metadata(&path).expect("the socket").is_file());
}

#[test]
fn types_that_nx_lacks_are_errors() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("f4.safetensors");
    let header = r#"{"x":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}"#;
    let whole = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0]].concat();
    fs::write(&path, whole).expect("a writable folder");
    assert!(reason(&path).contains("tensor x"), "{}", reason(&path));
}

#[test]
#[cfg(unix)]
fn the_file_has_the_permissions_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("a folder");
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode();
    fs::write(folder.path().join("other"), "").expect("a writable folder");
    assert_eq!(mode(&written(&folder)), mode(&folder.path().join("other")));
}
