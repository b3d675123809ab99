//! Burn's products of matrices of `f32` without tensor cores: where a GPU has those for `f32`, they keep 10 bits of the mantissa.

use burn_backend::DType;
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::kernel::matmul::init_matmul_output;
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::std::InputBinding;

/// The products of `[batch, rows, contracted]` and `[batch, contracted, columns]`; `None` where Burn has no kernel for the sizes.
pub(super) fn matmul(lhs: CubeTensor, rhs: CubeTensor) -> Option<CubeTensor> {
    let out = init_matmul_output(&lhs, &rhs, DType::F32);
    let single = dtype_to_storage_type(DType::F32);
    let mut types = MatmulElems::from_globals(&MatmulGlobalElems { lhs: single, rhs: single, out: single });
    let [lhs, rhs] = [lhs, rhs].map(|tensor| InputBinding::new(tensor.binding(), single));
    let strategy = Strategy::SimpleUnit(Default::default()).into();
    launch_ref(&strategy, &out.client, lhs, rhs, out.clone().binding(), &mut types).ok()?;
    Some(out)
}
