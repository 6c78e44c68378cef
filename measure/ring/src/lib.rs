//! System calls made through an io_uring, each as the plain call of its name.
//!
//! io_uring means something else by many calls of the same name. So a batch is translated
//! request by request, by a table of one row a call, and what differs is made plain, as is
//! all that a ring answers with an error that says that nothing was done. A batch is one
//! io_uring_enter(2); a ring that breaks midway loses no request and makes none twice.
//!
//! ```text
//!   requests ──► row of the call? ──► entry ──► ring ──► result
//!                     │ no                       │ nothing was done
//!                     └───────────► plain call ◄─┘
//! ```
//!
//! ```
//! use kumiki_calls::Request;
//! use kumiki_ring::OwnRing;
//!
//! let mut ring = match OwnRing::new(8) {
//!     Ok(ring) => ring,
//!     Err(lack) => return println!("no ring: {}; {}", lack.reason, lack.remedy),
//! };
//! let closes = [Request::new(libc::SYS_close, [u64::MAX]); 2];
//! let mut results = [0; 2];
//! if ring.makes(&closes) {
//!     // SAFETY: no pointers, and no open descriptor.
//!     unsafe { ring.run(&closes, &mut results) };
//!     assert_eq!(results, [-i64::from(libc::EBADF); 2]);
//! }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod lack;
mod own;
#[cfg(feature = "io-uring")]
mod reason;
#[cfg(feature = "io-uring")]
mod ring;
#[cfg(feature = "io-uring")]
mod table;

#[cfg(not(feature = "io-uring"))]
#[path = "none.rs"]
mod ring;

pub use lack::Lack;
pub use own::OwnRing;
