//! Files of tensors, and what a model file says beside them.

use std::collections::BTreeMap;
use std::path::Path;

use ex_burn_engine::file::{self, Contents};
use ex_burn_engine::manifest::Manifest;
use ex_burn_engine::program::{Program, Template};
use ex_burn_engine::{Device, Error, Result};
use rustler::{ResourceArc, SerdeTerm};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::boundary::guard;
use crate::error::NifError;
use crate::program::{Executable, executable};
use crate::tensor::Tensor;

type Named = Vec<(String, ResourceArc<Tensor>)>;
type Texts = BTreeMap<String, String>;

/// Writes tensors and texts.
#[rustler::nif(schedule = "DirtyIo")]
fn file_write(path: String, tensors: Named, metadata: SerdeTerm<Texts>) -> Result<(), NifError> {
    guard("save", || {
        let tensors = tensors.into_iter().map(|(name, tensor)| Ok((name, tensor.value("save")?)));
        let contents = Contents { tensors: tensors.collect::<Result<_>>()?, metadata: metadata.0 };
        file::write(Path::new(&path), &contents)
    })
}

/// Reads tensors and texts.
#[rustler::nif(schedule = "DirtyIo")]
fn file_read(path: String) -> Result<(Named, SerdeTerm<Texts>), NifError> {
    guard("load", || {
        let contents = file::read(Path::new(&path), &Device::Cpu)?;
        let tensors = contents.tensors.into_iter().map(|(name, value)| (name, Tensor::resource(value))).collect();
        Ok((tensors, SerdeTerm(contents.metadata)))
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
fn manifest_to_json(manifest: SerdeTerm<Manifest>) -> Result<String, NifError> {
    guard("manifest", || to_json("manifest", &manifest.0))
}

/// A manifest from its JSON form.
#[rustler::nif(schedule = "DirtyCpu")]
fn manifest_from_json(json: String) -> Result<SerdeTerm<Manifest>, NifError> {
    guard("manifest", || from_json("manifest", &json).map(SerdeTerm))
}

/// The JSON form of the template behind programs of three batch sizes.
#[rustler::nif(schedule = "DirtyCpu")]
fn template_any(traces: Vec<(usize, SerdeTerm<Program>)>) -> Result<String, NifError> {
    let traces: Vec<_> = traces.into_iter().map(|(batch, program)| (batch, program.0)).collect();
    guard("template", || to_json("template", &Template::any(&traces)?))
}

/// The JSON form of a template that has one program for each batch size.
#[rustler::nif(schedule = "DirtyCpu")]
fn template_sizes(programs: Vec<(usize, SerdeTerm<Program>)>) -> Result<String, NifError> {
    let programs = programs.into_iter().map(|(batch, program)| (batch, program.0)).collect();
    guard("template", || to_json("template", &Template::Sizes(programs)))
}

/// Prepares the template's program for `batch`; `captures` are the values of its last inputs.
#[rustler::nif(schedule = "DirtyCpu")]
fn template_program(
    template: String,
    batch: usize,
    captures: Vec<ResourceArc<Tensor>>,
) -> Result<ResourceArc<Executable>, NifError> {
    guard("program", || {
        let template: Template = from_json("program", &template)?;
        executable(&template.program(batch)?, &captures)
    })
}
