//! The passes: what they make of programs, and that the programs answer the same.

#[path = "../tools/mod.rs"]
mod tools;

mod builder;
mod fusion;
mod patterns;
mod simplify;
