//! The NIF library of ExBurn.
