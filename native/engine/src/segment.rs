//! Memory outside of the engine: POSIX shared memory, which other processes of the machine can map, and plain addresses.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::fs::read_to_string;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{fstat, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::shm::{self, Mode, OFlags};

use crate::error::{Error, Result};

/// A named piece of memory. Dropping it, or the end of the process, removes the name; who has mapped it keeps it.
///
/// ```
/// use ex_burn_engine::segment::{Segment, open};
///
/// let segment = Segment::create(&[1, 2, 3], 0o400)?;
/// assert_eq!(open(segment.name(), 3)?[..], [1, 2, 3]);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct Segment {
    name: String,
    mapping: Arc<Mapping>,
}

impl Segment {
    /// A new segment that holds `bytes`; `permissions` are the mode bits of files.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the system refuses, and for no bytes at all, which it cannot map.
    pub fn create(bytes: &[u8], permissions: u32) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::invalid("to_pointer", "an empty tensor has no memory to point to"));
        }
        let (name, file) = create(Mode::from_raw_mode(permissions as _)).map_err(|e| refused("to_pointer", "", e))?;
        // From here on the name is removed whatever happens.
        let mapping = reserve(&file, bytes.len()).and_then(|()| Mapping::new(&file, bytes.len(), true));
        let mapping = mapping.inspect_err(|_| remove(&name)).map_err(|e| refused("to_pointer", &name, e))?;
        // SAFETY: the mapping is writable, as long as `bytes`, and nobody else knows of it yet.
        unsafe { mapping.start.as_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(Self { name, mapping: Arc::new(mapping) })
    }

    /// Name by which other processes open it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The memory.
    pub fn bytes(&self) -> bytes::Bytes {
        bytes::Bytes::from_owner(Shared(self.mapping.clone()))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// The first `len` bytes of the segment `name`, for reading.
///
/// # Errors
///
/// [`Error::Invalid`] when there is no such segment, it may not be read or is too small.
pub fn open(name: &str, len: usize) -> Result<bytes::Bytes> {
    let op = "from_pointer";
    if len == 0 {
        return Err(Error::invalid(op, "an empty tensor has no memory to point to"));
    }
    let file = shm::open(name, OFlags::RDONLY, Mode::empty()).map_err(|e| refused(op, name, e))?;
    let size = fstat(&file).map_err(|e| refused(op, name, e))?.st_size;
    if usize::try_from(size).is_ok_and(|size| size < len) {
        return Err(Error::invalid(op, format!("shared memory {name:?} has {size} bytes, the tensor takes {len}")));
    }
    let mapping = Mapping::new(&file, len, false).map_err(|e| refused(op, name, e))?;
    Ok(bytes::Bytes::from_owner(Shared(Arc::new(mapping))))
}

/// The `len` bytes at `address`, which is not in use for anything that ends before the result is dropped.
///
/// # Errors
///
/// [`Error::Invalid`] when there is no readable memory, where the system tells (Linux).
///
/// # Safety
///
/// The memory stays readable as long as the result, or a clone of it, lives.
pub unsafe fn borrow(address: usize, len: usize) -> Result<bytes::Bytes> {
    let end = address.checked_add(len).filter(|_| address != 0 && len != 0);
    let readable = |end| read_to_string("/proc/self/maps").is_ok_and(|maps| is_readable(&maps, address..end));
    if !end.is_some_and(|end| cfg!(not(target_os = "linux")) || readable(end)) {
        return Err(Error::invalid("from_pointer", format!("there are no {len} readable bytes at address {address}")));
    }
    // SAFETY: the range is not null and does not wrap; the caller vouches that it stays readable.
    Ok(bytes::Bytes::from_static(unsafe { std::slice::from_raw_parts(address as *const u8, len) }))
}

/// Whether `range` is inside of readable mappings, which `maps` lists in order as `start-end rwxp …` in hexadecimal.
fn is_readable(maps: &str, range: Range<usize>) -> bool {
    let mappings = maps.lines().filter_map(|line| {
        let (span, rest) = line.split_once(' ')?;
        let (start, end) = span.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        rest.starts_with('r').then_some(number(start)?..number(end)?)
    });
    let reached = mappings.fold(range.start, |at, mapping| if mapping.contains(&at) { mapping.end } else { at });
    reached >= range.end
}

/// A mapped segment.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: the memory belongs to the mapping and is only read once it is made.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &OwnedFd, len: usize, writable: bool) -> Result<Self, Errno> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the system picks a place where there is nothing.
        let start = unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, file, 0)? };
        Ok(Self { start: NonNull::new(start).ok_or(Errno::NOMEM)?, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` and in use by nobody, since the mapping is dropped. It can't fail for such a range.
        let _ = unsafe { munmap(self.start.as_ptr(), self.len) };
    }
}

/// Keeps a mapping for the bytes in it.
struct Shared(Arc<Mapping>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, this long, and lives as long as the slice.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().cast(), self.0.len) }
    }
}

/// A new, empty segment under a name of its own.
fn create(permissions: Mode) -> Result<(String, OwnedFd), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        // macOS takes at most 31 characters.
        let name = format!("/ex_burn.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        match shm::open(&name, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR, permissions) {
            Err(Errno::EXIST) => continue,
            Err(error) => return Err(error),
            Ok(file) => {
                keep(&name);
                return Ok((name, file));
            }
        }
    }
}

/// Gives the segment its size. Writing to memory that the system lacks would end the process, so it is asked for first.
fn reserve(file: &OwnedFd, len: usize) -> Result<(), Errno> {
    ftruncate(file, len as u64)?;
    #[cfg(target_os = "linux")]
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len as u64)?;
    Ok(())
}

/// The names that are in use, which nobody would remove when the process ends.
static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn keep(name: &str) {
    static AT_EXIT: Once = Once::new();
    NAMES.lock().insert(name.to_string());
    // SAFETY: the handler is a function of this library, which is never unloaded before the process ends.
    AT_EXIT.call_once(|| _ = unsafe { atexit(remove_all) });
}

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> std::ffi::c_int;
}

extern "C" fn remove_all() {
    // Another thread may hold the lock for ever by now.
    let names = NAMES.try_lock().map(|names| names.clone());
    names.iter().flatten().for_each(|name| _ = shm::unlink(name.as_str()));
}

/// A name that is gone already is no concern of ours.
fn remove(name: &str) {
    NAMES.lock().remove(name);
    let _ = shm::unlink(name);
}

fn refused(op: &str, name: &str, error: Errno) -> Error {
    let error = std::io::Error::from(error);
    Error::invalid(op, format!("shared memory {name:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_readable_across_mappings_that_touch() {
        let maps = "1000-2000 r--p 0 00:00 0\n2000-3000 rw-p 0 00:00 0\n3000-4000 ---p 0 00:00 0\n5000-6000 r-xp 0\n";
        assert!(is_readable(maps, 0x1000..0x3000));
        assert!(is_readable(maps, 0x1fff..0x2001));
        assert!(is_readable(maps, 0x5800..0x6000));
        for hole in [0xfff..0x1001, 0x2fff..0x3001, 0x3000..0x3001, 0x4000..0x4001, 0x5fff..0x6001, 0x9000..0x9001] {
            assert!(!is_readable(maps, hole.clone()), "{hole:x?}");
        }
    }

    #[test]
    fn the_name_goes_with_the_segment_and_the_bytes_stay() -> Result<()> {
        let segment = Segment::create(&[1, 2, 3], 0o400)?;
        let name = segment.name().to_string();
        let bytes = open(&name, 2)?;
        drop(segment);
        assert_eq!(bytes[..], [1, 2]);
        assert!(open(&name, 2).is_err());
        Ok(())
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() -> Result<()> {
        let segment = Segment::create(&[1, 2, 3], 0o400)?;
        for (name, len) in [(segment.name(), 4), (segment.name(), 0), ("/no.such.segment", 1), ("a/b/c", 1), ("\0", 1)]
        {
            assert!(matches!(open(name, len), Err(Error::Invalid { .. })), "{name:?}");
        }
        assert!(Segment::create(&[], 0o400).is_err());
        Ok(())
    }

    #[test]
    fn addresses_are_checked() -> Result<()> {
        let numbers = [1u8, 2, 3];
        let address = numbers.as_ptr() as usize;
        // SAFETY: `numbers` lives longer than the bytes.
        assert_eq!(unsafe { borrow(address, 3) }?[..], numbers);
        for (address, len) in [(0, 1), (address, 0), (usize::MAX, 2)] {
            // SAFETY: refused.
            assert!(unsafe { borrow(address, len) }.is_err());
        }
        #[cfg(target_os = "linux")]
        // SAFETY: the first page of the address space is never mapped.
        assert!(unsafe { borrow(8, 8) }.is_err());
        Ok(())
    }
}
