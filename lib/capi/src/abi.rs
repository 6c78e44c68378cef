//! The types and constants of `kumiki/shadow.h`, and what they stand for in
//! Rust. A test compiles the header against them.

use std::ffi::c_uint;

use kumiki_copy::Method;
use kumiki_shadow::{Builder, Policy, Sleep, Threshold};
use kumiki_sys::topology::Relation;

use crate::failure::Failure;

/// A bit of [`Options::flags`].
pub const KUMIKI_SHADOW_SHARE: u32 = 1;
/// A bit of [`Options::flags`].
pub const KUMIKI_SHADOW_INLINE: u32 = 2;
/// A bit of [`Options::flags`].
pub const KUMIKI_SHADOW_BIND_MAIN: u32 = 4;
/// A value of [`Options::threshold_ticks`].
pub const KUMIKI_SHADOW_ADAPTIVE: i64 = -1;
/// A value of [`Options::threshold_ticks`].
pub const KUMIKI_SHADOW_INFINITE: i64 = -2;

/// `struct kumiki_shadow_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// -1 for where the caller runs.
    pub main_cpu: i32,
    /// -1 for the nearest.
    pub helper_cpu: i32,
    /// [`KUMIKI_SHADOW_SHARE`], [`KUMIKI_SHADOW_INLINE`], [`KUMIKI_SHADOW_BIND_MAIN`].
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Ticks, or [`KUMIKI_SHADOW_ADAPTIVE`], [`KUMIKI_SHADOW_INFINITE`].
    pub threshold_ticks: i64,
}

impl Default for Options {
    /// `KUMIKI_SHADOW_OPTIONS_INIT`.
    fn default() -> Self {
        let (main_cpu, helper_cpu, threshold_ticks) = (-1, -1, KUMIKI_SHADOW_ADAPTIVE);
        Options { main_cpu, helper_cpu, flags: 0, reserved: 0, threshold_ticks }
    }
}

/// `struct kumiki_shadow_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// -1 without a helper.
    pub main_cpu: i32,
    /// -1 without a helper.
    pub helper_cpu: i32,
    /// Relation of the two cpus, a value of [`relation`].
    pub relation: u32,
    /// 0 unless the two have a cache.
    pub cache_level: u32,
    /// Way to sleep, a value of [`sleep`].
    pub sleep: u32,
    /// 1 or 0.
    pub asymmetric: u32,
}

/// `enum kumiki_shadow_relation`.
#[allow(missing_docs, reason = "the header has them")]
pub mod relation {
    pub const KUMIKI_SHADOW_SAME: u32 = 0;
    pub const KUMIKI_SHADOW_SIBLING: u32 = 1;
    pub const KUMIKI_SHADOW_CACHE: u32 = 2;
    pub const KUMIKI_SHADOW_NODE: u32 = 3;
    pub const KUMIKI_SHADOW_PACKAGE: u32 = 4;
    pub const KUMIKI_SHADOW_REMOTE: u32 = 5;
}

/// `enum kumiki_shadow_sleep`.
#[allow(missing_docs, reason = "the header has them")]
pub mod sleep {
    pub const KUMIKI_SHADOW_SLEEP_AUTO: u32 = 0;
    pub const KUMIKI_SHADOW_SLEEP_UMWAIT: u32 = 1;
    pub const KUMIKI_SHADOW_SLEEP_MWAITX: u32 = 2;
    pub const KUMIKI_SHADOW_SLEEP_FUTEX: u32 = 3;
    pub const KUMIKI_SHADOW_SLEEP_MWAIT: u32 = 4;
}

/// `enum kumiki_shadow_copy_method`.
#[allow(missing_docs, reason = "the header has them")]
pub mod method {
    pub const KUMIKI_SHADOW_COPY_AUTO: u32 = 0;
    pub const KUMIKI_SHADOW_COPY_PREFETCH: u32 = 1;
    pub const KUMIKI_SHADOW_COPY_BLOCK_256: u32 = 2;
    pub const KUMIKI_SHADOW_COPY_BLOCK_1024: u32 = 3;
    pub const KUMIKI_SHADOW_COPY_BLOCK_4096: u32 = 4;
    pub const KUMIKI_SHADOW_COPY_SPLIT: u32 = 5;
    pub const KUMIKI_SHADOW_COPY_COLD: u32 = 6;
}

impl Options {
    /// The builder in Rust; `None` with [`KUMIKI_SHADOW_INLINE`].
    pub(crate) fn builder(&self) -> Result<Option<Builder>, Failure> {
        let Options { main_cpu, helper_cpu, flags, reserved, threshold_ticks } = *self;
        if flags & !(KUMIKI_SHADOW_SHARE | KUMIKI_SHADOW_INLINE | KUMIKI_SHADOW_BIND_MAIN) != 0
            || reserved != 0
        {
            return Err(Failure::invalid(format!(
                "flags {flags:#x} and reserved {reserved:#x}: only KUMIKI_SHADOW_SHARE, KUMIKI_SHADOW_INLINE \
                 and KUMIKI_SHADOW_BIND_MAIN are known, and reserved is 0; start from \
                 KUMIKI_SHADOW_OPTIONS_INIT"
            )));
        }
        let threshold = match threshold_ticks {
            KUMIKI_SHADOW_ADAPTIVE => Threshold::Adaptive,
            KUMIKI_SHADOW_INFINITE => Threshold::Infinite,
            ticks => Threshold::Ticks(u64::try_from(ticks).map_err(|_| {
                Failure::invalid(format!(
                    "a threshold of {ticks} ticks: take 0 or more, KUMIKI_SHADOW_ADAPTIVE or \
                     KUMIKI_SHADOW_INFINITE"
                ))
            })?),
        };
        let (main, helper) = (cpu(main_cpu)?, cpu(helper_cpu)?);
        if flags & (KUMIKI_SHADOW_INLINE | KUMIKI_SHADOW_BIND_MAIN)
            == KUMIKI_SHADOW_INLINE | KUMIKI_SHADOW_BIND_MAIN
        {
            let text = "KUMIKI_SHADOW_BIND_MAIN with KUMIKI_SHADOW_INLINE, which binds nothing: leave one away";
            return Err(Failure::invalid(text.to_owned()));
        }
        if flags & KUMIKI_SHADOW_INLINE != 0 {
            return match main.or(helper) {
                None => Ok(None),
                Some(cpu) => Err(Failure::invalid(format!(
                    "cpu {cpu} with KUMIKI_SHADOW_INLINE, which binds nothing: leave main_cpu and \
                     helper_cpu at -1"
                ))),
            };
        }
        let policy =
            Policy { threshold, ..Policy::from_env().map_err(kumiki_shadow::Error::from)? };
        let mut builder =
            Builder::new().policy(policy).bind_main(flags & KUMIKI_SHADOW_BIND_MAIN != 0);
        if let Some(cpu) = main {
            builder = builder.main_cpu(cpu);
        }
        if let Some(cpu) = helper {
            builder = builder.helper_cpu(cpu);
        }
        Ok(Some(if flags & KUMIKI_SHADOW_SHARE != 0 { builder.share() } else { builder }))
    }
}

/// -1 is no wish.
fn cpu(number: i32) -> Result<Option<usize>, Failure> {
    match number {
        -1 => Ok(None),
        _ => usize::try_from(number).map(Some).map_err(|_| {
            Failure::invalid(format!("cpu {number}: take a cpu's number, or -1 for any"))
        }),
    }
}

impl Info {
    pub(crate) fn of(info: Option<&kumiki_shadow::Info>) -> Info {
        // Numbers of cpus are below the kernel's CONFIG_NR_CPUS, some thousands.
        let cpu = |cpu: usize| i32::try_from(cpu).unwrap_or(-1);
        let (relation, cache_level) = match info.map_or(Relation::Same, |info| info.relation) {
            Relation::Same => (relation::KUMIKI_SHADOW_SAME, 0),
            Relation::Sibling => (relation::KUMIKI_SHADOW_SIBLING, 0),
            Relation::Cache { level } => (relation::KUMIKI_SHADOW_CACHE, level.into()),
            Relation::Node => (relation::KUMIKI_SHADOW_NODE, 0),
            Relation::Package => (relation::KUMIKI_SHADOW_PACKAGE, 0),
            Relation::Remote => (relation::KUMIKI_SHADOW_REMOTE, 0),
        };
        Info {
            main_cpu: info.map_or(-1, |info| cpu(info.main_cpu)),
            helper_cpu: info.map_or(-1, |info| cpu(info.helper_cpu)),
            relation,
            cache_level,
            sleep: match info.map_or(Sleep::Auto, |info| info.sleep) {
                Sleep::Auto => sleep::KUMIKI_SHADOW_SLEEP_AUTO,
                Sleep::Umwait => sleep::KUMIKI_SHADOW_SLEEP_UMWAIT,
                Sleep::Mwaitx => sleep::KUMIKI_SHADOW_SLEEP_MWAITX,
                Sleep::Mwait => sleep::KUMIKI_SHADOW_SLEEP_MWAIT,
                Sleep::Futex => sleep::KUMIKI_SHADOW_SLEEP_FUTEX,
            },
            asymmetric: info.is_some_and(|info| info.asymmetric).into(),
        }
    }
}

/// The method of a number that C chose.
pub(crate) fn method_of(number: c_uint) -> Result<Method, Failure> {
    Ok(match number {
        method::KUMIKI_SHADOW_COPY_AUTO => Method::Auto,
        method::KUMIKI_SHADOW_COPY_PREFETCH => Method::Prefetch,
        method::KUMIKI_SHADOW_COPY_BLOCK_256 => Method::Block(256),
        method::KUMIKI_SHADOW_COPY_BLOCK_1024 => Method::Block(1024),
        method::KUMIKI_SHADOW_COPY_BLOCK_4096 => Method::Block(4096),
        method::KUMIKI_SHADOW_COPY_SPLIT => Method::Split,
        method::KUMIKI_SHADOW_COPY_COLD => Method::Cold,
        other => {
            let text = format!("{other} is not a way to copy: see enum kumiki_shadow_copy_method");
            return Err(Failure::invalid(text));
        }
    })
}
