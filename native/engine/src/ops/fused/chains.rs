//! From loops to chains: a loop whose result only one other reads becomes part of that, and so does one that takes no longer
//! than to read its result.

use crate::cpu::tape::{Joint, Place, Step, What};
use crate::cpu::{LINKS, Link};
use crate::program::Extent;

/// The steps with chains in place of steps that follow one another. Each place is written once.
pub(super) fn join(steps: Vec<Step>) -> Vec<Step> {
    let reads: Vec<Place> = steps.iter().flat_map(distinct).collect();
    let repeated = repeated(&steps);
    let is_private =
        |place: Place| matches!(place, Place::Slot(_)) && reads.iter().filter(|&&read| read == place).count() == 1;
    let is_joined = |place: Place| is_private(place) || repeated.contains(&place);
    let mut joined: Vec<Step> = Vec::with_capacity(steps.len());
    for mut step in steps {
        if let Some((head, operand)) = head(&joined, &step, is_joined) {
            step = follow(&joined[head], &step, operand);
            if !repeated.contains(&joined[head].to) {
                joined.remove(head);
            }
        }
        while let Some((product, joint)) = product(&joined, &step, is_private) {
            multiply(&mut step, joint, &joined.remove(product));
        }
        joined.push(step);
    }
    joined.retain(|step| !repeated.contains(&step.to));
    joined
}

/// What takes no longer to make from an operand again than to read, where each reader can be in one chain with it.
fn repeated(steps: &[Step]) -> Vec<Place> {
    let readers = |place: Place| steps.iter().filter(move |step| step.from.contains(&place));
    let is_repeated = |place: Place| readers(place).count() > 1 && readers(place).all(|step| follows(step, place));
    steps.iter().filter(|step| is_swift(step)).map(|step| step.to).filter(|&place| is_repeated(place)).collect()
}

/// Whether a step is one fast function of an operand of the region, with no other elements but one for each row or in all.
fn is_swift(step: &Step) -> bool {
    use Link::{Abs, Add, Max, Min, Multiply, Negate, Subtract};
    let is_fast = single(step).is_some_and(|link| matches!(link, Abs | Add | Max | Min | Multiply | Negate | Subtract));
    let mut many = (0..step.from.len()).filter(|&i| step.reads_one(i).is_none()).map(|i| step.from[i]);
    let first = many.next();
    let is_operand = matches!(first, Some(Place::Input(_))) && many.all(|place| Some(place) == first);
    is_fast && is_operand && matches!(step.to, Place::Slot(_))
}

/// Whether a step can follow what makes `place` in a chain, and reads no other elements but one for each row or in all.
fn follows(step: &Step, place: Place) -> bool {
    single(step).is_some() && (0..step.from.len()).all(|i| step.from[i] == place || step.reads_one(i).is_some())
}

/// The places that a step reads.
fn distinct(step: &Step) -> Vec<Place> {
    let is_first = |(i, place): &(usize, &Place)| !step.from[..*i].contains(place);
    step.from.iter().enumerate().filter(is_first).map(|(_, place)| *place).collect()
}

/// The step that a step can follow in one chain, and the operand that this makes: the longest chain there is.
fn head(joined: &[Step], step: &Step, is_joined: impl Fn(Place) -> bool) -> Option<(usize, usize)> {
    single(step)?;
    let heads = step.from.iter().enumerate().filter_map(|(operand, &place)| {
        let head = joined.iter().position(|head| head.to == place && is_joined(place))?;
        let len = joints(&joined[head])?.1.len();
        (len < LINKS).then_some((len, head, operand))
    });
    heads.max().map(|(_, head, operand)| (head, operand))
}

/// The function of a step that computes as many elements as the region has from as many.
fn single(step: &Step) -> Option<Link> {
    match &step.what {
        What::Kernel(kernel) if step.extent == Extent::Whole => kernel.link,
        _ => None,
    }
}

/// A step as a chain: its operands, and the functions.
fn joints(step: &Step) -> Option<(Vec<Place>, Vec<Joint>)> {
    if let What::Chain(joints) = &step.what {
        return Some((step.from.clone(), joints.clone()));
    }
    single(step)?;
    let first = (0..step.from.len()).find(|&i| step.reads_one(i).is_none())?;
    let mut from = vec![step.from[first]];
    let joint = joint(step, first, &mut from)?;
    Some((from, vec![joint]))
}

/// The function of a step in a chain that makes its operand number `running`; the other one is added to those in `from`.
fn joint(step: &Step, running: usize, from: &mut Vec<Place>) -> Option<Joint> {
    let link = single(step)?;
    let other = (0..step.from.len()).find(|&i| step.from[i] != step.from[running]);
    let beside = other.map(|i| {
        from.push(step.from[i]);
        (from.len() - 1, step.reads_one(i).unwrap_or(Extent::Whole))
    });
    Some(Joint { link, beside, times: None, turned: other == Some(0) })
}

/// One chain of both, where the first makes an operand of the second.
fn follow(head: &Step, step: &Step, operand: usize) -> Step {
    let (mut from, mut all) = joints(head).expect("a head is a chain");
    all.extend(joint(step, operand, &mut from));
    Step { what: What::Chain(all), from, to: step.to, extent: Extent::Whole, one: None }
}

/// A step that multiplies elements by one number, and the function in a chain that alone reads what it makes.
fn product(joined: &[Step], step: &Step, is_private: impl Fn(Place) -> bool) -> Option<(usize, usize)> {
    let What::Chain(joints) = &step.what else { return None };
    joints.iter().enumerate().find_map(|(number, joint)| {
        let (operand, extent) = joint.beside.filter(|_| joint.times.is_none())?;
        let place = step.from[operand];
        let makes =
            |product: &Step| product.to == place && single(product) == Some(Link::Multiply) && product.one.is_some();
        let product = joined.iter().position(makes)?;
        (extent == Extent::Whole && is_private(place)).then_some((product, number))
    })
}

/// Has a chain multiply the operand of a function itself.
fn multiply(step: &mut Step, number: usize, product: &Step) {
    let (What::Chain(joints), Some((one, extent))) = (&mut step.what, product.one) else { return };
    if let Some((operand, _)) = joints[number].beside {
        step.from[operand] = product.from[1 - one];
        step.from.push(product.from[one]);
        joints[number].times = Some((step.from.len() - 1, extent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::fused::compile;
    use crate::program::{Binary, Constant, Fold, Fused, Instruction, Op, Program, Reduce, Unary};
    use crate::scalar;
    use crate::types::{TensorType, Type};

    /// x / 2 * (1 + erf(x / 1.5))
    fn gelu(dtype: Type) -> Fused {
        let (vector, one) = (TensorType::new(dtype, [9].to_vec()), TensorType::new(dtype, vec![]));
        let number = |n| (Op::Constant(Constant { bytes: scalar::from_f64(dtype, n) }), vec![], one.clone());
        let two = |op, a, b| (Op::Binary(op), vec![a, b], vector.clone());
        let instructions = [
            number(0.5),
            number(1.0),
            number(1.5),
            two(Binary::Multiply, 0, 1),
            two(Binary::Divide, 0, 3),
            (Op::Unary(Unary::Erf), vec![5], vector.clone()),
            two(Binary::Add, 2, 6),
            two(Binary::Multiply, 4, 7),
        ];
        let instructions = instructions.map(|(op, inputs, out)| Instruction { op, inputs, outputs: vec![out] });
        let body = Program { inputs: vec![vector], instructions: instructions.to_vec(), outputs: vec![8] };
        Fused { shape: vec![9], row_axes: 0, extents: vec![Extent::Whole], patterns: vec![], body }
    }

    /// x less a number for each row by the root of the sum of its squares.
    fn norm(row: usize) -> Fused {
        let [matrix, column] = [[4, row], [4, 1]].map(|shape| TensorType::new(Type::F32, shape.to_vec()));
        let sum = Op::Reduce(Reduce { fold: Fold::Sum, axes: Some(vec![1]), keep_axes: true });
        let instructions = [
            (Op::Binary(Binary::Subtract), vec![0, 1], matrix.clone()),
            (Op::Binary(Binary::Multiply), vec![2, 2], matrix.clone()),
            (sum, vec![3], column.clone()),
            (Op::Unary(Unary::Sqrt), vec![4], column.clone()),
            (Op::Binary(Binary::Divide), vec![2, 5], matrix.clone()),
        ];
        let instructions = instructions.map(|(op, inputs, out)| Instruction { op, inputs, outputs: vec![out] });
        let body = Program { inputs: vec![matrix, column], instructions: instructions.to_vec(), outputs: vec![6] };
        Fused { shape: vec![4, row], row_axes: 1, extents: vec![Extent::Whole, Extent::Row], patterns: vec![], body }
    }

    fn chains(fused: &Fused) -> Vec<usize> {
        let len = |step: &Step| if let What::Chain(joints) = &step.what { joints.len() } else { 0 };
        compile(fused).expect("known operations").steps.iter().map(len).collect()
    }

    #[test]
    fn what_is_fast_to_make_again_is_not_kept() {
        // The squares, their sum, its root, the quotients.
        assert_eq!(chains(&norm(300)), [2, 0, 0, 2]);
    }

    #[test]
    fn short_rows_are_kept() {
        assert!(chains(&norm(30)).len() > 4);
    }

    #[test]
    fn a_gelu_is_one_loop() {
        assert_eq!(chains(&gelu(Type::F32)), [4]);
    }

    #[test]
    fn other_types_have_a_loop_for_each_function() {
        assert_eq!(chains(&gelu(Type::F64)), [0; 5]);
    }
}
