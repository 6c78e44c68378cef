//! Kinds of refusals, as messages have them by number: the error and the wire both name them.

macro_rules! whys {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)+) => {
        /// Kind of a refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Why {
            $($(#[doc = $doc])+ $name = $number,)+
        }

        impl From<u16> for Why {
            fn from(number: u16) -> Why {
                match number {
                    $($number => Why::$name,)+
                    _ => Why::Other,
                }
            }
        }
    };
}

whys! {
    /// A reason that this version does not know.
    Other = 0,
    /// The message's version or the message itself cannot be read.
    Unreadable = 1,
    /// The place was started anew since: it knows neither leases nor ids from before.
    OtherLife = 2,
    /// The client's lease has ended, or never was.
    NoLease = 3,
    /// The client has said that it needs this answer no more.
    Forgotten = 4,
    /// No room is there for it: too many answers are kept for the client that it has not seen, or the disk is full.
    Full = 5,
    /// The answer is kept, and did not fit into this reply: ask for it again.
    AskAgain = 6,
    /// The place's allow-list does not have it.
    NotAllowed = 7,
    /// No such kind or program part.
    NoPart = 8,
    /// Client and place know different versions of a kind or program part.
    OtherVersion = 9,
    /// Input is not what the kind or program part takes.
    BadInput = 10,
    /// No resource has that name.
    NotFound = 11,
    /// A resource has that name already.
    Taken = 12,
    /// The resource was destroyed.
    Stale = 13,
    /// No such resource: there never was one, or it is of another kind.
    NoResource = 14,
    /// The kind's own refusal, or the system's.
    Kind = 15,
    /// The program part panicked.
    Panicked = 16,
    /// The owner died while it was at it: it has run, perhaps.
    Died = 17,
    /// The answer is larger than a message may be. The operation has run.
    AnswerTooLarge = 18,
    /// The part may block, and no line is held up: it is called at the place's socket or subject.
    Blocks = 19,
    /// The program of a process is not found at the place.
    NoProgram = 20,
    /// The program of a process is there, and is none to execute: a file without permission, or of no known format.
    NotExecutable = 21,
}
