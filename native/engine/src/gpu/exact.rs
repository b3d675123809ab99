//! Burn's products of matrices of `f32` without tensor cores: where a GPU has those for `f32`, they keep 10 bits of the mantissa.

use burn_backend::DType;
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::std::InputBinding;

use super::Adapter;
use super::transfer::empty;
use crate::error::Result;
use crate::types::{TensorType, Type};

/// The products of `[batch, rows, contracted]` and `[batch, contracted, columns]`, of which one may have a batch of one;
/// `None` where Burn has no kernel for the sizes.
pub(super) fn matmul(lhs: CubeTensor, rhs: CubeTensor, adapter: Adapter) -> Result<Option<CubeTensor>> {
    let [left, right] = [&lhs, &rhs].map(|tensor| tensor.meta.shape().to_vec());
    // Burn's own leaves gaps between the rows where memory of CUDA likes them.
    let out = empty(&TensorType::new(Type::F32, [left[0].max(right[0]), left[1], right[2]]), adapter)?;
    let single = dtype_to_storage_type(DType::F32);
    let mut types = MatmulElems::from_globals(&MatmulGlobalElems { lhs: single, rhs: single, out: single });
    let [lhs, rhs] = [lhs, rhs].map(|tensor| InputBinding::new(tensor.binding(), single));
    let strategy = Strategy::SimpleUnit(Default::default()).into();
    Ok(launch_ref(&strategy, &out.client, lhs, rhs, out.clone().binding(), &mut types).ok().map(|()| out))
}
