//! Loops and branches.

use crate::error::Result;
use crate::exec::check_stopped;
use crate::ops::Call;
use crate::value::Value;

/// [`Op::While`](crate::program::Op::While): runs the body while the condition is not zero.
///
/// # Errors
///
/// As the programs inside say.
pub fn while_loop(mut call: Call<'_>) -> Result<Vec<Value>> {
    let [condition, body] = call.nested else { return Err(call.invalid("has no condition and body")) };
    let captures = call.inputs.split_off(call.outputs.len());
    let mut state = std::mem::take(&mut call.inputs);
    loop {
        check_stopped(&call.op.name())?;
        let holds = condition.run([state.as_slice(), &captures].concat(), call.device)?;
        if !is_true(&holds)? {
            return Ok(state);
        }
        state.extend_from_slice(&captures);
        state = body.run(state, call.device)?;
    }
}

/// [`Op::Cond`](crate::program::Op::Cond): runs the branch that the predicates pick, and no other.
///
/// # Errors
///
/// As the predicates and the branch say.
pub fn cond(call: Call<'_>) -> Result<Vec<Value>> {
    let (predicates, branches) = call.nested.split_at(call.nested.len() / 2);
    for (predicate, branch) in predicates.iter().zip(branches) {
        if is_true(&predicate.run(call.inputs.clone(), call.device)?)? {
            return branch.run(call.inputs, call.device);
        }
    }
    let Some(otherwise) = branches.last() else { return Err(call.invalid("has no branches")) };
    otherwise.run(call.inputs, call.device)
}

/// Any number but zero is true, NaN too.
fn is_true(predicate: &[Value]) -> Result<bool> {
    match predicate {
        [value] => Ok(value.to_f64()? != 0.0),
        _ => Ok(false),
    }
}
