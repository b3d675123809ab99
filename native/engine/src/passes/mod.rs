//! Makes programs faster before they run. Each pass is a file, takes a program and gives one that answers the same.

mod algebraic;
mod constants;
mod cse;
pub(crate) mod dead;
mod fusion;
pub(crate) mod hoisting;
mod layout;
mod parts;
pub mod patterns;
mod products;
mod rows;
mod sequences;
mod unrolling;
pub(crate) mod writer;

use crate::error::{Error, Result};
use crate::program::{Op, Program};
use crate::value::Value;

/// A pass: its name, by which it can be switched off, and what it does.
type Pass = (&'static str, fn(&Program) -> Program);

/// The passes, in the order in which they run.
const PASSES: &[Pass] = &[
    ("constant_folding", constants::fold),
    ("algebraic", algebraic::simplify),
    ("layout", layout::fold),
    ("cse", cse::share),
    ("sequences", sequences::multiply),
    ("products", products::merge),
    ("hoisting", hoisting::hoist),
    ("dead_code", dead::remove),
    ("rows", rows::cut),
    ("fusion", fusion::fuse),
];

/// The name of what is no pass over programs: the executor gives memory back, or uses it again, after the last read.
pub const LIVENESS: &str = "liveness";

/// The name of what is no pass either: programs that a GPU runs again and again are recorded there.
pub const RECORDING: &str = "recording";

/// The name of the pass that names what regions compute: see [`patterns`].
const PATTERNS: &str = "patterns";

/// The name of the pass that comes first, which looks at captured tensors: see [`unrolling`].
const UNROLLING: &str = "unrolling";

/// The names of all passes.
///
/// ```
/// assert!(ex_burn_engine::passes::names().any(|name| name == "fusion"));
/// ```
pub fn names() -> impl Iterator<Item = &'static str> {
    [UNROLLING].into_iter().chain(PASSES.iter().map(|(name, _)| *name)).chain([PATTERNS, LIVENESS, RECORDING])
}

/// `program` made faster by all passes but those named in `disabled`, and so the programs inside its loops and branches.
/// `pattern:softmax` and the like are names too: of [`patterns`] whose regions stay apart.
///
/// ```
/// use ex_burn_engine::{TensorType, Type, passes, program::Program};
///
/// let ty = TensorType::new(Type::F32, [2]);
/// let same = Program { inputs: vec![ty], instructions: vec![], outputs: vec![0] };
/// assert_eq!(passes::optimise(&same, &[])?, same);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Invalid`] for a program that cannot run and for a name that is no pass's and no pattern's.
pub fn optimise(program: &Program, disabled: &[String]) -> Result<Program> {
    optimise_with(program, &[], disabled)
}

/// [`optimise`] where the values of the last inputs are known and stay the same.
pub(crate) fn optimise_with(program: &Program, captures: &[Value], disabled: &[String]) -> Result<Program> {
    check_names(disabled)?;
    program.check()?;
    let is_on = |name: &str| !disabled.iter().any(|off| off == name);
    let first = if is_on(UNROLLING) { unrolling::unroll(program, captures) } else { program.clone() };
    let enabled = PASSES.iter().filter(|(name, _)| is_on(name));
    let fast = enabled.fold(first, |program, (_, pass)| everywhere(program, pass));
    if !is_on(PATTERNS) {
        return Ok(fast);
    }
    let off = patterns::disabled(disabled);
    Ok(everywhere(fast, &|program| patterns::name(program, &off)))
}

/// A program that was made faster for a GPU, unless what that joins is `disabled`.
#[cfg(feature = "gpu")]
pub(crate) fn for_gpu(program: &Program, disabled: &[String]) -> Program {
    let is_on = |name: &str| !disabled.iter().any(|off| off == name);
    if !is_on(PATTERNS) {
        return program.clone();
    }
    everywhere(program.clone(), &patterns::join_products)
}

fn check_names(disabled: &[String]) -> Result<()> {
    let is_known = |off: &&String| names().any(|name| name == *off) || patterns::by_switch(off).is_some();
    let Some(unknown) = disabled.iter().find(|off| !is_known(off)) else { return Ok(()) };
    let known: Vec<&str> = names().collect();
    let patterns: Vec<&str> = patterns::names().collect();
    let reason = format!(
        "there is no pass {unknown}, only {}, and pattern: with one of {}",
        known.join(", "),
        patterns.join(", ")
    );
    Err(Error::invalid("program", reason))
}

/// A pass over the programs inside loops and branches, then over the program itself.
fn everywhere(mut program: Program, pass: &dyn Fn(&Program) -> Program) -> Program {
    for instruction in &mut program.instructions {
        nested_mut(&mut instruction.op)
            .into_iter()
            .for_each(|nested| *nested = everywhere(std::mem::take(nested), pass));
    }
    pass(&program)
}

/// The programs inside an operation that run once or once for each iteration. Those of custom folds see single elements.
fn nested_mut(op: &mut Op) -> Vec<&mut Program> {
    match op {
        Op::While(op) => vec![&mut op.condition, &mut op.body],
        Op::Rows(op) => vec![&mut op.whole, &mut op.block],
        Op::Cond(op) => op.predicates.iter_mut().chain(&mut op.branches).collect(),
        _ => vec![],
    }
}
