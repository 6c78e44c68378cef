//! A share of a batch that another thread executes.

use std::marker::PhantomData;

use kumiki_parasc::Request;

use super::Execute;
use super::plain::Loop;

/// Some requests and the places of their results, lent to another thread
/// without a lifetime, as its queue can have none.
#[derive(Debug)]
pub(crate) struct Share {
    requests: *const Request,
    results: *mut i64,
    len: usize,
    _both: PhantomData<(Request, i64)>,
}

// SAFETY: requests are plain data, results are written by whoever has the share.
unsafe impl Send for Share {}

impl Share {
    /// Cuts a batch into so many shares, which are as equal as can be; fewer,
    /// if there are not that many requests.
    pub(crate) fn cut<'a>(
        requests: &'a [Request],
        results: &'a mut [i64],
        shares: usize,
    ) -> impl Iterator<Item = Share> + 'a {
        assert_eq!(requests.len(), results.len());
        let each = requests.len().div_ceil(shares).max(1);
        requests.chunks(each).zip(results.chunks_mut(each)).map(|(requests, results)| Share {
            requests: requests.as_ptr(),
            results: results.as_mut_ptr(),
            len: requests.len(),
            _both: PhantomData,
        })
    }

    /// Makes its calls.
    ///
    /// # Safety
    /// Whoever cut the batch has promised what [`Execute::execute`] asks for,
    /// and keeps requests and results until it has seen that this is over.
    pub(crate) unsafe fn execute(self) {
        // SAFETY: a part of the slice that was cut, which is kept.
        let requests = unsafe { std::slice::from_raw_parts(self.requests, self.len) };
        // SAFETY: as above, and of this share alone.
        let results = unsafe { std::slice::from_raw_parts_mut(self.results, self.len) };
        // SAFETY: the caller's promise.
        unsafe { Loop.execute(requests, results) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_without_remainder() {
        for (n, shares, expected) in
            [(300, 2, vec![150, 150]), (5, 2, vec![3, 2]), (1, 2, vec![1]), (3, 8, vec![1, 1, 1])]
        {
            let requests = vec![Request::default(); n];
            let mut results = vec![0; n];
            let lengths: Vec<_> =
                Share::cut(&requests, &mut results, shares).map(|share| share.len).collect();
            assert_eq!(lengths, expected, "{n} in {shares}");
        }
    }
}
