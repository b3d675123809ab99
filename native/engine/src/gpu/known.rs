//! What is known when a kernel is made, as CubeCL looks kernels up by it: again and again in each launch.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value that is shared and hashed once.
#[derive(Clone, Debug)]
pub(crate) struct Known<T>(Arc<(u64, T)>);

impl<T: Hash> Known<T> {
    pub(crate) fn new(value: T) -> Self {
        // Its keys are the same in each process.
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self(Arc::new((hasher.finish(), value)))
    }
}

impl<T> Deref for Known<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.1
    }
}

impl<T: PartialEq> PartialEq for Known<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Eq> Eq for Known<T> {}

impl<T> Hash for Known<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}
