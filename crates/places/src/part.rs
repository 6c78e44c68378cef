//! Program parts that can be asked for by name, and kinds whose wishes travel.

use kumiki_resource::kind::Kind;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A program part: what can be called on a resource wherever that is. A closure cannot travel;
/// a part is known by its kind, its name and its version at both sides, and only what it takes
/// and gives goes over the line.
///
/// ```
/// use kumiki_places::Part;
/// use kumiki_places::standard::Counter;
///
/// /// Doubles a counter.
/// struct Double;
///
/// impl Part for Double {
///     type Kind = Counter;
///     const NAME: &'static str = "double";
///     type In = ();
///     type Out = i64;
///
///     fn run(counter: &mut Counter, (): &mut (), (): ()) -> i64 {
///         counter.0 *= 2;
///         counter.0
///     }
/// }
/// ```
pub trait Part: 'static {
    /// On resources of this kind.
    type Kind: Kind;
    /// Its name within the kind.
    const NAME: &'static str;
    /// A number that changes when what it takes, gives or means does.
    const VERSION: u32 = 1;
    /// Input's type.
    type In: Serialize + DeserializeOwned + Send + 'static;
    /// Output's type.
    type Out: Serialize + DeserializeOwned + Send + 'static;

    /// Runs on the owner's thread, one at a time: it is short, and does not block.
    fn run(
        resource: &mut Self::Kind,
        pool: &mut <Self::Kind as Kind>::Pool,
        input: Self::In,
    ) -> Self::Out;
}

/// A kind that can be made from afar: its wishes travel.
pub trait Portable: Kind<Spec: Serialize + DeserializeOwned> {
    /// A number that changes when its wishes do.
    const VERSION: u32 = 1;
}
