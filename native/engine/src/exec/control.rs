//! Loops and branches.

use crate::error::Result;
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
        let holds = condition.run([state.as_slice(), &captures].concat(), call.device)?;
        if !is_true(&holds)? {
            return Ok(state);
        }
        state.extend_from_slice(&captures);
        state = body.run(state, call.device)?;
    }
}

/// [`Op::Cond`](crate::program::Op::Cond): runs the branch that the predicate picks, and no other.
///
/// # Errors
///
/// As the branch says.
pub fn cond(mut call: Call<'_>) -> Result<Vec<Value>> {
    let [on_true, on_false] = call.nested else { return Err(call.invalid("has no branches")) };
    let captures = call.inputs.split_off(1);
    let branch = if is_true(&call.inputs)? { on_true } else { on_false };
    branch.run(captures, call.device)
}

/// Any number but zero is true, NaN too.
fn is_true(predicate: &[Value]) -> Result<bool> {
    match predicate {
        [value] => Ok(value.to_f64()? != 0.0),
        _ => Ok(false),
    }
}
