//! Files of tensors, and what a model file says beside them.

//! Files of tensors, and what a model file says beside them.

use std::collections::HashMap;
use std::path::Path;

use ex_burn_engine::file::{self, Contents};
use ex_burn_engine::manifest::Manifest;
use ex_burn_engine::program::Template;
use ex_burn_engine::{Device, Error, Result};
use rustler::{ResourceArc, Term};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::boundary::guard;
use crate::error::NifError;
use crate::list::List;
use crate::program::{Executable, executable};
use crate::tensor::{Tensor, Tensors};
use crate::term::{Plain, decode};

type Named = List<(String, ResourceArc<Tensor>)>;
type Texts = HashMap<String, String>;

/// Writes tensors and texts.
#[rustler::nif(schedule = "DirtyIo")]
fn file_write(path: String, tensors: Named, metadata: Texts) -> Result<(), NifError> {
    guard("save", || {
        let tensors = tensors.0.into_iter().map(|(name, tensor)| Ok((name, tensor.value("save")?)));
        let contents = Contents { tensors: tensors.collect::<Result<_>>()?, metadata: metadata.into_iter().collect() };
        file::write(Path::new(&path), &contents)
    })
}

/// Reads tensors and texts.
#[rustler::nif(schedule = "DirtyIo")]
fn file_read(path: String) -> Result<(Named, Texts), NifError> {
    guard("load", || {
        let contents = file::read(Path::new(&path), &Device::Cpu)?;
        let tensors = contents.tensors.into_iter().map(|(name, value)| (name, Tensor::resource(value))).collect();
        Ok((List(tensors), contents.metadata.into_iter().collect()))
    })
}

fn to_json(op: &str, data: &impl Serialize) -> Result<String> {
    serde_json::to_string(data).map_err(|e| Error::invalid(op, e))
}

fn from_json<T: DeserializeOwned>(op: &str, json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|e| Error::invalid(op, e))
}

/// The JSON form of a manifest.
#[rustler::nif(schedule = "DirtyCpu")]
fn manifest_to_json(manifest: Term<'_>) -> Result<String, NifError> {
    let manifest: Manifest = guard("manifest", || decode("manifest", manifest))?;
    guard("manifest", || to_json("manifest", &manifest))
}

/// A manifest from its JSON form, checked, as plain maps and lists.
#[rustler::nif(schedule = "DirtyCpu")]
fn manifest_from_json(json: String) -> Result<Plain, NifError> {
    guard("manifest", || {
        let manifest: Manifest = from_json("manifest", &json)?;
        serde_json::to_value(&manifest).map(Plain).map_err(|e| Error::invalid("manifest", e))
    })
}

/// The JSON form of the template behind programs of three batch sizes.
#[rustler::nif(schedule = "DirtyCpu")]
fn template_any(traces: List<(usize, Term<'_>)>) -> Result<String, NifError> {
    guard("template", || {
        let traces = traces.0.into_iter().map(|(batch, program)| Ok((batch, decode("program", program)?)));
        to_json("template", &Template::any(&traces.collect::<Result<Vec<_>>>()?)?)
    })
}

/// The JSON form of a template that has one program for each batch size.
#[rustler::nif(schedule = "DirtyCpu")]
fn template_sizes(programs: List<(usize, Term<'_>)>) -> Result<String, NifError> {
    guard("template", || {
        let programs = programs.0.into_iter().map(|(batch, program)| Ok((batch, decode("program", program)?)));
        to_json("template", &Template::Sizes(programs.collect::<Result<_>>()?))
    })
}

/// Prepares the template's program for `batch`; `captures` are the values of its last inputs.
#[rustler::nif(schedule = "DirtyCpu")]
fn template_program(template: String, batch: usize, captures: Tensors) -> Result<ResourceArc<Executable>, NifError> {
    guard("program", || {
        let template: Template = from_json("program", &template)?;
        executable(&template.program(batch)?, &captures)
    })
}
