//! What most operations are: some fields, the request made of them, and the
//! kernel's result in a type.

/// An operation that fills no memory.
///
/// The request may point only to its fields, to what they own, and for reading
/// to what they borrow. The type behind `=>` is an `output::FromReturn`. With
/// `unsafe` at the end the constructor is unsafe, for the reason that its comment
/// gives.
macro_rules! operation {
    (
        $(#[$doc:meta])*
        pub struct $name:ident $(<$($param:ident: $bound:path),+>)? {
            $($field:ident: $type:ty),* $(,)?
        }
        |$op:ident| $request:expr => $output:ty;
        $(#[$danger:meta])* unsafe
    ) => {
        operation! {
            @parts $(#[$doc])* $name ($(<$($param: $bound),+>)?) ($(<$($param),+>)?)
            { $($field: $type,)* } |$op| $request => $output
        }

        impl $(<$($param: $bound),+>)? $name $(<$($param),+>)? {
            /// The call with these arguments, to be made.
            ///
            $(#[$danger])*
            #[inline]
            pub const unsafe fn new($($field: $type),*) -> Self {
                $name { $($field),* }
            }
        }
    };
    (
        $(#[$doc:meta])*
        pub struct $name:ident $(<$($param:ident: $bound:path),+>)? {
            $($field:ident: $type:ty),* $(,)?
        }
        |$op:ident| $request:expr => $output:ty
    ) => {
        operation! {
            @parts $(#[$doc])* $name ($(<$($param: $bound),+>)?) ($(<$($param),+>)?)
            { $($field: $type,)* } |$op| $request => $output
        }

        impl $(<$($param: $bound),+>)? $name $(<$($param),+>)? {
            /// The call with these arguments, to be made.
            #[inline]
            #[allow(clippy::new_without_default)]
            pub const fn new($($field: $type),*) -> Self {
                $name { $($field),* }
            }
        }
    };
    (
        @parts $(#[$doc:meta])* $name:ident ($($bounded:tt)*) ($($params:tt)*)
        { $($field:ident: $type:ty,)* } |$op:ident| $request:expr => $output:ty
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name $($params)* {
            $($field: $type,)*
        }

        impl $($bounded)* $name $($params)* {
            /// Values that were given to `new`, in the same order.
            #[inline]
            #[allow(clippy::unused_unit, clippy::double_parens, unused_parens)]
            pub fn into_parts(self) -> ($($type),*) {
                ($(self.$field),*)
            }
        }

        // SAFETY: pointers lead to the fields and what they own, or for reading to
        // what they borrow; a call that could do harm has an unsafe constructor.
        unsafe impl $($bounded)* $crate::op::Operation for $name $($params)* {
            type Output = Result<$output, rustix::io::Errno>;

            #[inline]
            fn request(&mut self) -> $crate::request::Request {
                let $op = self;
                $request
            }

            #[inline]
            unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
                // SAFETY: the caller hands over what the kernel returned for
                // this call, once.
                unsafe { $crate::op::output::typed(ret_val) }
            }
        }
    };
}

/// An operation that fills its field `buffer`, the last, and gives the number
/// of bytes.
///
/// The request gets where to write and how many bytes at most. The call must write
/// all the bytes it tells of, from the first on and as far as there is room; where
/// it may write fewer, the request makes zeros of the room before
/// (`Range::clear`).
macro_rules! filling {
    (
        $(#[$doc:meta])*
        pub struct $name:ident <$($param:ident: $bound:path),*> {
            $($field:ident: $type:ty),* $(,)?
        }
        |$op:ident, $pointer:ident, $room:ident| $request:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$($param,)* B> {
            $($field: $type,)*
            buffer: $crate::op::buffer::Filling<B>,
        }

        impl<$($param: $bound,)* B: $crate::op::BufferMut> $name<$($param,)* B> {
            /// The call with these arguments, to be made.
            #[inline]
            pub const fn new($($field: $type,)* buffer: B) -> Self {
                $name { $($field,)* buffer: $crate::op::buffer::Filling::new(buffer) }
            }

            /// Bytes that the last call wrote.
            #[inline]
            pub fn filled(&self) -> &[u8] {
                self.buffer.filled()
            }

            /// The buffer.
            #[inline]
            pub fn into_buffer(self) -> B {
                self.buffer.into_inner()
            }

            /// Values that were given to `new`, in the same order.
            #[inline]
            pub fn into_parts(self) -> ($($type,)* B) {
                ($(self.$field,)* self.buffer.into_inner())
            }
        }

        // SAFETY: the call writes to the buffer's own memory, no more than it
        // has; other pointers lead to what the fields own or borrow, for reading.
        unsafe impl<$($param: $bound,)* B: $crate::op::BufferMut> $crate::op::Operation
            for $name<$($param,)* B>
        {
            type Output = Result<usize, rustix::io::Errno>;

            #[inline]
            fn request(&mut self) -> $crate::request::Request {
                let $op = self;
                let ($pointer, $room) = $op.buffer.begin();
                let $room = $room as u64;
                $request
            }

            #[inline]
            unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
                // SAFETY: any number is a count.
                let count: usize = unsafe { $crate::op::output::typed(ret_val) }?;
                // SAFETY: the kernel wrote so many bytes, as many as there is
                // room for, or they were zeros before.
                unsafe { self.buffer.end(count) };
                Ok(count)
            }
        }
    };
}
