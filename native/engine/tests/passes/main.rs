//! The passes: what they make of programs, and that the programs answer the same.

#[path = "../tools/mod.rs"]
mod tools;

mod blocks;
mod bodies;
mod builder;
mod chains;
mod convs;
mod forms;
mod functions;
mod fusion;
mod large;
mod parts;
mod patterns;
mod recurrent;
mod rows;
mod simplify;
mod tables;
mod unrolling;
