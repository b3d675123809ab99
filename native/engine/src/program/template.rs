//! Programs for more than one batch size.
//!
//! A program is static: its shapes are numbers. Tracing a model at three batch sizes shows which of the program's
//! integers grow with the batch. When all of them are `slope * batch + offset`, one template gives the program for any
//! batch size; otherwise a program is kept for each size that was asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value as Json, json};

use super::Program;
use crate::error::{Error, Result};

/// Marks an integer that depends on the batch size: `{"$batch": [slope, offset]}`.
const BATCH: &str = "$batch";

/// A family of programs, by batch size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// The JSON form of a program with some integers replaced by [`BATCH`] objects.
    Any(Json),
    /// One program for each size.
    Sizes(BTreeMap<usize, Program>),
}

impl Template {
    /// The template behind programs traced at three or more batch sizes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the first place where the programs differ by something else than an integer that is
    /// affine in the batch size.
    pub fn any(traces: &[(usize, Program)]) -> Result<Self> {
        if traces.len() < 3 {
            return Err(Error::invalid("template", "needs programs of three batch sizes"));
        }
        let sizes: Vec<i64> = traces.iter().map(|(batch, _)| *batch as i64).collect();
        let forms = traces.iter().map(|(_, program)| serde_json::to_value(program).map_err(invalid));
        let forms = forms.collect::<Result<Vec<Json>>>()?;
        unify(&sizes, &forms.iter().collect::<Vec<_>>(), &mut Vec::new()).map(Self::Any)
    }

    /// The program for `batch`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when there is none for this size, or when the template was not made by [`Template::any`].
    pub fn program(&self, batch: usize) -> Result<Program> {
        match self {
            Self::Any(form) => serde_json::from_value(fill(form, batch as i64)?).map_err(invalid),
            Self::Sizes(programs) => programs.get(&batch).cloned().ok_or_else(|| {
                let sizes: Vec<String> = programs.keys().map(usize::to_string).collect();
                let reason = format!("there is no program for a batch of {batch}, only for {}", sizes.join(", "));
                Error::invalid("predict", reason)
            }),
        }
    }
}

fn invalid(error: serde_json::Error) -> Error {
    Error::invalid("template", error)
}

/// One form for all of `forms`; `place` is the path to them, for the error.
fn unify(sizes: &[i64], forms: &[&Json], place: &mut Vec<String>) -> Result<Json> {
    let first = forms[0];
    if forms.iter().all(|form| *form == first) {
        return Ok(first.clone());
    }
    let mut step = |key: String, parts: Vec<&Json>| {
        place.push(key);
        let unified = unify(sizes, &parts, place)?;
        place.pop();
        Ok(unified)
    };
    match first {
        Json::Number(_) => affine(sizes, forms).ok_or_else(|| differs(place)),
        Json::Array(items) if alike(forms, |form| form.as_array().map(Vec::len)) => {
            (0..items.len()).map(|i| step(i.to_string(), forms.iter().map(|form| &form[i]).collect())).collect()
        }
        // The bytes of a constant are one number, not several.
        Json::Object(fields) if !fields.contains_key("bytes") && alike(forms, keys) => {
            let unified = fields.keys().map(|key| {
                let part = step(key.clone(), forms.iter().map(|form| &form[key.as_str()]).collect())?;
                Ok((key.clone(), part))
            });
            unified.collect::<Result<Map<_, _>>>().map(Json::Object)
        }
        _ => Err(differs(place)),
    }
}

fn alike<T: PartialEq>(forms: &[&Json], property: impl Fn(&Json) -> Option<T>) -> bool {
    let first = property(forms[0]);
    first.is_some() && forms.iter().all(|form| property(form) == first)
}

fn keys(form: &Json) -> Option<Vec<String>> {
    form.as_object().map(|fields| fields.keys().cloned().collect())
}

fn differs(place: &[String]) -> Error {
    let reason =
        format!("its program depends on the batch size at {} in a way that no rule describes", place.join("."));
    Error::invalid("template", reason)
}

/// The rule `slope * batch + offset` that all of the integers obey.
fn affine(sizes: &[i64], forms: &[&Json]) -> Option<Json> {
    let numbers = forms.iter().map(|form| form.as_i64()).collect::<Option<Vec<i64>>>()?;
    let run = sizes[1].checked_sub(sizes[0]).filter(|&run| run != 0)?;
    let rise = numbers[1].checked_sub(numbers[0])?;
    let slope = (rise % run == 0).then_some(rise / run)?;
    let offset = numbers[0].checked_sub(slope.checked_mul(sizes[0])?)?;
    let obeys = |(&batch, &number): (&i64, &i64)| apply(slope, offset, batch) == Some(number);
    sizes.iter().zip(&numbers).all(obeys).then(|| json!({ BATCH: [slope, offset] }))
}

fn apply(slope: i64, offset: i64, batch: i64) -> Option<i64> {
    slope.checked_mul(batch)?.checked_add(offset)
}

/// `form` with the rules applied to `batch`.
fn fill(form: &Json, batch: i64) -> Result<Json> {
    match form {
        Json::Array(items) => items.iter().map(|item| fill(item, batch)).collect::<Result<Vec<_>>>().map(Json::Array),
        Json::Object(fields) => match fields.get(BATCH) {
            Some(rule) => fill_rule(rule, batch),
            None => {
                let filled = fields.iter().map(|(key, value)| Ok((key.clone(), fill(value, batch)?)));
                filled.collect::<Result<Map<_, _>>>().map(Json::Object)
            }
        },
        other => Ok(other.clone()),
    }
}

fn fill_rule(rule: &Json, batch: i64) -> Result<Json> {
    let number = match rule.as_array().map(Vec::as_slice) {
        Some([slope, offset]) => slope.as_i64().zip(offset.as_i64()).and_then(|(s, o)| apply(s, o, batch)),
        _ => None,
    };
    number
        .map(|n| Json::Number(Number::from(n)))
        .ok_or_else(|| Error::invalid("template", format!("{rule} is no rule for a batch of {batch}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Axes, Constant, Instruction, Op, Unary};
    use crate::types::{TensorType, Type};

    fn f32s(shape: &[usize]) -> TensorType {
        TensorType::new(Type::F32, shape)
    }

    /// `exp` of a batch, flattened.
    fn program(batch: usize) -> Program {
        let step = |op, output| Instruction { op, inputs: vec![], outputs: vec![output] };
        let exp = Instruction { inputs: vec![0], ..step(Op::Unary(Unary::Exp), f32s(&[batch, 3])) };
        let flat = Instruction { inputs: vec![1], ..step(Op::Reshape, f32s(&[3 * batch])) };
        Program { inputs: vec![f32s(&[batch, 3])], instructions: vec![exp, flat], outputs: vec![2] }
    }

    fn traces(program: impl Fn(usize) -> Program) -> Vec<(usize, Program)> {
        [2, 3, 5].map(|batch| (batch, program(batch))).to_vec()
    }

    #[test]
    fn a_template_gives_programs_of_sizes_that_were_not_traced() {
        let template = Template::any(&traces(program)).expect("affine");
        for batch in [1, 2, 17] {
            assert_eq!(template.program(batch), Ok(program(batch)));
        }
        let json = serde_json::to_string(&template).expect("plain data");
        assert_eq!(serde_json::from_str::<Template>(&json).expect("the same"), template);
        assert!(json.contains(r#"{"$batch":[3,0]}"#), "{json}");
    }

    #[test]
    fn integers_that_are_not_affine_are_refused_with_their_place() {
        let squared = |batch| Program { inputs: vec![f32s(&[batch * batch])], ..program(batch) };
        let error = Template::any(&traces(squared)).expect_err("squares are not affine").to_string();
        assert!(error.contains("inputs.0.shape.0"), "{error}");
    }

    #[test]
    fn different_operations_and_constants_are_refused() {
        let op = |batch: usize| if batch == 3 { Op::Reverse(Axes { axes: vec![0] }) } else { Op::StopGrad };
        let constant = |batch: usize| Op::Constant(Constant { bytes: vec![batch as u8] });
        for op in [&op as &dyn Fn(usize) -> Op, &constant] {
            let odd = |batch: usize| {
                let mut odd = program(batch);
                odd.instructions[0].op = op(batch);
                odd
            };
            assert!(Template::any(&traces(odd)).is_err());
        }
    }

    #[test]
    fn a_size_without_a_program_is_named_with_those_that_have_one() {
        let template = Template::Sizes([(1, program(1)), (8, program(8))].into());
        assert_eq!(template.program(8), Ok(program(8)));
        let error = template.program(3).expect_err("no such size").to_string();
        assert_eq!(error, "predict: there is no program for a batch of 3, only for 1, 8");
    }

    #[test]
    fn broken_rules_are_errors() {
        for rule in [json!(1), json!([1]), json!([1, "2"]), json!([i64::MAX, i64::MAX]), json!([-1, 0])] {
            let mut form = serde_json::to_value(program(2)).expect("plain data");
            form["inputs"][0]["shape"][0] = json!({ BATCH: rule });
            assert!(Template::Any(form).program(4).is_err(), "{rule}");
        }
    }
}
