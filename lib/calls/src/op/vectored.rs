//! Bytes between a file and several buffers, in one call.

use std::os::fd::AsFd;

use rustix::io::{Errno, ReadWriteFlags};

use super::output::descriptor;
use super::ranges::{Gather, Scatter};
use super::{BufferMut, Operation};
use crate::request::Request;

/// An operation whose field between the semicolons is several buffers, held by a
/// [`Gather`] or a [`Scatter`]. The request gets the array of ranges and its
/// length.
macro_rules! vectored {
    (
        $(#[$doc:meta])*
        pub struct $name:ident<F: AsFd, B: $bound:path> {
            $($before:ident: $before_type:ty),*;
            $buffers:ident: $held:ident;
            $($after:ident: $after_type:ty),*
        }
        |$op:ident, $ranges:ident, $count:ident| $request:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<F, B> {
            $($before: $before_type,)*
            $buffers: $held<B>,
            $($after: $after_type,)*
        }

        impl<F: AsFd, B: $bound> $name<F, B> {
            /// The call with these arguments, to be made.
            #[inline]
            pub fn new(
                $($before: $before_type,)* $buffers: Vec<B>, $($after: $after_type,)*
            ) -> Self {
                $name { $($before,)* $buffers: $held::new($buffers), $($after,)* }
            }

            /// The buffers.
            #[inline]
            pub fn into_buffers(self) -> Vec<B> {
                self.$buffers.into_buffers()
            }

            /// Values that were given to `new`, in the same order.
            #[inline]
            pub fn into_parts(self) -> ($($before_type,)* Vec<B>, $($after_type,)*) {
                ($(self.$before,)* self.$buffers.into_buffers(), $(self.$after,)*)
            }
        }

        // SAFETY: the call reads an array of ranges that the operation owns; the
        // ranges are the buffers' own memory, no more than they have.
        unsafe impl<F: AsFd, B: $bound> Operation for $name<F, B> {
            type Output = Result<usize, Errno>;

            #[inline]
            fn request(&mut self) -> Request {
                let ($ranges, $count) = self.$buffers.arguments();
                let $op = self;
                $request
            }

            #[inline]
            unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
                // SAFETY: the caller vouches for it; `request` handed the
                // arguments on.
                unsafe { self.$buffers.complete(ret_val) }
            }
        }
    };
}

vectored! {
    /// readv(2): reads at the open file's position, and moves it; gives the number
    /// of bytes in all.
    ///
    /// Each buffer is filled to its end before the next is begun; fewer bytes than
    /// there is room for may end in any of them. More than 1024 buffers
    /// (`IOV_MAX`) are an error, `EINVAL`.
    pub struct Readv<F: AsFd, B: BufferMut> { file: F; buffers: Scatter; }
    |op, ranges, count| Request::new(libc::SYS_readv, [descriptor(&op.file), ranges, count])
}

vectored! {
    /// preadv2(2): as [`Readv`], at `offset` bytes from the start, with flags for
    /// this one call. An offset of `u64::MAX` is the open file's position, which
    /// moves.
    pub struct Preadv2<F: AsFd, B: BufferMut> {
        file: F, offset: u64, flags: ReadWriteFlags;
        buffers: Scatter;
    }
    |op, ranges, count| {
        // The offset is whole where a register takes it; the kernel passes over
        // its upper half, which comes next.
        let flags = op.flags.bits().into();
        Request::new(
            libc::SYS_preadv2,
            [descriptor(&op.file), ranges, count, op.offset, 0, flags],
        )
    }
}

vectored! {
    /// writev(2): writes one buffer after the other at the open file's position,
    /// and moves it; gives the number of bytes in all. More than 1024 buffers
    /// (`IOV_MAX`) are an error, `EINVAL`.
    pub struct Writev<F: AsFd, B: AsRef<[u8]>> { file: F; data: Gather; }
    |op, ranges, count| Request::new(libc::SYS_writev, [descriptor(&op.file), ranges, count])
}

vectored! {
    /// pwritev2(2): as [`Writev`], at `offset` bytes from the start, with flags
    /// for this one call. An offset of `u64::MAX` is the open file's position,
    /// which moves; a file opened with
    /// [`OFlags::APPEND`](rustix::fs::OFlags::APPEND) is written at its end.
    pub struct Pwritev2<F: AsFd, B: AsRef<[u8]>> {
        file: F;
        data: Gather;
        offset: u64, flags: ReadWriteFlags
    }
    |op, ranges, count| {
        // As for `Preadv2`.
        let flags = op.flags.bits().into();
        Request::new(
            libc::SYS_pwritev2,
            [descriptor(&op.file), ranges, count, op.offset, 0, flags],
        )
    }
}

impl<F: AsFd, B: BufferMut> Readv<F, B> {
    /// Bytes that the last call read into each buffer.
    #[inline]
    pub fn filled(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.buffers.filled()
    }
}

impl<F: AsFd, B: BufferMut> Preadv2<F, B> {
    /// Bytes that the last call read into each buffer.
    #[inline]
    pub fn filled(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.buffers.filled()
    }
}
