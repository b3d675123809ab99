//! Tensors and text in [safetensors](https://github.com/huggingface/safetensors) files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use tempfile::NamedTempFile;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// A longer header is refused, as the reference implementation does.
const MAX_HEADER: u64 = 100_000_000;

/// Named tensors and a table of texts.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Tensors, in the order of the file.
    pub tensors: Vec<(String, Value)>,
    /// The file's `__metadata__`.
    pub metadata: BTreeMap<String, String>,
}

/// Each type of the format with ours.
const TYPES: [(Dtype, Type); 16] = [
    (Dtype::U8, Type::U8),
    (Dtype::U16, Type::U16),
    (Dtype::U32, Type::U32),
    (Dtype::U64, Type::U64),
    (Dtype::I8, Type::S8),
    (Dtype::I16, Type::S16),
    (Dtype::I32, Type::S32),
    (Dtype::I64, Type::S64),
    (Dtype::F8_E5M2, Type::F8),
    (Dtype::F8_E4M3, Type::F8E4M3FN),
    (Dtype::BF16, Type::BF16),
    (Dtype::F16, Type::F16),
    (Dtype::F32, Type::F32),
    (Dtype::F64, Type::F64),
    (Dtype::C64, Type::C64),
    // Last, so that 8-bit integers are written as such.
    (Dtype::BOOL, Type::U8),
];

/// Writes `contents` to `path`. Readers see the old file or the whole new one, also when the machine stops in between.
///
/// # Errors
///
/// [`Error::File`] when a tensor's type is not in the format, two tensors have one name, or the system refuses to write.
pub fn write(path: &Path, contents: &Contents) -> Result<()> {
    let header = header(contents).map_err(|reason| failed(path, reason))?;
    let written = write_beside(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        contents.tensors.iter().try_for_each(|(_, value)| {
            let bytes = value.untracked().into_bytes().map_err(io::Error::other)?;
            out.write_all(&bytes)
        })
    });
    written.map_err(|e| failed(path, io_reason(&e)))
}

/// The header: names, types, offsets and metadata, padded to eight bytes.
fn header(contents: &Contents) -> Result<Vec<u8>, String> {
    let mut infos: Vec<(String, TensorInfo)> = Vec::with_capacity(contents.tensors.len());
    let mut names = HashSet::new();
    let mut end = 0;
    for (name, value) in &contents.tensors {
        let ty = value.ty();
        let dtype = TYPES.iter().find(|(_, own)| *own == ty.dtype).map(|(dtype, _)| *dtype);
        let dtype = dtype.ok_or_else(|| format!("tensor {name} has type {}, which the format lacks", ty.dtype))?;
        if name == "__metadata__" || !names.insert(name) {
            return Err(format!("the name {name} is taken"));
        }
        let start = end;
        end += value.len() * ty.dtype.size();
        infos.push((name.clone(), TensorInfo { dtype, shape: ty.shape, data_offsets: (start, end) }));
    }
    let texts: HashMap<String, String> = contents.metadata.clone().into_iter().collect();
    let metadata = Metadata::new(Some(texts), infos).map_err(|e| e.to_string())?;
    // By way of a JSON value, whose keys are sorted: the same contents make the same file.
    let json = serde_json::to_value(&metadata).map_err(|e| e.to_string())?;
    let mut header = json.to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok(header)
}

/// Runs `body` on a new file in the folder of `path`, which takes the name `path` once it is safe on disk.
fn write_beside(path: &Path, body: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    // Renaming would put the file in the place of a device.
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        return Err(io::Error::other("it is a device"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = temporary(folder)?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file());
    body(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(folder)
}

/// With the permissions of any new file, where the library's are for the owner alone.
#[cfg(unix)]
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".ex_burn").suffix(".tmp").permissions(permissions).tempfile_in(folder)
}

#[cfg(not(unix))]
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".ex_burn").suffix(".tmp").tempfile_in(folder)
}

/// Makes the new name safe as well; only Unix lets a folder be opened for that.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Reads a file onto `device`.
///
/// # Errors
///
/// [`Error::File`] when the file cannot be read, is not in the format, or holds a type that `device` lacks.
pub fn read(path: &Path, device: &Device) -> Result<Contents> {
    read_checked(path, device).map_err(|reason| failed(path, reason))
}

fn read_checked(path: &Path, device: &Device) -> Result<Contents, String> {
    let about = std::fs::metadata(path).map_err(|e| io_reason(&e))?;
    if !about.is_file() {
        return Err("it is a folder or a device".to_string());
    }
    let mut file = BufReader::new(File::open(path).map_err(|e| io_reason(&e))?);
    let metadata = read_header(&mut file, about.len())?;
    let tensors = metadata.offset_keys().into_iter().map(|name| {
        let info = metadata.info(&name).ok_or("its header is inconsistent")?;
        let value = read_tensor(&mut file, info, device).map_err(|reason| format!("tensor {name}: {reason}"))?;
        Ok((name, value))
    });
    let tensors = tensors.collect::<Result<Vec<_>, String>>()?;
    Ok(Contents { tensors, metadata: metadata.metadata().clone().unwrap_or_default().into_iter().collect() })
}

fn read_header(file: &mut impl Read, size: u64) -> Result<Metadata, String> {
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| "it is too short for a safetensors file".to_string())?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length > size.saturating_sub(8) {
        return Err("it is no safetensors file, or cut off in its header".to_string());
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(|e| io_reason(&e))?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|e| format!("it is no safetensors file, or damaged: {e}"))?;
    let wanted = 8 + length + metadata.data_len() as u64;
    match size {
        _ if size < wanted => Err(format!("it is cut off: {size} bytes where its header promises {wanted}")),
        _ if size > wanted => Err(format!("it has {} bytes after its end", size - wanted)),
        _ => Ok(metadata),
    }
}

fn read_tensor(file: &mut impl Read, info: &TensorInfo, device: &Device) -> Result<Value, String> {
    let dtype = TYPES.iter().find(|(dtype, _)| *dtype == info.dtype).map(|(_, own)| *own);
    let dtype = dtype.ok_or_else(|| format!("type {} is unknown here", info.dtype))?;
    let mut bytes = vec![0; info.data_offsets.1 - info.data_offsets.0];
    file.read_exact(&mut bytes).map_err(|e| io_reason(&e))?;
    Value::from_bytes(&TensorType::new(dtype, info.shape.clone()), bytes, device).map_err(|e| e.to_string())
}

fn failed(path: &Path, reason: String) -> Error {
    Error::File { path: path.display().to_string(), reason }
}

/// What went wrong, without the numbers of the system.
fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".to_string(),
        io::ErrorKind::Other => error.to_string(),
        kind => kind.to_string(),
    }
}
