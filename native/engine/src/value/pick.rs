//! Elements at places that other values name, and truths.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::tensor::{BoolTensor, IndexingUpdateOp};
use burn_backend::{Scalar, Shape, Slice};
use burn_dispatch::Dispatch;

use super::{BOOL, Value, stored_shape};
use crate::cpu;
use crate::types::Type;

impl Value {
    /// The slices at `places`, a line of integers, along `axis`.
    pub(crate) fn select(self, axis: usize, places: Self) -> Self {
        if self.flex().is_some()
            && let Ok(Some(taken)) = cpu::take(&self, axis, &places)
        {
            return taken;
        }
        let places = places.into_tensor();
        by_class!(self, |t| Dispatch::float_select(t, axis, places.clone()), |t| Dispatch::int_select(
            t,
            axis,
            places.clone()
        ))
    }

    /// With the slices at `places` along `axis` changed by those of `updates`.
    pub(crate) fn select_assign(self, axis: usize, places: Self, updates: Self, how: IndexingUpdateOp) -> Self {
        let (places, updates) = (places.into_tensor(), updates.into_tensor());
        by_class!(self, |t| Dispatch::float_select_assign(t, axis, places.clone(), updates.clone(), how), |t| {
            Dispatch::int_select_assign(t, axis, places.clone(), updates.clone(), how)
        })
    }

    /// The element of `axis` that `places` names, for each element of `places`.
    pub(crate) fn gather(self, axis: usize, places: Self) -> Self {
        let places = self.stored_places(places).into_tensor();
        by_class!(self, |t| Dispatch::float_gather(axis, t, places.clone()), |t| Dispatch::int_gather(
            axis,
            t,
            places.clone()
        ))
    }

    /// `places`, once for each stored number.
    fn stored_places(&self, places: Self) -> Self {
        if !self.dtype.is_complex() {
            return places;
        }
        let shape = places.shape();
        let line = [&shape[..], &[1]].concat();
        places.reshape(&line).expand(&[&shape[..], &[2]].concat())
    }

    /// `on_true` where `mask` holds, this value elsewhere; all of one shape.
    pub fn mask_where(self, mask: BoolTensor<Dispatch>, on_true: Self) -> Self {
        let (mask, on_true) = (self.stored_mask(mask), on_true.into_tensor());
        by_class!(self, |t| Dispatch::float_mask_where(t, mask.clone(), on_true.clone()), |t| Dispatch::int_mask_where(
            t,
            mask.clone(),
            on_true.clone()
        ))
    }

    /// `mask`, once for each stored number.
    fn stored_mask(&self, mask: BoolTensor<Dispatch>) -> BoolTensor<Dispatch> {
        if !self.dtype.is_complex() {
            return mask;
        }
        let shape = self.shape();
        let line = [&shape[..], &[1]].concat();
        Dispatch::bool_expand(Dispatch::bool_reshape(mask, Shape::from(line)), stored_shape(self.dtype, &shape))
    }

    /// Whether each element differs from zero; NaN does.
    pub fn truth(self) -> BoolTensor<Dispatch> {
        let (dtype, shape) = (self.dtype, self.shape());
        let truth = match dtype {
            // The bits of -0.0 are not 0.
            Type::F8 | Type::F8E4M3FN => {
                let size = Dispatch::bitwise_and_scalar(self.into_tensor(), Scalar::Int(0x7f));
                Dispatch::int_not_equal_elem(size, Scalar::Int(0), BOOL)
            }
            _ if dtype.storage().is_float() => {
                Dispatch::float_not_equal_elem(self.into_tensor(), Scalar::Float(0.0), BOOL)
            }
            _ => Dispatch::int_not_equal_elem(self.into_tensor(), Scalar::Int(0), BOOL),
        };
        if !dtype.is_complex() {
            return truth;
        }
        // Memory without elements has no second one to start at.
        let second = if shape.contains(&0) { 0..1 } else { 1..2 };
        let [re, im] = [0..1, second].map(|part| {
            let mut slices = vec![Slice::full(); shape.len()];
            slices.push(part.into());
            Dispatch::bool_slice(truth.clone(), &slices)
        });
        Dispatch::bool_reshape(Dispatch::bool_or(re, im), Shape::from(shape))
    }

    /// 0 or 1 of the real float type `dtype` for each element of `mask`.
    pub(crate) fn from_bool(mask: BoolTensor<Dispatch>, dtype: Type) -> Self {
        Self::new(dtype, Dispatch::bool_into_float(mask, dtype.storage().into()))
    }
}
