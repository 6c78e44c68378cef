//! Program parts that can be asked for by name, and kinds whose wishes travel.

use kumiki_resource::kind::Kind;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A program part: what can be called on a resource wherever that is. A closure cannot travel;
/// a part is known by its kind, its name and its version at both sides, and only what it takes
/// and gives goes over the line.
///
/// This is what its caller knows. A place that has it knows how to [`Run`] or to [`Block`] it, too.
///
/// ```
/// use kumiki_places::standard::Counter;
/// use kumiki_places::{Part, Run};
///
/// /// Doubles a counter.
/// struct Double;
///
/// impl Part for Double {
///     type Kind = Counter;
///     const NAME: &'static str = "double";
///     type In = ();
///     type Out = i64;
/// }
///
/// impl Run for Double {
///     fn run(counter: &mut Counter, (): &mut (), (): ()) -> i64 {
///         counter.0 *= 2;
///         counter.0
///     }
/// }
/// ```
pub trait Part: 'static {
    /// Kind of resources on which it runs.
    type Kind: Kind;
    /// Its name within the kind.
    const NAME: &'static str;
    /// A number that changes when what it takes, gives or means does.
    const VERSION: u32 = 1;
    /// Input's type.
    type In: Serialize + DeserializeOwned + Send + 'static;
    /// Output's type.
    type Out: Serialize + DeserializeOwned + Send + 'static;
}

/// A program part that is short and does not block.
pub trait Run: Part {
    /// Runs on the owner's thread, one at a time.
    fn run(
        resource: &mut Self::Kind,
        pool: &mut <Self::Kind as Kind>::Pool,
        input: Self::In,
    ) -> Self::Out;
}

/// The part of a [`Block`] that may block.
pub type Work<T> = Box<dyn FnOnce() -> T + Send>;

/// A program part that says that it may block: it has a thread of its own, and its place serves others
/// meanwhile. Several of one resource may be at it at the same time, also those of one batch.
///
/// ```
/// use kumiki_places::standard::Counter;
/// use kumiki_places::{Block, Part, Work};
///
/// /// Gives a counter's value after so many milliseconds.
/// struct Later;
///
/// impl Part for Later {
///     type Kind = Counter;
///     const NAME: &'static str = "later";
///     type In = u64;
///     type Out = i64;
/// }
///
/// impl Block for Later {
///     fn begin(counter: &mut Counter, (): &mut (), ms: u64) -> Work<i64> {
///         let value = counter.0;
///         Box::new(move || {
///             std::thread::sleep(std::time::Duration::from_millis(ms));
///             value
///         })
///     }
/// }
/// ```
pub trait Block: Part {
    /// Takes from the resource what the work needs, on the owner's thread: it is short. What it gives
    /// runs on a thread of its own, on the owner's cpu, and may outlive the resource.
    fn begin(
        resource: &mut Self::Kind,
        pool: &mut <Self::Kind as Kind>::Pool,
        input: Self::In,
    ) -> Work<Self::Out>;
}

/// A kind that can be made from afar: its wishes travel.
pub trait Portable: Kind<Spec: Serialize + DeserializeOwned> {
    /// A number that changes when its wishes do.
    const VERSION: u32 = 1;
}
