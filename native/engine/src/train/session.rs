//! A run on its own thread, and the handle its owner holds.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::control::{Answer, Batch, Control, Failure};
use super::event::{Ending, Event, Observer};
use super::job::{Config, Job, Signature, check_learning_rate};
use super::model::Model;
use super::optimizer::OptimizerState;
use super::passes::Passes;
use super::run::Run;
use super::scaling::LossScale;
use crate::error::{Error, Result};
use crate::exec::{Executable, Host, with_host};
use crate::panics::catch;
use crate::value::Value;

/// Autodiff graphs are freed recursively; the platforms' defaults start at half a megabyte.
const STACK: usize = 16 * 1024 * 1024;

/// The owner's handle of a run. Dropping it stops the run.
///
/// ```
/// use std::sync::{Arc, mpsc};
///
/// use ex_burn_engine::program::{Binary, Fold, Instruction, Op, Program, Reduce};
/// use ex_burn_engine::train::{Answer, Config, Event, Job, Rule, Session, Sgd};
/// use ex_burn_engine::{Device, TensorType, Type, Value, exec::Executable};
///
/// // loss = sum(w * x) over two rows, so the gradient of w is the sum of x
/// let (scalar, row) = (TensorType::new(Type::F32, []), TensorType::new(Type::F32, [2]));
/// let multiply = Instruction { op: Op::Binary(Binary::Multiply), inputs: vec![0, 1], outputs: vec![row.clone()] };
/// let sum = Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false });
/// let sum = Instruction { op: sum, inputs: vec![2], outputs: vec![scalar.clone()] };
/// let step = Program { inputs: vec![scalar.clone(), row.clone()], instructions: vec![multiply, sum], outputs: vec![3] };
///
/// let job = Job {
///     steps: vec![Arc::new(Executable::new(&step, vec![])?)],
///     params: vec![Value::full(&scalar, 1.0, &Device::Cpu)?],
///     data: Some(vec![Value::full(&row, 3.0, &Device::Cpu)?]),
///     ..Job::default()
/// };
/// let config =
///     Config { batch_size: 2, learning_rate: 0.5, optimizer: Some(Rule::Sgd(Sgd::default())), ..Config::default() };
/// let (sender, events) = mpsc::channel();
/// let session = Session::start(config, job, move |event| drop(sender.send(event)))?;
/// for event in events {
///     if let Event::Epoch(report) = event {
///         assert_eq!(report.loss, 6.0);
///         session.answer(Answer::Continue)?;
///     }
/// }
/// let (params, _states) = session.parameters();
/// assert_eq!(params[0].to_f64()?, 1.0 - 0.5 * 6.0);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    signature: Signature,
    control: Arc<Control>,
    model: Arc<Mutex<Model>>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    /// Checks `config` and `job`, then starts the thread, which tells `observer` what happens.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] or [`Error::Mismatch`] say what is wrong with the configuration, the data or a program.
    pub fn start(config: Config, job: Job, observer: impl Observer) -> Result<Self> {
        let checked = job.check(config)?;
        let control = Arc::new(Control::default());
        let observer = Arc::new(Mutex::new(observer));
        let device = checked.model.device().clone();
        let passes = Passes::new(config.gradients, config.checkpointing, device)?;
        let model = Arc::new(Mutex::new(checked.model));
        let run = Run {
            config,
            model: model.clone(),
            control: control.clone(),
            data: checked.data,
            validation: checked.validation,
            means: checked.means,
            rates: checked.rates,
            observer: {
                let observer = observer.clone();
                move |event| observer.lock().event(event)
            },
            passes,
            last: None,
        };
        let thread = std::thread::Builder::new().name("ex_burn_train".into()).stack_size(STACK);
        let thread = thread
            .spawn(move || with_host(host(run.control.clone(), observer), || finish(run)))
            .map_err(|e| Error::invalid("fit", format!("no thread: {e}")))?;
        Ok(Self { signature: checked.signature, control, model, thread: Some(thread) })
    }

    /// Answers the event of an epoch; false when the run is over.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when no epoch waits or the learning rate makes no sense.
    pub fn answer(&self, answer: Answer) -> Result<bool> {
        if let Answer::LearningRate(rate) = answer {
            check_learning_rate(rate)?;
        }
        self.control.answer(answer)
    }

    /// Gives a batch and the step program of its size to a run without data; false when the run is over.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the run has not asked for it, and as [`Session::start`] for the program.
    pub fn feed(&self, executable: Arc<Executable>, tensors: Vec<Value>) -> Result<bool> {
        let rows = self.signature.fed(&executable, &tensors)?;
        self.control.feed(Batch { executable, tensors, rows })
    }

    /// Says that the epoch has no more batches; false when the run is over.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the run takes no batches now.
    pub fn end_feed(&self) -> Result<bool> {
        self.control.end_feed()
    }

    /// Arguments of the call that [`Event::Call`] told of.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when no call waits for that.
    pub fn arguments(&self) -> Result<Vec<Value>> {
        self.control.arguments()
    }

    /// Goes on with the results of the call whose arguments were taken; false when the run is over.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when no call waits for results.
    pub fn resume(&self, results: Vec<Value>) -> Result<bool> {
        self.control.resume(results)
    }

    /// The step that ended the run by an error, if one did.
    pub fn failure(&self) -> Option<Failure> {
        self.control.failure()
    }

    /// Ends the run within one batch; false when it was over.
    pub fn stop(&self) -> bool {
        self.control.stop()
    }

    /// Parameters and states after the last good step, sharing memory with the run. A step is good when the loss after it is
    /// finite.
    pub fn parameters(&self) -> (Vec<Value>, Vec<Value>) {
        let model = self.model.lock();
        (model.params.clone(), model.states.clone())
    }

    /// The optimizer's memory after the last good step, sharing memory until the next one.
    pub fn optimizer_state(&self) -> OptimizerState {
        self.model.lock().optimizer.state().clone()
    }

    /// What losses are multiplied by after the last step, where they are.
    pub fn loss_scale(&self) -> Option<LossScale> {
        self.model.lock().loss_scale()
    }

    /// Waits until the thread has ended.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread catches its panics, so there is no other result.
            let _ = thread.join();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.control.stop();
    }
}

/// Hands calls of programs on to the owner and waits for the results.
fn host(control: Arc<Control>, observer: Arc<Mutex<impl Observer>>) -> Host {
    Box::new(move |id, arguments| {
        control.call(arguments);
        observer.lock().event(Event::Call(id));
        control.wait_results().ok_or_else(|| Error::invalid("fit", "stopped during a call into the host"))
    })
}

/// The thread's body: the data and the programs are given back before the last event is told.
fn finish<O: Observer>(mut run: Run<O>) {
    let result = catch("fit", || run.epochs());
    let Run { control, mut observer, data, validation, model, last, passes, .. } = run;
    drop((data, validation, model, last, passes));
    control.close();
    observer.event(match result {
        Ok(ending) => Event::Done(ending),
        // What was in the middle of a call when it was stopped ended with an error.
        Err(_) if control.stopped() => Event::Done(Ending::Stopped),
        Err(error) => Event::Failed(error),
    });
}
