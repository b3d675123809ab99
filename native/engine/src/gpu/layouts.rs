//! Shapes and strides that kernels are given: a few words, which are sent to a GPU once.

use std::collections::HashMap;

use burn_cubecl::cubecl::prelude::BufferArg;
use burn_cubecl::cubecl::server::Handle;
use parking_lot::Mutex;

use super::Adapter;
use super::recorded::transferred;
use crate::error::Result;

/// Most layouts that are kept on a GPU.
const MOST: usize = 4096;

/// Buffers by the words they hold. No kernel writes to them.
#[derive(Default)]
pub(super) struct Layouts(Mutex<HashMap<Box<[u32]>, Handle>>);

impl Layouts {
    fn handle(&self, words: &[u32], send: impl FnOnce(&[u8]) -> Handle) -> Handle {
        if let Some(handle) = self.0.lock().get(words) {
            return handle.clone();
        }
        // Nobody waits for the GPU's queue with the lock: whoever has the queue may want the lock.
        let handle = send(bytemuck::cast_slice(words));
        let mut kept = self.0.lock();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(words.into(), handle.clone());
        handle
    }
}

/// A buffer of words known on the host, which a kernel only reads.
///
/// # Errors
///
/// As [`Adapter::client`].
pub(crate) fn words(adapter: Adapter, words: &[u32]) -> Result<BufferArg> {
    let client = adapter.client()?;
    let handle = adapter.layouts().handle(words, |bytes| {
        transferred();
        client.create_from_slice(bytes)
    });
    // SAFETY: it holds these words.
    Ok(unsafe { BufferArg::from_raw_parts(handle, words.len()) })
}
