//! Products of one matrix with several that are there already: the product with all of these side by side.

use std::collections::HashMap;

use super::{FEWEST, Product, concatenate, copy, upright};
use crate::passes::writer::Writer;
use crate::program::{Dot, Op, Program, Slice};
use crate::types::TensorType;

/// A left operand with the number of its axis that is summed over, and that axis of the right operands.
type Left = (usize, [usize; 2]);

/// The program with fewer products. Right operands are brought side by side only for enough left ones, or where all of them
/// are `lasting`.
pub(super) fn join(program: &Program, is_lasting: &dyn Fn(usize) -> bool) -> Program {
    let types = program.value_types();
    let groups = groups(program, &types, is_lasting);
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    let mut whole: HashMap<Left, usize> = HashMap::new();
    for instruction in &program.instructions {
        let member = Product::of(instruction, &types).and_then(|product| {
            let left = left(&product);
            Some((product, left, groups.get(&left)?))
        });
        let first = match member.filter(|(product, _, rights)| rights.contains(&product.operands[1])) {
            Some((product, left, rights)) => {
                let whole = *whole.entry(left).or_insert_with(|| side_by_side(&mut writer, &product, rights, &ids));
                part(&mut writer, whole, &product, rights, &types)
            }
            None => copy(&mut writer, instruction, &ids),
        };
        ids.extend(first..first + instruction.outputs.len());
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

fn left(product: &Product<'_>) -> Left {
    (product.operands[0], product.contract)
}

/// For each left operand the right ones that it is multiplied with, where as many others are multiplied with the same.
fn groups(program: &Program, types: &[&TensorType], is_lasting: &dyn Fn(usize) -> bool) -> HashMap<Left, Vec<usize>> {
    let mut groups: HashMap<Left, (usize, Vec<usize>)> = HashMap::new();
    let mut next = program.inputs.len();
    for instruction in &program.instructions {
        if let Some(product) = Product::of(instruction, types) {
            let (start, rights) = groups.entry(left(&product)).or_insert((next, vec![]));
            // Those that are made later can't be there when the first product is computed.
            if product.operands[1] < *start && !rights.contains(&product.operands[1]) {
                rights.push(product.operands[1]);
            }
        }
        next += instruction.outputs.len();
    }
    groups.values_mut().for_each(|(_, rights)| rights.sort_unstable());
    let mut uses: HashMap<(Vec<usize>, [usize; 2]), usize> = HashMap::new();
    groups.iter().for_each(|((_, axes), (_, rights))| *uses.entry((rights.clone(), *axes)).or_default() += 1);
    let is_enough = |axes: [usize; 2], rights: &Vec<usize>| uses[&(rights.clone(), axes)] >= FEWEST;
    let is_worth = |axes: [usize; 2], rights: &Vec<usize>| {
        rights.len() > 1 && (rights.iter().all(|&id| is_lasting(id)) || is_enough(axes, rights))
    };
    let kept = groups.into_iter().filter(|((_, axes), (_, rights))| is_worth(*axes, rights));
    kept.map(|(left, (_, rights))| (left, rights)).collect()
}

/// The product of a left operand with the right ones side by side.
fn side_by_side(writer: &mut Writer, product: &Product<'_>, rights: &[usize], ids: &[usize]) -> usize {
    let parts = upright(writer, rights.iter().map(|&id| ids[id]).collect(), product.contract[1]);
    let right = concatenate(writer, parts, 1);
    let columns = writer.ty(right).shape[1];
    let out = TensorType::new(product.out.dtype, [product.out.shape[0], columns]);
    let dot = Dot { rhs_contract: vec![0], ..product.dot.clone() };
    writer.one(Op::Dot(dot), vec![ids[product.operands[0]], right], &out)
}

/// The columns of a product that one of the right operands makes.
fn part(writer: &mut Writer, whole: usize, product: &Product<'_>, rights: &[usize], types: &[&TensorType]) -> usize {
    let before = rights.iter().take_while(|&&id| id != product.operands[1]);
    let start = before.map(|&id| types[id].shape[product.free[1]]).sum();
    let slice = Slice { starts: vec![0, start], lengths: product.out.shape.clone(), strides: vec![1, 1] };
    writer.one(Op::Slice(slice), vec![whole], product.out)
}
