//! Loops.
//!
//! A loop that ends after a known number of iterations, at the latest, keeps in each of them what its way back reads, in tensors
//! of one row for each iteration. The way back is a loop too, from the last iteration to the first. Its state are the
//! gradients of the state, and sums: of what stays the same from iteration to iteration, the gradients of all of them are added
//! up. Products are kept apart, and added up as one behind the loop. So an iteration back takes as long as one forth, whatever the length of the sequences that it reads from or writes to.

mod back;
mod forth;
mod later;
mod step;

pub(super) use back::back;
pub(super) use forth::{Trace, record};
