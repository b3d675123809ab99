defmodule ExBurn.NIF do
  @moduledoc false

  # Stubs of the native functions; `native/ex_burn/src` has a file for each group. Functions with a
  # `_dirty` twin run on the caller's scheduler and must end within a millisecond; the twin takes the rest.

  use Rustler,
    otp_app: :ex_burn,
    crate: "ex_burn",
    path: "native/ex_burn",
    features: ExBurn.NativeBuild.features(),
    env: ExBurn.NativeBuild.env()

  @external_resource "native/Cargo.toml"
  @external_resource "native/Cargo.lock"

  def panic_with(_message), do: not_loaded()
  def devices(_software?, _refused), do: not_loaded()
  def gpus(_software?), do: not_loaded()
  def gpu_kinds, do: not_loaded()
  def tensor_to_device(_tensor, _kind, _index), do: not_loaded()
  def device_memory(_kind, _index, _release?), do: not_loaded()
  def fallbacks, do: not_loaded()
  def refuse_fallbacks(_refused), do: not_loaded()
  def threads, do: not_loaded()
  def set_threads(_count), do: not_loaded()

  def tensor_from_binary(_type, _binary), do: not_loaded()
  def tensor_from_binary_dirty(_type, _binary), do: not_loaded()
  def tensor_over_binary(_type, _binary), do: not_loaded()
  def tensor_to_binary(_tensor, _limit), do: not_loaded()
  def tensor_to_binary_dirty(_tensor, _limit), do: not_loaded()
  def tensor_type(_tensor), do: not_loaded()
  def tensor_copy(_tensor), do: not_loaded()
  def tensor_free(_tensor), do: not_loaded()
  def memory_stand_in(_bytes), do: not_loaded()

  def tensor_address(_tensor), do: not_loaded()
  def tensor_share(_tensor, _permissions), do: not_loaded()
  def tensor_from_address(_type, _address), do: not_loaded()
  def tensor_from_shared(_type, _name), do: not_loaded()

  def instruction_run(_op, _inputs, _outputs), do: not_loaded()
  def instruction_run_dirty(_op, _inputs, _outputs), do: not_loaded()
  def instruction_run_on(_op, _inputs, _outputs, _kind, _index), do: not_loaded()

  def program_new(_program, _captures, _disabled \\ []), do: not_loaded()
  def program_passes, do: not_loaded()
  def program_from_json(_json, _captures), do: not_loaded()
  def program_to_json(_executable), do: not_loaded()
  def program_text(_executable), do: not_loaded()
  def program_patterns(_executable), do: not_loaded()
  def program_types(_executable), do: not_loaded()
  def program_captures(_executable), do: not_loaded()
  def program_is_brief(_executable), do: not_loaded()
  def program_run(_executable, _inputs, _donated), do: not_loaded()
  def program_run_dirty(_executable, _inputs, _donated), do: not_loaded()
  def program_run_on(_executable, _inputs, _donated, _kind, _index), do: not_loaded()
  def program_resume(_continuation, _results), do: not_loaded()
  def program_resume_dirty(_continuation, _results), do: not_loaded()

  def train_gradients_dirty(_executable, _n_params, _inputs, _checkpointing), do: not_loaded()
  def train_check_loss_dirty(_executable, _n_params), do: not_loaded()
  def train_profile_dirty(_executable, _batch, _config, _job), do: not_loaded()
  def train_start(_tag, _config, _job), do: not_loaded()
  def train_feed(_handle, _executable, _batch), do: not_loaded()
  def train_feed_end(_handle), do: not_loaded()
  def train_continue(_handle, _answer), do: not_loaded()
  def train_arguments(_handle), do: not_loaded()
  def train_resume(_handle, _results), do: not_loaded()
  def train_failure(_handle), do: not_loaded()
  def train_stop(_handle), do: not_loaded()
  def train_parameters(_handle), do: not_loaded()
  def train_optimizer_state(_handle), do: not_loaded()
  def train_loss_scale(_handle), do: not_loaded()

  def file_write(_path, _tensors, _metadata), do: not_loaded()
  def file_read(_path), do: not_loaded()
  def manifest_to_json(_manifest), do: not_loaded()
  def manifest_from_json(_json), do: not_loaded()
  def template_any(_traces), do: not_loaded()
  def template_sizes(_programs), do: not_loaded()
  def template_program(_template, _batch, _captures), do: not_loaded()

  defp not_loaded, do: :erlang.nif_error(:nif_not_loaded)
end
