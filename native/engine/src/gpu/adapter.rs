//! The GPUs of this machine, through wgpu: Vulkan, and Metal on macOS; through CUDA too with the feature `cuda`.

use std::sync::OnceLock;

use burn_cubecl::cubecl::Device as CubeDevice;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::cubecl::device::{CudaDevice, WgpuBackend, WgpuDevice, WgpuDeviceKind};
use burn_cubecl::cubecl::wgpu::{AutoGraphicsApi, RuntimeOptions, try_init_setup, wgpu};
use burn_std::stream::{StreamPolicy, set_policy};

use super::ask::{Thread, ask};
use super::layouts::Layouts;
use super::step::{One, Step, Two};
use super::tables::Tables;
use super::wait::wait;
use crate::error::{Error, Result};
use crate::panics::catch;

/// A GPU by its number in [`Adapter::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Adapter(usize);

/// What a GPU is.
struct Found {
    device: CubeDevice,
    started: OnceLock<std::result::Result<Started, String>>,
    layouts: Layouts,
    tables: Tables,
}

/// A GPU that works.
struct Started {
    client: Client,
    thread: Thread,
    /// wgpu's handle, where it is reached so.
    graphics: Option<wgpu::Device>,
}

fn start(device: &CubeDevice) -> Result<Started> {
    let graphics = match device {
        CubeDevice::Wgpu(own) => {
            let failed = |error| Error::invalid("device", format!("{error}"));
            let options = RuntimeOptions::try_default().map_err(failed)?;
            Some(try_init_setup::<AutoGraphicsApi>(own, options).map_err(failed)?.device)
        }
        _ => None,
    };
    let client = device.client();
    Ok(Started { thread: Thread::new(client.service_id().device), client, graphics })
}

/// The graphics API that wgpu reaches GPUs by, and its name. On macOS wgpu has no other.
const GRAPHICS: (WgpuBackend, &str) =
    if cfg!(target_vendor = "apple") { (WgpuBackend::Auto, "metal") } else { (WgpuBackend::Vulkan, "vulkan") };

/// The GPUs of CUDA, where this build has it, and those of [`GRAPHICS`]: without a Vulkan GPU wgpu would take OpenGL, whose limits
/// are others.
fn enumerate() -> Vec<CubeDevice> {
    use WgpuDeviceKind::*;
    let graphics = [DiscreteGpu(0), IntegratedGpu(0), VirtualGpu(0), Other(0), Cpu];
    let graphics = graphics.map(|kind| CubeDevice::Wgpu(WgpuDevice::new(kind).on(GRAPHICS.0)));
    // A driver may refuse in ways that CubeCL does not expect.
    let like = |first: CubeDevice| catch("device", || Ok(CubeDevice::enumerate(first.to_id()))).unwrap_or_default();
    [CubeDevice::Cuda(CudaDevice::new(0))].into_iter().chain(graphics).flat_map(like).map(CubeDevice::from_id).collect()
}

fn found() -> &'static [Found] {
    static FOUND: OnceLock<Vec<Found>> = OnceLock::new();
    FOUND.get_or_init(|| {
        // Processes of the BEAM move between threads, and a stream for each would hold memory of its own.
        set_policy(StreamPolicy::Single);
        enumerate()
            .into_iter()
            .map(|device| Found {
                device,
                started: OnceLock::new(),
                layouts: Layouts::default(),
                tables: Tables::default(),
            })
            .collect()
    })
}

impl Adapter {
    /// All GPUs: those of CUDA, then those of wgpu, which may be the same ones again; those of software last. Empty where there is
    /// no driver.
    pub fn all() -> Vec<Adapter> {
        let mut all: Vec<Adapter> = (0..found().len()).map(Adapter).collect();
        all.sort_by_key(|adapter| (adapter.is_software(), adapter.api() != "cuda"));
        all
    }

    /// The GPU that is Burn's `device`.
    pub(crate) fn of(device: &CubeDevice) -> Option<Adapter> {
        found().iter().position(|found| found.device == *device).map(Adapter)
    }

    /// `cuda`, `vulkan` or `metal`.
    pub fn api(&self) -> &'static str {
        match self.device() {
            CubeDevice::Cuda(_) => "cuda",
            _ => GRAPHICS.1,
        }
    }

    /// Whether the processor plays the GPU.
    pub fn is_software(&self) -> bool {
        matches!(&self.device(), CubeDevice::Wgpu(device) if matches!(device.kind, WgpuDeviceKind::Cpu))
    }

    /// Whether its own quotients and square roots are the nearest numbers.
    fn rounds(&self) -> bool {
        self.api() == "cuda"
    }

    /// The steps of a region as this GPU runs them.
    pub(super) fn steps(&self, steps: &[Step]) -> Vec<Step> {
        if self.rounds() { steps.to_vec() } else { nearest(steps) }
    }

    /// The maker's name.
    ///
    /// # Errors
    ///
    /// As [`Adapter::client`].
    pub fn name(&self) -> Result<String> {
        Ok(self.client()?.properties().identity.name.clone())
    }

    /// The most bytes that a tensor may have there.
    ///
    /// # Errors
    ///
    /// As [`Adapter::client`].
    pub fn largest(&self) -> Result<usize> {
        Ok(usize::try_from(self.client()?.properties().memory.max_page_size).unwrap_or(usize::MAX))
    }

    /// Waits until all that was asked of the GPU is done.
    ///
    /// # Errors
    ///
    /// As [`Adapter::client`], and [`Error::Invalid`] when the GPU failed.
    pub fn wait(&self) -> Result<()> {
        let client = self.client()?;
        let done = wait(ask(*self, || client.sync())?, *self);
        done.map_err(|error| Error::invalid("device", format!("the GPU failed: {error}")))
    }

    /// What kernels there are told about shapes.
    pub(super) fn layouts(&self) -> &'static Layouts {
        &found()[self.0].layouts
    }

    /// What kernels there are told about transforms.
    pub(super) fn tables(&self) -> &'static Tables {
        &found()[self.0].tables
    }

    /// Burn's name of the GPU.
    pub(crate) fn device(&self) -> CubeDevice {
        found()[self.0].device.clone()
    }

    /// The queue of the GPU, which is started when it is first asked for.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when it cannot be started.
    pub(crate) fn client(&self) -> Result<&'static Client> {
        Ok(&self.started()?.client)
    }

    /// The thread that the work of the GPU goes through.
    ///
    /// # Errors
    ///
    /// As [`Adapter::client`].
    pub(super) fn thread(&self) -> Result<&'static Thread> {
        Ok(&self.started()?.thread)
    }

    fn started(&self) -> Result<&'static Started> {
        let found = &found()[self.0];
        let started =
            found.started.get_or_init(|| catch("device", || start(&found.device)).map_err(|error| error.to_string()));
        started.as_ref().map_err(|reason| Error::invalid("device", format!("{} does not start: {reason}", self.api())))
    }

    /// Lets wgpu see what the GPU has done, which a thread of its own does otherwise, once it has woken up.
    pub(super) fn look(&self) {
        if let Ok(Started { graphics: Some(device), .. }) = self.started() {
            // What fails here fails whoever waits, too.
            let _ = device.poll(wgpu::PollType::Poll);
        }
    }
}

/// The steps for a device whose own quotients and roots may be off by some units of the last place.
fn nearest(steps: &[Step]) -> Vec<Step> {
    let nearest = |step: &Step| match *step {
        Step::One(One::Sqrt, x) => Step::One(One::NearestSqrt, x),
        Step::One(One::Rsqrt, x) => Step::One(One::NearestRsqrt, x),
        Step::Two(Two::DivideF, x, y) => Step::Two(Two::NearestDivideF, x, y),
        step => step,
    };
    steps.iter().map(nearest).collect()
}
