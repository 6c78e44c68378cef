//! Program parts that can be asked for by name, and kinds whose wishes travel.

use kumiki_resource::Memory;
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
    /// False of a part that changes nothing, so that a durable (`Server::durable`) place need not write that it ran.
    const CHANGES: bool = true;
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

impl Portable for Memory {}

/// A kind whose resources a durable (`Server::durable`) place keeps: their states are written, all of one's state
/// after each call that may change it. So it is for what is small.
///
/// ```
/// use kumiki_places::Durable;
/// use kumiki_resource::kind::{About, Kind};
/// use kumiki_resource::{Place, Result};
///
/// /// A number of tickets that are left.
/// struct Tickets {
///     left: u32,
/// }
///
/// impl Durable for Tickets {
///     type State = u32;
///
///     fn state(&self) -> u32 {
///         self.left
///     }
///
///     fn restored(left: u32, (): &mut ()) -> Result<Tickets> {
///         Ok(Tickets { left })
///     }
/// }
/// #
/// # impl Kind for Tickets {
/// #     const NAME: &'static str = "tickets";
/// #     type Spec = u32;
/// #     type Pool = ();
/// #     fn pool(_: Place) -> Result<()> {
/// #         Ok(())
/// #     }
/// #     fn create(left: u32, (): &mut ()) -> Result<Tickets> {
/// #         Ok(Tickets { left })
/// #     }
/// #     fn destroy(self, (): &mut ()) {}
/// #     fn about(&self) -> About {
/// #         About::default()
/// #     }
/// # }
/// ```
pub trait Durable: Kind {
    /// A number that changes when the type of its state does.
    const FORM: u32 = 1;
    /// All of a resource that is kept, written as MessagePack.
    type State: Serialize + DeserializeOwned;

    /// A resource's state.
    fn state(&self) -> Self::State;

    /// A resource of this state.
    ///
    /// # Errors
    /// The place is not served then.
    fn restored(state: Self::State, pool: &mut Self::Pool) -> kumiki_resource::Result<Self>;

    /// Reads a state of an earlier form. None of one that is not known: the place is not served then, and says so.
    fn earlier(form: u32, state: &[u8]) -> Option<Self::State> {
        let _ = (form, state);
        None
    }
}
