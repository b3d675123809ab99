//! Texts of atoms.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rustler::{Atom, NifResult, Term};

/// More atoms than the names of operations, attributes and types.
const KNOWN: usize = 1024;

thread_local! {
    /// An atom stands for the same text as long as the VM runs.
    static TEXTS: RefCell<HashMap<Atom, Rc<str>>> = RefCell::default();
}

/// The text of an atom. Asking the VM takes longer than adding two small tensors, so a thread asks once.
pub(crate) fn text(term: Term<'_>) -> NifResult<Rc<str>> {
    let atom: Atom = term.decode()?;
    if let Some(text) = TEXTS.with_borrow(|texts| texts.get(&atom).cloned()) {
        return Ok(text);
    }
    let text: Rc<str> = term.atom_to_string()?.into();
    TEXTS.with_borrow_mut(|texts| {
        if texts.len() >= KNOWN {
            texts.clear();
        }
        texts.insert(atom, text.clone());
    });
    Ok(text)
}
